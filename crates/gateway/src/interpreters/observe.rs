//! Snapshot of the hub's interpreters, taken from the index under one lock.

use super::decide::Snapshot;
use crate::index::{GatewayIndex, TableId};
use std::sync::Arc;
use tokio::time::Instant;

/// Takes the snapshot; `None` while the list of interpreters is incomplete.
pub(super) fn observe(index: &GatewayIndex, name: &Arc<str>, restored: Option<Instant>) -> Option<Snapshot> {
    let interpreters = &index.hub.interpreters;
    interpreters.synced().then(|| Snapshot {
        kinds: index.kinds.clone(),
        resource: index.resource(TableId::Interpreters),
        name: name.clone(),
        rows: interpreters
            .iter()
            .map(|((_, name), row)| (name.clone(), row.clone()))
            .collect(),
        restored,
    })
}
