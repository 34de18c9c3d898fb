//! Triggers of the federator: the deployments that a change of the index concerns.

use crate::index::{
    GatewayIndex, ObjectRef,
    change::{BindingChange, Change, CopyNews, NamespaceNews, SourceChange},
    derived::secondary,
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::key::Key;
use fedgate_kinds::CompanionKind;

/// Adds the keys of the deployments whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    keys.extend(former(index, change));
    match change {
        Change::HubNamespace {
            hub,
            news: NamespaceNews::Object | NamespaceNews::Owner,
        }
        | Change::CityPolicy { hub } => keys.extend(index.source_keys(hub)),
        Change::ProjectNamespace {
            project, namespace, ..
        } => index.source_keys_in(project, namespace, keys),
        Change::Suspension { project } => {
            index.all_source_keys(project, keys);
        }
        Change::Cluster { sources, .. } => keys.extend_from_slice(sources),
        Change::Binding(BindingChange {
            hub,
            template: Some((kind, name)),
            gone,
            ..
        }) => {
            let Some(owner) = index.owners.get(hub) else {
                return;
            };
            // A namesake of another group waits for the end of the binding that has its name.
            let waiting = gone.then(|| index.namesakes(*kind)).into_iter().flatten();
            let kinds = std::iter::once(*kind).chain(waiting);
            keys.extend(kinds.map(|kind| index.source_key(kind, &owner.project, &owner.namespace, name)));
        }
        Change::Copy {
            copy: ObjectRef { kind, hub, name },
            news: CopyNews::Moved | CopyNews::Content | CopyNews::Pinned,
        } => {
            let owner = index.owners.get(hub);
            keys.extend(owner.map(|owner| index.source_key(*kind, &owner.project, &owner.namespace, name)));
        }
        Change::Companion {
            kind,
            hub,
            name,
            released,
        } => {
            let Some(owner) = index.owners.get(hub) else {
                return;
            };
            referencing(index, &owner.project, *kind, &owner.namespace, name, keys);
            let row = index.hub.companions[*kind].get(hub, name);
            let listed = || row.into_iter().flat_map(|row| secondary::entries(&row.digest));
            // A deployment that dropped its reference may wait for the release of the companion, and so may the deletion of a
            // deployment that no longer references it.
            let concerned = released.clone().unwrap_or_else(|| listed().collect());
            let concerned = concerned.iter().filter_map(|entry| entry.split_once('/'));
            for (_, source) in concerned.filter(|(namespace, _)| *namespace == &*owner.namespace) {
                existing(index, &owner.project, &owner.namespace, source, keys);
            }
        }
        Change::Payload {
            project,
            kind,
            namespace,
            name,
        } => referencing(index, project, *kind, namespace, name, keys),
        Change::Source(SourceChange {
            project,
            kind,
            namespace,
            name,
            ..
        }) => keys.push(index.source_key(*kind, project, namespace, name)),
        Change::Keys(_)
        | Change::Binding(_)
        | Change::Copy { .. }
        | Change::HubNamespace { .. }
        | Change::Instance { .. } => {}
    }
}

/// The deployments that are being deleted of a namespace that was made again, if the change is of their hub namespace.
fn former(index: &GatewayIndex, change: &Change) -> Vec<Key> {
    match change {
        Change::HubNamespace {
            hub,
            news: NamespaceNews::Object,
        }
        | Change::CityPolicy { hub }
        | Change::Companion { hub, .. }
        | Change::Binding(BindingChange { hub, .. })
        | Change::Copy {
            copy: ObjectRef { hub, .. },
            news: CopyNews::Moved | CopyNews::Content | CopyNews::Pinned,
        } => index.former_source_keys(hub),
        _ => Vec::new(),
    }
}

/// The deployments that reference a `ConfigMap` or Secret of their namespace.
fn referencing(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: CompanionKind,
    namespace: &str,
    name: &str,
    keys: &mut Vec<Key>,
) {
    let of = index.projects.get(project).into_iter();
    let naming = of.flat_map(|of| of.secondary.naming(namespace, kind, name));
    keys.extend(naming.map(|(i, source)| index.source_key(i, project, namespace, source)));
}

/// The deployments of any kind with this name.
fn existing(index: &GatewayIndex, project: &ProjectKey, namespace: &str, name: &str, keys: &mut Vec<Key>) {
    let tables = index.projects.get(project).into_iter();
    let tables = tables.flat_map(|of| of.sources.enumerate());
    let existing = tables.filter(|(_, table)| table.get(namespace, name).is_some());
    keys.extend(existing.map(|(i, _)| index.source_key(i, project, namespace, name)));
}
