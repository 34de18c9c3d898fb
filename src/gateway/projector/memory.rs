//! State that the projector keeps for a write-back outside the index. Values only.

use crate::gateway::index::digest::{Projection, WriteBackDigest};
use fedgate_engine::{diff::Digest, reconcile::throttle::TokenBucket};
use tokio::time::Instant;

/// State between reconciles; losing it costs a few writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Set if the project's API server changes labels or spec: digests of the applied and of the stored ones.
    main: Option<(Digest, Digest)>,
    /// As `main`, for the status.
    status: Option<(Digest, Digest)>,
    /// Time since which the write-back is known to belong to an earlier copy that the hub's garbage collector has
    /// not deleted yet.
    pub stale_owner_since: Option<Instant>,
    /// Time since which its projection waits for a report of the cells.
    pub unreported: Option<Instant>,
    /// Limits the updates of the projection.
    pub updates: TokenBucket,
}

impl Memory {
    /// True if labels and spec are equal, or as equal as the API server allows.
    pub fn main_settled(&self, w: &WriteBackDigest, p: &Projection) -> bool {
        !main_differs(w, p) || self.main == Some(main(w, p))
    }

    /// True if the status is equal, or as equal as the API server allows.
    pub fn status_settled(&self, w: &WriteBackDigest, p: &Projection) -> bool {
        p.status == w.status || self.status == Some((w.status, p.status))
    }

    /// Records the result of a write of labels and spec, or of the status.
    pub fn settle(&mut self, status: bool, asked: &WriteBackDigest, got: &Projection) {
        if status && got.status != asked.status {
            self.status = Some((asked.status, got.status));
        } else if !status && main_differs(asked, got) {
            self.main = Some(main(asked, got));
        }
    }
}

fn main_differs(w: &WriteBackDigest, p: &Projection) -> bool {
    p.labels != w.labels || p.spec != w.spec
}

fn main(w: &WriteBackDigest, p: &Projection) -> (Digest, Digest) {
    (
        Digest::of_hash(&(w.labels, w.spec)),
        Digest::of_hash(&(p.labels, p.spec)),
    )
}
