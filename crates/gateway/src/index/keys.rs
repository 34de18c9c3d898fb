//! Keys of objects that belong together: those of a project, of a hub namespace, and of a deployment.

use super::{GatewayIndex, ObjectRef, TableId};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::key::{Key, Plane};
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
        self.all_source_keys(key, &mut keys);
        for ((_, name), row) in project.namespaces.iter() {
            let hub = Self::hub_of(&row.uid);
            self.namespace_keys(&hub, &mut keys);
            self.referenced_keys(&hub, &mut keys);
            self.return_keys(&hub, &mut keys);
            for (i, table) in project.projections.enumerate() {
                let names = table.in_namespace(name).map(|(name, _)| name);
                keys.extend(names.map(|name| self.hub_key(TableId::WrittenBack(i), &hub, name)));
            }
        }
        self.platform_keys_of(key, &mut keys);
        keys.push(self.moves_key());
        keys
    }

    /// Keys of the hub that need no project: interpreters, city sets, and each hub namespace with its objects.
    fn hub_keys(&self) -> Vec<Key> {
        let interpreters = self.kinds.iter().map(|kind| kind.interpreter.name.as_str());
        let interpreters = interpreters.map(|name| self.hub_key(TableId::Interpreters, "", name));
        let mut keys: Vec<Key> = interpreters.chain([self.moves_key()]).collect();
        let platform = self.platform.ids().map(TableId::Platform);
        self.keys_in("", std::iter::once(TableId::CitySets).chain(platform), &mut keys);
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
        let users = self.intents.deliveries.users_of(set);
        users.map(|hub| self.namespace_key(hub)).collect()
    }

    /// The hub namespaces of a project: those that it owns, and those whose labels have its UID.
    pub fn hub_namespaces_of(&self, project: &ProjectKey) -> impl Iterator<Item = &Arc<str>> {
        let uid = self.projects.get(project).and_then(|p| p.uid.as_ref());
        let all = self.hub.namespaces.iter();
        let of_project = all.filter(move |((_, name), row)| {
            let name: &str = name;
            let labelled = uid.is_some() && row.digest.project_uid.as_ref() == uid;
            let owner = self.owners.get(name);
            labelled || owner.is_some_and(|owner| owner.project == *project)
        });
        of_project.map(|((_, name), _)| name)
    }

    /// All keys of the hub namespaces of a project.
    pub fn hub_keys_of(&self, project: &ProjectKey) -> Vec<Key> {
        let mut keys = Vec::new();
        for hub in self.hub_namespaces_of(project) {
            self.namespace_keys(hub, &mut keys);
        }
        keys
    }

    /// Keys of a hub namespace and of all objects in it that a controller reconciles.
    pub fn namespace_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        keys.push(self.namespace_key(hub));
        keys.push(self.policies_key(hub));
        self.copy_keys(hub, keys);
        self.pinned_keys(hub, keys);
        self.write_back_keys(hub, keys);
        self.companion_keys(hub, keys);
    }

    /// Keys of the hub's objects in a namespace, of these tables.
    fn keys_in(&self, hub: &str, tables: impl Iterator<Item = TableId>, keys: &mut Vec<Key>) {
        for table in tables {
            let names = self.hub.table(table).into_iter().flat_map(|rows| rows.names(hub));
            keys.extend(names.map(|name| self.hub_key(table, hub, name)));
        }
    }

    /// Keys of the copies in a hub namespace.
    pub fn copy_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        self.keys_in(hub, self.kinds.ids().map(TableId::Federated), keys);
    }

    /// Keys of the write-backs in a hub namespace.
    pub fn write_back_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        self.keys_in(hub, self.kinds.ids().map(TableId::WrittenBack), keys);
    }

    /// Keys of the companions in a hub namespace.
    pub fn companion_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        self.keys_in(hub, self.companions.ids().map(TableId::Companions), keys);
    }

    /// Keys of the copies in a hub namespace that are there or to be there: those of objects with a member.
    pub fn pinned_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        for kind in self.kinds.ids() {
            let names = self.pinned_in(kind, hub);
            keys.extend(names.map(|name| self.hub_key(TableId::Federated(kind), hub, name)));
        }
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

    /// Enqueues the companions that the deployments of a hub namespace reference, existing or not.
    pub fn referenced_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        for i in self.kinds.ids() {
            for (_, source) in self.owned_sources(i, hub) {
                let references = source.digest.references.iter();
                keys.extend(references.map(|r| self.hub_key(TableId::Companions(r.kind), hub, &r.name)));
            }
        }
    }

    /// Keys of all deployments in the project namespace that owns a hub namespace.
    pub fn source_keys(&self, hub: &str) -> Vec<Key> {
        let mut keys = Vec::new();
        if let Some(owner) = self.owners.get(hub) {
            self.source_keys_in(&owner.project, &owner.namespace, &mut keys);
        }
        keys
    }

    /// Keys of the deployments that are being deleted and have named a hub namespace that no project namespace owns: theirs was
    /// deleted without them, and may have been made again with another UID.
    pub fn former_source_keys(&self, hub: &str) -> Vec<Key> {
        if self.owners.contains_key(hub) {
            return Vec::new();
        }
        // Without its Namespace nothing tells whose a hub namespace was.
        let of = self.project_of(hub);
        if of.is_none() && self.hub.namespaces.get("", hub).is_some() {
            return Vec::new();
        }
        let leaving = self.summary.deletions(of);
        leaving
            .filter_map(|((project, (kind, (namespace, name))), _)| {
                let row = self.projects.get(project)?.sources[*kind].get(namespace, name)?;
                let has_named = row.digest.federation_namespace.as_deref() == Some(hub);
                (has_named && Self::holds(row)).then(|| self.source_key(*kind, project, namespace, name))
            })
            .collect()
    }

    /// Keys of the deployments that are being deleted and have nothing left on the hub but the policy of their city.
    pub fn leaving_keys(&self, hub: &str) -> Vec<Key> {
        let Some((project, owner)) = self.owning(hub) else {
            return Vec::new();
        };
        let problems = self.summary.problems_in(self.kinds.ids(), owner);
        let leaving = problems.filter(|((_, (kind, (namespace, name))), _)| {
            let row = project.sources[*kind].get(namespace, name);
            row.is_some_and(|row| row.deleting && Self::holds(row))
                && self.hub.copies[*kind].get(hub, name).is_none()
                && self.binding(*kind, hub, name).is_none()
        });
        leaving
            .map(|((of, (kind, (namespace, name))), _)| self.source_key(*kind, of, namespace, name))
            .collect()
    }

    /// Keys that may wait for the Namespace or a policy of a hub namespace: deployments and their companions.
    pub fn waiting_keys(&self, hub: &str) -> Vec<Key> {
        let mut keys = self.source_keys(hub);
        self.referenced_keys(hub, &mut keys);
        keys
    }

    /// Keys of the companions that a deployment references, and of those that name the deployment: all of a hub namespace
    /// without an owner, since nothing says there what names mean.
    pub fn companion_keys_of(&self, ObjectRef { kind, hub, name }: &ObjectRef, keys: &mut Vec<Key>) {
        let Some(owner) = self.owners.get(hub) else {
            return self.companion_keys(hub, keys);
        };
        let source = self.owned_source(*kind, hub, name);
        for r in source.iter().flat_map(|row| row.digest.references.iter()) {
            keys.push(self.hub_key(TableId::Companions(r.kind), hub, &r.name));
        }
        for (companion, by) in self.hub.secondary.naming(hub, &owner.namespace, name) {
            keys.push(self.hub_key(TableId::Companions(companion), hub, by));
        }
    }

    /// Keys of the write-backs of a deployment.
    pub fn write_back_keys_of(&self, deployment: &ObjectRef, keys: &mut Vec<Key>) {
        let ObjectRef { kind, hub, .. } = deployment;
        let names = self.write_backs_of(deployment);
        keys.extend(names.map(|name| self.hub_key(TableId::WrittenBack(*kind), hub, name)));
    }

    /// Keys of the hub Namespaces of a project that wait because the project uses too many city sets; with `set`, only
    /// those that wait for this set.
    pub fn limited_keys(&self, label: &Arc<str>, set: Option<&Arc<str>>) -> Vec<Key> {
        let limited = self.limited_of(label);
        limited
            .filter(|hub| set.is_none() || self.intents.deliveries.wanted(hub) == set)
            .map(|hub| self.namespace_key(hub))
            .collect()
    }

    /// Keys of the deployments in a project namespace.
    pub fn source_keys_in(&self, project: &ProjectKey, namespace: &str, keys: &mut Vec<Key>) {
        let tables = self.projects.get(project).into_iter();
        for (i, table) in tables.flat_map(|of| of.sources.enumerate()) {
            let rows = table.in_namespace(namespace);
            keys.extend(rows.map(|(name, _)| self.source_key(i, project, namespace, name)));
        }
    }

    /// Keys of all deployments of a project.
    pub fn all_source_keys(&self, project: &ProjectKey, keys: &mut Vec<Key>) {
        let tables = self.projects.get(project).into_iter();
        for (i, table) in tables.flat_map(|of| of.sources.enumerate()) {
            let rows = table.iter();
            keys.extend(rows.map(|((namespace, name), _)| self.source_key(i, project, namespace, name)));
        }
    }
}

impl TableId {
    /// Companion `ConfigMaps`, and their sources.
    #[cfg(test)]
    pub(crate) const CONFIG_MAPS: Self = Self::Companions(CompanionKind::CONFIG_MAP);
    /// Companion Secrets, and their sources.
    #[cfg(test)]
    pub(crate) const SECRETS: Self = Self::Companions(CompanionKind::SECRET);
    /// The deployments, in tests with the built-in kind alone.
    #[cfg(test)]
    pub(crate) const DEPLOYMENTS: Self = Self::Federated(fedgate_kinds::KindId::FIRST);
    /// Keys of the Instances of these deployments.
    #[cfg(test)]
    pub(crate) const INSTANCES: Self = Self::WrittenBack(fedgate_kinds::KindId::FIRST);

    /// The companion kind of a table.
    pub fn companion(self) -> Option<CompanionKind> {
        match self {
            Self::Companions(kind) => Some(kind),
            _ => None,
        }
    }
}
