//! Secrets that have come back from members, in the index.

use super::{
    GatewayIndex, ObjectRef, Project, apply::Applied, apply_project, change::Change, rows::OwnReturn,
    rows::Payload, rows::Returned,
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::{Key, Kind, Plane},
    plane::watch::WatchEvent,
    store::{apply::apply_event, table::Row},
};
use fedgate_kinds::{CompanionKind, FederatedKind, KindId, PerKind};
use kube::core::DynamicObject;
use std::sync::Arc;

impl GatewayIndex {
    /// True if Secrets of a federated kind come back from members.
    pub fn has_returns(&self) -> bool {
        has_returns(&self.kinds)
    }

    /// True if the lists of what has come back are complete, on the hub and in a project.
    pub fn returns_listed(&self, project: &ProjectKey) -> bool {
        let of = self.projects.get(project);
        self.hub.returned.synced() && of.is_some_and(|of| of.returned.synced())
    }

    /// Kind and name of the object that the labels of a returned Secret name.
    pub fn object_of_return(&self, secret: &Returned) -> Option<(KindId, Arc<str>)> {
        let kind = self.kinds.position(|kind| {
            !kind.returns.is_empty() && secret.kind.as_deref() == Some(Kind::of(&kind.resource).as_str())
        });
        kind.zip(secret.object.clone())
    }

    /// Whether the object of a returned Secret names it; `None` if the object is not at this member.
    fn names(&self, (hub, member, name): (&str, &str, &str), secret: &Returned) -> Option<bool> {
        let (kind, object) = self.object_of_return(secret)?;
        self.pin(kind, hub, &object)
            .filter(|pin| *pin.member == *member)?;
        let copy = self.hub.copies[kind].get(hub, &object);
        let named = copy.and_then(|copy| copy.digest.returning.as_deref());
        Some(named.is_some_and(|named| named.names().flatten().any(|named| **named == *name)))
    }

    /// The Secret that members have returned under a name, and its member. That of the owner of the project's Secret comes before
    /// all others, also while its status names none for a moment, because another member would take the name over; then one that
    /// an object at its member names. While the project has one, no others count.
    pub fn returned(
        &self,
        hub: &str,
        name: &str,
        own: Option<&Row<OwnReturn>>,
    ) -> Option<(Arc<str>, Row<Returned>)> {
        let owner = own.and_then(|own| Some(&own.digest.owner.as_ref()?.name));
        let beginning = format!("{name}/");
        let rows = self.hub.returned.beginning_with(hub, &beginning);
        let rows = rows.map(|(row, secret)| {
            let member = &row[beginning.len()..];
            let names = self.names((hub, member, name), &secret.digest);
            let is_owners = names.is_some() && secret.digest.object.as_ref() == owner;
            ((is_owners, names == Some(true)), member, secret)
        });
        let (rank, member, secret) = rows.max_by_key(|(rank, ..)| *rank)?;
        (rank.0 || rank.1 || own.is_none()).then(|| (member.into(), secret.clone()))
    }

    /// The Secrets that members have returned to a hub namespace, each with its name in the project.
    fn returned_in(&self, hub: &str) -> impl Iterator<Item = (&str, &Row<Returned>)> {
        let rows = self.hub.returned.in_namespace(hub);
        rows.filter_map(|(row, secret)| Some((row.split_once('/')?.0, secret)))
    }

    /// The key of a Secret in the project namespace that owns a hub namespace.
    pub fn return_key(&self, hub: &str, name: &str) -> Option<Key> {
        let owner = self.owners.get(hub)?;
        let kind: Kind = self.kind_of(super::TableId::Returned);
        let plane = Plane::Project(owner.project.clone());
        Some(Key::new(plane, kind, &owner.namespace, name))
    }

    /// Adds the keys of what has come back for a hub namespace, on either plane.
    pub fn return_keys(&self, hub: &str, keys: &mut Vec<Key>) {
        if !self.has_returns() {
            return;
        }
        let on_hub = self.returned_in(hub).map(|(name, _)| name);
        keys.extend(on_hub.filter_map(|name| self.return_key(hub, name)));
        if let Some((project, owner)) = self.owning(hub) {
            let names = project
                .returned
                .in_namespace(&owner.namespace)
                .map(|(name, _)| name);
            keys.extend(names.filter_map(|name| self.return_key(hub, name)));
        }
    }

    /// Adds the keys of what comes back for an object: what it names now, and what is there.
    pub fn return_keys_of(&self, ObjectRef { kind, hub, name }: &ObjectRef, keys: &mut Vec<Key>) {
        let rules = &self.kinds[*kind];
        if rules.returns.is_empty() {
            return;
        }
        let copy = self.hub.copies[*kind].get(hub, name);
        let named = copy.and_then(|copy| copy.digest.returning.as_deref());
        let named = named
            .into_iter()
            .flat_map(|returning| returning.names().flatten());
        keys.extend(named.filter_map(|secret| self.return_key(hub, secret)));
        let on_hub = self.returned_in(hub);
        let on_hub = on_hub.filter(|(_, row)| row.digest.object.as_ref() == Some(name));
        keys.extend(on_hub.filter_map(|(secret, _)| self.return_key(hub, secret)));
        if let Some((project, owner)) = self.owning(hub) {
            let there = project.returned.in_namespace(&owner.namespace);
            let there = there.filter(|(_, row)| {
                let mut owner = row.digest.owner.iter();
                row.digest.is_of(rules) && owner.any(|owner| owner.name == *name)
            });
            keys.extend(there.filter_map(|(secret, _)| self.return_key(hub, secret)));
        }
    }

    /// Applies an event of the Secrets that members have returned to the hub. A row is called `<name>/<member>`, so that the rows of
    /// all members for one name stand together.
    pub(super) fn hub_returned_event(&mut self, mut event: WatchEvent) -> Applied {
        use WatchEvent::{Apply, Delete, InitApply, Written};
        if let InitApply(object) | Apply(object) | Written(object) | Delete(object) = &mut event {
            let on_hub = object.metadata.name.take().unwrap_or_default();
            let parts = on_hub.split_once('.');
            object.metadata.name = parts.map(|(member, name)| format!("{name}/{member}"));
        }
        let (deltas, synced) = apply_event(&mut self.hub.returned, event, &mut self.words, Returned::read);
        let mut applied = Applied::synced(synced);
        let keys = deltas.iter().filter_map(|d| {
            let (name, _) = d.name.1.split_once('/')?;
            self.return_key(&d.name.0, name)
        });
        applied.enqueue(keys);
        applied
    }

    /// Applies an event of what has come back to a project.
    pub(super) fn returned_event(&mut self, key: &ProjectKey, event: WatchEvent) -> Applied {
        let Some(project) = self.projects.get_mut(key) else {
            return Applied::default();
        };
        let (deltas, synced) = apply_event(&mut project.returned, event, &mut self.words, OwnReturn::read);
        let mut applied = Applied::synced(synced);
        let keys = deltas.iter().filter_map(|d| {
            let hub = self.hub_namespace(key, &d.name.0)?;
            self.return_key(hub.as_str(), &d.name.1)
        });
        applied.enqueue(keys);
        applied
    }

    /// Applies the answer to a write of what comes back to the Secrets of a project, after its other changes.
    pub(super) fn secret_event(
        &mut self,
        key: &ProjectKey,
        event: WatchEvent,
        changes: Vec<Change>,
    ) -> Applied {
        let mut applied = Applied {
            changes,
            ..Applied::default()
        };
        // Without a watch nothing would take the row out again.
        let ends = matches!(event, WatchEvent::Delete(_));
        let takes = |of: &&mut Project| {
            ends || of.references_watched.contains(CompanionKind::SECRET)
                || of.referable[CompanionKind::SECRET].synced()
        };
        let project = self.projects.get_mut(key).filter(takes);
        if let Some(project) = project {
            let read = |object: &DynamicObject, _: &mut _| Payload::read(object, CompanionKind::SECRET);
            let (deltas, synced) = apply_event(
                &mut project.referable[CompanionKind::SECRET],
                event,
                &mut self.words,
                read,
            );
            applied.synced = synced;
            let of_secret = |name| apply_project::payload_change(key, CompanionKind::SECRET, name);
            applied
                .changes
                .extend(deltas.into_iter().map(|d| of_secret(d.name)));
        }
        applied
    }
}

fn has_returns(kinds: &PerKind<FederatedKind>) -> bool {
    kinds.iter().any(|kind| !kind.returns.is_empty())
}

/// The event for the Secrets that have come back which is in one of all Secrets of a project: an answer comes to the table of all Secrets,
/// whose objects tell the others' ends, too.
pub(super) fn of_secrets(kinds: &PerKind<FederatedKind>, event: &WatchEvent) -> Option<WatchEvent> {
    if !has_returns(kinds) {
        return None;
    }
    match event {
        WatchEvent::Written(object) => {
            let labels = object.metadata.labels.as_ref();
            let is_returned = labels.and_then(|labels| labels.get(keys::RETURNED));
            is_returned.map(|_| WatchEvent::Written(object.clone()))
        }
        WatchEvent::Delete(object) => Some(WatchEvent::Delete(object.clone())),
        _ => None,
    }
}
