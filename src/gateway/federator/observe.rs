//! What is known about a deployment, taken from the index in one go.

use crate::gateway::{
    companions::resolve::{self, Resolution, SourceState},
    index::{
        GatewayIndex, TableId, companion_role,
        digest::{Binding, HubCopy, HubNamespaceDigest, Source},
    },
};
use fedgate_api::names::{CityCode, HubNamespace, ProjectKey};
use fedgate_engine::{key::Key, plane::table::Row};
use fedgate_kinds::{CompanionKind, FederatedKind};
use std::sync::Arc;

/// How the hub namespace stands to the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubNamespaceState {
    /// It does not exist yet.
    Absent,
    /// It is being deleted.
    Terminating,
    /// It holds objects of an earlier project of the same name.
    EarlierLife,
    /// Its labels do not say that it is ours, and the lists that could prove it are not complete.
    Unproven,
    /// It is another project's.
    Claimed,
    /// It is ours.
    Ours,
}

/// A snapshot of one deployment and what surrounds it.
// Each flag is a fact of its own that decisions combine freely; no enum would say it better.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All federated kinds.
    pub kinds: Arc<Vec<FederatedKind>>,
    /// Which of them this is.
    pub kind: usize,
    /// The project.
    pub project: ProjectKey,
    /// Namespace and name in the project.
    pub namespace: Arc<str>,
    /// See `namespace`.
    pub name: Arc<str>,
    /// The deployment; `None` if it does not exist.
    pub source: Option<Row<Source>>,
    /// Its hub namespace: of the live project namespace, or while deleting the one recorded in its annotation.
    pub hub: Option<HubNamespace>,
    /// How that namespace stands.
    pub hub_state: HubNamespaceState,
    /// The copy.
    pub copy: Option<Row<HubCopy>>,
    /// The copy's binding.
    pub binding: Option<Row<Binding>>,
    /// Whether Namespace and policies for the city are in place.
    pub city_ready: bool,
    /// The largest spec that is carried, in bytes.
    pub largest_spec: u32,
    /// Whether its city finds no place in its namespace, which uses too many.
    pub over_city_limit: bool,
    /// Whether its city has no cell, and had none when it came into use in its namespace.
    pub no_cell: bool,
    /// Whether no cell of its city is seen where that proves nothing: what was carried before keeps what it says, and before
    /// the cells were ever listed nothing is said.
    pub cell_unproven: bool,
    /// Whether its city finds no place because its project uses too many sets of cities.
    pub limited: bool,
    /// Whether the claim on the copy names a policy that is there and selects the copy's city.
    pub claim_good: bool,
    /// What the references resolve to; `None` for a kind without companions.
    pub references: Option<Resolution>,
    /// Whether every expected companion is on the hub.
    pub companions_there: bool,
    /// The first expected companion whose name on the hub is held by an object that is not ours.
    pub companion_taken: Option<String>,
    /// What the hub said when it refused the Namespace or the policies that the copy waits for.
    pub place_refused: Option<String>,
    /// The first expected companion that the hub refuses, and what it said.
    pub companion_refused: Option<(String, String)>,
    /// Whether a companion still names this deployment.
    pub companions_hold: bool,
    /// Whether it is being deleted and the hub namespace still has a policy for its city that nobody needs.
    pub policy_leaving: bool,
    /// Whether all lists are complete. Until then it is carried and nothing else: what is not there may only not have
    /// been read.
    pub complete: bool,
}

impl Snapshot {
    /// The profile of the kind.
    pub fn profile(&self) -> &FederatedKind {
        &self.kinds[self.kind]
    }
}

/// Takes the snapshot; `None` while the lists that carrying depends on are incomplete.
pub fn observe(index: &GatewayIndex, key: &Key, project: &ProjectKey) -> Option<Snapshot> {
    let Some(TableId::Federated(kind)) = index.role_of(&key.kind) else {
        return None;
    };
    if !index.specs_synced(project) {
        return None;
    }
    let complete = index.is_complete(project);
    let p = index.projects.get(project)?;
    let source = p.sources[kind].get(&key.namespace, &key.name).cloned();
    let live = index.hub_namespace(project, &key.namespace);
    let claimed = live
        .as_ref()
        .is_some_and(|hub| index.is_refused(hub.as_str(), project));
    let live = live.filter(|hub| index.is_owned_by(hub.as_str(), project));
    let recorded = source
        .as_ref()
        .filter(|s| s.deleting)
        .and_then(|s| s.digest.federation_namespace.clone());
    let recorded = recorded.as_deref().and_then(HubNamespace::parse);
    let hub = recorded
        .filter(|hub| is_in_scope(index, project, &key.namespace, hub.as_str()))
        .or(live);
    let hub_name = hub.as_ref().map_or("", HubNamespace::as_str);
    let copy = index.hub.copies[kind].get(hub_name, &key.name).cloned();
    let city = source.as_ref().and_then(|s| s.digest.city.as_ref().ok());
    let city_ready = city.is_some_and(|city| index.city_ready(kind, hub_name, city));
    let unserved = !city_ready && hub.is_some() && city.is_some_and(|city| !index.is_served(hub_name, city));
    let clusters = &index.hub.clusters;
    let cell_unproven = unserved && !clusters.proves() && (copy.is_some() || !clusters.synced());
    let references = references(index, project, kind, &key.namespace, source.as_ref());
    let expected = references
        .as_ref()
        .and_then(|r| r.expected.as_deref())
        .unwrap_or_default();
    let companions_there = expected
        .iter()
        .all(|(kind, name)| companion(index, *kind, hub_name, name));
    let held = expected
        .iter()
        .find(|(kind, name)| index.name_taken.contains(&(*kind, hub_name.into(), name.clone())));
    let refused = |role, namespace, name| index.refused.get(&index.hub_key(role, namespace, name)).cloned();
    Some(Snapshot {
        place_refused: refused(TableId::Namespaces, "", hub_name)
            .or_else(|| refused(TableId::CityPolicies, hub_name, ""))
            .filter(|_| !city_ready),
        companion_refused: expected.iter().find_map(|(kind, name)| {
            let words = refused(companion_role(*kind), hub_name, name)?;
            Some((resolve::token(*kind, name), words))
        }),
        companion_taken: held.map(|(kind, name)| resolve::token(*kind, name)),
        kinds: index.kinds.clone(),
        kind,
        project: project.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        hub_state: if claimed {
            HubNamespaceState::Claimed
        } else {
            hub_state(index, project, &key.namespace, hub_name, complete)
        },
        binding: index.binding(kind, hub_name, &key.name).cloned(),
        no_cell: unserved && !cell_unproven,
        cell_unproven,
        limited: !city_ready && index.is_limited(hub_name),
        over_city_limit: !city_ready
            && !unserved
            && !hub_name.is_empty()
            && over_city_limit(index, hub_name, source.as_ref()),
        city_ready,
        largest_spec: index.largest_spec,
        claim_good: claim_good(index, kind, hub_name, copy.as_ref()),
        companions_there,
        companions_hold: companions_hold(index, hub_name, &key.namespace, &key.name),
        // Only a deletion asks, and the answer takes a look at all its neighbours.
        policy_leaving: source.as_ref().is_some_and(|s| s.deleting)
            && city.is_some_and(|city| policy_leaving(index, kind, hub_name, city)),
        complete,
        references,
        copy,
        hub,
        source,
    })
}

/// Whether a deployment of this project namespace may act on the hub namespace that it names. The tenant can write that
/// name, so it has to be tied to it, or the hub Namespace itself has to say that it was; where there is none nothing can
/// be touched.
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

/// Whether the labels of a hub Namespace name this project namespace.
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
        // An earlier life shows in lists that may not be complete, and whom it names instead may not be engaged yet.
        Some(row) if !complete => {
            let uid = index.projects.get(project).and_then(|p| p.uid.as_ref());
            if row.digest.project_uid.as_ref() == uid && names(&row.digest, project, namespace) {
                HubNamespaceState::Ours
            } else {
                HubNamespaceState::Unproven
            }
        }
        Some(_) if crate::gateway::namespaces::earlier_life(index, project, hub) => {
            HubNamespaceState::EarlierLife
        }
        Some(_) => HubNamespaceState::Ours,
    }
}

/// A deployment asks for its city before it announces it.
fn over_city_limit(index: &GatewayIndex, hub: &str, source: Option<&Row<Source>>) -> bool {
    let Some((source, city)) = source.and_then(|s| Some((s, s.digest.city.as_ref().ok()?))) else {
        return false;
    };
    index.over_city_limit(hub, Some(source)).contains(city)
}

/// Only a policy that is ours by name goes; another of its shape serves as one and stays.
fn policy_leaving(index: &GatewayIndex, kind: usize, hub: &str, city: &CityCode) -> bool {
    let prefix = &index.kinds[kind].placement.policy_prefix;
    let policy = index.city_policy(kind, hub, city);
    policy.is_some_and(|(name, p)| !p.deleting && name.starts_with(prefix))
        && !crate::gateway::policies::needed(index, hub, kind, city)
}

fn claim_good(index: &GatewayIndex, kind: usize, hub: &str, copy: Option<&Row<HubCopy>>) -> bool {
    let Some(copy) = copy else { return true };
    let (Some(policy), Some(city)) = (&copy.digest.claimed_by, &copy.digest.city) else {
        return true;
    };
    let row = index.hub.city_policies.get(hub, policy);
    row.is_some_and(|p| {
        p.digest
            .selects
            .as_ref()
            .is_some_and(|(k, c)| *k == kind && c == city)
    })
}

/// What is known of the source of a reference.
pub fn source_state(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: CompanionKind,
    namespace: &str,
    name: &str,
) -> SourceState {
    let Some(p) = index.projects.get(project) else {
        return SourceState::Unknown;
    };
    let table = match kind {
        CompanionKind::ConfigMap => &p.config_maps,
        CompanionKind::Secret => &p.secrets,
    };
    match table.get(namespace, name) {
        _ if p.forbidden.contains(&kind) => SourceState::Forbidden,
        _ if !table.synced() => SourceState::Unknown,
        None => SourceState::Missing,
        Some(row) => SourceState::Present(row.digest.size),
    }
}

fn references(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: usize,
    namespace: &str,
    source: Option<&Row<Source>>,
) -> Option<Resolution> {
    index.kinds[kind].companions.as_ref()?;
    let source = source?;
    Some(resolve::resolve(&source.digest.references, |kind, name| {
        source_state(index, project, kind, namespace, name)
    }))
}

fn companion(index: &GatewayIndex, kind: CompanionKind, hub: &str, name: &str) -> bool {
    let table = match kind {
        CompanionKind::ConfigMap => &index.hub.config_maps,
        CompanionKind::Secret => &index.hub.secrets,
    };
    table.get(hub, name).is_some_and(|row| !row.deleting)
}

fn companions_hold(index: &GatewayIndex, hub: &str, namespace: &str, name: &str) -> bool {
    let mut naming = index.hub.secondary.naming(hub, namespace, name);
    naming.any(|(kind, by)| companion(index, kind, hub, by))
}
