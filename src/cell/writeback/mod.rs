//! The copy of an Instance on the hub (contract: cell.md §6; federation.md §6).

pub mod decide;
pub mod observe;

use super::{
    context::{PASSES, Turn},
    instance::{decide::note, observe::Snapshot as Local},
};
use crate::engine::{
    chance::HashMap,
    diff::Digest,
    error::Failure,
    key::Key,
    plan::{Next, Plan},
};
use decide::{Decision, Held};
use observe::Seen;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// First pause before a name is tried again that another cell holds.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// See the module.
#[derive(Debug, Default)]
pub struct WriteBack {
    memory: Mutex<HashMap<Key, Memory>>,
}

/// What is remembered of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// What was written last, and what the hub made of it: a hub with older definitions leaves out what it does not know,
    /// and writing it again would change nothing.
    pub written: Option<(Digest, Digest)>,
    /// The same of the status.
    pub reported: Option<(Digest, Digest)>,
    /// What was said last of a copy that cannot be written.
    said: Option<String>,
    /// How often the name was found held.
    held: u32,
    /// When it was last written.
    wrote: Option<Instant>,
}

impl WriteBack {
    /// Brings the copy up to date: at once in a `hurry`, else at intervals.
    pub async fn reconcile(
        &self,
        ctx: &Turn<'_>,
        key: &Key,
        local: &Local,
        hurry: bool,
    ) -> Result<Next, Failure> {
        let mut memory = self.memory.lock().remove(key).unwrap_or_default();
        let result = turn(ctx, key, local, hurry, &mut memory).await;
        self.memory.lock().insert(key.clone(), memory);
        result
    }

    /// The Instance is gone.
    pub fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock();
        memory.remove(key);
        crate::engine::room::give_back(&mut memory);
    }
}

async fn turn(
    ctx: &Turn<'_>,
    key: &Key,
    local: &Local,
    hurry: bool,
    memory: &mut Memory,
) -> Result<Next, Failure> {
    let (now, last) = (ctx.now().instant, memory.wrote);
    let left = last.map(|at| {
        ctx.settings
            .status_interval
            .saturating_sub(now.saturating_duration_since(at))
    });
    let left = left.filter(|left| !hurry && !left.is_zero());
    for _ in 0..PASSES {
        let Some(seen) = observe::observe(ctx, key) else {
            // Its lists wake everything when they are there.
            return Ok(Next::OnEvent);
        };
        match decide::decide(local, &seen, memory) {
            Decision::Nothing => {
                memory.said = None;
                memory.held = 0;
                return Ok(Next::OnEvent);
            }
            Decision::Write(..) if let Some(left) = left => return Ok(Next::After(left)),
            Decision::Write(effect, about) => {
                memory.wrote = Some(now);
                ctx.perform(Plan::one(*effect)).await?;
                remember(ctx, key, memory, about);
            }
            Decision::Unclear(what) => {
                if memory.said.as_ref() != Some(&what) {
                    tracing::warn!(%key, what, "an Instance is not written back");
                    memory.said = Some(what);
                }
                return Ok(Next::OnEvent);
            }
            Decision::Held(Held { by }) => return Ok(held(ctx, local, memory, &by).await),
        }
    }
    Ok(Next::OnEvent)
}

/// Keeps what the hub made of what was written.
fn remember(ctx: &Turn<'_>, key: &Key, memory: &mut Memory, about: decide::About) {
    let Some(Seen { copy: Some(copy), .. }) = observe::observe(ctx, key) else {
        return;
    };
    match about {
        decide::About::Object(written) => memory.written = Some((written, copy.copy.owned)),
        decide::About::Status(written) => memory.reported = Some((written, copy.copy.status)),
        decide::About::Other => {}
    }
}

async fn held(ctx: &Turn<'_>, local: &Local, memory: &mut Memory, by: &str) -> Next {
    let said = format!("held by {by}");
    if memory.said.as_ref() != Some(&said) {
        let message = format!(
            "the name on the hub is held by {by}; the Instance is not seen outside this cell until it is free"
        );
        let note = note(local, "HubCopyHeld", "WritingBack", &message);
        // An event that is lost costs nothing but itself.
        let _ = ctx.perform(Plan::tell(note)).await;
        memory.said = Some(said);
        memory.held = 0;
    }
    let pause = FIRST_PAUSE
        .saturating_mul(1 << memory.held.min(16))
        .min(LONGEST_PAUSE);
    memory.held = memory.held.saturating_add(1);
    Next::After(pause)
}
