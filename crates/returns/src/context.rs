//! State that the role shares beside the runtime's own, and which of its writes are logged.

use super::index::ReturnsIndex;
use fedgate_engine::runtime::{self, index::RoleState};
use std::sync::Arc;

/// State beside the runtime's own.
#[derive(Debug)]
pub struct State {
    /// Name of the member's Karmada Cluster.
    pub member: Arc<str>,
}

/// The shared state.
pub type Shared = runtime::context::Shared<State>;
/// Context of one reconcile.
pub type Context<'a> = runtime::context::Context<'a, State>;

impl RoleState for State {
    type Index = ReturnsIndex;
}
