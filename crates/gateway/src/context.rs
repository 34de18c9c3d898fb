//! State that the gateway's controllers share beside the runtime's own, and what they record of the hub's rejections.

use super::{
    index::{GatewayIndex, Project, intents::Withdrawal},
    rate_limit::RateLimiter,
    reason::{IdentityRejection, Verdict, WriteReason},
    settings::Settings,
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    error::{Category, Failure},
    key::{Key, Plane},
    metrics::{Family, Holder},
    plan::{Event, Plan, ReasonLabel},
    reconcile::quarantine::VerdictLabel,
    runtime::{self, index::RoleState, inspect::SLICE, queue::Priority},
};
use parking_lot::Mutex;
use std::{ops::Bound, sync::Arc};

/// State of the gateway beside the runtime's own.
#[derive(Debug)]
pub struct State {
    /// Settings.
    pub settings: Settings,
    /// Rate limiter of writes to the hub.
    pub rate_limiter: Arc<Mutex<RateLimiter>>,
}

impl RoleState for State {
    type Index = GatewayIndex;

    fn releases(reason: ReasonLabel) -> bool {
        reason == WriteReason::RemoveFinalizers || reason == WriteReason::RemoveWorkloadFinalizer
    }
}

/// The state that all controllers share.
pub type Shared = runtime::context::Shared<State>;
/// Context of one reconcile.
pub type Context<'a> = runtime::context::Context<'a, State>;

/// Visits all projects in order. The index is locked for a slice of them at a time.
pub fn scan_projects(
    shared: &Shared,
    holder: Holder,
    mut visit: impl FnMut(&GatewayIndex, &ProjectKey, &Project),
) {
    let mut after = Bound::Unbounded;
    loop {
        let index = shared.read_index(holder);
        let mut last = None;
        for (key, project) in index.projects.range((after, Bound::Unbounded)).take(SLICE) {
            visit(&index, key, project);
            last = Some(key.clone());
        }
        let Some(last) = last else { return };
        after = Bound::Excluded(last);
    }
}

/// Records that the hub has rejected the object of a key in a hub namespace, or that it has not, and enqueues the
/// deployments there, whose conditions report the rejection. Other failures say nothing.
pub fn record_refusal(ctx: &Context<'_>, key: &Key, hub: &str, failure: Option<&Failure>) {
    let refused = |f: &&Failure| f.plane == Plane::Hub && f.category == Category::Refused;
    let mut index = ctx.index.lock();
    let news = match failure {
        None => index.intents.refused.remove(key).is_some(),
        Some(failure) => {
            let message = Some(failure).filter(refused).map(|f| &f.message);
            message.is_some_and(|message| {
                index
                    .intents
                    .refused
                    .insert(key.clone(), message.clone())
                    .as_ref()
                    != Some(message)
            })
        }
    };
    let keys = if news { index.source_keys(hub) } else { Vec::new() };
    drop(index);
    ctx.queue.extend(keys, Priority::Fresh);
}

/// Deliveries and policies that a reconcile withdraws from hub namespaces. Nothing may rely on them before the reconcile has ended.
#[derive(Debug, Default)]
pub struct Withdrawn(Vec<(Arc<str>, Withdrawal)>);

impl Withdrawn {
    /// Records the withdrawals of the next plan from a hub namespace.
    pub fn record(
        &mut self,
        index: &mut GatewayIndex,
        hub: &Arc<str>,
        withdrawn: impl IntoIterator<Item = Withdrawal>,
    ) {
        let more = withdrawn.into_iter().map(|one| (hub.clone(), one));
        self.0.extend(more);
        index.intents.withdrawing.extend(self.0.iter().cloned());
    }

    /// Ends with the reconcile, and enqueues the deployments that waited for that.
    pub fn end(self, ctx: &Context<'_>, hub: &str) {
        if self.0.is_empty() {
            return;
        }
        let mut index = ctx.index.lock();
        for withdrawn in &self.0 {
            index.intents.withdrawing.remove(withdrawn);
        }
        let keys = index.waiting_keys(hub);
        drop(index);
        ctx.queue.extend(keys, Priority::Fresh);
    }
}

/// Publishes an Event; a lost one has no further effect.
pub async fn publish(ctx: &Context<'_>, event: Event) {
    if let Err(error) = ctx.execute(Plan::with_event(event)).await {
        tracing::debug!(%error, "event not published");
    }
}

/// Quarantines an object; `None` if it has this verdict already. An object of another owner, which the answer tells, concerns
/// no tenant.
pub fn quarantine(ctx: &Context<'_>, key: &Key, verdict: VerdictLabel) -> Option<bool> {
    if !ctx.quarantine.insert(key, verdict) {
        return None;
    }
    let is_foreign = verdict == Verdict::IdentityMismatch;
    if is_foreign {
        ctx.metrics.count(
            Family::IdentityRejections,
            &[IdentityRejection::Mismatch.as_str()],
        );
    }
    Some(is_foreign)
}
