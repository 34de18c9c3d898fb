//! Maps tables to kinds and back. Every event and every reconcile needs the mapping, so it is built only once.

use super::{TableId, locations::LocationKind, resources::Resources};
use fedgate_engine::key::Kind;
use fedgate_engine::random::HashMap;
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, PerKind, PlatformKind};
use kube::core::ApiResource;

/// Tables that every hub has, independent of the federated kinds.
pub(super) const HUB: [TableId; 6] = [
    TableId::Namespaces,
    TableId::Clusters,
    TableId::CitySets,
    TableId::CityPolicies,
    TableId::Bindings,
    TableId::Interpreters,
];
/// Tables that only projects have.
const PROJECT: [TableId; 3] = [TableId::Workloads, TableId::Availabilities, TableId::Networks];

/// Mapping between tables and kinds; see the module.
#[derive(Debug)]
pub(super) struct TableMap {
    kinds: HashMap<TableId, Kind>,
    tables: HashMap<Kind, TableId>,
}

impl TableMap {
    pub(super) fn new(
        resources: &Resources,
        kinds: &PerKind<FederatedKind>,
        companions: &CompanionKinds,
        platform: &PerKind<PlatformKind>,
    ) -> Self {
        let mut all = Self {
            kinds: HashMap::default(),
            tables: HashMap::default(),
        };
        let locations = LocationKind::ALL.map(TableId::Locations);
        let of_projects = PROJECT.into_iter().chain(locations);
        let hub = HUB.into_iter().chain(companions.ids().map(TableId::Companions));
        let hub = hub.chain([TableId::Pins, TableId::Returned]);
        let of_kinds = federated(kinds).chain(platform.ids().map(TableId::Platform));
        for table in hub.chain(of_projects).chain(of_kinds) {
            let kind = Kind::of(resource(resources, kinds, companions, platform, table));
            all.kinds.insert(table, kind.clone());
            // If two federated kinds share a write-back kind, the first table counts; so do the companions before pins and returns.
            all.tables.entry(kind).or_insert(table);
        }
        all
    }

    pub(super) fn of(&self, kind: &Kind) -> Option<TableId> {
        self.tables.get(kind).copied()
    }

    /// The kind of a table that these federated kinds have.
    pub(super) fn kind(&self, table: TableId) -> Kind {
        self.kinds[&table].clone()
    }
}

/// Tables of the federated kinds and of their write-back kinds.
pub(super) fn federated(kinds: &PerKind<FederatedKind>) -> impl Iterator<Item = TableId> {
    kinds.enumerate().flat_map(|(i, kind)| {
        std::iter::once(TableId::Federated(i))
            .chain(kind.write_back.is_some().then_some(TableId::WrittenBack(i)))
    })
}

/// The API resource of a table.
pub(super) fn resource<'a>(
    r: &'a Resources,
    kinds: &'a PerKind<FederatedKind>,
    companions: &'a CompanionKinds,
    platform: &'a PerKind<PlatformKind>,
    table: TableId,
) -> &'a ApiResource {
    match table {
        TableId::Namespaces => &r.namespaces,
        TableId::Clusters => &r.clusters,
        TableId::CitySets => &r.city_sets,
        TableId::CityPolicies => &r.city_policies,
        TableId::Bindings => &r.bindings,
        TableId::Interpreters => &r.interpreters,
        TableId::Companions(kind) => &companions[kind],
        TableId::Pins => &r.config_maps,
        TableId::Returned => &companions[CompanionKind::SECRET],
        TableId::Workloads => &r.workloads,
        TableId::Locations(kind) => r.location(kind),
        TableId::Availabilities => &r.availabilities,
        TableId::Networks => &r.networks,
        TableId::Federated(i) => &kinds[i].resource,
        TableId::WrittenBack(i) => kinds[i]
            .write_back
            .as_ref()
            .map_or(&kinds[i].resource, |w| &w.resource),
        TableId::Platform(i) => &platform[i].resource,
    }
}
