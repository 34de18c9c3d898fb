//! State that the cell's controllers share beside the runtime's own, and which of their writes are logged.

use super::{
    index::{CellIndex, watches::Command},
    settings::Settings,
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    plan::{Effect, Target},
    runtime::{self, role::RoleState},
};

/// State of a cell beside the runtime's own.
#[derive(Debug)]
pub struct State {
    /// Settings.
    pub settings: Settings,
}

/// The state that all controllers share.
pub type Shared = runtime::context::Shared<State>;
/// Context of one reconcile.
pub type Context<'a> = runtime::context::Context<'a, State>;

/// Reasons of writes that change more than a status.
const STEPS: [&str; 19] = [
    "instance_missing",
    "instance_stray",
    "instance_surplus",
    "instance_fix_forward",
    "instance_roll",
    "instance_suspension",
    "instance_gates",
    "instance_network",
    "instance_released",
    "network_binding",
    "network_binding_unused",
    "quota_claim_anew",
    "pod",
    "pod_replaced",
    "pod_suspended",
    "pod_stopped",
    "write_back_leftover",
    "release_recorded",
    "release_done",
];

impl RoleState for State {
    type Index = CellIndex;

    /// Logs one line for each executed step.
    fn log_write(effect: &Effect) {
        let Effect { target, reason, .. } = effect;
        if STEPS.contains(reason) {
            let Target {
                plane,
                namespace,
                name,
                ..
            } = target;
            tracing::info!(%plane, kind = %target.kind(), namespace, name, reason, "done");
        }
    }
}

/// Requests the claims of a project, and thereby its connection.
pub fn request_project(shared: &Shared, project: &ProjectKey) {
    shared.send(Command::ConnectProject(project.clone()));
}
