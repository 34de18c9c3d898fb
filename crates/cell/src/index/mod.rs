//! The cell's index: digests of the objects on the cell's own API server, on the hub, and of the quota claims in
//! projects.

mod apply;
pub mod change;
pub mod digest;
mod networking;
mod projects;
pub mod release_records;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod watches;

use super::settings::Settings;
use digest::{
    Attached, Binding, Claim, Deployment, HubDeployment, HubInstance, InstanceDigest, Namespace,
    NetworkContext, Pod, Strings, SubnetClaim, claim_name,
};
use fedgate_api::{
    LocationReference,
    conditions::types::QUOTA_GRANTED,
    names::{CLAIM_PREFIX, ProjectKey, is_label_value},
};
use fedgate_engine::{
    key::{Key, Kind, Plane},
    random::HashMap,
    store::table::{Row, Table},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tables::TableId;
use tokio::time::Instant;

/// The index of a cell.
#[derive(Debug, Default)]
pub struct CellIndex {
    /// Settings of the cell.
    pub settings: Arc<Settings>,
    strings: Strings,
    /// Namespaces at the cell.
    pub namespaces: Table<Namespace>,
    /// Deployments at the cell.
    pub deployments: Table<Deployment>,
    /// Instances at the cell.
    pub instances: Table<InstanceDigest>,
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
    /// Release records: the UID of the Instance, and its record as text.
    pub releases: Table<BTreeMap<String, String>>,
    /// Tables that tell the cell's location and whose kinds the cell serves.
    pub(super) serving: Vec<TableId>,
    /// Cities of the `ServingLocations` of the cell, from the network services.
    pub places: Table<Option<Arc<str>>>,
    /// Cities of the `ServingLocations` of the cell, from Milo's locations service.
    pub milo_places: Table<Option<Arc<str>>>,
    /// `NetworkBindings`.
    pub bindings: Table<Binding>,
    /// `NetworkContexts`.
    pub contexts: Table<NetworkContext>,
    /// `SubnetClaims`.
    pub subnet_claims: Table<SubnetClaim>,
    /// Subnets; true for one that is ready.
    pub subnets: Table<bool>,
    /// Namespaces on the hub.
    pub hub_namespaces: Table<Namespace>,
    /// Deployments on the hub.
    pub hub_deployments: Table<HubDeployment>,
    /// Deployments of the hub that are delivered to this cell's location.
    pub hub_deployments_here: Table<HubDeployment>,
    /// Instances on the hub that this cell has written back.
    pub write_backs: Table<HubInstance>,
    /// Quota claims of each project in use.
    pub claims: HashMap<ProjectKey, Claims>,
    /// Projects that did not answer the last quota request, with the Instances whose request failed.
    quota_unavailable: BTreeMap<ProjectKey, BTreeSet<Key>>,
    /// Projects without a connection.
    pub unreachable: BTreeSet<ProjectKey>,
    /// True if Instances carry the Pod provider's finalizer at a cell that starts no Pods: Pods that still run are
    /// watched until they end.
    retiring: bool,
    kinds: HashMap<Kind, TableId>,
}

/// The quota claims of a project.
#[derive(Debug)]
pub struct Claims {
    /// The claims.
    pub table: Table<Claim>,
    /// Start of the watch.
    pub since: Instant,
}

/// Location of the cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellLocation {
    /// The location is known.
    At {
        /// Reference to the location.
        location: LocationReference,
        /// City code.
        city: Arc<str>,
    },
    /// No location is configured, and networking is disabled: no component needs the location.
    Untold,
    /// No usable location: networking is enabled, but no `ServingLocation` with a city exists.
    Nowhere,
    /// More than one `ServingLocation` exists; their number.
    Ambiguous(usize),
}

impl CellLocation {
    /// Reference to the location, if it is known.
    pub fn reference(&self) -> Option<&LocationReference> {
        match self {
            Self::At { location, .. } => Some(location),
            Self::Untold | Self::Nowhere | Self::Ambiguous(_) => None,
        }
    }
}

impl CellIndex {
    /// An empty index.
    pub fn new(settings: impl Into<Arc<Settings>>) -> Self {
        let all = TableId::CELL.into_iter().chain(TableId::DATA);
        let all = all.chain(TableId::PROVIDER).chain(TableId::NETWORK);
        let all = all.chain(TableId::SERVING).chain([TableId::Claims]);
        Self {
            settings: settings.into(),
            kinds: all.map(|table| (table.kind(), table)).collect(),
            ..Self::default()
        }
    }

    /// The tables that are watched on the cell's own plane.
    pub fn cell_tables(&self) -> Vec<TableId> {
        let groups: [(bool, &[TableId]); 6] = [
            (true, &TableId::CELL),
            (true, &[TableId::Releases]),
            (self.settings.data, &TableId::DATA),
            (self.settings.provider, &TableId::PROVIDER),
            (self.settings.networking, &TableId::NETWORK),
            (self.settings.networking, &self.serving),
        ];
        let watched = groups.into_iter().filter(|(is_watched, _)| *is_watched);
        watched.flat_map(|(_, tables)| tables).copied().collect()
    }

    /// Kinds that tell the cell's location, and that the cell does not serve as far as is known.
    pub(super) fn unserved_places(&self) -> impl Iterator<Item = TableId> {
        let wanted = self.settings.networking;
        let missing = TableId::SERVING.into_iter();
        missing.filter(move |table| wanted && !self.serving.contains(table))
    }

    /// True if Pods and Services are watched.
    pub fn watches_pods(&self) -> bool {
        self.settings.provider || self.retiring
    }

    /// The table for an object of this kind on this plane; `None` if the kind is not watched there.
    pub fn table_of_object(
        &self,
        plane: &Plane,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Option<TableId> {
        let table = *self.kinds.get(kind)?;
        let is_record = *namespace == *self.settings.namespace && name.starts_with(RELEASES_PREFIX);
        Some(match (plane, table) {
            (Plane::Cell, TableId::ConfigMaps) if is_record => TableId::Releases,
            (Plane::Cell, table) => table,
            (Plane::Hub, TableId::Namespaces) => TableId::HubNamespaces,
            (Plane::Hub, TableId::Deployments) => TableId::HubDeployments,
            (Plane::Hub, TableId::Instances) => TableId::HubInstances,
            (Plane::Project(_), TableId::Claims) => TableId::Claims,
            (Plane::Hub | Plane::Project(_) | Plane::Home, _) => return None,
        })
    }

    /// The table of a key.
    pub fn table_of_key(&self, key: &Key) -> Option<TableId> {
        self.table_of_object(&key.plane, &key.kind, &key.namespace, &key.name)
    }

    /// True if all lists of the cell's own plane are complete. No controller decides before that.
    pub fn cell_ready(&self) -> bool {
        self.missing().is_none()
    }

    /// The first thing that is missing of the cell's own plane, in words.
    pub fn missing(&self) -> Option<String> {
        if self.settings.networking && self.serving.is_empty() {
            return Some(
                "whether the cell serves a kind ServingLocation is not known, or it serves none".to_owned(),
            );
        }
        let mut tables = self.cell_tables().into_iter();
        let missing = tables.find(|table| !self.is_synced(*table))?;
        Some(format!(
            "the list of {} at the cell is not complete",
            missing.kind()
        ))
    }

    /// True if all lists of the hub are complete.
    pub fn hub_ready(&self) -> bool {
        let awaits = |table| table != TableId::HubDeploymentsHere || self.label_of_location().is_some();
        let mut tables = TableId::HUB.into_iter();
        tables.all(|table| self.is_synced(table) || !awaits(table))
    }

    /// The tables of the hub that can be watched. The deployments depend on the cell's location: until the index knows if
    /// there is one, none are.
    pub fn hub_tables(&self) -> Vec<TableId> {
        let (known, here) = (self.location_known(), self.label_of_location().is_some());
        let can = |table: &TableId| match table {
            TableId::HubDeployments => known,
            TableId::HubDeploymentsHere => here,
            _ => true,
        };
        TableId::HUB.into_iter().filter(can).collect()
    }

    /// The location of this cell as the value of a label, by which the hub delivers; `None` without one.
    pub fn label_of_location(&self) -> Option<String> {
        let name = self.located().reference()?.name.clone();
        is_label_value(&name).then_some(name)
    }

    /// A deployment on the hub.
    pub fn hub_deployment(&self, namespace: &str, name: &str) -> Option<&Row<HubDeployment>> {
        let by_city = self.hub_deployments.get(namespace, name);
        let here = || self.hub_deployments_here.get(namespace, name);
        // Without a location the first table has all, and the second what there was before.
        by_city.or_else(|| self.label_of_location().and_then(|_| here()))
    }

    /// True if the list of a table is complete.
    pub fn is_synced(&self, table: TableId) -> bool {
        self.state(table).0
    }

    /// Number of objects in a table.
    pub fn len(&self, table: TableId) -> usize {
        self.state(table).1
    }

    /// True if the list of a table is complete, and the number of its objects.
    fn state(&self, table: TableId) -> (bool, usize) {
        fn of<D: PartialEq>(table: &Table<D>) -> (bool, usize) {
            (table.synced(), table.len())
        }
        match table {
            TableId::Namespaces => of(&self.namespaces),
            TableId::Deployments => of(&self.deployments),
            TableId::Instances => of(&self.instances),
            TableId::ConfigMaps => of(&self.config_maps),
            TableId::Secrets => of(&self.secrets),
            TableId::Pods => of(&self.pods),
            TableId::Services => of(&self.services),
            TableId::NetworkPolicies => of(&self.network_policies),
            TableId::Releases => of(&self.releases),
            TableId::ServingLocations => of(&self.places),
            TableId::MiloServingLocations => of(&self.milo_places),
            TableId::Bindings => of(&self.bindings),
            TableId::Contexts => of(&self.contexts),
            TableId::SubnetClaims => of(&self.subnet_claims),
            TableId::Subnets => of(&self.subnets),
            TableId::HubNamespaces => of(&self.hub_namespaces),
            TableId::HubDeployments => of(&self.hub_deployments),
            TableId::HubDeploymentsHere => of(&self.hub_deployments_here),
            TableId::HubInstances => of(&self.write_backs),
            // Each project has a list of its own.
            TableId::Claims => (true, self.claims.values().map(|claims| claims.table.len()).sum()),
        }
    }

    /// Location of the cell. The configured location wins; without networking the index has no other source.
    pub fn located(&self) -> CellLocation {
        let at = |name: &str, city: &Arc<str>| CellLocation::At {
            location: LocationReference {
                name: name.to_owned(),
                namespace: Some(DEFAULT_NAMESPACE.to_owned()),
            },
            city: city.clone(),
        };
        if let Some((name, city)) = &self.settings.place {
            return at(name, city);
        }
        if !self.settings.networking {
            return CellLocation::Untold;
        }
        let all = self.places.iter().chain(self.milo_places.iter());
        let live = all.filter(|(_, row)| !row.deleting);
        // Of one name in both groups, the city of one is enough.
        let mut by_name: BTreeMap<&str, Option<&Arc<str>>> = BTreeMap::new();
        for ((_, name), row) in live {
            let city = by_name.entry(name).or_default();
            *city = city.or(row.digest.as_ref());
        }
        match (by_name.first_key_value(), by_name.len()) {
            (None, _) | (Some((_, None)), 1) => CellLocation::Nowhere,
            (Some((name, Some(city))), 1) => at(name, city),
            (Some(_), count) => CellLocation::Ambiguous(count),
        }
    }

    /// The location, as soon as it is certain ([`Self::location_known`]).
    pub fn settled_location(&self) -> Option<CellLocation> {
        self.location_known().then(|| self.located())
    }

    /// True if the location is known, or if the index is certain that there is none: the cell then watches the hub's
    /// deployments of all cities.
    pub fn location_known(&self) -> bool {
        let told = matches!(self.located(), CellLocation::At { .. } | CellLocation::Untold);
        told || (!self.serving.is_empty() && self.serving.iter().all(|table| self.is_synced(*table)))
    }

    /// Project and project namespace that own a namespace of the cell; `None` unless the namespace has both labels.
    pub fn origin(&self, namespace: &str) -> Option<(ProjectKey, Arc<str>)> {
        if let Some(project) = &self.settings.project {
            return Some((project.clone(), namespace.into()));
        }
        let Namespace {
            cluster, namespace, ..
        } = &self.namespaces.get("", namespace)?.digest;
        // A project key has no underscore, so each underscore stands for a slash.
        let project = cluster.as_ref()?.strip_prefix(CLUSTER_PREFIX)?.replace('_', "/");
        let project = ProjectKey::parse(&project).ok()?;
        Some((project, namespace.clone().filter(|name| !name.is_empty())?))
    }

    /// The deployment that controls an Instance, if that deployment exists.
    pub fn deployment_of(&self, namespace: &str, instance: &InstanceDigest) -> Option<&Row<Deployment>> {
        let owner = instance.owner.as_ref().filter(|owner| owner.is_deployment)?;
        let deployment = self.deployments.get(namespace, &owner.name)?;
        (deployment.uid == owner.uid).then_some(deployment)
    }

    /// Keys of all deployments, Instances, Pods and release records.
    pub fn reconcilable_keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = keys_of(&self.deployments, TableId::Deployments).collect();
        keys.extend(self.instance_keys());
        if self.watches_pods() {
            keys.extend(keys_of(&self.instances, TableId::Pods));
            keys.extend(keys_of(&self.pods, TableId::Pods));
        }
        keys.extend(keys_of(&self.releases, TableId::Releases));
        keys
    }

    /// Keys of all Instances, including deleted Instances that have left a write-back or a claim.
    pub fn instance_keys(&self) -> Vec<Key> {
        let key = |namespace: &str, name: &str| TableId::Instances.key(namespace, name);
        let mut keys: Vec<Key> = keys_of(&self.instances, TableId::Instances).collect();
        keys.extend(keys_of(&self.write_backs, TableId::Instances));
        for (project, claims) in &self.claims {
            let claimants = claims.table.iter();
            let instances =
                claimants.filter_map(|((_, name), row)| self.claimant(project, name, &row.digest));
            keys.extend(instances.map(|(ns, name)| key(&ns, &name)));
        }
        keys
    }

    /// Number of Instances whose quota was granted but whose granted claim is not in the index.
    pub fn unverified(&self) -> usize {
        let unseen = self.instances.iter().filter(|((namespace, name), row)| {
            let granted = row.digest.is(QUOTA_GRANTED) && !row.deleting;
            granted && !self.is_granted(namespace, name, &row.uid)
        });
        unseen.count()
    }

    fn is_granted(&self, namespace: &str, name: &str, uid: &str) -> bool {
        let Some((project, home)) = self.origin(namespace) else {
            return false;
        };
        let claims = self.claims.get(&project).filter(|claims| claims.table.synced());
        let claim = claims.and_then(|claims| claims.table.get(&home, &claim_name(name)));
        let claim = claim.map(|row| &row.digest);
        claim.is_some_and(|claim| {
            claim.is_of(&self.settings.cell, uid) && claim.granted.as_ref().is_some_and(|granted| granted.yes)
        })
    }

    /// Namespace and name of the Instance that a claim of this cell belongs to. A claim never concerns an Instance of another project.
    fn claimant(&self, project: &ProjectKey, name: &str, claim: &Claim) -> Option<(Arc<str>, Arc<str>)> {
        let instance = name.strip_prefix(CLAIM_PREFIX)?;
        let ours = claim.cell.as_deref() == Some(&*self.settings.cell);
        let namespace = claim.namespace.as_ref().filter(|_| ours)?;
        if self.origin(namespace).is_some_and(|(of, _)| of != *project) {
            return None;
        }
        Some((namespace.clone(), instance.into()))
    }
}

/// Keys with the names of a table's objects.
pub fn keys_of<D: PartialEq>(table: &Table<D>, of: TableId) -> impl Iterator<Item = Key> {
    table
        .iter()
        .map(move |((namespace, name), _)| of.key(namespace, name))
}

/// Prefix of the label value that names a project.
const CLUSTER_PREFIX: &str = "cluster-";
/// Namespace in references to a cluster-scoped location.
const DEFAULT_NAMESPACE: &str = "default";
/// Prefix of the names of `ConfigMaps` with release records.
pub const RELEASES_PREFIX: &str = "fedgate-releases-";
