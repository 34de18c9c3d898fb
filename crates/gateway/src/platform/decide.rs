//! The decision for an object of the platform in a project: a pure function of the snapshot.

use crate::{
    index::rows::{PlatformObject, PlatformProjection},
    reason::WriteReason,
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Plan, Prepared, Target, Write},
    reconcile::normalized::Normalized,
    store::table::Row,
};
use kube::core::ApiResource;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The hub's object and what a project has under its name. Exists only if both lists are complete.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The project.
    pub project: ProjectKey,
    /// The API resource.
    pub resource: ApiResource,
    /// Name of the object on both planes.
    pub name: Arc<str>,
    /// The hub's object.
    pub object: Option<Row<PlatformObject>>,
    /// The project's object.
    pub projection: Option<Row<PlatformProjection>>,
    /// The plane on which absence proves nothing now.
    pub unproven: Option<Plane>,
}

/// Decides; `memory` has what the project's API server made of the last payload. `None` if the project has an object of its own by
/// this name: it is left alone, and the project gets an Event.
pub fn decide(s: &Snapshot, memory: Normalized) -> Option<Plan<Prepared>> {
    let idle = Some(Plan::default());
    let (object, projection) = match (&s.object, &s.projection) {
        (None, None) => return idle,
        (None, Some(projection)) => return Some(gone(s, projection)),
        (Some(object), projection) => (object, projection.as_ref()),
    };
    let Ok(payload) = &object.digest.payload else {
        return idle;
    };
    let Some(projection) = projection else {
        // An object that is being deleted comes back with the next list.
        if object.deleting || s.unproven.is_some() {
            return idle;
        }
        return Some(write(s, object, payload, None));
    };
    let of = &projection.digest;
    let is_of_object = of.source_uid.as_ref() == Some(&object.uid);
    // A projection that lost its label but names the hub's object was edited.
    if !of.labelled && !is_of_object {
        return None;
    }
    let is_same = of.labelled && is_of_object && memory.accepts(object.digest.content, of.content);
    if projection.deleting || is_same {
        return idle;
    }
    Some(write(s, object, payload, Some(projection)))
}

/// The hub has no such object: what was made of one is deleted.
fn gone(s: &Snapshot, projection: &Row<PlatformProjection>) -> Plan<Prepared> {
    if !projection.digest.labelled || projection.deleting || s.unproven.is_some() {
        return Plan::default();
    }
    effect(
        s,
        Write::delete(&projection.uid),
        WriteReason::DeletePlatformObject,
    )
}

fn write(
    s: &Snapshot,
    object: &Row<PlatformObject>,
    payload: &Map<String, Value>,
    projection: Option<&Row<PlatformProjection>>,
) -> Plan<Prepared> {
    let mut body = json!({
        "apiVersion": s.resource.api_version,
        "kind": s.resource.kind,
        "metadata": {
            "name": &*s.name,
            "labels": {keys::PROJECTED: "true"},
            "annotations": {keys::SOURCE_UID: &*object.uid},
        },
    });
    for (root, value) in payload {
        body[root] = value.clone();
    }
    match projection {
        None => effect(s, Write::create(body), WriteReason::CreatePlatformObject),
        Some(projection) => {
            body["metadata"]["uid"] = json!(&*projection.uid);
            let strict = false;
            effect(
                s,
                Write::Update { body, strict },
                WriteReason::UpdatePlatformObject,
            )
        }
    }
}

fn effect(s: &Snapshot, write: Write, reason: WriteReason) -> Plan<Prepared> {
    let plane = Plane::Project(s.project.clone());
    let target = Target::cluster(plane, &s.resource, &s.name);
    Plan::one(Effect::main(target, write, reason))
}
