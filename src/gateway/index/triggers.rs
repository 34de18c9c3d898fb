//! Triggers: the keys to enqueue for a change, of every object whose decision may depend on the change.

use super::{
    GatewayIndex, NamespaceOwner, TableId,
    apply::Change,
    digest::{Binding, Companion, HubCopy, Source, WriteBackDigest},
    secondary::entries,
};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::{
    key::{Key, Plane},
    store::{
        apply::RowChange,
        table::{Name, Row},
    },
};
use fedgate_kinds::CompanionKind;
use std::sync::Arc;

impl GatewayIndex {
    /// All keys of a project; they can be reconciled once its lists and the hub's lists are complete.
    pub fn project_keys(&self, key: &ProjectKey) -> Vec<Key> {
        let mut keys = Vec::new();
        let Some(project) = self.projects.get(key) else {
            return keys;
        };
        for ((namespace, name), _) in project.workloads.iter() {
            keys.push(self.workload_key(key, namespace, name));
        }
        for (i, table) in project.sources.iter().enumerate() {
            keys.extend(
                table
                    .iter()
                    .map(|((ns, name), _)| self.source_key(i, key, ns, name)),
            );
        }
        for ((_, name), row) in project.namespaces.iter() {
            let hub = HubNamespace::of(&row.uid);
            self.namespace_keys(hub.as_str(), &mut keys);
            self.referenced_keys(hub.as_str(), &mut keys);
            for (i, table) in project.projections.iter().enumerate() {
                keys.extend(
                    table
                        .in_namespace(name)
                        .map(|(instance, _)| self.hub_key(TableId::WrittenBack(i), hub.as_str(), instance)),
                );
            }
        }
        keys
    }

    /// Keys of the hub that need no project: interpreters, city sets, and each hub namespace with its objects.
    fn hub_keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self
            .kinds
            .iter()
            .map(|k| self.hub_key(TableId::Interpreters, "", &k.interpreter.name))
            .collect();
        keys.extend(
            self.hub
                .city_sets
                .iter()
                .map(|((_, name), _)| self.hub_key(TableId::CitySets, "", name)),
        );
        for ((_, name), _) in self.hub.namespaces.iter() {
            if HubNamespace::parse(name).is_some() {
                self.namespace_keys(name, &mut keys);
            }
        }
        keys
    }

    /// All keys that can be reconciled now: none before the hub's lists are complete, and those of a project only after
    /// the project's lists are complete.
    pub fn ready_keys(&self) -> Vec<Key> {
        if !self.hub_ready() {
            return Vec::new();
        }
        let mut keys = self.hub_keys();
        let orphaned = self.hub.outlived.iter();
        keys.extend(orphaned.map(|(hub, name)| self.hub_key(TableId::Bindings, hub, name)));
        let ready = self.projects.keys().filter(|project| self.project_ready(project));
        keys.extend(ready.flat_map(|project| self.project_keys(project)));
        keys
    }

    /// Keys of the hub Namespaces that had a city set after their last reconcile, were sent the set since, or want it.
    pub fn namespace_keys_of_set(&self, set: &str) -> Vec<Key> {
        let users = self.deliveries.users_of(set);
        users
            .map(|hub| self.hub_key(TableId::Namespaces, "", hub))
            .collect()
    }

    /// All keys of the hub namespaces of a project: those that it owns, and those whose labels have its UID.
    pub fn hub_keys_of(&self, project: &ProjectKey) -> Vec<Key> {
        let uid = self.projects.get(project).and_then(|p| p.uid.as_ref());
        let mut keys = Vec::new();
        for ((_, name), row) in self.hub.namespaces.iter() {
            let labelled = uid.is_some() && row.digest.project_uid.as_ref() == uid;
            if labelled
                || self
                    .owners
                    .get(name)
                    .is_some_and(|owner| owner.project == *project)
            {
                self.namespace_keys(name, &mut keys);
            }
        }
        keys
    }

    pub(super) fn namespace_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        keys.push(self.hub_key(TableId::Namespaces, "", hub));
        keys.push(self.hub_key(TableId::CityPolicies, hub, ""));
        for (i, table) in self.hub.copies.iter().enumerate() {
            keys.extend(
                table
                    .in_namespace(hub)
                    .map(|(name, _)| self.hub_key(TableId::Federated(i), hub, name)),
            );
        }
        for (i, table) in self.hub.write_backs.iter().enumerate() {
            keys.extend(
                table
                    .in_namespace(hub)
                    .map(|(name, _)| self.hub_key(TableId::WrittenBack(i), hub, name)),
            );
        }
        keys.extend(
            self.hub
                .config_maps
                .in_namespace(hub)
                .map(|(n, _)| self.hub_key(TableId::ConfigMaps, hub, n)),
        );
        keys.extend(
            self.hub
                .secrets
                .in_namespace(hub)
                .map(|(n, _)| self.hub_key(TableId::Secrets, hub, n)),
        );
    }

    /// The key of a Workload.
    pub fn workload_key(&self, project: &ProjectKey, namespace: &str, name: &str) -> Key {
        Key::new(
            Plane::Project(project.clone()),
            self.kind_of(TableId::Workloads),
            namespace,
            name,
        )
    }

    pub(super) fn claim_hub_namespace(
        &mut self,
        project: &ProjectKey,
        delta: &RowChange<()>,
        change: &mut Change,
    ) {
        let name = &delta.name.1;
        let owner = NamespaceOwner {
            project: project.clone(),
            namespace: name.clone(),
        };
        let live = self
            .projects
            .get(project)
            .and_then(|p| p.namespaces.get("", name))
            .map(|row| row.uid.clone());
        let had = delta.old.as_ref().map(|old| &old.uid);
        if let Some(uid) = had.filter(|uid| live.as_ref() != Some(uid)) {
            let hub = GatewayIndex::hub_of(uid);
            self.remove_claim(&hub, &owner, change);
            change.keys.push(self.hub_key(TableId::Namespaces, "", &hub));
        }
        if let Some(uid) = live {
            let hub = GatewayIndex::hub_of(&uid);
            self.claim(&hub, owner, change);
            self.namespace_keys(&hub, &mut change.keys);
        }
        self.sources_in(project, name, &mut change.keys);
        // Watches are not ordered: a Workload may appear before its namespace.
        let workloads = self.projects.get(project).into_iter();
        let workloads = workloads.flat_map(|p| p.workloads.in_namespace(name));
        let keys = workloads.map(|(workload, _)| self.workload_key(project, name, workload));
        change.keys.extend(keys);
    }

    /// Enqueues the Namespace's own controllers and everything that may wait for the Namespace.
    pub(super) fn enqueue_hub_namespace(&self, name: &str, keys: &mut Vec<Key>) {
        if HubNamespace::parse(name).is_none() {
            return;
        }
        self.namespace_keys(name, keys);
        keys.extend(self.source_keys(name));
        self.referenced_keys(name, keys);
    }

    /// Enqueues the companions that the deployments of a hub namespace reference, existing or not.
    pub(super) fn referenced_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        for i in 0..self.kinds.len() {
            for (_, source) in self.owned_sources(i, hub) {
                keys.extend(
                    source
                        .digest
                        .references
                        .iter()
                        .map(|r| self.hub_key(companion_role(r.kind), hub, &r.name)),
                );
            }
        }
    }

    /// Keys of all deployments in the project namespace that owns a hub namespace.
    pub fn source_keys(&self, hub: &str) -> Vec<Key> {
        let Some(owner) = self.owners.get(hub) else {
            return Vec::new();
        };
        (0..self.kinds.len())
            .flat_map(|i| {
                self.owned_sources(i, hub)
                    .map(move |(n, _)| self.source_key(i, &owner.project, &owner.namespace, n))
            })
            .collect()
    }

    /// Keys of the deployments that are being deleted and have nothing left on the hub but the policy of their city.
    pub fn leaving_keys(&self, hub: &str) -> Vec<Key> {
        let found = self.owners.get(hub);
        let Some((project, owner)) =
            found.and_then(|owner| Some((self.projects.get(&owner.project)?, owner)))
        else {
            return Vec::new();
        };
        let leaving = project.secondary.leaving(&owner.namespace);
        leaving
            .filter(|(i, name)| {
                self.hub.copies[*i].get(hub, name).is_none() && self.binding(*i, hub, name).is_none()
            })
            .map(|(i, name)| self.source_key(i, &owner.project, &owner.namespace, name))
            .collect()
    }

    /// Keys that may wait for the Namespace or a policy of a hub namespace: deployments and their companions.
    pub fn waiting_keys(&self, hub: &str) -> Vec<Key> {
        let mut keys = self.source_keys(hub);
        self.referenced_keys(hub, &mut keys);
        keys
    }

    pub(super) fn enqueue_for_binding(&self, delta: &RowChange<Binding>, keys: &mut Vec<Key>) {
        let hub = &delta.name.0;
        let new = self.hub.bindings.get(hub, &delta.name.1);
        if new.is_none() && !self.owners.contains_key(hub) {
            // The binding may have been the last object in a Namespace without an owner.
            keys.push(self.hub_key(TableId::Namespaces, "", hub));
        }
        let Some(binding) = new.or(delta.old.as_ref()).map(|row| &row.digest) else {
            return;
        };
        let Some(i) = self.kinds.iter().position(|k| *k.resource.kind == *binding.kind) else {
            return;
        };
        if let Some(owner) = self.owners.get(hub) {
            keys.push(self.source_key(i, &owner.project, &owner.namespace, &binding.name));
        }
        let policy = |row: Option<&Row<Binding>>| row.and_then(|r| r.digest.policy.clone());
        let cells =
            |row: Option<&Row<Binding>>| row.map(|r| (r.digest.owner.clone(), r.digest.clusters.clone()));
        if cells(new) != cells(delta.old.as_ref()) {
            self.enqueue_write_backs(i, hub, &binding.name, keys);
        }
        if new.is_none() || policy(new) != policy(delta.old.as_ref()) {
            keys.push(self.hub_key(TableId::CityPolicies, hub, ""));
            keys.push(self.hub_key(TableId::Namespaces, "", hub));
            self.enqueue_companions_of(i, hub, &binding.name, keys);
        }
    }

    pub(super) fn enqueue_for_companion(
        &self,
        kind: CompanionKind,
        delta: &RowChange<Companion>,
        keys: &mut Vec<Key>,
    ) {
        let (name, role) = (&delta.name, companion_role(kind));
        keys.push(self.hub_key(role, &name.0, &name.1));
        keys.push(self.hub_key(TableId::Namespaces, "", &name.0));
        let Some(owner) = self.owners.get(&name.0) else {
            return;
        };
        let Some(project) = self.projects.get(&owner.project) else {
            return;
        };
        let naming = project.secondary.naming(&owner.namespace, kind, &name.1);
        let naming = naming.map(|(i, source)| self.source_key(i, &owner.project, &owner.namespace, source));
        keys.extend(naming);
        // A deployment that dropped its reference may have waited for the companion's release.
        for entry in delta.old.iter().flat_map(|row| entries(&row.digest)) {
            let Some(("", source)) = entry
                .strip_prefix(&*owner.namespace)
                .and_then(|e| e.split_once('/'))
            else {
                continue;
            };
            for (i, table) in project.sources.iter().enumerate() {
                if table.get(&owner.namespace, source).is_some() {
                    keys.push(self.source_key(i, &owner.project, &owner.namespace, source));
                }
            }
        }
    }

    /// Enqueues the companions that a deployment references, and those that name the deployment.
    pub(super) fn enqueue_companions_of(&self, kind: usize, hub: &str, name: &str, keys: &mut Vec<Key>) {
        let Some(owner) = self.owners.get(hub) else { return };
        let source = self
            .projects
            .get(&owner.project)
            .and_then(|p| p.sources[kind].get(&owner.namespace, name));
        for r in source.iter().flat_map(|row| row.digest.references.iter()) {
            keys.push(self.hub_key(companion_role(r.kind), hub, &r.name));
        }
        for (companion, by) in self.hub.secondary.naming(hub, &owner.namespace, name) {
            keys.push(self.hub_key(companion_role(companion), hub, by));
        }
    }

    pub(super) fn enqueue_for_copy(&self, i: usize, delta: &RowChange<HubCopy>, keys: &mut Vec<Key>) {
        let (hub, name) = (&delta.name.0, &delta.name.1);
        let new = self.hub.copies[i].get(hub, name);
        match self.owners.get(hub) {
            Some(owner) => keys.push(self.source_key(i, &owner.project, &owner.namespace, name)),
            None => keys.push(self.hub_key(TableId::Namespaces, "", hub)),
        }
        let place = |row: Option<&Row<HubCopy>>| row.map(|r| (r.uid.clone(), r.digest.city.clone()));
        if place(new) != place(delta.old.as_ref()) {
            keys.push(self.hub_key(TableId::Federated(i), hub, name));
            keys.push(self.hub_key(TableId::CityPolicies, hub, ""));
            keys.push(self.hub_key(TableId::Namespaces, "", hub));
            self.enqueue_write_backs(i, hub, name, keys);
            self.enqueue_companions_of(i, hub, name, keys);
        }
    }

    pub(super) fn enqueue_write_backs(
        &self,
        i: usize,
        hub: &Arc<str>,
        deployment: &Arc<str>,
        keys: &mut Vec<Key>,
    ) {
        let crowd = self.hub.by_deployment.get(&(i, hub.clone(), deployment.clone()));
        keys.extend(
            crowd
                .iter()
                .flat_map(|crowd| crowd.names())
                .map(|n| self.hub_key(TableId::WrittenBack(i), hub, n)),
        );
    }

    pub(super) fn enqueue_for_write_back(
        &mut self,
        i: usize,
        delta: &RowChange<WriteBackDigest>,
        keys: &mut Vec<Key>,
    ) {
        let (hub, name) = (&delta.name.0, &delta.name.1);
        let new = self.hub.write_backs[i]
            .get(hub, name)
            .map(|r| (r.digest.deployment.clone(), r.digest.city.clone()));
        let old = delta
            .old
            .as_ref()
            .map(|r| (r.digest.deployment.clone(), r.digest.city.clone()));
        self.move_group(i, (hub, name), delta.old.as_ref(), keys);
        keys.push(self.hub_key(TableId::WrittenBack(i), hub, name));
        if old != new {
            keys.push(self.hub_key(TableId::Namespaces, "", hub));
        }
    }

    pub(super) fn enqueue_for_payload(
        &self,
        project: &ProjectKey,
        kind: CompanionKind,
        name: &Name,
        keys: &mut Vec<Key>,
    ) {
        let Some(p) = self.projects.get(project) else {
            return;
        };
        for (i, source) in p.secondary.naming(&name.0, kind, &name.1) {
            keys.push(self.source_key(i, project, &name.0, source));
        }
        if let Some(hub) = self.hub_namespace(project, &name.0) {
            keys.push(self.hub_key(companion_role(kind), hub.as_str(), &name.1));
        }
    }

    pub(super) fn enqueue_for_source(
        &mut self,
        project: &ProjectKey,
        i: usize,
        delta: &RowChange<Source>,
        keys: &mut Vec<Key>,
    ) {
        let (namespace, name) = (&delta.name.0, &delta.name.1);
        keys.push(self.source_key(i, project, namespace, name));
        let Some(p) = self.projects.get_mut(project) else {
            return;
        };
        let new = p.sources[i].get(namespace, name).cloned();
        p.references |= new.as_ref().is_some_and(|row| !row.digest.references.is_empty());
        if Some(i) == self.workload_kind() {
            self.enqueue_workload(project, new.as_ref(), delta, keys);
        }
        let Some(hub) = self.hub_namespace(project, namespace) else {
            return;
        };
        let hub: Arc<str> = hub.as_str().into();
        let announced =
            |row: Option<&Row<Source>>| row.and_then(|row| GatewayIndex::announced(name, row)).cloned();
        if announced(new.as_ref()) != announced(delta.old.as_ref()) || new.is_none() {
            keys.push(self.hub_key(TableId::Namespaces, "", &hub));
            keys.push(self.hub_key(TableId::CityPolicies, &hub, ""));
            keys.push(self.hub_key(TableId::Federated(i), &hub, name));
            self.enqueue_companions_of(i, &hub, name, keys);
        }
        if new.as_ref().map(GatewayIndex::holds) != delta.old.as_ref().map(GatewayIndex::holds) {
            keys.push(self.hub_key(TableId::Federated(i), &hub, name));
        }
        let life = |row: Option<&Row<Source>>| row.map(|r| (r.uid.clone(), r.deleting, r.digest.scale));
        if life(new.as_ref()) != life(delta.old.as_ref()) {
            self.enqueue_write_backs(i, &hub, name, keys);
            self.enqueue_companions_of(i, &hub, name, keys);
        }
        if wanted(new.as_ref()) != wanted(delta.old.as_ref()) {
            let old = delta.old.iter().flat_map(|row| row.digest.references.iter());
            for r in old {
                keys.push(self.hub_key(companion_role(r.kind), &hub, &r.name));
            }
            self.enqueue_companions_of(i, &hub, name, keys);
        }
    }

    pub(super) fn enqueue_workload(
        &self,
        project: &ProjectKey,
        new: Option<&Row<Source>>,
        delta: &RowChange<Source>,
        keys: &mut Vec<Key>,
    ) {
        fn rollup(row: Option<&Row<Source>>) -> impl PartialEq + use<'_> {
            row.map(|r| (&r.uid, r.deleting, &r.digest.rollup))
        }
        if rollup(new) == rollup(delta.old.as_ref()) {
            return;
        }
        let Some(p) = self.projects.get(project) else {
            return;
        };
        for uid in [new, delta.old.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|r| r.digest.controller.as_ref())
        {
            let owner = p.workloads_by_uid.get(uid).filter(|of| of.0 == delta.name.0);
            keys.extend(owner.map(|(namespace, name)| self.workload_key(project, namespace, name)));
        }
        if new.is_none() {
            self.enqueue_for_name(project, &delta.name, keys);
        }
    }

    /// Enqueues the Workloads that may wait for a deployment name to become free: the name starts with theirs.
    fn enqueue_for_name(&self, project: &ProjectKey, freed: &Name, keys: &mut Vec<Key>) {
        let (namespace, name) = freed;
        let Some(p) = self.projects.get(project) else {
            return;
        };
        let beginnings = name.match_indices('-').map(|(end, _)| &name[..end]);
        let workloads = beginnings.filter(|beginning| p.workloads.get(namespace, beginning).is_some());
        keys.extend(workloads.map(|workload| self.workload_key(project, namespace, workload)));
    }
}

/// Fields of a deployment that determine its companions.
fn wanted(row: Option<&Row<Source>>) -> impl PartialEq + use<'_> {
    row.map(|r| (r.digest.expected(), &r.digest.references))
}

/// The table of a companion kind.
pub fn companion_role(kind: CompanionKind) -> TableId {
    match kind {
        CompanionKind::ConfigMap => TableId::ConfigMaps,
        CompanionKind::Secret => TableId::Secrets,
    }
}
