//! What comes in by watches and answers, and which keys it wakes.

use super::{
    Role, World,
    digest::{
        Binding, Cell, CityPolicy, CitySet, Companion, Copy, HubNamespaceDigest, InterpreterDigest, Payload,
        Projection, Source, Words, WriteBackDigest,
    },
    status::SIZE_LIMIT,
    ties::Refusal,
};
use crate::{
    api::names::{self, ProjectKey, is_label_value},
    engine::key::Key,
    kinds::CompanionKind,
    plane::{
        feed::{Delta, feed},
        table::Name,
        watch::Event,
    },
};
use kube::core::DynamicObject;
use std::sync::Arc;

/// Namespace whose UID stands for a project's where no platform gives one.
const PROJECT_MARK: &str = "kube-system";

/// Keys that an event wakes.
#[derive(Debug, Default)]
pub struct Woken {
    /// The keys.
    pub keys: Vec<Key>,
    /// A list of the plane was completed for the first time, or the project's UID is known from now on: everything of
    /// it may now be decided.
    pub synced: bool,
    /// Claims on hub namespaces that are refused from now on.
    pub refused: Vec<Refusal>,
}

impl Woken {
    fn synced(synced: bool) -> Self {
        Self {
            synced,
            ..Self::default()
        }
    }
}

impl World {
    /// Takes in an event of the hub.
    pub fn hub_event(&mut self, role: Role, event: Event) -> Woken {
        let kinds = self.kinds.clone();
        let words = &mut self.words;
        let mut woken = Woken::default();
        macro_rules! feed_table {
            ($table:expr, $read:expr) => {{
                let (deltas, first) = feed(&mut $table, event, words, $read);
                woken.synced = first;
                deltas
            }};
        }
        match role {
            Role::Namespaces => return self.hub_namespace_event(event),
            Role::Clusters => return self.cluster_event(event),
            Role::CitySets => return self.city_set_event(event),
            Role::Interpreters => return self.interpreter_event(event),
            Role::CityPolicies => {
                for d in feed_table!(self.hub.city_policies, |o, _| CityPolicy::read(o, &kinds)) {
                    woken.keys.push(self.hub_key(Role::CityPolicies, &d.name.0, ""));
                    // It may have been the last of an earlier life.
                    woken.keys.push(self.hub_key(Role::Namespaces, "", &d.name.0));
                    woken.keys.extend(self.source_keys(&d.name.0));
                    self.referenced_keys(&d.name.0, &mut woken.keys);
                }
            }
            Role::Bindings => {
                let deltas = feed_table!(self.hub.bindings, Binding::read);
                for d in &deltas {
                    let new = self.hub.bindings.get(&d.name.0, &d.name.1);
                    self.hub.index.binding(&d.name, d.old.as_ref(), new);
                    self.judge_binding(&d.name, &mut woken);
                }
                for d in deltas {
                    self.wake_for_binding(&d, &mut woken.keys);
                }
            }
            Role::ConfigMaps => return self.companion_event(CompanionKind::ConfigMap, event),
            Role::Secrets => return self.companion_event(CompanionKind::Secret, event),
            Role::Federated(i) => {
                let told = matches!(event, Event::Applied(_) | Event::Answered(_));
                let deltas = feed_table!(self.hub.copies[i], |o, words| Copy::read(o, &kinds[i], words));
                for d in &deltas {
                    let new = self.hub.copies[i].get(&d.name.0, &d.name.1);
                    self.hub.index.copy(i, &d.name, d.old.as_ref(), new);
                    if new.is_none() {
                        let copy = (i, d.name.0.clone(), d.name.1.clone());
                        self.hub.departed.remove(&copy);
                    }
                    if told {
                        self.copy_told(i, d, &mut woken.keys);
                    }
                    let binding = self.binding_name(i, &d.name.1);
                    self.judge_binding(&(d.name.0.clone(), binding.into()), &mut woken);
                }
                for d in deltas {
                    let copy = self.hub.copies[i].get(&d.name.0, &d.name.1);
                    let too_large = copy.is_some_and(|row| row.digest.status.size > SIZE_LIMIT);
                    if too_large || !self.heard(&d.name.0, Self::carries) {
                        self.hub.copies[i].drop_body(&d.name.0, &d.name.1);
                    }
                    self.wake_for_copy(i, &d, &mut woken.keys);
                }
            }
            Role::WrittenBack(i) => {
                let ends = matches!(event, Event::Deleted(_));
                let complete = matches!(event, Event::Complete);
                let deltas = feed_table!(self.hub.write_backs[i], |o, words| WriteBackDigest::read(
                    o, &kinds[i], words
                ));
                for d in &deltas {
                    let new = self.hub.write_backs[i].get(&d.name.0, &d.name.1);
                    self.hub.index.write_back(&d.name, d.old.as_ref(), new);
                    self.note_end(i, &d.name, ends);
                    self.written_back(i, d, &mut woken.keys);
                }
                if complete {
                    self.withhold(i, &deltas);
                }
                for d in deltas {
                    let row = self.hub.write_backs[i].get(&d.name.0, &d.name.1);
                    let heard = self.heard(&d.name.0, Self::is_complete);
                    if !heard || row.is_some_and(|row| row.digest.is_too_large()) {
                        self.hub.write_backs[i].drop_body(&d.name.0, &d.name.1);
                    }
                    self.wake_for_write_back(i, &d, &mut woken.keys);
                }
            }
            Role::Workloads | Role::Locations | Role::Networks => {}
        }
        woken
    }

    fn companion_event(&mut self, kind: CompanionKind, event: Event) -> Woken {
        let (table, suffix) = match kind {
            CompanionKind::ConfigMap => (&mut self.hub.config_maps, "configmap"),
            CompanionKind::Secret => (&mut self.hub.secrets, "secret"),
        };
        let (deltas, synced) = feed(table, event, &mut self.words, |o, _| Companion::read(o));
        for d in &deltas {
            let new = table.get(&d.name.0, &d.name.1);
            self.hub.index.companion(kind, &d.name, d.old.as_ref(), new);
        }
        let mut woken = Woken::synced(synced);
        for d in deltas {
            let binding = format!("{}-{suffix}", d.name.1).into();
            self.judge_binding(&(d.name.0.clone(), binding), &mut woken);
            self.wake_for_companion(kind, &d, &mut woken.keys);
        }
        woken
    }

    /// The table of the objects that a binding of this kind is made for, if they are of ours.
    pub fn template_role(&self, kind: &str) -> Option<Role> {
        match kind {
            "ConfigMap" => Some(Role::ConfigMaps),
            "Secret" => Some(Role::Secrets),
            _ => self
                .kinds
                .iter()
                .position(|k| *k.resource.kind == *kind)
                .map(Role::Federated),
        }
    }

    /// Notes whether a binding has lost the template that it was made for.
    fn judge_binding(&mut self, name: &Name, woken: &mut Woken) {
        let hub = &self.hub;
        let orphaned = hub.bindings.get(&name.0, &name.1).is_some_and(|row| {
            let template = match self.template_role(&row.digest.kind) {
                Some(Role::Federated(i)) => hub.copies[i].get(&name.0, &row.digest.name).map(|r| &r.uid),
                Some(Role::ConfigMaps) => hub.config_maps.get(&name.0, &row.digest.name).map(|r| &r.uid),
                Some(Role::Secrets) => hub.secrets.get(&name.0, &row.digest.name).map(|r| &r.uid),
                _ => return false,
            };
            let owner = row.digest.owner.as_ref();
            template.is_none_or(|uid| owner.is_some_and(|owner| owner != uid))
        });
        if !orphaned {
            self.hub.outlived.remove(name);
        } else if self.hub.outlived.insert(name.clone()) && self.hub_ready() {
            // Before that most of them only wait for the list of their templates.
            woken.keys.push(self.hub_key(Role::Bindings, &name.0, &name.1));
        }
    }

    /// Notes that a write-back was seen to go, as long as there is a projection that has to follow it.
    fn note_end(&mut self, kind: usize, name: &Name, ends: bool) {
        let (hub, instance) = name;
        let entry = (kind, hub.clone(), instance.clone());
        let projected = self.ties.get(hub).and_then(|tie| {
            let project = self.projects.get(&tie.project)?;
            project.projections[kind].get(&tie.namespace, instance)
        });
        if ends && projected.is_some() {
            self.hub.ended.insert(entry);
        } else if self.hub.write_backs[kind].get(hub, instance).is_some() {
            self.hub.ended.remove(&entry);
        }
    }

    /// Forgets that, once the projection is gone.
    fn forget_end(&mut self, kind: usize, project: &ProjectKey, hub: &str, name: &Name) {
        let project = self.projects.get(project);
        if project.is_some_and(|p| p.projections[kind].get(&name.0, &name.1).is_none()) {
            self.hub.ended.remove(&(kind, hub.into(), name.1.clone()));
        }
    }

    /// Notes that the deployment of a copy was seen to go.
    fn note_departure(&mut self, project: &ProjectKey, kind: usize, delta: &Delta<Source>) {
        let (Some(old), Some(hub)) = (&delta.old, self.hub_namespace(project, &delta.name.0)) else {
            return;
        };
        let copy = self.hub.copies[kind].get(hub.as_str(), &delta.name.1);
        if self.is_tied(hub.as_str(), project)
            && copy.is_some_and(|copy| copy.digest.source_uid.as_ref() == Some(&old.uid))
        {
            let copy = (kind, hub.as_str().into(), delta.name.1.clone());
            self.hub.departed.insert(copy, old.uid.clone());
        }
    }

    fn hub_namespace_event(&mut self, event: Event) -> Woken {
        let (deltas, synced) = feed(
            &mut self.hub.namespaces,
            event,
            &mut self.words,
            HubNamespaceDigest::read,
        );
        let mut woken = Woken::synced(synced);
        for d in &deltas {
            let new = self.hub.namespaces.get("", &d.name.1);
            let changed = self.hub.index.namespace(&d.name.1, d.old.as_ref(), new);
            if let Some(label) = changed.fewer {
                woken.keys.extend(self.limited_keys(&label));
            }
            if let Some((label, set)) = changed.new {
                woken.keys.extend(self.limited_keys_for(&label, &set));
            }
        }
        if synced {
            self.elect_all(&mut woken);
        }
        for d in deltas {
            self.elect(&d.name.1, &mut woken);
            self.wake_hub_namespace(&d.name.1, &mut woken.keys);
            if let Some(set) = d.old.and_then(|row| row.digest.cities) {
                let policy = crate::api::names::city_set_policy(&set);
                woken.keys.push(self.hub_key(Role::CitySets, "", &policy));
                self.forget_set(&set);
            }
        }
        woken
    }

    /// A city whose first cell joins, or whose last one leaves, wakes those that ask for it.
    fn cluster_event(&mut self, event: Event) -> Woken {
        let key = self.cluster_label().to_owned();
        let (deltas, synced) = feed(&mut self.hub.clusters, event, &mut self.words, |o, _| {
            Cell::read(o, &key)
        });
        let mut woken = Woken::synced(synced);
        for d in deltas {
            let new = self.hub.clusters.get("", &d.name.1);
            for city in self.hub.index.cluster(d.old.as_ref(), new) {
                self.wake_city(&city, &mut woken.keys);
            }
        }
        woken
    }

    fn city_set_event(&mut self, event: Event) -> Woken {
        let label = self.cluster_label().to_owned();
        let (deltas, synced) = feed(&mut self.hub.city_sets, event, &mut self.words, |o, _| {
            CitySet::read(o, &label)
        });
        let mut woken = Woken::synced(synced);
        for d in deltas {
            woken.keys.push(self.hub_key(Role::CitySets, "", &d.name.1));
            let set = d.name.1.strip_prefix("cities-").unwrap_or_default();
            let policy = self.hub.city_sets.get("", &d.name.1);
            if let Some(cities) = policy.and_then(|row| row.digest.cities.clone())
                && names::cities_of_set(set).is_none()
            {
                self.sets.insert(set.into(), cities);
            }
            let users: Vec<Arc<str>> = self.hub.index.carrying(set).cloned().collect();
            for name in users {
                self.wake_hub_namespace(&name, &mut woken.keys);
            }
            // Those that are to carry it may have waited for its end.
            woken.keys.extend(self.namespace_keys_of_set(set));
            if self.hub.city_sets.get("", &d.name.1).is_none() {
                self.forget_set(set);
            }
        }
        woken
    }

    /// Forgets the codes of a city set of which neither policy nor label is left.
    fn forget_set(&mut self, set: &str) {
        let policy = names::city_set_policy(set);
        let known = self.sets.contains_key(set)
            && (self.hub.city_sets.get("", &policy).is_some()
                || self.hub.index.carrying(set).next().is_some()
                || self.left_at.mentions(set));
        if !known {
            self.sets.remove(set);
        }
    }

    fn interpreter_event(&mut self, event: Event) -> Woken {
        let (kinds, words) = (&self.kinds, &mut self.words);
        let (deltas, synced) = feed(&mut self.hub.interpreters, event, words, |o, words| {
            InterpreterDigest::read(o, kinds, words)
        });
        let mut woken = Woken::synced(synced);
        for d in deltas {
            woken.keys.push(self.hub_key(Role::Interpreters, "", &d.name.1));
            if let Some(kind) = d.old.and_then(|o| o.digest.kind) {
                let ours = &self.kinds[kind].interpreter.name;
                woken.keys.push(self.hub_key(Role::Interpreters, "", ours));
            }
        }
        woken
    }

    /// Whether a turn follows an event in a hub namespace that may need the body, and drops it afterwards.
    fn heard(&self, hub: &str, ready: impl Fn(&Self, &ProjectKey) -> bool) -> bool {
        let tie = self.ties.get(hub);
        tie.is_some_and(|tie| ready(self, &tie.project))
    }

    /// Drops what is held of a hub namespace's bodies; who needs one reads it again.
    pub(super) fn drop_bodies(&mut self, hub: &str) {
        for table in &mut self.hub.copies {
            table.drop_bodies(hub);
        }
        for table in &mut self.hub.write_backs {
            table.drop_bodies(hub);
        }
    }

    /// Drops the body of a deployment that nobody can decide on.
    pub fn drop_source(&mut self, key: &Key, project: &ProjectKey) {
        let role = self.role_of(&key.kind);
        if let (Some(Role::Federated(i)), Some(p)) = (role, self.projects.get_mut(project)) {
            p.sources[i].drop_body(&key.namespace, &key.name);
        }
    }

    /// Drops the body of a write-back that nobody can decide on.
    pub fn drop_write_back(&mut self, key: &Key) {
        if let Some(Role::WrittenBack(i)) = self.role_of(&key.kind) {
            self.hub.write_backs[i].drop_body(&key.namespace, &key.name);
        }
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
                let (deltas, first) = feed(&mut $table, event, words, $read);
                woken.synced = first;
                deltas
            }};
        }
        match role {
            Role::Namespaces => {
                let deltas = feed_table!(project.namespaces, |_, _| ());
                let known = project.uid.clone();
                if let Some(mark) = project.namespaces.get("", PROJECT_MARK) {
                    project.uid = Some(mark.uid.clone()).filter(|uid| is_label_value(uid));
                }
                // Until then everything of the project waited for it, or was that of an earlier one of the name.
                woken.synced |= project.uid.is_some() && project.uid != known;
                for d in deltas {
                    self.tie(key, &d, &mut woken);
                }
                if woken.synced {
                    self.elect_all(&mut woken);
                }
            }
            Role::Workloads => {
                let read = |o: &DynamicObject, _: &mut Words| {
                    let mut kept = o.clone();
                    kept.metadata.managed_fields = None;
                    kept.metadata.annotations = None;
                    kept.metadata.resource_version = None;
                    serde_json::to_string(&kept).unwrap_or_default().into_boxed_str()
                };
                let deltas = feed_table!(project.workloads, read);
                for d in &deltas {
                    if let Some(old) = &d.old {
                        project.workloads_by_uid.remove(&old.uid);
                    }
                    if let Some(new) = project.workloads.get(&d.name.0, &d.name.1) {
                        project.workloads_by_uid.insert(new.uid.clone(), d.name.clone());
                    }
                }
                for d in deltas {
                    woken.keys.push(self.workload_key(key, &d.name.0, &d.name.1));
                }
            }
            Role::Locations => return self.location_event(key, event),
            Role::Networks => return self.network_event(key, event),
            Role::ConfigMaps => {
                for d in feed_table!(project.config_maps, |o, _| Payload::read(o)) {
                    self.wake_for_payload(key, CompanionKind::ConfigMap, &d.name, &mut woken.keys);
                }
            }
            Role::Secrets => {
                for d in feed_table!(project.secrets, |o, _| Payload::read(o)) {
                    self.wake_for_payload(key, CompanionKind::Secret, &d.name, &mut woken.keys);
                }
            }
            Role::Federated(i) => {
                let ends = matches!(event, Event::Deleted(_));
                let deltas = feed_table!(project.sources[i], |o, words| Source::read(o, &kinds[i], words));
                for d in &deltas {
                    let new = project.sources[i].get(&d.name.0, &d.name.1);
                    project.index.change(i, &d.name, d.old.as_ref(), new);
                }
                let (ready, largest) = (self.carries(key), self.largest_spec);
                for d in deltas {
                    if ends {
                        self.note_departure(key, i, &d);
                    }
                    if let Some(project) = self.projects.get_mut(key) {
                        let row = project.sources[i].get(&d.name.0, &d.name.1);
                        if !ready || row.is_some_and(|row| !row.digest.fits(largest)) {
                            project.sources[i].drop_body(&d.name.0, &d.name.1);
                        }
                    }
                    self.wake_for_source(key, i, &d, &mut woken.keys);
                }
            }
            Role::WrittenBack(i) => {
                for d in feed_table!(project.projections[i], |o, words| Projection::read(
                    o, &kinds[i], words
                )) {
                    if let Some(hub) = self.hub_namespace(key, &d.name.0) {
                        self.forget_end(i, key, hub.as_str(), &d.name);
                        woken
                            .keys
                            .push(self.hub_key(Role::WrittenBack(i), hub.as_str(), &d.name.1));
                    }
                }
            }
            Role::Clusters | Role::CitySets | Role::CityPolicies | Role::Bindings | Role::Interpreters => {}
        }
        woken
    }
}
