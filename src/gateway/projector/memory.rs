//! What the projector remembers of a write-back, beside the index. Values only.

use crate::gateway::index::digest::{Projection, WriteBackDigest};
use fedgate_engine::{diff::Digest, throttle::TokenBucket};
use tokio::time::Instant;

/// What is remembered between passes; losing it costs a few writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The project's API does not take labels and spec as they are: what was wanted, and what it made of it.
    main: Option<(Digest, Digest)>,
    /// The same of the status.
    status: Option<(Digest, Digest)>,
    /// Since when it is known to be an earlier copy's, which the hub's collector has not taken yet.
    pub stale_owner_since: Option<Instant>,
    /// Since when its projection waits for a report of the cells.
    pub unreported: Option<Instant>,
    /// Limits the updates of the projection.
    pub updates: TokenBucket,
}

impl Memory {
    /// Whether labels and spec are what they can be.
    pub fn main_settled(&self, w: &WriteBackDigest, p: &Projection) -> bool {
        !main_differs(w, p) || self.main == Some(main(w, p))
    }

    /// Whether the status is what it can be.
    pub fn status_settled(&self, w: &WriteBackDigest, p: &Projection) -> bool {
        p.status == w.status || self.status == Some((w.status, p.status))
    }

    /// Remembers what became of a write: of labels and spec, or of the status.
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
