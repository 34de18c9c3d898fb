//! The decision on an Instance's copy on the hub. Pure.

use super::{Memory, observe::HubView};
use crate::{
    index::{
        digest::{self, HubDeployment, HubInstance, Namespace},
        tables::TableId,
    },
    instance::observe::InstanceSnapshot as Local,
    reason::WriteReason,
    writes::{controlled_by, create, delete},
};
use fedgate_api::{API_VERSION, keys};
use fedgate_engine::{
    diff::Digest,
    plan::{Effect, Endpoint, ExactFields, Target, Write},
    store::table::Row,
};
use serde_json::{Value, json};

/// A decision.
#[derive(Debug, PartialEq)]
pub enum CopyDecision {
    /// Nothing to write: the copy is as it should be or is being deleted, or the cell is being drained.
    Nothing,
    /// A write, and the part of the copy that it changes.
    Write(Box<Effect>, Written),
    /// The Instance's origin is unknown; the text names what is missing.
    Unclear(String),
    /// Another object holds the name: a description of its holder.
    Held(String),
}

/// The part of the copy that a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The copy without its status, with this digest.
    Object(Digest),
    /// The status of the copy, with this digest.
    Status(Digest),
    /// Another part.
    Other,
}

/// Decides.
pub fn decide(local: &Local, seen: &HubView, memory: &Memory) -> CopyDecision {
    let origin = match origin(local, seen) {
        Ok(origin) => origin,
        Err(what) => return CopyDecision::Unclear(what),
    };
    let Some(deployment) = &seen.deployment else {
        return CopyDecision::Nothing;
    };
    let label = |key| local.row.digest.labels.get(key);
    let here = Site {
        city: label(keys::INSTANCE_CITY_CODE),
        location: label(keys::INSTANCE_LOCATION),
    };
    if !is_delivered_to(&deployment.digest, here) {
        return CopyDecision::Nothing;
    }
    let wanted = Wanted {
        local,
        seen,
        origin,
        owner: (
            label(keys::WORKLOAD_DEPLOYMENT_NAME).unwrap_or_default(),
            &deployment.uid,
        ),
    };
    let Some(found) = &seen.copy else {
        let effect = create(wanted.target(), wanted.body(None), WriteReason::WriteBack);
        return CopyDecision::Write(Box::new(effect), Written::Object(wanted.digest()));
    };
    if found.deleting {
        return CopyDecision::Nothing;
    }
    match owner_of_copy(local, seen, &found.digest, deployment, here) {
        CopyOwner::ThisInstance => wanted.update(found, memory),
        CopyOwner::Leftover => {
            let version = Some(found.resource_version());
            let effect = delete(
                wanted.target(),
                &found.uid,
                version,
                WriteReason::WriteBackLeftover,
            );
            CopyDecision::Write(Box::new(effect), Written::Other)
        }
        CopyOwner::Other(by) => CopyDecision::Held(by),
    }
}

enum CopyOwner {
    /// The copy is this Instance's, or has no owner.
    ThisInstance,
    /// The copy is of a deleted Instance, or of a cell that the deployment has left.
    Leftover,
    /// Another cell or controller is entitled to the copy.
    Other(String),
}

/// City and location of an Instance, by its labels.
#[derive(Clone, Copy)]
struct Site<'a> {
    city: Option<&'a str>,
    location: Option<&'a str>,
}

/// True if a deployment of the hub is delivered to this city or location.
fn is_delivered_to(delivered: &HubDeployment, site: Site<'_>) -> bool {
    match (&delivered.city, &delivered.location) {
        (Some(wanted), None) => site.city == Some(wanted),
        (None, Some(wanted)) => site.location == Some(wanted),
        // Not yet delivered, or to two places.
        (None, None) | (Some(_), Some(_)) => false,
    }
}

/// True if a deployment that is delivered to `here` has left the place of a write-back. The cells of the peer, and earlier
/// ones of ours, write no location.
fn has_left(delivered: &HubDeployment, there: Site<'_>, here: Site<'_>) -> bool {
    there.city != here.city
        || delivered.location.is_some() && there.location.is_some_and(|at| here.location != Some(at))
}

fn owner_of_copy(
    local: &Local,
    seen: &HubView,
    copy: &HubInstance,
    deployment: &Row<HubDeployment>,
    here: Site<'_>,
) -> CopyOwner {
    let foreign = copy.controller.as_ref().is_some_and(|uid| *uid != deployment.uid);
    let there = Site {
        city: copy.city.as_deref(),
        location: copy.location.as_deref(),
    };
    match &copy.cell {
        Some(cell) if *cell == seen.cell => {
            // A recreated deployment has taken its copies with it: an owner cannot be replaced in place.
            if copy.instance.as_deref() == Some(&*local.row.uid) && !foreign {
                CopyOwner::ThisInstance
            } else {
                CopyOwner::Leftover
            }
        }
        Some(_) if has_left(&deployment.digest, there, here) => CopyOwner::Leftover,
        Some(cell) => CopyOwner::Other(format!("cell {cell}")),
        None if foreign => CopyOwner::Other("an object with another controller".to_owned()),
        None => CopyOwner::ThisInstance,
    }
}

/// The labels of origin, from the hub's Namespace.
type Origin<'a> = (&'a str, &'a str);

fn origin<'a>(local: &Local, seen: &'a HubView) -> Result<Origin<'a>, String> {
    let both = |of: &'a Namespace| Some((of.cluster.as_deref()?, of.namespace.as_deref()?));
    let namespace = &local.namespace;
    let there = seen
        .there
        .as_ref()
        .ok_or_else(|| format!("the hub has no Namespace {namespace}"))?;
    let there = both(there).ok_or_else(|| {
        let (a, b) = (keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE);
        format!("Namespace {namespace} of the hub lacks the label {a} or {b}")
    })?;
    if seen.here.as_ref().and_then(both) != Some(there) {
        return Err(format!(
            "the labels of Namespace {namespace} at the cell are not those of the hub's: they say that it belongs to another project"
        ));
    }
    let empty = |key: &&&str| local.row.digest.labels.get(key).is_none_or(str::is_empty);
    match keys::LINKING.iter().find(empty) {
        Some(key) => Err(format!("its label {key} is missing")),
        None => Ok(there),
    }
}

struct Wanted<'a> {
    local: &'a Local,
    seen: &'a HubView,
    origin: Origin<'a>,
    /// Name and UID of the hub's deployment.
    owner: (&'a str, &'a str),
}

impl Wanted<'_> {
    fn target(&self) -> Target {
        TableId::HubInstances.target(&self.local.namespace, &self.local.name)
    }

    fn label<'b>(&'b self, key: &str) -> Option<&'b str> {
        match key {
            keys::CELL => Some(&self.seen.cell),
            keys::UPSTREAM_CLUSTER => Some(self.origin.0),
            keys::UPSTREAM_NAMESPACE => Some(self.origin.1),
            key => self.local.row.digest.labels.get(key),
        }
    }

    fn owned(&self) -> Value {
        digest::owned_fields(
            |key| self.label(key),
            Some(&self.local.row.uid),
            Some(self.owner),
            &self.local.row.digest.whole_spec(),
        )
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.owned())
    }

    fn body(&self, uid: Option<&str>) -> Value {
        let owned = self.owned();
        let mut metadata = json!({
            "name": *self.local.name,
            "namespace": *self.local.namespace,
            "labels": owned["labels"],
            "annotations": {keys::INSTANCE_UID: *self.local.row.uid},
            "ownerReferences": controlled_by("WorkloadDeployment", self.owner.0, self.owner.1),
        });
        if let Some(uid) = uid {
            metadata["uid"] = json!(uid);
        }
        json!({"apiVersion": API_VERSION, "kind": "Instance", "metadata": metadata, "spec": owned["spec"]})
    }

    fn update(&self, found: &Row<HubInstance>, memory: &Memory) -> CopyDecision {
        let wanted = self.digest();
        if !memory.written.accepts(wanted, found.digest.owned) {
            let write = Write::Apply {
                body: self.body(Some(&found.uid)),
                exact: ExactFields::roots(["spec"]),
            };
            let effect = Effect::main(self.target(), write, WriteReason::WriteBack);
            return CopyDecision::Write(Box::new(effect), Written::Object(wanted));
        }
        let Some(status) = self.local.row.digest.whole_status() else {
            return CopyDecision::Nothing;
        };
        let reported = digest::fingerprint(Some(&status));
        if memory.reported.accepts(reported, found.digest.status) {
            return CopyDecision::Nothing;
        }
        let body = json!({
            "apiVersion": API_VERSION, "kind": "Instance",
            "metadata": {"name": *self.local.name, "namespace": *self.local.namespace, "uid": *found.uid},
            "status": status,
        });
        let write = Write::Apply {
            body,
            exact: ExactFields::roots(["status"]),
        };
        let effect = Effect {
            endpoint: Endpoint::Status,
            ..Effect::main(self.target(), write, WriteReason::WriteBackStatus)
        };
        CopyDecision::Write(Box::new(effect), Written::Status(reported))
    }
}
