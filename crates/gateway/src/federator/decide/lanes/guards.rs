//! The spec without the guard that held a deletion reaches the member before the copy is withdrawn, because the member's operator
//! may clean up nothing while it reads the guard (contract: clusters.md §3.4 step 3). Pure.

use super::{
    Case, Choice, abandon,
    deletion::{again, tell},
};
use crate::{
    federator::{
        conditions as common,
        decide::{Settings, Step},
        lanes::conditions,
        memory::Memory,
    },
    index::rows::HubCopy,
    lane::Stage,
    member::{Look, Seen},
    pin::{Pin, PinnedCluster},
    rate_limit::Permit,
};
use fedgate_engine::{plan::Requeue, store::table::Row};
use fedgate_kinds::FinishedWhen;
use std::sync::Arc;

/// True if the member has to say which spec it has before its object may be deleted. Another Cluster is not asked, because its
/// answer proves nothing.
pub(super) fn asks(c: &Case<'_>, pin: &Pin, memory: &Memory) -> bool {
    let deletion = &c.s.profile().deletion;
    !deletion.guards.is_empty()
        && deletion.finished_when == FinishedWhen::MemberAbsent
        && c.is_at(PinnedCluster::Same)
        && !abandon::is_abandoned(c, pin)
        && !memory.unguarded
}

/// The step that brings the member the spec without the guard; `None` if nothing keeps the copy from being withdrawn.
pub(super) fn deliver_first(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    copy: &Row<HubCopy>,
    stage: Option<Stage>,
    memory: &mut Memory,
    settings: &Settings,
    permit: Permit,
) -> Option<Step> {
    let is_stopped = stage == Some(Stage::Drop);
    let was_sent = pin.delivered || stage.is_some_and(Stage::delivers);
    if !asks(c, pin, memory) || !is_stopped && !was_sent {
        return None;
    }
    if copy.digest.guarded && !is_stopped && obstacle(c).is_none() {
        return Some(deliver(c, pin, copy, stage, memory, settings, permit));
    }
    match memory.seen.clone() {
        // Karmada may dispatch a guarded spec until it is stopped: the object is looked for once more then.
        Some(Seen::Absent) if !is_stopped => None,
        Some(Seen::There {
            generation,
            guarded: false,
            ..
        }) if !is_stopped && (generation.is_none() || refusal(c, pin, copy).is_some()) => None,
        Some(Seen::Absent) => {
            memory.unguarded = true;
            memory.seen = Some(Seen::WorksStopped);
            None
        }
        Some(Seen::There {
            generation,
            guarded: false,
            ..
        }) if is_stopped || has_spec_of(copy, generation) => {
            memory.unguarded = true;
            memory.looks = 0;
            memory.seen = is_stopped.then_some(Seen::WorksStopped);
            None
        }
        Some(Seen::There { .. }) => Some(deliver(c, pin, copy, stage, memory, settings, permit)),
        Some(seen @ Seen::Unknown(_)) => {
            let said = conditions::lags(c, pin, Some(&seen), None);
            let next = again(memory);
            Some(tell(c, &[said], memory, settings).by(next))
        }
        // The Works come first.
        _ if is_stopped => None,
        _ => Some(Step::Look(Look::Object { pin: pin.clone() })),
    }
}

/// True if a member's object has the spec of the copy.
fn has_spec_of(copy: &Row<HubCopy>, generation: Option<i64>) -> bool {
    generation.is_some() && generation == copy.digest.source_generation
}

/// The member's words for why it does not take the copy.
fn refusal<'a>(c: &'a Case<'_>, pin: &Pin, copy: &Row<HubCopy>) -> Option<&'a str> {
    let item = c.delivery(copy)?.0.at(&pin.member)?;
    (!item.applied && !item.message.is_empty()).then_some(&*item.message)
}

/// Delivers the spec, and waits until the member has it.
fn deliver(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    copy: &Row<HubCopy>,
    stage: Option<Stage>,
    memory: &mut Memory,
    settings: &Settings,
    permit: Permit,
) -> Step {
    let refusal = refusal(c, pin, copy);
    let lacks_spec = copy.digest.guarded || refusal.is_some();
    if let Some((reason, message)) = obstacle(c).filter(|_| lacks_spec) {
        let said = conditions::undeliverable(c, pin, reason, &message);
        memory.seen = None;
        return tell(c, &[said], memory, settings);
    }
    let item = c
        .delivery(copy)
        .and_then(|(delivery, _)| delivery.at(&pin.member));
    let (wanted, later) = match stage {
        // Karmada may have let go of the object.
        Some(Stage::Pin) if item.is_none_or(|item| !item.applied) => c.take_over(memory),
        Some(stage) if stage.delivers() => (stage, Requeue::AwaitChange),
        Some(Stage::Hold) => (Stage::Pin, Requeue::AwaitChange),
        _ => (Stage::Mend, Requeue::AwaitChange),
    };
    let lane = c.lane(Choice::Stage(wanted, pin));
    if stage != Some(wanted) {
        memory.seen = None;
        let step = c.change_lane(copy, &lane, memory, permit, true);
        return if stage == Some(Stage::Pin) {
            c.taken_over(step)
        } else {
            step
        };
    }
    if c.differs(copy, memory) {
        memory.seen = None;
        return c.update(copy, &lane, memory, permit);
    }
    memory.lane = Some(lane);
    let said = conditions::lags(c, pin, memory.seen.as_ref(), refusal);
    let next = again(memory).earlier(later);
    tell(c, &[said], memory, settings).by(next)
}

/// Reason and message of a fault for which the last spec does not go to the hub.
fn obstacle(c: &Case<'_>) -> Option<(&'static str, String)> {
    let is_refused = c.s.keeps_spec(c.source) || c.s.destination.to.is_err();
    let fault = || common::invalid(c.s, c.source).map(|fault| (fault.reason, fault.message));
    common::refused_place(c.s).or_else(fault).filter(|_| is_refused)
}
