//! Triggers: the keys that a change of the index concerns, whichever controller reconciles them. A key tells its controller by plane
//! and kind, so that no controller is named here.

use crate::{
    index::{
        GatewayIndex, ObjectRef, TableId,
        change::{BindingChange, Change, CopyNews, NamespaceNews, SourceChange},
        derived::secondary,
    },
    queries::{cells, lifecycle},
};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::key::Key;
use fedgate_kinds::CompanionKind;
use std::collections::BTreeSet;

/// Adds the keys of every object whose decision may depend on a change. The `match` has no wildcard: a new change does not compile
/// until it is decided here whom it concerns.
pub(super) fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        Change::Keys(concerned) => keys.extend_from_slice(concerned),
        Change::HubNamespace { hub, news } => {
            if *news == NamespaceNews::Object {
                index.referenced_keys(hub, keys);
                keys.extend(index.former_source_keys(hub));
            }
            if *news != NamespaceNews::Proof {
                keys.extend(index.source_keys(hub));
            }
            index.namespace_keys(hub, keys);
            index.return_keys(hub, keys);
        }
        Change::ProjectNamespace {
            project,
            namespace,
            left,
            hub,
        } => {
            index.source_keys_in(project, namespace, keys);
            keys.extend(left.iter().map(|left| index.namespace_key(left)));
            if let Some(hub) = hub {
                index.namespace_keys(hub, keys);
                index.return_keys(hub, keys);
            }
            // Watches are not ordered: a Workload may appear before its namespace.
            let of = index.projects.get(project).into_iter();
            let workloads = of.flat_map(|of| of.workloads.in_namespace(namespace));
            keys.extend(workloads.map(|(name, _)| index.workload_key(project, namespace, name)));
        }
        Change::Suspension { project } => {
            index.all_source_keys(project, keys);
            for hub in index.hub_namespaces_of(project) {
                index.write_back_keys(hub, keys);
                index.return_keys(hub, keys);
            }
            keys.extend(index.workloads_naming(project, None));
        }
        Change::CityPolicy { hub } => {
            index.referenced_keys(hub, keys);
            // A companion that no object references waits for the policy that withdraws it.
            if index.has_pins() {
                index.companion_keys(hub, keys);
            }
            keys.extend(index.former_source_keys(hub));
            keys.extend(index.source_keys(hub));
            index.pinned_keys(hub, keys);
            // The policy may have been the last object of an earlier owner.
            keys.extend([index.namespace_key(hub), index.policies_key(hub)]);
        }
        Change::Cluster {
            sources,
            hubs,
            pinned,
        } => {
            let mut ownerless = BTreeSet::new();
            for object in pinned {
                // Of a namespace without an owner all companions are added, once, however many objects it has.
                if index.owners.contains_key(&object.hub) || ownerless.insert(&object.hub) {
                    index.companion_keys_of(object, keys);
                }
            }
            keys.extend_from_slice(sources);
            // The pinned Cluster alone tells whether an orphan is gone at its member.
            keys.extend(pinned.iter().map(|object| index.copy_key(object)));
            let hubs = hubs.iter().map(HubNamespace::as_str);
            keys.extend(hubs.flat_map(|hub| [index.namespace_key(hub), index.policies_key(hub)]));
        }
        Change::Moves => keys.push(index.moves_key()),
        Change::Binding(of) => binding(index, of, keys),
        Change::Copy { copy: of, news } => copy(index, of, *news, keys),
        Change::Companion {
            kind,
            hub,
            name,
            released,
        } => {
            keys.push(index.hub_key(TableId::Companions(*kind), hub, name));
            companion(index, *kind, hub, name, released.as_ref(), keys);
        }
        Change::Instance {
            instance,
            moved,
            is_write_back,
        } => {
            write_back(index, instance, *moved, *is_write_back, keys);
        }
        Change::Source(of) => source(index, of, keys),
        Change::Payload {
            project,
            kind,
            namespace,
            name,
        } => {
            let hub = index.hub_namespace(project, namespace);
            let hub = hub.as_ref().map(HubNamespace::as_str);
            keys.extend(hub.map(|hub| index.hub_key(TableId::Companions(*kind), hub, name)));
            referencing(index, project, *kind, namespace, name, keys);
            // The tenant's Secret may have had the name of one that comes back.
            let hub = hub.filter(|_| *kind == CompanionKind::SECRET);
            let hub = hub.filter(|hub| index.returned(hub, name, None).is_some());
            keys.extend(hub.and_then(|hub| index.return_key(hub, name)));
        }
    }
}

fn binding(index: &GatewayIndex, change: &BindingChange, keys: &mut Vec<Key>) {
    let hub = &change.hub;
    keys.extend(index.former_source_keys(hub));
    let Some(of) = &change.template else {
        // The binding may have been the last object in a Namespace without an owner.
        let is_last = change.gone && !index.owners.contains_key(hub);
        keys.extend(is_last.then(|| index.namespace_key(hub)));
        return;
    };
    let is_exactly_one = index.kinds[of.kind].is_exactly_one();
    if change.released || change.applied && is_exactly_one {
        index.companion_keys_of(of, keys);
    }
    keys.extend(index.source_key_of(of));
    if change.gone {
        // A namesake of another group waits for the end of the binding that has its name.
        let namesakes = index
            .namesakes(of.kind)
            .map(|kind| ObjectRef { kind, ..of.clone() });
        keys.extend(namesakes.filter_map(|namesake| index.source_key_of(&namesake)));
    }
    keys.extend(is_exactly_one.then(|| index.copy_key(of)));
    if change.released {
        keys.extend([index.namespace_key(hub), index.policies_key(hub)]);
    }
    if change.placed {
        index.write_back_keys_of(of, keys);
    }
}

fn write_back(index: &GatewayIndex, write_back: &ObjectRef, moved: bool, changed: bool, keys: &mut Vec<Key>) {
    keys.extend(moved.then(|| index.namespace_key(&write_back.hub)));
    keys.push(index.write_back_key(write_back));
    // The copy is to name its cell where another one has written.
    let of = changed.then(|| cells::written_elsewhere(index, write_back));
    keys.extend(of.flatten().and_then(|of| index.source_key_of(&of)));
}

fn copy(index: &GatewayIndex, of: &ObjectRef, news: CopyNews, keys: &mut Vec<Key>) {
    let ObjectRef { kind, hub, name } = of;
    match news {
        CopyNews::Moved | CopyNews::Pinned => {
            index.companion_keys_of(of, keys);
            // In a namespace without its project the pins tell whether the last delivery policy is needed.
            keys.extend([
                index.copy_key(of),
                index.namespace_key(hub),
                index.policies_key(hub),
            ]);
        }
        // The copy may have been the last object in a Namespace without an owner.
        CopyNews::Content if !index.owners.contains_key(hub) => keys.push(index.namespace_key(hub)),
        CopyNews::Content => {}
        CopyNews::Reported => {
            let Some((project, owner)) = index.owning(hub) else {
                return;
            };
            let projections = project.projections[*kind].in_namespace(&owner.namespace);
            let of_deployment = projections.filter(|(_, row)| {
                let owner = row.digest.owner.as_ref();
                owner.is_some_and(|(deployment, _)| deployment == name)
            });
            keys.extend(of_deployment.map(|(name, _)| index.hub_key(TableId::WrittenBack(*kind), hub, name)));
            return;
        }
    }
    keys.extend(index.former_source_keys(hub));
    keys.extend(index.source_key_of(of));
    if news == CopyNews::Moved {
        index.write_back_keys_of(of, keys);
    }
    index.return_keys_of(of, keys);
}

fn companion(
    index: &GatewayIndex,
    kind: CompanionKind,
    hub: &str,
    name: &str,
    released: Option<&BTreeSet<String>>,
    keys: &mut Vec<Key>,
) {
    keys.extend(index.former_source_keys(hub));
    if let Some((project, owner)) = index.owning(hub) {
        let namespace = &owner.namespace;
        referencing(index, &owner.project, kind, namespace, name, keys);
        // A deployment that dropped its reference may wait for the release of the companion, and so may the deletion of a
        // deployment that no longer references it.
        let row = index.hub.companions[kind].get(hub, name);
        let listed = || row.into_iter().flat_map(|row| secondary::entries(&row.digest));
        let concerned = released.cloned().unwrap_or_else(|| listed().collect());
        let concerned = concerned.iter().filter_map(|entry| entry.split_once('/'));
        for (_, source) in concerned.filter(|(of, _)| *of == &**namespace) {
            let tables = project.sources.enumerate();
            let there = tables.filter(|(_, table)| table.get(namespace, source).is_some());
            keys.extend(there.map(|(kind, _)| index.source_key(kind, &owner.project, namespace, source)));
        }
    }
    // An orphan waits until the companions that went with it are taken off its member.
    if index.has_pins_in(hub) && is_orphaned(index, hub) {
        index.pinned_keys(hub, keys);
    }
    keys.extend(released.map(|_| index.namespace_key(hub)));
    keys.extend(index.has_pins().then(|| index.policies_key(hub)));
}

fn source(index: &GatewayIndex, change: &SourceChange, keys: &mut Vec<Key>) {
    let SourceChange {
        project,
        kind,
        namespace,
        name,
        ..
    } = change;
    keys.push(index.source_key(*kind, project, namespace, name));
    if let Some(hub) = &change.hub {
        let of = ObjectRef::new(*kind, hub, name);
        let former = change.references.iter();
        keys.extend(former.map(|r| index.hub_key(TableId::Companions(r.kind), hub, &r.name)));
        if change.announced || change.replaced || change.companions {
            index.companion_keys_of(&of, keys);
        }
        let may_have_copy =
            index.hub.copies[*kind].get(hub, name).is_some() || index.kinds[*kind].is_exactly_one();
        let concerns_copy = may_have_copy && (change.announced || change.held);
        keys.extend(concerns_copy.then(|| index.copy_key(&of)));
        if change.announced {
            keys.extend([index.namespace_key(hub), index.policies_key(hub)]);
        }
        if change.replaced {
            index.write_back_keys_of(&of, keys);
            index.return_keys_of(&of, keys);
        }
    }
    let Some(of) = index.projects.get(project) else {
        return;
    };
    for uid in &change.controllers {
        let controller = of.workloads_by_uid.get(uid);
        let controller = controller.filter(|(home, _)| home == namespace);
        keys.extend(controller.map(|(_, workload)| index.workload_key(project, namespace, workload)));
    }
    if change.frees_name {
        // A Workload whose name the deployment's name starts with may want a deployment of the same name.
        let beginnings = name.match_indices('-').map(|(end, _)| &name[..end]);
        let workloads = beginnings.filter(|start| of.workloads.get(namespace, start).is_some());
        keys.extend(workloads.map(|workload| index.workload_key(project, namespace, workload)));
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
    keys.extend(naming.map(|(kind, source)| index.source_key(kind, project, namespace, source)));
}

/// True if the objects of a hub namespace are of no project namespace that is there.
fn is_orphaned(index: &GatewayIndex, hub: &str) -> bool {
    let owner = index.owners.get(hub);
    owner.is_none_or(|owner| lifecycle::earlier_life(index, &owner.project, hub))
}
