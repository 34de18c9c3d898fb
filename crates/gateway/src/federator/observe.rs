//! Snapshot of a deployment, taken from the index under one lock.

use super::{
    delay::Delay,
    destination::{self, Destination, Labels},
};
use crate::{
    index::{
        GatewayIndex, ObjectRef, TableId,
        derived::lacking::Lacking,
        derived::project_hub::NamedHub,
        derived::secondary::places::NoCity,
        rows::{Binding, HubCopy, HubNamespaceDigest, Source, place},
    },
    queries::{
        cells::{self, Cells},
        cities::policy_needed,
        lifecycle,
        references::source_state,
    },
    references::{self, References, Resolution},
    route::{CityRoute, Route},
    single_member::{self, MemberApi, SingleMember, members::CityMembers},
};
use fedgate_api::names::{CityCode, HubNamespace, ProjectKey};
use fedgate_engine::{diff::Digest, key::Key, store::table::Row};
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, KindId, PerKind};
use std::sync::Arc;

/// State of the hub namespace for a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubNamespaceState {
    /// The Namespace does not exist yet.
    Absent,
    /// The Namespace is being deleted.
    Terminating,
    /// The Namespace holds objects of an earlier project of the same name.
    EarlierLife,
    /// The labels do not name this project, and the lists that could prove it are incomplete.
    Unproven,
    /// The Namespace belongs to another project.
    Foreign,
    /// The Namespace belongs to this project.
    Ours,
}

/// The hub that a deployment is to name, and the one that it names.
#[derive(Debug, Clone)]
pub struct HubReference {
    /// UID of our hub; `None` while that is not known.
    pub own: Option<Arc<str>>,
    /// The hub that the deployment names.
    pub named: NamedHub,
}

/// A snapshot of one deployment and the objects that it depends on.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All federated kinds.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// The kinds of companions.
    pub companion_kinds: Arc<CompanionKinds>,
    /// The deployment's kind.
    pub kind: KindId,
    /// The project.
    pub project: ProjectKey,
    /// Namespace and name in the project.
    pub namespace: Arc<str>,
    /// Name; see `namespace`.
    pub name: Arc<str>,
    /// The deployment; `None` if it does not exist.
    pub source: Option<Row<Source>>,
    /// True while the platform suspends the project; `source` has the mark then.
    pub suspended: bool,
    /// Hub namespace of the live project namespace; of a deployment that is being deleted the one in its annotation.
    pub hub: Option<HubNamespace>,
    /// State of the hub namespace.
    pub hub_state: HubNamespaceState,
    /// Our hub, and the hub that the deployment names.
    pub hub_reference: HubReference,
    /// The copy.
    pub copy: Option<Row<HubCopy>>,
    /// The copy's binding; a binding of another kind's object can have the same name, and is not.
    pub binding: Option<Row<Binding>>,
    /// The cells of the deployment, see [`Cells`].
    pub cells: Cells,
    /// True if the claim on the copy names a policy that exists and selects the copy's route.
    pub is_claim_right: bool,
    /// Where the copy is to go.
    pub destination: Destination,
    /// Whether the hub can take the copy there.
    pub readiness: HubReadiness,
    /// The place that the deployment names although it stays in another one: nothing of this generation is carried.
    pub asks_for: Option<String>,
    /// The Clusters of its city, for a kind that lives at one member or that needs its API there.
    pub city_members: CityMembers,
    /// Maximum size of a spec that is synced, in bytes.
    pub largest_spec: u32,
    /// The objects that the deployment references, on the hub.
    pub companions: Companions,
    /// Member, pin and companions of an object that lives at one member; `None` for all others.
    pub single_member: Option<Box<SingleMember>>,
    /// Why the deployment does not reach the hub, if its tenant is to be told.
    pub delay: Option<Delay>,
    /// Destination of a write that brings the copy to the hub and whose result is not known; `None` once the index has a copy.
    pub arriving: Option<CityRoute>,
    /// True if all lists are complete. Until then the spec is synced and nothing else happens: an absent object may
    /// only not have been listed yet.
    pub complete: bool,
}

/// Whether the hub can take a copy at its destination.
// Each flag is an independent fact that decisions combine freely; an enum would not be clearer.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Default)]
pub struct HubReadiness {
    /// True if Namespace and policy for the destination are in place.
    pub is_ready: bool,
    /// The first object that is not in place; `None` also without a destination.
    pub lacking: Option<Lacking>,
    /// The hub's message when it rejected the Namespace or the policies that the copy waits for.
    pub refused: Option<String>,
    /// True if the namespace already uses the maximum number of cities without this city.
    pub is_over_city_limit: bool,
    /// True if the project uses too many city sets for another one.
    pub is_limited: bool,
    /// True if the city has no cell and had none when the namespace began to use it.
    pub has_no_cell: bool,
    /// True if no cell of the city is in the index while that proves nothing: conditions of a deployment that was
    /// synced before stay as they are, and before the first list of cells none is set.
    pub is_unproven: bool,
    /// True if the deployment is being deleted and the hub namespace still has a policy for its place that no other
    /// deployment needs.
    pub is_policy_leaving: bool,
}

/// The objects that a deployment references, as companions on the hub.
#[derive(Debug, Clone, Default)]
pub struct Companions {
    /// State of the references; `None` for a kind without companions.
    pub references: Option<Resolution>,
    /// True if the hub has every expected companion.
    pub are_there: bool,
    /// The first expected companion whose name on the hub belongs to an object that is not ours.
    pub taken: Option<String>,
    /// The first expected companion that the hub rejects, with its message.
    pub refused: Option<(String, String)>,
    /// The first expected companion that a cell refuses, the cell, and its message.
    pub unapplied: Option<(String, Arc<str>, Arc<str>)>,
    /// True if a companion still names this deployment.
    pub hold: bool,
}

impl Companions {
    /// True if a spec with these references may be written: the hub has every companion that it expects.
    pub fn allow_write(&self) -> bool {
        self.are_there && self.references.as_ref().is_none_or(|r| !r.resolving)
    }
}

impl Snapshot {
    /// Digest of the payload that the copy is to have, comparable with [`HubCopy::whole`].
    pub fn wanted(&self, source: &Row<Source>) -> Digest {
        place::whole(source.digest.content, self.destination.placed)
    }

    /// True if a decision waits until the Clusters of the hub are known.
    pub fn lacks_clusters(&self) -> bool {
        let is_deleted = self.source.as_ref().is_some_and(|source| source.deleting);
        let at = self.single_member.as_ref();
        self.readiness.is_unproven
            || self.city_members.api == MemberApi::Unknown
            || at.is_some_and(|at| at.lacks_clusters(is_deleted))
    }

    /// True if the object has neither a copy nor a member yet.
    fn is_new(&self) -> bool {
        let has_member = self
            .single_member
            .as_ref()
            .is_some_and(|at| at.pinned().is_some());
        self.copy.is_none() && !has_member
    }

    /// True if a new copy has to wait until a member of its city serves the kind.
    pub fn lacks_api(&self) -> bool {
        self.city_members.api != MemberApi::Fit && self.is_new()
    }

    /// True if nothing of the object may go to the hub because a source that its member must have before it is not there.
    pub fn lacks_sources(&self) -> bool {
        let references = self.companions.references.as_ref();
        let is_resolved = references.is_none_or(|found| found.expected.is_some());
        self.single_member.is_some() && !is_resolved && self.is_new()
    }

    /// True if this spec does not go to the hub, because it asks for another place or is too large: a copy retains its last spec.
    pub fn retains_last_spec(&self, source: &Row<Source>) -> bool {
        self.asks_for.is_some() || !source.digest.fits(self.largest_spec)
    }

    /// The profile of the kind.
    pub fn profile(&self) -> &FederatedKind {
        &self.kinds[self.kind]
    }

    /// The copy as the index names it.
    pub fn copy_ref(&self) -> Option<ObjectRef> {
        let hub = self.hub.as_ref()?.as_str().into();
        Some(ObjectRef::new(self.kind, &hub, &self.name))
    }
}

/// Takes the snapshot; `None` while the lists that a sync depends on are incomplete.
pub fn observe(index: &GatewayIndex, key: &Key, project: &ProjectKey) -> Option<Snapshot> {
    let Some(TableId::Federated(kind)) = index.table_of_kind(&key.kind) else {
        return None;
    };
    if !index.specs_synced(project) {
        return None;
    }
    let complete = index.is_complete(project);
    let p = index.projects.get(project)?;
    let mut source = p.sources[kind].get(&key.namespace, &key.name).cloned();
    let named_hub = source
        .as_ref()
        .map_or(NamedHub::None, |row| index.named_hub(p, &key.namespace, row));
    if let Some(source) = source.as_mut().filter(|_| p.suspended) {
        source.digest.suspend(&index.kinds[kind]);
    }
    let (hub, claimed) = hub_of(index, project, &key.namespace, source.as_ref());
    let hub_name = hub.as_ref().map_or("", HubNamespace::as_str);
    let of = ObjectRef::new(kind, &hub_name.into(), &key.name);
    let copy = index.hub.copies[kind].get(hub_name, &key.name).cloned();
    let labels = Labels {
        places: &index.hub.secondary.places,
        listed: index.hub.clusters.synced(),
    };
    let asked = Destination::of(labels, &index.kinds[kind], source.as_ref(), copy.as_ref());
    let destination = destination::fixed(index, &of, source.as_ref(), asked);
    let asks_for = source.as_ref();
    let asks_for = asks_for.and_then(|source| index.refused_place(kind, hub_name, &key.name, source));
    let companions = companions(index, project, &of, &key.namespace, source.as_ref());
    let references = companions.references.as_ref();
    let expected = references.and_then(|found| found.expected.as_deref());
    Some(Snapshot {
        single_member: single_member::observe(index, &of, expected.unwrap_or_default()),
        companions,
        readiness: readiness(index, &of, &destination, source.as_ref(), copy.is_some()),
        kinds: index.kinds.clone(),
        kind,
        suspended: p.suspended,
        project: project.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        hub_state: if claimed {
            HubNamespaceState::Foreign
        } else {
            hub_state(index, project, &key.namespace, hub_name, complete)
        },
        binding: single_member::own_binding(index, &of).cloned(),
        cells: cells::of(index, &of),
        largest_spec: index.largest_spec,
        is_claim_right: is_claim_right(index, kind, hub_name, copy.as_ref()),
        hub_reference: HubReference {
            own: index.hub.identity.uid().cloned(),
            named: named_hub,
        },
        city_members: CityMembers::observe(index, kind, destination.city()),
        asks_for,
        companion_kinds: index.companions.clone(),
        delay: None,
        destination,
        arriving: index
            .intents
            .arriving
            .get(&of)
            .filter(|_| copy.is_none())
            .cloned(),
        complete,
        copy,
        hub,
        source,
    })
}

fn readiness(
    index: &GatewayIndex,
    ObjectRef { kind, hub, .. }: &ObjectRef,
    destination: &Destination,
    source: Option<&Row<Source>>,
    is_copied: bool,
) -> HubReadiness {
    let (to, city) = (destination.to.as_ref().ok(), destination.city());
    let lacking = to.and_then(|to| index.lacking(*kind, hub, to));
    let is_ready = to.is_some() && lacking.is_none();
    let is_waiting = !is_ready && !hub.is_empty();
    let unserved = is_waiting && city.is_some_and(|city| !index.is_served(hub, city));
    let unknown = matches!(destination.to, Err(NoCity::Unknown(_)));
    let clusters = &index.hub.clusters;
    let is_unproven = (unserved || unknown) && !clusters.proves() && (is_copied || !clusters.synced());
    let is_beyond = |city: &CityCode| index.over_city_limit(hub, source).contains(city);
    let refused = |table, at: &str, name: &str| {
        let key = index.hub_key(table, at, name);
        index.intents.refused.get(&key).cloned()
    };
    HubReadiness {
        is_ready,
        lacking,
        refused: refused(TableId::Namespaces, "", hub)
            .or_else(|| refused(TableId::CityPolicies, hub, ""))
            .filter(|_| !is_ready),
        is_over_city_limit: is_waiting && !unserved && city.is_some_and(is_beyond),
        is_limited: !is_ready && index.is_limited(hub),
        has_no_cell: unserved && !is_unproven,
        is_unproven,
        // Read for a deletion alone, because it visits all deployments of the namespace.
        is_policy_leaving: source.is_some_and(|source| source.deleting)
            && to.is_some_and(|to| policies_leave(index, *kind, hub, to)),
    }
}

fn companions(
    index: &GatewayIndex,
    project: &ProjectKey,
    ObjectRef { kind, hub, name }: &ObjectRef,
    namespace: &str,
    source: Option<&Row<Source>>,
) -> Companions {
    let references = references(index, project, *kind, namespace, source);
    let expected = references.as_ref().and_then(|found| found.expected.as_deref());
    let expected = expected.unwrap_or_default();
    let token_of = |kind: CompanionKind, name: &str| references::token(&index.companions, kind, name);
    let is_there = |kind: CompanionKind, name: &str| {
        let row = index.hub.companions[kind].get(hub, name);
        row.is_some_and(|row| !row.deleting)
    };
    let taken = &index.intents.name_taken;
    let taken = expected
        .iter()
        .find(|(kind, name)| taken.contains(&(*kind, hub.clone(), name.clone())));
    let mut naming = index.hub.secondary.naming(hub, namespace, name);
    Companions {
        are_there: expected.iter().all(|(kind, name)| is_there(*kind, name)),
        taken: taken.map(|(kind, name)| token_of(*kind, name)),
        refused: expected.iter().find_map(|(kind, name)| {
            let key = index.hub_key(TableId::Companions(*kind), hub, name);
            Some((token_of(*kind, name), index.intents.refused.get(&key)?.clone()))
        }),
        unapplied: expected.iter().find_map(|(kind, name)| {
            let row = index.hub.companions[*kind].get(hub, name)?;
            let binding = index.own_companion_binding(*kind, hub, name, row)?;
            let (cell, words) = binding.failed.as_deref()?;
            Some((token_of(*kind, name), cell.clone(), words.clone()))
        }),
        hold: naming.any(|(kind, by)| is_there(kind, by)),
        references,
    }
}

/// The hub namespace of a deployment, and true if another project owns that of its project namespace.
fn hub_of(
    index: &GatewayIndex,
    project: &ProjectKey,
    namespace: &str,
    source: Option<&Row<Source>>,
) -> (Option<HubNamespace>, bool) {
    let live = index.hub_namespace(project, namespace);
    let claimed = live
        .as_ref()
        .is_some_and(|hub| index.is_refused(hub.as_str(), project));
    let live = live.filter(|hub| index.is_owned_by(hub.as_str(), project));
    let recorded = source
        .filter(|s| s.deleting)
        .and_then(|s| s.digest.federation_namespace.clone());
    let recorded = recorded.as_deref().and_then(HubNamespace::parse);
    let recorded = recorded
        .filter(|hub| is_in_scope(index, project, namespace, hub.as_str()))
        .or(live);
    (recorded, claimed)
}

/// True if a deployment of this project namespace may act on the hub namespace that it names. The tenant can write
/// that name, so this project namespace must own the hub namespace, or the hub Namespace itself must name it; where
/// there is no Namespace, nothing can be touched.
fn is_in_scope(index: &GatewayIndex, project: &ProjectKey, namespace: &str, hub: &str) -> bool {
    if let Some(owner) = index.owners.get(hub) {
        return owner.project == *project && *owner.namespace == *namespace;
    }
    let uid = index.projects.get(project).and_then(|p| p.uid.as_ref());
    index.hub.namespaces.get("", hub).is_none_or(|row| {
        let of = &row.digest;
        of.project_uid.as_ref().is_none_or(|had| Some(had) == uid) && names(of, project, namespace)
    })
}

/// True if the labels of a hub Namespace name this project namespace.
fn names(of: &HubNamespaceDigest, project: &ProjectKey, namespace: &str) -> bool {
    of.cluster.as_deref() == Some(&*project.label()) && of.namespace.as_deref() == Some(namespace)
}

fn hub_state(
    index: &GatewayIndex,
    project: &ProjectKey,
    namespace: &str,
    hub: &str,
    complete: bool,
) -> HubNamespaceState {
    match index.hub.namespaces.get("", hub) {
        None => HubNamespaceState::Absent,
        Some(row) if row.deleting => HubNamespaceState::Terminating,
        // An earlier project shows in lists that may be incomplete, and the project that the labels name may not be
        // engaged yet.
        Some(row) if !complete => {
            let uid = index.projects.get(project).and_then(|p| p.uid.as_ref());
            if row.digest.project_uid.as_ref() == uid && names(&row.digest, project, namespace) {
                HubNamespaceState::Ours
            } else {
                HubNamespaceState::Unproven
            }
        }
        Some(_) if lifecycle::earlier_life(index, project, hub) => HubNamespaceState::EarlierLife,
        Some(_) => HubNamespaceState::Ours,
    }
}

/// Only a policy that is ours by name is removed; a foreign policy with the same spec is used and stays.
fn policies_leave(index: &GatewayIndex, kind: KindId, hub: &str, to: &CityRoute) -> bool {
    let leaves = |route: &Route| {
        let policy = index.policy_of(kind, hub, route);
        policy.is_some_and(|(name, p)| !p.deleting && route.is_policy_name(&index.kinds[kind], name))
            && !policy_needed(index, hub, kind, route)
    };
    // The copy may have been sent by its city before the cells had a location.
    leaves(&to.route) || leaves(&Route::City(to.city.clone()))
}

fn is_claim_right(index: &GatewayIndex, kind: KindId, hub: &str, copy: Option<&Row<HubCopy>>) -> bool {
    let Some(copy) = copy else { return true };
    let (Some(policy), Some(route)) = (&copy.digest.claimed_by, copy.digest.route()) else {
        return true;
    };
    let row = index.hub.city_policies.get(hub, policy);
    row.is_some_and(|row| row.digest.selects_route(kind, &route))
}

fn references(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: KindId,
    namespace: &str,
    source: Option<&Row<Source>>,
) -> Option<Resolution> {
    index.kinds[kind].companions.as_ref()?;
    let of = References::of(&index.kinds[kind], &index.companions, source?.digest.referenced());
    Some(references::resolve(of, |kind, name| {
        source_state(index, project, kind, namespace, name)
    }))
}
