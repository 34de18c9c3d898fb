//! What is known of the hub's interpreters, taken from the index in one go.

use super::decide::Snapshot;
use crate::gateway::world::{Role, World};
use std::sync::Arc;
use tokio::time::Instant;

/// Takes the snapshot; `None` while the list of interpreters is incomplete.
pub(super) fn observe(world: &World, name: &Arc<str>, restored: Option<Instant>) -> Option<Snapshot> {
    let interpreters = &world.hub.interpreters;
    interpreters.synced().then(|| Snapshot {
        kinds: world.kinds.clone(),
        resource: world.resource(Role::Interpreters),
        name: name.clone(),
        rows: interpreters
            .iter()
            .map(|((_, name), row)| (name.clone(), row.clone()))
            .collect(),
        restored,
    })
}
