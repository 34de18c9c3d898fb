//! What the index and the memory of earlier turns show of hub objects that may have lost their origin.

use super::{
    brake::{Brakes, Census, Load},
    decide::{CitySetSnapshot, CopySnapshot, NamespaceSnapshot, Origin, Standing},
};
use crate::engine::chance::HashMap;
use crate::{
    api::{
        keys,
        names::{HubNamespace, ProjectKey},
    },
    engine::{
        key::{Key, Plane},
        plan::Target,
    },
    gateway::{
        namespaces::earlier_life,
        world::{Project, Role, World, digest},
    },
    plane::table::Row,
};
use std::sync::Arc;
use tokio::time::Instant;

/// Since when objects have had no origin or no use. Another object under the name of one that is remembered is news.
#[derive(Debug, Default)]
pub(super) struct Since(HashMap<Key, (Arc<str>, Instant)>);

impl Since {
    pub(super) fn get(&self, key: &Key, uid: &str) -> Option<Instant> {
        self.0
            .get(key)
            .filter(|(had, _)| **had == *uid)
            .map(|(_, at)| *at)
    }

    /// Remembers it of this object; forgets the key without one.
    pub(super) fn set(&mut self, key: &Key, lost: Option<(Arc<str>, Instant)>) {
        match lost {
            Some(lost) => drop(self.0.insert(key.clone(), lost)),
            None => self.forget(key),
        }
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What earlier turns found.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Orphaned copies.
    pub(super) copies: Since,
    /// Hub Namespaces without origin, and unused city sets.
    pub(super) rest: Since,
    /// Orphaned copies that count, and the brakes that hold for them.
    pub(super) brakes: Brakes,
}

/// Whether the project namespace behind a hub namespace is proven gone: the one project that has the UID that the
/// Namespace is labelled with is the one it names, its lists are complete and kept up to date, and no namespace of it has
/// the UID.
///
/// A plane made from another's backup has its UID as well, and lacks what is younger than the backup. A claim that is
/// refused keeps nothing: else whoever reports a UID would keep what is another's.
pub fn proven_gone(world: &World, hub: &str) -> bool {
    seems_gone(world, hub) && world.lacks_proof(hub).is_none()
}

/// The same by what was last seen, whatever the watches may miss.
fn seems_gone(world: &World, hub: &str) -> bool {
    !world.ties.contains_key(hub)
        && HubNamespace::parse(hub).is_some()
        && world.project_of(hub).is_some_and(|key| world.project_ready(key))
}

/// Where the origins of the copies in a hub namespace are looked for.
enum Home<'a> {
    /// Nowhere: nothing is proven.
    Unproven,
    /// They went with their namespace, or with an earlier project of the name.
    Gone,
    /// In this namespace of this project.
    Lives(&'a Project, &'a str),
}

impl<'a> Home<'a> {
    fn of(world: &'a World, hub: &str) -> Self {
        if world.lacks_proof(hub).is_some() {
            Self::Unproven
        } else {
            Self::seeming(world, hub)
        }
    }

    /// The same by what was last seen.
    fn seeming(world: &'a World, hub: &str) -> Self {
        let Some(tie) = world.ties.get(hub) else {
            return if seems_gone(world, hub) {
                Self::Gone
            } else {
                Self::Unproven
            };
        };
        match world.projects.get(&tie.project) {
            Some(_) if !world.project_ready(&tie.project) => Self::Unproven,
            Some(_) if earlier_life(world, &tie.project, hub) => Self::Gone,
            Some(project) => Self::Lives(project, &tie.namespace),
            None => Self::Unproven,
        }
    }

    fn origin(&self, kind: usize, name: &str) -> Origin {
        let (project, namespace) = match self {
            Self::Unproven => return Origin::Unproven,
            Self::Gone => return Origin::NamespaceGone,
            Self::Lives(project, namespace) => (project, namespace),
        };
        let Some(source) = project.sources[kind].get(namespace, name) else {
            return Origin::Absent;
        };
        let mut finalizers = source.digest.finalizers.iter();
        if source.deleting && !finalizers.any(|f| **f == *keys::FEDERATOR_FINALIZER) {
            Origin::LetGo
        } else {
            Origin::There
        }
    }

    fn standing(
        &self,
        kind: usize,
        name: &str,
        row: &Row<digest::Copy>,
        seen: Option<&Arc<str>>,
    ) -> Standing {
        Standing {
            seen_to_go: seen.is_some() && seen == row.digest.source_uid.as_ref(),
            uid: row.uid.clone(),
            deleting: row.deleting,
            marked: row.digest.source_uid.is_some(),
            origin: self.origin(kind, name),
        }
    }
}

/// The project of a hub namespace, by the label that the gateway keeps on it; the namespace itself where it has none.
pub(super) fn project(world: &World, hub: &Arc<str>) -> Arc<str> {
    let row = world.hub.namespaces.get("", hub);
    row.and_then(|row| row.digest.cluster.clone())
        .unwrap_or_else(|| hub.clone())
}

/// The UID of a copy's deployment that was seen to go, if it was.
fn seen_to_go<'a>(world: &'a World, kind: usize, hub: &Arc<str>, name: &Arc<str>) -> Option<&'a Arc<str>> {
    world.hub.departed.get(&(kind, hub.clone(), name.clone()))
}

/// Counts all copies, and the orphans among them that count for the brakes.
pub(super) fn census(world: &World) -> Census {
    let mut census = Census::default();
    let complete = world.hub_proves();
    for (kind, table) in world.hub.copies.iter().enumerate() {
        // Rows come namespace by namespace.
        let mut home: Option<(&Arc<str>, Home<'_>, Arc<str>)> = None;
        for ((hub, name), row) in table.iter() {
            let known = home.take().filter(|(of, ..)| *of == hub);
            let (_, of, project) =
                home.insert(known.unwrap_or_else(|| (hub, Home::of(world, hub), project(world, hub))));
            let standing = of.standing(kind, name, row, seen_to_go(world, kind, hub, name));
            census.count(project, complete && standing.orphaned() && !standing.seen_to_go);
        }
    }
    census
}

/// Takes the snapshot of a copy's key; how its project and the hub stand is added once it is known whether that matters.
pub(super) fn copy(world: &World, memory: &Memory, key: &Key, kind: usize) -> CopySnapshot {
    let (hub, name) = (&key.namespace, &key.name);
    let seen = seen_to_go(world, kind, hub, name);
    let copy = world.hub.copies[kind]
        .get(hub, name)
        .map(|row| Home::of(world, hub).standing(kind, name, row, seen));
    let namespace = world.hub.namespaces.get("", hub);
    CopySnapshot {
        target: Target::namespaced(Plane::Hub, &world.kinds[kind].resource, hub, name),
        hub_complete: world.hub_proves(),
        since: copy.as_ref().and_then(|c| memory.copies.get(key, &c.uid)),
        confirmed: namespace.and_then(|row| row.digest.garbage_confirmed),
        project: Load::default(),
        hub: Load::default(),
        copy,
    }
}

/// Takes the snapshot of a hub Namespace that is tied to no live project namespace.
pub(super) fn namespace(world: &World, memory: &Memory, key: &Key) -> NamespaceSnapshot {
    let hub = &*key.name;
    let row = world.hub.namespaces.get("", hub).cloned();
    NamespaceSnapshot {
        target: Target::cluster(Plane::Hub, &world.resources.namespaces, hub),
        hub_complete: world.hub_proves(),
        origin_gone: proven_gone(world, hub),
        empty: empty(world, hub),
        since: row.as_ref().and_then(|row| memory.rest.get(key, &row.uid)),
        row,
    }
}

/// Takes the snapshot of a cluster policy that may be a city set's.
pub(super) fn city_set(world: &World, memory: &Memory, key: &Key) -> CitySetSnapshot {
    let row = world.hub.city_sets.get("", &key.name).cloned();
    let set = key.name.strip_prefix("cities-");
    CitySetSnapshot {
        target: Target::cluster(Plane::Hub, &world.resources.city_sets, &key.name),
        hub_complete: world.hub_proves(),
        used: set.is_some_and(|set| world.hub.index.carrying(set).next().is_some()),
        sent: set.is_some_and(|set| world.left_at.may_have_arrived(set)),
        since: row.as_ref().and_then(|row| memory.rest.get(key, &row.uid)),
        row,
    }
}

/// The plane that shows too little to say that a copy has no origin, although it seems to have none.
pub(super) fn unproven_copy(world: &World, key: &Key, kind: usize) -> Option<Plane> {
    let (hub, name) = (&key.namespace, &key.name);
    let row = world.hub.copies[kind].get(hub, name)?;
    let plane = world.lacks_proof(hub)?;
    let seen = seen_to_go(world, kind, hub, name);
    let seems = Home::seeming(world, hub)
        .standing(kind, name, row, seen)
        .orphaned();
    seems.then_some(plane)
}

/// The same of a hub Namespace.
pub(super) fn unproven_namespace(world: &World, key: &Key) -> Option<Plane> {
    world
        .lacks_proof(&key.name)
        .filter(|_| seems_gone(world, &key.name))
}

/// The project and the namespace in it that a hub namespace was made for.
pub(super) fn home(world: &World, hub: &str) -> Option<(ProjectKey, Arc<str>)> {
    if let Some(tie) = world.ties.get(hub) {
        return Some((tie.project.clone(), tie.namespace.clone()));
    }
    let namespace = world.hub.namespaces.get("", hub)?.digest.namespace.clone()?;
    Some((world.project_of(hub)?.clone(), namespace))
}

/// The deployment that a copy was made from: its address, and its UID.
pub(super) fn origin(world: &World, key: &Key, kind: usize) -> Option<(Target, Arc<str>)> {
    let copy = world.hub.copies[kind].get(&key.namespace, &key.name)?;
    let (project, namespace) = home(world, &key.namespace)?;
    let resource = &world.kinds[kind].resource;
    let target = Target::namespaced(Plane::Project(project), resource, &namespace, &key.name);
    Some((target, copy.digest.source_uid.clone()?))
}

/// The namespace that a hub namespace was made for: its address, and its UID.
pub fn origin_namespace(world: &World, hub: &str) -> Option<(Target, Arc<str>)> {
    let uid = hub.strip_prefix("ns-")?.into();
    let (project, namespace) = home(world, hub)?;
    let resource = &world.resources.namespaces;
    Some((
        Target::cluster(Plane::Project(project), resource, &namespace),
        uid,
    ))
}

/// How many bindings the index shows without the template that they were made for.
pub(super) fn orphaned_bindings(world: &World) -> usize {
    if world.hub_ready() {
        world.hub.outlived.len()
    } else {
        0
    }
}

fn empty(world: &World, hub: &str) -> bool {
    let hub_tables = &world.hub;
    hub_tables
        .copies
        .iter()
        .all(|t| t.in_namespace(hub).next().is_none())
        && hub_tables
            .write_backs
            .iter()
            .all(|t| t.in_namespace(hub).next().is_none())
        && hub_tables.bindings.in_namespace(hub).next().is_none()
        && hub_tables.config_maps.in_namespace(hub).next().is_none()
        && hub_tables.secrets.in_namespace(hub).next().is_none()
}

/// The keys of what is still in a Namespace whose origin is gone.
pub(super) fn leftovers(world: &World, hub: &str) -> Vec<Key> {
    let mut keys = vec![world.hub_key(Role::CityPolicies, hub, "")];
    for (i, table) in world.hub.copies.iter().enumerate() {
        keys.extend(
            table
                .in_namespace(hub)
                .map(|(n, _)| world.hub_key(Role::Federated(i), hub, n)),
        );
    }
    keys.extend(
        world
            .hub
            .config_maps
            .in_namespace(hub)
            .map(|(n, _)| world.hub_key(Role::ConfigMaps, hub, n)),
    );
    keys.extend(
        world
            .hub
            .secrets
            .in_namespace(hub)
            .map(|(n, _)| world.hub_key(Role::Secrets, hub, n)),
    );
    keys
}
