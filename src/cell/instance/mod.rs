//! Instances: their gates, conditions, quota, their copy on the hub, and their end (contract: cell.md §3 to §6).
//!
//! Woken by the Instance, its deployment and companions, its networking objects, its claim, and what the hub has of it.

pub mod claim;
pub mod claims;
pub mod decide;
pub mod observe;
pub mod quota;
pub mod ready;
pub mod referenced_data;
#[cfg(test)]
mod tests;

use super::{
    context::{PASSES, Turn},
    pace::Pace,
    releases::{self, Released, Releases},
    world::{World, digest::Claim},
    writeback::WriteBack,
};
use crate::{
    api::{keys, names::ProjectKey},
    engine::{
        chance::HashMap,
        error::Failure,
        key::Key,
        plan::{Next, Plan},
        queue::Urgency,
    },
    plane::table::Row,
};
use claims::Answer;
use observe::Snapshot;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// What is left of an Instance that is gone without having been released is released after this time.
const LEFT_BEHIND: Duration = Duration::from_mins(5);

/// See the module.
#[derive(Debug, Default)]
pub struct Instances {
    write_back: WriteBack,
    /// When conditions were last written, or the Instance first seen: progress is told at intervals.
    pub(super) told: Pace,
    /// Since when something is left of an Instance that is not there.
    left_behind: Mutex<HashMap<Key, Instant>>,
}

/// How a pass over an Instance ended.
#[derive(Debug, Default)]
struct Passed {
    /// Whether something was written that people wait for.
    urgent: bool,
    /// When the rest is to be written.
    next: Next,
}

impl Instances {
    /// One turn of an Instance's key.
    pub async fn reconcile(&self, ctx: &Turn<'_>, key: &Key, releases: &Releases) -> Result<Next, Failure> {
        let Some(snapshot) = observe::observe(ctx, key) else {
            self.write_back.forget(key);
            self.told.forget(key);
            Self::unwanted(ctx, key);
            return self.absent(ctx, key, releases).await;
        };
        self.left_behind.lock().remove(key);
        if !decide::is_ours(&snapshot) {
            return Ok(Next::OnEvent);
        }
        let quota = if snapshot.deleting {
            Self::unwanted(ctx, key);
            Answer::default()
        } else if !ctx.settings.quota && decide::has_claimed(&snapshot) {
            // Before nothing tells of it any more.
            match forsake(ctx, &snapshot, releases).await {
                Ok(()) => claims::ask(ctx, &snapshot).await,
                Err(failure) => Answer {
                    failure: Some(failure),
                    ..Answer::default()
                },
            }
        } else if decide::may_claim(&snapshot) || !ctx.settings.quota {
            claims::ask(ctx, &snapshot).await
        } else {
            // First the finalizers, so that no claim is left behind; that write wakes the key.
            Answer::default()
        };
        let local = self.pass(ctx, key, &snapshot, &quota).await;
        // Whatever failed before: what users see is brought up to date.
        let Some(snapshot) = observe::observe(ctx, key) else {
            return Ok(Next::OnEvent);
        };
        // What is released next is not written once more.
        let copied = if snapshot.hub && !decide::is_ending(&snapshot) {
            let hurry = snapshot.deleting || local.as_ref().is_ok_and(|passed| passed.urgent);
            self.write_back.reconcile(ctx, key, &snapshot, hurry).await
        } else {
            Ok(Next::OnEvent)
        };
        let local = local?;
        if snapshot.deleting {
            return teardown(ctx, &snapshot, releases).await;
        }
        let copied = copied?;
        match quota.failure {
            Some(failure) => Err(failure),
            None => Ok(quota.next.sooner(copied).sooner(local.next)),
        }
    }

    /// Writes what is to be written to the Instance itself, step by step.
    async fn pass(
        &self,
        ctx: &Turn<'_>,
        key: &Key,
        asked: &Snapshot,
        quota: &Answer,
    ) -> Result<Passed, Failure> {
        let mut passed = Passed::default();
        for _ in 0..PASSES {
            let snapshot = observe::observe(ctx, key);
            // What was found out is not for a successor of the same name.
            let Some(snapshot) = snapshot.filter(|now| now.version.uid == asked.version.uid) else {
                break;
            };
            let now = ctx.now();
            let plan = decide::decide(&snapshot, quota.verdict.as_ref(), now.wall);
            if plan.is_idle() {
                break;
            }
            let urgent = decide::is_urgent(&snapshot, &plan);
            if urgent == Some(false) {
                let interval = ctx.settings.progress_interval();
                if let Some(left) = self.told.left_of_new(key, interval, now.instant) {
                    passed.next = Next::After(left);
                    break;
                }
            }
            ctx.perform(plan.clone()).await?;
            if let Some(urgent) = urgent {
                passed.urgent |= urgent && decide::is_seen(&snapshot, &plan);
                self.told.told(key, ctx.now().instant);
            }
        }
        Ok(passed)
    }

    /// No quota is asked for it any more.
    fn unwanted(ctx: &Turn<'_>, key: &Key) {
        let keys = ctx.world.lock().quota_unwanted(key);
        ctx.queue.extend(keys, Urgency::Fresh);
    }

    /// Nothing of an Instance that is gone stays elsewhere, even if someone took its finalizers off.
    async fn absent(&self, ctx: &Turn<'_>, key: &Key, releases: &Releases) -> Result<Next, Failure> {
        let now = ctx.now().instant;
        let left = left_of(&ctx.world.lock(), key);
        if left.is_empty() {
            self.left_behind.lock().remove(key);
            return Ok(Next::OnEvent);
        }
        let since = *self.left_behind.lock().entry(key.clone()).or_insert(now);
        let wait = LEFT_BEHIND.saturating_sub(now.saturating_duration_since(since));
        if !wait.is_zero() {
            return Ok(Next::After(wait));
        }
        let mut next = Next::OnEvent;
        for (uid, record) in left {
            if let Released::Later(after) | Released::Soon(after) = releases.attempt(ctx, &uid, &record).await
            {
                next = next.sooner(Next::After(after));
            }
        }
        Ok(next)
    }
}

/// What this cell has elsewhere of an Instance that is not there, each with the UID that it names.
fn left_of(world: &World, key: &Key) -> Vec<(Arc<str>, releases::record::Record)> {
    if !world.cell_ready() || world.instances.get(&key.namespace, &key.name).is_some() {
        return Vec::new();
    }
    let mut left = Vec::new();
    let ours = |cell: Option<&Arc<str>>| cell == Some(&world.reading.cell);
    if let Some(row) = world.copies.get(&key.namespace, &key.name)
        && let Some(uid) = &row.digest.instance
        && ours(row.digest.cell.as_ref())
        && !row.deleting
    {
        left.push((uid.clone(), releases::of_copy(&key.namespace, &key.name)));
    }
    let name = claim::name(&key.name);
    let mut look = |project: &ProjectKey, home: &str, row: &Row<Claim>| {
        let of_here = row.digest.namespace.as_deref() == Some(&*key.namespace);
        if of_here
            && ours(row.digest.cell.as_ref())
            && !row.deleting
            && let Some(uid) = &row.digest.instance
        {
            left.push((uid.clone(), releases::of_claim(project, home, &key.name)));
        }
    };
    if let Some((project, home)) = world.origin(&key.namespace) {
        let claims = world.claims.get(&project);
        if let Some(row) = claims.and_then(|claims| claims.table.get(&home, &name)) {
            look(&project, &home, row);
        }
    } else {
        for (project, claims) in &world.claims {
            let named = claims.table.iter().filter(|((_, other), _)| ***other == *name);
            named.for_each(|((home, _), row)| look(project, home, row));
        }
    }
    left
}

/// The last steps: claim, copy, finalizers. Before them the provider has its time.
async fn teardown(ctx: &Turn<'_>, snapshot: &Snapshot, releases: &Releases) -> Result<Next, Failure> {
    let finalizers = &snapshot.instance.finalizers;
    let has = |name: &str| finalizers.iter().any(|known| **known == *name);
    if !decide::is_ending(snapshot) {
        return Ok(Next::OnEvent);
    }
    let uid = &snapshot.version.uid;
    let (origin, hub) = {
        let world = ctx.world.lock();
        (world.origin(&snapshot.namespace), world.reading.hub)
    };
    let mut left = Vec::new();
    let claims = ctx.settings.quota || decide::has_claimed(snapshot);
    if claims && has(keys::CLAIM_FINALIZER) {
        match origin {
            Some((project, home)) => left.push(releases::of_claim(&project, &home, &snapshot.name)),
            None => orphaned(ctx, snapshot).await,
        }
    }
    if hub && has(keys::INSTANCE_FINALIZER) {
        left.push(releases::of_copy(&snapshot.namespace, &snapshot.name));
    }
    let mut later = Vec::new();
    for record in left {
        match releases.attempt(ctx, uid, &record).await {
            Released::Done => {}
            Released::Later(_) => later.push(record),
            Released::Soon(after) => return Ok(Next::After(after)),
        }
    }
    if !later.is_empty() {
        releases.record(ctx, &snapshot.namespace, uid, &later).await?;
    }
    ctx.perform(Plan::one(decide::release(snapshot))).await?;
    Ok(Next::OnEvent)
}

/// No quota is asked for any more: what was claimed is released when its project can be reached.
async fn forsake(ctx: &Turn<'_>, snapshot: &Snapshot, releases: &Releases) -> Result<(), Failure> {
    let origin = ctx.world.lock().origin(&snapshot.namespace);
    let Some((project, home)) = origin else {
        orphaned(ctx, snapshot).await;
        return Ok(());
    };
    let claim = releases::of_claim(&project, &home, &snapshot.name);
    let uid = &snapshot.version.uid;
    releases.record(ctx, &snapshot.namespace, uid, &[claim]).await
}

async fn orphaned(ctx: &Turn<'_>, snapshot: &Snapshot) {
    ctx.metrics.claim_orphaned("identity");
    let message = "the namespace does not name its project any more, so the Instance's claim of quota could not be released";
    let note = decide::note(snapshot, "QuotaClaimOrphaned", "Releasing", message);
    // An event that is lost costs nothing but itself.
    let _ = ctx.perform(Plan::tell(note)).await;
}
