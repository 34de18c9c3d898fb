//! Which kind is in which role. Every event and every turn asks, so that nothing is put together anew for it.

use super::{TableId, resources::Resources};
use fedgate_engine::key::Kind;
use fedgate_engine::random::HashMap;
use fedgate_kinds::FederatedKind;
use kube::core::ApiResource;

/// The roles that every hub has, whatever is federated.
pub(super) const HUB: [TableId; 8] = [
    TableId::Namespaces,
    TableId::Clusters,
    TableId::CitySets,
    TableId::CityPolicies,
    TableId::Bindings,
    TableId::Interpreters,
    TableId::ConfigMaps,
    TableId::Secrets,
];
/// Those that only projects have.
const PROJECT: [TableId; 3] = [TableId::Workloads, TableId::Locations, TableId::Networks];

/// See the module.
#[derive(Debug)]
pub(super) struct TableMap {
    kinds: HashMap<TableId, Kind>,
    roles: HashMap<Kind, TableId>,
}

impl TableMap {
    pub(super) fn new(resources: &Resources, kinds: &[FederatedKind]) -> Self {
        let mut all = Self {
            kinds: HashMap::default(),
            roles: HashMap::default(),
        };
        for role in HUB.into_iter().chain(PROJECT).chain(federated(kinds)) {
            let kind = Kind::of(resource(resources, kinds, role));
            all.kinds.insert(role, kind.clone());
            // Of two kinds that are written back as one the first counts.
            all.roles.entry(kind).or_insert(role);
        }
        all
    }

    pub(super) fn of(&self, kind: &Kind) -> Option<TableId> {
        self.roles.get(kind).copied()
    }

    /// The kind in a role that these federated kinds have.
    pub(super) fn kind(&self, role: TableId) -> Kind {
        self.kinds[&role].clone()
    }
}

/// The roles that federated kinds bring.
pub(super) fn federated(kinds: &[FederatedKind]) -> impl Iterator<Item = TableId> {
    kinds.iter().enumerate().flat_map(|(i, kind)| {
        std::iter::once(TableId::Federated(i))
            .chain(kind.write_back.is_some().then_some(TableId::WrittenBack(i)))
    })
}

/// The resource behind a role.
pub(super) fn resource<'a>(r: &'a Resources, kinds: &'a [FederatedKind], role: TableId) -> &'a ApiResource {
    match role {
        TableId::Namespaces => &r.namespaces,
        TableId::Clusters => &r.clusters,
        TableId::CitySets => &r.city_sets,
        TableId::CityPolicies => &r.city_policies,
        TableId::Bindings => &r.bindings,
        TableId::Interpreters => &r.interpreters,
        TableId::ConfigMaps => &r.config_maps,
        TableId::Secrets => &r.secrets,
        TableId::Workloads => &r.workloads,
        TableId::Locations => &r.locations,
        TableId::Networks => &r.networks,
        TableId::Federated(i) => &kinds[i].resource,
        TableId::WrittenBack(i) => kinds[i]
            .write_back
            .as_ref()
            .map_or(&kinds[i].resource, |w| &w.resource),
    }
}
