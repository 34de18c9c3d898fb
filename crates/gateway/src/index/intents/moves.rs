//! Moves of deployments from cell to cell that are to begin, and what became of earlier moves (contract: serving.md §2). They are
//! in memory alone, because a process that starts makes its own plan; a move that has begun is in the copy and the binding.

use crate::index::{ObjectRef, rows::MoveCause};
use fedgate_engine::{
    backoff::{Backoff, RetryTimer},
    clock::Now,
    random::HashMap,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Pauses after moves of a deployment that were cancelled.
const CANCELLED: Backoff = Backoff::new(Duration::from_mins(1), Duration::from_hours(1));

/// A move that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMove {
    /// The cell that the deployment leaves.
    pub from: Arc<str>,
    /// The cell to which it goes.
    pub to: Arc<str>,
    /// Why it moves.
    pub cause: MoveCause,
    /// When this move was planned.
    pub since: Instant,
}

/// A cell that has not been ready for as long as `--cell-lost-after` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostCell {
    /// The time since which it is not ready, in seconds since the epoch.
    pub since: i64,
    /// True if its deployments do not move, because too many cells are not ready at once.
    pub is_held: bool,
}

/// Plans of moves, from the last decision, and what became of earlier moves.
#[derive(Debug, Default)]
pub struct Moves {
    /// The moves that are to begin.
    pub planned: BTreeMap<ObjectRef, PlannedMove>,
    /// The lost cells.
    pub lost: BTreeMap<Arc<str>, LostCell>,
    /// The cells at which deployments did not become healthy.
    cancelled: HashMap<ObjectRef, CancelledMove>,
}

/// A move that was cancelled.
#[derive(Debug, Clone, Default)]
pub struct CancelledMove {
    /// The cell at which the deployment did not become healthy, if Karmada scheduled it there.
    pub to: Option<Arc<str>>,
    timer: RetryTimer,
}

impl CancelledMove {
    /// Time until the deployment may move again; `None` if it may.
    pub fn wait(&self, now: Now) -> Option<Duration> {
        self.timer.wait(now.instant)
    }
}

impl Moves {
    /// Number of lost cells whose deployments do not move, because too many cells are not ready at once.
    pub fn held(&self) -> usize {
        self.lost.values().filter(|lost| lost.is_held).count()
    }

    /// Records that a deployment did not become healthy at a cell; `None` if Karmada scheduled it to no other cell.
    pub fn cancel(&mut self, object: &ObjectRef, to: Option<&Arc<str>>, now: Now) {
        self.planned.remove(object);
        let of = self.cancelled.entry(object.clone()).or_default();
        of.to = to.cloned();
        of.timer.failed(CANCELLED, now.instant);
    }

    /// Forgets the cancelled moves of a deployment that was moved.
    pub fn complete(&mut self, object: &ObjectRef) {
        self.cancelled.remove(object);
    }

    /// The cancelled move of a deployment that is still to move.
    pub fn cancelled(&self, object: &ObjectRef) -> Option<&CancelledMove> {
        self.cancelled.get(object)
    }

    /// Forgets the cancelled moves of the deployments that a filter refuses; returns these.
    pub fn retain_cancelled(&mut self, keeps: impl Fn(&ObjectRef) -> bool) -> Vec<ObjectRef> {
        let gone = self.cancelled.extract_if(|object, _| !keeps(object));
        gone.map(|(object, _)| object).collect()
    }
}
