//! State that the federator keeps for a deployment outside the index. Values only.

use crate::{
    index::rows::{HubCopy, Source},
    single_member,
};
use fedgate_engine::{
    clock::Now,
    diff::Digest,
    reconcile::{
        normalized::Normalized,
        throttle::{RETRY_AFTER, TokenBucket},
    },
    store::table::Row,
};
use std::time::Duration;
use tokio::time::Instant;

/// Time after a write of the copy until a missing delivery becomes `Propagating`, a missing report becomes
/// `NoCellReporting`, and a `Federated=True` is written without waiting for a report.
pub const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Time after which a deployment without a copy of its own says what it waits for. It is longer than [`GRACE_PERIOD`], because
/// Namespace and policies come first and a project's writes to the hub take turns.
pub const UNCOPIED_AFTER: Duration = Duration::from_secs(30);

/// State of a deployment between reconciles. Losing it only delays conditions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Times since which something about the deployment has waited.
    pub since: Since,
    /// Arrival time of the change that is being synced to the hub; used by metrics, not by decisions.
    pub carrying: Option<Instant>,
    /// Time of the last repair of the claim.
    pub claim_repaired: Option<Instant>,
    /// Limits the writes of the project's status.
    pub status_writes: TokenBucket,
    /// The last status that the project's API server changed when it was returned.
    pub status: Normalized,
    /// The last payload that the hub changed, e.g. by a default of its own.
    pub payload: Normalized,
    /// The last rejection by the hub.
    pub refused: Option<Rejection>,
    /// The last status that the project's API server has refused.
    pub status_refused: Option<Rejection>,
    /// While the deployment is being deleted: true once it is known whether the hub has a binding of it. Either the binding was
    /// seen, or the hub has confirmed that it has none.
    pub is_binding_settled: bool,
    /// When the project's API server last dropped the gateway's own conditions from the status.
    pub pruned: Option<Instant>,
    /// True if its tenant was told that the copy could not be marked as suspended.
    pub pause_failed: bool,
    /// State of an object that lives at one member.
    pub member: single_member::decide::Memory,
}

/// Times since which something about a deployment has waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Since {
    /// The copy is not delivered.
    pub undelivered: Option<Instant>,
    /// References are unresolved.
    pub unresolved: Option<Instant>,
    /// The hub reports that no cell reports.
    pub unreported: Option<Instant>,
    /// Nothing but `Federated=True` is to be written.
    pub only_true: Option<Instant>,
    /// The claim names a wrong policy.
    pub claim_mismatch: Option<Instant>,
}

/// A state that an API server has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The content, and the generation of the deployment.
    state: (Digest, i64),
    /// True if the spec itself was rejected, not another write for the deployment.
    is_spec: bool,
    at: Instant,
    message: String,
}

impl Rejection {
    fn of(state: (Digest, i64), is_spec: bool, message: &str, now: Now) -> Self {
        Self {
            state,
            is_spec,
            at: now.instant,
            message: message.to_owned(),
        }
    }

    /// The message, and the time until the next attempt; `None` once that has come.
    fn holds(&self, now: Now) -> Option<(&str, Duration)> {
        let left = RETRY_AFTER.saturating_sub(now.since(self.at));
        (!left.is_zero()).then_some((self.message.as_str(), left))
    }
}

fn spec_of(source: &Row<Source>) -> (Digest, i64) {
    (source.digest.content, source.digest.generation)
}

fn status_of(source: &Row<Source>, copy: &Row<HubCopy>) -> (Digest, i64) {
    (Digest::of_hash(&copy.digest.status), source.digest.generation)
}

impl Memory {
    /// Records that the project's API server refused the copy's present status, with its message.
    pub fn refuse_status(&mut self, source: &Row<Source>, copy: &Row<HubCopy>, message: &str, now: Now) {
        self.status_refused = Some(Rejection::of(status_of(source, copy), false, message, now));
    }

    /// True if the project's API server has dropped the gateway's own conditions a short while ago.
    pub fn are_conditions_dropped(&self, now: Now) -> bool {
        self.pruned.is_some_and(|at| now.since(at) < RETRY_AFTER)
    }

    /// The message about the copy's present status, and the time until the next attempt to write it.
    pub fn status_refusal(
        &self,
        source: &Row<Source>,
        copy: &Row<HubCopy>,
        now: Now,
    ) -> Option<(&str, Duration)> {
        let state = status_of(source, copy);
        let refused = self.status_refused.as_ref().filter(|r| r.state == state)?;
        refused.holds(now)
    }

    /// Records that the hub rejected the deployment in its present state, with the hub's message; `is_spec` if it rejected the
    /// spec itself.
    pub fn refuse(&mut self, source: &Row<Source>, is_spec: bool, message: &str, now: Now) {
        self.refused = Some(Rejection::of(spec_of(source), is_spec, message, now));
    }

    fn rejection(&self, source: &Row<Source>) -> Option<&Rejection> {
        self.refused.as_ref().filter(|r| r.state == spec_of(source))
    }

    /// True if the hub rejected the deployment in its present state.
    pub fn refuses(&self, source: &Row<Source>) -> bool {
        self.rejection(source).is_some()
    }

    /// True if the hub rejected the deployment's spec a short while ago, and nothing else of it.
    pub fn refuses_spec(&self, source: &Row<Source>, now: Now) -> bool {
        let is_spec = self.refused.as_ref().is_some_and(|refused| refused.is_spec);
        is_spec && self.refusal(source, now).is_some()
    }

    /// The hub's message about the deployment in its present state, and the time until the next attempt.
    pub fn refusal(&self, source: &Row<Source>, now: Now) -> Option<(&str, Duration)> {
        self.rejection(source)?.holds(now)
    }
}
