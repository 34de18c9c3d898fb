//! Whether the project namespace behind a hub namespace lives, is gone, or was created again under its name.

use crate::index::{GatewayIndex, TableId, rows::Template};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::{
    key::{Key, Plane},
    plan::Target,
};
use std::{collections::BTreeSet, sync::Arc};

/// True if a hub namespace holds objects of an earlier project of the same name: the namespace has another project's
/// UID and no object in it belongs to a live deployment. If one does, the label was merely edited.
///
/// All counted objects are deleted: copies by federator and garbage, with them bindings and write-backs, then
/// companions and policies. An object that none of these controllers deletes does not count: it would block the new
/// project for ever.
pub fn earlier_life(index: &GatewayIndex, project: &ProjectKey, hub: &str) -> bool {
    let Some(row) = index.hub.namespaces.get("", hub) else {
        return false;
    };
    let uid = index.projects.get(project).and_then(|p| p.uid.clone());
    if row.digest.project_uid.is_none() || row.digest.project_uid == uid {
        return false;
    }
    let mut dead = false;
    for i in index.kinds.ids() {
        let live: BTreeSet<&Arc<str>> = index.owned_sources(i, hub).map(|(_, row)| &row.uid).collect();
        for (_, copy) in index.hub.copies[i].in_namespace(hub) {
            match &copy.digest.source_uid {
                Some(uid) if live.contains(uid) => return false,
                uid => dead |= uid.is_some(),
            }
        }
        dead |= index.hub.write_backs[i]
            .in_namespace(hub)
            .any(|(_, w)| w.digest.controller.is_some());
    }
    let mut companions = index.hub.companions.iter();
    dead || companions.any(|table| table.in_namespace(hub).next().is_some())
        || index
            .hub
            .bindings
            .in_namespace(hub)
            .any(|(_, b)| matches!(b.digest.template, Template::Copy(_)))
        || index
            .hub
            .city_policies
            .in_namespace(hub)
            .any(|(name, policy)| policy.digest.is_ours(name, &index.kinds))
}

/// True if a hub namespace exists, is not being deleted, and names no owner other than the project namespace that owns
/// it.
pub fn is_open(index: &GatewayIndex, hub: &str) -> bool {
    let namespace = index.hub.namespaces.get("", hub).filter(|n| !n.deleting);
    namespace.is_some_and(|n| {
        let owner = index.owners.get(hub);
        owner.is_none_or(|owner| !n.digest.is_foreign(&owner.project.label(), &owner.namespace))
    })
}

/// True if the project namespace behind a hub namespace is proven deleted. All of these hold: exactly one project has
/// the UID in the Namespace's label, the Namespace's labels name that project, the project's lists are complete and
/// kept up to date, and no namespace of the project has the UID. Or the whole Project is proven deleted.
///
/// A plane restored from another plane's backup has the same UID, and lacks objects younger than the backup. A rejected
/// ownership claim keeps nothing: otherwise any plane could keep another project's objects by reporting a UID.
pub fn proven_gone(index: &GatewayIndex, hub: &str) -> bool {
    seems_gone(index, hub) && index.lacks_proof(hub).is_none()
}

/// Result of [`proven_gone`] by the last observation, even if a watch is failing.
pub fn seems_gone(index: &GatewayIndex, hub: &str) -> bool {
    !index.owners.contains_key(hub)
        && HubNamespace::parse(hub).is_some()
        && match index.project_of(hub) {
            Some(key) => index.project_ready(key),
            None => index.is_torn_down(hub),
        }
}

/// The project and the namespace in it that a hub namespace was made for.
pub fn home(index: &GatewayIndex, hub: &str) -> Option<(ProjectKey, Arc<str>)> {
    if let Some(owner) = index.owners.get(hub) {
        return Some((owner.project.clone(), owner.namespace.clone()));
    }
    let namespace = index.hub.namespaces.get("", hub)?.digest.namespace.clone()?;
    Some((index.project_of(hub)?.clone(), namespace))
}

/// The project and the namespace in it that the object of a key belongs to; a key of the hub without a namespace is that of
/// a hub namespace.
pub fn home_of(index: &GatewayIndex, key: &Key) -> Option<(ProjectKey, Arc<str>)> {
    match &key.plane {
        Plane::Project(project) => Some((project.clone(), key.namespace.clone())),
        Plane::Hub | Plane::Cell | Plane::Home if key.namespace.is_empty() => home(index, &key.name),
        Plane::Hub | Plane::Cell | Plane::Home => home(index, &key.namespace),
    }
}

/// Address and UID of the project namespace that a hub namespace was made for.
pub fn origin_namespace(index: &GatewayIndex, hub: &str) -> Option<(Target, Arc<str>)> {
    let uid = hub.strip_prefix("ns-")?.into();
    let (project, namespace) = home(index, hub)?;
    let resource = index.resource(TableId::Namespaces);
    Some((
        Target::cluster(Plane::Project(project), resource, &namespace),
        uid,
    ))
}
