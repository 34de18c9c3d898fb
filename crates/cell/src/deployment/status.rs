//! Status of a deployment: its counts and the conditions Available and `ReplicasReady` (contract: cell.md §2.5).

use super::observe::KnownInstance;
use crate::{
    conditions::{Verdict, gates, worst},
    rollout::{Step, StepReason},
};
use fedgate_api::{
    ConditionStatus::{False, True},
    Reason, ReplicaCounts,
    conditions::types::{PROGRAMMED, QUOTA_GRANTED, READY, REFERENCED_DATA_READY},
};

/// A fault that blocks a deployment regardless of the state of its Instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Machine-readable reason.
    pub reason: Reason,
    /// Human-readable message.
    pub message: String,
}

impl Blocker {
    /// A fault with this reason and message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }

    fn verdict(&self) -> Verdict {
        Verdict::of(False, self.reason, &*self.message)
    }
}

/// A deployment and its surroundings.
#[derive(Debug, Clone, Copy)]
pub struct StatusInputs<'a> {
    /// Number of desired Instances.
    pub desired: u32,
    /// Instances of the deployment, by ordinal.
    pub instances: &'a [&'a KnownInstance],
    /// Remaining steps ([`crate::rollout::plan`]).
    pub steps: &'a [Step],
    /// True if the deployment is suspended.
    pub suspended: bool,
    /// The fault of the deployment or its location.
    pub block: Option<&'a Blocker>,
    /// The error of the referenced data, as the federation reports it.
    pub data_error: Option<&'a Verdict>,
}

impl KnownInstance {
    fn is_updated(&self) -> bool {
        let made = &self.row.digest;
        self.control.current && made.hash.is_some() && made.applied == made.hash
    }

    /// Reason why the Instance has no quota, if quota has been evaluated.
    fn lacks_quota(&self) -> Option<Reason> {
        let instance = &self.row.digest;
        let granted = instance.condition(QUOTA_GRANTED).filter(|c| c.status != True)?;
        let reason = Reason::parse(&granted.reason).unwrap_or(Reason::QuotaExceeded);
        (instance.has_gate(gates::QUOTA) && reason != Reason::PendingEvaluation).then_some(reason)
    }

    fn waits_for_data(&self) -> bool {
        let instance = &self.row.digest;
        instance.has_gate(gates::REFERENCED_DATA) && !instance.is(REFERENCED_DATA_READY)
    }
}

/// The five counters.
pub fn counts(seen: &StatusInputs<'_>) -> ReplicaCounts {
    let count = |which: &dyn Fn(&KnownInstance) -> bool| {
        let count = seen.instances.iter().filter(|instance| which(instance)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    ReplicaCounts {
        replicas: count(&|_| true),
        updated_replicas: count(&|i| i.is_updated()),
        current_replicas: count(&|i| i.is_updated() && i.row.digest.is(PROGRAMMED)),
        ready_replicas: count(&|i| i.row.digest.is(READY)),
        desired_replicas: i32::try_from(seen.desired).unwrap_or(i32::MAX),
    }
}

/// The condition `ReplicasReady`. The message ends with the reason that the next step waits for, if that step waits.
pub fn replicas_ready(seen: &StatusInputs<'_>) -> Verdict {
    let mut verdict = replicas(seen);
    if let Some(waits) = waiting(seen)
        && verdict.status != True
    {
        verdict.message = format!("{}; {waits}", verdict.message);
    }
    verdict
}

fn replicas(seen: &StatusInputs<'_>) -> Verdict {
    let (desired, ready) = (seen.desired, counts(seen).ready_replicas);
    if seen.suspended {
        return Verdict::of(False, Reason::Suspended, "the deployment is suspended");
    }
    if let Some(block) = seen.block
        && matches!(
            block.reason,
            Reason::UnsupportedManagementPolicy | Reason::InvalidTemplate | Reason::ApplyFailed
        )
    {
        return block.verdict();
    }
    if let Some(conflict) = seen
        .steps
        .iter()
        .find(|step| step.why == StepReason::NameConflict)
    {
        let message = format!(
            "{} is not of this deployment; delete or rename it",
            conflict.instance
        );
        return Verdict::of(False, Reason::InstanceNameConflict, message);
    }
    let lacking: Vec<Reason> = seen.instances.iter().filter_map(|i| i.lacks_quota()).collect();
    if !lacking.is_empty() {
        let message = format!(
            "{} of {desired} desired replicas are pending quota",
            lacking.len()
        );
        let unanswered = lacking.iter().all(|why| *why == Reason::QuotaBackendUnavailable);
        let reason = if unanswered {
            Reason::QuotaBackendUnavailable
        } else {
            Reason::QuotaExceeded
        };
        return Verdict::of(False, reason, message);
    }
    let pending = seen.instances.iter().filter(|i| i.waits_for_data()).count();
    if pending > 0 {
        let message = format!("{pending} of {desired} desired replicas wait for referenced data");
        return Verdict::of(False, Reason::AwaitingPropagation, message);
    }
    if seen.steps.iter().any(|step| step.why == StepReason::RollsHeld) {
        let message = "the rollout waits until quota can be asked for";
        return Verdict::of(False, Reason::QuotaBackendUnavailable, message);
    }
    let message = format!("{ready}/{desired} replicas available");
    if i64::from(ready) < i64::from(desired) {
        return Verdict::of(False, Reason::InstancesProvisioning, message);
    }
    Verdict::of(True, Reason::ReplicasAvailable, message)
}

/// Text of the reason that the first step waits for, if that step waits.
fn waiting(seen: &StatusInputs<'_>) -> Option<String> {
    let step = seen
        .steps
        .first()
        .filter(|step| step.act == crate::rollout::StepAction::Wait)?;
    let name = &step.instance;
    let why = match step.why {
        StepReason::NotReady => {
            let instance = seen.instances.iter().find(|i| i.control.name == *name);
            let ready = instance.and_then(|i| i.row.digest.condition(READY));
            ready.map_or_else(|| Reason::Pending.to_string(), |c| c.reason.clone())
        }
        StepReason::Terminating => Reason::Stopping.to_string(),
        StepReason::Lost => Reason::NodeLost.to_string(),
        StepReason::NameConflict => Reason::InstanceNameConflict.to_string(),
        StepReason::RollsHeld => Reason::QuotaBackendUnavailable.to_string(),
        StepReason::Blocked(reason) => reason.to_string(),
        StepReason::Missing
        | StepReason::Stray
        | StepReason::Surplus
        | StepReason::FixForward
        | StepReason::Roll
        | StepReason::Labels => return None,
    };
    Some(format!("waiting for {name}: {why}"))
}

/// The condition Available.
pub fn available(seen: &StatusInputs<'_>) -> Verdict {
    if seen.suspended {
        return Verdict::of(False, Reason::Suspended, "the deployment is suspended");
    }
    let (desired, ready) = (seen.desired, counts(seen).ready_replicas);
    let so_many = format!("{ready}/{desired} instances are ready");
    if ready > 0 {
        return Verdict::of(True, Reason::StableInstanceFound, so_many);
    }
    let provisioning = if seen.instances.is_empty() {
        "No instances available yet".to_owned()
    } else {
        so_many
    };
    worst(
        Verdict::of(False, Reason::InstancesProvisioning, provisioning),
        candidates(seen),
    )
}

/// All reasons that may keep the deployment from being available; among equals the first counts.
fn candidates<'a>(seen: &'a StatusInputs<'_>) -> impl Iterator<Item = Verdict> + 'a {
    let any = |which: &dyn Fn(&KnownInstance) -> bool, reason, message: &str| {
        let found = seen.instances.iter().any(|i| which(i));
        found.then(|| Verdict::of(False, reason, message))
    };
    let whole = [
        seen.block.map(Blocker::verdict),
        any(
            &|i| i.row.digest.has_gate(gates::NETWORK),
            Reason::NetworkProvisioning,
            "the network is not ready yet",
        ),
        seen.data_error.cloned(),
        any(
            &|i| i.waits_for_data(),
            Reason::ReferencedDataNotReady,
            "referenced ConfigMaps and Secrets are not at the cell yet",
        ),
        any(
            &|i| i.lacks_quota().is_some(),
            Reason::QuotaNotGranted,
            "quota is not granted",
        ),
    ];
    let grave = seen.instances.iter().filter_map(|instance| {
        let ready = instance.row.digest.condition(READY)?;
        (ready.status != True && ready.priority() >= 5).then(|| Verdict {
            status: False,
            ..Verdict::from_condition(ready)
        })
    });
    whole.into_iter().flatten().chain(grave)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        index::digest,
        rollout::{self, Owner, StepAction, labels::Labels},
        writes::read,
    };
    use fedgate_api::{Condition, ConditionStatus::Unknown};
    use jiff::Timestamp;
    use kube::core::DynamicObject;

    fn condition(type_: &str, status: fedgate_api::ConditionStatus, reason: &str) -> Condition {
        Condition::new(
            type_,
            status,
            reason,
            &format!("{reason} it is"),
            Timestamp::UNIX_EPOCH,
        )
    }

    fn instance(name: &str, gates: &[&str], conditions: &[Condition]) -> KnownInstance {
        let object: DynamicObject = serde_json::from_value(serde_json::json!({"metadata": {}})).unwrap();
        let digest = digest::InstanceDigest {
            hash: Some("v1-a".into()),
            applied: Some("v1-a".into()),
            gates: gates.iter().map(|gate| (*gate).into()).collect(),
            conditions: conditions.into(),
            ..digest::InstanceDigest::default()
        };
        let control = rollout::RolloutInstance {
            name: name.into(),
            uid: "u".into(),
            version: "1".into(),
            created: 0,
            owner: Owner::Foreign,
            deleting: false,
            ready: false,
            served: false,
            lost: false,
            current: true,
            labels: Labels::default(),
        };
        KnownInstance {
            control,
            row: read(&object, digest),
        }
    }

    fn seen<'a>(desired: u32, instances: &'a [&'a KnownInstance], steps: &'a [Step]) -> StatusInputs<'a> {
        StatusInputs {
            desired,
            instances,
            steps,
            suspended: false,
            block: None,
            data_error: None,
        }
    }

    fn wait(name: &str, why: StepReason) -> Step {
        Step {
            instance: name.into(),
            act: StepAction::Wait,
            why,
            now: true,
        }
    }

    fn words(verdict: &Verdict) -> String {
        format!("{:?} {}: {}", verdict.status, verdict.reason, verdict.message)
    }

    #[test]
    fn instances_are_counted_five_ways() {
        let ready = [
            condition(READY, True, "Available"),
            condition(PROGRAMMED, True, "Programmed"),
        ];
        let programmed = [condition(PROGRAMMED, True, "Programmed")];
        let mut old = instance("web-1", &[], &ready);
        old.control.current = false;
        let mut applying = instance("web-2", &[], &programmed);
        applying.row.digest.applied = Some("v1-b".into());
        let (first, last) = (instance("web-0", &[], &ready), instance("web-3", &[], &[]));
        let all = [&first, &old, &applying, &last];
        assert_eq!(
            counts(&seen(7, &all, &[])),
            ReplicaCounts {
                replicas: 4,
                current_replicas: 1,
                desired_replicas: 7,
                ready_replicas: 2,
                updated_replicas: 2,
            }
        );
    }

    #[test]
    fn all_that_are_wanted_and_ready_are_available() {
        let ready = [condition(READY, True, "Available")];
        let one = [&instance("web-0", &[], &ready)];
        assert_eq!(
            words(&replicas_ready(&seen(1, &one, &[]))),
            "True ReplicasAvailable: 1/1 replicas available"
        );
        assert_eq!(
            words(&available(&seen(2, &one, &[]))),
            "True StableInstanceFound: 1/2 instances are ready"
        );
        let none = seen(2, &[], &[]);
        assert_eq!(
            words(&available(&none)),
            "False InstancesProvisioning: No instances available yet"
        );
    }

    #[test]
    fn what_the_first_step_waits_for_is_said() {
        let broken = [condition(READY, False, "ImageUnavailable")];
        let one = [&instance("web-0", &[], &broken)];
        let steps = [
            wait("web-0", StepReason::NotReady),
            wait("web-1", StepReason::Terminating),
        ];
        let seen = seen(2, &one, &steps);
        assert_eq!(
            words(&replicas_ready(&seen)),
            "False InstancesProvisioning: 0/2 replicas available; waiting for web-0: ImageUnavailable"
        );
        assert_eq!(
            words(&available(&seen)),
            "False ImageUnavailable: ImageUnavailable it is"
        );
    }

    #[test]
    fn the_first_reason_that_applies_is_that_of_the_replicas() {
        let denied = [condition(QUOTA_GRANTED, False, "QuotaExceeded")];
        let waiting = [condition(QUOTA_GRANTED, Unknown, "PendingEvaluation")];
        let missing = [condition(REFERENCED_DATA_READY, False, "AwaitingPropagation")];
        let quota = [
            &instance("web-0", &[gates::QUOTA], &denied),
            &instance("web-1", &[gates::QUOTA], &waiting),
        ];
        let data = [&instance("web-0", &[gates::REFERENCED_DATA], &missing)];
        let held = [wait("web-1", StepReason::RollsHeld)];
        let conflict = [wait("web-0", StepReason::NameConflict)];
        let pending = "False QuotaExceeded: 1 of 2 desired replicas are pending quota";
        assert_eq!(words(&replicas_ready(&seen(2, &quota, &[]))), pending);
        let silent = [condition(QUOTA_GRANTED, False, "QuotaBackendUnavailable")];
        let silent = [&instance("web-0", &[gates::QUOTA], &silent)];
        assert_eq!(
            words(&replicas_ready(&seen(1, &silent, &[]))),
            "False QuotaBackendUnavailable: 1 of 1 desired replicas are pending quota"
        );
        assert_eq!(
            words(&available(&seen(2, &quota, &[]))),
            "False QuotaNotGranted: quota is not granted"
        );
        assert_eq!(
            words(&replicas_ready(&seen(1, &data, &[]))),
            "False AwaitingPropagation: 1 of 1 desired replicas wait for referenced data"
        );
        assert_eq!(
            words(&replicas_ready(&seen(2, &[], &held))),
            "False QuotaBackendUnavailable: the rollout waits until quota can be asked for; \
             waiting for web-1: QuotaBackendUnavailable"
        );
        assert_eq!(
            words(&replicas_ready(&seen(2, &quota, &conflict))),
            "False InstanceNameConflict: web-0 is not of this deployment; delete or rename it; \
             waiting for web-0: InstanceNameConflict"
        );
        let mut suspended = seen(2, &quota, &[]);
        suspended.suspended = true;
        assert_eq!(
            words(&replicas_ready(&suspended)),
            "False Suspended: the deployment is suspended"
        );
        assert_eq!(
            words(&available(&suspended)),
            "False Suspended: the deployment is suspended"
        );
    }

    #[test]
    fn a_block_and_an_error_of_the_data_are_said_by_their_priority() {
        let block = Blocker::new(Reason::CityCodeMismatch, "it is for LHR");
        let gated = [&instance("web-0", &[gates::NETWORK], &[])];
        let mut of = seen(1, &gated, &[]);
        assert_eq!(
            words(&available(&of)),
            "False NetworkProvisioning: the network is not ready yet"
        );
        let error = Verdict::of(False, Reason::SourceNotFound, "Secret db does not exist");
        of.data_error = Some(&error);
        assert_eq!(
            words(&available(&of)),
            "False SourceNotFound: Secret db does not exist"
        );
        of.block = Some(&block);
        assert_eq!(words(&available(&of)), "False CityCodeMismatch: it is for LHR");
        let unsupported = Blocker::new(Reason::UnsupportedManagementPolicy, "Foo");
        of.block = Some(&unsupported);
        assert_eq!(
            words(&replicas_ready(&of)),
            "False UnsupportedManagementPolicy: Foo"
        );
    }
}
