//! Objects that live at exactly one member: chosen by Karmada, pinned on the hub before anything is delivered, and
//! delivered by lanes (contract: clusters.md §3).

pub mod conditions;
pub mod observe;

pub use observe::{HubUser, Lanes, lane_of, observe, own_binding};

use super::observe::Snapshot;
use crate::{context::Context, index::TableId, lane::Lane};
use fedgate_engine::{key::Key, runtime::queue::Priority};
use std::sync::Arc;

/// Records the lane that a copy is to have, so that its policy is made and stays.
pub fn note_wanted(ctx: &Context<'_>, key: &Key, s: &Snapshot, lane: Option<&Lane>) {
    let (Some(_), Some(hub)) = (&s.lanes, &s.hub) else {
        return;
    };
    let hub: Arc<str> = hub.as_str().into();
    let mut index = ctx.index.lock();
    let has_changed = index.intents.lanes.want(&hub, key, lane);
    // Not at each pass: the policies enqueue those that wait for them, also where the hub refuses or does not answer.
    let policies = has_changed.then(|| index.hub_key(TableId::CityPolicies, &hub, ""));
    drop(index);
    ctx.queue.extend(policies, Priority::Fresh);
}

/// True if the policy of the wanted lane is still there just before a write: no copy is given to a policy that is being
/// deleted.
pub fn note_sent(ctx: &Context<'_>, key: &Key, s: &Snapshot, lane: Option<&Lane>) -> bool {
    let (Some(_), Some(hub), Some(lane)) = (&s.lanes, &s.hub, lane) else {
        return true;
    };
    let hub: Arc<str> = hub.as_str().into();
    let mut index = ctx.index.lock();
    index.intents.lanes.want(&hub, key, Some(lane));
    let name: Arc<str> = lane.name(&s.kinds).into();
    !index.intents.lanes.withdrawing.contains(&(hub, name))
}
