//! The index: what a cell knows of its own plane, of the hub and of claims in projects, as digests.

pub mod digest;
mod events;
pub mod role;
#[cfg(test)]
mod tests;
mod waking;

pub use events::Woken;

use super::limits::Limits;
use super::network::decide::{Binding, Claim as SubnetClaim, Context, Readiness};
use crate::{
    api::{
        ConditionStatus, LocationReference,
        conditions::{find, types::QUOTA_GRANTED},
        names::ProjectKey,
    },
    engine::{
        chance::HashMap,
        key::{Key, Kind, Plane},
    },
    plane::table::{Row, Table},
};
use digest::{Attached, Claim, Copy, Deployment, HubDeployment, Instance, Namespace, Place, Pod, Words};
use role::Role;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

/// What the index depends on of the settings.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Name of the cell.
    pub cell: Arc<str>,
    /// Where the cell is, if that is configured: name of the location, and city.
    pub place: Option<(Arc<str>, Arc<str>)>,
    /// Whether the network path is on.
    pub networking: bool,
    /// Whether companions are looked at.
    pub data: bool,
    /// Whether Pods are run.
    pub provider: bool,
    /// Whether there is a hub.
    pub hub: bool,
    /// The one project, where there is no hub: its namespaces are those of the cell.
    pub project: Option<ProjectKey>,
    /// The cell's own namespace, where it records what is to be released.
    pub namespace: Arc<str>,
    /// Annotation of Pods with their external address.
    pub external: Option<Arc<str>>,
    /// What it allows.
    pub limits: Arc<Limits>,
}

/// See the module.
#[derive(Debug)]
pub struct World {
    /// What it depends on.
    pub reading: Reading,
    words: Words,
    /// Namespaces at the cell.
    pub namespaces: Table<Namespace>,
    /// Deployments at the cell.
    pub deployments: Table<Deployment>,
    /// Instances at the cell.
    pub instances: Table<Instance>,
    /// Companion `ConfigMaps`.
    pub config_maps: Table<()>,
    /// Companion Secrets.
    pub secrets: Table<()>,
    /// The provider's Pods.
    pub pods: Table<Pod>,
    /// The provider's Services.
    pub services: Table<Attached>,
    /// The provider's `NetworkPolicies`.
    pub network_policies: Table<Attached>,
    /// Records of releases: UID of the Instance, and what is written of it.
    pub releases: Table<BTreeMap<String, String>>,
    /// Where the cell may be.
    pub places: Table<Place>,
    /// Networking.
    pub bindings: Table<Binding>,
    /// Networking.
    pub contexts: Table<Context>,
    /// Networking.
    pub subnet_claims: Table<SubnetClaim>,
    /// Networking.
    pub subnets: Table<Readiness>,
    /// Namespaces of the hub.
    pub hub_namespaces: Table<Namespace>,
    /// Deployments of the hub.
    pub hub_deployments: Table<HubDeployment>,
    /// Instances of the hub.
    pub copies: Table<Copy>,
    /// Claims of quota, of each project in use.
    pub claims: HashMap<ProjectKey, Claims>,
    /// Projects that gave no answer when quota was last asked for, with the Instances that it was asked for.
    quota_away: BTreeMap<ProjectKey, BTreeSet<Key>>,
    /// Projects to which there is no way.
    pub unreachable: BTreeSet<ProjectKey>,
    /// Whether Instances carry the finalizer of the Pod provider at a cell that starts no Pods: those that run are looked at
    /// until they end.
    retiring: bool,
    kinds: HashMap<Kind, Role>,
}

/// The claims of a project.
#[derive(Debug)]
pub struct Claims {
    /// They.
    pub table: Table<Claim>,
    /// Since when they are watched.
    pub since: Instant,
}

/// Where a cell is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// There.
    At {
        /// The location.
        location: LocationReference,
        /// Its city code.
        city: Arc<str>,
    },
    /// Nothing says where, and nobody asks.
    Untold,
    /// Nothing says where.
    Nowhere,
    /// More than one location is served.
    Ambiguous(usize),
}

impl World {
    /// An index that knows nothing yet.
    pub fn new(reading: Reading) -> Self {
        let all = Role::CELL.into_iter().chain(Role::DATA).chain(Role::PROVIDER);
        let all = all.chain(Role::NETWORK).chain([Role::Claims]);
        Self {
            reading,
            words: Words::default(),
            namespaces: Table::default(),
            deployments: Table::default(),
            instances: Table::default(),
            config_maps: Table::default(),
            secrets: Table::default(),
            pods: Table::default(),
            services: Table::default(),
            network_policies: Table::default(),
            releases: Table::default(),
            places: Table::default(),
            bindings: Table::default(),
            contexts: Table::default(),
            subnet_claims: Table::default(),
            subnets: Table::default(),
            hub_namespaces: Table::default(),
            hub_deployments: Table::default(),
            copies: Table::default(),
            claims: HashMap::default(),
            quota_away: BTreeMap::new(),
            unreachable: BTreeSet::new(),
            retiring: false,
            kinds: all.map(|role| (role.kind(), role)).collect(),
        }
    }

    /// What is watched on the cell's own plane.
    pub fn cell_roles(&self) -> Vec<Role> {
        let Reading {
            networking,
            data,
            provider,
            ..
        } = self.reading;
        let mut roles = Role::CELL.to_vec();
        roles.push(Role::Releases);
        if data {
            roles.extend(Role::DATA);
        }
        if provider {
            roles.extend(Role::PROVIDER);
        }
        if networking {
            roles.extend(Role::NETWORK);
        }
        roles
    }

    /// Whether Pods and Services are looked at.
    pub fn looks_at_pods(&self) -> bool {
        self.reading.provider || self.retiring
    }

    /// The role of an object of this kind on this plane.
    pub fn role_of(&self, plane: &Plane, kind: &Kind, namespace: &str, name: &str) -> Option<Role> {
        let role = *self.kinds.get(kind)?;
        let is_record = *namespace == *self.reading.namespace && name.starts_with(RELEASES_PREFIX);
        Some(match (plane, role) {
            (Plane::Cell, Role::ConfigMaps) if is_record => Role::Releases,
            (Plane::Cell, role) => role,
            (Plane::Hub, Role::Namespaces) => Role::HubNamespaces,
            (Plane::Hub, Role::Deployments) => Role::HubDeployments,
            (Plane::Hub, Role::Instances) => Role::HubInstances,
            (Plane::Project(_), Role::Claims) => Role::Claims,
            (Plane::Hub | Plane::Project(_), _) => return None,
        })
    }

    /// Whether all lists of the cell's own plane have been read: before that nothing is decided.
    pub fn cell_ready(&self) -> bool {
        self.cell_roles().into_iter().all(|role| self.is_synced(role))
    }

    /// Whether all lists of the hub have been read.
    pub fn hub_ready(&self) -> bool {
        Role::HUB.into_iter().all(|role| self.is_synced(role))
    }

    /// Whether a list has been read.
    pub fn is_synced(&self, role: Role) -> bool {
        match role {
            Role::Namespaces => self.namespaces.synced(),
            Role::Deployments => self.deployments.synced(),
            Role::Instances => self.instances.synced(),
            Role::ConfigMaps => self.config_maps.synced(),
            Role::Secrets => self.secrets.synced(),
            Role::Pods => self.pods.synced(),
            Role::Services => self.services.synced(),
            Role::NetworkPolicies => self.network_policies.synced(),
            Role::Releases => self.releases.synced(),
            Role::ServingLocations => self.places.synced(),
            Role::Bindings => self.bindings.synced(),
            Role::Contexts => self.contexts.synced(),
            Role::SubnetClaims => self.subnet_claims.synced(),
            Role::Subnets => self.subnets.synced(),
            Role::HubNamespaces => self.hub_namespaces.synced(),
            Role::HubDeployments => self.hub_deployments.synced(),
            Role::HubInstances => self.copies.synced(),
            // Each project has its own.
            Role::Claims => true,
        }
    }

    /// How many objects of a role are known.
    pub fn len(&self, role: Role) -> usize {
        match role {
            Role::Namespaces => self.namespaces.len(),
            Role::Deployments => self.deployments.len(),
            Role::Instances => self.instances.len(),
            Role::ConfigMaps => self.config_maps.len(),
            Role::Secrets => self.secrets.len(),
            Role::Pods => self.pods.len(),
            Role::Services => self.services.len(),
            Role::NetworkPolicies => self.network_policies.len(),
            Role::Releases => self.releases.len(),
            Role::ServingLocations => self.places.len(),
            Role::Bindings => self.bindings.len(),
            Role::Contexts => self.contexts.len(),
            Role::SubnetClaims => self.subnet_claims.len(),
            Role::Subnets => self.subnets.len(),
            Role::HubNamespaces => self.hub_namespaces.len(),
            Role::HubDeployments => self.hub_deployments.len(),
            Role::HubInstances => self.copies.len(),
            Role::Claims => self.claims.values().map(|claims| claims.table.len()).sum(),
        }
    }

    /// Where the cell is. The configuration comes first; without networking nothing else says it.
    pub fn located(&self) -> Located {
        let at = |name: &str, city: &Arc<str>| Located::At {
            location: LocationReference {
                name: name.to_owned(),
                namespace: Some(DEFAULT_NAMESPACE.to_owned()),
            },
            city: city.clone(),
        };
        if let Some((name, city)) = &self.reading.place {
            return at(name, city);
        }
        if !self.reading.networking {
            return Located::Untold;
        }
        let mut live = self.places.iter().filter(|(_, row)| !row.deleting);
        match (live.next(), live.count()) {
            (None, _) => Located::Nowhere,
            (Some(((_, name), row)), 0) => match &row.digest.city {
                Some(city) => at(name, city),
                None => Located::Nowhere,
            },
            (Some(_), more) => Located::Ambiguous(more + 1),
        }
    }

    /// Whether it is known where the cell is, or that nothing says it: then the hub's deployments of all cities are watched.
    pub fn knows_place(&self) -> bool {
        let told = matches!(self.located(), Located::At { .. } | Located::Untold);
        told || self.places.synced()
    }

    /// The project that a namespace of the cell belongs to, and the namespace there; `None` unless both labels are there.
    pub fn origin(&self, namespace: &str) -> Option<(ProjectKey, Arc<str>)> {
        if let Some(project) = &self.reading.project {
            return Some((project.clone(), namespace.into()));
        }
        let Namespace {
            cluster, namespace, ..
        } = &self.namespaces.get("", namespace)?.digest;
        // No key has an underscore of its own.
        let project = cluster.as_ref()?.strip_prefix(CLUSTER_PREFIX)?.replace('_', "/");
        let project = ProjectKey::parse(&project).ok()?;
        Some((project, namespace.clone().filter(|name| !name.is_empty())?))
    }

    /// The deployment that controls an Instance, if it is there.
    pub fn deployment_of(&self, namespace: &str, instance: &Instance) -> Option<&Row<Deployment>> {
        let owner = instance.owner.as_ref().filter(|owner| owner.is_deployment)?;
        let deployment = self.deployments.get(namespace, &owner.name)?;
        (deployment.uid == owner.uid).then_some(deployment)
    }

    /// The keys of all deployments, Instances, Pods and records.
    pub fn all_keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        for ((namespace, name), _) in self.deployments.iter() {
            keys.push(Role::Deployments.key(namespace, name));
        }
        keys.extend(self.instance_keys());
        if self.looks_at_pods() {
            for ((namespace, name), _) in self.instances.iter() {
                keys.push(Role::Pods.key(namespace, name));
            }
            for ((namespace, name), _) in self.pods.iter() {
                keys.push(Role::Pods.key(namespace, name));
            }
        }
        for ((namespace, name), _) in self.releases.iter() {
            keys.push(Role::Releases.key(namespace, name));
        }
        keys
    }

    /// The keys of all Instances, also of those of which only a copy or a claim is left.
    pub fn instance_keys(&self) -> Vec<Key> {
        let key = |namespace: &str, name: &str| Role::Instances.key(namespace, name);
        let mut keys: Vec<Key> = self
            .instances
            .iter()
            .map(|((ns, name), _)| key(ns, name))
            .collect();
        keys.extend(self.copies.iter().map(|((ns, name), _)| key(ns, name)));
        for (project, claims) in &self.claims {
            let claimants = claims.table.iter();
            keys.extend(claimants.filter_map(|((_, name), row)| self.claimant(project, name, &row.digest)));
        }
        keys
    }

    /// How many Instances were granted quota of which no claim that is seen now says so.
    pub fn unverified(&self) -> usize {
        let unseen = self.instances.iter().filter(|((namespace, name), row)| {
            let said = find(&row.digest.conditions, QUOTA_GRANTED);
            let granted = said.is_some_and(|c| c.status == ConditionStatus::True);
            granted && !row.deleting && !self.is_granted(namespace, name, &row.uid)
        });
        unseen.count()
    }

    fn is_granted(&self, namespace: &str, name: &str, uid: &str) -> bool {
        let Some((project, home)) = self.origin(namespace) else {
            return false;
        };
        let claims = self.claims.get(&project).filter(|claims| claims.table.synced());
        let claim = claims.and_then(|claims| claims.table.get(&home, &format!("{CLAIM_PREFIX}{name}")));
        claim.is_some_and(|row| {
            let claim = &row.digest;
            claim.cell.as_deref() == Some(&*self.reading.cell)
                && claim.instance.as_deref() == Some(uid)
                && claim.granted.as_ref().is_some_and(|granted| granted.yes)
        })
    }

    /// The key of the Instance that a claim of this cell is for. No project's claims wake Instances of another.
    fn claimant(&self, project: &ProjectKey, name: &str, claim: &Claim) -> Option<Key> {
        let instance = name.strip_prefix(CLAIM_PREFIX)?;
        let ours = claim.cell.as_deref() == Some(&*self.reading.cell);
        let namespace = claim.namespace.as_ref().filter(|_| ours)?;
        if self.origin(namespace).is_some_and(|(of, _)| of != *project) {
            return None;
        }
        Some(Role::Instances.key(namespace, instance))
    }
}

/// Prefix of the label that names a project.
const CLUSTER_PREFIX: &str = "cluster-";
/// Namespace that references to a cluster-scoped location name.
const DEFAULT_NAMESPACE: &str = "default";
/// Prefix of the names of claims.
pub const CLAIM_PREFIX: &str = "instance-";
/// Prefix of the names of `ConfigMaps` with records of releases.
pub const RELEASES_PREFIX: &str = "fedgate-releases-";
