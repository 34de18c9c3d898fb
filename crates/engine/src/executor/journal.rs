//! The last writes of this process, to see why an object is as it is. They are kept in memory and lost with the process.

use crate::{
    clock::Clock,
    error::{Category, Failure},
    key::Key,
    message::clean,
    plan::{Effect, Write},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Number of writes that are kept...
const KEPT: usize = 4_096;
/// ...of which this many places are for failed ones, so that those that succeed do not displace them.
const FAILED: usize = 256;

/// A write that was answered, or whose answer is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of the write in this process, from 1.
    pub number: u64,
    /// When it ended.
    pub at: Timestamp,
    /// The written object.
    pub object: Key,
    /// The verb of the request.
    pub verb: &'static str,
    /// The reason of the write.
    pub reason: &'static str,
    /// End of the write.
    pub end: End,
    /// Time until it ended.
    pub took: Duration,
}

/// The end of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The write was applied, and led to this resourceVersion; `None` if the object is gone.
    Applied(Option<Box<str>>),
    /// The write failed; with the words of the server or the transport, without values of objects.
    Failed(Category, Box<str>),
}

/// The last writes; see the module.
#[derive(Debug)]
pub struct Journal {
    clock: Clock,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    applied: VecDeque<Arc<Entry>>,
    failed: VecDeque<Arc<Entry>>,
}

impl Journal {
    /// An empty journal.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            kept: Mutex::default(),
        }
    }

    /// Records a write that began at `began`.
    pub(super) fn record(
        &self,
        effect: &Effect,
        verb: &'static str,
        began: Instant,
        result: Result<Option<&str>, &Failure>,
    ) {
        let target = &effect.target;
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let end = match result {
            Ok(version) => End::Applied(version.map(Into::into)),
            // Not sent: another replica writes.
            Err(failure) if failure.category == Category::NotLeader => return,
            Err(failure) => End::Failed(failure.category, clean(&failure.message)),
        };
        let mut entry = Entry {
            number: 0,
            at: self.clock.now().wall,
            object: Key::new(target.plane.clone(), target.kind(), namespace, &target.name),
            verb,
            reason: effect.reason.label(),
            end,
            took: began.elapsed(),
        };
        let mut kept = self.kept.lock();
        kept.last += 1;
        entry.number = kept.last;
        let (places, most) = match entry.end {
            End::Applied(_) => (&mut kept.applied, KEPT - FAILED),
            End::Failed(..) => (&mut kept.failed, FAILED),
        };
        if places.len() == most {
            places.pop_front();
        }
        places.push_back(Arc::new(entry));
    }

    /// The writes, newest first.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = {
            let kept = self.kept.lock();
            kept.applied.iter().chain(&kept.failed).cloned().collect()
        };
        all.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.number));
        all
    }
}

/// The verb of a write.
pub(super) fn verb_of(write: &Write) -> &'static str {
    match write {
        Write::Create { .. } => "create",
        Write::Replace { .. } => "update",
        Write::Apply { .. } => "apply",
        Write::Update { .. } | Write::Merge { .. } => "patch",
        Write::Delete { .. } | Write::DeleteNamed => "delete",
    }
}
