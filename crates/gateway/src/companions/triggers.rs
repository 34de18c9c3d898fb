//! Triggers of companions: the companions that a change of the index concerns.

use crate::index::{
    GatewayIndex, ObjectRef, TableId,
    change::{BindingChange, Change, CopyNews, NamespaceNews, SourceChange},
};
use fedgate_engine::key::Key;
use std::collections::BTreeSet;

/// Adds the keys of the companions whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        // The deletion of a companion waits for its binding.
        Change::Companion { kind, hub, name, .. } => {
            keys.push(index.hub_key(TableId::Companions(*kind), hub, name));
        }
        Change::HubNamespace { hub, news } => {
            index.companion_keys(hub, keys);
            if *news == NamespaceNews::Object {
                index.referenced_keys(hub, keys);
            }
        }
        Change::ProjectNamespace { hub: Some(hub), .. } => index.companion_keys(hub, keys),
        Change::CityPolicy { hub } => {
            index.referenced_keys(hub, keys);
            // A companion that no object references waits for the policy that withdraws it.
            if index.has_pins() {
                index.companion_keys(hub, keys);
            }
        }
        Change::Binding(BindingChange {
            hub,
            template: Some((kind, name)),
            released,
            applied,
            ..
        }) if *released || *applied && index.kinds[*kind].is_exactly_one() => {
            index.companion_keys_of(&ObjectRef::new(*kind, hub, name), keys);
        }
        Change::Copy {
            copy,
            news: CopyNews::Moved | CopyNews::Pinned,
        } => index.companion_keys_of(copy, keys),
        // A Cluster that has replaced a member gets no companion.
        Change::Cluster { pinned, .. } => {
            let mut ownerless = BTreeSet::new();
            for object in pinned {
                if index.owners.contains_key(&object.hub) {
                    index.companion_keys_of(object, keys);
                } else {
                    ownerless.insert(&object.hub);
                }
            }
            // All companions of a namespace without owner, once for each namespace.
            for hub in ownerless {
                index.companion_keys(hub, keys);
            }
        }
        Change::Payload {
            project,
            kind,
            namespace,
            name,
        } => {
            let hub = index.hub_namespace(project, namespace);
            keys.extend(hub.map(|hub| index.hub_key(TableId::Companions(*kind), hub.as_str(), name)));
        }
        Change::Source(SourceChange {
            kind,
            name,
            hub: Some(hub),
            announced,
            replaced,
            companions,
            references,
            ..
        }) => {
            for former in references {
                keys.push(index.hub_key(TableId::Companions(former.kind), hub, &former.name));
            }
            if *announced || *replaced || *companions {
                index.companion_keys_of(&ObjectRef::new(*kind, hub, name), keys);
            }
        }
        Change::Keys(_)
        | Change::Binding(_)
        | Change::Copy { .. }
        | Change::Instance { .. }
        | Change::ProjectNamespace { hub: None, .. }
        | Change::Source(_)
        | Change::Suspension { .. } => {}
    }
}
