//! Digests of the hub's `WorkloadDeployments` and of the Instances that cells have written back.

use super::{Strings, annotation, controller, label};
use fedgate_api::keys;
use fedgate_engine::diff::Digest;
use kube::{ResourceExt, core::DynamicObject};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A `WorkloadDeployment` on the hub, which has one of the labels by which it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubDeployment {
    /// The city of its label.
    pub city: Option<Arc<str>>,
    /// The location of its label.
    pub location: Option<Arc<str>>,
    /// Annotation `fedgate.dev/cell`: the only cell that may write Instances of it; `None` if no cell is named.
    pub cell: Option<Arc<str>>,
    /// Annotation `fedgate.dev/moving-to`: the cell to which it moves; `None` before a move, and after the copy names the new cell.
    pub moving_to: Option<Arc<str>>,
}

impl HubDeployment {
    /// True if the copy names this cell in `fedgate.dev/moving-to` or `fedgate.dev/cell`.
    pub fn is_moved_to(&self, cell: &str) -> bool {
        let is_here = |named: &Option<Arc<str>>| named.as_deref() == Some(cell);
        is_here(&self.moving_to) || is_here(&self.cell)
    }

    /// True if it names another cell than this one.
    pub fn is_elsewhere(&self, cell: &str) -> bool {
        self.cell.as_deref().is_some_and(|named| named != cell)
    }
}

/// Builds the digest of a hub deployment.
pub fn hub_deployment(object: &DynamicObject, words: &mut Strings) -> HubDeployment {
    HubDeployment {
        city: label(object, keys::CITY_CODE, words),
        location: label(object, keys::LOCATION, words),
        cell: annotation(object, keys::CELL).map(|cell| words.intern(cell)),
        moving_to: annotation(object, keys::MOVING_TO).map(|cell| words.intern(cell)),
    }
}

/// An Instance on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct HubInstance {
    /// Name of the cell, from the write-back's label.
    pub cell: Option<Arc<str>>,
    /// UID of the Instance at that cell.
    pub instance: Option<Arc<str>>,
    /// City code.
    pub city: Option<Arc<str>>,
    /// Name of the location.
    pub location: Option<Arc<str>>,
    /// UID of the controller.
    pub controller: Option<Arc<str>>,
    /// Digest of the fields that the write-back owns, except the status ([`owned_fields`]).
    pub owned: Digest,
    /// Digest of the status.
    pub status: Digest,
}

/// Builds the digest of an Instance on the hub.
pub fn write_back(object: &DynamicObject, words: &mut Strings) -> HubInstance {
    let labels = object.labels();
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true));
    let owner = owner.map(|owner| (owner.name.as_str(), owner.uid.as_str()));
    let uid = annotation(object, keys::INSTANCE_UID);
    HubInstance {
        cell: label(object, keys::CELL, words),
        instance: uid.map(|uid| words.intern(uid)),
        city: label(object, keys::INSTANCE_CITY_CODE, words),
        location: label(object, keys::INSTANCE_LOCATION, words),
        controller: controller(object, words),
        owned: Digest::of(&owned_fields(
            |key| labels.get(key).map(String::as_str),
            uid,
            owner,
            &object.data["spec"],
        )),
        status: fingerprint(object.data.get("status")),
    }
}

/// Digest of a status; an absent status equals `null`.
pub fn fingerprint(status: Option<&Value>) -> Digest {
    Digest::of(status.unwrap_or(&Value::Null))
}

/// The fields of a hub Instance that the write-back owns, except the status. Labels of other writers are left out.
pub fn owned_fields<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    uid: Option<&str>,
    owner: Option<(&str, &str)>,
    spec: &Value,
) -> Value {
    let origin = [
        keys::CELL,
        keys::UPSTREAM_CLUSTER,
        keys::UPSTREAM_NAMESPACE,
        keys::INSTANCE_LOCATION,
    ];
    let carried = keys::LINKING.into_iter().chain(origin);
    let labels: Map<String, Value> = carried
        .filter_map(|key| Some((key.to_owned(), json!(label(key)?))))
        .collect();
    json!({"labels": labels, "uid": uid, "owner": owner, "spec": spec})
}
