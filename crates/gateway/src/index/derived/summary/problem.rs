//! Objects with problems: those whose own status says so.

use crate::index::rows::Source;
use fedgate_engine::store::table::Row;
use fedgate_operations::Class;
use std::sync::Arc;

/// Reasons of `Federated`=False that the tenant or the operator of a cell has to correct: the object waits for neither the
/// gateway nor a plane.
pub const REFUSED: [&str; 15] = [
    "InvalidCityCode",
    "InvalidLocation",
    "PlaceConflict",
    "NoCellForLocation",
    "InvalidName",
    "SpecTooLarge",
    "HubRefused",
    "HubNameTaken",
    "HubNamespaceClaimed",
    "TooManyCitySets",
    "NoCellForCity",
    "MemberApiMissing",
    "PlacementImmutable",
    "ApplyFailed",
    "EndedByMember",
];

/// The problem of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Class of the problem: refused for a reason of [`REFUSED`], being deleted, or unavailable although Instances are wanted.
    pub class: Class,
    /// The reason of the condition.
    pub reason: Arc<str>,
    /// `lastTransitionTime` of the condition or `deletionTimestamp`, in seconds since the epoch.
    pub since: i64,
}

/// True if `Federated` is False of the present generation, for a reason of [`REFUSED`].
pub fn is_refused(row: &Row<Source>) -> bool {
    refusal(row).is_some()
}

fn refusal(row: &Row<Source>) -> Option<Problem> {
    let condition = row.digest.status.condition("Federated")?;
    let holds = &*condition.status == "False"
        && condition.observed == Some(row.digest.generation)
        && REFUSED.contains(&&*condition.reason);
    holds.then(|| Problem {
        class: Class::Refused,
        reason: condition.reason.clone(),
        since: condition.since,
    })
}

impl Problem {
    /// Rank among problems, the worst first, then the oldest.
    pub fn rank(&self) -> (Class, i64) {
        (self.class, self.since)
    }

    /// True unless the object is only unavailable, which is its tenant's or its cell's matter.
    pub fn is_urgent(&self) -> bool {
        self.class != Class::Unavailable
    }

    /// The problem of an object; `None` if its status reports none.
    pub(super) fn of(row: &Row<Source>) -> Option<Self> {
        if row.deleting {
            let condition = row.digest.status.condition("Federated");
            return Some(Self {
                class: Class::Deleting,
                reason: condition.map_or_else(|| "Deleting".into(), |c| c.reason.clone()),
                since: row.digest.deleted.map_or(0, jiff::Timestamp::as_second),
            });
        }
        refusal(row).or_else(|| unavailable(row))
    }
}

fn unavailable(row: &Row<Source>) -> Option<Problem> {
    let rollup = row.digest.rolled_up()?;
    if rollup.available || rollup.counts.desired_replicas <= 0 {
        return None;
    }
    let condition = row.digest.status.condition("Available");
    Some(Problem {
        class: Class::Unavailable,
        reason: condition.map_or_else(|| "Unknown".into(), |c| c.reason.clone()),
        since: condition.map_or(row.digest.created(), |c| c.since),
    })
}
