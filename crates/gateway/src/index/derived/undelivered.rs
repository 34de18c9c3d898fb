//! Objects that are not yet where they are to go, by stage of their way, each with the time since when it has waited.
//!
//! A change of a row decides anew whether its object waits. The index compares digests; where an API server stores
//! something else than was written, the controller that knows this ends the wait by [`GatewayIndex::end_wait`].

use crate::index::{
    GatewayIndex, ObjectRef, Project,
    change::{Change, CopyNews, NamespaceNews, SourceChange},
    derived::project_hub::NamedHub,
    derived::summary::is_refused,
    rows::{HubCopy, Source, WriteBackDigest},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{clock::Now, diff::Digest, key::Plane, random::HashMap, store::table::Row};
use fedgate_kinds::{FederatedKind, KindId};
use fedgate_operations::Stage;
use jiff::Timestamp;
use std::sync::Arc;

/// The stages of a deployment.
const OF_DEPLOYMENT: [Stage; 3] = [Stage::ProjectToHub, Stage::HubToCell, Stage::HubStatusToProject];

/// True if only the leader knows a stage: its controllers know which differences an API server itself makes.
pub const fn is_of_leader(stage: Stage) -> bool {
    matches!(stage, Stage::HubStatusToProject | Stage::WritebackToProjection)
}

/// Since when an object has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Since {
    /// The time.
    pub at: Timestamp,
    /// True if it has waited for at least so long: this process has seen it waiting from its start.
    pub at_least: bool,
}

/// The time that an object's own fields prove; otherwise it counts from when the difference was seen.
type Proof = Option<i64>;

/// Objects of each stage: kind, hub namespace, name. The name is that of a deployment, or for the last stage that of an
/// Instance.
#[derive(Debug, Default)]
pub struct Undelivered([HashMap<ObjectRef, Since>; 4]);

impl Undelivered {
    /// The objects of a stage.
    pub fn of(&self, stage: Stage) -> &HashMap<ObjectRef, Since> {
        &self.0[stage as usize]
    }

    /// Since when an object has waited at a stage.
    pub fn since(&self, stage: Stage, object: &ObjectRef) -> Option<Since> {
        self.of(stage).get(object).copied()
    }

    fn set(&mut self, stage: Stage, object: &ObjectRef, waits: Option<Proof>, now: Now, at_least: bool) {
        let objects = &mut self.0[stage as usize];
        match waits {
            Some(proof) => {
                let seen = Since {
                    at: now.wall,
                    at_least,
                };
                let proven = proof.and_then(|second| Timestamp::from_second(second).ok());
                let since = proven.map_or(seen, |at| Since { at, at_least: false });
                let known = objects.entry(object.clone()).or_insert(since);
                // A later edit of an object that waits already does not make it younger.
                if since.at < known.at {
                    *known = since;
                }
            }
            None if !objects.is_empty() => {
                objects.remove(object);
                if objects.is_empty() {
                    objects.shrink_to_fit();
                }
            }
            None => {}
        }
    }

    /// Drops the objects of a hub namespace.
    pub(crate) fn forget(&mut self, hub: &str) {
        for objects in &mut self.0 {
            objects.retain(|object, _| *object.hub != *hub);
        }
    }
}

/// `lastTransitionTime` of `Federated`, if it is False for the present generation.
fn held_since(source: &Row<Source>) -> Proof {
    let condition = source.digest.status.condition("Federated")?;
    let holds = &*condition.status == "False" && condition.observed == Some(source.digest.generation);
    holds.then_some(condition.since)
}

fn is_current(source: &Row<Source>, copy: &Row<HubCopy>) -> bool {
    copy.digest.source_uid.as_ref() == Some(&source.uid)
        && copy.digest.source_generation >= Some(source.digest.generation)
}

/// An edit or deletion that the hub lacks.
fn to_hub(source: &Row<Source>, copy: Option<&Row<HubCopy>>) -> Option<Proof> {
    let own = copy.filter(|copy| copy.digest.source_uid.as_ref() == Some(&source.uid));
    if source.deleting {
        let is_held = source
            .digest
            .ending
            .as_ref()
            .is_some_and(|ending| ending.guard.is_some());
        let undone = !is_held && own.is_some_and(|copy| !copy.deleting);
        return undone.then(|| source.digest.deleted.map(Timestamp::as_second));
    }
    if is_refused(source) || own.is_some_and(|copy| is_current(source, copy)) {
        return None;
    }
    let never = own.is_none() && source.digest.status.condition("Federated").is_none();
    Some(held_since(source).or_else(|| never.then_some(source.digest.created())))
}

/// A copy that Karmada has not delivered.
fn to_cell(source: &Row<Source>, copy: Option<&Row<HubCopy>>, is_reported: bool) -> Option<Proof> {
    let waits = is_reported
        && !source.deleting
        && copy.is_some_and(|copy| is_current(source, copy))
        && !is_refused(source)
        && !source
            .digest
            .status
            .condition("Federated")
            .is_some_and(|had| &*had.status == "True" && had.observed == Some(source.digest.generation));
    waits.then(|| held_since(source))
}

/// A status that the project lacks.
fn to_project(source: &Row<Source>, copy: Option<&Row<HubCopy>>, kind: &FederatedKind) -> Option<Proof> {
    let copy = copy?;
    let waits = copy.digest.source_uid.as_ref() == Some(&source.uid)
        && copy.digest.source_generation >= Some(source.digest.generation)
        && copy.digest.status.reported
        && copy.digest.status.size <= kind.status.max_bytes
        && !source.deleting
        && !source.digest.status.is_returned(
            &copy.digest.status,
            &kind.status.own_conditions,
            source.digest.generation,
        );
    waits.then_some(None)
}

impl GatewayIndex {
    /// Ends the wait of an object at a stage: its controller has nothing to write.
    pub fn end_wait(&mut self, stage: Stage, object: &ObjectRef) {
        let now = self.clock.now();
        self.undelivered.set(stage, object, None, now, false);
    }

    /// Decides anew which objects wait, after these changes.
    pub(crate) fn track(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Source(SourceChange {
                    kind,
                    name,
                    hub: Some(hub),
                    ..
                }) => self.track_deployment(&ObjectRef::new(*kind, hub, name), false),
                Change::Copy {
                    copy,
                    news: news @ (CopyNews::Moved | CopyNews::Content),
                } => {
                    self.track_deployment(copy, false);
                    if *news == CopyNews::Moved {
                        self.track_instances_of(copy);
                    }
                }
                Change::Instance { instance, .. } => self.track_instance(instance, false),
                Change::HubNamespace {
                    hub,
                    news: NamespaceNews::Owner,
                } => self.track_namespace(hub, false),
                Change::Suspension { project } => self.track_plane(&Plane::Project(project.clone())),
                Change::ProjectNamespace { left: Some(hub), .. } => self.undelivered.forget(hub),
                _ => {}
            }
        }
    }

    /// Decides anew which objects of a plane wait, after one of its first lists was completed.
    pub(crate) fn track_plane(&mut self, plane: &Plane) {
        let hubs: Vec<Arc<str>> = match plane {
            Plane::Hub => self.owners.keys().cloned().collect(),
            Plane::Project(project) => {
                let namespaces = self.projects.get(project).into_iter();
                let rows = namespaces.flat_map(|project| project.namespaces.iter());
                let hubs = rows.map(|(_, row)| Self::hub_of(&row.uid));
                hubs.filter(|hub| self.is_owned_by(hub, project)).collect()
            }
            Plane::Cell | Plane::Home => Vec::new(),
        };
        for hub in hubs {
            self.track_namespace(&hub, true);
        }
    }

    fn track_namespace(&mut self, hub: &Arc<str>, at_least: bool) {
        let Some(owner) = self.owners.get(hub) else {
            return self.undelivered.forget(hub);
        };
        let Some(project) = self.projects.get(&owner.project) else {
            return;
        };
        if !self.specs_synced(&owner.project) {
            return;
        }
        let mut deployments: Vec<ObjectRef> = Vec::new();
        for (kind, table) in project.sources.enumerate() {
            let rows = table.in_namespace(&owner.namespace);
            deployments.extend(rows.map(|(name, _)| ObjectRef::new(kind, hub, name)));
        }
        let mut instances: Vec<ObjectRef> = Vec::new();
        for (kind, table) in self.hub.write_backs.enumerate() {
            let rows = table.in_namespace(hub);
            instances.extend(rows.map(|(name, _)| ObjectRef::new(kind, hub, name)));
        }
        for deployment in deployments {
            self.track_deployment(&deployment, at_least);
        }
        for instance in instances {
            self.track_instance(&instance, at_least);
        }
    }

    /// The project that a hub namespace belongs to, if its lists allow to compare with the hub's.
    fn comparable(&self, hub: &str, synced: fn(&Self, &ProjectKey) -> bool) -> Option<(&Project, &Arc<str>)> {
        let (project, owner) = self.owning(hub)?;
        synced(self, &owner.project).then_some((project, &owner.namespace))
    }

    fn track_deployment(&mut self, object: &ObjectRef, at_least: bool) {
        let ObjectRef { kind, hub, name } = object;
        let Some((project, namespace)) = self.comparable(hub, Self::specs_synced) else {
            return;
        };
        let source = project.sources[*kind].get(namespace, name);
        // A deployment that is left to another hub waits for nothing here, nor does an object that its member has ended.
        let pin = self.pin(*kind, hub, name);
        let is_ended = |row: &Row<Source>| {
            pin.is_some_and(|pin| pin.ended.is_some() && pin.source_uid == row.uid && !row.deleting)
        };
        let source = source.filter(|row| self.named_hub(project, namespace, row) != NamedHub::Other);
        let source = source.filter(|row| !is_ended(row));
        let copy = self.hub.copies[*kind].get(hub, name);
        let profile = &self.kinds[*kind];
        let own = &profile.status.own_conditions;
        let is_reported = own.iter().any(|condition| condition == "Federated");
        // A write that a suspended project refuses is no delay.
        let admitted =
            |waits: Option<Proof>, is_parked: bool| waits.filter(|_| !(project.suspended && is_parked));
        let waits = source.map(|source| {
            [
                admitted(to_hub(source, copy), copy.is_none()),
                to_cell(source, copy, is_reported),
                admitted(to_project(source, copy, profile), true),
            ]
        });
        let waits = waits.unwrap_or_default();
        let now = self.clock.now();
        for (stage, waits) in OF_DEPLOYMENT.into_iter().zip(waits) {
            self.undelivered.set(stage, object, waits, now, at_least);
        }
    }

    /// Decides anew of all write-backs of a deployment: the labels of their projections follow the copy.
    fn track_instances_of(&mut self, copy: &ObjectRef) {
        let ObjectRef { kind, hub, .. } = copy;
        let names: Vec<Arc<str>> = self.write_backs_of(copy).cloned().collect();
        for name in names {
            self.track_instance(&ObjectRef::new(*kind, hub, &name), false);
        }
    }

    /// The labels of a write-back's projection.
    fn projected_labels(&self, kind: KindId, hub: &str, written: &WriteBackDigest) -> Digest {
        let copy = |name: &Arc<str>| self.hub.copies[kind].get(hub, name);
        let copy = written.deployment.as_ref().and_then(copy);
        let rules = self.kinds[kind].write_back.as_ref();
        match (copy, rules) {
            (Some(copy), Some(rules)) => written.projected_labels(&copy.digest, rules),
            _ => written.labels,
        }
    }

    fn track_instance(&mut self, object: &ObjectRef, at_least: bool) {
        let ObjectRef { kind, hub, name } = object;
        let Some((project, namespace)) = self.comparable(hub, Self::is_complete) else {
            return;
        };
        let projection = project.projections[*kind].get(namespace, name);
        let write_back = self.hub.write_backs[*kind].get(hub, name);
        let is_left = |row: &Row<WriteBackDigest>| {
            let of = row.digest.deployment.as_deref();
            let source = of.and_then(|of| project.sources[*kind].get(namespace, of));
            source.is_some_and(|of| self.named_hub(project, namespace, of) == NamedHub::Other)
        };
        let waits = write_back
            .filter(|row| !is_left(row))
            .filter(|row| !row.digest.is_too_large() && !row.deleting && !project.suspended)
            .and_then(|row| {
                let Some(projection) = projection else {
                    return Some(Some(row.digest.created));
                };
                let (wanted, had) = (&row.digest, &projection.digest);
                let labels = self.projected_labels(*kind, hub, wanted);
                let same = (&labels, &wanted.spec, &wanted.status) == (&had.labels, &had.spec, &had.status);
                (!same).then_some(None)
            });
        let now = self.clock.now();
        self.undelivered
            .set(Stage::WritebackToProjection, object, waits, now, at_least);
    }
}
