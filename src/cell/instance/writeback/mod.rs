//! The copy of an Instance on the hub (contract: cell.md §6; federation.md §6).

pub mod decide;
pub mod observe;
#[cfg(test)]
mod tests;

use crate::cell::{
    context::Context,
    instance::{decide::note, observe::Snapshot as Local},
};
use decide::{Decision, Held};
use fedgate_engine::backoff::{Backoff, RetryTimer};
use fedgate_engine::reconcile::throttle::{TokenBucket, WriteKind};
use fedgate_engine::runtime::driver::MAX_PASSES;
use fedgate_engine::{
    diff::Digest,
    error::{Category, Failure},
    key::Key,
    plan::{Effect, Plan, Requeue},
    random::HashMap,
};
use observe::{HubCopy, Seen};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Pauses before a name is tried again that another object holds on the hub.
const NAME_HELD: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// The write-back part of the Instance controller, with the state of each copy.
#[derive(Debug, Default)]
pub struct WriteBack {
    memory: Mutex<HashMap<Key, Memory>>,
}

/// State of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Digests of the last applied copy and of the stored one: a hub with older definitions drops fields that it
    /// does not know, and writing them again changes nothing.
    pub written: Option<(Digest, Digest)>,
    /// As `written`, for the status.
    pub reported: Option<(Digest, Digest)>,
    /// The last logged reason why the copy cannot be written.
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
    /// Writes the copy if it differs: at once in a `hurry`, else limited by the token bucket.
    pub async fn reconcile(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        local: &Local,
        hurry: bool,
    ) -> Result<Requeue, Failure> {
        let mut memory = self.memory.lock().remove(key).unwrap_or_default();
        let result = reconcile_once(ctx, key, local, hurry, &mut memory).await;
        self.memory.lock().insert(key.clone(), memory);
        result
    }

    /// Drops the state of a deleted Instance.
    pub fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock();
        memory.remove(key);
        fedgate_engine::shrink::shrink_if_sparse(&mut memory);
    }
}

async fn reconcile_once(
    ctx: &Context<'_>,
    key: &Key,
    local: &Local,
    hurry: bool,
    memory: &mut Memory,
) -> Result<Requeue, Failure> {
    let now = ctx.now().instant;
    if let Some(left) = memory.held.wait(now) {
        // Other events of the key do not change the holder of the name.
        return Ok(Requeue::After(left));
    }
    let rate = ctx.settings.copy_rate();
    let left = memory
        .writes
        .wait(rate, WriteKind::Progress, now)
        .filter(|_| !hurry);
    let mut read: Option<HubCopy> = None;
    for _ in 0..MAX_PASSES {
        let Some(mut seen) = observe::observe(ctx, key) else {
            // The completion of its lists enqueues every key.
            return Ok(Requeue::AwaitChange);
        };
        seen.copy = seen.copy.or_else(|| read.take());
        match decide::decide(local, &seen, memory) {
            Decision::Nothing => {
                memory.said = None;
                memory.held = RetryTimer::default();
                return Ok(Requeue::AwaitChange);
            }
            Decision::Write(..) if let Some(left) = left => return Ok(Requeue::After(left)),
            Decision::Write(effect, about) => {
                match write(ctx, *effect).await? {
                    // No event reports its deletion.
                    Some(other) if other.deleting => return Ok(memory.pause(ctx.now().instant)),
                    Some(other) => read = Some(other),
                    None => {
                        memory.writes.take(rate, now);
                        remember(ctx, key, memory, about);
                    }
                }
            }
            Decision::Unclear(what) => {
                if memory.said.as_ref() != Some(&what) {
                    tracing::warn!(%key, what, "an Instance is not written back to the hub");
                    memory.said = Some(what);
                }
                return Ok(Requeue::AwaitChange);
            }
            Decision::Held(Held { by }) => return Ok(held(ctx, local, memory, &by).await),
        }
    }
    Ok(Requeue::AwaitChange)
}

/// Writes; returns the object that holds the name if the name is taken. Copies of other cells are not watched, so
/// the holder is read.
async fn write(ctx: &Context<'_>, effect: Effect) -> Result<Option<HubCopy>, Failure> {
    let target = effect.target.clone();
    match ctx.execute(Plan::one(effect)).await {
        Ok(_) => Ok(None),
        Err(failure) if failure.category == Category::AlreadyExists => {
            let found = ctx.executor.get(&target).await?;
            found.map(|object| Some(observe::read(&object))).ok_or(failure)
        }
        Err(failure) => Err(failure),
    }
}

/// Records the copy as the hub has stored it.
fn remember(ctx: &Context<'_>, key: &Key, memory: &mut Memory, about: decide::Written) {
    let Some(Seen { copy: Some(copy), .. }) = observe::observe(ctx, key) else {
        return;
    };
    match about {
        decide::Written::Object(written) => memory.written = Some((written, copy.copy.owned)),
        decide::Written::Status(written) => memory.reported = Some((written, copy.copy.status)),
        decide::Written::Other => {}
    }
}

async fn held(ctx: &Context<'_>, local: &Local, memory: &mut Memory, by: &str) -> Requeue {
    let said = format!("held by {by}");
    if memory.said.as_ref() != Some(&said) {
        let message = format!(
            "the name on the hub is held by {by}; the Instance is not seen outside this cell until it is free"
        );
        let note = note(local, "HubCopyHeld", "WritingBack", &message);
        // A lost Event has no further effect.
        let _ = ctx.execute(Plan::with_event(note)).await;
        memory.said = Some(said);
        memory.held = RetryTimer::default();
    }
    memory.pause(ctx.now().instant)
}
