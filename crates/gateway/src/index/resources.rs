//! The API resources of the tables, and the mapping from kinds to tables. Every event and every reconcile needs the mapping,
//! so it is built only once.

use super::{HUB_TABLES, TableId, locations::LocationKind};
use fedgate_engine::{key::Kind, random::HashMap};
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, PerKind, PlatformKind};
use kube::core::{ApiResource, GroupVersionKind};
use std::ops::Index;

/// Group of the network services.
const NETWORKING: &str = "networking.datumapis.com";

/// Tables that only projects have, beside those of locations.
const PROJECT_TABLES: [TableId; 3] = [TableId::Workloads, TableId::Availabilities, TableId::Networks];

/// The resource of a table that does not depend on the federated kinds.
fn fixed(table: TableId) -> Option<(TableId, ApiResource)> {
    let (group, version, kind) = match table {
        TableId::Namespaces => ("", "v1", "Namespace"),
        TableId::Clusters => ("cluster.karmada.io", "v1alpha1", "Cluster"),
        TableId::CitySets => ("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy"),
        TableId::CityPolicies => ("policy.karmada.io", "v1alpha1", "PropagationPolicy"),
        TableId::Bindings => ("work.karmada.io", "v1alpha2", "ResourceBinding"),
        TableId::Interpreters => {
            let kind = "ResourceInterpreterCustomization";
            ("config.karmada.io", "v1alpha1", kind)
        }
        TableId::Workloads => (fedgate_api::GROUP, "v1alpha", "Workload"),
        TableId::Locations(LocationKind::Location) => ("locations.miloapis.com", "v1alpha1", "Location"),
        TableId::Locations(LocationKind::Binding) => (NETWORKING, "v1alpha", "LocationBinding"),
        TableId::Locations(LocationKind::NetworkLocation) => (NETWORKING, "v1alpha", "Location"),
        TableId::Availabilities => ("services.miloapis.com", "v1alpha1", "ServiceAvailability"),
        TableId::Networks => (NETWORKING, "v1alpha", "Network"),
        TableId::Companions(_)
        | TableId::Pins
        | TableId::Returned
        | TableId::Federated(_)
        | TableId::WrittenBack(_)
        | TableId::Platform(_) => return None,
    };
    Some((table, resource(group, version, kind)))
}

/// An API resource; the core group is the empty string.
pub fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The API resources of the tables; see the module.
#[derive(Debug, Clone)]
pub struct Resources {
    resources: HashMap<TableId, (Kind, ApiResource)>,
    tables: HashMap<Kind, TableId>,
}

impl Default for Resources {
    /// The resources that do not depend on the federated kinds.
    fn default() -> Self {
        let kinds = PerKind::from(Vec::new());
        Self::new(&kinds, &CompanionKinds::default(), &PerKind::from(Vec::new()))
    }
}

impl Resources {
    pub(super) fn new(
        kinds: &PerKind<FederatedKind>,
        companions: &CompanionKinds,
        platform: &PerKind<PlatformKind>,
    ) -> Self {
        let of_projects = PROJECT_TABLES
            .into_iter()
            .chain(LocationKind::ALL.map(TableId::Locations));
        let fixed = HUB_TABLES.into_iter().chain(of_projects).filter_map(fixed);
        let data = companions
            .ids()
            .map(|kind| (TableId::Companions(kind), companions[kind].clone()));
        let special = [
            (TableId::Pins, companions[CompanionKind::CONFIG_MAP].clone()),
            (TableId::Returned, companions[CompanionKind::SECRET].clone()),
        ];
        let federated = kinds.enumerate().flat_map(|(i, kind)| {
            let written_back = kind.write_back.as_ref();
            let written_back = written_back.map(|rules| (TableId::WrittenBack(i), rules.resource.clone()));
            std::iter::once((TableId::Federated(i), kind.resource.clone())).chain(written_back)
        });
        let of_platform = platform.enumerate();
        let of_platform = of_platform.map(|(i, kind)| (TableId::Platform(i), kind.resource.clone()));
        let mut all = Self {
            resources: HashMap::default(),
            tables: HashMap::default(),
        };
        for (table, resource) in fixed
            .into_iter()
            .chain(data)
            .chain(special)
            .chain(federated)
            .chain(of_platform)
        {
            let kind = Kind::of(&resource);
            // If two federated kinds share a write-back kind, the first table counts; so do the companions before pins and returns.
            all.tables.entry(kind.clone()).or_insert(table);
            all.resources.insert(table, (kind, resource));
        }
        all
    }

    /// The table of a kind.
    pub(super) fn table_of(&self, kind: &Kind) -> Option<TableId> {
        self.tables.get(kind).copied()
    }

    /// The kind of the objects in a table.
    pub(super) fn kind(&self, table: TableId) -> &Kind {
        &self.resources[&table].0
    }

    /// True if the index has a table.
    pub(super) fn has(&self, table: TableId) -> bool {
        self.resources.contains_key(&table)
    }
}

impl Index<TableId> for Resources {
    type Output = ApiResource;

    fn index(&self, table: TableId) -> &ApiResource {
        &self.resources[&table].1
    }
}
