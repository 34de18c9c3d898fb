//! Which kind is in which role. Every event and every turn asks, so that nothing is put together anew for it.

use super::{Role, resources::Resources};
use crate::engine::chance::HashMap;
use crate::{engine::key::Kind, kinds::FederatedKind};
use kube::core::ApiResource;

/// The roles that every hub has, whatever is federated.
pub(super) const HUB: [Role; 8] = [
    Role::Namespaces,
    Role::Clusters,
    Role::CitySets,
    Role::CityPolicies,
    Role::Bindings,
    Role::Interpreters,
    Role::ConfigMaps,
    Role::Secrets,
];
/// Those that only projects have.
const PROJECT: [Role; 3] = [Role::Workloads, Role::Locations, Role::Networks];

/// See the module.
#[derive(Debug)]
pub(super) struct Roles {
    kinds: HashMap<Role, Kind>,
    roles: HashMap<Kind, Role>,
}

impl Roles {
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

    pub(super) fn of(&self, kind: &Kind) -> Option<Role> {
        self.roles.get(kind).copied()
    }

    /// The kind in a role that these federated kinds have.
    pub(super) fn kind(&self, role: Role) -> Kind {
        self.kinds[&role].clone()
    }
}

/// The roles that federated kinds bring.
pub(super) fn federated(kinds: &[FederatedKind]) -> impl Iterator<Item = Role> {
    kinds.iter().enumerate().flat_map(|(i, kind)| {
        std::iter::once(Role::Federated(i)).chain(kind.write_back.is_some().then_some(Role::WrittenBack(i)))
    })
}

/// The resource behind a role.
pub(super) fn resource<'a>(r: &'a Resources, kinds: &'a [FederatedKind], role: Role) -> &'a ApiResource {
    match role {
        Role::Namespaces => &r.namespaces,
        Role::Clusters => &r.clusters,
        Role::CitySets => &r.city_sets,
        Role::CityPolicies => &r.city_policies,
        Role::Bindings => &r.bindings,
        Role::Interpreters => &r.interpreters,
        Role::ConfigMaps => &r.config_maps,
        Role::Secrets => &r.secrets,
        Role::Workloads => &r.workloads,
        Role::Locations => &r.locations,
        Role::Networks => &r.networks,
        Role::Federated(i) => &kinds[i].resource,
        Role::WrittenBack(i) => kinds[i]
            .write_back
            .as_ref()
            .map_or(&kinds[i].resource, |w| &w.resource),
    }
}
