//! Decides whether an Instance has its quota, and the next action on its claim (contract: cell.md §5). Pure functions.

use super::claim::Claim;
use crate::{
    conditions::{Verdict, gates},
    index::digest::InstanceDigest,
};
use fedgate_api::{
    ConditionStatus::{False, True, Unknown},
    Reason,
    conditions::types::QUOTA_GRANTED,
};
use fedgate_engine::{diff::Digest, error::Failure, plan::Requeue};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// Time without a decision after which a claim is reported as without budget.
const NO_BUDGET_AFTER: Duration = Duration::from_secs(60);
/// Interval between checks of a claim that may stay unchanged for long. Each Instance has a fixed interval around this
/// value, from 0.8 to 1.2 times.
const SLOW: Duration = Duration::from_secs(300);

/// Inputs of the decision besides the claim.
#[derive(Debug, Clone, Copy)]
pub struct QuotaInputs<'a> {
    /// The Instance.
    pub instance: &'a InstanceDigest,
    /// True if a watch reports changes of the claim.
    pub watched: bool,
    /// Requests of the Instance, if the copy of its deployment names this cell.
    pub moved_here: Option<Digest>,
    /// A constant per Instance from 0 to 99, which spreads the intervals.
    pub spread: u32,
}

/// The action on the claim.
#[derive(Debug, Default)]
pub enum ClaimAction {
    /// No action.
    #[default]
    None,
    /// Create the claim.
    Create,
    /// Delete the claim with this UID; its deletion triggers the next reconcile.
    Delete(Arc<str>),
}

/// Result of a quota request.
#[derive(Debug, Default)]
pub struct Answer {
    /// The new value of the condition `QuotaGranted`; `None` leaves the condition unchanged.
    pub verdict: Option<Verdict>,
    /// The action on the claim.
    pub action: ClaimAction,
    /// When to reconcile again. A failure of the request has a backoff of its own.
    pub next: Requeue,
    /// The failure of the request, if any.
    pub failure: Option<Failure>,
}

/// True if quota has been granted before: only a denial revokes a grant.
pub fn was_granted(instance: &InstanceDigest) -> bool {
    !instance.has_gate(gates::QUOTA) || instance.is(QUOTA_GRANTED)
}

/// The reason of the condition `QuotaGranted`.
pub fn last_reason(instance: &InstanceDigest) -> Option<Reason> {
    Reason::parse(&instance.condition(QUOTA_GRANTED)?.reason)
}

impl QuotaInputs<'_> {
    fn slow(&self) -> Duration {
        SLOW.mul_f64(0.8 + 0.4 * f64::from(self.spread.min(99)) / 99.0)
    }

    /// Time until the next read of the former cell's claim. No watch event reports its deletion, because the watch selects the
    /// claims of this cell.
    fn released_after(&self, now: Timestamp) -> Duration {
        let granted = self.instance.condition(QUOTA_GRANTED);
        let granted = granted.filter(|granted| granted.status == True);
        let since = granted.map_or(now, |granted| granted.last_transition_time.0);
        match passed(since, now).as_secs() {
            0..120 => Duration::from_secs(2),
            120..900 => Duration::from_secs(15),
            _ => self.slow(),
        }
    }

    fn again(&self, now: Timestamp) -> Duration {
        if self.watched {
            return self.slow();
        }
        let created = Timestamp::from_second(self.instance.created).unwrap_or_default();
        match passed(created, now).as_secs() {
            0..60 => Duration::from_secs(1),
            60..300 => Duration::from_secs(15),
            300..600 => Duration::from_secs(60),
            _ => self.slow(),
        }
    }
}

/// Elapsed time; zero if a clock jump puts `since` into the future.
fn passed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

fn pending(message: &str) -> Verdict {
    Verdict::of(Unknown, Reason::PendingEvaluation, message)
}

/// Decides the condition, the action and the requeue.
pub fn decide(claim: &Claim, seen: &QuotaInputs<'_>, now: Timestamp) -> Answer {
    let mut answer = answer_to_claim(claim, seen, now);
    let is_granted = |said: &Verdict| said.status == True;
    let is_decided = matches!(claim, Claim::Denied { .. }) || answer.verdict.as_ref().is_some_and(is_granted);
    // A denial stays until the new claim is decided.
    let denied = [Some(Reason::QuotaExceeded), Some(Reason::ValidationFailed)];
    let pending = |said: &Verdict| said.reason == Reason::PendingEvaluation.as_str();
    let stays = denied.contains(&last_reason(seen.instance)) && answer.verdict.as_ref().is_some_and(pending);
    if !is_decided && (was_granted(seen.instance) || stays) {
        answer.verdict = None;
    }
    answer
}

/// The answer to a claim alone, whatever was granted before.
fn answer_to_claim(claim: &Claim, seen: &QuotaInputs<'_>, now: Timestamp) -> Answer {
    let look = Requeue::After(seen.again(now));
    let (verdict, action, next) = match claim {
        Claim::Absent => (pending("quota is asked for"), ClaimAction::Create, look),
        Claim::Terminating => (pending("an earlier claim is going"), ClaimAction::None, look),
        Claim::Predecessors(uid) => (
            pending("the claim of an earlier Instance of this name is going"),
            ClaimAction::Delete(uid.clone()),
            look,
        ),
        // The former cell deletes its claim after the move; until then that claim counts, so that one Instance never needs two claims.
        Claim::AnotherCells {
            cell,
            granted: Some(granted),
        } if seen.moved_here == Some(*granted) => {
            let message = format!(
                "the quota claim of cell {cell} for this Instance counts until that cell deletes the claim"
            );
            let verdict = Verdict::of(True, Reason::QuotaAvailable, message);
            (
                verdict,
                ClaimAction::None,
                Requeue::After(seen.released_after(now)),
            )
        }
        Claim::AnotherCells { cell, .. } => {
            let message = format!("the claim of this name is that of cell {cell}");
            (pending(&message), ClaimAction::None, Requeue::After(seen.slow()))
        }
        Claim::Granted => {
            let verdict = Verdict::of(True, Reason::QuotaAvailable, "quota is granted");
            (verdict, ClaimAction::None, Requeue::AwaitChange)
        }
        Claim::Pending(since) => {
            let left = NO_BUDGET_AFTER.saturating_sub(passed(*since, now));
            if left.is_zero() {
                let message = "nobody decides the claim; the project may have no budget for it";
                (
                    Verdict::of(Unknown, Reason::QuotaNoBudget, message),
                    ClaimAction::None,
                    look,
                )
            } else {
                let look = look.earlier(Requeue::After(left));
                (pending("quota is being evaluated"), ClaimAction::None, look)
            }
        }
        Claim::Denied {
            uid,
            reason,
            message,
            since,
        } => {
            let left = seen.slow().saturating_sub(passed(*since, now));
            let (action, next) = if left.is_zero() {
                (ClaimAction::Delete(uid.clone()), look)
            } else {
                (ClaimAction::None, Requeue::After(left))
            };
            (Verdict::of(False, *reason, message), action, next)
        }
        Claim::Refused(reason, message) => {
            let verdict = Verdict::of(False, *reason, message);
            (verdict, ClaimAction::None, Requeue::AwaitChange)
        }
    };
    Answer {
        verdict: Some(verdict),
        action,
        next,
        failure: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::{Condition, ConditionStatus};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// An Instance with this condition `QuotaGranted`, behind the gate.
    fn gated(status: ConditionStatus, reason: &str) -> InstanceDigest {
        InstanceDigest {
            conditions: [Condition::new(QUOTA_GRANTED, status, reason, "", at(0))].into(),
            gates: [gates::QUOTA.into()].into(),
            created: at(0).as_second(),
            ..InstanceDigest::default()
        }
    }

    fn seen(instance: &InstanceDigest) -> QuotaInputs<'_> {
        QuotaInputs {
            instance,
            watched: true,
            moved_here: None,
            spread: 99,
        }
    }

    #[test]
    fn a_granted_claim_of_the_former_cell_counts_after_a_move_for_an_instance_of_the_same_size() {
        let size = |cpu: u64| Digest::of(&serde_json::json!([cpu]));
        let verdict = |moved_here: Option<Digest>, granted: Option<Digest>, since: i64| {
            let instance = gated(True, "QuotaAvailable");
            let inputs = QuotaInputs {
                moved_here,
                ..seen(&instance)
            };
            let claim = Claim::AnotherCells {
                cell: "dfw-1".into(),
                granted,
            };
            let answer = decide(&claim, &inputs, at(since));
            (answer.verdict.map(|said| said.status), answer.next)
        };
        let soon = |seconds| Requeue::After(Duration::from_secs(seconds));
        assert_eq!(verdict(Some(size(1)), Some(size(1)), 0), (Some(True), soon(2)));
        assert_eq!(verdict(Some(size(1)), Some(size(1)), 120), (Some(True), soon(15)));
        assert_eq!(
            verdict(Some(size(1)), Some(size(1)), 900),
            (Some(True), soon(360))
        );
        // Another size, no move, no grant: what was granted before stays, and nothing new is.
        assert_eq!(verdict(Some(size(64)), Some(size(1)), 0), (None, soon(360)));
        assert_eq!(verdict(None, Some(size(1)), 0), (None, soon(360)));
        assert_eq!(verdict(Some(size(1)), None, 0), (None, soon(360)));
    }

    fn denied(since: i64) -> Claim {
        Claim::Denied {
            uid: "c".into(),
            reason: Reason::QuotaExceeded,
            message: "vcpus over limit".to_owned(),
            since: at(since),
        }
    }

    /// `status reason, act, next`, `-` for a condition that stays unchanged.
    fn words(claim: &Claim, seen: &QuotaInputs<'_>, now: i64) -> String {
        let Answer {
            verdict,
            action,
            next,
            ..
        } = decide(claim, seen, at(now));
        let verdict = verdict.map_or_else(|| "-".to_owned(), |v| format!("{:?} {}", v.status, v.reason));
        format!("{verdict}, {action:?}, {next:?}")
    }

    #[test]
    fn each_state_of_a_claim_has_its_answer() {
        let fresh = gated(Unknown, "PendingEvaluation");
        let no = |why| Claim::Refused(why, String::new());
        for (claim, expected) in [
            (
                no(Reason::QuotaProjectIDUnresolvable),
                "False QuotaProjectIDUnresolvable, None, AwaitChange",
            ),
            (Claim::Absent, "Unknown PendingEvaluation, Create, After(360s)"),
            (Claim::Terminating, "Unknown PendingEvaluation, None, After(360s)"),
            (
                Claim::Predecessors("c".into()),
                "Unknown PendingEvaluation, Delete(\"c\"), After(360s)",
            ),
            (
                Claim::AnotherCells {
                    cell: "lhr-1".into(),
                    granted: Some(Digest::of(&serde_json::Value::Null)),
                },
                "Unknown PendingEvaluation, None, After(360s)",
            ),
            (Claim::Granted, "True QuotaAvailable, None, AwaitChange"),
            (
                Claim::Pending(at(0)),
                "Unknown PendingEvaluation, None, After(30s)",
            ),
            (
                Claim::Pending(at(-30)),
                "Unknown QuotaNoBudget, None, After(360s)",
            ),
            (denied(0), "False QuotaExceeded, None, After(330s)"),
            (denied(-330), "False QuotaExceeded, Delete(\"c\"), After(360s)"),
            (
                no(Reason::QuotaBackendUnavailable),
                "False QuotaBackendUnavailable, None, AwaitChange",
            ),
            (
                no(Reason::QuotaNamespaceNotFound),
                "False QuotaNamespaceNotFound, None, AwaitChange",
            ),
            (
                no(Reason::QuotaProjectNotFound),
                "False QuotaProjectNotFound, None, AwaitChange",
            ),
            (
                no(Reason::QuotaMisconfigured),
                "False QuotaMisconfigured, None, AwaitChange",
            ),
        ] {
            assert_eq!(words(&claim, &seen(&fresh), 30), expected, "{claim:?}");
        }
    }

    #[test]
    fn what_was_granted_stays_granted_until_it_is_denied() {
        let granted = gated(True, "QuotaAvailable");
        let free = |instance: &InstanceDigest| InstanceDigest {
            gates: [].into(),
            ..instance.clone()
        };
        let unread = free(&gated(Unknown, "PendingEvaluation"));
        for instance in [&granted, &free(&granted), &unread] {
            let seen = seen(instance);
            for claim in [
                Claim::Absent,
                Claim::Refused(Reason::QuotaBackendUnavailable, String::new()),
                Claim::Pending(at(-100)),
                Claim::Refused(Reason::QuotaProjectIDUnresolvable, String::new()),
            ] {
                assert!(words(&claim, &seen, 0).starts_with("-, "), "{claim:?}");
            }
            assert!(words(&denied(0), &seen, 0).starts_with("False QuotaExceeded"));
        }
    }

    #[test]
    fn a_denial_stays_while_the_claim_is_made_anew() {
        let before = gated(False, "QuotaExceeded");
        let seen = seen(&before);
        assert_eq!(words(&Claim::Absent, &seen, 0), "-, Create, After(360s)");
        assert_eq!(words(&Claim::Pending(at(0)), &seen, 0), "-, None, After(60s)");
        assert_eq!(
            words(&Claim::Granted, &seen, 0),
            "True QuotaAvailable, None, AwaitChange"
        );
        assert!(words(&Claim::Pending(at(0)), &seen, 60).starts_with("Unknown QuotaNoBudget"));
    }

    #[test]
    fn without_a_watch_the_young_are_looked_at_more_often() {
        let fresh = gated(Unknown, "PendingEvaluation");
        let mut seen = seen(&fresh);
        (seen.watched, seen.spread) = (false, 0);
        for (now, pause) in [
            (0, 1),
            (59, 1),
            (60, 15),
            (299, 15),
            (300, 60),
            (600, 240),
            (-3600, 1),
        ] {
            let Requeue::After(again) = decide(&Claim::Terminating, &seen, at(now)).next else {
                panic!()
            };
            assert_eq!(again, Duration::from_secs(pause), "after {now} s");
        }
    }

    #[test]
    fn a_clock_that_jumps_back_holds_a_denied_claim_no_longer_than_usual() {
        let fresh = gated(False, "QuotaExceeded");
        let again = decide(&denied(3600), &seen(&fresh), at(0)).next;
        assert_eq!(again, Requeue::After(Duration::from_secs(360)));
    }
}
