//! State that the projector keeps for a write-back outside the index. Values only.

use crate::index::rows::{Projection, WriteBackDigest};
use fedgate_engine::{
    diff::Digest,
    reconcile::{normalized::Normalized, throttle::TokenBucket},
};
use tokio::time::Instant;

/// State between reconciles; losing it costs a few writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The last labels and spec that the project's API server changed when they were written.
    main: Normalized,
    /// As `main`, for the status.
    status: Normalized,
    /// Time since which the write-back is known to belong to an earlier copy that the hub's garbage collector has
    /// not deleted yet.
    pub stale_owner_since: Option<Instant>,
    /// Time since which its projection waits for a report of the cells.
    pub unreported: Option<Instant>,
    /// Whether the tenant was told that the projection waits.
    pub delay: Delay,
    /// Limits the updates of the projection.
    pub updates: TokenBucket,
}

/// Whether a tenant was told that a projection waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Delay {
    /// There is nothing to tell.
    #[default]
    None,
    /// The tenant was told.
    Reported,
    /// The tenant was told, and the Instance is projected now.
    Over,
}

impl Memory {
    /// True if labels and spec are equal, or as equal as the API server allows.
    pub fn main_settled(&self, w: &WriteBackDigest, p: &Projection) -> bool {
        self.main.accepts(main(w.labels, w.spec), main(p.labels, p.spec))
    }

    /// True if the status is equal, or as equal as the API server allows.
    pub fn status_settled(&self, w: &WriteBackDigest, p: &Projection) -> bool {
        self.status.accepts(w.status, p.status)
    }

    /// Records the result of a write of labels and spec, or of the status.
    pub fn record_stored(&mut self, status: bool, asked: &WriteBackDigest, got: &Projection) {
        if status {
            self.status.record(asked.status, got.status);
        } else {
            self.main
                .record(main(asked.labels, asked.spec), main(got.labels, got.spec));
        }
    }
}

fn main(labels: Digest, spec: Digest) -> Digest {
    Digest::of_hash(&(labels, spec))
}
