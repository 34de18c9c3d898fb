//! Triggers of hub Namespaces: those that a change of the index concerns. Without an owner, the garbage collector
//! reconciles their keys.

use crate::index::{
    GatewayIndex, ObjectRef, TableId,
    change::{BindingChange, Change, CopyNews, SourceChange},
};
use fedgate_engine::key::Key;

/// Adds the keys of the hub Namespaces whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    let key = |hub: &str| index.hub_key(TableId::Namespaces, "", hub);
    match change {
        Change::HubNamespace { hub, .. }
        // The object may have been the last one of an earlier owner.
        | Change::CityPolicy { hub }
        | Change::Companion {
            hub,
            released: Some(_),
            ..
        }
        | Change::Binding(BindingChange {
            hub,
            template: Some(_),
            released: true,
            ..
        })
        | Change::Source(SourceChange {
            hub: Some(hub),
            announced: true,
            ..
        }) => keys.push(key(hub)),
        Change::Copy {
            copy,
            news: CopyNews::Moved | CopyNews::Pinned,
        }
        | Change::Instance {
            instance: copy,
            moved: true,
            ..
        } => keys.push(key(&copy.hub)),
        // The object may have been the last one in a Namespace without an owner.
        Change::Binding(BindingChange { hub, gone: true, .. })
        | Change::Copy {
            copy: ObjectRef { hub, .. },
            news: CopyNews::Content,
        } => keys.extend((!index.owners.contains_key(hub)).then(|| key(hub))),
        Change::ProjectNamespace { left, hub, .. } => {
            keys.extend([left, hub].into_iter().flatten().map(|hub| key(hub)));
        }
        Change::Cluster { hubs, .. } => keys.extend(hubs.iter().map(|hub| key(hub.as_str()))),
        Change::Keys(_)
        | Change::Binding(_)
        | Change::Companion { .. }
        | Change::Copy { .. }
        | Change::Instance { .. }
        | Change::Payload { .. }
        | Change::Source(_)
        | Change::Suspension { .. } => {}
    }
}
