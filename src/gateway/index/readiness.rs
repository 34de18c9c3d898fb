//! What may be decided while first lists are still being read: absence means nothing before the list that would show it
//! is complete.
//!
//! There are two steps. Once the lists that a spec needs on its way to the hub are complete the federator *carries*: it
//! announces, makes, updates and moves copies, and does nothing else. All other decisions wait until everything is
//! *ready*. The lists that carrying does not need are many times as long, so that those that it does have a head start.

use super::{GatewayIndex, Project, TableId};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::{
    key::{Key, Plane},
    plane::table::{Row, Table},
};

impl TableId {
    /// Whether carrying a spec to the hub looks at it, there or in the project.
    pub fn is_first_phase(self) -> bool {
        match self {
            Self::Namespaces
            | Self::Clusters
            | Self::CitySets
            | Self::CityPolicies
            | Self::ConfigMaps
            | Self::Secrets
            | Self::Federated(_) => true,
            Self::Bindings
            | Self::Interpreters
            | Self::Workloads
            | Self::Locations
            | Self::Networks
            | Self::WrittenBack(_) => false,
        }
    }
}

impl Project {
    fn first_lists_complete(&self) -> bool {
        self.namespaces.synced() && self.sources.iter().all(Table::synced)
    }
}

impl GatewayIndex {
    /// Whether the hub's lists that carrying needs are complete: whose its namespaces are, what they are delivered by, the
    /// companions and the copies. Which cells there are matters to cities that come into use alone, and another server of
    /// Karmada's says it: while it is away all else goes on.
    pub fn hub_specs_synced(&self) -> bool {
        let hub = &self.hub;
        hub.namespaces.synced()
            && hub.city_sets.synced()
            && hub.city_policies.synced()
            && hub.config_maps.synced()
            && hub.secrets.synced()
            && hub.copies.iter().all(Table::synced)
    }

    /// Whether every list of the hub is complete.
    pub fn hub_ready(&self) -> bool {
        let hub = &self.hub;
        self.hub_specs_synced() && hub.bindings.synced() && self.all_written_back(&hub.write_backs)
    }

    /// Whether the tables of those kinds that are written back are complete.
    fn all_written_back<D: PartialEq>(&self, tables: &[Table<D>]) -> bool {
        let mut tables = tables.iter().zip(self.kinds.iter());
        tables.all(|(table, kind)| kind.write_back.is_none() || table.synced())
    }

    /// Whether the project's lists that carrying needs are complete and its UID is known. Data that is referenced has
    /// lists of its own, for which only those wait that reference it.
    pub fn project_specs_synced(&self, key: &ProjectKey) -> bool {
        let project = self.projects.get(key);
        project.is_some_and(|p| p.uid.is_some() && p.first_lists_complete())
    }

    /// Whether every list that all controllers need of the project is complete and its UID is known.
    pub fn project_ready(&self, key: &ProjectKey) -> bool {
        self.project_specs_synced(key)
            && self.projects.get(key).is_some_and(|p| {
                (self.workload_kind().is_none() || p.workloads.synced())
                    && self.all_written_back(&p.projections)
            })
    }

    /// Whether specs of a project may be carried to the hub.
    pub fn specs_synced(&self, key: &ProjectKey) -> bool {
        self.hub_specs_synced() && self.project_specs_synced(key)
    }

    /// Whether everything may be decided that concerns a project.
    pub fn is_complete(&self, key: &ProjectKey) -> bool {
        self.hub_ready() && self.project_ready(key)
    }

    /// Whether a plane has shown what carrying needs of it, so that longer lists may begin.
    pub fn first_phase_synced(&self, plane: &Plane) -> bool {
        match plane {
            Plane::Hub => self.hub_specs_synced(),
            Plane::Project(key) => self.projects.get(key).is_some_and(Project::first_lists_complete),
            Plane::Cell => false,
        }
    }

    /// Whether a key is a deployment's that may be carried.
    pub fn may_sync_spec(&self, key: &Key) -> bool {
        match &key.plane {
            Plane::Hub | Plane::Cell => false,
            Plane::Project(project) => {
                matches!(self.role_of(&key.kind), Some(TableId::Federated(_))) && self.specs_synced(project)
            }
        }
    }

    /// The keys of the deployments that may be carried and whose copies are not as they are: of a project's, or of all
    /// where the hub's lists have let them wait.
    pub fn unsynced_spec_keys(&self, plane: &Plane) -> Vec<Key> {
        let mut keys = Vec::new();
        if self.hub_specs_synced() {
            match plane {
                Plane::Hub => self
                    .projects
                    .keys()
                    .for_each(|key| self.uncarried_of(key, &mut keys)),
                Plane::Project(key) => self.uncarried_of(key, &mut keys),
                Plane::Cell => {}
            }
        }
        keys
    }

    fn uncarried_of(&self, key: &ProjectKey, keys: &mut Vec<Key>) {
        let project = self.projects.get(key).filter(|_| self.project_specs_synced(key));
        let Some(project) = project else { return };
        for ((_, namespace), row) in project.namespaces.iter() {
            let hub = HubNamespace::of(&row.uid);
            if !self.is_owned_by(hub.as_str(), key) {
                continue;
            }
            for (i, table) in project.sources.iter().enumerate() {
                let sources = table.in_namespace(namespace);
                let differing =
                    sources.filter(|(name, source)| self.is_uncarried(i, hub.as_str(), name, source));
                keys.extend(differing.map(|(name, _)| self.source_key(i, key, namespace, name)));
            }
        }
    }

    fn is_uncarried(&self, kind: usize, hub: &str, name: &str, source: &Row<super::digest::Source>) -> bool {
        let of = &source.digest;
        !source.deleting
            && self.hub.copies[kind].get(hub, name).is_none_or(|copy| {
                copy.digest.content != of.content || copy.digest.source_generation != Some(of.generation)
            })
    }
}
