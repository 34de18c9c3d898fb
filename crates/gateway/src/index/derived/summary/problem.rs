//! Objects with problems: those whose own status says so.

use crate::index::rows::Source;
use fedgate_api::Reason;
use fedgate_engine::store::table::Row;
use fedgate_operations::Class;
use std::sync::Arc;

/// Reasons of `Federated`=False that the tenant or the operator of a cell has to correct: the object waits for neither the
/// gateway nor a plane.
pub const REFUSED: [Reason; 16] = [
    Reason::InvalidCityCode,
    Reason::InvalidLocation,
    Reason::PlaceConflict,
    Reason::NoCellForLocation,
    Reason::InvalidName,
    Reason::SpecTooLarge,
    Reason::HubRefused,
    Reason::HubNameTaken,
    Reason::HubNamespaceClaimed,
    Reason::TooManyCitySets,
    Reason::NoCellForCity,
    Reason::CellLost,
    Reason::MemberApiMissing,
    Reason::PlacementImmutable,
    Reason::ApplyFailed,
    Reason::EndedByMember,
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
        && Reason::parse(&condition.reason).is_some_and(|reason| REFUSED.contains(&reason));
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

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::conditions::CONDITIONS;
    use std::collections::BTreeSet;

    /// Reasons with which an object waits for the gateway, a plane, a member or its own references.
    const AWAITED: &str = "Propagating EarlierLifeDraining HubNamespaceTerminating WaitingForCells HubUnreachable MissingRights Retrying \
        SourceNotFound SourceUnauthorized SourceTooLarge SourceNameTooLong SourceNameReserved CompanionShared HubIdentityRefused \
        DeletionHeld WaitingForMember WorkStuck MemberReplaced Strayed";

    #[test]
    fn each_reason_of_federated_waits_for_an_edit_or_for_something_else() {
        let rows = CONDITIONS.iter().filter(|row| row[0].starts_with("Federated"));
        let all: BTreeSet<&str> = rows.flat_map(|row| row[2].split_whitespace()).collect();
        let refused = REFUSED.iter().map(|reason| reason.as_str());
        let known: BTreeSet<&str> = refused.clone().chain(AWAITED.split_whitespace()).collect();
        let next = "a reason of Federated stands in REFUSED if somebody has to correct something, else in AWAITED of this test";
        assert_eq!(
            all.difference(&known).count(),
            0,
            "{next}: {:?}",
            all.difference(&known)
        );
        assert!(
            AWAITED
                .split_whitespace()
                .all(|word| refused.clone().all(|other| other != word))
        );
    }
}
