//! The part of the index about an object that lives at one member, beside the snapshot that all objects have.

use crate::{
    federator::members::Member,
    index::{
        GatewayIndex, Kept,
        rows::{Binding, HubCopy, Template},
    },
    lane::{CopyLane, Lane},
    member,
    pin::{self, Pin, PinnedCluster},
    policy_spec, queries, references,
};
use fedgate_api::{keys, names};
use fedgate_engine::{diff::Digest, store::table::Row};
use fedgate_kinds::{CompanionKind, FederatedKind, FinishedWhen, KindId, PerKind};
use kube::core::ApiResource;
use std::{collections::BTreeMap, sync::Arc};

/// State of an object that lives at one member.
#[derive(Debug, Clone)]
pub struct Lanes {
    /// The hub's record of its member; `Err` if it is no pin.
    pub pin: Result<Option<Arc<Pin>>, ()>,
    /// UID and resourceVersion of the `ConfigMap` with the pins of the hub namespace. All writes name both: one that an earlier
    /// leader has sent changes nothing when it arrives.
    pub record: Option<(Arc<str>, String)>,
    /// True if it has no room for the pin of another object.
    pub is_record_full: bool,
    /// Labels of identity that this `ConfigMap` has.
    pub identity: Vec<(&'static str, String)>,
    /// The Cluster of the pin.
    pub member: Option<Member>,
    /// The Cluster that has the name of the pin's member now; `None` without a pin.
    pub cluster: Option<PinnedCluster>,
    /// True if it cannot be another one by now: the watch of Clusters works.
    pub is_cluster_current: bool,
    /// True if its hub Namespace goes to its cells by a policy that preserves what they have.
    pub is_kept: bool,
    /// Lanes whose policies exist and are not being deleted, each with the digest of its `spec`.
    pub policies: BTreeMap<Arc<str>, Digest>,
    /// The expected companions.
    pub companions: Vec<CompanionState>,
    /// The companions that went with the object to its member.
    pub kept: Kept,
    /// The companions on the hub that go with the object at its member, whatever it names now: `Kind/name` of each.
    pub adopted: Vec<String>,
    /// Whether members can be asked in the gateway's name.
    pub hub_user: HubUser,
    /// Kind of the object that has the copy's name with Karmada, if that is another one.
    pub held_by: Option<Arc<str>>,
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
            Some(user) if member::is_service_account(user) => Self::ServiceAccount(user.clone()),
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
    /// True if it goes at the member together with the object.
    pub adopted: bool,
    /// True if another object goes with it there.
    pub shared: bool,
    /// The member's words if it has not.
    pub message: Arc<str>,
}

impl Lanes {
    /// The pin, if it is legible and there.
    pub fn pinned(&self) -> Option<&Arc<Pin>> {
        self.pin.as_ref().ok()?.as_ref()
    }

    /// True if a decision on an object with a pin waits until the Clusters of the hub are known.
    pub fn lacks_clusters(&self, is_deleted: bool) -> bool {
        let is_unknown = self.cluster == Some(PinnedCluster::Unknown);
        is_unknown || is_deleted && self.cluster.is_some() && !self.is_cluster_current
    }

    /// True if copies may be given to a lane: its policy is as it has to be.
    pub fn is_open(&self, lane: &Lane, kinds: &PerKind<FederatedKind>, hub: &str) -> bool {
        let digest = self.policies.get(lane.name(kinds).as_str());
        digest == Some(&policy_spec::digest(&lane.spec(kinds, hub)))
    }
}

/// Observes an object of a kind that lives at one member.
pub fn observe(
    index: &GatewayIndex,
    (kind, hub, name): (KindId, &str, &Arc<str>),
    expected: &[(CompanionKind, Arc<str>)],
) -> Lanes {
    let profile = &index.kinds[kind];
    let record = pin::record_name(hub).unwrap_or_default();
    let row = index.hub.pins.get(keys::SYSTEM_NAMESPACE, &record);
    let pins = row.map(|row| &row.digest);
    let pin = match pins.and_then(|pins| pins.by_key.get(pin::key(profile, name).as_str())) {
        None => Ok(None),
        Some(Some(pin)) => Ok(Some(pin.clone())),
        Some(None) => Err(()),
    };
    let pinned = pin.as_ref().ok().and_then(Option::as_ref);
    let clusters = &index.hub.clusters;
    let read = |name: &Arc<str>, row| Member::read(name, row, profile);
    let binding = index.binding(kind, hub, name).filter(|row| !row.deleting);
    let member = pinned.map(|pin| &pin.member);
    Lanes {
        record: row.map(|row| (row.uid.clone(), row.resource_version())),
        is_record_full: pins.is_some_and(|pins| pins.is_full),
        identity: identity(index, hub),
        member: member.and_then(|name| Some(read(name, clusters.get("", name)?))),
        cluster: pinned.map(|pin| index.pinned_cluster(pin)),
        is_cluster_current: clusters.proves(),
        is_kept: is_kept(index, hub),
        policies: index.lane_policies(hub),
        companions: expected
            .iter()
            .map(|(companion, of)| state(index, (kind, hub, name), (*companion, of), member))
            .collect(),
        kept: pinned.map_or_else(Kept::default, |pin| index.kept(hub, name, pin)),
        adopted: adopted(index, hub, name),
        hub_user: HubUser::read(index, kind),
        held_by: binding
            .and_then(|row| other_kind(index, kind, row))
            .or_else(|| earlier_namesake(index, (kind, hub, name), pin.as_ref().ok()?.as_ref())),
        pin,
    }
}

fn adopted(index: &GatewayIndex, hub: &str, name: &str) -> Vec<String> {
    let namespace = index.owners.get(hub).map_or("", |owner| &*owner.namespace);
    let naming = index.hub.secondary.naming(hub, namespace, name);
    let adopted = naming.filter(|(kind, _)| index.companions.is_adopted(*kind));
    adopted
        .map(|(kind, of)| references::token(&index.companions, kind, of))
        .collect()
}

fn is_kept(index: &GatewayIndex, hub: &str) -> bool {
    let row = index.hub.namespaces.get("", hub);
    let set = row
        .and_then(|row| row.digest.cities.as_deref())
        .unwrap_or_default();
    let policy = index.hub.city_sets.get("", &names::city_set_policy(set));
    names::is_kept_set(set) && policy.is_some_and(|row| !row.deleting && row.digest.exact)
}

/// The kind of an object of this name that has a member already: its Work there, which can outlive copy and binding, would
/// be this one's, too.
fn earlier_namesake(
    index: &GatewayIndex,
    (kind, hub, name): (KindId, &str, &str),
    own: Option<&Arc<Pin>>,
) -> Option<Arc<str>> {
    let mut others = index.namesakes(kind);
    let has_member = |other: &KindId| {
        index.pin(*other, hub, name).is_some() || index.has_unreadable_pin(*other, hub, name)
    };
    let other = others.find(|other| own.is_none() && has_member(other))?;
    Some(described(&index.kinds[other].resource))
}

/// The binding of an object's copy; not that of another kind's object, which has the same name.
pub fn own_binding<'a>(
    index: &'a GatewayIndex,
    (kind, hub, name): (KindId, &str, &str),
) -> Option<&'a Row<Binding>> {
    let row = index.binding(kind, hub, name)?;
    other_kind(index, kind, row).is_none().then_some(row)
}

/// The kind whose object has the binding, if it is another one: Karmada names bindings by kinds without their groups.
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

fn identity(index: &GatewayIndex, hub: &str) -> Vec<(&'static str, String)> {
    let row = index.hub.namespaces.get("", hub);
    let Some(of) = row.map(|row| &row.digest) else {
        return Vec::new();
    };
    let labels = [
        (keys::UPSTREAM_CLUSTER, &of.cluster),
        (keys::UPSTREAM_NAMESPACE, &of.namespace),
        (keys::PROJECT_UID, &of.project_uid),
    ];
    labels
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_ref()?.to_string())))
        .collect()
}

fn state(
    index: &GatewayIndex,
    (of, hub, object): (KindId, &str, &Arc<str>),
    (kind, name): (CompanionKind, &Arc<str>),
    member: Option<&Arc<str>>,
) -> CompanionState {
    // Karmada may still say what was true of an earlier lane.
    let row = index.hub.companions[kind].get(hub, name);
    let delivery = row.and_then(|row| index.companion_delivery(kind, hub, name, row));
    let item = member.and_then(|member| delivery.filter(|delivery| delivery.observed)?.at(member));
    let adopted = index.companions.is_adopted(kind);
    let owner = index.owners.get(hub);
    let source = index.owned_source(of, hub, object);
    let mut references = source.into_iter().flat_map(|row| row.digest.references.iter());
    let reference = references.find(|r| r.kind == kind && r.name == *name);
    let first = || queries::references::adopter(index, owner?, hub, (kind, name));
    CompanionState {
        token: references::token(&index.companions, kind, name),
        applied: item.map(|item| item.applied),
        before: reference.is_none_or(|reference| reference.before),
        adopted,
        shared: adopted && first().is_some_and(|other| other != (of, object.clone())),
        message: item.map(|item| item.message.clone()).unwrap_or_default(),
    }
}

/// The lane of a copy, and the stage if it is at the pin's member.
pub fn lane_of<'a>(kind: &FederatedKind, copy: &'a Row<HubCopy>) -> CopyLane<'a> {
    CopyLane::read(kind, copy.digest.lane.as_deref())
}
