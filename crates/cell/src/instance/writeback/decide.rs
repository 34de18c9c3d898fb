//! The decision on an Instance's write-back on the hub. Pure.

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
pub enum WriteBackDecision {
    /// Nothing to write: the write-back is as it should be or is being deleted, the cell is being drained, or the copy names
    /// another cell.
    Nothing,
    /// A write, and the part of the write-back that it changes.
    Write(Box<Effect>, Written),
    /// The Instance's origin is unknown; the text names what is missing.
    Unclear(String),
    /// Another object holds the name: a description of its holder.
    Held(String),
}

/// The part of the write-back that a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The write-back without its status, with this digest.
    Object(Digest),
    /// The status of the write-back, with this digest.
    Status(Digest),
    /// Another part.
    Other,
}

/// Decides.
pub fn decide(local: &Local, seen: &HubView, memory: &Memory) -> WriteBackDecision {
    let origin = match origin(local, seen) {
        Ok(origin) => origin,
        Err(what) => return WriteBackDecision::Unclear(what),
    };
    let Some(deployment) = &seen.deployment else {
        return WriteBackDecision::Nothing;
    };
    let label = |key| local.row.digest.labels.get(key);
    let here = Site {
        city: label(keys::INSTANCE_CITY_CODE),
        location: label(keys::INSTANCE_LOCATION),
    };
    if !is_delivered_to(&deployment.digest, here) || deployment.digest.is_elsewhere(&seen.cell) {
        return WriteBackDecision::Nothing;
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
    let Some(found) = &seen.write_back else {
        let effect = create(wanted.target(), wanted.body(None), WriteReason::WriteBack);
        return WriteBackDecision::Write(Box::new(effect), Written::Object(wanted.digest()));
    };
    if found.deleting {
        return WriteBackDecision::Nothing;
    }
    match owner_of_write_back(local, seen, &found.digest, deployment, here) {
        WriteBackOwner::ThisInstance => wanted.update(found, memory),
        WriteBackOwner::Leftover => {
            let version = Some(found.resource_version());
            let effect = delete(
                wanted.target(),
                &found.uid,
                version,
                WriteReason::WriteBackLeftover,
            );
            WriteBackDecision::Write(Box::new(effect), Written::Other)
        }
        WriteBackOwner::Other(by) => WriteBackDecision::Held(by),
    }
}

enum WriteBackOwner {
    /// The write-back is this Instance's, has no owner, or is another cell's and the copy names this cell.
    ThisInstance,
    /// The write-back is of a deleted Instance, or of a cell that the deployment has left.
    Leftover,
    /// Another cell or controller is entitled to the write-back.
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

fn owner_of_write_back(
    local: &Local,
    seen: &HubView,
    write_back: &HubInstance,
    deployment: &Row<HubDeployment>,
    here: Site<'_>,
) -> WriteBackOwner {
    let foreign = write_back
        .controller
        .as_ref()
        .is_some_and(|uid| *uid != deployment.uid);
    let there = Site {
        city: write_back.city.as_deref(),
        location: write_back.location.as_deref(),
    };
    match &write_back.cell {
        Some(cell) if *cell == seen.cell => {
            // A recreated deployment has taken its write-backs with it: an owner cannot be replaced in place.
            if write_back.instance.as_deref() == Some(&*local.row.uid) && !foreign {
                WriteBackOwner::ThisInstance
            } else {
                WriteBackOwner::Leftover
            }
        }
        Some(_) if has_left(&deployment.digest, there, here) => WriteBackOwner::Leftover,
        // The copy names this cell. The write-back of another cell is replaced in place, so that its projection stays.
        Some(_) if deployment.digest.cell.is_some() && !foreign => WriteBackOwner::ThisInstance,
        Some(_) if deployment.digest.cell.is_some() => WriteBackOwner::Leftover,
        Some(cell) => WriteBackOwner::Other(format!("cell {cell}")),
        None if foreign => WriteBackOwner::Other("an object with another controller".to_owned()),
        None => WriteBackOwner::ThisInstance,
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

    fn update(&self, found: &Row<HubInstance>, memory: &Memory) -> WriteBackDecision {
        let wanted = self.digest();
        if !memory.written.accepts(wanted, found.digest.owned) {
            let write = Write::Update {
                body: self.body(Some(&found.uid)),
                strict: false,
            };
            let effect = Effect::main(self.target(), write, WriteReason::WriteBack);
            return WriteBackDecision::Write(Box::new(effect), Written::Object(wanted));
        }
        let Some(status) = self.local.row.digest.whole_status() else {
            return WriteBackDecision::Nothing;
        };
        let reported = digest::fingerprint(Some(&status));
        if memory.reported.accepts(reported, found.digest.status) {
            return WriteBackDecision::Nothing;
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
        WriteBackDecision::Write(Box::new(effect), Written::Status(reported))
    }
}
