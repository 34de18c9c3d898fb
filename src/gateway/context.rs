//! State that the gateway's controllers share beside the runtime's own, and what they record of the hub's rejections.

use super::{index::GatewayIndex, rate_limit::RateLimiter, settings::Settings};
use fedgate_api::names::CityCode;
use fedgate_engine::{
    error::{Failure, Retry},
    key::{Key, Plane},
    runtime::{self, queue::Priority, role::RoleState},
};
use parking_lot::Mutex;
use std::sync::Arc;

/// State of the gateway beside the runtime's own.
#[derive(Debug)]
pub struct State {
    /// Settings.
    pub settings: Settings,
    /// Rate limiter of writes to the hub.
    pub rate_limiter: Mutex<RateLimiter>,
}

impl RoleState for State {
    type Index = GatewayIndex;
}

/// The state that all controllers share.
pub type Shared = runtime::context::Shared<State>;
/// Context of one reconcile.
pub type Context<'a> = runtime::context::Context<'a, State>;

/// Records whether the hub rejects the object of a key in a hub namespace, and enqueues the deployments there, whose
/// conditions report the rejection.
pub fn record_refusal<T>(
    ctx: &Context<'_>,
    key: &Key,
    hub: &str,
    result: Result<T, Failure>,
) -> Result<T, Failure> {
    let refused = |f: &Failure| f.plane == Plane::Hub && f.retry() == Retry::Quarantine;
    let mut index = ctx.index.lock();
    let news = match &result {
        Ok(_) => index.refused.remove(key).is_some(),
        Err(f) if refused(f) => {
            index.refused.insert(key.clone(), f.message.clone()).as_ref() != Some(&f.message)
        }
        Err(_) => false,
    };
    let keys = if news { index.source_keys(hub) } else { Vec::new() };
    drop(index);
    ctx.queue.extend(keys, Priority::Fresh);
    result
}

/// Clears `withdrawing` for these cities of a hub namespace, and enqueues the deployments that waited for it.
pub fn clear_withdrawing(ctx: &Context<'_>, hub: &str, withdrawing: &[(Arc<str>, CityCode)]) {
    if withdrawing.is_empty() {
        return;
    }
    let mut index = ctx.index.lock();
    for entry in withdrawing {
        index.withdrawing.remove(entry);
    }
    let keys = index.waiting_keys(hub);
    drop(index);
    ctx.queue.extend(keys, Priority::Fresh);
}
