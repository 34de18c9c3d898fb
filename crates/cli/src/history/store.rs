//! Reads and records revisions. Recording is safe beside other users: each write carries the resourceVersion that it read.

use super::{ACTIVE, Actor, History, LAST, Revision, SCHEMA, Verb, hash, key, limits, name};
use crate::{
    diff,
    error::{Error, Kind},
    plane::{FIELD_MANAGER, Plane},
    retry,
    view::Object,
};
use backon::Retryable;
use fedgate_api::API_VERSION;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use std::collections::BTreeMap;

/// Label of the ConfigMaps with revisions.
const LABEL: &str = "fedgate.dev/revision-history";
/// Annotation: name of the Workload.
pub(super) const WORKLOAD: &str = "fedgate.dev/workload";

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
pub(crate) async fn find(plane: &Plane, workload: &Object) -> Result<Option<ConfigMap>, Error> {
    let found = read(plane, workload.name()).await?;
    Ok(found.filter(|map| belongs(map, workload)))
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
    let actor = plane.user().await;
    let attempt = || record_once(plane, entry, &actor);
    let retried = attempt.retry(retry::conflicts());
    retried.when(|error| error.kind == Kind::Conflict).await
}

async fn record_once(plane: &Plane, entry: &Entry<'_>, actor: &Actor) -> Result<(Option<u64>, u64), Error> {
    let (maps, map_name) = (maps(plane), name(entry.after.name()));
    let mut found = read(plane, entry.after.name()).await?;
    if let Some(former) = found.take_if(|map| !belongs(map, entry.after)) {
        let preconditions = Preconditions {
            uid: former.metadata.uid.clone(),
            resource_version: None,
        };
        let params = DeleteParams::default().preconditions(preconditions);
        match plane.request(|| maps.delete(&map_name, &params)).await {
            Err(error) if !is(&error, &[404, 409]) => return Err(failed(&error)),
            Ok(_) | Err(_) => {}
        }
    }
    let exists = found.is_some();
    let mut map = found.unwrap_or_else(|| empty(entry.after));
    let number = add(&mut map, entry, actor, plane.clock.now());
    let params = PostParams {
        dry_run: false,
        field_manager: Some(FIELD_MANAGER.to_owned()),
    };
    let written = if exists {
        plane.request(|| maps.replace(&map_name, &params, &map)).await
    } else {
        plane.request(|| maps.create(&params, &map)).await
    };
    written.map_err(|error| {
        // Another user was faster, or has deleted the map.
        if is(&error, &[404, 409]) {
            Error::new(Kind::Conflict, "others kept changing the revision history")
        } else {
            failed(&error)
        }
    })?;
    let revisions = History::read(&map).revisions;
    let before = revisions.iter().map(|revision| revision.rev);
    Ok((before.filter(|rev| *rev < number).max(), number))
}

/// Deletes the history of a Workload that is gone. Its owner reference does the same, where something collects garbage.
pub(crate) async fn forget(plane: &Plane, workload: &Object) {
    let Ok(Some(map)) = find(plane, workload).await else {
        return;
    };
    let preconditions = Preconditions {
        uid: map.metadata.uid,
        resource_version: None,
    };
    let params = DeleteParams::default().preconditions(preconditions);
    // A history that stays behind is begun anew by the next Workload of its name.
    let (maps, map_name) = (maps(plane), name(workload.name()));
    let _ = plane.request(|| maps.delete(&map_name, &params)).await;
}

/// Adds the entry to the map; returns its number.
pub(super) fn add(map: &mut ConfigMap, entry: &Entry<'_>, actor: &Actor, now: Timestamp) -> u64 {
    let mut history = History::read(map);
    let mut data = map.data.take().unwrap_or_default();
    // A map that somebody has restored without its owner may count the generations of a former Workload.
    let is_restored = map.metadata.owner_references.as_ref().is_none_or(Vec::is_empty);
    if is_restored {
        map.metadata.owner_references = Some(vec![owner(entry.after)]);
    }
    if let Some(before) = entry.before
        && history.lacks(before)
    {
        let unknown = Actor {
            name: "unknown".to_owned(),
            client: actor.client.clone(),
        };
        let active = history.active().and_then(of_revision);
        let seen = Entry {
            verb: Verb::Observed,
            from: None,
            reason: "",
            before: active.as_ref(),
            after: before,
        };
        insert(&mut data, &mut history, &seen, &unknown, now);
    }
    let number = insert(&mut data, &mut history, entry, actor, now);
    if is_restored {
        history.active = Some(number);
    }
    limits::prune(&mut data, &mut history);
    map.data = Some(data);
    let annotations = map.metadata.annotations.get_or_insert_default();
    annotations.insert(LAST.to_owned(), history.last.to_string());
    if let Some(active) = history.active {
        annotations.insert(ACTIVE.to_owned(), active.to_string());
    }
    number
}

/// An object with the spec of a revision, for a difference.
fn of_revision(revision: &Revision) -> Option<Object> {
    let spec = revision.spec.clone()?;
    Some(Object(serde_json::json!({"spec": spec})))
}

fn insert(
    data: &mut BTreeMap<String, String>,
    history: &mut History,
    entry: &Entry<'_>,
    actor: &Actor,
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
        actor: actor.clone(),
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

fn empty(workload: &Object) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(workload.name())),
            namespace: Some(workload.text("/metadata/namespace").to_owned()),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
            annotations: Some(BTreeMap::from([(
                WORKLOAD.to_owned(),
                workload.name().to_owned(),
            )])),
            owner_references: Some(vec![owner(workload)]),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// The Workload as owner. It neither controls the map nor is held by it, so the history goes with the Workload.
fn owner(workload: &Object) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "Workload".to_owned(),
        name: workload.name().to_owned(),
        uid: workload.uid().to_owned(),
        controller: None,
        block_owner_deletion: None,
    }
}

/// True if the map has the Workload as an owner, or no owner at all: somebody may have restored it without.
pub(super) fn belongs(map: &ConfigMap, workload: &Object) -> bool {
    let owners = map.metadata.owner_references.as_deref().unwrap_or_default();
    owners.is_empty() || owners.iter().any(|owner| owner.uid == workload.uid())
}

fn maps(plane: &Plane) -> Api<ConfigMap> {
    Api::namespaced(plane.client(), &plane.namespace)
}

async fn read(plane: &Plane, workload: &str) -> Result<Option<ConfigMap>, Error> {
    let (maps, map_name) = (maps(plane), name(workload));
    let found = plane.request(|| maps.get_opt(&map_name)).await;
    found.map_err(|error| failed(&error))
}

fn is(error: &kube::Error, codes: &[u16]) -> bool {
    matches!(error, kube::Error::Api(status) if codes.contains(&status.code))
}

fn failed(error: &kube::Error) -> Error {
    let kind = if is(error, &[401, 403]) {
        Kind::Forbidden
    } else {
        Kind::Failed
    };
    Error::new(kind, "the revision history cannot be read or written").because(crate::plane::cause(error))
}
