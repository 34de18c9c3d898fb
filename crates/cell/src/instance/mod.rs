//! Controller for Instances: gates, conditions, quota, the copy on the hub, and deletion (contract: cell.md §3 to §6).
//!
//! Triggers: the Instance, its deployment and companions, its networking objects, its claim, and its objects on the
//! hub.

pub mod decide;
mod local;
pub mod observe;
pub mod quota;
pub mod referenced_data;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod writeback;

use super::{
    context::Context,
    index::{
        CellIndex,
        digest::{Claim, claim_name},
        release_records,
    },
    release::{self, Released, Releaser},
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    error::Failure,
    key::Key,
    metrics::Family,
    plan::{Plan, Requeue},
    random::HashMap,
    reconcile::throttle::Throttle,
    runtime::{driver, queue::Priority},
    store::table::Row,
};
use local::Local;
use observe::InstanceSnapshot;
use parking_lot::Mutex;
use quota::Answer;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use writeback::WriteBack;

/// Delay before the claim and hub copy of an Instance are released that disappeared without releasing them.
const LEFT_BEHIND: Duration = Duration::from_mins(5);

/// The Instance controller.
#[derive(Debug, Default)]
pub struct Instances {
    write_back: WriteBack,
    /// Time of the last conditions write, or of the first reconcile: progress is written at intervals.
    pub(super) progress: Throttle,
    /// First time that an absent Instance was found with a claim or hub copy left.
    left_behind: Mutex<HashMap<Key, Instant>>,
    /// UIDs of the Instances that no deployment controls, each of which was reported.
    uncontrolled: Mutex<HashMap<Key, Arc<str>>>,
}

impl Instances {
    /// Reconciles an Instance's key.
    pub async fn reconcile(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        releaser: &Releaser,
    ) -> Result<Requeue, Failure> {
        let Some(snapshot) = observe::observe(ctx, key) else {
            self.write_back.forget(key);
            self.progress.forget(key);
            Self::unwanted(ctx, key);
            self.uncontrolled.lock().remove(key);
            return self.absent(ctx, key, releaser).await;
        };
        self.left_behind.lock().remove(key);
        if !decide::is_ours(&snapshot) {
            self.pass_over(ctx, key, &snapshot).await;
            return Ok(Requeue::AwaitChange);
        }
        self.uncontrolled.lock().remove(key);
        let quota = if snapshot.row.deleting {
            Self::unwanted(ctx, key);
            Answer::default()
        } else if !ctx.settings.quota && decide::has_claimed(&snapshot) {
            // The claim is recorded before the condition `QuotaGranted` changes, because that condition is the only
            // trace of it.
            match abandon(ctx, &snapshot, releaser).await {
                Ok(()) => quota::ask(ctx, &snapshot).await,
                Err(failure) => Answer {
                    failure: Some(failure),
                    ..Answer::default()
                },
            }
        } else if decide::may_claim(&snapshot) || !ctx.settings.quota {
            quota::ask(ctx, &snapshot).await
        } else {
            // Finalizers come first, so that no claim is leaked; that write enqueues the key again.
            Answer::default()
        };
        let writes = Local::new(&self.progress, &snapshot, &quota);
        let local = driver::reconcile(&writes, ctx, key).await;
        // The hub copy is synced even if an earlier step failed, so that users see the current state.
        let Some(snapshot) = observe::observe(ctx, key) else {
            return Ok(Requeue::AwaitChange);
        };
        // A copy that is about to be released is not written again.
        let copied = if snapshot.hub && !decide::is_ending(&snapshot) {
            let hurry = snapshot.row.deleting || local.is_ok() && writes.is_urgent();
            self.write_back.reconcile(ctx, key, &snapshot, hurry).await
        } else {
            Ok(Requeue::AwaitChange)
        };
        let local = local?;
        if snapshot.row.deleting {
            return teardown(ctx, &snapshot, releaser).await;
        }
        let copied = copied?;
        match quota.failure {
            Some(failure) => Err(failure),
            None => Ok(quota.next.earlier(copied).earlier(local)),
        }
    }

    /// Says once of each Instance that no deployment controls that nothing is done for it.
    async fn pass_over(&self, ctx: &Context<'_>, key: &Key, snapshot: &InstanceSnapshot) {
        let uid = snapshot.row.uid.clone();
        let known = self.uncontrolled.lock().insert(key.clone(), uid.clone());
        if snapshot.row.deleting || known == Some(uid) {
            return;
        }
        tracing::warn!(
            namespace = &*key.namespace,
            instance = &*key.name,
            "{}",
            decide::NOT_CONTROLLED
        );
        let note = decide::note(snapshot, "NotControlled", "Reconciling", decide::NOT_CONTROLLED);
        // A lost Event has no further effect.
        let _ = ctx.execute(Plan::with_event(note)).await;
    }

    /// Removes the Instance from the quota requests of its project and enqueues the deployments that this concerns.
    fn unwanted(ctx: &Context<'_>, key: &Key) {
        let keys = ctx.index.lock().quota_unwanted(key);
        ctx.queue.extend(keys, Priority::Fresh);
    }

    /// Releases the claim and hub copy of an absent Instance, even if its finalizers were removed manually.
    async fn absent(&self, ctx: &Context<'_>, key: &Key, releaser: &Releaser) -> Result<Requeue, Failure> {
        let now = ctx.now().instant;
        let left = left_of(&ctx.index.lock(), key);
        if left.is_empty() {
            self.left_behind.lock().remove(key);
            return Ok(Requeue::AwaitChange);
        }
        let since = *self.left_behind.lock().entry(key.clone()).or_insert(now);
        let wait = LEFT_BEHIND.saturating_sub(now.saturating_duration_since(since));
        if !wait.is_zero() {
            return Ok(Requeue::After(wait));
        }
        let mut next = Requeue::AwaitChange;
        for (uid, record) in left {
            if let Released::PlaneDown(after) | Released::Connecting(after) =
                releaser.attempt(ctx, &uid, &record).await
            {
                next = next.earlier(Requeue::After(after));
            }
        }
        Ok(next)
    }
}

/// The claim and hub copy that this cell still holds for an absent Instance, each with the Instance UID that it names.
fn left_of(index: &CellIndex, key: &Key) -> Vec<(Arc<str>, release_records::Record)> {
    if !index.cell_ready() || index.instances.get(&key.namespace, &key.name).is_some() {
        return Vec::new();
    }
    let mut left = Vec::new();
    let ours = |cell: Option<&Arc<str>>| cell == Some(&index.reading.cell);
    if let Some(row) = index.copies.get(&key.namespace, &key.name)
        && let Some(uid) = &row.digest.instance
        && ours(row.digest.cell.as_ref())
        && !row.deleting
    {
        left.push((uid.clone(), release::of_copy(&key.namespace, &key.name)));
    }
    let name = claim_name(&key.name);
    let mut look = |project: &ProjectKey, home: &str, row: &Row<Claim>| {
        let of_here = row.digest.namespace.as_deref() == Some(&*key.namespace);
        if of_here
            && ours(row.digest.cell.as_ref())
            && !row.deleting
            && let Some(uid) = &row.digest.instance
        {
            left.push((uid.clone(), release::of_claim(project, home, &key.name)));
        }
    };
    if let Some((project, home)) = index.origin(&key.namespace) {
        let claims = index.claims.get(&project);
        if let Some(row) = claims.and_then(|claims| claims.table.get(&home, &name)) {
            look(&project, &home, row);
        }
    } else {
        for (project, claims) in &index.claims {
            let named = claims.table.iter().filter(|((_, other), _)| ***other == *name);
            named.for_each(|((home, _), row)| look(project, home, row));
        }
    }
    left
}

/// The last steps: release the claim, release the copy, remove the finalizers. The provider's finalizer is removed
/// before.
async fn teardown(
    ctx: &Context<'_>,
    snapshot: &InstanceSnapshot,
    releaser: &Releaser,
) -> Result<Requeue, Failure> {
    let has = |name| snapshot.row.digest.has_finalizer(name);
    if !decide::is_ending(snapshot) {
        return Ok(Requeue::AwaitChange);
    }
    let uid = &snapshot.row.uid;
    let (origin, hub) = {
        let index = ctx.index.lock();
        (index.origin(&snapshot.namespace), index.reading.hub)
    };
    let mut left = Vec::new();
    let claims = ctx.settings.quota || decide::has_claimed(snapshot);
    if claims && has(keys::CLAIM_FINALIZER) {
        match origin {
            Some((project, home)) => left.push(release::of_claim(&project, &home, &snapshot.name)),
            None => orphaned(ctx, snapshot).await,
        }
    }
    if hub && has(keys::INSTANCE_FINALIZER) {
        left.push(release::of_copy(&snapshot.namespace, &snapshot.name));
    }
    let mut later = Vec::new();
    for record in left {
        match releaser.attempt(ctx, uid, &record).await {
            Released::Done => {}
            Released::PlaneDown(_) => later.push(record),
            Released::Connecting(after) => return Ok(Requeue::After(after)),
        }
    }
    if !later.is_empty() {
        releaser.record(ctx, &snapshot.namespace, uid, &later).await?;
    }
    ctx.execute(Plan::one(decide::release(snapshot))).await?;
    Ok(Requeue::AwaitChange)
}

/// The cell requests no quota any more: records the claim, which is released once its project answers.
async fn abandon(ctx: &Context<'_>, snapshot: &InstanceSnapshot, releaser: &Releaser) -> Result<(), Failure> {
    let origin = ctx.index.lock().origin(&snapshot.namespace);
    let Some((project, home)) = origin else {
        orphaned(ctx, snapshot).await;
        return Ok(());
    };
    let claim = release::of_claim(&project, &home, &snapshot.name);
    let uid = &snapshot.row.uid;
    releaser.record(ctx, &snapshot.namespace, uid, &[claim]).await
}

async fn orphaned(ctx: &Context<'_>, snapshot: &InstanceSnapshot) {
    ctx.metrics.count(Family::ClaimsOrphaned, &["identity"]);
    let message = "the namespace does not name its project any more, so the Instance's claim of quota could not be released";
    let note = decide::note(snapshot, "QuotaClaimOrphaned", "Releasing", message);
    // A lost Event has no further effect.
    let _ = ctx.execute(Plan::with_event(note)).await;
}
