//! The Workload's conditions `Ready` and `Stalled`, by which kstatus (`helm --wait`, Flux, `kubectl wait`) tells
//! progress, success and failure apart (contract: api.md §8), and its condition `Moving` (contract: serving.md §4).

use super::{
    checks::CheckOutcome,
    matching::{Match, Matches},
    replaced::Kept,
    rollup::{Outcome, name_conflict, no, no_location, unresolved},
    snapshot::WorkloadSnapshot,
    wanted::{Access, Pair},
};
use crate::index::rows::WHY;
use fedgate_api::{
    Condition, ConditionStatus, Reason, WorkloadDeployment, WorkloadStatus,
    conditions::{self, types},
    keys,
};
use jiff::Timestamp;

/// Priorities of the reasons that need an edit.
const LASTING: [u8; 2] = [6, 8];

/// The conditions whose reason and message are written only with the changes of others.
const RIDING: [&str; 2] = [types::READY, types::STALLED];

/// Sets the three conditions; `list` has `Available` already.
pub(super) fn set(
    list: &mut Vec<Condition>,
    snapshot: &WorkloadSnapshot,
    matches: &Matches,
    kept: &Kept,
    outcomes: &[Outcome],
    verdict: &CheckOutcome,
    now: Timestamp,
) {
    let generation = snapshot.workload.metadata.generation;
    let mut missing = Vec::new();
    if let CheckOutcome::Bad { reason, message } = verdict {
        missing.push(no(*reason, message, now));
    }
    for ((pair, found), outcome) in matches.pairs.iter().zip(outcomes) {
        missing.extend(of_pair(*pair, found, outcome, now));
    }
    missing.extend(matches.unresolved.iter().map(|of| unresolved(*of, now)));
    for left in matches.unmatched.iter().filter(|d| !kept.contains(d)) {
        let name = left.metadata.name.as_deref().unwrap_or_default();
        let message = format!("deployment {name} is no longer wanted and still there");
        missing.push(no(Reason::SurplusInstances, &message, now));
    }
    let available = conditions::find(list, types::AVAILABLE).filter(|c| c.status != ConditionStatus::True);
    let all = "every placement has its instances, all ready and on the latest template";
    let (status, reason, message) = conditions::worst(&missing).or(available).map_or(
        (ConditionStatus::True, Reason::ReplicasAvailable.as_str(), all),
        |worst| (ConditionStatus::False, &worst.reason, &worst.message),
    );
    let ready = Condition::new(types::READY, status, reason, message, now);
    conditions::set(list, ready.observed(generation));
    let lasting = missing.iter().filter(|c| LASTING.contains(&c.priority()));
    match conditions::worst(lasting) {
        Some(worst) => {
            let truth = ConditionStatus::True;
            let stalled = Condition::new(types::STALLED, truth, &worst.reason, &worst.message, now);
            conditions::set(list, stalled.observed(generation));
        }
        None => list.retain(|c| c.type_ != types::STALLED),
    }
    match moving(matches, kept, outcomes, now) {
        Some(moving) => conditions::set(list, moving.observed(generation)),
        None => list.retain(|c| c.type_ != types::MOVING),
    }
}

/// Condition Moving: names the first deployment that stays, and what the deployment that replaces it lacks.
fn moving(matches: &Matches, kept: &Kept, outcomes: &[Outcome], now: Timestamp) -> Option<Condition> {
    let first = kept.first()?;
    let (pair, found) = matches.pairs.get(first.awaits)?;
    let lacks = of_pair(*pair, found, outcomes.get(first.awaits)?, now);
    let new = at(pair);
    let lacking = conditions::worst(&lacks)
        .cloned()
        .unwrap_or_else(|| not_acted(&new, now));
    let (former, key) = (first.at(), keys::ALLOW_GAP);
    let message = format!(
        "the deployment of {former} stays until that of {new} is ready: {}; to delete it at once, set annotation {key}=true on the Workload",
        lacking.message
    );
    let truth = ConditionStatus::True;
    Some(Condition::new(
        types::MOVING,
        truth,
        &lacking.reason,
        &message,
        now,
    ))
}

/// True if the status is to be written. A change of [`RIDING`] conditions counts if it changes what kstatus says; their
/// reasons and messages wait for the next other change, and a status of a version without them does so altogether.
pub(super) fn is_due(had: Option<&WorkloadStatus>, wanted: &WorkloadStatus) -> bool {
    let Some(had) = had else {
        return true;
    };
    let find = |status: &WorkloadStatus, type_| conditions::find(&status.conditions, type_).map(|c| c.status);
    let rides = RIDING.iter().all(|type_| find(had, type_) == find(wanted, type_));
    let others = |status: &WorkloadStatus| {
        let mut others = status.clone();
        others.conditions.retain(|c| !RIDING.contains(&&*c.type_));
        others
    };
    let older = find(had, types::READY).is_none();
    !(rides || older) || others(had) != others(wanted)
}

/// A pair, for messages.
fn at(pair: &Pair) -> String {
    format!("{}/{}", pair.placement.name, pair.at())
}

/// The conditions that a placement lacks at a place; empty if all its Instances are ready on the latest template.
fn of_pair(pair: Pair, found: &Match, outcome: &Outcome, now: Timestamp) -> Vec<Condition> {
    let at = at(&pair);
    match (found, outcome) {
        (_, Outcome::NameConflict(name)) => vec![name_conflict(name, now)],
        (_, Outcome::Refused(words)) => vec![no(Reason::ApplyFailed, words, now)],
        (Match::Live(_), Outcome::Applied) => vec![not_acted(&at, now)],
        (Match::Live(deployment), _) => of_deployment(pair, deployment, &at, now),
        _ if pair.access == Access::NoLocation => vec![no_location(&[pair.at()], now)],
        _ => {
            let message = format!("{at}: no deployment yet");
            vec![no(Reason::NoAvailableDeployments, &message, now)]
        }
    }
}

fn not_acted(at: &str, now: Timestamp) -> Condition {
    let message = format!("{at}: the cell has not acted on the latest spec yet");
    no(Reason::NoCellReporting, &message, now)
}

/// True if all Instances of a pair's deployment are ready on its latest template, and its rollout is complete.
pub(super) fn is_ready(pair: Pair, deployment: &WorkloadDeployment) -> bool {
    of_deployment(pair, deployment, "", Timestamp::UNIX_EPOCH).is_empty()
}

/// The conditions that a deployment lacks: its own of the latest generation, else what its counts say.
fn of_deployment(pair: Pair, deployment: &WorkloadDeployment, at: &str, now: Timestamp) -> Vec<Condition> {
    let generation = deployment.metadata.generation;
    let status = deployment.status.as_ref();
    let acted = status.is_some_and(|s| s.observed_generation == generation);
    let counts = status.map(|s| s.counts).unwrap_or_default();
    let wanted = counts
        .desired_replicas
        .max(pair.placement.scale_settings.min_replicas);
    let (ready, updated) = (counts.ready_replicas, counts.updated_replicas);
    let surplus = counts.replicas > wanted;
    let conditions = status.map_or(&[][..], |s| &s.conditions);
    // With rollout settings, an Instance counts after `minReadySeconds`, which the counts do not tell.
    let progressing = conditions::find(conditions, types::PROGRESSING);
    let is_incomplete = progressing.is_some_and(|c| {
        let is_paused = c.status == ConditionStatus::Unknown;
        let is_complete = c.reason == Reason::RolloutComplete.as_str();
        !is_paused && !is_complete && c.observed_generation == generation
    });
    if acted && ready >= wanted && updated >= wanted && !surplus && !is_incomplete {
        return Vec::new();
    }
    let theirs = WHY.iter().filter_map(|type_| conditions::find(conditions, type_));
    let current = theirs.filter(|c| c.status != ConditionStatus::True && c.observed_generation == generation);
    let said: Vec<Condition> = current.cloned().collect();
    if !said.is_empty() {
        return said;
    }
    if !acted {
        return vec![not_acted(at, now)];
    }
    let (reason, message) = if ready < wanted {
        let message = format!("{at}: {ready}/{wanted} instances are ready");
        (Reason::InstancesProvisioning, message)
    } else if updated < wanted || !surplus {
        let message = format!("{at}: {updated}/{wanted} instances are on the latest template");
        (Reason::InstancesUpdating, message)
    } else {
        let message = format!("{at}: {} instances exist, {wanted} are wanted", counts.replicas);
        (Reason::SurplusInstances, message)
    };
    vec![no(reason, &message, now)]
}
