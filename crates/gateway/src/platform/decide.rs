//! The decision for an object of the platform in a project: a pure function of the snapshot.

use crate::{
    effects::delete,
    index::rows::{PlatformObject, PlatformProjection},
    reason::WriteReason,
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::Plane,
    plan::{Effect, ExactFields, Plan, Prepared, Target, Write},
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

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Wait for an event.
    Wait,
    /// Wait until absence on this plane is proof.
    AwaitProof(Plane),
    /// The project has an object of its own by this name: it is left alone, and the project gets an Event.
    Taken,
    /// Execute this.
    Do(Plan<Prepared>),
}

/// Decides; `memory` has what the project's API server made of the last payload.
pub fn decide(s: &Snapshot, memory: Normalized) -> Decision {
    let (object, projection) = match (&s.object, &s.projection) {
        (None, None) => return Decision::Wait,
        (None, Some(projection)) => return gone(s, projection),
        (Some(object), projection) => (object, projection.as_ref()),
    };
    let Ok(payload) = &object.digest.payload else {
        return Decision::Wait;
    };
    let Some(projection) = projection else {
        return match &s.unproven {
            // It comes back with the next list.
            _ if object.deleting => Decision::Wait,
            Some(plane) => Decision::AwaitProof(plane.clone()),
            None => write(s, object, payload, None),
        };
    };
    let of = &projection.digest;
    let is_of_object = of.source_uid.as_ref() == Some(&object.uid);
    // A projection that lost its label but names the hub's object was edited.
    if !of.labelled && !is_of_object {
        return Decision::Taken;
    }
    let is_same = of.labelled && is_of_object && memory.accepts(object.digest.content, of.content);
    if projection.deleting || is_same {
        return Decision::Wait;
    }
    write(s, object, payload, Some(projection))
}

/// The hub has no such object: what was made of one is deleted.
fn gone(s: &Snapshot, projection: &Row<PlatformProjection>) -> Decision {
    if !projection.digest.labelled || projection.deleting {
        return Decision::Wait;
    }
    if let Some(plane) = &s.unproven {
        return Decision::AwaitProof(plane.clone());
    }
    effect(s, delete(&projection.uid), WriteReason::DeletePlatformObject)
}

fn write(
    s: &Snapshot,
    object: &Row<PlatformObject>,
    payload: &Map<String, Value>,
    projection: Option<&Row<PlatformProjection>>,
) -> Decision {
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
        None => effect(s, Write::Create { body }, WriteReason::CreatePlatformObject),
        Some(projection) => {
            body["metadata"]["uid"] = json!(&*projection.uid);
            let exact = ExactFields::payload(Vec::new()).dropping_undeclared();
            effect(s, Write::Apply { body, exact }, WriteReason::UpdatePlatformObject)
        }
    }
}

fn effect(s: &Snapshot, write: Write, reason: WriteReason) -> Decision {
    let plane = Plane::Project(s.project.clone());
    let target = Target::cluster(plane, &s.resource, &s.name);
    Decision::Do(Plan::one(Effect::main(target, write, reason)))
}
