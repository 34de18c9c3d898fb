//! Triggers of returns: the Secrets that a change of the index concerns.

use crate::index::{
    GatewayIndex, ObjectRef,
    change::{Change, CopyNews, SourceChange},
};
use fedgate_engine::key::Key;
use fedgate_kinds::CompanionKind;

/// Adds the keys of the Secrets whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        // A Secret of the tenant's may have had the name.
        Change::Payload {
            project,
            kind: CompanionKind::SECRET,
            namespace,
            name,
        } => {
            let hub = index.hub_namespace(project, namespace);
            let awaited = hub.filter(|hub| index.returned(hub.as_str(), name, None).is_some());
            keys.extend(awaited.and_then(|hub| index.return_key(hub.as_str(), name)));
        }
        Change::Copy {
            copy,
            news: CopyNews::Moved | CopyNews::Content | CopyNews::Pinned,
        } => index.return_keys_of(copy, keys),
        Change::Source(SourceChange {
            kind,
            name,
            hub: Some(hub),
            replaced: true,
            ..
        }) => index.return_keys_of(&ObjectRef::new(*kind, hub, name), keys),
        Change::HubNamespace { hub, .. } | Change::ProjectNamespace { hub: Some(hub), .. } => {
            index.return_keys(hub, keys);
        }
        Change::Suspension { project } if index.has_returns() => {
            for hub in index.hub_namespaces_of(project) {
                index.return_keys(hub, keys);
            }
        }
        Change::Keys(_)
        | Change::Binding(_)
        | Change::CityPolicy { .. }
        | Change::Cluster { .. }
        | Change::Companion { .. }
        | Change::Copy { .. }
        | Change::Instance { .. }
        | Change::Payload { .. }
        | Change::ProjectNamespace { hub: None, .. }
        | Change::Source(_)
        | Change::Suspension { .. } => {}
    }
}
