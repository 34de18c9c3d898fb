//! State that the federator keeps for a deployment outside the index. Values only.

use crate::{
    index::rows::{HubCopy, Source},
    lane::Lane,
    member::Seen,
};
use fedgate_engine::{
    clock::Now,
    diff::Digest,
    reconcile::{normalized::Normalized, quarantine::RETRY_AFTER, throttle::TokenBucket},
    store::table::Row,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time after a write of the copy until a missing delivery becomes `Propagating`, a missing report becomes
/// `NoCellReporting`, and a `Federated=True` is written without waiting for a report.
pub const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Time after which a deployment without a copy of its own says what it waits for. It is longer than [`GRACE_PERIOD`], because
/// Namespace and policies come first and a project's writes to the hub take turns.
pub const UNCOPIED_AFTER: Duration = Duration::from_secs(30);

/// State of a deployment between reconciles. Losing it only delays conditions.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Memory {
    /// Time since which the copy is not delivered.
    pub undelivered: Option<Instant>,
    /// Time since which references are unresolved.
    pub unresolved: Option<Instant>,
    /// Arrival time of the change that is being synced to the hub; used by metrics, not by decisions.
    pub carrying: Option<Instant>,
    /// Time since which the hub reports that no cell reports.
    pub unreported: Option<Instant>,
    /// Time since which nothing but `Federated=True` waits to be written.
    pub true_since: Option<Instant>,
    /// Time since which the claim names a wrong policy.
    pub claim_mismatch_since: Option<Instant>,
    /// Time of the last repair of the claim.
    pub claim_repaired: Option<Instant>,
    /// Limits the writes of the project's status.
    pub status_writes: TokenBucket,
    /// The last status that the project's API server changed when it was returned.
    pub status: Normalized,
    /// The last payload that the hub changed, e.g. by a default of its own.
    pub payload: Normalized,
    /// The last rejection by the hub.
    pub refused: Option<RejectedSpec>,
    /// While the deployment is being deleted: true once its binding was seen, or the hub has confirmed that it has
    /// none.
    pub bound: bool,
    /// The lane that the copy is to have, if its object lives at one member.
    pub lane: Option<Lane>,
    /// Time since which its binding is not given to its member alone.
    pub strayed: Option<Instant>,
    /// UID of the member's object when it was seen first; a pin has that of one that was made again.
    pub uid_at_member: Option<Arc<str>>,
    /// Time since which its member no longer has it applied.
    pub unapplied: Option<Instant>,
    /// Time of the last round in which the member's object was taken over again.
    pub mended: Option<Instant>,
    /// The last look at its Works or at its member, while it is being deleted.
    pub seen: Option<Seen>,
    /// The Work that does not end and keeps its member from having it.
    pub stuck: Option<Arc<str>>,
    /// Earliest time of the next look for such a Work.
    pub look_due: Option<Instant>,
    /// Permanent id of its last binding, while it is being deleted.
    pub binding_id: Option<Arc<str>>,
    /// While it is being deleted: the other member of which its tenant has had an Event.
    pub abandon_refused: Option<Arc<str>>,
    /// How often that was looked for.
    pub looks: u32,
    /// While it is being deleted: true once Karmada manages the member's object, so that it deletes it.
    pub taken_over: bool,
    /// While it is being deleted: true once its member was seen to have a spec that no guard of its kind holds.
    pub unguarded: bool,
    /// When the project's API server last dropped the gateway's own conditions from the status.
    pub pruned: Option<Instant>,
    /// True if its tenant was told that the copy could not be marked as suspended.
    pub pause_failed: bool,
    /// The last status that the project's API server has refused.
    pub status_refused: Option<RejectedStatus>,
}

/// A status that the project's API server has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedStatus {
    /// The status, and the object that it was of.
    state: (Digest, i64),
    at: Instant,
    message: String,
}

/// A state of a deployment that the hub has rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedSpec {
    content: Digest,
    generation: i64,
    /// True if the spec itself was rejected, not another write for the deployment.
    is_spec: bool,
    at: Instant,
    message: String,
}

impl RejectedSpec {
    fn is_of(&self, source: &Row<Source>) -> bool {
        self.content == source.digest.content && self.generation == source.digest.generation
    }
}

impl Memory {
    /// Records that the project's API server refused the copy's present status, with its message.
    pub fn refuse_status(&mut self, source: &Row<Source>, copy: &Row<HubCopy>, message: &str, now: Now) {
        self.status_refused = Some(RejectedStatus {
            state: (Digest::of_hash(&copy.digest.status), source.digest.generation),
            at: now.instant,
            message: message.to_owned(),
        });
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
        let state = (Digest::of_hash(&copy.digest.status), source.digest.generation);
        let refused = self.status_refused.as_ref().filter(|r| r.state == state)?;
        let left = RETRY_AFTER.saturating_sub(now.since(refused.at));
        (!left.is_zero()).then_some((refused.message.as_str(), left))
    }

    /// Records that the hub rejected the deployment in its present state, with the hub's message; `is_spec` if it rejected the
    /// spec itself.
    pub fn refuse(&mut self, source: &Row<Source>, is_spec: bool, message: &str, now: Now) {
        self.refused = Some(RejectedSpec {
            content: source.digest.content,
            generation: source.digest.generation,
            is_spec,
            at: now.instant,
            message: message.to_owned(),
        });
    }

    /// True if the hub rejected the deployment in its present state.
    pub fn refuses(&self, source: &Row<Source>) -> bool {
        self.refused.as_ref().is_some_and(|r| r.is_of(source))
    }

    /// True if the hub rejected the deployment's spec a short while ago, and nothing else of it.
    pub fn refuses_spec(&self, source: &Row<Source>, now: Now) -> bool {
        let is_spec = self.refused.as_ref().is_some_and(|refused| refused.is_spec);
        is_spec && self.refusal(source, now).is_some()
    }

    /// The hub's message about the deployment in its present state, and the time until the next attempt.
    pub fn refusal(&self, source: &Row<Source>, now: Now) -> Option<(&str, Duration)> {
        let refused = self.refused.as_ref().filter(|r| r.is_of(source))?;
        let left = RETRY_AFTER.saturating_sub(now.since(refused.at));
        (!left.is_zero()).then_some((refused.message.as_str(), left))
    }
}
