//! The write-back of an Instance on the hub (contract: cell.md §6; federation.md §6).

pub mod decide;
pub mod observe;
#[cfg(test)]
mod tests;

use crate::{
    context::Context,
    index::digest,
    instance::{observe::InstanceSnapshot as Local, publish},
    writes::read,
};
use decide::{WriteBackDecision, Written};
use fedgate_engine::{
    backoff::{Backoff, RetryTimer},
    error::{Category, Failure},
    key::Key,
    plan::{Plan, Requeue},
    reconcile::{
        memory::Memories,
        normalized::Normalized,
        throttle::{TokenBucket, WriteKind},
    },
    runtime::driver::MAX_PASSES,
};
use observe::HubView;
use std::time::Duration;
use tokio::time::Instant;

/// Pauses before a name is tried again that another object holds on the hub.
const NAME_HELD: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// The write-back part of the Instance controller, with the state of each write-back.
#[derive(Debug, Default)]
pub struct WriteBack {
    memory: Memories<Memory>,
}

/// State of a write-back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The last write-back that the hub changed when it was written: a hub with older definitions drops fields that it does
    /// not know.
    pub written: Normalized,
    /// As `written`, for the status.
    pub reported: Normalized,
    /// The last logged reason why the write-back cannot be written.
    said: Option<String>,
    /// While another object holds the name: the time of the next attempt.
    held: RetryTimer,
    /// Limits the writes of progress.
    pub writes: TokenBucket,
}

impl Memory {
    /// Starts the next pause before the name is tried again.
    fn pause(&mut self, now: Instant) -> Requeue {
        Requeue::After(self.held.failed(NAME_HELD, now))
    }
}

impl WriteBack {
    /// Writes the write-back if it differs: at once in a `hurry`, else limited by the token bucket.
    pub async fn reconcile(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        local: &Local,
        hurry: bool,
    ) -> Result<Requeue, Failure> {
        let mut memory = self.memory.take(key);
        let result = write(ctx, key, local, hurry, &mut memory).await;
        self.memory.put(key, memory);
        result
    }

    /// Drops the state of a deleted Instance.
    pub fn forget(&self, key: &Key) {
        self.memory.forget(key);
    }
}

/// Writes the write-back and then its status.
async fn write(
    ctx: &Context<'_>,
    key: &Key,
    local: &Local,
    hurry: bool,
    memory: &mut Memory,
) -> Result<Requeue, Failure> {
    let (began, rate) = (ctx.now().instant, ctx.settings.write_back_rate());
    if let Some(left) = memory.held.wait(began)
        && !is_named(ctx, key)
    {
        // Other events of the key do not change the holder of the name.
        return Ok(Requeue::After(left));
    }
    let left = memory.writes.wait(rate, WriteKind::Progress, began);
    let left = left.filter(|_| !hurry);
    // The object that holds the write-back's name, as it was read.
    let mut holder = None;
    for _ in 0..MAX_PASSES {
        let Some(mut seen) = observe::observe(ctx, key) else {
            // The completion of its lists enqueues every key.
            break;
        };
        seen.write_back = seen.write_back.or_else(|| holder.take());
        let (effect, written) = match decide::decide(local, &seen, memory) {
            WriteBackDecision::Nothing => {
                memory.said = None;
                memory.held = RetryTimer::default();
                break;
            }
            WriteBackDecision::Unclear(what) => {
                log_unclear(key, memory, what);
                break;
            }
            WriteBackDecision::Held(by) => return Ok(held(ctx, local, memory, &by).await),
            WriteBackDecision::Write(effect, written) => (*effect, written),
        };
        if let Some(left) = left {
            return Ok(Requeue::After(left));
        }
        let target = effect.target.clone();
        match ctx.execute(Plan::one(effect)).await {
            Ok(_) => {
                memory.writes.take(rate, began);
                remember(ctx, key, memory, written);
            }
            // Write-backs of other cells are not watched, so the object that holds the name is read.
            Err(failure) if failure.category == Category::AlreadyExists => {
                let found = ctx.executor.get(&target).await?.ok_or(failure)?;
                let found = read(
                    &found,
                    digest::write_back(&found, &mut digest::Strings::default()),
                );
                if found.deleting {
                    // No event reports its deletion.
                    return Ok(memory.pause(ctx.now().instant));
                }
                holder = Some(found);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(Requeue::AwaitChange)
}

/// True if the hub's deployment names this cell, so that no other cell holds the name.
fn is_named(ctx: &Context<'_>, key: &Key) -> bool {
    let seen = observe::observe(ctx, key);
    let deployment = seen.as_ref().and_then(|seen| seen.deployment.as_ref());
    deployment.is_some_and(|of| of.digest.cell.as_ref() == Some(&ctx.settings.cell))
}

/// Logs once why the write-back cannot be written.
fn log_unclear(key: &Key, memory: &mut Memory, what: String) {
    if memory.said.as_ref() == Some(&what) {
        return;
    }
    let (plane, namespace, name) = (&key.plane, &*key.namespace, &*key.name);
    tracing::warn!(%plane, controller = "instance", kind = %key.kind, namespace, name, %key, detail = what, "an Instance is not written back to the hub");
    memory.said = Some(what);
}

/// Records the write-back as the hub has stored it.
fn remember(ctx: &Context<'_>, key: &Key, memory: &mut Memory, written: Written) {
    let Some(HubView {
        write_back: Some(write_back),
        ..
    }) = observe::observe(ctx, key)
    else {
        return;
    };
    match written {
        Written::Object(written) => memory.written.record(written, write_back.digest.owned),
        Written::Status(written) => memory.reported.record(written, write_back.digest.status),
        Written::Other => {}
    }
}

async fn held(ctx: &Context<'_>, local: &Local, memory: &mut Memory, by: &str) -> Requeue {
    let said = format!("held by {by}");
    if memory.said.as_ref() != Some(&said) {
        let message = format!(
            "the name on the hub is held by {by}; the Instance is not seen outside this cell until it is free"
        );
        publish(ctx, local, "HubCopyHeld", "WritingBack", &message).await;
        memory.said = Some(said);
        memory.held = RetryTimer::default();
    }
    memory.pause(ctx.now().instant)
}
