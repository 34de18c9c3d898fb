//! Objects of the cell by their project, and the projects that do not answer quota requests.

use super::{CellIndex, tables::TableId};
use crate::index::release_records;
use fedgate_api::names::ProjectKey;
use fedgate_engine::{key::Key, store::table::Table};
use std::collections::BTreeSet;

impl CellIndex {
    /// Keys of the deployments that belong to a project.
    pub fn deployments_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        self.of_project(&self.deployments, TableId::Deployments, project)
    }

    /// Keys of the Instances that belong to a project.
    pub fn instances_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        self.of_project(&self.instances, TableId::Instances, project)
    }

    /// Keys of the deployments and Instances that belong to a project.
    pub fn keys_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        let mut keys = self.instances_of_project(project);
        keys.extend(self.deployments_of_project(project));
        keys
    }

    fn of_project<D: PartialEq>(&self, table: &Table<D>, of: TableId, project: &ProjectKey) -> Vec<Key> {
        let namespaces = self.namespaces.iter().map(|((_, name), _)| name);
        let ours = namespaces.filter(|name| self.origin(name).is_some_and(|(of, _)| of == *project));
        let keys = ours.flat_map(|namespace| {
            let names = table.in_namespace(namespace).map(|(name, _)| name);
            names.map(move |name| of.key(namespace, name))
        });
        keys.collect()
    }

    /// True if a project's claims are watched and the project answers, so that a new claim may be granted.
    pub fn may_be_granted(&self, project: &ProjectKey) -> bool {
        let claims = self.claims.get(project);
        claims.is_some_and(|claims| claims.table.synced())
            && !self.unreachable.contains(project)
            && !self.quota_unavailable.contains_key(project)
    }

    /// Records that a project did not answer a quota request for this Instance. Returns the project's deployments if
    /// this is the first failed request.
    pub fn quota_failed(&mut self, project: &ProjectKey, key: Key) -> Vec<Key> {
        let waiting = self.quota_unavailable.entry(project.clone()).or_default();
        let news = waiting.is_empty();
        waiting.insert(key);
        if news {
            return self.deployments_of_project(project);
        }
        Vec::new()
    }

    /// Records that a project answers quota requests. Returns the project's deployments if it did not answer before.
    pub fn quota_answered(&mut self, project: &ProjectKey) -> Vec<Key> {
        if self.quota_unavailable.remove(project).is_none() {
            return Vec::new();
        }
        self.deployments_of_project(project)
    }

    /// Removes an Instance whose quota is no longer requested: no request of this Instance would report the project's
    /// recovery. Returns the deployments of projects without a failed request left.
    pub fn quota_unwanted(&mut self, key: &Key) -> Vec<Key> {
        let mut over = Vec::new();
        self.quota_unavailable.retain(|project, waiting| {
            if waiting.remove(key) && waiting.is_empty() {
                over.push(project.clone());
            }
            !waiting.is_empty()
        });
        over.iter()
            .flat_map(|project| self.deployments_of_project(project))
            .collect()
    }

    /// Keys of the release records that name a project.
    pub fn releases_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        let is_of = |text: &String| {
            let mut records = release_records::read(text).into_iter();
            records.any(|record| record.plane == project.as_str())
        };
        let named = self.releases.iter();
        let named = named.filter(|(_, row)| row.digest.values().any(is_of));
        named
            .map(|((namespace, name), _)| TableId::Releases.key(namespace, name))
            .collect()
    }

    /// Projects whose claims the cell needs: for deployments and Instances if `quota` is on, for leftover claims, and
    /// for recorded releases.
    pub fn needed_projects(&self, quota: bool) -> BTreeSet<ProjectKey> {
        let deployments = self.deployments.iter().map(|((namespace, _), _)| namespace);
        let instances = self.instances.iter().map(|((namespace, _), _)| namespace);
        let namespaces: BTreeSet<_> = deployments.chain(instances).filter(|_| quota).collect();
        let here = namespaces
            .into_iter()
            .filter_map(|namespace| self.origin(namespace));
        let mut needed: BTreeSet<ProjectKey> = here.map(|(project, _)| project).collect();
        let with_claims = self.claims.iter().filter(|(_, claims)| {
            let mut all = claims.table.iter();
            all.any(|(_, row)| row.digest.cell.as_deref() == Some(&*self.settings.cell))
        });
        needed.extend(with_claims.map(|(project, _)| project.clone()));
        let records = self.releases.iter().flat_map(|(_, row)| row.digest.values());
        let projects = records.flat_map(|text| release_records::read(text));
        needed.extend(projects.filter_map(|record| ProjectKey::parse(&record.plane).ok()));
        needed
    }
}
