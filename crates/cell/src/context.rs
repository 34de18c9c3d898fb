//! State that the cell's controllers share beside the runtime's own, and which of their writes are logged.

use super::{
    index::{CellIndex, watches::Command},
    reason::WriteReason,
    settings::Settings,
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    plan::{Effect, Target},
    runtime::{self, index::RoleState},
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

impl RoleState for State {
    type Index = CellIndex;

    /// Logs one line for each executed step.
    fn log_write(effect: &Effect) {
        let Effect { target, reason, .. } = effect;
        if WriteReason::of(*reason).is_some_and(WriteReason::is_milestone) {
            let Target {
                plane,
                namespace,
                name,
                ..
            } = target;
            tracing::info!(%plane, kind = %target.kind(), namespace, name, reason = reason.label(), "done");
        }
    }
}

/// Requests the claims of a project, and thereby its connection.
pub fn request_project(shared: &Shared, project: &ProjectKey) {
    shared.send(Command::ConnectProject(project.clone()));
}
