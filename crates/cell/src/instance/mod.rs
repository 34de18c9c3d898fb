//! Controller for Instances: gates, conditions, quota, the write-back, and deletion (contract: cell.md §3 to §6).
//!
//! Triggers: the Instance, its deployment and companions, its networking objects, its claim, and its objects on the
//! hub.

pub mod decide;
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
        release_records::Record,
    },
    release::{self, Released},
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    error::Failure,
    key::Key,
    metrics::Family,
    plan::{Plan, Requeue},
    random::HashMap,
    reconcile::throttle::Throttle,
    runtime::driver::MAX_PASSES,
    store::table::Row,
};
use observe::InstanceSnapshot;
use parking_lot::Mutex;
use quota::decide::Answer;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use writeback::WriteBack;

/// Delay before the claim and write-back of an Instance are released that disappeared without releasing them.
const LEFT_BEHIND: Duration = Duration::from_mins(5);

/// The Instance controller.
#[derive(Debug, Default)]
pub struct Instances {
    write_back: WriteBack,
    /// Time of the last conditions write, or of the first reconcile: progress is written at intervals.
    pub(super) progress: Throttle,
    /// First time that an absent Instance was found with a claim or write-back left.
    left_behind: Mutex<HashMap<Key, Instant>>,
    /// UIDs of the Instances that no deployment controls, each of which was reported.
    uncontrolled: Mutex<HashMap<Key, Arc<str>>>,
}

/// Result of the writes to an Instance itself.
struct Updated {
    next: Requeue,
    /// True if a change of Ready was written that users wait for.
    is_urgent: bool,
}

impl Instances {
    /// Reconciles an Instance's key.
    pub async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let Some(snapshot) = observe::observe(ctx, key) else {
            self.write_back.forget(key);
            self.progress.forget(key);
            self.uncontrolled.lock().remove(key);
            quota::withdraw(ctx, key);
            return self.absent(ctx, key).await;
        };
        self.left_behind.lock().remove(key);
        if !decide::is_ours(&snapshot) {
            self.report_uncontrolled(ctx, key, &snapshot).await;
            return Ok(Requeue::AwaitChange);
        }
        self.uncontrolled.lock().remove(key);
        let quota = quota::ask(ctx, key, &snapshot).await;
        let updated = self.update(ctx, key, &snapshot, &quota).await;
        // The write-back is synced even if an earlier step failed, so that users see the current state.
        let Some(snapshot) = observe::observe(ctx, key) else {
            return Ok(Requeue::AwaitChange);
        };
        // A write-back that is about to be released is not written again.
        let written = if snapshot.hub && !decide::is_ending(&snapshot) {
            let hurry = snapshot.row.deleting || updated.as_ref().is_ok_and(|updated| updated.is_urgent);
            self.write_back.reconcile(ctx, key, &snapshot, hurry).await
        } else {
            Ok(Requeue::AwaitChange)
        };
        let updated = updated?;
        if snapshot.row.deleting {
            return teardown(ctx, &snapshot).await;
        }
        let written = written?;
        match quota.failure {
            Some(failure) => Err(failure),
            None => Ok(quota.next.earlier(written).earlier(updated.next)),
        }
    }

    /// Writes finalizers, conditions and gates of the Instance for which quota was `asked`, one step after the other.
    async fn update(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        asked: &InstanceSnapshot,
        quota: &Answer,
    ) -> Result<Updated, Failure> {
        let rate = ctx.settings.progress_rate();
        let mut updated = Updated {
            next: Requeue::AwaitChange,
            is_urgent: false,
        };
        for _ in 0..MAX_PASSES {
            // The quota answer does not apply to a successor of the same name.
            let snapshot = observe::observe(ctx, key).filter(|now| now.row.uid == asked.row.uid);
            let Some(snapshot) = snapshot else { break };
            let now = ctx.now();
            let plan = decide::decide(&snapshot, quota.verdict.as_ref(), now.wall);
            if plan.is_idle() {
                break;
            }
            let urgent = decide::is_urgent(&snapshot, &plan);
            if urgent == Some(false)
                && let Some(left) = self.progress.wait_from_empty(key, rate, now.instant)
            {
                updated.next = Requeue::After(left);
                break;
            }
            let is_seen = urgent == Some(true) && decide::is_seen(&snapshot, &plan);
            ctx.execute(plan).await?;
            if urgent.is_some() {
                self.progress.take(key, rate, ctx.now().instant);
            }
            updated.is_urgent |= is_seen;
        }
        Ok(updated)
    }

    /// Says once of each Instance that no deployment controls that nothing is done for it.
    async fn report_uncontrolled(&self, ctx: &Context<'_>, key: &Key, snapshot: &InstanceSnapshot) {
        let uid = snapshot.row.uid.clone();
        let known = self.uncontrolled.lock().insert(key.clone(), uid.clone());
        if snapshot.row.deleting || known == Some(uid) {
            return;
        }
        let (namespace, instance) = (&*key.namespace, &*key.name);
        tracing::warn!(namespace, instance, "{}", decide::NOT_CONTROLLED);
        publish(
            ctx,
            snapshot,
            "NotControlled",
            "Reconciling",
            decide::NOT_CONTROLLED,
        )
        .await;
    }

    /// Releases the claim and write-back of an absent Instance, even if its finalizers were removed manually.
    async fn absent(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let now = ctx.now().instant;
        let left = find_left_behind(&ctx.index.lock(), key);
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
                release::attempt(ctx, &uid, &record).await
            {
                next = next.earlier(Requeue::After(after));
            }
        }
        Ok(next)
    }
}

/// Publishes a warning Event about an Instance. A lost Event has no further effect.
pub(super) async fn publish(
    ctx: &Context<'_>,
    snapshot: &InstanceSnapshot,
    reason: &str,
    action: &str,
    message: &str,
) {
    let note = decide::note(snapshot, reason, action, message);
    let _ = ctx.execute(Plan::with_event(note)).await;
}

/// The claim and write-back that this cell still holds for an absent Instance, each with the Instance UID that it names.
fn find_left_behind(index: &CellIndex, key: &Key) -> Vec<(Arc<str>, Record)> {
    if !index.cell_ready() || index.instances.get(&key.namespace, &key.name).is_some() {
        return Vec::new();
    }
    let cell = Some(&index.settings.cell);
    let write_back = index.write_backs.get(&key.namespace, &key.name);
    let write_back = write_back.filter(|row| row.digest.cell.as_ref() == cell && !row.deleting);
    let write_back = write_back.and_then(|row| {
        let uid = row.digest.instance.clone()?;
        Some((uid, Record::of_write_back(&key.namespace, &key.name)))
    });
    let mut left: Vec<_> = write_back.into_iter().collect();
    let name = claim_name(&key.name);
    let mut add_claim = |project: &ProjectKey, home: &str, row: &Row<Claim>| {
        let claim = &row.digest;
        if claim.namespace.as_ref() == Some(&key.namespace)
            && claim.cell.as_ref() == cell
            && !row.deleting
            && let Some(uid) = &claim.instance
        {
            left.push((uid.clone(), Record::of_claim(project, home, &key.name)));
        }
    };
    if let Some((project, home)) = index.origin(&key.namespace) {
        let claims = index.claims.get(&project);
        if let Some(row) = claims.and_then(|claims| claims.table.get(&home, &name)) {
            add_claim(&project, &home, row);
        }
    } else {
        for (project, claims) in &index.claims {
            let named = claims.table.iter().filter(|((_, other), _)| ***other == *name);
            named.for_each(|((home, _), row)| add_claim(project, home, row));
        }
    }
    left
}

/// The last steps: release the claim, release the write-back, remove the finalizers. The provider's finalizer is removed
/// before.
async fn teardown(ctx: &Context<'_>, snapshot: &InstanceSnapshot) -> Result<Requeue, Failure> {
    let has = |name| snapshot.row.digest.has_finalizer(name);
    if !decide::is_ending(snapshot) {
        return Ok(Requeue::AwaitChange);
    }
    let uid = &snapshot.row.uid;
    let mut left = Vec::new();
    let claims = ctx.settings.quota || decide::has_claimed(snapshot);
    if claims && has(keys::CLAIM_FINALIZER) {
        match &snapshot.origin {
            Some((project, home)) => left.push(Record::of_claim(project, home, &snapshot.name)),
            None => orphaned(ctx, snapshot).await,
        }
    }
    if snapshot.hub && has(keys::INSTANCE_FINALIZER) {
        left.push(Record::of_write_back(&snapshot.namespace, &snapshot.name));
    }
    let mut later = Vec::new();
    for record in left {
        match release::attempt(ctx, uid, &record).await {
            Released::Done => {}
            Released::PlaneDown(_) => later.push(record),
            Released::Connecting(after) => return Ok(Requeue::After(after)),
        }
    }
    if !later.is_empty() {
        release::record(ctx, &snapshot.namespace, uid, &later).await?;
    }
    ctx.execute(Plan::one(decide::release(snapshot))).await?;
    Ok(Requeue::AwaitChange)
}

/// Reports a claim that cannot be released.
async fn orphaned(ctx: &Context<'_>, snapshot: &InstanceSnapshot) {
    ctx.metrics.count(Family::ClaimsOrphaned, &["identity"]);
    let message = "the namespace does not name its project any more, so the Instance's claim of quota could not be released";
    publish(ctx, snapshot, "QuotaClaimOrphaned", "Releasing", message).await;
}
