//! The index: the state of the hub and of every project, as tables of digests.
//!
//! Watch events and answers to our own writes fill it ([`apply`]); the controllers' `observe` reads it. [`rows`] has what
//! is kept of each watched object, [`derived`] what follows from the rows alone, and [`intents`] what no row says, such as
//! writes that are about to be sent. A [`change::Change`] says what an event has changed.

pub mod apply;
mod apply_project;
pub mod catalog;
pub mod change;
pub mod derived;
#[cfg(any(test, feature = "testing"))]
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
pub mod single_member;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod watches;

use super::route::Route;
use derived::by_cell::Group;
use derived::known_plane::PlaneUids;
use derived::ownership::OwnershipClaim;
use derived::project_hub::HubIdentity;
use derived::secondary::{HubIndex, by_place::ByPlace};
use derived::summary::Summary;
use derived::teardown::Teardown;
use derived::touched::Touched;
use derived::undelivered::Undelivered;
use fedgate_api::names::{self, CityCode, HubNamespace, ProjectKey};
use fedgate_engine::random::HashMap;
use fedgate_engine::{
    clock::Clock,
    key::{Key, Kind, Plane},
    store::table::{Name, Row, Table},
};
use fedgate_kinds::{
    CompanionKind, CompanionKinds, FederatedKind, KindId, PerCompanionKind, PerKind, PlatformKind,
};
use intents::Intents;
use kube::core::ApiResource;
use locations::LocationKind;
use networking::WorkloadChecks;
pub use resources::{Resources, resource};
use rows::{
    Binding, Cell, CityPolicy, CitySet, Companion, HubCopy, HubNamespaceDigest, InterpreterDigest,
    PlatformObject, Returned, Source, Strings, WriteBackDigest,
};
use single_member::Pins;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use apply_project::NO_PROJECT_UID;
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

/// Tables that every hub has, independent of the federated kinds.
const HUB_TABLES: [TableId; 6] = [
    TableId::Namespaces,
    TableId::Clusters,
    TableId::CitySets,
    TableId::CityPolicies,
    TableId::Bindings,
    TableId::Interpreters,
];

/// State of the hub.
#[derive(Debug, Default)]
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
    /// Names of write-backs by their groups.
    pub by_deployment: BTreeMap<Group, BTreeSet<Arc<str>>>,
    /// Copies that Karmada keeps at former clusters by graceful eviction tasks.
    pub evictions: BTreeSet<ObjectRef>,
    /// Copies that an operator moves to another cell.
    pub requests: BTreeSet<ObjectRef>,
    /// UID of the hub, with the hubs that it replaces.
    pub identity: HubIdentity,
    /// The codes of city sets whose names do not contain them, from their policies.
    pub sets: HashMap<Arc<str>, BTreeSet<CityCode>>,
    /// The name under which the hub knows the gateway, once it was asked.
    pub user: Option<Arc<str>>,
    engagement: u64,
}

/// An object of a federated kind, or of its write-back kind, by the hub namespace to which it belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The federated kind.
    pub kind: KindId,
    /// The hub namespace.
    pub hub: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// The object of this name.
    pub fn new(kind: KindId, hub: &Arc<str>, name: &Arc<str>) -> Self {
        Self {
            kind,
            hub: hub.clone(),
            name: name.clone(),
        }
    }
}

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
    /// API resources of the tables.
    pub resources: Arc<Resources>,
    /// Checks of Workloads that read more of a project than its Workloads.
    pub checks: WorkloadChecks,
    /// Maximum size of a spec that is synced, in bytes.
    pub largest_spec: u32,
    /// The hub.
    pub hub: Hub,
    /// The planes of projects and cells by their UIDs.
    plane_uids: PlaneUids,
    engagements: u64,
    /// The engaged projects.
    pub projects: BTreeMap<ProjectKey, Project>,
    /// Namespaces of the projects by the places of their deployments.
    pub by_place: ByPlace,
    /// Owners of hub namespaces: live project namespaces.
    pub owners: HashMap<Arc<str>, NamespaceOwner>,
    /// Rejected claims on hub namespaces.
    pub claims: HashMap<Arc<str>, Vec<OwnershipClaim>>,
    /// State that no row says.
    pub intents: Intents,
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
        let companions = CompanionKinds::of(kinds.iter());
        let hub = Hub {
            companions: companions.map(|_| Table::default()),
            copies: kinds.map(|_| Table::with_bodies()),
            write_backs: kinds.map(|_| Table::with_bodies()),
            ..Hub::default()
        };
        Self {
            resources: Arc::new(Resources::new(&kinds, &companions, &PerKind::from(Vec::new()))),
            kinds,
            companions: Arc::new(companions),
            platform: Arc::new(PerKind::from(Vec::new())),
            checks,
            largest_spec: crate::settings::LARGEST_SPEC,
            hub,
            plane_uids: PlaneUids::default(),
            engagements: 0,
            projects: BTreeMap::new(),
            by_place: ByPlace::default(),
            owners: HashMap::default(),
            claims: HashMap::default(),
            intents: Intents::default(),
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

    /// Drops the records of hub namespaces that no longer have an owner, and the keys that wait for projects that are gone.
    pub fn prune_unowned(&mut self) {
        let projects = &self.projects;
        let waiting = &mut self.intents.unproven;
        waiting.retain(|plane, _| !matches!(plane, Plane::Project(key) if !projects.contains_key(key)));
        self.intents.retain_owned(&self.owners);
    }

    /// The tables that are watched on the hub.
    pub fn hub_tables(&self) -> Vec<TableId> {
        self.on_hub().collect()
    }

    /// As [`GatewayIndex::hub_tables`], one by one.
    fn on_hub(&self) -> impl Iterator<Item = TableId> {
        HUB_TABLES
            .into_iter()
            .chain(self.companions.ids().map(TableId::Companions))
            .chain(self.has_pins().then_some(TableId::Pins))
            .chain(self.has_returns().then_some(TableId::Returned))
            .chain(self.federated_tables())
            .chain(self.platform.ids().map(TableId::Platform))
    }

    /// The tables that are watched in a project from the start; `ConfigMaps` and Secrets follow once an object
    /// references them.
    pub fn project_tables(&self) -> Vec<TableId> {
        self.in_project().collect()
    }

    /// As [`GatewayIndex::project_tables`], one by one.
    fn in_project(&self) -> impl Iterator<Item = TableId> {
        let workloads = self.workload_kind().map(|_| TableId::Workloads);
        let checks = workloads.into_iter().flat_map(|_| self.checks.tables());
        std::iter::once(TableId::Namespaces)
            .chain(workloads)
            .chain(checks)
            .chain(self.federated_tables())
            .chain(self.has_returns().then_some(TableId::Returned))
    }

    /// Tables of the federated kinds and of their write-back kinds.
    fn federated_tables(&self) -> impl Iterator<Item = TableId> {
        let of_kinds = self.kinds.ids();
        let tables = of_kinds.flat_map(|kind| [TableId::Federated(kind), TableId::WrittenBack(kind)]);
        tables.filter(|table| self.resources.has(*table))
    }

    /// The kind that the workload controller writes, if it is federated here.
    pub fn workload_kind(&self) -> Option<KindId> {
        self.kinds
            .position(|k| k.resource.group == fedgate_api::GROUP && k.resource.kind == "WorkloadDeployment")
    }

    /// The resource of a table.
    pub fn resource(&self, table: TableId) -> &ApiResource {
        &self.resources[table]
    }

    /// The name of a table's resource in paths.
    pub fn plural(&self, table: TableId) -> &str {
        &self.resource(table).plural
    }

    /// The kind of the objects in a table.
    pub fn kind_of(&self, table: TableId) -> Kind {
        self.resources.kind(table).clone()
    }

    /// The table of a kind.
    pub fn table_of_kind(&self, kind: &Kind) -> Option<TableId> {
        self.resources.table_of(kind)
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
        names::cities_of_set(set).or_else(|| self.hub.sets.get(set).cloned())
    }

    /// The policy of a route in a hub namespace: the policy of our form that selects exactly this route.
    pub fn policy_of<'a>(
        &'a self,
        kind: KindId,
        hub_namespace: &'a str,
        route: &Route,
    ) -> Option<(&'a Arc<str>, &'a Row<CityPolicy>)> {
        let mut policies = self.hub.city_policies.in_namespace(hub_namespace);
        policies.find(|(_, row)| row.digest.selects_route(kind, route))
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

    /// The key of a source in the project namespace that owns its hub namespace.
    pub fn source_key_of(&self, ObjectRef { kind, hub, name }: &ObjectRef) -> Option<Key> {
        let owner = self.owners.get(hub)?;
        Some(self.source_key(*kind, &owner.project, &owner.namespace, name))
    }

    /// The key of a copy.
    pub fn copy_key(&self, ObjectRef { kind, hub, name }: &ObjectRef) -> Key {
        self.hub_key(TableId::Federated(*kind), hub, name)
    }

    /// The key of a write-back.
    pub fn write_back_key(&self, ObjectRef { kind, hub, name }: &ObjectRef) -> Key {
        self.hub_key(TableId::WrittenBack(*kind), hub, name)
    }

    /// The key of a hub Namespace.
    pub fn namespace_key(&self, hub: &str) -> Key {
        self.hub_key(TableId::Namespaces, "", hub)
    }

    /// The one key of the moves of all deployments from cell to cell.
    pub fn moves_key(&self) -> Key {
        self.hub_key(TableId::Clusters, "", "")
    }

    /// The key of the policies in a hub namespace.
    pub fn policies_key(&self, hub: &str) -> Key {
        self.hub_key(TableId::CityPolicies, hub, "")
    }

    /// A key on the hub.
    pub fn hub_key(&self, table: TableId, namespace: &str, name: &str) -> Key {
        Key::new(Plane::Hub, self.kind_of(table), namespace, name)
    }
}
