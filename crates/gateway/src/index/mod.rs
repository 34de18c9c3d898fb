//! The index: the state of the hub and of every project, as tables of digests.
//!
//! Watch events and answers to our own writes fill it ([`apply`]); the controllers' `observe` reads it.

pub mod apply;
mod apply_project;
pub mod catalog;
pub mod change;
pub mod derived;
#[cfg(test)]
pub mod fixture;
pub mod intents;
mod keys;
pub mod locations;
pub mod networking;
pub mod platform;
mod project;
mod resources;
pub mod returned;
mod rewind;
pub mod rows;
mod tables;
#[cfg(test)]
mod tests;
pub mod watches;

use super::route::Route;
use catalog::Catalog;
use derived::by_cell::WriteBacksByCell;
use derived::known_plane::PlaneUids;
use derived::ownership::OwnershipClaim;
use derived::project_hub::HubIdentity;
use derived::secondary::HubIndex;
use derived::summary::Summary;
use derived::teardown::Teardown;
use derived::touched::Touched;
use derived::undelivered::Undelivered;
use fedgate_api::names::{self, CityCode, HubNamespace, ProjectKey};
use fedgate_engine::random::{HashMap, HashSet};
use fedgate_engine::{
    clock::Clock,
    key::{Key, Kind, Plane},
    store::table::{Name, Row, Table},
};
use fedgate_kinds::{
    CompanionKind, CompanionKinds, FederatedKind, KindId, PerCompanionKind, PerKind, PlatformKind,
};
use intents::arriving::Arriving;
use intents::delivery::Deliveries;
use intents::lanes::Lanes;
use kube::core::ApiResource;
use locations::LocationKind;
use networking::WorkloadChecks;
pub use resources::{Resources, resource};
use rows::{
    Binding, Cell, CityPolicy, CitySet, Companion, HubCopy, HubNamespaceDigest, InterpreterDigest, Pins,
    PlatformObject, Returned, Source, Strings, WriteBackDigest,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tables::TableMap;
use tokio::time::Instant;

pub use apply_project::NO_PROJECT_UID;
pub use derived::kept::Kept;
pub use derived::project_hub::OTHER_HUB;
pub use project::Project;

/// The table of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableId {
    /// Namespaces of the plane.
    Namespaces,
    /// Karmada's Clusters on the hub: the cells.
    Clusters,
    /// Cluster policies on the hub.
    CitySets,
    /// Policies on the hub.
    CityPolicies,
    /// Bindings on the hub.
    Bindings,
    /// Interpreters on the hub.
    Interpreters,
    /// Objects of a kind of companions: companions on the hub, their sources in a project.
    Companions(CompanionKind),
    /// `ConfigMaps` on the hub that record the members of objects.
    Pins,
    /// Secrets that have come back from members: on the hub, and in a project.
    Returned,
    /// Workloads of a project.
    Workloads,
    /// Objects of a project that tell its locations.
    Locations(LocationKind),
    /// `ServiceAvailabilities` of a project.
    Availabilities,
    /// Networks of a project.
    Networks,
    /// Objects of a federated kind: copies on the hub, sources in a project.
    Federated(KindId),
    /// Objects of a kind's write-back kind: write-backs on the hub, projections in a project.
    WrittenBack(KindId),
    /// Objects of a kind of the platform: the hub's, and what is made of them in a project.
    Platform(KindId),
}

/// State of the hub.
#[derive(Debug)]
pub struct Hub {
    /// Namespaces.
    pub namespaces: Table<HubNamespaceDigest>,
    /// Clusters.
    pub clusters: Table<Cell>,
    /// `cities-*` policies.
    pub city_sets: Table<CitySet>,
    /// City policies.
    pub city_policies: Table<CityPolicy>,
    /// Bindings.
    pub bindings: Table<Binding>,
    /// Interpreters.
    pub interpreters: Table<InterpreterDigest>,
    /// Companions, a table per kind.
    pub companions: PerCompanionKind<Table<Companion>>,
    /// Members of objects that live at one.
    pub pins: Table<Pins>,
    /// Secrets that have come back from members.
    pub returned: Table<Returned>,
    /// Copies, a table per kind.
    pub copies: PerKind<Table<HubCopy>>,
    /// Write-backs, a table per kind.
    pub write_backs: PerKind<Table<WriteBackDigest>>,
    /// The platform's objects, a table per kind of the platform.
    pub platform: PerKind<Table<PlatformObject>>,
    /// Secondary indexes over the rows.
    pub secondary: HubIndex,
    /// Bindings without their template.
    pub outlived: BTreeSet<Name>,
    /// Write-backs (kind, hub namespace, name) whose deletion was observed, as long as their projections exist.
    pub ended: HashSet<Deployment>,
    /// UIDs of deployments whose deletion was observed while their copies existed, by copy.
    pub departed: HashMap<Deployment, Arc<str>>,
    /// Deployments whose write-backs disappeared among many at once; their projections stay for a while.
    pub withheld: HashMap<Deployment, derived::withheld::Withheld>,
    /// Deployments whose copies began to be reported on while their cells had more Instances than they had written back.
    pub unreported: HashSet<Deployment>,
    /// Names of write-backs by (kind, hub namespace, deployment).
    pub by_deployment: HashMap<Deployment, WriteBacksByCell>,
}

/// A deployment on the hub: kind, hub namespace, name.
pub type Deployment = (KindId, Arc<str>, Arc<str>);

/// The project namespace that owns a hub namespace (contract: federation.md §1.2 rule 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceOwner {
    /// The project.
    pub project: ProjectKey,
    /// The namespace in it.
    pub namespace: Arc<str>,
}

/// The gateway's index.
#[derive(Debug)]
pub struct GatewayIndex {
    /// The federated kinds; tables are in their order.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// The kinds of companions.
    pub companions: Arc<CompanionKinds>,
    /// The kinds of the platform; their tables are in their order.
    pub platform: Arc<PerKind<PlatformKind>>,
    tables: TableMap,
    /// Resources of foreign kinds.
    pub resources: Arc<Resources>,
    /// Checks of Workloads that read more of a project than its Workloads.
    pub checks: WorkloadChecks,
    /// Maximum size of a spec that is synced, in bytes.
    pub largest_spec: u32,
    /// Instance types and images that Workloads may name.
    pub catalog: Catalog,
    /// True if interfaces of Workloads may name Networks of other namespaces.
    pub foreign_networks: bool,
    /// The hub.
    pub hub: Hub,
    /// Which hub it is.
    pub identity: HubIdentity,
    /// The planes of projects and cells by their UIDs.
    plane_uids: PlaneUids,
    /// The name under which the hub knows the gateway, once it was asked.
    pub hub_user: Option<Arc<str>>,
    hub_engagement: u64,
    engagements: u64,
    /// The engaged projects.
    pub projects: BTreeMap<ProjectKey, Project>,
    /// Owners of hub namespaces: live project namespaces.
    pub owners: HashMap<Arc<str>, NamespaceOwner>,
    /// Rejected claims on hub namespaces.
    pub claims: HashMap<Arc<str>, Vec<OwnershipClaim>>,
    /// The codes of city sets whose names do not contain them, from their policies.
    pub sets: HashMap<Arc<str>, BTreeSet<CityCode>>,
    /// The city set of each hub Namespace as this replica last left it: another set on its label is a manual edit.
    pub deliveries: Deliveries,
    /// Time at which the last object of a city left a hub namespace (or was found gone), for the linger, by hub
    /// namespace.
    pub lingering: HashMap<Arc<str>, BTreeMap<CityCode, Instant>>,
    /// Routes of a hub namespace whose policy or delivery is being removed right now, that of a city for the delivery of
    /// the Namespace: nothing may rely on them.
    pub withdrawing: HashSet<(Arc<str>, Route)>,
    /// Policies that objects which live at one member are about to be given to.
    pub lanes: Lanes,
    /// Copies in flight to the hub.
    pub arriving: Arriving,
    /// Policies of city sets that are being deleted right now: no Namespace may begin to rely on them.
    pub ending_sets: HashSet<Arc<str>>,
    /// Companions whose name on the hub belongs to an object that is not ours: kind, hub namespace, name.
    pub name_taken: HashSet<(CompanionKind, Arc<str>, Arc<str>)>,
    /// Hub namespaces whose project uses the maximum number of city sets, by the label value of the project.
    pub limited: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Sets that are being sent to hub namespaces right now, by hub namespace, with the label value of the project.
    pub moving: HashMap<Arc<str>, (Arc<str>, Arc<str>)>,
    /// The hub's message when it rejected a Namespace, the policies of one, or a companion, by the key of the
    /// record.
    pub refused: HashMap<Key, String>,
    /// Projects with announced deployments that name no hub.
    pub unnamed: BTreeSet<ProjectKey>,
    /// Keys that wait until absence counts again on a plane whose watches fail.
    unproven: HashMap<Plane, HashSet<Key>>,
    /// Deleted Projects of the platform.
    pub teardown: Teardown,
    /// Sums over the rows.
    pub summary: Summary,
    /// Objects that are not yet where they are to go.
    pub undelivered: Undelivered,
    /// Names for the streams of the operations API.
    pub touched: Touched,
    /// Clock of the times since when objects wait.
    pub clock: Clock,
    /// Shared strings.
    pub words: Strings,
}

impl GatewayIndex {
    /// An empty index over these kinds, for these checks.
    pub fn new(kinds: Arc<PerKind<FederatedKind>>, checks: WorkloadChecks) -> Self {
        let companions = CompanionKinds::of(&*kinds);
        let hub = Hub {
            namespaces: Table::default(),
            clusters: Table::default(),
            city_sets: Table::default(),
            city_policies: Table::default(),
            bindings: Table::default(),
            interpreters: Table::default(),
            companions: companions.map(|_| Table::default()),
            pins: Table::default(),
            returned: Table::default(),
            copies: kinds.map(|_| Table::with_bodies()),
            write_backs: kinds.map(|_| Table::with_bodies()),
            platform: PerKind::default(),
            secondary: HubIndex::default(),
            outlived: BTreeSet::new(),
            ended: HashSet::default(),
            departed: HashMap::default(),
            withheld: HashMap::default(),
            unreported: HashSet::default(),
            by_deployment: HashMap::default(),
        };
        let resources = Arc::default();
        Self {
            tables: TableMap::new(&resources, &kinds, &companions, &PerKind::from(Vec::new())),
            kinds,
            companions: Arc::new(companions),
            platform: Arc::new(PerKind::from(Vec::new())),
            resources,
            checks,
            largest_spec: crate::settings::LARGEST_SPEC,
            catalog: Catalog::default(),
            foreign_networks: false,
            hub,
            identity: HubIdentity::default(),
            plane_uids: PlaneUids::default(),
            hub_user: None,
            hub_engagement: 0,
            engagements: 0,
            projects: BTreeMap::new(),
            owners: HashMap::default(),
            claims: HashMap::default(),
            sets: HashMap::default(),
            deliveries: Deliveries::default(),
            lingering: HashMap::default(),
            withdrawing: HashSet::default(),
            lanes: Lanes::default(),
            arriving: Arriving::default(),
            ending_sets: HashSet::default(),
            name_taken: HashSet::default(),
            limited: BTreeSet::new(),
            moving: HashMap::default(),
            refused: HashMap::default(),
            unnamed: BTreeSet::new(),
            unproven: HashMap::default(),
            teardown: Teardown::default(),
            summary: Summary::default(),
            undelivered: Undelivered::default(),
            touched: Touched::default(),
            clock: Clock::system(),
            words: Strings::default(),
        }
    }

    /// True if this is still the engagement of a project. A late event of an earlier engagement may come from
    /// another server.
    pub fn is_engaged(&self, key: &ProjectKey, engagement: u64) -> bool {
        self.projects.get(key).is_some_and(|p| p.engagement == engagement)
    }

    /// Drops the records of hub namespaces that no longer have an owner: a project that returns begins with none.
    pub fn prune_unowned(&mut self) {
        let (owners, projects) = (&self.owners, &self.projects);
        self.unproven
            .retain(|plane, _| !matches!(plane, Plane::Project(key) if !projects.contains_key(key)));
        self.hub.ended.retain(|(_, hub, _)| owners.contains_key(hub));
        self.lingering.retain(|hub, _| owners.contains_key(hub));
        self.withdrawing.retain(|(hub, _)| owners.contains_key(hub));
        self.name_taken.retain(|(_, hub, _)| owners.contains_key(hub));
        self.limited.retain(|(label, hub)| {
            let owner = owners.get(hub);
            owner.is_some_and(|owner| *owner.project.label() == **label)
        });
        self.deliveries.retain(|hub| owners.contains_key(hub));
        self.lanes.retain(|hub| owners.contains_key(hub));
        self.arriving.retain(|hub| owners.contains_key(hub));
        self.refused
            .retain(|key, _| owners.contains_key(&key.namespace) || owners.contains_key(&key.name));
    }

    /// The tables that are watched on the hub.
    pub fn hub_tables(&self) -> Vec<TableId> {
        tables::HUB
            .into_iter()
            .chain(self.companions.ids().map(TableId::Companions))
            .chain(self.has_pins().then_some(TableId::Pins))
            .chain(self.has_returns().then_some(TableId::Returned))
            .chain(tables::federated(&self.kinds))
            .chain(self.platform.ids().map(TableId::Platform))
            .collect()
    }

    /// The tables that are watched in a project from the start; `ConfigMaps` and Secrets follow once an object
    /// references them.
    pub fn project_tables(&self) -> Vec<TableId> {
        let mut tables = vec![TableId::Namespaces];
        if self.workload_kind().is_some() {
            tables.push(TableId::Workloads);
            tables.extend(self.checks.tables());
        }
        tables.extend(tables::federated(&self.kinds));
        tables.extend(self.has_returns().then_some(TableId::Returned));
        tables
    }

    /// The kind that the workload controller writes, if it is federated here.
    pub fn workload_kind(&self) -> Option<KindId> {
        self.kinds.position(|k| {
            k.resource.group == self.resources.workloads.group && k.resource.kind == "WorkloadDeployment"
        })
    }

    fn resource_of(&self, table: TableId) -> &ApiResource {
        tables::resource(
            &self.resources,
            &self.kinds,
            &self.companions,
            &self.platform,
            table,
        )
    }

    /// The resource of a table.
    pub fn resource(&self, table: TableId) -> ApiResource {
        self.resource_of(table).clone()
    }

    /// The name of a table's resource in paths.
    pub fn plural(&self, table: TableId) -> &str {
        &self.resource_of(table).plural
    }

    /// The kind of the objects in a table.
    pub fn kind_of(&self, table: TableId) -> Kind {
        self.tables.kind(table)
    }

    /// The table of a kind.
    pub fn table_of_kind(&self, kind: &Kind) -> Option<TableId> {
        self.tables.of(kind)
    }

    /// The cluster label that all federated kinds share.
    pub fn cluster_label(&self) -> &str {
        self.kinds
            .first()
            .map_or(fedgate_api::keys::CITY_CODE, |k| &k.placement.label)
    }

    /// The hub namespace of a live project namespace.
    pub fn hub_namespace(&self, project: &ProjectKey, namespace: &str) -> Option<HubNamespace> {
        let row = self.projects.get(project)?.namespaces.get("", namespace)?;
        Some(HubNamespace::of(&row.uid))
    }

    /// True if a source has our finalizer.
    pub fn holds(source: &Row<Source>) -> bool {
        let mut finalizers = source.digest.finalizers.iter();
        finalizers.any(|f| &**f == fedgate_api::keys::FEDERATOR_FINALIZER)
    }

    /// The codes of a city set, even without its policy; `None` if they are unknown.
    pub fn cities_of_set(&self, set: &str) -> Option<BTreeSet<CityCode>> {
        names::cities_of_set(set).or_else(|| self.sets.get(set).cloned())
    }

    /// The policy of a route in a hub namespace: the policy of our form that selects exactly this route.
    pub fn policy_of<'a>(
        &'a self,
        kind: KindId,
        hub_namespace: &'a str,
        route: &Route,
    ) -> Option<(&'a Arc<str>, &'a Row<CityPolicy>)> {
        self.hub
            .city_policies
            .in_namespace(hub_namespace)
            .find(|(_, row)| {
                row.digest
                    .selects
                    .as_ref()
                    .is_some_and(|(k, r)| *k == kind && r == route)
            })
    }

    /// The key of a source.
    pub fn source_key(&self, kind: KindId, project: &ProjectKey, namespace: &str, name: &str) -> Key {
        Key::new(
            Plane::Project(project.clone()),
            self.kind_of(TableId::Federated(kind)),
            namespace,
            name,
        )
    }

    /// A key on the hub.
    pub fn hub_key(&self, table: TableId, namespace: &str, name: &str) -> Key {
        Key::new(Plane::Hub, self.kind_of(table), namespace, name)
    }
}
