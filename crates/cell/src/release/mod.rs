//! Release of a deleted Instance's objects on other planes: the claim in its project, the write-back on the hub. A plane
//! that is down delays no deletion; the cell records what is left there and releases it when the plane answers
//! (contract: cell.md §6). Its controller tries each recorded release until the plane of the record answers.

use crate::{
    context::Context,
    index::{
        CellIndex,
        change::Change,
        digest,
        release_records::{self, Record, RecordPlace},
        tables::TableId,
        watches::Command,
    },
    reason::WriteReason,
    writes::{MANAGED_BY, create, delete, patch},
};
use fedgate_engine::{
    backoff::Backoff,
    error::{Category, Failure},
    key::{Key, Plane},
    metrics::Family,
    plan::{Effect, Plan, Requeue, Target, Write},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Pauses before a plane that did not answer is tried again.
pub const RELEASE: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_mins(5));
/// Timeout of an attempt.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// Nothing of the Instance is left there.
    Done,
    /// The plane does not answer; the next attempt follows after this time.
    PlaneDown(Duration),
    /// The connection to the plane is being made; retry after this time.
    Connecting(Duration),
}

/// Time within which a project is connected.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);

/// One attempt to release a recorded object of an Instance with this UID. Objects that no longer belong to this Instance
/// are not touched.
pub async fn attempt(ctx: &Context<'_>, uid: &str, record: &Record) -> Released {
    let target = record.target();
    if let Plane::Project(project) = &target.plane {
        let index = ctx.index.lock();
        let engaged = index.claims.contains_key(project) || index.unreachable.contains(project);
        drop(index);
        if !engaged {
            // The connection to the project may have been released, because no other object needs it.
            ctx.send(Command::ConnectProject(project.clone()));
            return Released::Connecting(CONNECTED_WITHIN);
        }
    }
    let timer = ctx.release_timers.lock().get(&target.plane).copied();
    if let Some(left) = timer.and_then(|timer| timer.wait(ctx.now().instant)) {
        return Released::PlaneDown(left);
    }
    let released = tokio::time::timeout(ATTEMPT, release(ctx, uid, &target)).await;
    let mut timers = ctx.release_timers.lock();
    match released {
        Ok(Ok(())) => {
            timers.remove(&target.plane);
            return Released::Done;
        }
        Ok(Err(error)) => tracing::debug!(plane = %target.plane, %error, "not released yet"),
        Err(_) => {}
    }
    let timer = timers.entry(target.plane).or_default();
    Released::PlaneDown(timer.failed(RELEASE, ctx.now().instant))
}

/// Records an Instance's objects that are left. If there is no room for a record, the plane's watches show the objects when
/// it answers.
pub async fn record(ctx: &Context<'_>, namespace: &str, uid: &str, left: &[Record]) -> Result<(), Failure> {
    let home = &ctx.settings.namespace;
    let place = {
        let index = ctx.index.lock();
        let known = |name: &str| index.releases.get(home, name).map(|row| &row.digest);
        release_records::place(namespace, uid, known)
    };
    let Some(RecordPlace { name, exists, has }) = place else {
        tracing::warn!(namespace, uid, "too many releases are recorded; this one is not");
        ctx.metrics.count(Family::ReleasesDropped, &["full"]);
        return Ok(());
    };
    let target = TableId::Releases.target(home, &name);
    let all = release_records::joined(has, left, ctx.now().wall);
    let labels = json!({MANAGED_BY.0: MANAGED_BY.1});
    let data = json!({uid: release_records::write(&all)});
    if !exists {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": **home, "labels": labels}, "data": data});
        let made = create(target.clone(), body, WriteReason::ReleaseRecorded);
        match ctx.execute(Plan::one(made)).await {
            // The ConfigMap exists without its label, or the watch is late.
            Err(failure) if failure.category == Category::AlreadyExists => {}
            end => return end.map(drop),
        }
    }
    let patch = json!({"metadata": {"labels": labels}, "data": data});
    let effect = Effect::main(target, Write::Merge { patch }, WriteReason::ReleaseRecorded);
    ctx.execute(Plan::one(effect)).await.map(drop)
}

/// Deletes the object if it belongs to this Instance of this cell.
async fn release(ctx: &Context<'_>, uid: &str, target: &Target) -> Result<(), Failure> {
    let found = match ctx.executor.get(target).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(()),
        // Its namespace is gone, and the object with it.
        Err(failure) if failure.category == Category::NamespaceMissing => return Ok(()),
        Err(failure) => return Err(failure),
    };
    let cell = &ctx.settings.cell;
    let meta = &found.metadata;
    let words = &mut digest::Strings::default();
    let ours = if target.plane == Plane::Hub {
        let copy = digest::write_back(&found, words);
        copy.cell.as_ref() == Some(cell) && copy.instance.as_deref() == Some(uid)
    } else {
        digest::claim(&found, words).is_of(cell, uid)
    };
    let is_left = ours && meta.deletion_timestamp.is_none();
    let Some(uid) = meta.uid.as_deref().filter(|_| is_left) else {
        return Ok(());
    };
    let deletion = delete(target.clone(), uid, None, WriteReason::Release);
    ctx.execute(Plan::one(deletion)).await.map(drop)
}

/// Adds the key of a release record that has changed.
pub fn triggers(_: &CellIndex, change: &Change, keys: &mut Vec<Key>) {
    if let Change::Release((namespace, name)) = change {
        keys.push(TableId::Releases.key(namespace, name));
    }
}

/// Reconciles a `ConfigMap` of records: each record is tried unless its plane is in a pause.
pub async fn reconcile(ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
    let row = ctx.index.lock().releases.get(&key.namespace, &key.name).cloned();
    let Some(row) = row.filter(|row| !row.deleting) else {
        return Ok(Requeue::AwaitChange);
    };
    let records = &row.digest;
    let (mut done, mut next) = (Map::new(), Requeue::AwaitChange);
    let claimants = claimants(ctx);
    for (instance, text) in records {
        let mut left = Vec::new();
        for record in release_records::read(text) {
            // Quota is on again, and the Instance keeps its grant.
            if record.plane != release_records::HUB && claimants.contains(instance.as_str()) {
                continue;
            }
            let (Released::PlaneDown(after) | Released::Connecting(after)) =
                attempt(ctx, instance, &record).await
            else {
                continue;
            };
            let now = ctx.now().wall;
            let record = record.seen(now);
            if record.is_given_up(now) {
                tracing::warn!(
                    plane = record.plane,
                    kind = record.kind,
                    namespace = record.namespace,
                    name = record.name,
                    "the plane did not answer for a week; its object is not released"
                );
                ctx.metrics.count(Family::ReleasesDropped, &["expired"]);
                continue;
            }
            next = next.earlier(Requeue::After(after));
            left.push(record);
        }
        let now = (!left.is_empty()).then(|| release_records::write(&left));
        if now.as_deref() != Some(text) {
            done.insert(instance.clone(), json!(now));
        }
    }
    let target = TableId::Releases.target(&key.namespace, &key.name);
    let is_done = |instance| done.get(instance) == Some(&Value::Null);
    if records.keys().all(is_done) {
        // Another record may have been added meanwhile.
        let version = Some(row.resource_version());
        let effect = delete(target, &row.uid, version, WriteReason::ReleasesDone);
        ctx.execute(Plan::one(effect)).await?;
    } else if !done.is_empty() {
        let effect = patch(&row, target, json!({"data": done}), WriteReason::ReleaseDone);
        ctx.execute(Plan::one(effect)).await?;
    }
    Ok(next)
}

/// The Instances that claim quota.
fn claimants(ctx: &Context<'_>) -> BTreeSet<Arc<str>> {
    if !ctx.settings.quota {
        return BTreeSet::new();
    }
    let index = ctx.index.lock();
    let live = index.instances.iter().filter(|(_, row)| !row.deleting);
    live.map(|(_, row)| row.uid.clone()).collect()
}
