//! Reads and records revisions. Recording is safe beside other users: each write carries the resourceVersion that it read.

use super::{ACTIVE, Actor, History, LAST, Revision, SCHEMA, Verb, hash, key, limits, name};
use crate::{
    diff,
    error::{Error, Kind},
    manifest::field_mut,
    plane::{FIELD_MANAGER, Plane, Resource},
    retry,
    view::Object,
};
use backon::Retryable;
use fedgate_api::API_VERSION;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Label of the ConfigMaps with revisions.
const LABEL: &str = "fedgate.dev/revision-history";
/// Annotation: name of the Workload.
pub(super) const WORKLOAD: &str = "fedgate.dev/workload";

/// Path of the owners of an object.
const OWNERS: &str = "/metadata/ownerReferences";

/// A change to be recorded.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// The action.
    pub(crate) verb: Verb,
    /// Number of the revision that `undo` copied.
    pub(crate) from: Option<u64>,
    /// The reason that the user gave.
    pub(crate) reason: &'a str,
    /// The Workload before the change; `None` if it did not exist.
    pub(crate) before: Option<&'a Object>,
    /// The Workload as the server stored it.
    pub(crate) after: &'a Object,
}

/// The ConfigMap of a Workload's revisions, if it belongs to this Workload and not to a former one of its name.
pub(crate) async fn find(plane: &Plane, workload: &Object) -> Result<Option<Object>, Error> {
    let found = plane.find(Resource::ConfigMaps, &name(workload.name())).await?;
    Ok(found.filter(|map| belongs(map, workload)))
}

/// The history of a Workload; empty if there is none that can be read.
pub(crate) async fn known(plane: &Plane, workload: &Object) -> History {
    let map = find(plane, workload).await.ok().flatten();
    map.map(|map| History::read(&map)).unwrap_or_default()
}

/// The history of a Workload; an error if there is none.
pub(crate) async fn load(plane: &Plane, workload: &Object) -> Result<History, Error> {
    let map = find(plane, workload).await?;
    let history = map.map(|map| History::read(&map)).unwrap_or_default();
    if history.revisions.is_empty() {
        let name = workload.name();
        return Err(
            Error::new(Kind::NotFound, format!("workload {name:?} has no history"))
                .next(format!("kubectl compute status {name}")),
        );
    }
    Ok(history)
}

/// Records a change; returns the number of the revision before it, if there is one, and its own.
pub(crate) async fn record(plane: &Plane, entry: &Entry<'_>) -> Result<(Option<u64>, u64), Error> {
    let user = plane.user().await;
    let attempt = || record_once(plane, entry, &user);
    let retried = attempt.retry(retry::conflicts());
    // Another user was faster, or has deleted the map.
    let is_overtaken = |error: &Error| matches!(error.kind, Kind::Conflict | Kind::NotFound);
    retried.when(is_overtaken).await
}

async fn record_once(plane: &Plane, entry: &Entry<'_>, user: &str) -> Result<(Option<u64>, u64), Error> {
    let kind = Resource::ConfigMaps;
    let mut found = plane.find(kind, &name(entry.after.name())).await?;
    if let Some(former) = found.take_if(|map| !belongs(map, entry.after)) {
        plane.delete(kind, &former, false).await?;
    }
    let exists = found.is_some();
    let mut map = found.unwrap_or_else(|| empty(entry.after));
    let number = add(&mut map, entry, user, plane.clock.now());
    let revisions = History::read(&map).revisions;
    plane.write(kind, map.0, exists).await?;
    let before = revisions.iter().map(|revision| revision.rev);
    Ok((before.filter(|rev| *rev < number).max(), number))
}

/// Deletes the history of a Workload that is gone. Its owner reference does the same, where something collects garbage.
pub(crate) async fn forget(plane: &Plane, workload: &Object) {
    if let Ok(Some(map)) = find(plane, workload).await {
        // A history that stays behind is begun anew by the next Workload of its name.
        let _ = plane.delete(Resource::ConfigMaps, &map, false).await;
    }
}

/// Adds the entry of a user to the map; returns its number.
pub(super) fn add(map: &mut Object, entry: &Entry<'_>, user: &str, now: Timestamp) -> u64 {
    let mut history = History::read(map);
    let data = field_mut(&mut map.0, &["data"]).take();
    let mut data: BTreeMap<String, String> = serde_json::from_value(data).unwrap_or_default();
    // A map that somebody has restored without its owner may count the generations of a former Workload.
    let is_restored = map.list(OWNERS).is_empty();
    if is_restored {
        *field_mut(&mut map.0, &["metadata", "ownerReferences"]) = json!([owner(entry.after)]);
    }
    if let Some(before) = entry.before
        && history.lacks(before)
    {
        let active = history.active().and_then(of_revision);
        let seen = Entry {
            verb: Verb::Observed,
            from: None,
            reason: "",
            before: active.as_ref(),
            after: before,
        };
        insert(&mut data, &mut history, &seen, "unknown", now);
    }
    let number = insert(&mut data, &mut history, entry, user, now);
    if is_restored {
        history.active = Some(number);
    }
    limits::prune(&mut data, &mut history);
    *field_mut(&mut map.0, &["data"]) = json!(data);
    for (annotation, number) in [(LAST, Some(history.last)), (ACTIVE, history.active)] {
        if let Some(number) = number {
            let path = ["metadata", "annotations", annotation];
            *field_mut(&mut map.0, &path) = json!(number.to_string());
        }
    }
    number
}

/// An object with the spec of a revision, for a difference.
fn of_revision(revision: &Revision) -> Option<Object> {
    let spec = revision.spec.clone()?;
    Some(Object(json!({"spec": spec})))
}

fn insert(
    data: &mut BTreeMap<String, String>,
    history: &mut History,
    entry: &Entry<'_>,
    user: &str,
    now: Timestamp,
) -> u64 {
    let spec = &entry.after.0["spec"];
    let (generation, spec_hash) = (entry.after.generation(), hash(spec));
    // Another user has recorded this very change as one that was only seen: its number stays, its author is known now.
    let seen = history.revisions.iter().position(|revision| {
        revision.verb == Verb::Observed
            && revision.generation == generation
            && revision.spec_hash == spec_hash
    });
    let rev = match seen {
        Some(at) => history.revisions.remove(at).rev,
        None => history.last.saturating_add(1),
    };
    let revision = limits::shrunk(Revision {
        schema: SCHEMA,
        rev,
        time: now,
        verb: entry.verb,
        from: entry.from,
        reason: entry.reason.to_owned(),
        actor: Actor {
            name: user.to_owned(),
            client: format!("{FIELD_MANAGER}/{}", env!("CARGO_PKG_VERSION")),
        },
        generation,
        spec_hash,
        image: entry.after.images(),
        changes: entry
            .before
            .map(|before| diff::spec_changes(&before.0["spec"], spec)),
        spec: Some(spec.clone()),
    });
    // A revision consists of texts, numbers and JSON, so it can always be written.
    data.insert(key(rev), serde_json::to_string(&revision).unwrap_or_default());
    history.last = history.last.max(rev);
    let newest = history
        .active()
        .is_none_or(|active| active.generation <= generation);
    if newest {
        history.active = Some(rev);
    }
    history.revisions.push(revision);
    history.revisions.sort_by_key(|revision| revision.rev);
    rev
}

fn empty(workload: &Object) -> Object {
    Object(json!({"metadata": {
        "name": name(workload.name()), "namespace": workload.text("/metadata/namespace"),
        "labels": {LABEL: "true"}, "annotations": {WORKLOAD: workload.name()},
        "ownerReferences": [owner(workload)]}}))
}

/// The Workload as owner. It neither controls the map nor is held by it, so the history goes with the Workload.
fn owner(workload: &Object) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "Workload", "name": workload.name(), "uid": workload.uid()})
}

/// True if the map has the Workload as an owner, or no owner at all: somebody may have restored it without.
pub(super) fn belongs(map: &Object, workload: &Object) -> bool {
    let owners = map.list(OWNERS);
    owners.is_empty() || owners.iter().any(|owner| owner["uid"] == *workload.uid())
}
