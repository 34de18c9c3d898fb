//! Digests of write-backs on the hub and of their projections in a project.

use super::{HubCopy, Lacks, Strings, controller, created, label, size_of};
use fedgate_api::{
    conditions::Serving,
    keys,
    names::{CityCode, deployment_of_instance},
};
use fedgate_engine::{diff::Digest, object::is_partial};
use fedgate_kinds::{FederatedKind, WriteBack};
use kube::core::DynamicObject;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Maximum size of a projected spec and status, in bytes: a spec as large as a Workload's may be, and a status.
pub const SIZE_LIMIT: u32 = (256 + 64) * 1024;

/// A cell's Instance on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteBackDigest {
    /// Creation time, in seconds since the epoch.
    pub created: i64,
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Label `upstream-namespace`.
    pub namespace: Option<Arc<str>>,
    /// Name of the deployment: that of the label, else the Instance's own less its ordinal.
    pub deployment: Option<Arc<str>>,
    /// True if a label has that name.
    pub is_labelled: bool,
    /// Label with the city.
    pub city: Option<CityCode>,
    /// Label with the cell that wrote it.
    pub cell: Option<Arc<str>>,
    /// Kind, name and UID of its controller.
    pub controller: Option<(Arc<str>, Arc<str>, Arc<str>)>,
    /// The linking labels.
    pub labels: Digest,
    /// Labels of its place that it lacks.
    pub lacks: Lacks,
    /// Digest of the spec.
    pub spec: Digest,
    /// Digest of the status, conditions without generations.
    pub status: Digest,
    /// True if it has any status.
    pub reported: bool,
    /// Conditions `Ready` and `Available`.
    pub serving: Serving,
    /// Size of spec and status in bytes; the maximum if they cannot be read in full.
    pub size: u32,
    /// Number of its conditions.
    pub conditions: u32,
}

/// An Instance in a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// Creation time, in seconds since the epoch.
    pub created: u32,
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Name and UID of its owner of the federated kind.
    pub owner: Option<(Arc<str>, Arc<str>)>,
    /// True if that is its only owner, without `controller` and `blockOwnerDeletion`.
    pub plain_owner: bool,
    /// True if it has no owner and every label that the gateway sets: its deployment was deleted with `orphan`.
    pub orphaned: bool,
    /// Label `upstream-namespace` and the linking labels.
    pub labels: Digest,
    /// Digest of the spec.
    pub spec: Digest,
    /// Digest of the status.
    pub status: Digest,
    /// Conditions `Ready` and `Available`.
    pub serving: Serving,
}

/// A status without the generations of its conditions: a cell's generations have no meaning in a project.
pub fn without_generations(status: &Value) -> Value {
    let mut status = status.clone();
    for condition in status
        .get_mut("conditions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(map) = condition.as_object_mut() {
            map.remove("observedGeneration");
        }
    }
    status
}

/// The labels of a projection: those of the object with these keys, and the name of its deployment, if it has one.
fn label_digest(object: &DynamicObject, keys: &[String], deployment: Option<(&str, &str)>) -> Digest {
    let labels = keys
        .iter()
        .filter_map(|key| label(object, key).map(|value| (key.as_str(), value)));
    let labels: BTreeMap<&str, &str> = labels.chain(deployment).collect();
    labels.iter().fold(Digest::default(), |all, part| all.with(&part))
}

impl WriteBackDigest {
    /// True if it is too large to be projected.
    pub fn is_too_large(&self) -> bool {
        self.size > SIZE_LIMIT
    }

    /// The labels of its place that it lacks and that its copy knows. Its projection has them (contract: locations.md
    /// §2.5).
    pub fn labels_of_copy<'a>(&self, copy: &'a HubCopy, rules: &'a WriteBack) -> Vec<(&'a str, &'a str)> {
        let city = copy.city.as_ref().filter(|_| self.lacks.city);
        let location = copy.location.as_ref().filter(|_| self.lacks.location);
        let city = city.map(|city| (rules.city_label.as_str(), city.as_str()));
        let location = location.map(|location| (keys::INSTANCE_LOCATION, location.as_str()));
        city.into_iter().chain(location).collect()
    }

    /// The labels of its projection: its own, and those of its copy.
    pub fn projected_labels(&self, copy: &HubCopy, rules: &WriteBack) -> Digest {
        let more = self.labels_of_copy(copy, rules);
        more.iter().fold(self.labels, Digest::with)
    }

    /// Digests a cell's object on the hub.
    pub fn read(object: &DynamicObject, kind: &FederatedKind, words: &mut Strings) -> Self {
        let rules = kind.write_back.as_ref();
        let labelled = rules
            .and_then(|rules| label(object, &rules.owner_label))
            .filter(|name| !name.is_empty());
        let deployment = labelled.or_else(|| deployment_of_instance(object.metadata.name.as_deref()?));
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        let conditions = status
            .get("conditions")
            .and_then(Value::as_array)
            .map_or(0, |list| u32::try_from(list.len()).unwrap_or(u32::MAX));
        let size = if is_partial(object) {
            u32::MAX
        } else {
            size_of(&object.data)
        };
        Self {
            created: created(object),
            cluster: words.share_some(label(object, keys::UPSTREAM_CLUSTER)),
            namespace: words.share_some(label(object, keys::UPSTREAM_NAMESPACE)),
            deployment: words.share_some(deployment),
            is_labelled: labelled.is_some(),
            city: rules
                .and_then(|r| label(object, &r.city_label))
                .and_then(|c| words.city(c).ok()),
            cell: words.share_some(label(object, keys::CELL)),
            controller: controller(object)
                .map(|o| (words.intern(&o.kind), words.intern(&o.name), words.intern(&o.uid))),
            labels: label_digest(
                object,
                &projected_keys(kind),
                rules.map(|rules| rules.owner_label.as_str()).zip(deployment),
            ),
            lacks: lacks(object, kind),
            spec: Digest::of(object.data.get("spec").unwrap_or(&Value::Null)),
            reported: status.as_object().is_some_and(|m| !m.is_empty()),
            status: Digest::of(&without_generations(&status)),
            serving: Serving::of(&status),
            size,
            conditions,
        }
    }
}

fn lacks(object: &DynamicObject, kind: &FederatedKind) -> Lacks {
    let linking = kind.write_back.as_ref().map(|rules| &rules.linking_labels);
    let lacks = |key: &str| {
        let is_linking = linking.is_some_and(|all| all.iter().any(|linking| linking == key));
        kind.may_name_a_location() && is_linking && label(object, key).is_none()
    };
    let city = kind.write_back.as_ref().map(|rules| rules.city_label.as_str());
    Lacks {
        city: city.is_some_and(lacks),
        location: lacks(keys::INSTANCE_LOCATION),
    }
}

/// True if an Instance has each label that the gateway sets, of those that name its place at least one.
fn is_labelled(object: &DynamicObject, kind: &FederatedKind) -> bool {
    let lacks = lacks(object, kind);
    let city = kind.write_back.as_ref().map(|rules| rules.city_label.as_str());
    let is_of_place =
        |key: &str| kind.may_name_a_location() && (Some(key) == city || key == keys::INSTANCE_LOCATION);
    let mut others = projected_keys(kind).into_iter().filter(|key| !is_of_place(key));
    !(lacks.city && lacks.location) && others.all(|key| label(object, &key).is_some())
}

/// The labels of a projection: two of identity, and the linking labels.
fn projected_keys(kind: &FederatedKind) -> Vec<String> {
    let linking = kind
        .write_back
        .iter()
        .flat_map(|w| w.linking_labels.iter().cloned());
    [
        keys::UPSTREAM_CLUSTER.to_owned(),
        keys::UPSTREAM_NAMESPACE.to_owned(),
    ]
    .into_iter()
    .chain(linking)
    .collect()
}

impl Projection {
    /// Digests an Instance of a project.
    pub fn read(object: &DynamicObject, kind: &FederatedKind, words: &mut Strings) -> Self {
        let owners: Vec<_> = object.metadata.owner_references.iter().flatten().collect();
        let api_version = kind.resource.api_version.as_str();
        let owner = owners
            .iter()
            .find(|o| o.kind == kind.resource.kind && o.api_version == api_version);
        let status = object.data.get("status").unwrap_or(&Value::Null);
        Self {
            created: u32::try_from(created(object)).unwrap_or(0),
            cluster: words.share_some(label(object, keys::UPSTREAM_CLUSTER)),
            owner: owner.map(|o| (words.intern(&o.name), words.intern(&o.uid))),
            plain_owner: owners.len() == 1
                && owner.is_some_and(|o| o.controller != Some(true) && o.block_owner_deletion != Some(true)),
            orphaned: owners.is_empty()
                && label(object, keys::UPSTREAM_NAMESPACE) == object.metadata.namespace.as_deref()
                && is_labelled(object, kind),
            labels: label_digest(object, &projected_keys(kind), None),
            spec: Digest::of(object.data.get("spec").unwrap_or(&Value::Null)),
            status: Digest::of(status),
            serving: Serving::of(status),
        }
    }
}
