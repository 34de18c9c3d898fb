//! Digests: what the gateway reads of each kind of object. Each is made by one reader from the object as served.

use super::status::StatusDigest;
use crate::{
    api::{
        keys,
        names::{CityCode, is_label_value},
    },
    engine::diff::Digest,
    kinds::{CompanionKind, FederatedKind},
};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

/// Shares the words that many objects repeat: condition types and reasons, finalizers, cluster names.
#[derive(Debug, Default)]
pub struct Words(HashSet<Arc<str>>);

/// Words beyond this many are not shared, so that nobody can fill the memory with inventions.
const WORDS: usize = 4_096;

impl Words {
    /// The shared form of a word.
    pub fn share(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.0.get(word) {
            return known.clone();
        }
        let new: Arc<str> = word.into();
        if self.0.len() < WORDS && word.len() <= 128 {
            self.0.insert(new.clone());
        }
        new
    }
}

/// The value of a label.
pub fn label<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// The value of an annotation.
pub fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn owned(text: Option<&str>) -> Option<Arc<str>> {
    text.map(Into::into)
}

/// A project's deployment (any federated kind).
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// `metadata.generation`.
    pub generation: i64,
    /// All its finalizers.
    pub finalizers: Box<[Arc<str>]>,
    /// The city, or the text that is none.
    pub city: Result<CityCode, Arc<str>>,
    /// Annotation `federation-namespace`.
    pub federation_namespace: Option<Arc<str>>,
    /// What the copy carries of it, generation aside.
    pub content: Digest,
    /// Annotation with what is expected, as text.
    pub expected: Option<Arc<str>>,
    /// Annotation with a terminal source error, as text.
    pub error: Option<Arc<str>>,
    /// `ConfigMap`s and Secrets that it names, in order.
    pub references: Box<[Reference]>,
    /// Its status.
    pub status: StatusDigest,
    /// Largest scale setting in it.
    pub scale: u32,
    /// UID of its controller, or of the Workload that it names.
    pub controller: Option<Arc<str>>,
    /// What the workload controller reads, for the kind that it writes.
    pub rollup: Option<Rollup>,
}

/// A deployment as the workload controller reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// JSON of the object without its template and without what that controller does not read.
    pub text: Box<str>,
    /// Digest of the template.
    pub template: Digest,
}

impl Rollup {
    fn read(object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        let mut spec = object.data.get("spec").cloned().unwrap_or_default();
        let template = spec
            .as_object_mut()
            .and_then(|m| m.remove("template"))
            .unwrap_or_default();
        let text = json!({
            "apiVersion": object.types.as_ref().map(|t| &t.api_version), "kind": object.types.as_ref().map(|t| &t.kind),
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "labels": meta.labels,
                "ownerReferences": meta.owner_references, "deletionTimestamp": meta.deletion_timestamp,
                "creationTimestamp": meta.creation_timestamp, "generation": meta.generation},
            "spec": spec,
            "status": object.data.get("status"),
        });
        Self {
            text: text.to_string().into(),
            template: template_digest(&template),
        }
    }
}

/// One reference of a [`Source`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `ConfigMap` or Secret.
    pub kind: CompanionKind,
    /// Its name.
    pub name: Arc<str>,
    /// Whether it may be missing.
    pub optional: bool,
}

/// The digest of a template in the form in which this program writes it, whatever defaults an API has filled in.
pub fn template_digest(template: &Value) -> Digest {
    match serde_json::from_value::<crate::api::InstanceTemplate>(template.clone()) {
        Ok(template) => Digest::of(&serde_json::to_value(template).unwrap_or_default()),
        Err(_) => Digest::of(template),
    }
}

/// The hub's copy of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// Annotation `source-uid`.
    pub source_uid: Option<Arc<str>>,
    /// Annotation `source-generation`.
    pub source_generation: Option<i64>,
    /// Label with the project namespace.
    pub upstream_namespace: Option<Arc<str>>,
    /// Label with the city.
    pub city: Option<CityCode>,
    /// What it carries, computed as [`Source::content`].
    pub content: Digest,
    /// Name of the policy that claims it.
    pub claimed_by: Option<Arc<str>>,
    /// Its status as Karmada aggregated it.
    pub status: StatusDigest,
}

/// A Namespace of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubNamespaceDigest {
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Label `upstream-namespace`.
    pub namespace: Option<Arc<str>>,
    /// Whether the skip label is there and `true`.
    pub skip: bool,
    /// Label `project-uid`.
    pub project_uid: Option<Arc<str>>,
    /// Label `cities`.
    pub cities: Option<Arc<str>>,
}

/// A `ClusterPropagationPolicy` of a city set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitySet {
    /// The codes it names; `None` if it is not of our shape.
    pub cities: Option<BTreeSet<CityCode>>,
    /// Whether every owned field is as we write it.
    pub exact: bool,
}

/// A `PropagationPolicy` of a city.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CityPolicy {
    /// Index of the federated kind and the code that its selector names; `None` if it is not of our shape.
    pub selects: Option<(usize, CityCode)>,
    /// Whether every owned field is as we write it.
    pub exact: bool,
}

/// Karmada's binding of a copy or companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// UID of the owner.
    pub owner: Option<Arc<str>>,
    /// Kind of what is bound, e.g. `WorkloadDeployment`.
    pub kind: Arc<str>,
    /// Name of what is bound.
    pub name: Arc<str>,
    /// Name of the policy that claims it.
    pub policy: Option<Arc<str>>,
    /// `Scheduled=False` with reason `NoClusterFit`.
    pub no_cluster: bool,
    /// Whether it is scheduled to at least one cluster.
    pub scheduled: bool,
    /// `FullyApplied=True`.
    pub applied: bool,
    /// Clusters that have it applied or are meant to.
    pub clusters: Box<[Arc<str>]>,
    /// The first item that is not applied: cluster and message.
    pub failed: Option<(Arc<str>, Arc<str>)>,
}

/// A companion, or another object of its kind on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// Type, `data`, `binaryData`.
    pub payload: Digest,
    /// Type of a Secret.
    pub secret_type: Option<Arc<str>>,
    /// Annotation `referenced-by` as text.
    pub referenced_by: Option<Arc<str>>,
}

/// A `ConfigMap` or Secret of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Type, `data`, `binaryData`.
    pub payload: Digest,
    /// Type of a Secret.
    pub secret_type: Option<Arc<str>>,
    /// Bytes of all values.
    pub size: usize,
}

/// A cell's Instance on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteBackDigest {
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Label `upstream-namespace`.
    pub namespace: Option<Arc<str>>,
    /// Label that names the deployment.
    pub deployment: Option<Arc<str>>,
    /// Label with the city.
    pub city: Option<CityCode>,
    /// Kind, name and UID of its controller.
    pub controller: Option<(Arc<str>, Arc<str>, Arc<str>)>,
    /// The linking labels.
    pub labels: Digest,
    /// Its spec.
    pub spec: Digest,
    /// Its status, conditions without generations.
    pub status: Digest,
    /// Whether it has any status.
    pub reported: bool,
    /// Size of spec and status in bytes.
    pub size: usize,
    /// How many conditions it has.
    pub conditions: usize,
}

/// An Instance in a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Name and UID of its owner of the federated kind.
    pub owner: Option<(Arc<str>, Arc<str>)>,
    /// Whether that is its only owner, without `controller` and `blockOwnerDeletion`.
    pub plain_owner: bool,
    /// Label `upstream-namespace` and the linking labels.
    pub labels: Digest,
    /// Its spec.
    pub spec: Digest,
    /// Its status.
    pub status: Digest,
}

/// A `ResourceInterpreterCustomization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterpreterDigest {
    /// Index of the federated kind it is for.
    pub kind: Option<usize>,
    /// `target` and `customizations`.
    pub content: Digest,
    /// Its operations.
    pub operations: Box<[Arc<str>]>,
}

/// Everything of the object but metadata and status: what travels to the hub.
pub fn payload_roots(object: &DynamicObject) -> Map<String, Value> {
    object
        .data
        .as_object()
        .map(|map| {
            map.iter()
                .filter(|(k, _)| *k != "status")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        })
        .unwrap_or_default()
}

/// The annotations that travel, with suspension as `true` or absent.
pub fn carried(kind: &FederatedKind, object: &DynamicObject) -> BTreeMap<String, String> {
    kind.carried_annotations
        .iter()
        .filter_map(|key| annotation(object, key).map(|value| (key.clone(), value.to_owned())))
        .filter(|(key, value)| kind.suspend_annotation.as_ref() != Some(key) || value == "true")
        .collect()
}

fn content(
    kind: &FederatedKind,
    object: &DynamicObject,
    city: Option<&str>,
    upstream: Option<&str>,
    uid: Option<&str>,
) -> Digest {
    let whole = json!([city, upstream, uid, carried(kind, object), payload_roots(object)]);
    Digest::of(&whole)
}

fn controller(
    object: &DynamicObject,
) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    object
        .metadata
        .owner_references
        .as_ref()?
        .iter()
        .find(|o| o.controller == Some(true))
}

impl Source {
    /// Reads a project's object of a federated kind.
    pub fn read(object: &DynamicObject, kind: &FederatedKind, words: &mut Words) -> Self {
        let meta = &object.metadata;
        let whole = with_metadata(object);
        let city = kind
            .placement
            .path
            .first(&whole)
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        let city =
            CityCode::parse(city.as_deref().unwrap_or_default()).map_err(|_| city.unwrap_or_default().into());
        let companions = kind.companions.as_ref();
        let of = |key: Option<&String>| key.and_then(|k| owned(annotation(object, k)));
        let status = object.data.get("status");
        let named = || {
            object
                .data
                .pointer("/spec/workloadRef/uid")
                .and_then(Value::as_str)
        };
        let controller = controller(object)
            .map(|o| o.uid.as_str())
            .or_else(named)
            .map(Arc::from);
        let rollup = (kind.resource.group == crate::api::GROUP && kind.resource.kind == "WorkloadDeployment")
            .then(|| Rollup::read(object));
        Self {
            generation: meta.generation.unwrap_or(0),
            finalizers: meta.finalizers.iter().flatten().map(|f| words.share(f)).collect(),
            content: content(
                kind,
                object,
                city.as_ref().ok().map(CityCode::as_str),
                meta.namespace.as_deref(),
                meta.uid.as_deref(),
            ),
            city,
            federation_namespace: owned(annotation(object, keys::FEDERATION_NAMESPACE)),
            expected: of(companions.and_then(|c| c.expected_annotation.as_ref())),
            error: of(companions.and_then(|c| c.error_annotation.as_ref())),
            references: references(kind, &whole),
            status: StatusDigest::of(status, &kind.status.counters, &mut |w| words.share(w)),
            scale: kind
                .write_back
                .iter()
                .flat_map(|w| &w.scale_paths)
                .flat_map(|path| path.all(&whole))
                .filter_map(Value::as_u64)
                .filter_map(|n| u32::try_from(n).ok())
                .max()
                .unwrap_or(0),
            controller,
            rollup,
        }
    }
}

/// The object as JSON with what a profile's paths may ask of its metadata.
fn with_metadata(object: &DynamicObject) -> Value {
    let mut whole = object.data.clone();
    if let Some(map) = whole.as_object_mut() {
        map.insert(
            "metadata".into(),
            json!({"name": object.metadata.name, "namespace": object.metadata.namespace,
                "labels": object.metadata.labels, "annotations": object.metadata.annotations}),
        );
    }
    whole
}

fn references(kind: &FederatedKind, object: &Value) -> Box<[Reference]> {
    let mut found: Vec<Reference> = Vec::new();
    for rule in kind.companions.iter().flat_map(|c| &c.references) {
        for value in rule.path.all(object) {
            let Some(name) = value
                .get(&rule.name_field)
                .and_then(Value::as_str)
                .filter(|n| !n.is_empty())
            else {
                continue;
            };
            let optional =
                rule.may_be_optional && value.get("optional").and_then(Value::as_bool) == Some(true);
            match found.iter_mut().find(|r| r.kind == rule.kind && *r.name == *name) {
                // Named twice, once as required: required.
                Some(had) => had.optional &= optional,
                None => found.push(Reference {
                    kind: rule.kind,
                    name: name.into(),
                    optional,
                }),
            }
        }
    }
    found.into()
}

impl Copy {
    /// Reads the hub's object of a federated kind.
    pub fn read(object: &DynamicObject, kind: &FederatedKind, words: &mut Words) -> Self {
        let city = label(object, &kind.placement.label);
        let upstream = label(object, keys::UPSTREAM_NAMESPACE);
        let source_uid = annotation(object, keys::SOURCE_UID);
        Self {
            source_uid: owned(source_uid),
            source_generation: annotation(object, keys::SOURCE_GENERATION).and_then(|g| g.parse().ok()),
            upstream_namespace: owned(upstream),
            city: city.and_then(|c| CityCode::parse(c).ok()),
            content: content(kind, object, city, upstream, source_uid),
            claimed_by: owned(annotation(object, keys::CLAIM_NAME)),
            status: StatusDigest::of(object.data.get("status"), &kind.status.counters, &mut |w| {
                words.share(w)
            }),
        }
    }
}

impl HubNamespaceDigest {
    /// Reads a hub Namespace.
    pub fn read(object: &DynamicObject) -> Self {
        Self {
            cluster: owned(label(object, keys::UPSTREAM_CLUSTER)),
            namespace: owned(label(object, keys::UPSTREAM_NAMESPACE)),
            skip: label(object, keys::SKIP_AUTO_PROPAGATION) == Some("true"),
            project_uid: owned(label(object, keys::PROJECT_UID)),
            cities: owned(label(object, keys::CITIES)),
        }
    }
}

impl Binding {
    /// Reads a `ResourceBinding`.
    pub fn read(object: &DynamicObject, words: &mut Words) -> Self {
        let condition = |kind: &str| {
            object
                .data
                .pointer("/status/conditions")
                .and_then(Value::as_array)
                .and_then(|list| {
                    list.iter()
                        .find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
                        .cloned()
                })
        };
        let is = |c: &Option<Value>, field: &str, value: &str| {
            c.as_ref().and_then(|c| c.get(field)).and_then(Value::as_str) == Some(value)
        };
        let scheduled = condition("Scheduled");
        let items = object
            .data
            .pointer("/status/aggregatedStatus")
            .and_then(Value::as_array);
        let text = |item: &Value, field: &str| {
            item.get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let failed = items.into_iter().flatten().find_map(|item| {
            let applied = item.get("applied").and_then(Value::as_bool).unwrap_or(false);
            let message = text(item, "appliedMessage");
            (!applied && !message.is_empty())
                .then(|| (words.share(&text(item, "clusterName")), message.into()))
        });
        let clusters = object.data.pointer("/spec/clusters").and_then(Value::as_array);
        let clusters: Box<[Arc<str>]> = clusters
            .into_iter()
            .flatten()
            .map(|c| words.share(&text(c, "name")))
            .collect();
        let resource = |field: &str| {
            object
                .data
                .pointer(&format!("/spec/resource/{field}"))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Self {
            owner: object
                .metadata
                .owner_references
                .iter()
                .flatten()
                .next()
                .map(|o| o.uid.as_str().into()),
            kind: words.share(resource("kind")),
            name: resource("name").into(),
            policy: owned(annotation(object, keys::CLAIM_NAME)),
            no_cluster: is(&scheduled, "status", "False") && is(&scheduled, "reason", "NoClusterFit"),
            scheduled: is(&scheduled, "status", "True") && !clusters.is_empty(),
            applied: is(&condition("FullyApplied"), "status", "True"),
            clusters,
            failed,
        }
    }
}

fn payload(object: &DynamicObject) -> (Digest, Option<Arc<str>>, usize) {
    let part = |key: &str| {
        object
            .data
            .get(key)
            .filter(|v| v.as_object().is_some_and(|m| !m.is_empty()))
    };
    let secret_type = object.data.get("type").and_then(Value::as_str);
    let length = |v: &Value, base64: bool| {
        let n = v.as_str().map_or(0, str::len);
        if base64 { n / 4 * 3 } else { n }
    };
    let size = |key: &str, base64: bool| -> usize {
        part(key)
            .and_then(Value::as_object)
            .map_or(0, |m| m.values().map(|v| length(v, base64)).sum())
    };
    let is_secret = secret_type.is_some();
    (
        Digest::of(&json!([secret_type, part("data"), part("binaryData")])),
        owned(secret_type),
        size("data", is_secret) + size("binaryData", true),
    )
}

impl Companion {
    /// Reads a labelled `ConfigMap` or Secret of the hub.
    pub fn read(object: &DynamicObject) -> Self {
        let (payload, secret_type, _) = payload(object);
        Self {
            payload,
            secret_type,
            referenced_by: owned(annotation(object, keys::REFERENCED_BY)),
        }
    }
}

impl Payload {
    /// Reads a `ConfigMap` or Secret of a project. Its values are digested and counted, never kept.
    pub fn read(object: &DynamicObject) -> Self {
        let (payload, secret_type, size) = payload(object);
        Self {
            payload,
            secret_type,
            size,
        }
    }
}

/// A status without the generations of its conditions: a cell's numbers mean nothing in a project.
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

fn label_digest(object: &DynamicObject, keys: &[String]) -> Digest {
    let labels: BTreeMap<&String, &str> = keys
        .iter()
        .filter_map(|k| label(object, k).map(|v| (k, v)))
        .collect();
    Digest::of_hash(&labels)
}

impl WriteBackDigest {
    /// Reads a cell's object on the hub.
    pub fn read(object: &DynamicObject, kind: &FederatedKind, words: &mut Words) -> Self {
        let rules = kind.write_back.as_ref();
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        let conditions = status
            .get("conditions")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let size = serde_json::to_vec(&object.data).map_or(0, |v| v.len());
        Self {
            cluster: owned(label(object, keys::UPSTREAM_CLUSTER)),
            namespace: owned(label(object, keys::UPSTREAM_NAMESPACE)),
            deployment: rules.and_then(|r| owned(label(object, &r.owner_label))),
            city: rules
                .and_then(|r| label(object, &r.city_label))
                .and_then(|c| CityCode::parse(c).ok()),
            controller: controller(object).map(|o| {
                (
                    words.share(&o.kind),
                    o.name.as_str().into(),
                    o.uid.as_str().into(),
                )
            }),
            labels: projected_labels(object, kind),
            spec: Digest::of(object.data.get("spec").unwrap_or(&Value::Null)),
            reported: status.as_object().is_some_and(|m| !m.is_empty()),
            status: Digest::of(&without_generations(&status)),
            size,
            conditions,
        }
    }
}

fn projected_labels(object: &DynamicObject, kind: &FederatedKind) -> Digest {
    let linking = kind
        .write_back
        .iter()
        .flat_map(|w| w.linking_labels.iter().cloned());
    let all: Vec<String> = [
        keys::UPSTREAM_CLUSTER.to_owned(),
        keys::UPSTREAM_NAMESPACE.to_owned(),
    ]
    .into_iter()
    .chain(linking)
    .collect();
    label_digest(object, &all)
}

impl Projection {
    /// Reads an Instance of a project.
    pub fn read(object: &DynamicObject, kind: &FederatedKind) -> Self {
        let owners: Vec<_> = object.metadata.owner_references.iter().flatten().collect();
        let api_version = kind.resource.api_version.as_str();
        let owner = owners
            .iter()
            .find(|o| o.kind == kind.resource.kind && o.api_version == api_version);
        let status = object.data.get("status").unwrap_or(&Value::Null);
        Self {
            cluster: owned(label(object, keys::UPSTREAM_CLUSTER)),
            owner: owner.map(|o| (o.name.as_str().into(), o.uid.as_str().into())),
            plain_owner: owners.len() == 1
                && owner.is_some_and(|o| o.controller != Some(true) && o.block_owner_deletion != Some(true)),
            labels: projected_labels(object, kind),
            spec: Digest::of(object.data.get("spec").unwrap_or(&Value::Null)),
            status: Digest::of(status),
        }
    }
}

impl InterpreterDigest {
    /// Reads a `ResourceInterpreterCustomization`.
    pub fn read(object: &DynamicObject, kinds: &[FederatedKind], words: &mut Words) -> Self {
        let target = object.data.pointer("/spec/target");
        let field = |name: &str| target.and_then(|t| t.get(name)).and_then(Value::as_str);
        let kind = kinds.iter().position(|k| {
            field("apiVersion") == Some(&k.resource.api_version) && field("kind") == Some(&k.resource.kind)
        });
        let operations = object
            .data
            .pointer("/spec/customizations")
            .and_then(Value::as_object);
        Self {
            kind,
            content: Digest::of(object.data.get("spec").unwrap_or(&Value::Null)),
            operations: operations
                .into_iter()
                .flat_map(|m| m.keys())
                .map(|k| words.share(k))
                .collect(),
        }
    }
}

/// Reads the shape of a city-set policy.
impl CitySet {
    /// Reads a `ClusterPropagationPolicy`.
    pub fn read(object: &DynamicObject, label: &str) -> Self {
        let values = object
            .data
            .pointer("/spec/placement/clusterAffinity/labelSelector/matchExpressions/0/values");
        let cities: BTreeSet<CityCode> = values
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|v| {
                v.as_str()
                    .filter(|t| is_label_value(t))
                    .and_then(|t| CityCode::parse(t).ok())
            })
            .collect();
        let set = object
            .metadata
            .name
            .as_deref()
            .and_then(|n| n.strip_prefix("cities-"))
            .unwrap_or_default();
        let wanted = super::shape::city_set_spec(set, &cities, label);
        let exact = super::shape::covers(object.data.get("spec").unwrap_or(&Value::Null), &wanted);
        Self {
            cities: (!cities.is_empty()).then_some(cities),
            exact,
        }
    }
}

impl CityPolicy {
    /// Reads a `PropagationPolicy`.
    pub fn read(object: &DynamicObject, kinds: &[FederatedKind]) -> Self {
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let selectors = spec.get("resourceSelectors").and_then(Value::as_array);
        let only = selectors.filter(|s| s.len() == 1).and_then(|s| s.first());
        let text = |v: Option<&Value>, field: &str| {
            v.and_then(|v| v.get(field))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let found = kinds.iter().enumerate().find_map(|(index, kind)| {
            let ours = text(only, "apiVersion")? == kind.resource.api_version
                && text(only, "kind")? == kind.resource.kind;
            let labels = only?.pointer("/labelSelector/matchLabels")?;
            let city = labels.get(&kind.placement.label)?.as_str()?;
            ours.then(|| CityCode::parse(city).ok())
                .flatten()
                .map(|city| (index, city))
        });
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let exact = found.as_ref().is_some_and(|(index, city)| {
            super::shape::covers(
                spec,
                &super::shape::city_policy_spec(&kinds[*index], namespace, city),
            )
        });
        Self {
            selects: found,
            exact,
        }
    }
}
