//! Applies watch events and answers to writes to the index, and returns the changes that decisions may depend on: those
//! of the hub here, those of projects in `apply_project.rs`.

use super::{
    GatewayIndex, ObjectRef, TableId,
    change::{Change, NamespaceNews},
    rows::{
        Binding, Cell, CityPolicy, CitySet, Companion, HubCopy, HubNamespaceDigest, InterpreterDigest,
        Strings, Template, WriteBackDigest,
    },
    single_member::Pins,
    watches::Command,
};
use fedgate_api::names::{self, HubNamespace, ProjectKey};
use fedgate_engine::{
    key::Key,
    plane::watch::WatchEvent,
    store::{
        apply::apply_event,
        table::{Name, Row},
    },
};
use fedgate_kinds::{CompanionKind, KindId};
use kube::core::DynamicObject;
use std::{collections::BTreeSet, sync::Arc};

/// Result of an event.
#[derive(Debug, Default)]
pub struct Applied {
    /// The changes that decisions may depend on.
    pub changes: Vec<Change>,
    /// True if a list of the plane was completed for the first time, or the project's UID became known: every
    /// object of the plane may now be decided on.
    pub synced: bool,
    /// Commands to the gateway's main loop, in order.
    pub commands: Vec<Command>,
}

impl Applied {
    pub(super) fn synced(synced: bool) -> Self {
        Self {
            synced,
            ..Self::default()
        }
    }

    /// Inserts or removes a copy of a set on which the planner of moves depends; enqueues the planner if the set changed.
    fn note_move(&mut self, copies: &mut BTreeSet<ObjectRef>, copy: ObjectRef, is_one: bool) {
        let is_news = if is_one {
            copies.insert(copy)
        } else {
            copies.remove(&copy)
        };
        if is_news {
            self.changes.push(Change::Moves);
        }
    }

    /// Adds keys that the event concerns whatever else is known.
    pub(super) fn enqueue(&mut self, keys: impl IntoIterator<Item = Key>) {
        let keys: Vec<Key> = keys.into_iter().collect();
        if !keys.is_empty() {
            self.changes.push(Change::Keys(keys));
        }
    }
}

impl GatewayIndex {
    /// Applies an event of the hub.
    pub fn hub_event(&mut self, table: TableId, event: WatchEvent) -> Applied {
        let kinds = self.kinds.clone();
        let words = &mut self.words;
        let mut applied = Applied::default();
        macro_rules! feed_table {
            ($table:expr, $read:expr) => {{
                let (deltas, first) = apply_event(&mut $table, event, words, $read);
                applied.synced = first;
                deltas
            }};
        }
        match table {
            TableId::Namespaces => return self.hub_namespace_event(event),
            TableId::Clusters => return self.cluster_event(event),
            TableId::CitySets => return self.city_set_event(event),
            TableId::Interpreters => return self.interpreter_event(event),
            TableId::CityPolicies => {
                for d in feed_table!(self.hub.city_policies, |o, _| CityPolicy::read(o, &kinds)) {
                    applied.changes.push(Change::CityPolicy { hub: d.name.0 });
                }
            }
            TableId::Bindings => return self.binding_event(event),
            TableId::Pins => {
                for d in feed_table!(self.hub.pins, |o, _| Pins::read(o)) {
                    applied.changes.extend(self.pins_changed(&d));
                }
            }
            TableId::Returned => return self.hub_returned_event(event),
            TableId::Companions(kind) => return self.companion_event(kind, event),
            TableId::Platform(kind) => return self.platform_object_event(kind, event),
            TableId::Federated(i) => {
                let told = matches!(event, WatchEvent::Apply(_) | WatchEvent::Written(_));
                let deltas = feed_table!(self.hub.copies[i], |o, words| HubCopy::read(o, &kinds[i], words));
                for d in &deltas {
                    let new = self.hub.copies[i].get(&d.name.0, &d.name.1);
                    self.hub.secondary.copy(i, &d.name, d.old.as_ref(), new);
                    let is_requested = new.is_some_and(|row| row.digest.move_to().is_some());
                    let copy = ObjectRef::new(i, &d.name.0, &d.name.1);
                    applied.note_move(&mut self.hub.requests, copy, is_requested);
                    let request = |row: &Row<HubCopy>| row.digest.move_to().cloned();
                    if new.and_then(request) != d.old.as_ref().and_then(request) {
                        applied.changes.push(Change::Moves);
                    }
                    if new.is_none() {
                        let copy = ObjectRef::new(i, &d.name.0, &d.name.1);
                        self.intents.departed.remove(&copy);
                        self.intents.unreported.remove(&copy);
                    }
                    if told {
                        applied.changes.extend(self.copy_reported(i, d));
                    }
                    let binding = self.binding_name(i, &d.name.1);
                    self.track_orphaned_binding(&(d.name.0.clone(), binding.into()), &mut applied);
                }
                for d in deltas {
                    let copy = self.hub.copies[i].get(&d.name.0, &d.name.1);
                    let too_large = copy.is_some_and(|row| row.digest.is_too_large(&kinds[i]));
                    if too_large || !self.needs_body(&d.name.0, Self::specs_synced) {
                        self.hub.copies[i].drop_body(&d.name.0, &d.name.1);
                    }
                    applied.changes.push(self.copy_change(i, &d));
                }
            }
            TableId::WrittenBack(i) => {
                let ends = matches!(event, WatchEvent::Delete(_));
                let complete = matches!(event, WatchEvent::InitDone);
                let at = matches!(event, WatchEvent::Apply(_) | WatchEvent::Delete(_))
                    .then(|| self.clock.now().wall);
                let deltas = feed_table!(self.hub.write_backs[i], |o, words| WriteBackDigest::read(
                    o, &kinds[i], words
                ));
                for d in &deltas {
                    let new = self.hub.write_backs[i].get(&d.name.0, &d.name.1);
                    self.summary.write_back(&d.name.0, d.old.as_ref(), new, at);
                    self.record_end(i, &d.name, ends);
                }
                if complete {
                    self.withhold(i, &deltas);
                }
                for d in deltas {
                    let row = self.hub.write_backs[i].get(&d.name.0, &d.name.1);
                    let needed = self.needs_body(&d.name.0, Self::is_complete);
                    if !needed || row.is_some_and(|row| row.digest.is_too_large()) {
                        self.hub.write_backs[i].drop_body(&d.name.0, &d.name.1);
                    }
                    self.write_back_changed(i, &d, &mut applied);
                    applied.changes.extend(self.written_back(i, &d.name));
                }
            }
            TableId::Workloads | TableId::Locations(_) | TableId::Availabilities | TableId::Networks => {}
        }
        applied
    }

    fn binding_event(&mut self, event: WatchEvent) -> Applied {
        let kinds = self.kinds.clone();
        let companions = self.companions.clone();
        let read = |o: &DynamicObject, words: &mut Strings| Binding::read(o, &kinds, &companions, words);
        let (deltas, synced) = apply_event(&mut self.hub.bindings, event, &mut self.words, read);
        let mut applied = Applied::synced(synced);
        for d in &deltas {
            let new = self.hub.bindings.get(&d.name.0, &d.name.1);
            self.hub.secondary.binding(&kinds, &d.name, d.old.as_ref(), new);
            let of_copy = |row: &&Row<Binding>| matches!(row.digest.template, Template::Copy(_));
            self.summary
                .binding(d.old.as_ref().filter(of_copy), new.filter(of_copy));
            if let Some(row) = new.or(d.old.as_ref())
                && let Template::Copy(kind) = row.digest.template
                && kinds[kind].is_movable()
            {
                let copy = ObjectRef::new(kind, &d.name.0, &row.digest.name);
                let is_evicted = new.is_some_and(|row| row.digest.eviction.is_some());
                applied.note_move(&mut self.hub.evictions, copy, is_evicted);
                let former = d.old.as_ref().map(|row| &row.digest.clusters);
                let is_placed = new.map(|row| &row.digest.clusters) != former;
                let in_doubt = |cell: &Arc<str>| {
                    let cluster = self.hub.clusters.get("", cell);
                    cluster.is_some_and(|row| row.digest.is_in_doubt())
                };
                if is_placed && new.is_some_and(|row| row.digest.clusters.iter().any(in_doubt)) {
                    applied.changes.push(Change::Moves);
                }
            }
            self.track_orphaned_binding(&d.name, &mut applied);
        }
        let changes = deltas.iter().flat_map(|d| self.binding_changes(d));
        applied.changes.extend(changes);
        applied
    }

    fn companion_event(&mut self, kind: CompanionKind, event: WatchEvent) -> Applied {
        let table = &mut self.hub.companions[kind];
        let (deltas, synced) = apply_event(table, event, &mut self.words, |o, _| Companion::read(o, kind));
        for d in &deltas {
            let new = table.get(&d.name.0, &d.name.1);
            self.hub.secondary.companion(kind, &d.name, d.old.as_ref(), new);
        }
        let mut applied = Applied::synced(synced);
        for d in deltas {
            let binding = self.companion_binding_name(kind, &d.name.1).into();
            self.track_orphaned_binding(&(d.name.0.clone(), binding), &mut applied);
            applied.changes.push(Self::companion_change(kind, &d));
        }
        applied
    }

    /// Records whether a binding has lost its template.
    fn track_orphaned_binding(&mut self, name: &Name, applied: &mut Applied) {
        let hub = &self.hub;
        let orphaned = hub.bindings.get(&name.0, &name.1).is_some_and(|row| {
            let name = (&*name.0, &*row.digest.name);
            let template = match row.digest.template {
                Template::Copy(kind) => hub.copies[kind].get(name.0, name.1).map(|r| &r.uid),
                Template::Companion(kind) => hub.companions[kind].get(name.0, name.1).map(|r| &r.uid),
                Template::Other => return false,
            };
            let owner = row.digest.owner.as_ref();
            template.is_none_or(|uid| owner.is_some_and(|owner| owner != uid))
        });
        if !orphaned {
            self.hub.outlived.remove(name);
        } else if self.hub.outlived.insert(name.clone()) && self.hub_ready() {
            // Before that most bindings only wait for the list of their templates.
            let key = self.hub_key(TableId::Bindings, &name.0, &name.1);
            applied.enqueue([key]);
        }
    }

    /// Records that the deletion of a write-back was observed, as long as a projection has to follow it.
    fn record_end(&mut self, kind: KindId, name: &Name, ends: bool) {
        let (hub, instance) = name;
        let entry = ObjectRef::new(kind, hub, instance);
        let owning = self.owning(hub);
        let projected =
            owning.and_then(|(project, owner)| project.projections[kind].get(&owner.namespace, instance));
        if ends && projected.is_some() {
            self.intents.ended.insert(entry);
        } else if self.hub.write_backs[kind].get(hub, instance).is_some() {
            self.intents.ended.remove(&entry);
        }
    }

    fn hub_namespace_event(&mut self, event: WatchEvent) -> Applied {
        let (deltas, synced) = apply_event(
            &mut self.hub.namespaces,
            event,
            &mut self.words,
            HubNamespaceDigest::read,
        );
        let mut applied = Applied::synced(synced);
        for d in &deltas {
            let new = self.hub.namespaces.get("", &d.name.1);
            let changed = self.hub.secondary.namespace(&d.name.1, d.old.as_ref(), new);
            if let Some(label) = changed.fewer {
                applied.enqueue(self.limited_keys(&label, None));
            }
            if let Some((label, set)) = changed.new {
                applied.enqueue(self.limited_keys(&label, Some(&set)));
            }
        }
        if synced {
            self.resolve_all_owners(&mut applied);
        }
        let is_other = self.follow_identity(&mut applied);
        let had = |row: &Row<HubNamespaceDigest>| row.digest.project_uid.clone();
        let before: Vec<_> = deltas
            .iter()
            .map(|d| (d.name.1.clone(), d.old.as_ref().and_then(had)))
            .collect();
        applied.changes.extend(self.follow_teardown(synced, &before));
        for d in deltas {
            self.resolve_owner(&d.name.1, &mut applied);
            applied.changes.extend(hub_namespace_change(&d.name.1));
            if let Some(set) = d.old.and_then(|row| row.digest.cities) {
                self.forget_set(&set);
                applied.enqueue([self.hub_key(TableId::CitySets, "", &names::city_set_policy(&set))]);
            }
        }
        self.follow_hub_namespaces(is_other, &mut applied);
        applied
    }

    /// A city or location whose first cell joins, or whose last cell leaves, enqueues the deployments that use it; so does
    /// a change of the locations of a city.
    fn cluster_event(&mut self, event: WatchEvent) -> Applied {
        let key = self.cluster_label().to_owned();
        let kinds = self.kinds.clone();
        let were_known = self.cells_known();
        let (deltas, synced) = apply_event(&mut self.hub.clusters, event, &mut self.words, |o, words| {
            Cell::read(o, &key, &kinds, words)
        });
        let mut applied = Applied::synced(synced || were_known != self.cells_known());
        self.follow_clusters(&mut applied);
        for d in deltas {
            applied.changes.extend(self.member_change(&d));
            self.touched.cell(&d.name.1);
            let new = self.hub.clusters.get("", &d.name.1);
            let state = |row: &Row<Cell>| (row.digest.clone(), row.deleting);
            if new.map(state) != d.old.as_ref().map(state) {
                applied.changes.push(Change::Moves);
            }
            let changed = self.hub.secondary.places.cluster(d.old.as_ref(), new);
            if !changed.is_empty() {
                applied.changes.push(self.places_change(&changed));
            }
        }
        applied
    }

    fn city_set_event(&mut self, event: WatchEvent) -> Applied {
        let label = self.cluster_label().to_owned();
        let kinds = self.kinds.clone();
        let (deltas, synced) = apply_event(&mut self.hub.city_sets, event, &mut self.words, |o, _| {
            CitySet::read(o, &label, &kinds)
        });
        let mut applied = Applied::synced(synced);
        for d in deltas {
            let set: Arc<str> = names::city_set_of(&d.name.1).unwrap_or_default().into();
            let policy = self.hub.city_sets.get("", &d.name.1);
            if let Some(cities) = policy.and_then(|row| row.digest.cities.clone())
                && names::cities_of_set(&set).is_none()
            {
                self.hub.sets.insert(set.clone(), cities);
            }
            let users = self.hub.secondary.carrying(&set);
            applied.changes.extend(users.filter_map(hub_namespace_change));
            applied.enqueue([self.hub_key(TableId::CitySets, "", &d.name.1)]);
            // Namespaces that are to have this set may have waited for the deletion of its policy.
            applied.enqueue(self.namespace_keys_of_set(&set));
            if self.hub.city_sets.get("", &d.name.1).is_none() {
                self.forget_set(&set);
            }
        }
        applied
    }

    /// Drops the codes of a city set that has neither a policy nor a label left.
    fn forget_set(&mut self, set: &str) {
        let policy = names::city_set_policy(set);
        let known = self.hub.sets.contains_key(set)
            && (self.hub.city_sets.get("", &policy).is_some()
                || self.hub.secondary.carrying(set).next().is_some()
                || self.intents.deliveries.mentions(set));
        if !known {
            self.hub.sets.remove(set);
        }
    }

    fn interpreter_event(&mut self, event: WatchEvent) -> Applied {
        let (kinds, words) = (&self.kinds, &mut self.words);
        let (deltas, synced) = apply_event(&mut self.hub.interpreters, event, words, |o, words| {
            InterpreterDigest::read(o, kinds, words)
        });
        let mut applied = Applied::synced(synced);
        let concerned = deltas.iter().flat_map(|d| {
            // An interpreter that is gone may have been another client's for the kind of ours.
            let kind = d.old.as_ref().and_then(|old| old.digest.kind);
            let ours = kind.map(|kind| self.kinds[kind].interpreter.name.as_str());
            std::iter::once(&*d.name.1).chain(ours)
        });
        applied.enqueue(concerned.map(|name| self.hub_key(TableId::Interpreters, "", name)));
        applied
    }

    /// True if a reconcile that may need the body follows an event in a hub namespace, and drops the body
    /// afterwards.
    fn needs_body(&self, hub: &str, ready: impl Fn(&Self, &ProjectKey) -> bool) -> bool {
        let owner = self.owners.get(hub);
        owner.is_some_and(|owner| ready(self, &owner.project))
    }

    /// Drops all bodies of a hub namespace; they are read again when needed.
    pub(super) fn drop_bodies(&mut self, hub: &str) {
        for table in self.hub.copies.iter_mut() {
            table.drop_bodies(hub);
        }
        for table in self.hub.write_backs.iter_mut() {
            table.drop_bodies(hub);
        }
    }

    /// Drops the body of a deployment that cannot be decided on.
    pub fn drop_source(&mut self, key: &Key, project: &ProjectKey) {
        let table = self.table_of_kind(&key.kind);
        if let (Some(TableId::Federated(i)), Some(p)) = (table, self.projects.get_mut(project)) {
            p.sources[i].drop_body(&key.namespace, &key.name);
        }
    }

    /// Drops the body of a write-back that cannot be decided on.
    pub fn drop_write_back(&mut self, key: &Key) {
        if let Some(TableId::WrittenBack(i)) = self.table_of_kind(&key.kind) {
            self.hub.write_backs[i].drop_body(&key.namespace, &key.name);
        }
    }
}

/// The change of a Namespace on the hub; `None` if it is not of our form.
fn hub_namespace_change(name: &Arc<str>) -> Option<Change> {
    HubNamespace::parse(name)?;
    Some(Change::of_namespace(name, NamespaceNews::Object))
}
