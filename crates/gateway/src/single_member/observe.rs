//! Observes an object that lives at one member: pin, member and companions, beside the snapshot that all objects have.

use super::{Member, is_service_account};
use crate::{
    index::{
        GatewayIndex, ObjectRef, TableId,
        rows::{Binding, Template},
        single_member::{AdoptedState, Pin, PinnedCluster, pin},
    },
    queries,
    reason::WriteReason,
    references,
};
use fedgate_api::{keys, names};
use fedgate_engine::{
    diff::Digest,
    key::Plane,
    plan::{Effect, Target, Write},
    store::table::Row,
};
use fedgate_kinds::{CompanionKind, FinishedWhen, KindId};
use kube::core::ApiResource;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// State of an object that lives at one member.
#[derive(Debug, Clone)]
pub struct SingleMember {
    /// The pin; `Err` if its record cannot be read.
    pub pin: Result<Option<Arc<Pin>>, ()>,
    /// The `ConfigMap` with the pin.
    pub record: Record,
    /// The Cluster of the pin.
    pub member: Option<Member>,
    /// The Cluster that has the name of the pin's member; `None` without a pin.
    pub cluster: Option<PinnedCluster>,
    /// True if the watch of Clusters works, so that `cluster` is up to date.
    pub is_cluster_current: bool,
    /// True if a policy that preserves delivers the hub Namespace, so that the members keep what they have in it.
    pub is_namespace_preserved: bool,
    /// The delivery policies that are there, each with the digest of its `spec`.
    pub policies: BTreeMap<Arc<str>, Digest>,
    /// The companions that the object expects.
    pub companions: Vec<CompanionState>,
    /// State of the adopted companions that went with the object to its member.
    pub adopted: AdoptedState,
    /// Tokens of the companions on the hub that the member adopts with the object, whatever its spec names.
    pub adopted_on_hub: Vec<String>,
    /// Whether members can be asked in the gateway's name.
    pub hub_user: HubUser,
    /// Kind of the other object that has the copy's name with Karmada, if there is one.
    pub held_by: Option<Arc<str>>,
}

/// The `ConfigMap` with the pins of a hub namespace.
#[derive(Debug, Clone)]
pub struct Record {
    /// Address of the `ConfigMap`; `None` for a Namespace that is none of the gateway's.
    pub target: Option<Target>,
    /// UID and resourceVersion. Every write names both, so that a write of an earlier leader changes nothing when it arrives.
    pub version: Option<(Arc<str>, String)>,
    /// Key of the object in it.
    pub key: String,
    /// Labels of identity that it gets when it is made.
    pub identity: Vec<(&'static str, Arc<str>)>,
    /// True if it has no room for the pin of another object.
    pub is_full: bool,
}

impl Record {
    /// Reads the record of an object.
    pub fn read(index: &GatewayIndex, kind: KindId, hub: &str, name: &str) -> Self {
        let record = pin::record_name(hub);
        let row = record
            .as_ref()
            .and_then(|name| index.hub.pins.get(keys::SYSTEM_NAMESPACE, name));
        let resource = index.resource(TableId::Pins);
        let namespace = index.hub.namespaces.get("", hub).map(|row| &row.digest);
        let labels = namespace.into_iter().flat_map(|of| {
            [
                (keys::UPSTREAM_CLUSTER, &of.cluster),
                (keys::UPSTREAM_NAMESPACE, &of.namespace),
                (keys::PROJECT_UID, &of.project_uid),
            ]
        });
        Self {
            target: record
                .map(|name| Target::namespaced(Plane::Hub, resource, keys::SYSTEM_NAMESPACE, &name)),
            version: row.map(|row| (row.uid.clone(), row.resource_version())),
            key: pin::key(&index.kinds[kind], name),
            identity: labels
                .filter_map(|(key, value)| Some((key, value.clone()?)))
                .collect(),
            is_full: row.is_some_and(|row| row.digest.is_full),
        }
    }

    /// The write of the object's pin, or of its removal; `None` if there is nothing to remove.
    pub fn write(&self, pin: Option<&Pin>) -> Option<Effect> {
        let target = self.target.clone()?;
        let data = json!({self.key.as_str(): pin.map_or(Value::Null, |pin| json!(pin.text()))});
        let write = match &self.version {
            Some((uid, version)) => Write::Merge {
                patch: json!({"metadata": {"uid": &**uid, "resourceVersion": version}, "data": data}),
            },
            None if pin.is_none() => return None,
            None => {
                let labels = self.identity.iter();
                let mut labels: Map<String, Value> = labels
                    .map(|(key, value)| ((*key).to_owned(), json!(**value)))
                    .collect();
                labels.insert(keys::PINS.to_owned(), json!("true"));
                Write::create(json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": target.name, "namespace": keys::SYSTEM_NAMESPACE, "labels": labels},
                    "data": data}))
            }
        };
        let reason = match pin {
            Some(_) => WriteReason::WritePin,
            None => WriteReason::RemovePin,
        };
        Some(Effect::main(target, write, reason))
    }
}

/// Whether members can be asked in the name under which the hub knows the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubUser {
    /// The name is not known yet.
    Unknown,
    /// Members can be asked, or need not be.
    Fit,
    /// The gateway is this `ServiceAccount`, in whose name members cannot be asked.
    ServiceAccount(Arc<str>),
}

impl HubUser {
    fn read(index: &GatewayIndex, kind: KindId) -> Self {
        if index.kinds[kind].deletion.finished_when != FinishedWhen::MemberAbsent {
            return Self::Fit;
        }
        match &index.hub.user {
            None => Self::Unknown,
            Some(user) if is_service_account(user) => Self::ServiceAccount(user.clone()),
            Some(_) => Self::Fit,
        }
    }
}

/// A companion on its way to the member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionState {
    /// `Kind/name`.
    pub token: String,
    /// True if the member has applied it; `None` if that is not known yet.
    pub applied: Option<bool>,
    /// True if the member must have it before the object.
    pub before: bool,
    /// True if somebody at the member makes it part of the object, so that it goes there with the object.
    pub adopted: bool,
    /// True if it goes with another object at the member.
    pub shared: bool,
    /// The member's message if it has not applied the companion.
    pub message: Arc<str>,
}

impl CompanionState {
    fn read(
        index: &GatewayIndex,
        of: &ObjectRef,
        (kind, name): (CompanionKind, &Arc<str>),
        member: Option<&Arc<str>>,
    ) -> Self {
        let hub = &of.hub;
        // Karmada may still say what was true of an earlier policy.
        let row = index.hub.companions[kind].get(hub, name);
        let delivery = row.and_then(|row| index.companion_delivery(kind, hub, name, row));
        let item = member.and_then(|member| delivery.filter(|delivery| delivery.observed)?.at(member));
        let adopted = index.companions.is_adopted(kind);
        let owner = index.owners.get(hub);
        let source = index.owned_source(of.kind, hub, &of.name);
        let mut references = source.into_iter().flat_map(|row| row.digest.references.iter());
        let reference = references.find(|r| r.kind == kind && r.name == *name);
        let first = || queries::references::adopter(index, owner?, hub, (kind, name));
        Self {
            token: references::token(&index.companions, kind, name),
            applied: item.map(|item| item.applied),
            before: reference.is_none_or(|reference| reference.before),
            adopted,
            shared: adopted && first().is_some_and(|first| first != (of.kind, of.name.clone())),
            message: item.map(|item| item.message.clone()).unwrap_or_default(),
        }
    }
}

impl SingleMember {
    /// The pin, if it is there and can be read.
    pub fn pinned(&self) -> Option<&Arc<Pin>> {
        self.pin.as_ref().ok()?.as_ref()
    }

    /// True if a decision on an object with a pin waits until the Clusters of the hub are known.
    pub fn lacks_clusters(&self, is_deleted: bool) -> bool {
        let is_unknown = self.cluster == Some(PinnedCluster::Unknown);
        let is_ended = self.pinned().is_some_and(|pin| pin.ended.is_some());
        is_unknown || (is_deleted || is_ended) && self.cluster.is_some() && !self.is_cluster_current
    }
}

/// Observes an object of a kind that lives at one member; `None` for an object of another kind.
pub fn observe(
    index: &GatewayIndex,
    of: &ObjectRef,
    expected: &[(CompanionKind, Arc<str>)],
) -> Option<Box<SingleMember>> {
    let ObjectRef { kind, hub, name } = of;
    let profile = &index.kinds[*kind];
    if !profile.is_exactly_one() {
        return None;
    }
    let pinned = index.pin(*kind, hub, name);
    let is_unreadable = index.has_unreadable_pin(*kind, hub, name);
    let clusters = &index.hub.clusters;
    let binding = index.binding(*kind, hub, name).filter(|row| !row.deleting);
    let member = pinned.map(|pin| &pin.member);
    Some(Box::new(SingleMember {
        record: Record::read(index, *kind, hub, name),
        member: member.and_then(|name| Some(Member::read(name, clusters.get("", name)?, profile))),
        cluster: pinned.map(|pin| index.pinned_cluster(pin)),
        is_cluster_current: clusters.proves(),
        is_namespace_preserved: is_namespace_preserved(index, hub),
        policies: index.delivery_policies(hub),
        companions: expected
            .iter()
            .map(|(kind, name)| CompanionState::read(index, of, (*kind, name), member))
            .collect(),
        adopted: pinned.map_or_else(AdoptedState::default, |pin| index.adopted_state(hub, name, pin)),
        adopted_on_hub: adopted_on_hub(index, hub, name),
        hub_user: HubUser::read(index, *kind),
        held_by: binding.and_then(|row| other_kind(index, *kind, row)).or_else(|| {
            let is_new = pinned.is_none() && !is_unreadable;
            is_new.then(|| earlier_namesake(index, of))?
        }),
        pin: if is_unreadable {
            Err(())
        } else {
            Ok(pinned.cloned())
        },
    }))
}

fn adopted_on_hub(index: &GatewayIndex, hub: &str, name: &str) -> Vec<String> {
    let namespace = index.owners.get(hub).map_or("", |owner| &*owner.namespace);
    let naming = index.hub.secondary.naming(hub, namespace, name);
    let adopted = naming.filter(|(kind, _)| index.companions.is_adopted(*kind));
    adopted
        .map(|(kind, of)| references::token(&index.companions, kind, of))
        .collect()
}

fn is_namespace_preserved(index: &GatewayIndex, hub: &str) -> bool {
    let row = index.hub.namespaces.get("", hub);
    let set = row.and_then(|row| row.digest.cities.as_deref());
    let set = set.unwrap_or_default();
    let policy = index.hub.city_sets.get("", &names::city_set_policy(set));
    names::is_preserving_set(set) && policy.is_some_and(|row| !row.deleting && row.digest.exact)
}

/// The kind of an object of the same name in another group that has a pin: its Work, which can outlive copy and binding, would be
/// taken for the Work of this object.
fn earlier_namesake(index: &GatewayIndex, ObjectRef { kind, hub, name }: &ObjectRef) -> Option<Arc<str>> {
    let mut others = index.namesakes(*kind);
    let other = others.find(|other| {
        let pin = index.pin(*other, hub, name);
        pin.is_some_and(|pin| !pin.is_over()) || index.has_unreadable_pin(*other, hub, name)
    })?;
    Some(described(&index.kinds[other].resource))
}

/// The binding of an object's copy, unless an object of another kind and the same name has it.
pub fn own_binding<'a>(
    index: &'a GatewayIndex,
    ObjectRef { kind, hub, name }: &ObjectRef,
) -> Option<&'a Row<Binding>> {
    let row = index.binding(*kind, hub, name)?;
    other_kind(index, *kind, row).is_none().then_some(row)
}

/// The kind whose object has the binding, if it is another kind: Karmada names bindings by kinds without their groups.
fn other_kind(index: &GatewayIndex, kind: KindId, row: &Row<Binding>) -> Option<Arc<str>> {
    let resource = match row.digest.template {
        Template::Copy(other) if other != kind => &index.kinds[other].resource,
        Template::Companion(other) => &index.companions[other],
        Template::Copy(_) | Template::Other => return None,
    };
    Some(described(resource))
}

fn described(resource: &ApiResource) -> Arc<str> {
    format!("{} of {}", resource.kind, resource.api_version).into()
}
