//! Applies watch events and answers to writes to the index, and returns the keys that they enqueue.

use super::{
    GatewayIndex, TableId,
    digest::{
        Binding, Cell, CityPolicy, CitySet, Companion, HubCopy, HubNamespaceDigest, InterpreterDigest,
        Payload, Projection, Source, Strings, WriteBackDigest,
    },
    ownership::RejectedClaim,
    status::SIZE_LIMIT,
};
use fedgate_api::names::{self, ProjectKey, is_label_value};
use fedgate_engine::{
    key::Key,
    plane::watch::WatchEvent,
    store::{
        apply::{RowChange, apply_event},
        table::Name,
    },
};
use fedgate_kinds::CompanionKind;
use kube::core::DynamicObject;
use std::sync::Arc;

/// Namespace whose UID identifies a project where no platform gives it one.
const PROJECT_MARK: &str = "kube-system";

/// Result of an event.
#[derive(Debug, Default)]
pub struct Change {
    /// The keys to enqueue.
    pub keys: Vec<Key>,
    /// True if a list of the plane was completed for the first time, or the project's UID became known: every
    /// object of the plane may now be decided on.
    pub synced: bool,
    /// Claims on hub namespaces that are rejected from now on.
    pub refused: Vec<RejectedClaim>,
}

impl Change {
    fn synced(synced: bool) -> Self {
        Self {
            synced,
            ..Self::default()
        }
    }
}

impl GatewayIndex {
    /// Applies an event of the hub.
    pub fn hub_event(&mut self, role: TableId, event: WatchEvent) -> Change {
        let kinds = self.kinds.clone();
        let words = &mut self.words;
        let mut change = Change::default();
        macro_rules! feed_table {
            ($table:expr, $read:expr) => {{
                let (deltas, first) = apply_event(&mut $table, event, words, $read);
                change.synced = first;
                deltas
            }};
        }
        match role {
            TableId::Namespaces => return self.hub_namespace_event(event),
            TableId::Clusters => return self.cluster_event(event),
            TableId::CitySets => return self.city_set_event(event),
            TableId::Interpreters => return self.interpreter_event(event),
            TableId::CityPolicies => {
                for d in feed_table!(self.hub.city_policies, |o, _| CityPolicy::read(o, &kinds)) {
                    change
                        .keys
                        .push(self.hub_key(TableId::CityPolicies, &d.name.0, ""));
                    // The object may have been the last one of an earlier owner.
                    change.keys.push(self.hub_key(TableId::Namespaces, "", &d.name.0));
                    change.keys.extend(self.source_keys(&d.name.0));
                    self.referenced_keys(&d.name.0, &mut change.keys);
                }
            }
            TableId::Bindings => {
                let deltas = feed_table!(self.hub.bindings, Binding::read);
                for d in &deltas {
                    let new = self.hub.bindings.get(&d.name.0, &d.name.1);
                    self.hub.secondary.binding(&d.name, d.old.as_ref(), new);
                    self.track_orphaned_binding(&d.name, &mut change);
                }
                for d in deltas {
                    self.enqueue_for_binding(&d, &mut change.keys);
                }
            }
            TableId::ConfigMaps => return self.companion_event(CompanionKind::ConfigMap, event),
            TableId::Secrets => return self.companion_event(CompanionKind::Secret, event),
            TableId::Federated(i) => {
                let told = matches!(event, WatchEvent::Apply(_) | WatchEvent::Written(_));
                let deltas = feed_table!(self.hub.copies[i], |o, words| HubCopy::read(o, &kinds[i], words));
                for d in &deltas {
                    let new = self.hub.copies[i].get(&d.name.0, &d.name.1);
                    self.hub.secondary.copy(i, &d.name, d.old.as_ref(), new);
                    if new.is_none() {
                        let copy = (i, d.name.0.clone(), d.name.1.clone());
                        self.hub.departed.remove(&copy);
                    }
                    if told {
                        self.copy_reported(i, d, &mut change.keys);
                    }
                    let binding = self.binding_name(i, &d.name.1);
                    self.track_orphaned_binding(&(d.name.0.clone(), binding.into()), &mut change);
                }
                for d in deltas {
                    let copy = self.hub.copies[i].get(&d.name.0, &d.name.1);
                    let too_large = copy.is_some_and(|row| row.digest.status.size > SIZE_LIMIT);
                    if too_large || !self.heard(&d.name.0, Self::specs_synced) {
                        self.hub.copies[i].drop_body(&d.name.0, &d.name.1);
                    }
                    self.enqueue_for_copy(i, &d, &mut change.keys);
                }
            }
            TableId::WrittenBack(i) => {
                let ends = matches!(event, WatchEvent::Delete(_));
                let complete = matches!(event, WatchEvent::InitDone);
                let deltas = feed_table!(self.hub.write_backs[i], |o, words| WriteBackDigest::read(
                    o, &kinds[i], words
                ));
                for d in &deltas {
                    let new = self.hub.write_backs[i].get(&d.name.0, &d.name.1);
                    self.hub.secondary.write_back(&d.name, d.old.as_ref(), new);
                    self.record_end(i, &d.name, ends);
                    self.written_back(i, d, &mut change.keys);
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
                    self.enqueue_for_write_back(i, &d, &mut change.keys);
                }
            }
            TableId::Workloads | TableId::Locations | TableId::Networks => {}
        }
        change
    }

    fn companion_event(&mut self, kind: CompanionKind, event: WatchEvent) -> Change {
        let (table, suffix) = match kind {
            CompanionKind::ConfigMap => (&mut self.hub.config_maps, "configmap"),
            CompanionKind::Secret => (&mut self.hub.secrets, "secret"),
        };
        let (deltas, synced) = apply_event(table, event, &mut self.words, |o, _| Companion::read(o));
        for d in &deltas {
            let new = table.get(&d.name.0, &d.name.1);
            self.hub.secondary.companion(kind, &d.name, d.old.as_ref(), new);
        }
        let mut change = Change::synced(synced);
        for d in deltas {
            let binding = format!("{}-{suffix}", d.name.1).into();
            self.track_orphaned_binding(&(d.name.0.clone(), binding), &mut change);
            self.enqueue_for_companion(kind, &d, &mut change.keys);
        }
        change
    }

    /// The table of the template of a binding of this kind, if that kind is ours.
    pub fn template_role(&self, kind: &str) -> Option<TableId> {
        match kind {
            "ConfigMap" => Some(TableId::ConfigMaps),
            "Secret" => Some(TableId::Secrets),
            _ => self
                .kinds
                .iter()
                .position(|k| *k.resource.kind == *kind)
                .map(TableId::Federated),
        }
    }

    /// Records whether a binding has lost its template.
    fn track_orphaned_binding(&mut self, name: &Name, change: &mut Change) {
        let hub = &self.hub;
        let orphaned = hub.bindings.get(&name.0, &name.1).is_some_and(|row| {
            let template = match self.template_role(&row.digest.kind) {
                Some(TableId::Federated(i)) => hub.copies[i].get(&name.0, &row.digest.name).map(|r| &r.uid),
                Some(TableId::ConfigMaps) => hub.config_maps.get(&name.0, &row.digest.name).map(|r| &r.uid),
                Some(TableId::Secrets) => hub.secrets.get(&name.0, &row.digest.name).map(|r| &r.uid),
                _ => return false,
            };
            let owner = row.digest.owner.as_ref();
            template.is_none_or(|uid| owner.is_some_and(|owner| owner != uid))
        });
        if !orphaned {
            self.hub.outlived.remove(name);
        } else if self.hub.outlived.insert(name.clone()) && self.hub_ready() {
            // Before that most bindings only wait for the list of their templates.
            change
                .keys
                .push(self.hub_key(TableId::Bindings, &name.0, &name.1));
        }
    }

    /// Records that the deletion of a write-back was observed, as long as a projection has to follow it.
    fn record_end(&mut self, kind: usize, name: &Name, ends: bool) {
        let (hub, instance) = name;
        let entry = (kind, hub.clone(), instance.clone());
        let projected = self.owners.get(hub).and_then(|owner| {
            let project = self.projects.get(&owner.project)?;
            project.projections[kind].get(&owner.namespace, instance)
        });
        if ends && projected.is_some() {
            self.hub.ended.insert(entry);
        } else if self.hub.write_backs[kind].get(hub, instance).is_some() {
            self.hub.ended.remove(&entry);
        }
    }

    /// Drops that record once the projection is gone.
    fn forget_end(&mut self, kind: usize, project: &ProjectKey, hub: &str, name: &Name) {
        let project = self.projects.get(project);
        if project.is_some_and(|p| p.projections[kind].get(&name.0, &name.1).is_none()) {
            self.hub.ended.remove(&(kind, hub.into(), name.1.clone()));
        }
    }

    /// Records that the deletion of a copy's deployment was observed.
    fn record_departure(&mut self, project: &ProjectKey, kind: usize, delta: &RowChange<Source>) {
        let (Some(old), Some(hub)) = (&delta.old, self.hub_namespace(project, &delta.name.0)) else {
            return;
        };
        let copy = self.hub.copies[kind].get(hub.as_str(), &delta.name.1);
        if self.is_owned_by(hub.as_str(), project)
            && copy.is_some_and(|copy| copy.digest.source_uid.as_ref() == Some(&old.uid))
        {
            let copy = (kind, hub.as_str().into(), delta.name.1.clone());
            self.hub.departed.insert(copy, old.uid.clone());
        }
    }

    fn hub_namespace_event(&mut self, event: WatchEvent) -> Change {
        let (deltas, synced) = apply_event(
            &mut self.hub.namespaces,
            event,
            &mut self.words,
            HubNamespaceDigest::read,
        );
        let mut change = Change::synced(synced);
        for d in &deltas {
            let new = self.hub.namespaces.get("", &d.name.1);
            let changed = self.hub.secondary.namespace(&d.name.1, d.old.as_ref(), new);
            if let Some(label) = changed.fewer {
                change.keys.extend(self.limited_keys(&label));
            }
            if let Some((label, set)) = changed.new {
                change.keys.extend(self.limited_keys_for(&label, &set));
            }
        }
        if synced {
            self.resolve_all_owners(&mut change);
        }
        for d in deltas {
            self.resolve_owner(&d.name.1, &mut change);
            self.enqueue_hub_namespace(&d.name.1, &mut change.keys);
            if let Some(set) = d.old.and_then(|row| row.digest.cities) {
                let policy = fedgate_api::names::city_set_policy(&set);
                change.keys.push(self.hub_key(TableId::CitySets, "", &policy));
                self.forget_set(&set);
            }
        }
        change
    }

    /// A city whose first cell joins, or whose last cell leaves, enqueues the deployments that use it.
    fn cluster_event(&mut self, event: WatchEvent) -> Change {
        let key = self.cluster_label().to_owned();
        let (deltas, synced) = apply_event(&mut self.hub.clusters, event, &mut self.words, |o, _| {
            Cell::read(o, &key)
        });
        let mut change = Change::synced(synced);
        for d in deltas {
            let new = self.hub.clusters.get("", &d.name.1);
            for city in self.hub.secondary.cluster(d.old.as_ref(), new) {
                self.enqueue_city(&city, &mut change.keys);
            }
        }
        change
    }

    fn city_set_event(&mut self, event: WatchEvent) -> Change {
        let label = self.cluster_label().to_owned();
        let (deltas, synced) = apply_event(&mut self.hub.city_sets, event, &mut self.words, |o, _| {
            CitySet::read(o, &label)
        });
        let mut change = Change::synced(synced);
        for d in deltas {
            change.keys.push(self.hub_key(TableId::CitySets, "", &d.name.1));
            let set = d.name.1.strip_prefix("cities-").unwrap_or_default();
            let policy = self.hub.city_sets.get("", &d.name.1);
            if let Some(cities) = policy.and_then(|row| row.digest.cities.clone())
                && names::cities_of_set(set).is_none()
            {
                self.sets.insert(set.into(), cities);
            }
            let users: Vec<Arc<str>> = self.hub.secondary.carrying(set).cloned().collect();
            for name in users {
                self.enqueue_hub_namespace(&name, &mut change.keys);
            }
            // Namespaces that are to have this set may have waited for its deletion.
            change.keys.extend(self.namespace_keys_of_set(set));
            if self.hub.city_sets.get("", &d.name.1).is_none() {
                self.forget_set(set);
            }
        }
        change
    }

    /// Drops the codes of a city set that has neither a policy nor a label left.
    fn forget_set(&mut self, set: &str) {
        let policy = names::city_set_policy(set);
        let known = self.sets.contains_key(set)
            && (self.hub.city_sets.get("", &policy).is_some()
                || self.hub.secondary.carrying(set).next().is_some()
                || self.deliveries.mentions(set));
        if !known {
            self.sets.remove(set);
        }
    }

    fn interpreter_event(&mut self, event: WatchEvent) -> Change {
        let (kinds, words) = (&self.kinds, &mut self.words);
        let (deltas, synced) = apply_event(&mut self.hub.interpreters, event, words, |o, words| {
            InterpreterDigest::read(o, kinds, words)
        });
        let mut change = Change::synced(synced);
        for d in deltas {
            change
                .keys
                .push(self.hub_key(TableId::Interpreters, "", &d.name.1));
            if let Some(kind) = d.old.and_then(|o| o.digest.kind) {
                let ours = &self.kinds[kind].interpreter.name;
                change.keys.push(self.hub_key(TableId::Interpreters, "", ours));
            }
        }
        change
    }

    /// True if a reconcile that may need the body follows an event in a hub namespace, and drops the body
    /// afterwards.
    fn heard(&self, hub: &str, ready: impl Fn(&Self, &ProjectKey) -> bool) -> bool {
        let owner = self.owners.get(hub);
        owner.is_some_and(|owner| ready(self, &owner.project))
    }

    /// Drops all bodies of a hub namespace; they are read again when needed.
    pub(super) fn drop_bodies(&mut self, hub: &str) {
        for table in &mut self.hub.copies {
            table.drop_bodies(hub);
        }
        for table in &mut self.hub.write_backs {
            table.drop_bodies(hub);
        }
    }

    /// Drops the body of a deployment that cannot be decided on.
    pub fn drop_source(&mut self, key: &Key, project: &ProjectKey) {
        let role = self.role_of(&key.kind);
        if let (Some(TableId::Federated(i)), Some(p)) = (role, self.projects.get_mut(project)) {
            p.sources[i].drop_body(&key.namespace, &key.name);
        }
    }

    /// Drops the body of a write-back that cannot be decided on.
    pub fn drop_write_back(&mut self, key: &Key) {
        if let Some(TableId::WrittenBack(i)) = self.role_of(&key.kind) {
            self.hub.write_backs[i].drop_body(&key.namespace, &key.name);
        }
    }

    /// Applies an event of a project.
    pub fn project_event(&mut self, key: &ProjectKey, role: TableId, event: WatchEvent) -> Change {
        let kinds = self.kinds.clone();
        let mut change = Change::default();
        let (words, project) = (&mut self.words, self.projects.get_mut(key));
        let Some(project) = project else { return change };
        macro_rules! feed_table {
            ($table:expr, $read:expr) => {{
                let (deltas, first) = apply_event(&mut $table, event, words, $read);
                change.synced = first;
                deltas
            }};
        }
        match role {
            TableId::Namespaces => {
                let deltas = feed_table!(project.namespaces, |_, _| ());
                let known = project.uid.clone();
                if let Some(mark) = project.namespaces.get("", PROJECT_MARK) {
                    project.uid = Some(mark.uid.clone()).filter(|uid| is_label_value(uid));
                }
                // Until then everything of the project waited for its UID, or belonged to an earlier project of the
                // name.
                change.synced |= project.uid.is_some() && project.uid != known;
                for d in deltas {
                    self.claim_hub_namespace(key, &d, &mut change);
                }
                if change.synced {
                    self.resolve_all_owners(&mut change);
                }
            }
            TableId::Workloads => {
                let read = |o: &DynamicObject, _: &mut Strings| {
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
                    change.keys.push(self.workload_key(key, &d.name.0, &d.name.1));
                }
            }
            TableId::Locations => return self.location_event(key, event),
            TableId::Networks => return self.network_event(key, event),
            TableId::ConfigMaps => {
                for d in feed_table!(project.config_maps, |o, _| Payload::read(o)) {
                    self.enqueue_for_payload(key, CompanionKind::ConfigMap, &d.name, &mut change.keys);
                }
            }
            TableId::Secrets => {
                for d in feed_table!(project.secrets, |o, _| Payload::read(o)) {
                    self.enqueue_for_payload(key, CompanionKind::Secret, &d.name, &mut change.keys);
                }
            }
            TableId::Federated(i) => {
                let ends = matches!(event, WatchEvent::Delete(_));
                let deltas = feed_table!(project.sources[i], |o, words| Source::read(o, &kinds[i], words));
                for d in &deltas {
                    let new = project.sources[i].get(&d.name.0, &d.name.1);
                    project.secondary.change(i, &d.name, d.old.as_ref(), new);
                }
                let (ready, largest) = (self.specs_synced(key), self.largest_spec);
                for d in deltas {
                    if ends {
                        self.record_departure(key, i, &d);
                    }
                    if let Some(project) = self.projects.get_mut(key) {
                        let row = project.sources[i].get(&d.name.0, &d.name.1);
                        if !ready || row.is_some_and(|row| !row.digest.fits(largest)) {
                            project.sources[i].drop_body(&d.name.0, &d.name.1);
                        }
                    }
                    self.enqueue_for_source(key, i, &d, &mut change.keys);
                }
            }
            TableId::WrittenBack(i) => {
                for d in feed_table!(project.projections[i], |o, words| Projection::read(
                    o, &kinds[i], words
                )) {
                    if let Some(hub) = self.hub_namespace(key, &d.name.0) {
                        self.forget_end(i, key, hub.as_str(), &d.name);
                        change
                            .keys
                            .push(self.hub_key(TableId::WrittenBack(i), hub.as_str(), &d.name.1));
                    }
                }
            }
            TableId::Clusters
            | TableId::CitySets
            | TableId::CityPolicies
            | TableId::Bindings
            | TableId::Interpreters => {}
        }
        change
    }
}
