//! Kinds of which the platform owns every object (contract: clusters.md §8): the hub's objects, and their projections in each
//! project that serves the kind. Of an object the whole payload is kept, once, since every project gets it; of a projection a
//! digest.

use super::{
    GatewayIndex, Project, Resources, TableId,
    apply::Applied,
    rows::{PlatformObject, PlatformProjection},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    key::{Key, Plane},
    plane::watch::WatchEvent,
    store::{
        apply::{RowChange, apply_event},
        table::Table,
    },
};
use fedgate_kinds::{KindId, PerKind, PlatformKind};
use kube::core::ApiResource;
use std::{collections::BTreeSet, sync::Arc};

/// The objects of a kind of the platform in a project.
#[derive(Debug, Default)]
pub struct OfPlatform {
    /// True once the project is known to serve the kind.
    served: bool,
    /// Objects of the kind.
    pub rows: Table<PlatformProjection>,
}

impl GatewayIndex {
    /// Adds kinds of the platform to an index that nothing is engaged in yet.
    #[must_use]
    pub fn with_platform(mut self, kinds: Vec<PlatformKind>) -> Self {
        let kinds: PerKind<PlatformKind> = kinds.into();
        self.resources = Arc::new(Resources::new(&self.kinds, &self.companions, &kinds));
        self.hub.platform = kinds.map(|_| Table::default());
        self.platform = Arc::new(kinds);
        self
    }

    /// The selector of a kind's objects on the hub; `None` selects all.
    pub(super) fn platform_selector(&self, kind: KindId) -> Option<String> {
        let selector = &self.platform[kind].selector;
        (!selector.selects_all()).then(|| selector.to_string())
    }

    /// The kinds of the platform that a project is not known to serve.
    pub(super) fn unserved_platform_kinds(&self, key: &ProjectKey) -> Vec<ApiResource> {
        let project = self.projects.get(key).into_iter();
        let tables = project.flat_map(|project| project.platform.enumerate());
        let unserved = tables.filter(|(_, table)| !table.served);
        unserved
            .map(|(kind, _)| self.platform[kind].resource.clone())
            .collect()
    }

    /// Records which of these kinds a project serves. Returns the tables to watch.
    pub(super) fn platform_kinds_discovered(
        &mut self,
        key: &ProjectKey,
        served: &[ApiResource],
    ) -> Vec<TableId> {
        let kinds = self.platform.clone();
        let Some(project) = self.projects.get_mut(key) else {
            return Vec::new();
        };
        let mut watch = Vec::new();
        for (kind, profile) in kinds.enumerate() {
            let table = &mut project.platform[kind];
            if !table.served && served.contains(&profile.resource) {
                table.served = true;
                watch.push(TableId::Platform(kind));
            }
        }
        watch
    }

    /// Applies an event of the hub. The list is not among those that all projects need: `synced` stays unset.
    pub(super) fn platform_object_event(&mut self, kind: KindId, event: WatchEvent) -> Applied {
        let largest = self.largest_spec;
        let table = &mut self.hub.platform[kind];
        let (deltas, first) = apply_event(table, event, &mut self.words, |object, _| {
            PlatformObject::read(object, largest)
        });
        self.platform_changed(kind, None, deltas, first)
    }

    /// Applies an event of a project, as [`GatewayIndex::platform_object_event`] does.
    pub(super) fn platform_projection_event(
        &mut self,
        key: &ProjectKey,
        kind: KindId,
        event: WatchEvent,
    ) -> Applied {
        let Some(project) = self.projects.get_mut(key) else {
            return Applied::default();
        };
        let table = &mut project.platform[kind].rows;
        let (deltas, first) = apply_event(table, event, &mut self.words, PlatformProjection::read);
        self.platform_changed(kind, Some(key), deltas, first)
    }

    /// True if what the hub and a project have of a kind may be compared: both lists are complete.
    pub fn compares_platform(&self, kind: KindId, key: &ProjectKey) -> bool {
        let project = self.projects.get(key);
        self.hub.platform[kind].synced()
            && project.is_some_and(|project| project.platform[kind].rows.synced())
            && self.is_complete(key)
    }

    /// The plane whose watch fails, so that absence there proves nothing.
    pub fn unproven_platform(&self, kind: KindId, key: &ProjectKey) -> Option<Plane> {
        let project = self.projects.get(key);
        if !self.hub.platform[kind].proves() {
            Some(Plane::Hub)
        } else if project.is_some_and(|project| !project.platform[kind].rows.proves()) {
            Some(Plane::Project(key.clone()))
        } else {
            None
        }
    }

    /// The key of an object in a project.
    pub fn platform_key(&self, kind: KindId, project: &ProjectKey, name: &str) -> Key {
        let plane = Plane::Project(project.clone());
        Key::new(plane, self.kind_of(TableId::Platform(kind)), "", name)
    }

    /// Keys of all objects that a project has, or is to have, of the platform.
    pub fn platform_keys_of(&self, key: &ProjectKey, keys: &mut Vec<Key>) {
        let Some(project) = self.projects.get(key) else {
            return;
        };
        for kind in self.platform.ids() {
            self.compared_keys(kind, key, project, keys);
        }
    }

    /// The changes after an event of the hub, which concerns every project, or of a project.
    fn platform_changed<D>(
        &self,
        kind: KindId,
        project: Option<&ProjectKey>,
        deltas: Vec<RowChange<D>>,
        first: bool,
    ) -> Applied {
        let one = project.and_then(|key| self.projects.get_key_value(key));
        let all = self.projects.iter().filter(|_| project.is_none());
        let concerned: Vec<_> = one.into_iter().chain(all).collect();
        let mut keys = Vec::new();
        for RowChange { name: (_, name), .. } in deltas {
            if project.is_none() {
                keys.push(self.hub_key(TableId::Platform(kind), "", &name));
            }
            let serving = concerned.iter().filter(|(_, of)| of.platform[kind].served);
            keys.extend(serving.map(|(key, _)| self.platform_key(kind, key, &name)));
        }
        if first {
            for (key, of) in &concerned {
                self.compared_keys(kind, key, of, &mut keys);
            }
        }
        let mut applied = Applied::default();
        applied.enqueue(keys);
        applied
    }

    /// Keys of all objects of a kind that a project has, or is to have, once both lists are complete.
    fn compared_keys(&self, kind: KindId, key: &ProjectKey, project: &Project, keys: &mut Vec<Key>) {
        let (there, here) = (&self.hub.platform[kind], &project.platform[kind].rows);
        if !there.synced() || !here.synced() {
            return;
        }
        let marked = here.iter().filter(|(_, row)| row.digest.labelled);
        let names = there.iter().map(|((_, name), _)| name);
        let names: BTreeSet<&Arc<str>> = names.chain(marked.map(|((_, name), _)| name)).collect();
        keys.extend(names.into_iter().map(|name| self.platform_key(kind, key, name)));
    }
}
