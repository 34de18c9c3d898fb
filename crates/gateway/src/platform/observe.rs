//! Snapshot of an object of the platform, taken from the index under one lock.

use super::decide::Snapshot;
use crate::index::{GatewayIndex, TableId};
use fedgate_engine::key::{Key, Plane};

/// Takes the snapshot; `None` while a list that it depends on is incomplete.
pub(super) fn observe(index: &GatewayIndex, key: &Key) -> Option<Snapshot> {
    let (Plane::Project(project), Some(TableId::Platform(kind))) =
        (&key.plane, index.table_of_kind(&key.kind))
    else {
        return None;
    };
    if !index.compares_platform(kind, project) {
        return None;
    }
    let of = index.projects.get(project)?;
    Some(Snapshot {
        project: project.clone(),
        resource: index.platform[kind].resource.clone(),
        name: key.name.clone(),
        object: index.hub.platform[kind].get("", &key.name).cloned(),
        projection: of.platform[kind].rows.get("", &key.name).cloned(),
        unproven: index.unproven_platform(kind, project),
    })
}
