//! Derives the condition Ready of an Instance from all other conditions (contract: cell.md §4).

use super::index::digest::InstanceDigest;
use fedgate_api::conditions::{
    Condition,
    ConditionStatus::{self, False, True},
    Reason, find, priority, set,
    types::{AVAILABLE, PROGRAMMED, QUOTA_GRANTED, READY, REFERENCED_DATA_READY},
};
use fedgate_engine::plan::{Plan, Prepared, Write};
use jiff::Timestamp;
use serde::Deserialize;

/// Scheduling gates: no provider creates anything while an Instance has a gate.
pub mod gates {
    /// Removed once the deployment's network is ready.
    pub const NETWORK: &str = "Network";
    /// Removed once quota is granted.
    pub const QUOTA: &str = "Quota";
    /// Removed once the referenced `ConfigMaps` and Secrets exist at the cell.
    pub const REFERENCED_DATA: &str = "ReferencedData";
}

/// Inputs of the condition Ready.
#[derive(Debug, Clone, Copy)]
pub struct ReadyInputs<'a> {
    /// The Instance.
    pub instance: &'a InstanceDigest,
    /// True if the Instance is being deleted.
    pub deleting: bool,
    /// The conditions that are about to be written to the Instance.
    pub conditions: &'a [Condition],
    /// Message of the network's rejection of the deployment, if any.
    pub network_refused: Option<&'a str>,
}

/// The value of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

impl Verdict {
    /// A value with one of our own reasons.
    pub fn of(status: ConditionStatus, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.as_str().to_owned(),
            message: message.into(),
        }
    }

    /// Copies the value of a condition.
    pub fn from_condition(condition: &Condition) -> Self {
        Self {
            status: condition.status,
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }

    /// Puts it into the conditions of an object, as of this generation.
    pub fn set(&self, conditions: &mut Vec<Condition>, type_: &str, generation: i64, now: Timestamp) {
        let condition = Condition::new(type_, self.status, &self.reason, &self.message, now);
        set(conditions, condition.observed(Some(generation)));
    }

    fn priority(&self) -> u8 {
        priority(&self.reason)
    }
}

/// Reason why an Instance has no quota, if quota has been evaluated.
pub fn missing_quota_reason(instance: &InstanceDigest) -> Option<Reason> {
    let granted = instance.condition(QUOTA_GRANTED).filter(|c| c.status != True)?;
    let reason = Reason::parse(&granted.reason).unwrap_or(Reason::QuotaExceeded);
    (instance.has_gate(gates::QUOTA) && reason != Reason::PendingEvaluation).then_some(reason)
}

/// True if the quota is used up, or the project has none: quota that another Instance releases may be granted.
pub fn is_quota_denied(instance: &InstanceDigest) -> bool {
    let missing = missing_quota_reason(instance);
    missing.is_some_and(|reason| matches!(reason, Reason::QuotaExceeded | Reason::QuotaNoBudget))
}

/// Derives Ready: the first applicable step of the contract decides.
pub fn ready(seen: &ReadyInputs<'_>) -> Verdict {
    if seen.deleting {
        let lost = find(seen.conditions, AVAILABLE).filter(|c| c.reason == Reason::NodeLost.as_str());
        if let Some(lost) = lost {
            return Verdict::of(False, Reason::NodeLost, &*lost.message);
        }
        return Verdict::of(False, Reason::Stopping, "Instance is being deleted");
    }
    if seen.instance.suspended {
        return Verdict::of(False, Reason::Suspended, "Instance is suspended");
    }
    if !seen.instance.gates.is_empty() {
        return behind_gates(seen);
    }
    programmed(seen)
        .or_else(|| available(seen))
        .unwrap_or_else(|| Verdict::of(True, Reason::Available, "Instance is ready"))
}

fn behind_gates(seen: &ReadyInputs<'_>) -> Verdict {
    let behind = |gate: &str| seen.instance.has_gate(gate);
    let waiting = format!("Scheduling gates present: {}", seen.instance.gates.join(", "));
    let quota = find(seen.conditions, QUOTA_GRANTED)
        .filter(|c| behind(gates::QUOTA) && c.status == False)
        .map(|c| Verdict::of(False, Reason::PendingQuota, &*c.message));
    let data = find(seen.conditions, REFERENCED_DATA_READY)
        .filter(|c| behind(gates::REFERENCED_DATA) && c.status != True)
        .map(Verdict::from_condition);
    let network = seen
        .network_refused
        .filter(|_| behind(gates::NETWORK))
        .map(|message| Verdict::of(False, Reason::NetworkFailedToCreate, message));
    worst(
        Verdict::of(False, Reason::SchedulingGatesPresent, waiting),
        [quota, data, network].into_iter().flatten(),
    )
}

/// The value with the highest priority; the first of several equal values.
pub fn worst(first: Verdict, others: impl Iterator<Item = Verdict>) -> Verdict {
    others.fold(first, |worst, other| {
        if other.priority() > worst.priority() {
            other
        } else {
            worst
        }
    })
}

/// A condition of the provider. A condition with a reason from a gate or suspension that has ended is outdated and
/// ignored.
fn of_provider<'a>(seen: &ReadyInputs<'a>, type_: &str) -> Option<&'a Condition> {
    find(seen.conditions, type_).filter(|c| !is_left_over(c, seen))
}

/// True if a condition's reason refers to a gate or suspension that has ended.
fn is_left_over(condition: &Condition, seen: &ReadyInputs<'_>) -> bool {
    match Reason::parse(&condition.reason) {
        Some(Reason::PendingQuota) => !seen.instance.has_gate(gates::QUOTA),
        Some(Reason::Suspended) => !seen.instance.suspended,
        _ => false,
    }
}

fn programmed(seen: &ReadyInputs<'_>) -> Option<Verdict> {
    let condition = of_provider(seen, PROGRAMMED);
    if condition.is_some_and(|c| c.status == True) {
        return None;
    }
    let speaks = |c: &&Condition| {
        !matches!(
            Reason::parse(&c.reason),
            Some(Reason::Pending | Reason::PendingProgramming)
        )
    };
    let own = condition.filter(speaks).map_or_else(
        || {
            Verdict::of(
                False,
                Reason::PendingProgramming,
                "Instance has not been programmed",
            )
        },
        Verdict::from_condition,
    );
    let others = seen.conditions.iter().filter(|c| {
        ![READY, QUOTA_GRANTED, PROGRAMMED].contains(&c.type_.as_str())
            && c.status != True
            && !is_left_over(c, seen)
    });
    Some(worst(own, others.map(Verdict::from_condition)))
}

fn available(seen: &ReadyInputs<'_>) -> Option<Verdict> {
    match of_provider(seen, AVAILABLE) {
        Some(c) if c.status == True => None,
        Some(c) if Reason::parse(&c.reason) != Some(Reason::Pending) => Some(Verdict::from_condition(c)),
        _ => Some(Verdict::of(False, Reason::Pending, "Instance is not available")),
    }
}

/// The conditions of an Instance that a plan writes.
pub fn written(plan: &Plan<Prepared>) -> Option<Vec<Condition>> {
    plan.effects.iter().find_map(|effect| match &effect.write {
        Write::Merge { patch } => serde_json::from_value(patch["status"]["conditions"].clone()).ok(),
        _ => None,
    })
}

/// The error of referenced data, as the federation's annotation has it.
pub fn source_error(annotation: Option<&str>) -> Option<Verdict> {
    #[derive(Deserialize)]
    struct SourceError {
        reason: String,
        message: String,
    }
    let SourceError { reason, message } = serde_json::from_str(annotation?).ok()?;
    Some(Verdict {
        status: False,
        reason,
        message,
    })
}

/// Reasons of this priority and above are written at once.
const GRAVE: u8 = 2;

/// True if a condition has reached a state that users wait for, and did not have that state before.
pub fn is_final_state(before: Option<&Condition>, now: &Condition) -> bool {
    let same =
        before.is_some_and(|c| (c.status, &c.reason, &c.message) == (now.status, &now.reason, &now.message));
    let held = before.is_some_and(|c| c.status == True);
    !same && (held || now.status == True || now.status == False && now.priority() >= GRAVE)
}

/// Prefix of a rejection message, before the server's text.
pub const REFUSES: &str = "the cell's API server refuses";

/// Prefix of the message of a Pod without a node, before the scheduler's text.
pub const UNPLACED: &str = "no node of the cell takes the Pod";

/// True if two messages of a server have the same reason. Numbers and ids in server messages may differ each time, and each
/// written difference would trigger another retry.
pub fn has_same_cause(before: &str, now: &str) -> bool {
    let words = |text: &'_ str| -> Vec<String> {
        let all = text.split_whitespace();
        let all = all.filter(|word| !word.bytes().any(|b| b.is_ascii_digit()));
        all.map(str::to_owned).collect()
    };
    let both = |prefix: &str| before.starts_with(prefix) && now.starts_with(prefix);
    (both(REFUSES) || both(UNPLACED)) && words(before) == words(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::conditions::ConditionStatus::Unknown;

    fn condition(type_: &str, status: ConditionStatus, reason: &str, message: &str) -> Condition {
        Condition::new(type_, status, reason, message, Timestamp::UNIX_EPOCH)
    }

    fn defaults() -> Vec<Condition> {
        vec![
            condition(PROGRAMMED, Unknown, "Pending", "Waiting for controller"),
            condition(AVAILABLE, Unknown, "Pending", "Waiting for controller"),
            condition(READY, Unknown, "Pending", "Waiting for controller"),
            condition(
                QUOTA_GRANTED,
                Unknown,
                "PendingEvaluation",
                "Waiting for quota evaluation",
            ),
        ]
    }

    fn gated(gates: &[&str]) -> InstanceDigest {
        InstanceDigest {
            gates: gates.iter().map(|gate| (*gate).into()).collect(),
            ..InstanceDigest::default()
        }
    }

    fn seen<'a>(instance: &'a InstanceDigest, conditions: &'a [Condition]) -> ReadyInputs<'a> {
        ReadyInputs {
            instance,
            deleting: false,
            conditions,
            network_refused: None,
        }
    }

    #[track_caller]
    fn check(seen: &ReadyInputs<'_>, status: ConditionStatus, reason: &str, message: &str) {
        let expected = Verdict {
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        assert_eq!(ready(seen), expected);
    }

    #[test]
    fn a_deletion_comes_before_a_suspension_and_both_before_all_else() {
        let conditions = defaults();
        let mut suspended = gated(&[gates::QUOTA]);
        suspended.suspended = true;
        let mut of = seen(&suspended, &conditions);
        check(&of, False, "Suspended", "Instance is suspended");
        of.deleting = true;
        check(&of, False, "Stopping", "Instance is being deleted");
    }

    #[test]
    fn gates_are_named_unless_something_says_why_they_stay() {
        let all = gated(&[gates::NETWORK, gates::QUOTA, gates::REFERENCED_DATA]);
        let mut conditions = defaults();
        check(
            &seen(&all, &conditions),
            False,
            "SchedulingGatesPresent",
            "Scheduling gates present: Network, Quota, ReferencedData",
        );
        conditions[3] = condition(QUOTA_GRANTED, False, "QuotaExceeded", "vcpus over limit");
        check(
            &seen(&all, &conditions),
            False,
            "PendingQuota",
            "vcpus over limit",
        );
        conditions.push(condition(
            REFERENCED_DATA_READY,
            Unknown,
            "Resolving",
            "not resolved",
        ));
        check(&seen(&all, &conditions), Unknown, "Resolving", "not resolved");
        let mut refused = seen(&all, &conditions);
        refused.network_refused = Some("network default does not exist");
        check(
            &refused,
            False,
            "NetworkFailedToCreate",
            "network default does not exist",
        );
        let quota = gated(&[gates::QUOTA]);
        refused.instance = &quota;
        check(&refused, False, "PendingQuota", "vcpus over limit");
    }

    #[test]
    fn nothing_is_behind_a_gate_that_is_gone() {
        let conditions = [
            condition(QUOTA_GRANTED, False, "QuotaBackendUnavailable", "no answer"),
            condition(PROGRAMMED, True, "Programmed", ""),
            condition(AVAILABLE, True, "Available", ""),
        ];
        check(
            &seen(&gated(&[]), &conditions),
            True,
            "Available",
            "Instance is ready",
        );
    }

    #[test]
    fn what_is_not_programmed_says_why_if_anything_does() {
        let mut conditions = defaults();
        let pending = "Instance has not been programmed";
        check(
            &seen(&gated(&[]), &conditions),
            False,
            "PendingProgramming",
            pending,
        );
        check(&seen(&gated(&[]), &[]), False, "PendingProgramming", pending);
        conditions[0] = condition(PROGRAMMED, Unknown, "ProgrammingInProgress", "the Pod starts");
        check(
            &seen(&gated(&[]), &conditions),
            Unknown,
            "ProgrammingInProgress",
            "the Pod starts",
        );
        conditions[1] = condition(AVAILABLE, False, "ImageUnavailable", "image x");
        check(
            &seen(&gated(&[]), &conditions),
            False,
            "ImageUnavailable",
            "image x",
        );
        conditions[0] = condition(PROGRAMMED, False, "ConfigurationError", "first");
        check(
            &seen(&gated(&[]), &conditions),
            False,
            "ConfigurationError",
            "first",
        );
    }

    #[test]
    fn what_speaks_of_a_gate_or_suspension_that_is_gone_says_nothing() {
        for left_over in ["PendingQuota", "Suspended"] {
            let mut conditions = vec![
                condition(PROGRAMMED, False, left_over, ""),
                condition(AVAILABLE, False, left_over, ""),
            ];
            check(
                &seen(&gated(&[]), &conditions),
                False,
                "PendingProgramming",
                "Instance has not been programmed",
            );
            conditions[0] = condition(PROGRAMMED, True, "Programmed", "");
            check(
                &seen(&gated(&[]), &conditions),
                False,
                "Pending",
                "Instance is not available",
            );
        }
    }

    #[test]
    fn what_is_programmed_says_what_it_is_not_available_for() {
        let mut conditions = vec![
            condition(PROGRAMMED, True, "Programmed", ""),
            condition(AVAILABLE, False, "Starting", "the Pod is not ready"),
        ];
        check(
            &seen(&gated(&[]), &conditions),
            False,
            "Starting",
            "the Pod is not ready",
        );
        conditions[1] = condition(AVAILABLE, Unknown, "Pending", "Waiting for controller");
        check(
            &seen(&gated(&[]), &conditions),
            False,
            "Pending",
            "Instance is not available",
        );
    }

    #[test]
    fn numbers_and_ids_make_no_other_reason() {
        let said = |text: &str| format!("{REFUSES} the Pod: {text}");
        assert!(has_same_cause(
            &said("exceeded quota, used cpu=3"),
            &said("exceeded quota, used cpu=4")
        ));
        assert!(!has_same_cause(
            &said("exceeded quota"),
            &said("violates PodSecurity")
        ));
        assert!(!has_same_cause(
            "port 80/TCP is used twice",
            "port 81/TCP is used twice"
        ));
    }
}
