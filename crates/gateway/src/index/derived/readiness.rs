//! Start-up phases: the decisions that are allowed while initial lists are incomplete. Absence means nothing before the
//! list that would show the object is complete.
//!
//! There are two phases. Once the lists that a spec needs on its way to the hub are complete, the federator *syncs
//! specs*: it announces, creates, updates and moves copies, and does nothing else. All other decisions wait until
//! everything is *ready*. The lists of the second phase are many times as long, so the first phase gets a head start.

use crate::index::{GatewayIndex, Project, TableId, rows::Source, tables::AnyTable};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::{
    key::{Key, Plane},
    store::table::{Row, Table},
};
use fedgate_kinds::KindId;

impl TableId {
    /// True if the federator reads this table to sync a spec, on the hub or in the project.
    pub fn is_first_phase(self) -> bool {
        matches!(
            self,
            Self::Namespaces
                | Self::Clusters
                | Self::CitySets
                | Self::CityPolicies
                | Self::Companions(_)
                | Self::Pins
                | Self::Federated(_)
        )
    }

    /// True if a project is worked with before the list of this table is complete: only the checks of Workloads read it, or
    /// the projections of the platform's objects.
    pub fn is_for_checks(self) -> bool {
        matches!(
            self,
            Self::Locations(_) | Self::Availabilities | Self::Networks | Self::Platform(_)
        )
    }

    /// True if all controllers wait for the list of this table. Only cities that come into use need Clusters, and another API
    /// server of Karmada serves them: while that server is down, everything else continues.
    pub(super) fn is_awaited(self) -> bool {
        let is_awaited_by_some = matches!(self, Self::Clusters | Self::Interpreters | Self::Returned);
        !is_awaited_by_some && !self.is_for_checks()
    }
}

impl Project {
    /// True if the lists of the first phase are complete.
    pub(crate) fn first_lists_complete(&self) -> bool {
        self.namespaces.synced() && self.sources.iter().all(Table::synced)
    }
}

impl GatewayIndex {
    /// True if the hub's lists of the first phase are complete: Namespaces with their owners, the policies that deliver
    /// them, companions, copies and pins.
    pub fn hub_specs_synced(&self) -> bool {
        self.hub_lists_are(|table| table.synced(), TableId::is_first_phase)
    }

    /// True if the hub's lists of both phases are complete.
    pub fn hub_ready(&self) -> bool {
        self.hub_lists_are(|table| table.synced(), |_| true)
    }

    /// True if all lists of the hub that all controllers wait for, and that count, are so.
    pub(super) fn hub_lists_are(&self, are: fn(&dyn AnyTable) -> bool, count: fn(TableId) -> bool) -> bool {
        let mut tables = self.on_hub().filter(|table| table.is_awaited() && count(*table));
        tables.all(|table| self.hub.table(table).is_some_and(are))
    }

    /// True if all lists of a project that all controllers wait for are so.
    pub(super) fn project_lists_are(&self, key: &ProjectKey, are: fn(&dyn AnyTable) -> bool) -> bool {
        self.projects.get(key).is_some_and(|project| {
            let mut tables = self.in_project().filter(|table| table.is_awaited());
            tables.all(|table| project.table(table).is_some_and(are))
        })
    }

    /// True if the project's lists of the first phase are complete, its UID is known, its plane is no other one that the
    /// gateway has, and no other hub has the project. Referenced data has its own lists, for which only the deployments that
    /// reference data wait.
    pub fn project_specs_synced(&self, key: &ProjectKey) -> bool {
        let project = self.projects.get(key);
        project.is_some_and(|p| p.uid.is_some() && p.known_plane.is_none() && p.first_lists_complete())
            && !self.is_of_other_hub(key)
    }

    /// True if every list that all controllers need of the project is complete, its UID is known, and no other hub has it.
    pub fn project_ready(&self, key: &ProjectKey) -> bool {
        self.project_specs_synced(key) && self.project_lists_are(key, |table| table.synced())
    }

    /// True if specs of a project may be synced to the hub.
    pub fn specs_synced(&self, key: &ProjectKey) -> bool {
        self.hub_specs_synced() && self.project_specs_synced(key) && self.is_compared(key)
    }

    /// True if all decisions that concern a project are allowed.
    pub fn is_complete(&self, key: &ProjectKey) -> bool {
        self.hub_ready() && self.project_ready(key) && self.is_compared(key)
    }

    /// True if a plane's lists of the first phase are complete, so that its longer lists may start.
    pub fn first_phase_synced(&self, plane: &Plane) -> bool {
        match plane {
            Plane::Hub => self.hub_specs_synced(),
            Plane::Project(key) => self.projects.get(key).is_some_and(Project::first_lists_complete),
            Plane::Cell | Plane::Home => false,
        }
    }

    /// True if the key is that of a deployment whose spec may be synced.
    pub fn may_sync_spec(&self, key: &Key) -> bool {
        match &key.plane {
            Plane::Hub | Plane::Cell | Plane::Home => false,
            Plane::Project(project) => {
                matches!(self.table_of_kind(&key.kind), Some(TableId::Federated(_)))
                    && self.specs_synced(project)
            }
        }
    }

    /// Keys of the deployments whose specs may be synced and whose copies are missing or outdated: of one project, or
    /// for the hub of all projects, because they waited for the hub's lists.
    pub fn unsynced_spec_keys(&self, plane: &Plane) -> Vec<Key> {
        let mut keys = Vec::new();
        if self.hub_specs_synced() {
            match plane {
                Plane::Hub => self
                    .projects
                    .keys()
                    .for_each(|key| self.uncarried_of(key, &mut keys)),
                Plane::Project(key) => self.uncarried_of(key, &mut keys),
                Plane::Cell | Plane::Home => {}
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
            for (i, table) in project.sources.enumerate() {
                let sources = table.in_namespace(namespace);
                let differing = sources.filter(|(name, source)| {
                    self.is_uncarried(i, hub.as_str(), name, source, project.suspended)
                });
                keys.extend(differing.map(|(name, _)| self.source_key(i, key, namespace, name)));
            }
        }
    }

    fn is_uncarried(
        &self,
        kind: KindId,
        hub: &str,
        name: &str,
        source: &Row<Source>,
        is_suspended: bool,
    ) -> bool {
        let mut of = source.digest.clone();
        if is_suspended {
            of.suspend(&self.kinds[kind]);
        }
        !source.deleting
            && self.hub.copies[kind].get(hub, name).is_none_or(|copy| {
                copy.digest.content != of.content || copy.digest.source_generation != Some(of.generation)
            })
    }
}
