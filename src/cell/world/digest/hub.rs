//! The hub's deployments, and what has been written back there.

use super::{Words, annotation, controller, label};
use crate::{api::keys, engine::diff::Digest};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// A deployment on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubDeployment {
    /// Its city.
    pub city: Option<Arc<str>>,
}

/// Reads a deployment of the hub.
pub fn hub_deployment(object: &DynamicObject, words: &mut Words) -> HubDeployment {
    HubDeployment {
        city: label(object, keys::CITY_CODE, words),
    }
}

/// An Instance on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// The cell that it says it is of.
    pub cell: Option<Arc<str>>,
    /// UID of the Instance at that cell.
    pub instance: Option<Arc<str>>,
    /// Its city.
    pub city: Option<Arc<str>>,
    /// UID of its controller.
    pub controller: Option<Arc<str>>,
    /// Of what a write-back owns of it, but for the status ([`owned_fields`]).
    pub owned: Digest,
    /// Of its status.
    pub status: Digest,
}

/// Reads an Instance of the hub.
pub fn copy(object: &DynamicObject, words: &mut Words) -> Copy {
    let meta = &object.metadata;
    let empty = BTreeMap::new();
    let labels = meta.labels.as_ref().unwrap_or(&empty);
    let owners = meta.owner_references.iter().flatten();
    let owner = owners.clone().find(|owner| owner.controller == Some(true));
    let owner = owner.map(|owner| (owner.name.as_str(), owner.uid.as_str()));
    let uid = annotation(object, keys::INSTANCE_UID);
    Copy {
        cell: label(object, keys::CELL, words),
        instance: uid.map(|uid| words.share(uid)),
        city: label(object, keys::INSTANCE_CITY_CODE, words),
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

/// Of a status; absent is the same as empty.
pub fn fingerprint(status: Option<&Value>) -> Digest {
    Digest::of(status.unwrap_or(&Value::Null))
}

/// What a write-back owns of an Instance on the hub, but for its status. Labels of others are not in it.
pub fn owned_fields<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    uid: Option<&str>,
    owner: Option<(&str, &str)>,
    spec: &Value,
) -> Value {
    let origin = [keys::CELL, keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE];
    let carried = keys::LINKING.into_iter().chain(origin);
    let labels: Map<String, Value> = carried
        .filter_map(|key| Some((key.to_owned(), json!(label(key)?))))
        .collect();
    json!({"labels": labels, "uid": uid, "owner": owner, "spec": spec})
}
