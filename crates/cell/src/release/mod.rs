//! Release of a deleted Instance's objects on other planes: the claim in its project, the copy on the hub. A plane
//! that is down delays no deletion; the cell records what is left there and releases it when the plane answers
//! (contract: cell.md §6).

pub mod retry;

use crate::{
    context::{Context, request_project},
    index::{
        CellIndex,
        change::Change,
        digest::{self, claim_name},
        release_records::{self, Record, RecordPlace},
        tables::TableId,
    },
    reason::WriteReason,
    writes::{create, delete},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    backoff::{Backoff, RetryTimer},
    error::{Category, Failure},
    key::{Key, Plane},
    metrics::Family,
    plan::{Effect, Plan, Target, Write},
    random::HashMap,
};
use parking_lot::Mutex;
use serde_json::json;
use std::time::Duration;

/// Pauses before a plane that did not answer is tried again.
pub const RELEASE: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_mins(5));
/// Timeout of an attempt.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Releases objects, with a retry timer for each plane that does not answer.
#[derive(Debug, Default)]
pub struct Releaser {
    timers: Mutex<HashMap<Plane, RetryTimer>>,
}

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
const WAY_WITHIN: Duration = Duration::from_secs(1);

impl Releaser {
    /// One attempt to release a recorded object of an Instance with this UID. Objects that no longer belong to this
    /// Instance are not touched.
    pub async fn attempt(&self, ctx: &Context<'_>, uid: &str, record: &Record) -> Released {
        let target = record.target();
        if let Plane::Project(project) = &target.plane {
            let index = ctx.index.lock();
            let engaged = index.claims.contains_key(project) || index.unreachable.contains(project);
            drop(index);
            if !engaged {
                // No other object may need the connection to this plane any more.
                request_project(ctx, project);
                return Released::Connecting(WAY_WITHIN);
            }
        }
        let timer = self.timers.lock().get(&target.plane).copied();
        if let Some(left) = timer.and_then(|timer| timer.wait(ctx.now().instant)) {
            return Released::PlaneDown(left);
        }
        let released = tokio::time::timeout(ATTEMPT, release(ctx, uid, &target)).await;
        let now = ctx.now().instant;
        let mut timers = self.timers.lock();
        let timer = timers.entry(target.plane.clone()).or_default();
        match released {
            Ok(Ok(())) => {
                timers.remove(&target.plane);
                Released::Done
            }
            Ok(Err(failure)) => {
                let left = timer.failed(RELEASE, now);
                tracing::debug!(plane = %target.plane, error = %failure, "not released yet");
                Released::PlaneDown(left)
            }
            Err(_) => Released::PlaneDown(timer.failed(RELEASE, now)),
        }
    }

    /// The plane answers again: forgets its pauses.
    pub fn recovered(&self, plane: &Plane) {
        self.timers.lock().remove(plane);
    }

    /// Records an Instance's objects that are left. If there is no room for a record, the plane's watches show the
    /// objects when it answers.
    pub async fn record(
        &self,
        ctx: &Context<'_>,
        namespace: &str,
        uid: &str,
        left: &[Record],
    ) -> Result<(), Failure> {
        let (home, place) = {
            let index = ctx.index.lock();
            let home = index.reading.namespace.clone();
            let known = |name: &str| index.releases.get(&home, name).map(|row| &row.digest);
            let place = release_records::place(namespace, uid, known);
            (home, place)
        };
        let Some(RecordPlace { name, exists, has }) = place else {
            tracing::warn!(namespace, uid, "too many releases are recorded; this one is not");
            ctx.metrics.count(Family::ReleasesDropped, &["full"]);
            return Ok(());
        };
        let target = Target::namespaced(Plane::Cell, &TableId::Releases.resource(), &home, &name);
        let all = release_records::joined(has, left, ctx.now().wall);
        let labels = json!({release_records::LABEL.0: release_records::LABEL.1});
        let data = json!({uid: release_records::write(&all)});
        if !exists {
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": *home, "labels": labels}, "data": data});
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
    let cell = ctx.index.lock().reading.cell.clone();
    let meta = &found.metadata;
    let words = &mut digest::Strings::default();
    let ours = if target.plane == Plane::Hub {
        let copy = digest::copy(&found, words);
        copy.cell.as_deref() == Some(&*cell) && copy.instance.as_deref() == Some(uid)
    } else {
        digest::claim(&found, words).is_of(&cell, uid)
    };
    let is_left = ours && meta.deletion_timestamp.is_none();
    let Some(uid) = meta.uid.as_deref().filter(|_| is_left) else {
        return Ok(());
    };
    let deletion = delete(target.clone(), uid, WriteReason::Release);
    ctx.execute(Plan::one(deletion)).await.map(drop)
}

/// The record of an Instance's copy.
pub fn of_copy(namespace: &str, name: &str) -> Record {
    of(release_records::HUB, TableId::HubInstances, namespace, name)
}

/// The record of an Instance's claim.
pub fn of_claim(project: &ProjectKey, namespace: &str, instance: &str) -> Record {
    of(
        project.as_str(),
        TableId::Claims,
        namespace,
        &claim_name(instance),
    )
}

fn of(plane: &str, table: TableId, namespace: &str, name: &str) -> Record {
    Record {
        plane: plane.to_owned(),
        kind: table.resource().kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        since: None,
    }
}

/// Adds the key of a release record that has changed.
pub fn triggers(_: &CellIndex, change: &Change, keys: &mut Vec<Key>) {
    if let Change::Release((namespace, name)) = change {
        keys.push(TableId::Releases.key(namespace, name));
    }
}
