//! What is known about a deployment, taken from the index in one go.

use crate::{
    api::names::{CityCode, HubNamespace, ProjectKey},
    engine::key::Key,
    gateway::{
        companions::resolve::{self, Resolution, SourceState},
        world::{
            Role, World,
            digest::{Binding, Copy, Source},
        },
    },
    kinds::{CompanionKind, FederatedKind},
    plane::table::Row,
};
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
    pub copy: Option<Row<Copy>>,
    /// The copy's binding.
    pub binding: Option<Row<Binding>>,
    /// Whether Namespace and policies for the city are in place.
    pub city_ready: bool,
    /// Whether its city finds no place in its namespace, which uses too many.
    pub crowded_out: bool,
    /// Whether the claim on the copy names a policy that is there and selects the copy's city.
    pub claim_good: bool,
    /// What the references resolve to; `None` for a kind without companions.
    pub references: Option<Resolution>,
    /// Whether every expected companion is on the hub.
    pub companions_there: bool,
    /// The first expected companion whose name on the hub is held by an object that is not ours.
    pub companion_taken: Option<String>,
    /// Whether a companion still names this deployment.
    pub companions_hold: bool,
    /// Whether it is being deleted and the hub namespace still has a policy for its city that nobody needs.
    pub policy_leaving: bool,
}

impl Snapshot {
    /// The profile of the kind.
    pub fn profile(&self) -> &FederatedKind {
        &self.kinds[self.kind]
    }
}

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(world: &World, key: &Key, project: &ProjectKey) -> Option<Snapshot> {
    let Some(Role::Federated(kind)) = world.role_of(&key.kind) else {
        return None;
    };
    if !world.hub_ready() || !world.project_ready(project) {
        return None;
    }
    let p = world.projects.get(project)?;
    let source = p.sources[kind].get(&key.namespace, &key.name).cloned();
    let live = world.hub_namespace(project, &key.namespace);
    // Nothing is decided while it is open whose the hub namespace is.
    if live.as_ref().is_some_and(|hub| world.is_undecided(hub.as_str())) {
        return None;
    }
    let hub = hub_namespace(world, project, live, source.as_ref());
    let hub_name = hub.as_ref().map_or("", HubNamespace::as_str);
    let copy = world.hub.copies[kind].get(hub_name, &key.name).cloned();
    let city = source.as_ref().and_then(|s| s.digest.city.as_ref().ok());
    let city_ready = city.is_some_and(|city| world.city_ready(kind, hub_name, city));
    let references = references(world, project, kind, &key.namespace, source.as_ref());
    let expected = references
        .as_ref()
        .and_then(|r| r.expected.as_deref())
        .unwrap_or_default();
    let companions_there = expected
        .iter()
        .all(|(kind, name)| companion(world, *kind, hub_name, name));
    let held = expected
        .iter()
        .find(|(kind, name)| world.taken.contains(&(*kind, hub_name.into(), name.clone())));
    Some(Snapshot {
        companion_taken: held.map(|(kind, name)| resolve::token(*kind, name)),
        kinds: world.kinds.clone(),
        kind,
        project: project.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        hub_state: hub_state(world, project, hub_name),
        binding: world.binding(kind, hub_name, &key.name).cloned(),
        crowded_out: !city_ready && !hub_name.is_empty() && crowded_out(world, hub_name, source.as_ref()),
        city_ready,
        claim_good: claim_good(world, kind, hub_name, copy.as_ref()),
        companions_there,
        companions_hold: companions_hold(world, hub_name, &key.namespace, &key.name),
        // Only a deletion asks, and the answer takes a look at all its neighbours.
        policy_leaving: source.as_ref().is_some_and(|s| s.deleting)
            && city.is_some_and(|city| policy_leaving(world, kind, hub_name, city)),
        references,
        copy,
        hub,
        source,
    })
}

/// The hub namespace that a deployment is at home in, or while it is deleted the one that it names.
fn hub_namespace(
    world: &World,
    project: &ProjectKey,
    live: Option<HubNamespace>,
    source: Option<&Row<Source>>,
) -> Option<HubNamespace> {
    let leaving = source.filter(|s| s.deleting);
    let recorded = leaving
        .and_then(|s| s.digest.federation_namespace.as_deref())
        .and_then(HubNamespace::parse);
    let recorded = recorded.filter(|hub| may_act(world, project, hub.as_str()));
    recorded.or_else(|| live.filter(|hub| world.is_tied(hub.as_str(), project)))
}

/// Whether a project may act on a hub namespace that a deployment of its names: it is tied to it, or was and has lost
/// its namespace since.
fn may_act(world: &World, project: &ProjectKey, hub: &str) -> bool {
    if world.is_claimed(hub) {
        return world.is_tied(hub, project);
    }
    let uid = world.projects.get(project).and_then(|p| p.uid.as_ref());
    let row = world.hub.namespaces.get("", hub);
    row.is_some_and(|row| {
        let n = &row.digest;
        n.project_uid.as_ref().is_none_or(|had| Some(had) == uid)
            && n.cluster.as_deref() == Some(&*project.label())
    })
}

fn hub_state(world: &World, project: &ProjectKey, hub: &str) -> HubNamespaceState {
    match world.hub.namespaces.get("", hub) {
        None => HubNamespaceState::Absent,
        Some(row) if row.deleting => HubNamespaceState::Terminating,
        Some(_) if crate::gateway::namespaces::earlier_life(world, project, hub) => {
            HubNamespaceState::EarlierLife
        }
        Some(_) => HubNamespaceState::Ours,
    }
}

/// A deployment asks for its city before it announces it.
fn crowded_out(world: &World, hub: &str, source: Option<&Row<Source>>) -> bool {
    let Some((source, city)) = source.and_then(|s| Some((s, s.digest.city.as_ref().ok()?))) else {
        return false;
    };
    world.crowded_out(hub, Some(source)).contains(city)
}

fn policy_leaving(world: &World, kind: usize, hub: &str, city: &CityCode) -> bool {
    let policy = world.city_policy(kind, hub, city);
    policy.is_some_and(|(_, p)| !p.deleting) && !crate::gateway::policies::needed(world, hub, kind, city)
}

fn claim_good(world: &World, kind: usize, hub: &str, copy: Option<&Row<Copy>>) -> bool {
    let Some(copy) = copy else { return true };
    let (Some(policy), Some(city)) = (&copy.digest.claimed_by, &copy.digest.city) else {
        return true;
    };
    let row = world.hub.city_policies.get(hub, policy);
    row.is_some_and(|p| {
        p.digest
            .selects
            .as_ref()
            .is_some_and(|(k, c)| *k == kind && c == city)
    })
}

/// What is known of the source of a reference.
pub fn source_state(
    world: &World,
    project: &ProjectKey,
    kind: CompanionKind,
    namespace: &str,
    name: &str,
) -> SourceState {
    let Some(p) = world.projects.get(project) else {
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
    world: &World,
    project: &ProjectKey,
    kind: usize,
    namespace: &str,
    source: Option<&Row<Source>>,
) -> Option<Resolution> {
    world.kinds[kind].companions.as_ref()?;
    let source = source?;
    Some(resolve::resolve(&source.digest.references, |kind, name| {
        source_state(world, project, kind, namespace, name)
    }))
}

fn companion(world: &World, kind: CompanionKind, hub: &str, name: &str) -> bool {
    let table = match kind {
        CompanionKind::ConfigMap => &world.hub.config_maps,
        CompanionKind::Secret => &world.hub.secrets,
    };
    table.get(hub, name).is_some_and(|row| !row.deleting)
}

fn companions_hold(world: &World, hub: &str, namespace: &str, name: &str) -> bool {
    let entry = format!("\"{namespace}/{name}\"");
    [&world.hub.config_maps, &world.hub.secrets]
        .into_iter()
        .any(|table| {
            table.in_namespace(hub).any(|(_, row)| {
                !row.deleting
                    && row
                        .digest
                        .referenced_by
                        .as_deref()
                        .is_some_and(|t| t.contains(&entry))
            })
        })
}
