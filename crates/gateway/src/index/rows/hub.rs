//! Digests of the hub's objects around copies: Namespaces, policies, bindings, interpreters.

use super::{Delivery, Strings, annotation, condition, has_condition, label, list, place, text};
use crate::{index::single_member::policy, policy_spec, route::Route};
use fedgate_api::{
    keys,
    names::{self, CityCode, LocationName, is_label_value},
};
use fedgate_engine::{diff::Digest, store::table::Row};
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, KindId, PerKind};
use fedgate_operations::CellState;
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
    /// Condition `Ready` of the Cluster; `None` without one.
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
    /// Whether taints keep new deployments away.
    pub taint: CellTaint,
}

/// Whether taints of a Cluster keep new deployments away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellTaint {
    /// No taint keeps deployments away.
    None,
    /// A taint other than `fedgate.dev/draining` keeps deployments away.
    Repels,
    /// Taint `fedgate.dev/draining`: an operator drains the cell.
    Draining,
}

impl CellTaint {
    fn read(cluster: &Value) -> Self {
        let repels = |taint: &Value| matches!(text(taint, "effect"), "NoSchedule" | "NoExecute");
        let mut taints = list(cluster, "/spec/taints")
            .filter(|taint| repels(taint))
            .peekable();
        if taints.peek().is_none() {
            Self::None
        } else if taints.any(|taint| text(taint, "key") == keys::DRAINING) {
            Self::Draining
        } else {
            Self::Repels
        }
    }
}

/// The condition `Ready` of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterReady {
    /// True if it is True.
    pub is_true: bool,
    /// Reason of the condition.
    pub reason: Arc<str>,
    /// `lastTransitionTime` of the condition, in seconds since the epoch.
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
        let data = &object.data;
        let word = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        Self {
            city: label(object, key).and_then(|text| CityCode::parse(text).ok()),
            location: place::location_of_cluster(object, words),
            ready: condition(object, "Ready").map(|condition| ClusterReady {
                is_true: text(condition, "status") == "True",
                reason: words.intern(text(condition, "reason")),
                since: text(condition, "lastTransitionTime")
                    .parse()
                    .map_or(0, Timestamp::as_second),
            }),
            same_as: words.share_some(annotation(object, keys::SAME_AS)),
            is_surveyed: has_condition(object, "CompleteAPIEnablements", "True"),
            id: words.share_some(word("/spec/id")),
            kubernetes: words.share_some(word("/status/kubernetesVersion")),
            serves: served(data, kinds, words),
            taint: CellTaint::read(data),
        }
    }

    /// True if it reports to serve a kind.
    pub fn serves(&self, kind: &FederatedKind) -> bool {
        let name = resource_name(&kind.resource);
        self.serves.iter().any(|served| **served == *name)
    }

    /// True if it is in the place that a route names.
    pub fn is_at(&self, route: &Route) -> bool {
        match route {
            Route::City(city) => self.city.as_ref() == Some(city),
            Route::Location(location) => self.location.as_ref() == Some(location),
        }
    }

    /// True if deployments of a kind, with this route, may move to a cell.
    pub fn takes(row: &Row<Self>, route: &Route, kind: &FederatedKind) -> bool {
        let cell = &row.digest;
        cell.is_at(route)
            && cell.is_ready()
            && cell.taint == CellTaint::None
            && cell.serves(kind)
            && !row.deleting
    }

    /// True if its deployments may have to move: it is drained, or not ready.
    pub fn is_in_doubt(&self) -> bool {
        self.taint == CellTaint::Draining || self.ready.as_ref().is_some_and(|ready| !ready.is_true)
    }

    /// True if its condition `Ready` is True.
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.is_true)
    }

    /// State of the cell.
    pub fn state(row: &Row<Self>) -> CellState {
        if row.deleting {
            CellState::Leaving
        } else if row.digest.city.is_none() {
            CellState::Unlabelled
        } else if !row.digest.is_ready() {
            CellState::NotReady
        } else if row.digest.taint == CellTaint::Draining {
            CellState::Draining
        } else {
            CellState::Ready
        }
    }
}

/// `<plural>.<group>`.
fn resource_name(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// Names (`<plural>.<group>`) of the federated and write-back kinds that a Cluster reports to serve.
fn served(cluster: &Value, kinds: &PerKind<FederatedKind>, words: &mut Strings) -> Box<[Arc<str>]> {
    let serves = |resource: &ApiResource| {
        let mut enabled = list(cluster, "/status/apiEnablements");
        enabled.any(|group| {
            text(group, "groupVersion") == resource.api_version
                && list(group, "/resources").any(|kind| text(kind, "kind") == resource.kind)
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
        let values = "/spec/placement/clusterAffinity/labelSelector/matchExpressions/0/values";
        let values = list(&object.data, values).filter_map(Value::as_str);
        let cities: BTreeSet<CityCode> = values
            .filter(|text| is_label_value(text))
            .filter_map(|text| CityCode::parse(text).ok())
            .collect();
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let name = object.metadata.name.as_deref();
        let set = name.and_then(names::city_set_of);
        let is_intruder = set.is_none() && policy_spec::takes_ours(spec, "", kinds);
        let set = set.unwrap_or_default();
        let wanted = policy_spec::city_set_spec(set, &cities, label);
        let named = names::city_set(&cities).as_deref() == Some(names::plain_set(set));
        Self {
            cities: named.then_some(cities),
            exact: named && policy_spec::digest(spec) == policy_spec::digest(&wanted),
            is_intruder,
        }
    }
}

/// A `PropagationPolicy` of a city or location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CityPolicy {
    /// The federated kind and the route that it selects; `None` if its spec is not of our form.
    pub selects: Option<(KindId, Route)>,
    /// True for the name of a delivery policy.
    pub is_delivery: bool,
    /// Digest of its `spec`, as [`policy_spec::digest`]; `None` for a policy that is neither of our form nor has our name.
    pub spec: Option<Digest>,
    /// True if it is another client's, and can take what is in a Namespace `ns-*` of the hub.
    pub is_intruder: bool,
}

impl CityPolicy {
    /// True if the gateway creates and deletes policies of this name and form.
    pub fn is_ours(&self, name: &str, kinds: &PerKind<FederatedKind>) -> bool {
        let selects = self.selects.as_ref();
        selects.is_some_and(|(id, route)| route.is_policy_name(&kinds[*id], name))
    }

    /// True if it selects the copies of a kind that have this route.
    pub fn selects_route(&self, kind: KindId, route: &Route) -> bool {
        let selects = self.selects.as_ref();
        selects.is_some_and(|(of, selected)| *of == kind && selected == route)
    }

    /// Digests a `PropagationPolicy`.
    pub fn read(object: &DynamicObject, kinds: &PerKind<FederatedKind>) -> Self {
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let selectors = spec.get("resourceSelectors").and_then(Value::as_array);
        let only = selectors.filter(|s| s.len() == 1).and_then(|s| s.first());
        let found = kinds.enumerate().find_map(|(index, kind)| {
            let only = only?;
            let ours = text(only, "apiVersion") == kind.resource.api_version
                && text(only, "kind") == kind.resource.kind;
            let labels = only.pointer("/labelSelector/matchLabels")?;
            let route = Route::of_selector(kind, |key| labels.get(key)?.as_str())?;
            ours.then_some((index, route))
        });
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let is_delivery = policy::is_policy_name(kinds, name);
        Self {
            is_intruder: found.is_none() && !is_delivery && policy_spec::takes_ours(spec, namespace, kinds),
            spec: (found.is_some() || is_delivery).then(|| policy_spec::digest(spec)),
            selects: found,
            is_delivery,
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
        let group = text(resource, "apiVersion")
            .rsplit_once('/')
            .map_or("", |of| of.0);
        let kind = text(resource, "kind");
        let federated = kinds.position(|of| of.resource.kind == kind && of.resource.group == group);
        let companion = || companions.id_of(group, kind).map(Self::Companion);
        federated
            .map(Self::Copy)
            .or_else(companion)
            .unwrap_or(Self::Other)
    }
}

fedgate_engine::words! {
    /// Cause of a move: field `reason` of its graceful eviction task.
    pub enum MoveCause {
        /// An operator drains the cell.
        Draining = "Draining",
        /// The cell is lost.
        CellLost = "CellLost",
        /// An operator moves the deployment.
        Requested = "Requested",
    }
}

impl MoveCause {
    /// The cause that a graceful eviction task names.
    pub fn of(reason: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.as_str() == reason)
    }
}

/// The clusters that a binding leaves: Karmada keeps the object there by `gracefulEvictionTasks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The clusters.
    pub from: Box<[Arc<str>]>,
    /// True if the object is applied and healthy at each cluster to which it is scheduled.
    pub is_healthy: bool,
    /// True if the object is applied and healthy at each cluster that it leaves, as these have reported last.
    pub serves: bool,
    /// Cause and beginning of the move, if the only task is the gateway's.
    pub moved: Option<(MoveCause, Timestamp)>,
}

impl Eviction {
    fn read(binding: &Value, to: &[Arc<str>], words: &mut Strings) -> Option<Self> {
        let tasks: Vec<&Value> = list(binding, "/spec/gracefulEvictionTasks").collect();
        let well = |cell: &Arc<str>| {
            let mut items = list(binding, "/status/aggregatedStatus");
            items.any(|item| {
                text(item, "clusterName") == &**cell
                    && item["applied"] == true
                    && text(item, "health") == "Healthy"
            })
        };
        let moved = match tasks[..] {
            [] => return None,
            [task] if text(task, "producer") == keys::EVICTION_PRODUCER => {
                let since = text(task, "creationTimestamp").parse().ok();
                MoveCause::of(text(task, "reason")).zip(since)
            }
            _ => None,
        };
        let from = tasks.iter().map(|task| words.intern(text(task, "fromCluster")));
        let from: Box<[Arc<str>]> = from.collect();
        Some(Self {
            is_healthy: !to.is_empty() && to.iter().all(well),
            serves: from.iter().all(well),
            from,
            moved,
        })
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
    /// Clusters that are scheduled to have it.
    pub clusters: Box<[Arc<str>]>,
    /// Number of its replicas, `spec.replicas`.
    pub replicas: u32,
    /// The clusters that it leaves; `None` without `gracefulEvictionTasks`.
    pub eviction: Option<Box<Eviction>>,
    /// The first item that is not applied: cluster and message.
    pub failed: Option<Box<(Arc<str>, Arc<str>)>>,
    /// True if it is being deleted and Karmada's dependencies distributor alone keeps it on the hub.
    pub is_held: bool,
    /// State at each member, if a delivery policy claims it.
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
        let failed = list(&object.data, "/status/aggregatedStatus").find_map(|item| {
            let message = text(item, "appliedMessage");
            let is_failed = item["applied"] != true && !message.is_empty();
            is_failed.then(|| Box::new((words.intern(text(item, "clusterName")), words.intern(message))))
        });
        let clusters: Box<[Arc<str>]> = list(&object.data, "/spec/clusters")
            .map(|cluster| words.intern(text(cluster, "name")))
            .collect();
        let unscheduled = condition(object, "Scheduled").filter(|c| text(c, "status") == "False");
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
            name: words.intern(text(resource, "name")),
            delivery: policy
                .filter(|name| policy::is_policy_name(kinds, name))
                .map(|_| Box::new(Delivery::read(object, words))),
            policy: words.share_some(policy),
            no_cluster: unscheduled.is_some_and(|c| text(c, "reason") == "NoClusterFit"),
            scheduled: has_condition(object, "Scheduled", "True") && !clusters.is_empty(),
            applied: has_condition(object, "FullyApplied", "True"),
            replicas: object.data["spec"]["replicas"]
                .as_u64()
                .map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX)),
            eviction: Eviction::read(&object.data, &clusters, words).map(Box::new),
            clusters,
            failed,
            is_held: object.metadata.deletion_timestamp.is_some()
                && object.metadata.finalizers.as_deref() == Some(&[keys::DISTRIBUTOR_FINALIZER.to_owned()]),
        }
    }
}

impl Binding {
    /// The cells that have the object or are to have it.
    pub fn cells(&self) -> impl Iterator<Item = &Arc<str>> {
        let leaves = self.eviction.iter().flat_map(|eviction| &eviction.from);
        self.clusters.iter().chain(leaves)
    }

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
    /// Federated kind of the interpreter.
    pub kind: Option<KindId>,
    /// `target` and `customizations`.
    pub content: Digest,
    /// Operations that the interpreter defines.
    pub operations: Box<[Arc<str>]>,
}

impl InterpreterDigest {
    /// Digests a `ResourceInterpreterCustomization`.
    pub fn read(object: &DynamicObject, kinds: &PerKind<FederatedKind>, words: &mut Strings) -> Self {
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let target = &spec["target"];
        let operations = spec["customizations"].as_object().into_iter().flatten();
        Self {
            kind: kinds.position(|kind| {
                text(target, "apiVersion") == kind.resource.api_version
                    && text(target, "kind") == kind.resource.kind
            }),
            content: Digest::of(spec),
            operations: operations.map(|(name, _)| words.intern(name)).collect(),
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

    #[test]
    fn a_cell_is_leaving_before_unlabelled_before_not_ready_before_draining() {
        let state = |city: &str, ready: &str, taint: &str, deleting: bool| {
            let object = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": "dfw-1", "labels": {keys::CITY_CODE: city}},
                "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            let kinds = FederatedKind::builtin().unwrap().into();
            let object = serde_json::from_value(object).unwrap();
            let digest = Cell::read(&object, keys::CITY_CODE, &kinds, &mut Strings::default());
            Cell::state(&Row {
                uid: "u".into(),
                version: 1,
                deleting,
                partial: false,
                digest,
                body: None,
            })
        };
        assert_eq!(state("DFW", "True", "other", false), CellState::Ready);
        assert_eq!(state("DFW", "True", keys::DRAINING, false), CellState::Draining);
        assert_eq!(state("DFW", "False", keys::DRAINING, false), CellState::NotReady);
        assert_eq!(state("", "True", keys::DRAINING, false), CellState::Unlabelled);
        assert_eq!(state("", "True", keys::DRAINING, true), CellState::Leaving);
    }
}
