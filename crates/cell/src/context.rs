//! State that the cell's controllers share beside the runtime's own, and which of their writes are logged.

use super::{index::CellIndex, reason::WriteReason, settings::Settings};
use fedgate_engine::{
    backoff::RetryTimer,
    key::Plane,
    plan::{Effect, Target},
    random::HashMap,
    runtime::{self, index::RoleState},
};
use parking_lot::Mutex;
use std::sync::Arc;

/// State of a cell beside the runtime's own.
#[derive(Debug, Default)]
pub struct State {
    /// Settings.
    pub settings: Arc<Settings>,
    /// Pauses before an object is released on a plane that did not answer.
    pub release_timers: Mutex<HashMap<Plane, RetryTimer>>,
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
