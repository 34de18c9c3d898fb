//! The copy of an Instance on the hub (contract: cell.md §6; federation.md §6).

pub mod decide;
pub mod observe;
#[cfg(test)]
mod tests;

use crate::{
    context::{Context, State},
    index::digest::{self, HubInstance},
    instance::{decide::note, observe::InstanceSnapshot as Local},
    writes::read,
};
use decide::CopyDecision;
use fedgate_engine::backoff::{Backoff, RetryTimer};
use fedgate_engine::reconcile::{
    memory::Memories,
    normalized::Normalized,
    throttle::{TokenBucket, WriteKind},
};
use fedgate_engine::{
    error::{Category, Failure},
    key::Key,
    plan::{Applied, Plan, Requeue, Target},
    runtime::driver::{self, Flow, Reconcile, Reconciler, Step},
    store::table::Row,
};
use observe::HubView;
use std::time::Duration;
use tokio::time::Instant;

/// Pauses before a name is tried again that another object holds on the hub.
const NAME_HELD: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// The write-back part of the Instance controller, with the state of each copy.
#[derive(Debug, Default)]
pub struct WriteBack {
    memory: Memories<Memory>,
}

/// State of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The last copy that the hub changed when it was written: a hub with older definitions drops fields that it does
    /// not know.
    pub written: Normalized,
    /// As `written`, for the status.
    pub reported: Normalized,
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
        let copy = Copy {
            memory: &self.memory,
            local,
            hurry,
            began: ctx.now().instant,
        };
        driver::reconcile(&copy, ctx, key).await
    }

    /// Drops the state of a deleted Instance.
    pub fn forget(&self, key: &Key) {
        self.memory.forget(key);
    }
}

/// The copy of one Instance.
struct Copy<'a> {
    memory: &'a Memories<Memory>,
    local: &'a Local,
    hurry: bool,
    began: Instant,
}

/// State of a copy's reconcile.
#[derive(Default)]
struct Session {
    memory: Memory,
    /// Time until the token bucket permits a write; `None` if it does now.
    left: Option<Duration>,
    /// The object that holds the copy's name, as it was read.
    holder: Option<Row<HubInstance>>,
}

/// The basis of a decision on a copy, for the steps that follow it.
enum Basis {
    /// A write to an object.
    Write(decide::Written, Target),
    /// Another object holds the name.
    Held(String),
}

impl Reconciler for Copy<'_> {
    type State = State;
    type Session = Session;
    type Basis = Basis;

    const NAME: &'static str = "instance";

    fn begin(&self, ctx: &Context<'_>, key: &Key) -> Session {
        let memory = self.memory.take(key);
        let left = memory
            .writes
            .wait(ctx.settings.copy_rate(), WriteKind::Progress, self.began);
        Session {
            memory,
            left: left.filter(|_| !self.hurry),
            holder: None,
        }
    }

    fn end(&self, _: &Context<'_>, key: &Key, session: Session) {
        self.memory.put(key, session.memory);
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let memory = &mut run.session.memory;
        if let Some(left) = memory.held.wait(self.began) {
            // Other events of the key do not change the holder of the name.
            return Step::End(Requeue::After(left));
        }
        let Some(mut seen) = observe::observe(run.ctx, run.key) else {
            // The completion of its lists enqueues every key.
            return Step::End(Requeue::AwaitChange);
        };
        seen.copy = seen.copy.or_else(|| run.session.holder.take());
        match decide::decide(self.local, &seen, memory) {
            CopyDecision::Nothing => {
                memory.said = None;
                memory.held = RetryTimer::default();
                Step::End(Requeue::AwaitChange)
            }
            CopyDecision::Write(..) if let Some(left) = run.session.left => Step::End(Requeue::After(left)),
            CopyDecision::Write(effect, written) => {
                let basis = Basis::Write(written, effect.target.clone());
                Step::Apply(Plan::one(*effect), basis)
            }
            CopyDecision::Unclear(what) => {
                if memory.said.as_ref() != Some(&what) {
                    let (plane, namespace, name) = (&run.key.plane, &*run.key.namespace, &*run.key.name);
                    tracing::warn!(%plane, controller = Self::NAME, kind = %run.key.kind, namespace, name, key = %run.key, detail = what, "an Instance is not written back to the hub");
                    memory.said = Some(what);
                }
                Step::End(Requeue::AwaitChange)
            }
            CopyDecision::Held(by) => Step::Read(Basis::Held(by)),
        }
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) -> Result<Flow, Failure> {
        let Basis::Held(by) = basis else {
            return Ok(Flow::Again);
        };
        Ok(Flow::End(
            held(run.ctx, self.local, &mut run.session.memory, by).await,
        ))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, _: &Plan<Applied>) -> Flow {
        run.session
            .memory
            .writes
            .take(run.ctx.settings.copy_rate(), self.began);
        if let Basis::Write(written, _) = basis {
            remember(run.ctx, run.key, &mut run.session.memory, written);
        }
        Flow::Again
    }

    /// If the name is taken, reads the object that holds it: copies of other cells are not watched.
    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        let Basis::Write(_, target) = basis else {
            return Err(failure);
        };
        if failure.category != Category::AlreadyExists {
            return Err(failure);
        }
        let found = run.ctx.executor.get(target).await?.ok_or(failure)?;
        let holder = read(&found, digest::copy(&found, &mut digest::Strings::default()));
        if holder.deleting {
            // No event reports its deletion.
            return Ok(Flow::End(run.session.memory.pause(run.ctx.now().instant)));
        }
        run.session.holder = Some(holder);
        Ok(Flow::Again)
    }
}

/// Records the copy as the hub has stored it.
fn remember(ctx: &Context<'_>, key: &Key, memory: &mut Memory, written: &decide::Written) {
    let Some(HubView { copy: Some(copy), .. }) = observe::observe(ctx, key) else {
        return;
    };
    match written {
        decide::Written::Object(written) => memory.written.record(*written, copy.digest.owned),
        decide::Written::Status(written) => memory.reported.record(*written, copy.digest.status),
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
