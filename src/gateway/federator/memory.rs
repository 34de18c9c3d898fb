//! What the federator remembers of a deployment, beside the index. Values only.

use crate::gateway::index::digest::Source;
use fedgate_engine::{
    clock::Now, diff::Digest, plane::table::Row, quarantine::RETRY_AFTER, throttle::TokenBucket,
};
use std::time::Duration;
use tokio::time::Instant;

/// How long after the copy was written a missing delivery becomes `Propagating`, a missing report `NoCellReporting`,
/// and a `Federated=True` is written alone.
pub const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// What the federator remembers of a deployment between passes; losing it costs nothing but patience.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Since when the copy is not delivered.
    pub undelivered: Option<Instant>,
    /// Since when the references are unresolved.
    pub unresolved: Option<Instant>,
    /// When the change that is on its way to the hub came in; for the measurement, not for decisions.
    pub carrying: Option<Instant>,
    /// Since when the hub says that no cell reports.
    pub unreported: Option<Instant>,
    /// Since when only `Federated=True` waits to be written.
    pub true_since: Option<Instant>,
    /// Since when the claim names a wrong policy.
    pub claim_mismatch_since: Option<Instant>,
    /// When the claim was last repaired.
    pub claim_repaired: Option<Instant>,
    /// Limits the writes of the project's status.
    pub status_writes: TokenBucket,
    /// The project's API does not take a returned status as it is: what the hub had, and what the project made of it.
    pub status_settled: Option<(Digest, Digest)>,
    /// The hub keeps a default of its own in the payload: what we wanted, and what it made of it.
    pub settled: Option<(Digest, Digest)>,
    /// What the hub has refused.
    pub refused: Option<RejectedSpec>,
    /// While it is being deleted: its binding was seen, or the hub has said that it has none.
    pub bound: bool,
}

/// A deployment that the hub has refused, as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedSpec {
    content: Digest,
    generation: i64,
    at: Instant,
    message: String,
}

impl RejectedSpec {
    fn is_of(&self, source: &Row<Source>) -> bool {
        self.content == source.digest.content && self.generation == source.digest.generation
    }
}

impl Memory {
    /// The hub has refused what was made of the deployment as it is, in these words.
    pub fn refuse(&mut self, source: &Row<Source>, message: &str, now: Now) {
        self.refused = Some(RejectedSpec {
            content: source.digest.content,
            generation: source.digest.generation,
            at: now.instant,
            message: message.to_owned(),
        });
    }

    /// Whether the hub's refusal is one of the deployment as it is.
    pub fn refuses(&self, source: &Row<Source>) -> bool {
        self.refused.as_ref().is_some_and(|r| r.is_of(source))
    }

    /// What the hub said of the deployment as it is, and for how long it is not asked again.
    pub fn refusal(&self, source: &Row<Source>, now: Now) -> Option<(&str, Duration)> {
        let refused = self.refused.as_ref().filter(|r| r.is_of(source))?;
        let left = RETRY_AFTER.saturating_sub(now.since(refused.at));
        (!left.is_zero()).then_some((refused.message.as_str(), left))
    }
}
