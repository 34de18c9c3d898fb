//! Snapshots of hub objects that may have lost their origin, from the index and from the memory of earlier reconciles.

use super::{
    brake::{Brakes, Census, Load},
    decide::{CitySetSnapshot, CopySnapshot, CopyState, NamespaceSnapshot, Origin},
};
use crate::{
    index::{GatewayIndex, ObjectRef, Project, TableId, rows},
    queries::lifecycle::{earlier_life, home, proven_gone, seems_gone},
};
use fedgate_api::{keys, names::city_set_of};
use fedgate_engine::random::HashMap;
use fedgate_engine::{
    key::{Key, Plane},
    plan::Target,
    store::table::Row,
};
use fedgate_kinds::KindId;
use std::sync::Arc;
use tokio::time::Instant;

/// Times since when objects have had no origin or no users. An object with another UID under the same name starts
/// again.
#[derive(Debug, Default)]
pub(super) struct Since(pub(super) HashMap<Key, (Arc<str>, Instant)>);

impl Since {
    pub(super) fn get(&self, key: &Key, uid: &str) -> Option<Instant> {
        self.0
            .get(key)
            .filter(|(had, _)| **had == *uid)
            .map(|(_, at)| *at)
    }

    /// Records the time for an object, given by its UID; `None` forgets the key.
    pub(super) fn set(&mut self, key: &Key, lost: Option<(Arc<str>, Instant)>) {
        match lost {
            Some(lost) => drop(self.0.insert(key.clone(), lost)),
            None => drop(self.0.remove(key)),
        }
    }
}

/// Results of earlier reconciles.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Orphaned copies.
    pub(super) copies: Since,
    /// Hub Namespaces without origin, unused city sets, and orphaned bindings.
    pub(super) rest: Since,
    /// Number of probes of each object that lived at one member.
    pub(super) probes: HashMap<Key, u32>,
    /// Orphaned copies that count, and the brakes that hold for them.
    pub(super) brakes: Brakes,
}

/// The place where the origins of the copies in a hub namespace are looked up.
enum OriginLookup<'a> {
    /// No place: nothing is proven.
    Unproven,
    /// The origins were deleted with their namespace, or with an earlier project of the same name.
    Gone,
    /// The origins were deleted with their Project.
    ProjectDeleted,
    /// The origins live in this namespace of this project.
    Lives(&'a Project, &'a str),
}

impl<'a> OriginLookup<'a> {
    fn of(index: &'a GatewayIndex, hub: &str) -> Self {
        if index.lacks_proof(hub).is_some() {
            Self::Unproven
        } else {
            Self::presumed(index, hub)
        }
    }

    /// Result of [`Self::of`] by the last observation, even if a watch is failing.
    fn presumed(index: &'a GatewayIndex, hub: &str) -> Self {
        let Some(owner) = index.owners.get(hub) else {
            return if seems_gone(index, hub) && index.is_torn_down(hub) {
                Self::ProjectDeleted
            } else if seems_gone(index, hub) {
                Self::Gone
            } else {
                Self::Unproven
            };
        };
        match index.projects.get(&owner.project) {
            Some(_) if !index.project_ready(&owner.project) => Self::Unproven,
            Some(_) if earlier_life(index, &owner.project, hub) => Self::Gone,
            Some(project) => Self::Lives(project, &owner.namespace),
            None => Self::Unproven,
        }
    }

    fn origin(&self, kind: KindId, name: &str) -> Origin {
        let (project, namespace) = match self {
            Self::Unproven => return Origin::Unproven,
            Self::Gone => return Origin::NamespaceGone,
            Self::ProjectDeleted => return Origin::ProjectDeleted,
            Self::Lives(project, namespace) => (project, namespace),
        };
        let Some(source) = project.sources[kind].get(namespace, name) else {
            return Origin::Absent;
        };
        let mut finalizers = source.digest.finalizers.iter();
        if source.deleting && !finalizers.any(|f| **f == *keys::FEDERATOR_FINALIZER) {
            Origin::Released
        } else {
            Origin::There
        }
    }

    /// As [`Self::origin`]; an object that lives at one member has a new origin under its name only once it is gone there.
    fn origin_at(&self, index: &GatewayIndex, kind: KindId, hub: &str, name: &str) -> Origin {
        let (origin, pin) = (self.origin(kind, name), index.pin(kind, hub, name));
        let (Self::Lives(project, namespace), Some(pin), Origin::There) = (self, pin, origin) else {
            return origin;
        };
        let source = project.sources[kind].get(namespace, name);
        if source.is_some_and(|source| source.uid != pin.source_uid) {
            Origin::Absent
        } else {
            origin
        }
    }

    fn standing(
        &self,
        index: &GatewayIndex,
        (kind, hub, name): (KindId, &str, &str),
        row: &Row<rows::HubCopy>,
        seen: Option<&Arc<str>>,
    ) -> CopyState {
        CopyState {
            seen_to_go: seen.is_some() && seen == row.digest.source_uid.as_ref(),
            uid: row.uid.clone(),
            deleting: row.deleting,
            marked: row.digest.source_uid.is_some(),
            origin: self.origin_at(index, kind, hub, name),
        }
    }
}

/// The project of a hub namespace, from the label that the gateway maintains; the namespace's own name if it has none.
pub(super) fn project(index: &GatewayIndex, hub: &Arc<str>) -> Arc<str> {
    let row = index.hub.namespaces.get("", hub);
    row.and_then(|row| row.digest.cluster.clone())
        .unwrap_or_else(|| hub.clone())
}

/// The UID of a copy's deployment if its delete event was observed, or its Project is proven deleted.
fn seen_to_go<'a>(
    index: &'a GatewayIndex,
    kind: KindId,
    hub: &Arc<str>,
    name: &Arc<str>,
) -> Option<&'a Arc<str>> {
    if index.is_of_deleted_project(hub) {
        let copy = index.hub.copies[kind].get(hub, name)?;
        return copy.digest.source_uid.as_ref();
    }
    index.intents.departed.get(&ObjectRef::new(kind, hub, name))
}

/// Counts all copies, and the orphans among them that count for the brakes.
pub(super) fn census(index: &GatewayIndex) -> Census {
    let mut census = Census::default();
    let complete = index.hub_proves();
    for (kind, table) in index.hub.copies.enumerate() {
        // Rows are sorted by namespace.
        let mut home: Option<(&Arc<str>, OriginLookup<'_>, Arc<str>)> = None;
        for ((hub, name), row) in table.iter() {
            let known = home.take().filter(|(of, ..)| *of == hub);
            let (_, of, project) = home
                .insert(known.unwrap_or_else(|| (hub, OriginLookup::of(index, hub), project(index, hub))));
            let standing = of.standing(index, (kind, hub, name), row, seen_to_go(index, kind, hub, name));
            census.count(project, complete && standing.orphaned() && !standing.seen_to_go);
        }
    }
    census
}

/// Takes the snapshot of a copy's key. The caller adds the load of the project and of the hub if they matter.
pub(super) fn copy(index: &GatewayIndex, memory: &Memory, key: &Key, kind: KindId) -> CopySnapshot {
    let (hub, name) = (&key.namespace, &key.name);
    let seen = seen_to_go(index, kind, hub, name);
    let copy = index.hub.copies[kind]
        .get(hub, name)
        .map(|row| OriginLookup::of(index, hub).standing(index, (kind, hub, name), row, seen));
    let namespace = index.hub.namespaces.get("", hub);
    CopySnapshot {
        target: Target::namespaced(Plane::Hub, &index.kinds[kind].resource, hub, name),
        hub_complete: index.hub_proves(),
        since: copy.as_ref().and_then(|c| memory.copies.get(key, &c.uid)),
        confirmed: namespace.and_then(|row| row.digest.garbage_confirmed),
        project: Load::default(),
        hub: Load::default(),
        copy,
    }
}

/// Takes the snapshot of a hub Namespace that no project namespace owns.
pub(super) fn namespace(index: &GatewayIndex, memory: &Memory, key: &Key) -> NamespaceSnapshot {
    let hub = &*key.name;
    let row = index.hub.namespaces.get("", hub).cloned();
    NamespaceSnapshot {
        target: Target::cluster(Plane::Hub, index.resource(TableId::Namespaces), hub),
        hub_complete: index.hub_proves(),
        origin_gone: proven_gone(index, hub),
        empty: empty(index, hub),
        since: row.as_ref().and_then(|row| memory.rest.get(key, &row.uid)),
        row,
    }
}

/// Takes the snapshot of a cluster policy that may be a city set's.
pub(super) fn city_set(index: &GatewayIndex, memory: &Memory, key: &Key) -> CitySetSnapshot {
    let row = index.hub.city_sets.get("", &key.name).cloned();
    let set = city_set_of(&key.name);
    CitySetSnapshot {
        target: Target::cluster(Plane::Hub, index.resource(TableId::CitySets), &key.name),
        hub_complete: index.hub_proves(),
        used: set.is_some_and(|set| index.hub.secondary.carrying(set).next().is_some()),
        sent: set.is_some_and(|set| index.intents.deliveries.may_have_arrived(set)),
        since: row.as_ref().and_then(|row| memory.rest.get(key, &row.uid)),
        row,
    }
}

/// The plane whose lists are incomplete or stale, if a copy appears to have no origin.
pub(super) fn unproven_copy(index: &GatewayIndex, key: &Key, kind: KindId) -> Option<Plane> {
    let (hub, name) = (&key.namespace, &key.name);
    let row = index.hub.copies[kind].get(hub, name)?;
    let plane = index.lacks_proof(hub)?;
    let seen = seen_to_go(index, kind, hub, name);
    let seems = OriginLookup::presumed(index, hub)
        .standing(index, (kind, hub, name), row, seen)
        .orphaned();
    seems.then_some(plane)
}

/// The plane whose lists are incomplete or stale, if a hub Namespace appears to have no origin.
pub(super) fn unproven_namespace(index: &GatewayIndex, key: &Key) -> Option<Plane> {
    index
        .lacks_proof(&key.name)
        .filter(|_| seems_gone(index, &key.name))
}

/// Address and UID of the project's object that a pin or a copy names.
pub(super) fn origin(index: &GatewayIndex, key: &Key, kind: KindId) -> Option<(Target, Arc<str>)> {
    let (hub, name) = (&key.namespace, &key.name);
    let pinned = index.pin(kind, hub, name).map(|pin| &pin.source_uid);
    let copied = || index.hub.copies[kind].get(hub, name)?.digest.source_uid.as_ref();
    let uid = pinned.or_else(copied)?.clone();
    let (project, namespace) = home(index, hub)?;
    let resource = &index.kinds[kind].resource;
    Some((
        Target::namespaced(Plane::Project(project), resource, &namespace, name),
        uid,
    ))
}

/// True if a pin has no copy, and its object is proven gone.
pub(super) fn is_pin_orphaned(index: &GatewayIndex, key: &Key, kind: KindId) -> bool {
    let (hub, name) = (&key.namespace, &key.name);
    let origin = OriginLookup::of(index, hub).origin_at(index, kind, hub, name);
    let is_gone = !matches!(origin, Origin::Unproven | Origin::There);
    index.hub_proves() && is_gone && index.pin(kind, hub, name).is_some()
}

/// Number of bindings without the template that they were made for.
pub(super) fn orphaned_bindings(index: &GatewayIndex) -> usize {
    if index.hub_ready() {
        index.hub.outlived.len()
    } else {
        0
    }
}

/// True if a hub namespace contains no copy, write-back, binding, companion or pin.
fn empty(index: &GatewayIndex, hub: &str) -> bool {
    let is_content = |table: &TableId| {
        use TableId::{Bindings, Companions, Federated, WrittenBack};
        matches!(table, Bindings | Companions(_) | Federated(_) | WrittenBack(_))
    };
    let tables = index.hub_tables().into_iter().filter(is_content);
    let mut tables = tables.filter_map(|table| index.hub.table(table));
    tables.all(|table| table.names(hub).next().is_none()) && !index.has_pins_in(hub)
}

/// Keys of the remaining objects in a Namespace without origin.
pub(super) fn leftovers(index: &GatewayIndex, hub: &str) -> Vec<Key> {
    let mut keys = vec![index.policies_key(hub)];
    index.copy_keys(hub, &mut keys);
    index.pinned_keys(hub, &mut keys);
    index.companion_keys(hub, &mut keys);
    keys
}
