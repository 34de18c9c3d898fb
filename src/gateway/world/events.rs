//! What comes in by watches and answers, and which keys it wakes.

use super::{
    Role, World,
    digest::{
        Binding, CityPolicy, CitySet, Companion, Copy, HubNamespaceDigest, InterpreterDigest, Payload,
        Projection, Source, WriteBackDigest,
    },
};
use crate::{
    api::names::ProjectKey,
    engine::key::Key,
    kinds::CompanionKind,
    plane::{
        table::{Change, Name, Origin, Row, Table},
        watch::Event,
    },
};
use kube::core::DynamicObject;

/// Namespace whose UID stands for a project's where no platform gives one.
const PROJECT_MARK: &str = "kube-system";

/// What one event did to a table: old and new presence of one object.
pub(super) struct Delta<D> {
    pub(super) name: Name,
    pub(super) old: Option<Row<D>>,
}

/// Feeds one event to one table; returns what changed and whether a first list was completed.
pub(super) fn feed<D: PartialEq>(
    table: &mut Table<D>,
    event: Event,
    mut read: impl FnMut(&DynamicObject) -> D,
) -> (Vec<Delta<D>>, bool) {
    let mut upsert = |table: &mut Table<D>, object: DynamicObject, origin| {
        let digest = read(&object);
        match table.upsert(object, digest, origin) {
            (_, Change::None) => Vec::new(),
            (name, Change::Changed(old)) => vec![Delta { name, old }],
        }
    };
    match event {
        Event::Began => {
            table.begin_list();
            (Vec::new(), false)
        }
        Event::Listed(object) => (upsert(table, *object, Origin::List), false),
        Event::Applied(object) => (upsert(table, *object, Origin::Event), false),
        Event::Deleted(object) => {
            let meta = &object.metadata;
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let name = meta.name.as_deref().unwrap_or_default();
            let old = table.remove(namespace, name, meta.uid.as_deref());
            (
                old.map(|old| Delta {
                    name: (namespace.into(), name.into()),
                    old: Some(old),
                })
                .into_iter()
                .collect(),
                false,
            )
        }
        Event::Complete => {
            let (gone, first) = table.end_list();
            (
                gone.into_iter()
                    .map(|(name, row)| Delta { name, old: Some(row) })
                    .collect(),
                first,
            )
        }
    }
}

/// Keys that an event wakes.
#[derive(Debug, Default)]
pub struct Woken {
    /// The keys.
    pub keys: Vec<Key>,
    /// A list of the plane was completed for the first time, or the project's UID is known from now on: everything of
    /// it may now be decided.
    pub synced: bool,
}

impl World {
    /// Takes in an event of the hub.
    pub fn hub_event(&mut self, role: Role, event: Event) -> Woken {
        let kinds = self.kinds.clone();
        let words = &mut self.words;
        let mut woken = Woken::default();
        macro_rules! feed_table {
            ($table:expr, $read:expr) => {{
                let (deltas, first) = feed(&mut $table, event, $read);
                woken.synced = first;
                deltas
            }};
        }
        match role {
            Role::Namespaces => {
                for d in feed_table!(self.hub.namespaces, HubNamespaceDigest::read) {
                    self.wake_hub_namespace(&d.name.1, &mut woken.keys);
                    if let Some(set) = d.old.and_then(|row| row.digest.cities) {
                        let policy = crate::api::names::city_set_policy(&set);
                        woken.keys.push(self.hub_key(Role::CitySets, "", &policy));
                    }
                }
            }
            Role::CitySets => {
                let label = kinds
                    .first()
                    .map_or(crate::api::keys::CITY_CODE, |k| &k.placement.label);
                for d in feed_table!(self.hub.city_sets, |o| CitySet::read(o, label)) {
                    self.wake_for_city_set(&d.name.1, &mut woken.keys);
                }
            }
            Role::CityPolicies => {
                for d in feed_table!(self.hub.city_policies, |o| CityPolicy::read(o, &kinds)) {
                    woken.keys.push(self.hub_key(Role::CityPolicies, &d.name.0, ""));
                    self.wake_sources(&d.name.0, &mut woken.keys);
                    self.referenced_keys(&d.name.0, &mut woken.keys);
                }
            }
            Role::Bindings => {
                for d in feed_table!(self.hub.bindings, |o| Binding::read(o, words)) {
                    self.wake_for_binding(&d, &mut woken.keys);
                }
            }
            Role::Interpreters => {
                for d in feed_table!(self.hub.interpreters, |o| InterpreterDigest::read(
                    o, &kinds, words
                )) {
                    woken.keys.push(self.hub_key(Role::Interpreters, "", &d.name.1));
                    if let Some(kind) = d.old.and_then(|o| o.digest.kind) {
                        woken
                            .keys
                            .push(self.hub_key(Role::Interpreters, "", &kinds[kind].interpreter.name));
                    }
                }
            }
            Role::ConfigMaps => {
                for d in feed_table!(self.hub.config_maps, Companion::read) {
                    self.wake_for_companion(CompanionKind::ConfigMap, &d, &mut woken.keys);
                }
            }
            Role::Secrets => {
                for d in feed_table!(self.hub.secrets, Companion::read) {
                    self.wake_for_companion(CompanionKind::Secret, &d, &mut woken.keys);
                }
            }
            Role::Federated(i) => {
                for d in feed_table!(self.hub.copies[i], |o| Copy::read(o, &kinds[i], words)) {
                    self.wake_for_copy(i, &d, &mut woken.keys);
                }
            }
            Role::WrittenBack(i) => {
                for d in feed_table!(self.hub.write_backs[i], |o| WriteBackDigest::read(
                    o, &kinds[i], words
                )) {
                    self.wake_for_write_back(i, &d, &mut woken.keys);
                }
            }
            Role::Workloads | Role::Locations | Role::Networks => {}
        }
        woken
    }

    /// Takes in an event of a project.
    pub fn project_event(&mut self, key: &ProjectKey, role: Role, event: Event) -> Woken {
        let kinds = self.kinds.clone();
        let mut woken = Woken::default();
        let words = &mut self.words;
        let Some(project) = self.projects.get_mut(key) else {
            return woken;
        };
        macro_rules! feed_table {
            ($table:expr, $read:expr) => {{
                let (deltas, first) = feed(&mut $table, event, $read);
                woken.synced = first;
                deltas
            }};
        }
        match role {
            Role::Namespaces => {
                let deltas = feed_table!(project.namespaces, |_| ());
                let known = project.uid.is_some();
                if let Some(mark) = project.namespaces.get("", PROJECT_MARK) {
                    project.uid = Some(mark.uid.clone());
                }
                // Until then everything of the project waited for it.
                woken.synced |= !known && project.uid.is_some();
                for d in deltas {
                    self.tie(key, &d, &mut woken.keys);
                }
            }
            Role::Workloads => {
                let read = |o: &DynamicObject| {
                    let mut kept = o.clone();
                    kept.metadata.managed_fields = None;
                    kept.metadata.annotations = None;
                    kept.metadata.resource_version = None;
                    serde_json::to_string(&kept).unwrap_or_default().into_boxed_str()
                };
                for d in feed_table!(project.workloads, read) {
                    woken.keys.push(self.workload_key(key, &d.name.0, &d.name.1));
                }
            }
            Role::Locations => return self.location_event(key, event),
            Role::Networks => return self.network_event(key, event),
            Role::ConfigMaps => {
                for d in feed_table!(project.config_maps, Payload::read) {
                    self.wake_for_payload(key, CompanionKind::ConfigMap, &d.name, &mut woken.keys);
                }
            }
            Role::Secrets => {
                for d in feed_table!(project.secrets, Payload::read) {
                    self.wake_for_payload(key, CompanionKind::Secret, &d.name, &mut woken.keys);
                }
            }
            Role::Federated(i) => {
                let deltas = feed_table!(project.sources[i], |o| Source::read(o, &kinds[i], words));
                for d in deltas {
                    self.wake_for_source(key, i, &d, &mut woken.keys);
                }
            }
            Role::WrittenBack(i) => {
                for d in feed_table!(project.projections[i], |o| Projection::read(o, &kinds[i])) {
                    if let Some(hub) = self.hub_namespace(key, &d.name.0) {
                        woken
                            .keys
                            .push(self.hub_key(Role::WrittenBack(i), hub.as_str(), &d.name.1));
                    }
                }
            }
            Role::CitySets | Role::CityPolicies | Role::Bindings | Role::Interpreters => {}
        }
        woken
    }
}
