//! Status of a deployment: its counts and the conditions Available, `ReplicasReady` and `Progressing` (contract: cell.md §2.5,
//! serving.md §3).

use super::observe::{KnownInstance, Stalled};
use crate::{
    conditions::{Verdict, gates, missing_quota_reason, worst},
    rollout::{Step, StepAction, StepReason, strategy::RolloutStrategy},
};
use fedgate_api::{
    Condition,
    ConditionStatus::{False, True, Unknown},
    Reason, ReplicaCounts,
    conditions::types::{PROGRAMMED, READY, REFERENCED_DATA_READY},
    names,
};
use std::time::Duration;

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

/// The rollout of a deployment with a strategy.
#[derive(Debug, Clone, Copy)]
pub struct RolloutInputs<'a> {
    /// How Instances are replaced.
    pub strategy: RolloutStrategy,
    /// True if the rollout of the deployment's template was undone: its Instances have the former one.
    pub undone: bool,
    /// Generation of the deployment.
    pub generation: i64,
    /// The condition Progressing as it was written last.
    pub progressing: Option<&'a Condition>,
    /// How long the rollout has made no progress.
    pub stalled: Option<Stalled>,
    /// True if the cell's API server refused an object of the deployment.
    pub refused: bool,
    /// True if a failed rollout can be undone.
    pub can_undo: bool,
}

/// A deployment and its surroundings.
#[derive(Debug, Clone, Copy)]
pub struct StatusInputs<'a> {
    /// Number of desired Instances.
    pub desired: u32,
    /// The rollout of a deployment with a strategy.
    pub rollout: Option<RolloutInputs<'a>>,
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

    /// Ordinal in the name.
    fn ordinal(&self) -> Option<u32> {
        let (_, ordinal) = self.control.name.rsplit_once('-')?;
        names::ordinal(ordinal)
    }

    fn waits_for_data(&self) -> bool {
        let instance = &self.row.digest;
        instance.has_gate(gates::REFERENCED_DATA) && !instance.is(REFERENCED_DATA_READY)
    }
}

/// The five counters.
pub fn counts(seen: &StatusInputs<'_>) -> ReplicaCounts {
    let undone = seen.rollout.is_some_and(|rollout| rollout.undone);
    let count = |which: &dyn Fn(&KnownInstance) -> bool| {
        let count = seen.instances.iter().filter(|instance| which(instance)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    ReplicaCounts {
        replicas: count(&|_| true),
        updated_replicas: count(&|i| !undone && i.is_updated()),
        current_replicas: count(&|i| !undone && i.is_updated() && i.row.digest.is(PROGRAMMED)),
        ready_replicas: count(&|i| i.row.digest.is(READY)),
        desired_replicas: i32::try_from(seen.desired).unwrap_or(i32::MAX),
    }
}

/// The condition `ReplicasReady`. The message ends with the reason that the next step waits for, if that step waits.
pub fn replicas_ready(seen: &StatusInputs<'_>) -> Verdict {
    let mut verdict = replicas(seen);
    if let Some(waits) = waiting(seen, WaitDetail::Reason)
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
    let lacking: Vec<Reason> = wanted(seen)
        .filter_map(|i| missing_quota_reason(&i.row.digest))
        .collect();
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

/// Instances whose ordinal is below the desired number, or whose name has no ordinal.
fn wanted<'a>(seen: &'a StatusInputs<'_>) -> impl Iterator<Item = &'a KnownInstance> {
    let instances = seen.instances.iter().copied();
    instances.filter(|instance| {
        let ordinal = instance.ordinal();
        ordinal.is_none_or(|ordinal| ordinal < seen.desired)
    })
}

/// Detail of the Instance that the first step waits for, in a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitDetail {
    /// The reason of condition Ready.
    Reason,
    /// Reason and message of condition Ready.
    ReasonAndMessage,
}

/// Text of the reason that the first step waits for, if that step waits.
fn waiting(seen: &StatusInputs<'_>, detail: WaitDetail) -> Option<String> {
    let step = seen.steps.first().filter(|step| step.act == StepAction::Wait)?;
    let name = &step.instance;
    let why = match step.why {
        StepReason::NotReady => {
            let instance = seen.instances.iter().find(|i| i.control.name == *name);
            let ready = instance.and_then(|i| i.row.digest.condition(READY));
            match ready {
                Some(ready) if ready.status == True => "ready for less than minReadySeconds".to_owned(),
                Some(ready) if detail == WaitDetail::ReasonAndMessage => {
                    format!("{}: {}", ready.reason, ready.message)
                }
                Some(ready) => ready.reason.clone(),
                None => Reason::Pending.to_string(),
            }
        }
        StepReason::Terminating => Reason::Stopping.to_string(),
        StepReason::Lost => Reason::NodeLost.to_string(),
        StepReason::NameConflict => Reason::InstanceNameConflict.to_string(),
        StepReason::RollsHeld => Reason::QuotaBackendUnavailable.to_string(),
        StepReason::Paused => Reason::RolloutPaused.to_string(),
        StepReason::SurgeWithoutQuota => Reason::SurgeWithoutQuota.to_string(),
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

/// The condition `Progressing` of a deployment with a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The condition.
    pub verdict: Verdict,
    /// The number of steps that are left, if every one of them waits for Instances.
    pub stalled: Option<usize>,
    /// Time until the progress deadline.
    pub due: Option<Duration>,
}

impl From<Verdict> for Progress {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            stalled: None,
            due: None,
        }
    }
}

/// The condition `Progressing`; `None` without a strategy, because the peer's deployments do not have this condition.
pub fn progressing(seen: &StatusInputs<'_>) -> Option<Progress> {
    let rollout = seen.rollout.as_ref()?;
    let strategy = rollout.strategy;
    if seen.suspended {
        return Some(Verdict::of(Unknown, Reason::Suspended, "the deployment is suspended").into());
    }
    if let Some(block) = seen.block.filter(|block| block.reason != Reason::ApplyFailed) {
        return Some(Verdict::of(Unknown, block.reason, &*block.message).into());
    }
    if strategy.paused {
        let message = "the rollout is paused: no Instance is replaced";
        return Some(Verdict::of(Unknown, Reason::RolloutPaused, message).into());
    }
    if rollout.undone {
        return Some(Verdict::of(False, Reason::RolloutUndone, undone_message(rollout)).into());
    }
    let updated = wanted(seen).filter(|instance| instance.is_updated()).count();
    let message = format!("{updated}/{} instances are on the latest template", seen.desired);
    // A rollout that has completed stays complete if an Instance stops being available afterwards.
    let completed = rollout.is_latest(Reason::RolloutComplete);
    if completed || steps(seen).next().is_none() {
        return Some(Verdict::of(True, Reason::RolloutComplete, message).into());
    }
    let said = |detail| match waiting(seen, detail) {
        Some(waits) => format!("{message}; {waits}"),
        None => message.clone(),
    };
    let stalled = stalled_steps(seen, rollout);
    let due = stalled.map(|left| rollout.deadline_in(left));
    let verdict = if due.is_some_and(|due| due.is_zero()) {
        let (deadline, words) = (strategy.deadline.as_secs(), said(WaitDetail::ReasonAndMessage));
        let next = if strategy.undo_on_failure && !rollout.can_undo {
            "; no template is known whose rollout completed, so that nothing is undone"
        } else {
            ""
        };
        let message = format!("no progress for {deadline} s: {words}{next}");
        Verdict::of(False, Reason::ProgressDeadlineExceeded, message)
    } else if steps(seen).any(|step| step.why == StepReason::SurgeWithoutQuota) {
        let message = format!(
            "quota is not granted for the surge; each instance is deleted before its replacement is created; {message}"
        );
        Verdict::of(True, Reason::SurgeWithoutQuota, message)
    } else {
        Verdict::of(True, Reason::RolloutProgressing, said(WaitDetail::Reason))
    };
    Some(Progress {
        verdict,
        stalled,
        due: due.filter(|due| !due.is_zero()),
    })
}

/// The steps of the rollout and of the scale-down.
fn steps<'a>(seen: &'a StatusInputs<'_>) -> impl Iterator<Item = &'a Step> {
    seen.steps.iter().filter(|step| step.why != StepReason::Labels)
}

impl RolloutInputs<'_> {
    /// True if the condition Progressing of the latest generation has this reason.
    fn is_latest(&self, reason: Reason) -> bool {
        self.progressing.is_some_and(|had| {
            had.reason == reason.as_str() && had.observed_generation == Some(self.generation)
        })
    }

    /// Time until the progress deadline of a stalled rollout with so many steps left; zero if it is exceeded.
    fn deadline_in(&self, left: usize) -> Duration {
        let deadline = Duration::try_from(self.strategy.deadline).unwrap_or_default();
        match self.stalled {
            Some(stalled) if left < stalled.steps => deadline,
            // The program does not remember the time before its start.
            _ if self.is_latest(Reason::ProgressDeadlineExceeded) => Duration::ZERO,
            Some(stalled) => deadline.saturating_sub(stalled.time),
            None => deadline,
        }
    }
}

/// The message of an undone rollout, with the cause that the condition had before.
fn undone_message(rollout: &RolloutInputs<'_>) -> String {
    let undone =
        "undone: the last template whose rollout completed runs; change the template to try another rollout";
    match rollout.progressing {
        Some(had) if rollout.is_latest(Reason::RolloutUndone) => had.message.clone(),
        Some(had) if had.reason == Reason::ProgressDeadlineExceeded.as_str() => {
            format!("{}; {undone}", had.message)
        }
        _ => format!("the rollout exceeded its progress deadline; {undone}"),
    }
}

/// The number of steps that are left if every one of them waits for Instances. A step that is refused waits too. The end of an
/// Instance, a pause and a hold are no failure of the template.
fn stalled_steps(seen: &StatusInputs<'_>, rollout: &RolloutInputs<'_>) -> Option<usize> {
    let goes_on = |step: &Step| {
        let acts = step.now && step.act != StepAction::Wait && !rollout.refused;
        let is_excused = matches!(
            step.why,
            StepReason::Terminating | StepReason::Lost | StepReason::RollsHeld | StepReason::Blocked(_)
        );
        acts || is_excused
    };
    (!steps(seen).any(goes_on)).then(|| steps(seen).count())
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
            &|i| missing_quota_reason(&i.row.digest).is_some(),
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
        rollout::{self, Owner, labels::Labels},
        writes::read,
    };
    use fedgate_api::conditions::types::QUOTA_GRANTED;
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
            available: false,
            served: false,
            quota_denied: false,
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
            rollout: None,
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
