//! Digests of the hub's objects around copies: Namespaces, policies, bindings, interpreters.

use super::{Delivery, Strings, annotation, label, place};
use crate::{lane, policy_spec, route::Route};
use fedgate_api::{
    keys,
    names::{self, CityCode, LocationName, is_label_value},
};
use fedgate_engine::diff::Digest;
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, KindId, PerKind};
use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// A Namespace of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubNamespaceDigest {
    /// Label `upstream-cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Label `upstream-namespace`.
    pub namespace: Option<Arc<str>>,
    /// True if the skip label is `true`.
    pub skip: bool,
    /// Label `project-uid`.
    pub project_uid: Option<Arc<str>>,
    /// Label `cities`.
    pub cities: Option<Arc<str>>,
    /// Annotation `reassign-to`.
    pub reassign_to: Option<Arc<str>>,
    /// Annotation `garbage-confirmed`, if it is a time.
    pub garbage_confirmed: Option<Timestamp>,
    /// The Namespace's part of the identity of the hub; none but two have one.
    pub of_hub: Option<Box<OfHub>>,
}

/// Parts of the identity of a hub that its Namespaces `kube-system` and `fedgate-system` have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfHub {
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Annotation `replaces-hub`.
    pub replaces: Option<Box<str>>,
}

impl OfHub {
    fn read(object: &DynamicObject) -> Option<Box<Self>> {
        let name = object.metadata.name.as_deref()?;
        [keys::HUB_IDENTITY, keys::SYSTEM_NAMESPACE]
            .contains(&name)
            .then(|| {
                Box::new(Self {
                    created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
                    replaces: annotation(object, keys::REPLACES_HUB).map(Into::into),
                })
            })
    }
}

impl HubNamespaceDigest {
    /// True if a Namespace without fedgate's labels names another owner.
    pub fn is_foreign(&self, cluster: &str, namespace: &str) -> bool {
        let differs = |had: &Option<Arc<str>>, wanted: &str| had.as_ref().is_some_and(|had| **had != *wanted);
        let marked = self.project_uid.is_some() || self.cities.is_some();
        !marked && (differs(&self.cluster, cluster) || differs(&self.namespace, namespace))
    }

    /// Digests a hub Namespace.
    pub fn read(object: &DynamicObject, words: &mut Strings) -> Self {
        let mut word = |key| words.share_some(label(object, key));
        Self {
            cluster: word(keys::UPSTREAM_CLUSTER),
            namespace: word(keys::UPSTREAM_NAMESPACE),
            skip: label(object, keys::SKIP_AUTO_PROPAGATION) == Some("true"),
            project_uid: word(keys::PROJECT_UID),
            cities: word(keys::CITIES),
            reassign_to: words.share_some(annotation(object, keys::REASSIGN_TO)),
            garbage_confirmed: annotation(object, keys::GARBAGE_CONFIRMED).and_then(|at| at.parse().ok()),
            of_hub: OfHub::read(object),
        }
    }
}

/// A cell as a Karmada Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The city code of its label, if that is valid.
    pub city: Option<CityCode>,
    /// The name of the location of its label, if that is valid.
    pub location: Option<LocationName>,
    /// Its condition `Ready`; `None` without one.
    pub ready: Option<ClusterReady>,
    /// UID of the Cluster whose member it is, by an operator.
    pub same_as: Option<Arc<str>>,
    /// True if it knows all kinds that its member serves.
    pub is_surveyed: bool,
    /// UID of namespace `kube-system` of its member.
    pub id: Option<Arc<str>>,
    /// Version of its Kubernetes.
    pub kubernetes: Option<Arc<str>>,
    /// Kinds that it serves, of the federated and write-back kinds, as `<plural>.<group>`.
    pub serves: Box<[Arc<str>]>,
}

/// The condition `Ready` of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterReady {
    /// True if it is True.
    pub is_true: bool,
    /// Its reason.
    pub reason: Arc<str>,
    /// Its `lastTransitionTime` in seconds since the epoch.
    pub since: i64,
}

impl Cell {
    /// Digests a `Cluster`; `key` is the label of its city.
    pub fn read(
        object: &DynamicObject,
        key: &str,
        kinds: &PerKind<FederatedKind>,
        words: &mut Strings,
    ) -> Self {
        let status = object.data.get("status").unwrap_or(&Value::Null);
        let conditions = status.get("conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            city: label(object, key).and_then(|text| CityCode::parse(text).ok()),
            location: place::location_of_cluster(object, words),
            ready: ready.map(|condition| ClusterReady {
                is_true: condition["status"] == "True",
                reason: words.intern(&text(&condition["reason"])),
                since: text(&condition["lastTransitionTime"])
                    .parse()
                    .map_or(0, Timestamp::as_second),
            }),
            same_as: words.share_some(annotation(object, keys::SAME_AS)),
            is_surveyed: conditions
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "CompleteAPIEnablements" && c["status"] == "True"),
            id: words.share_some(object.data.pointer("/spec/id").and_then(Value::as_str)),
            kubernetes: words.share_some(status.get("kubernetesVersion").and_then(Value::as_str)),
            serves: served(status, kinds, words),
        }
    }

    /// True if it reports to serve a kind.
    pub fn serves(&self, kind: &FederatedKind) -> bool {
        let name = resource_name(&kind.resource);
        self.serves.iter().any(|served| **served == *name)
    }

    /// True if its condition `Ready` is True.
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.is_true)
    }
}

/// `<plural>.<group>`.
fn resource_name(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// Names (`<plural>.<group>`) of the federated and write-back kinds that a Cluster reports to serve.
fn served(status: &Value, kinds: &PerKind<FederatedKind>, words: &mut Strings) -> Box<[Arc<str>]> {
    let enabled = status.get("apiEnablements").and_then(Value::as_array);
    let serves = |resource: &ApiResource| {
        enabled.into_iter().flatten().any(|group| {
            let resources = group.get("resources").and_then(Value::as_array);
            group["groupVersion"] == *resource.api_version
                && resources
                    .into_iter()
                    .flatten()
                    .any(|kind| kind["kind"] == *resource.kind)
        })
    };
    let write_backs = kinds
        .iter()
        .filter_map(|kind| Some(&kind.write_back.as_ref()?.resource));
    let resources = kinds.iter().map(|kind| &kind.resource).chain(write_backs);
    resources
        .filter(|resource| serves(resource))
        .map(|resource| words.intern(&resource_name(resource)))
        .collect()
}

/// A `ClusterPropagationPolicy` of a city set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitySet {
    /// The codes that it selects; `None` if its spec is not of our form or the codes differ from its name.
    pub cities: Option<BTreeSet<CityCode>>,
    /// True if every owned field is as we write it, and the codes are those of its name.
    pub exact: bool,
    /// True if it is another client's, and can take what is in the hub's Namespaces `ns-*`.
    pub is_intruder: bool,
}

impl CitySet {
    /// Digests a `ClusterPropagationPolicy`.
    pub fn read(object: &DynamicObject, label: &str, kinds: &[FederatedKind]) -> Self {
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
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let name = object.metadata.name.as_deref();
        let set = name.and_then(|name| name.strip_prefix("cities-"));
        let is_intruder = set.is_none() && policy_spec::takes_ours(spec, "", kinds);
        let set = set.unwrap_or_default();
        let wanted = policy_spec::city_set_spec(set, &cities, label);
        let named = names::city_set(&cities).as_deref() == Some(names::plain_set(set));
        Self {
            cities: named.then_some(cities),
            exact: named && policy_spec::matches_spec(spec, &wanted),
            is_intruder,
        }
    }
}

/// A `PropagationPolicy` of a city or location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CityPolicy {
    /// The federated kind and the route that it selects; `None` if its spec is not of our form.
    pub selects: Option<(KindId, Route)>,
    /// True if every owned field is as we write it.
    pub exact: bool,
    /// Digest of the `spec` of a lane, by its name; comparable with [`policy_spec::digest`].
    pub lane: Option<Digest>,
    /// True if it is another client's, and can take what is in a Namespace `ns-*` of the hub.
    pub is_intruder: bool,
}

impl CityPolicy {
    /// True if the gateway creates and deletes policies of this name and form.
    pub fn is_ours(&self, name: &str, kinds: &PerKind<FederatedKind>) -> bool {
        let selects = self.selects.as_ref();
        selects.is_some_and(|(id, route)| route.is_policy_name(&kinds[*id], name))
    }

    /// Digests a `PropagationPolicy`.
    pub fn read(object: &DynamicObject, kinds: &PerKind<FederatedKind>) -> Self {
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let selectors = spec.get("resourceSelectors").and_then(Value::as_array);
        let only = selectors.filter(|s| s.len() == 1).and_then(|s| s.first());
        let text = |v: Option<&Value>, field: &str| {
            v.and_then(|v| v.get(field))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let found = kinds.enumerate().find_map(|(index, kind)| {
            let ours = text(only, "apiVersion")? == kind.resource.api_version
                && text(only, "kind")? == kind.resource.kind;
            let labels = only?.pointer("/labelSelector/matchLabels")?;
            let route = Route::of_selector(kind, |key| labels.get(key)?.as_str())?;
            ours.then_some((index, route))
        });
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let exact = found.as_ref().is_some_and(|(index, route)| {
            policy_spec::matches_spec(spec, &policy_spec::route_spec(&kinds[*index], namespace, route))
        });
        let is_lane = lane::is_lane_name(kinds, name);
        Self {
            is_intruder: found.is_none() && !is_lane && policy_spec::takes_ours(spec, namespace, kinds),
            selects: found,
            exact,
            lane: is_lane.then(|| policy_spec::digest(spec)),
        }
    }
}

/// The kind of the object that a binding is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// A federated kind.
    Copy(KindId),
    /// A kind of companions.
    Companion(CompanionKind),
    /// Neither.
    Other,
}

impl Template {
    /// Two kinds of one name differ by their groups alone.
    fn read(resource: &Value, kinds: &PerKind<FederatedKind>, companions: &CompanionKinds) -> Self {
        let text = |field: &str| resource.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (
            text("apiVersion").rsplit_once('/').map_or("", |of| of.0),
            text("kind"),
        );
        let federated = kinds.position(|of| of.resource.kind == kind && of.resource.group == group);
        let companion = || companions.id_of(group, kind).map(Self::Companion);
        federated
            .map(Self::Copy)
            .or_else(companion)
            .unwrap_or(Self::Other)
    }
}

/// Karmada's binding of a copy or companion.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// UID of the owner.
    pub owner: Option<Arc<str>>,
    /// Kind of the bound object.
    pub template: Template,
    /// Name of the bound object.
    pub name: Arc<str>,
    /// Name of the policy that claims it.
    pub policy: Option<Arc<str>>,
    /// `Scheduled=False` with reason `NoClusterFit`.
    pub no_cluster: bool,
    /// True if it is scheduled to at least one cluster.
    pub scheduled: bool,
    /// `FullyApplied=True`.
    pub applied: bool,
    /// Clusters that have it applied, or are scheduled to have it.
    pub clusters: Box<[Arc<str>]>,
    /// The first item that is not applied: cluster and message.
    pub failed: Option<Box<(Arc<str>, Arc<str>)>>,
    /// True if it is being deleted and Karmada's dependencies distributor alone keeps it on the hub.
    pub is_held: bool,
    /// State at each member, if a lane claims it.
    pub delivery: Option<Box<Delivery>>,
}

impl Binding {
    /// Digests a `ResourceBinding`.
    pub fn read(
        object: &DynamicObject,
        kinds: &PerKind<FederatedKind>,
        companions: &CompanionKinds,
        words: &mut Strings,
    ) -> Self {
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
                .then(|| Box::new((words.intern(&text(item, "clusterName")), words.intern(&message))))
        });
        let clusters = object.data.pointer("/spec/clusters").and_then(Value::as_array);
        let clusters: Box<[Arc<str>]> = clusters
            .into_iter()
            .flatten()
            .map(|c| words.intern(&text(c, "name")))
            .collect();
        let policy = annotation(object, keys::CLAIM_NAME);
        let resource = &object.data["spec"]["resource"];
        Self {
            owner: object
                .metadata
                .owner_references
                .iter()
                .flatten()
                .next()
                .map(|o| words.intern(&o.uid)),
            template: Template::read(resource, kinds, companions),
            name: words.intern(resource["name"].as_str().unwrap_or_default()),
            delivery: policy
                .filter(|name| lane::is_lane_name(kinds, name))
                .map(|_| Box::new(Delivery::read(object, words))),
            policy: words.share_some(policy),
            no_cluster: is(&scheduled, "status", "False") && is(&scheduled, "reason", "NoClusterFit"),
            scheduled: is(&scheduled, "status", "True") && !clusters.is_empty(),
            applied: is(&condition("FullyApplied"), "status", "True"),
            clusters,
            failed,
            is_held: object.metadata.deletion_timestamp.is_some()
                && object.metadata.finalizers.as_deref() == Some(&[keys::DISTRIBUTOR_FINALIZER.to_owned()]),
        }
    }
}

impl Binding {
    /// True if it is applied at a cell, as far as the binding shows that.
    pub fn is_applied_at(&self, cell: &str) -> bool {
        self.applied
            || self
                .failed
                .as_deref()
                .is_some_and(|(failed, _)| **failed != *cell)
    }
}

/// A `ResourceInterpreterCustomization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterpreterDigest {
    /// Its federated kind.
    pub kind: Option<KindId>,
    /// `target` and `customizations`.
    pub content: Digest,
    /// Its operations.
    pub operations: Box<[Arc<str>]>,
}

impl InterpreterDigest {
    /// Digests a `ResourceInterpreterCustomization`.
    pub fn read(object: &DynamicObject, kinds: &PerKind<FederatedKind>, words: &mut Strings) -> Self {
        let target = object.data.pointer("/spec/target");
        let field = |name: &str| target.and_then(|t| t.get(name)).and_then(Value::as_str);
        let kind = kinds.position(|k| {
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
                .map(|k| words.intern(k))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_city_sets_policy_is_exact_only_with_the_codes_of_its_name() {
        let read = |codes: &[&str]| {
            let cities = codes.iter().map(|c| CityCode::parse(c).unwrap()).collect();
            let spec = policy_spec::city_set_spec("dfw-lhr", &cities, keys::CITY_CODE);
            let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
                "metadata": {"name": "cities-dfw-lhr"}, "spec": spec});
            CitySet::read(&serde_json::from_value(object).unwrap(), keys::CITY_CODE, &[])
        };
        assert!(read(&["DFW", "LHR"]).exact);
        assert!(!read(&["DFW"]).exact);
        assert!(!read(&["DFW", "LHR", "SYD"]).exact);
    }
}
