//! Applies watch events and answers to writes of projects to the index.

use super::{
    GatewayIndex, ObjectRef, Project, TableId,
    apply::Applied,
    change::Change,
    returned,
    rows::{Payload, Projection, Source, Strings, TEXTS_OF_PROJECT, WorkloadDigest},
};
use fedgate_api::{
    keys::PROJECT_IDENTITY,
    names::{ProjectKey, is_label_value},
};
use fedgate_engine::{
    plane::watch::WatchEvent,
    runtime::index::Defect,
    store::{
        apply::{RowChange, apply_event},
        table::Name,
    },
};
use fedgate_kinds::{CompanionKind, KindId};
use kube::core::DynamicObject;

/// A project that nothing identifies: none of its objects may be carried to the hub.
pub const NO_PROJECT_UID: Defect = Defect {
    word: "no_project_uid",
    text: "it has no namespace kube-system, whose UID identifies a project",
    next: "kubectl create namespace kube-system in the project, or take projects from Milo by --project-mode=milo",
};

impl GatewayIndex {
    /// Applies an event of a project.
    pub fn project_event(&mut self, key: &ProjectKey, table: TableId, event: WatchEvent) -> Applied {
        let kinds = self.kinds.clone();
        let mut applied = Applied::default();
        let (words, project) = (&mut self.words, self.projects.get_mut(key));
        let Some(project) = project else { return applied };
        macro_rules! feed_table {
            ($table:expr, $read:expr) => {{
                let (deltas, first) = apply_event(&mut $table, event, words, $read);
                applied.synced = first;
                deltas
            }};
        }
        match table {
            TableId::Namespaces => {
                let deltas = feed_table!(project.namespaces, |_, _| ());
                let (first, known) = (applied.synced, project.uid.clone());
                let mark = project.namespaces.get("", PROJECT_IDENTITY);
                if let Some(mark) = mark.filter(|_| !project.is_identified) {
                    project.uid = Some(mark.uid.clone()).filter(|uid| is_label_value(uid));
                }
                // Until then everything of the project waited for its UID, or belonged to an earlier project of the
                // name.
                applied.synced |= project.uid.is_some() && project.uid != known;
                log_uid(key, first, known.as_deref(), project);
                for d in &deltas {
                    project.recount_hubs(&d.name.1, d.old.as_ref().map(|row| &*row.uid));
                }
                for d in deltas {
                    self.claim_hub_namespace(key, &d, &mut applied);
                }
                if applied.synced {
                    self.resolve_all_owners(&mut applied);
                }
                self.follow_plane(key, known.as_ref(), &mut applied);
                self.follow_hub(key, &mut applied);
            }
            TableId::Workloads => return self.workload_event(key, event),
            TableId::Locations(kind) => return self.location_event(key, kind, event),
            TableId::Availabilities => return self.availability_event(key, event),
            TableId::Networks => return self.network_event(key, event),
            TableId::Platform(kind) => return self.platform_projection_event(key, kind, event),
            TableId::Returned => return self.returned_event(key, event),
            TableId::Companions(kind) => {
                let answer = (kind == CompanionKind::SECRET).then(|| returned::of_secrets(&kinds, &event));
                if let Some(answer) = answer.flatten() {
                    let changes = self.returned_event(key, answer).changes;
                    return self.secret_event(key, event, changes);
                }
                let read = |o: &DynamicObject, _: &mut Strings| Payload::read(o, kind);
                let deltas = feed_table!(project.referable[kind], read);
                let changes = deltas.into_iter().map(|d| payload_change(key, kind, d.name));
                applied.changes.extend(changes);
            }
            TableId::Federated(i) => return self.source_event(key, i, event),
            TableId::WrittenBack(i) => {
                for d in feed_table!(project.projections[i], |o, words| Projection::read(
                    o, &kinds[i], words
                )) {
                    if let Some(hub) = self.owned_hub_namespace(key, &d.name.0) {
                        self.forget_end(i, key, hub.as_str(), &d.name);
                        applied.changes.push(Change::Instance {
                            instance: ObjectRef::new(i, &hub.as_str().into(), &d.name.1),
                            moved: false,
                            is_write_back: false,
                        });
                    }
                }
            }
            TableId::Clusters
            | TableId::CitySets
            | TableId::CityPolicies
            | TableId::Bindings
            | TableId::Pins
            | TableId::Interpreters => {}
        }
        applied
    }

    fn workload_event(&mut self, key: &ProjectKey, event: WatchEvent) -> Applied {
        let Some(project) = self.projects.get_mut(key) else {
            return Applied::default();
        };
        let room = TEXTS_OF_PROJECT.saturating_sub(project.workload_texts);
        let read = |o: &DynamicObject, _: &mut Strings| WorkloadDigest::read(o, room);
        let (deltas, synced) = apply_event(&mut project.workloads, event, &mut self.words, read);
        let mut applied = Applied::synced(synced);
        let mut concerned = Vec::new();
        for d in deltas {
            if let Some(old) = &d.old {
                project.workloads_by_uid.remove(&old.uid);
                project.workload_texts -= old.digest.text_len();
            }
            if let Some(new) = project.workloads.get(&d.name.0, &d.name.1) {
                project.workloads_by_uid.insert(new.uid.clone(), d.name.clone());
                project.workload_texts += new.digest.text_len();
            }
            concerned.push(d.name);
        }
        if !concerned.is_empty() {
            self.touched.project(key);
        }
        let keys = concerned
            .iter()
            .map(|(namespace, name)| self.workload_key(key, namespace, name));
        applied.enqueue(keys);
        applied
    }

    fn source_event(&mut self, key: &ProjectKey, kind: KindId, event: WatchEvent) -> Applied {
        let Some(project) = self.projects.get_mut(key) else {
            return Applied::default();
        };
        let ends = matches!(event, WatchEvent::Delete(_));
        let (kinds, companions) = (&self.kinds, &self.companions);
        let (deltas, synced) = apply_event(&mut project.sources[kind], event, &mut self.words, |o, words| {
            Source::read(o, &kinds[kind], companions, words)
        });
        for d in &deltas {
            project.count_hub(kind, d);
            let new = project.sources[kind].get(&d.name.0, &d.name.1);
            let old = d.old.as_ref();
            project
                .secondary
                .change((kind, &self.companions), &d.name, old, new);
            self.by_place.change(key, &d.name.0, old, new);
            self.summary
                .source(key, &mut project.instances, (kind, &d.name), old, new);
        }
        let mut applied = Applied::synced(synced);
        let (ready, largest) = (self.specs_synced(key), self.largest_spec);
        for d in deltas {
            if ends {
                self.record_departure(key, kind, &d);
            }
            if let Some(project) = self.projects.get_mut(key) {
                let row = project.sources[kind].get(&d.name.0, &d.name.1);
                if !ready || row.is_some_and(|row| !row.digest.fits(largest)) {
                    project.sources[kind].drop_body(&d.name.0, &d.name.1);
                }
            }
            applied.changes.extend(self.source_changed(key, kind, &d));
        }
        self.follow_hub(key, &mut applied);
        applied
    }

    /// Records that the deletion of a copy's deployment was observed.
    fn record_departure(&mut self, project: &ProjectKey, kind: KindId, delta: &RowChange<Source>) {
        let (Some(old), Some(hub)) = (&delta.old, self.hub_namespace(project, &delta.name.0)) else {
            return;
        };
        let copy = self.hub.copies[kind].get(hub.as_str(), &delta.name.1);
        if self.is_owned_by(hub.as_str(), project)
            && copy.is_some_and(|copy| copy.digest.source_uid.as_ref() == Some(&old.uid))
        {
            let copy = ObjectRef::new(kind, &hub.as_str().into(), &delta.name.1);
            self.intents.departed.insert(copy, old.uid.clone());
        }
    }

    /// Drops that record once the projection is gone.
    fn forget_end(&mut self, kind: KindId, project: &ProjectKey, hub: &str, name: &Name) {
        let project = self.projects.get(project);
        if project.is_some_and(|p| p.projections[kind].get(&name.0, &name.1).is_none()) {
            self.intents
                .ended
                .remove(&ObjectRef::new(kind, &hub.into(), &name.1));
        }
    }
}

pub(super) fn payload_change(project: &ProjectKey, kind: CompanionKind, (namespace, name): Name) -> Change {
    Change::Payload {
        project: project.clone(),
        kind,
        namespace,
        name,
    }
}

/// Logs that a project is left out for want of a UID, and that it has got one.
fn log_uid(key: &ProjectKey, is_first_list: bool, known: Option<&str>, project: &Project) {
    match (known, project.uid.as_deref()) {
        (None, None) if is_first_list => {
            let Defect { text, next, .. } = NO_PROJECT_UID;
            tracing::warn!(project = %key, next, "nothing of the project is carried to the hub: {text}");
        }
        (None, Some(uid)) if !is_first_list && project.namespaces.synced() => {
            tracing::info!(project = %key, uid, "the project has its UID and is carried to the hub");
        }
        _ => {}
    }
}
