//! The status of a Cell, as its last report has it. Pure.

use super::decide::Present;
use crate::{
    reason::{Class, Problem, Reason},
    report::{Outcome, Report, Step},
};
use fedgate_api::{
    Condition, ConditionStatus,
    cell::{CellPhase, CellState, CellStatus},
    conditions::{self, types::READY},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// A later time of a proof is written at this interval.
const PROVEN_EVERY: Duration = Duration::from_hours(1);

/// The status that a Cell is to show. A step that the report does not mention keeps its condition.
pub fn render(present: &Present<'_>, report: &Report) -> CellStatus {
    let generation = present.row.digest.generation;
    let is_emptied = present.row.deleting || present.spec.state == CellState::Drained;
    let mut conditions = present.status.conditions.clone();
    conditions.retain(|condition| is_emptied || condition.type_ != Step::Drained.as_str());
    let mut tell = |step: Step, outcome: &Outcome| {
        let message = outcome.problem().map_or_else(String::new, Problem::message);
        let (status, reason) = match outcome {
            Outcome::Reached => (ConditionStatus::True, step.as_str()),
            Outcome::NotNeeded => (ConditionStatus::True, "NotNeeded"),
            Outcome::Missing(problem) => (ConditionStatus::False, problem.reason.as_str()),
        };
        let condition = Condition::new(step.as_str(), status, reason, &message, report.at);
        conditions::set(&mut conditions, condition.observed(Some(generation)));
    };
    for (step, outcome) in &report.outcomes {
        tell(*step, outcome);
    }
    if let Some(outcome) = ready(present, report) {
        tell(Step::Ready, &outcome);
    }
    let is_ready = conditions::find(&conditions, READY).is_some_and(|c| c.status == ConditionStatus::True);
    CellStatus {
        observed_generation: generation,
        phase: phase(present, report, &conditions, is_ready),
        provider: present.spec.provider.kind().as_str().to_owned(),
        proven_at: proven_at(present, report),
        cluster: report.cluster.clone().or_else(|| present.status.cluster.clone()),
        conditions,
    }
}

/// The result of step Ready, where an earlier one has ended the steps: an open cell is ready while Karmada can deliver to it.
fn ready(present: &Present<'_>, report: &Report) -> Option<Outcome> {
    if report.outcomes.iter().any(|(step, _)| *step == Step::Ready) {
        return None;
    }
    // Only the last problem can have ended the run.
    let (_, problem) = report.problems().last()?;
    match present.spec.state {
        CellState::Active => {}
        // Said by the steps, unless they ended before.
        CellState::Cordoned | CellState::Drained => return Some(Outcome::Missing(problem.clone())),
    }
    let cluster = present.snapshot.cluster.as_ref();
    let own = present.status.cluster.as_ref().map(|own| &own.id);
    let is_open = cluster.is_some_and(|cluster| {
        let is_own = cluster.is_usable() && own == Some(&cluster.id);
        is_own && cluster.city.as_ref() == Some(&present.spec.city) && !cluster.is_cordoned
    });
    let pending = cluster.and_then(|cluster| cluster.pending.as_ref());
    match pending {
        _ if !is_open => Some(Outcome::Missing(problem.clone())),
        Some(pending) => {
            let what = format!("the Cluster cannot be used: {pending}");
            Some(Outcome::Missing(Problem::new(Reason::ClusterNotReady, what)))
        }
        // It was opened only after every step had been proven.
        None => Some(Outcome::Reached),
    }
}

/// The first row of the contract that holds (contract: provisioning.md §10.1).
fn phase(present: &Present<'_>, report: &Report, conditions: &[Condition], is_ready: bool) -> CellPhase {
    let drained = conditions::find(conditions, Step::Drained.as_str());
    let is_drained = drained.is_some_and(|c| c.status == ConditionStatus::True);
    let first = report.problems().next();
    let is_cordoned = first.is_some_and(|(_, problem)| problem.reason == Reason::Cordoned);
    let needs_operator =
        first.is_some_and(|(_, problem)| matches!(problem.reason.class(), Class::Terminal | Class::Conflict));
    match present.spec.state {
        _ if present.row.deleting => CellPhase::Deleting,
        CellState::Drained if is_drained => CellPhase::Drained,
        CellState::Drained if drained.is_some() => CellPhase::Draining,
        _ if is_ready => CellPhase::Provisioned,
        _ if is_cordoned => CellPhase::Cordoned,
        _ if needs_operator => CellPhase::Failed,
        _ => CellPhase::Provisioning,
    }
}

/// The time of the last report in which every step was reached.
fn proven_at(present: &Present<'_>, report: &Report) -> Option<Time> {
    let had = &present.status.proven_at;
    let is_whole = report.outcomes.iter().any(|(step, _)| *step == Step::Ready);
    if !is_whole || report.problems().next().is_some() {
        return had.clone();
    }
    let is_recent = |had: &Time| {
        let age = Duration::try_from(report.at.duration_since(had.0));
        age.is_ok_and(|age| age < PROVEN_EVERY)
    };
    had.clone().filter(is_recent).or(Some(Time(report.at)))
}

/// The Event for a change of the conditions: whether it is a warning, its reason and its message. A Cell that became Ready, or else the first
/// condition that is not True for a new reason.
pub fn event_for_change(had: &CellStatus, wants: &CellStatus) -> Option<(bool, String, String)> {
    let is_ready = |status: &CellStatus| {
        conditions::find(&status.conditions, READY).is_some_and(|c| c.status == ConditionStatus::True)
    };
    if is_ready(wants) && !is_ready(had) {
        let what = "the cell takes deployments of its city".to_owned();
        return Some((false, READY.to_owned(), what));
    }
    let is_new = |wants: &&Condition| {
        let had = conditions::find(&had.conditions, &wants.type_);
        let is_told =
            had.is_some_and(|had| had.status != ConditionStatus::True && had.reason == wants.reason);
        let reason = Reason::parse(&wants.reason);
        wants.status != ConditionStatus::True
            && !is_told
            && reason.is_some_and(|reason| reason.class() != Class::Waiting)
    };
    let new = wants.conditions.iter().find(is_new)?;
    Some((true, new.reason.clone(), new.message.clone()))
}
