//! Triggers of city policies: the hub namespaces whose policies a change of the index concerns.

use crate::index::{
    GatewayIndex, ObjectRef, TableId,
    change::{BindingChange, Change, CopyNews, SourceChange},
};
use fedgate_engine::key::Key;

/// Adds the keys of the city policies whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    let key = |hub: &str| index.hub_key(TableId::CityPolicies, hub, "");
    match change {
        Change::HubNamespace { hub, .. }
        // In a namespace without its project the pins say whether the last delivery policy is needed.
        | Change::Copy {
            copy: ObjectRef { hub, .. },
            news: CopyNews::Moved | CopyNews::Pinned,
        }
        | Change::CityPolicy { hub }
        | Change::Binding(BindingChange {
            hub,
            template: Some(_),
            released: true,
            ..
        })
        | Change::ProjectNamespace { hub: Some(hub), .. }
        | Change::Source(SourceChange {
            hub: Some(hub),
            announced: true,
            ..
        }) => keys.push(key(hub)),
        Change::Companion { hub, .. } if index.has_pins() => keys.push(key(hub)),
        Change::Cluster { hubs, .. } => keys.extend(hubs.iter().map(|hub| key(hub.as_str()))),
        Change::Keys(_)
        | Change::Binding(_)
        | Change::Companion { .. }
        | Change::Copy { .. }
        | Change::Instance { .. }
        | Change::Payload { .. }
        | Change::ProjectNamespace { .. }
        | Change::Source(_)
        | Change::Suspension { .. } => {}
    }
}
