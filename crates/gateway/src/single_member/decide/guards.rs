//! Guards of a deletion: the spec in which no guard holds reaches the member before the copy is withdrawn, because the member's
//! operator may clean up nothing while it reads the guard (contract: clusters.md §3.4 step 3). Pure.

use super::{Case, CopyWrite, MemberStep, Memory, deletion::is_abandoned};
use crate::{
    index::{
        rows::HubCopy,
        single_member::{Pin, PinnedCluster, Stage},
    },
    single_member::{Observation, Probe, conditions, probe::Probing},
};
use fedgate_engine::{plan::Requeue, store::table::Row};
use fedgate_kinds::FinishedWhen;
use std::sync::Arc;

/// True if the member has to say which spec it has before its object may be deleted. Another Cluster is not asked, because its
/// answer proves nothing.
pub(super) fn asks(c: &Case<'_>, pin: &Pin, memory: &Memory) -> bool {
    let deletion = &c.profile().deletion;
    !deletion.guards.is_empty()
        && deletion.finished_when == FinishedWhen::MemberAbsent
        && c.is_at(PinnedCluster::Same)
        && pin.ended.is_none()
        && !is_abandoned(c, pin)
        && !memory.deletion.is_unguarded
}

/// The step that brings the member the spec without the guard; `None` if nothing keeps the copy from being withdrawn.
pub(super) fn deliver_spec(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    copy: &Row<HubCopy>,
    stage: Option<Stage>,
    memory: &mut Memory,
) -> Option<MemberStep> {
    let is_stopped = stage == Some(Stage::Withdraw);
    let was_sent = pin.delivered || stage.is_some_and(Stage::delivers);
    if !asks(c, pin, memory) || !is_stopped && !was_sent {
        return None;
    }
    // The copy has a guard in its spec: the last spec of the project goes first, before the member is asked.
    if copy.digest.guarded && !is_stopped && c.spec.fault.is_none() {
        return Some(deliver(c, pin, copy, stage, memory));
    }
    match memory.probing.observation.clone() {
        // The member has no object. Karmada may dispatch a guarded spec until it is stopped, so the member is asked again afterwards.
        Some(Observation::Absent) if !is_stopped => None,
        // The member has an unguarded spec, and will not get a later one: its generation is unknown, or it refuses the copy. The
        // copy is stopped, and the member is asked again.
        Some(Observation::There {
            generation,
            guarded: false,
            ..
        }) if !is_stopped && (generation.is_none() || refusal(c, pin, copy).is_some()) => None,
        // Nothing is dispatched, and the member has no object: the deletion goes on.
        Some(Observation::Absent) => {
            memory.deletion.is_unguarded = true;
            memory.probing.observation = Some(Observation::WorksStopped);
            None
        }
        // The member has an unguarded spec that stays: nothing is dispatched, or it is the spec of the copy. The deletion goes on.
        Some(Observation::There {
            generation,
            guarded: false,
            ..
        }) if is_stopped || generation.is_some() && generation == copy.digest.source_generation => {
            memory.deletion.is_unguarded = true;
            memory.probing = Probing {
                observation: is_stopped.then_some(Observation::WorksStopped),
                count: 0,
            };
            None
        }
        // The member has a guarded spec, or an earlier one: it gets the spec of the copy.
        Some(Observation::There { .. }) => Some(deliver(c, pin, copy, stage, memory)),
        // The member did not answer: it is asked again after a while.
        Some(seen @ Observation::Unknown(_)) => {
            let said = conditions::lags(c, pin, Some(&seen), None);
            Some(MemberStep::Report(said, memory.probing.again()))
        }
        // The member was not asked. A stopped copy waits for its Works first, and is asked by `stop` afterwards.
        _ if is_stopped => None,
        // The member was not asked since the copy was last written.
        _ => Some(MemberStep::Probe(Probe::Object { pin: pin.clone() })),
    }
}

/// The member's message if it refuses the copy.
fn refusal<'a>(c: &'a Case<'_>, pin: &Pin, copy: &Row<HubCopy>) -> Option<&'a str> {
    let item = c.item(copy, pin)?;
    (!item.applied && !item.message.is_empty()).then_some(&*item.message)
}

/// Delivers the spec, and waits until the member has it.
fn deliver(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    copy: &Row<HubCopy>,
    stage: Option<Stage>,
    memory: &mut Memory,
) -> MemberStep {
    let refusal = refusal(c, pin, copy);
    let lacks_spec = copy.digest.guarded || refusal.is_some();
    if let Some(fault) = c.spec.fault.as_ref().filter(|_| lacks_spec) {
        memory.probing.observation = None;
        return MemberStep::Report(conditions::undeliverable(c, pin, fault), Requeue::AwaitChange);
    }
    let (wanted, later) = match stage {
        // Karmada no longer manages the member's object, and applies nothing until it takes the object over.
        Some(Stage::Preserve) if c.item(copy, pin).is_none_or(|item| !item.applied) => c.take_over(memory),
        // The stage dispatches already.
        Some(stage) if stage.delivers() => (stage, Requeue::AwaitChange),
        // The object was suspended: Karmada manages it, and dispatches in the next stage.
        Some(Stage::Suspend) => (Stage::Preserve, Requeue::AwaitChange),
        // The copy was withdrawn, or is new: Karmada may not manage the member's object.
        _ => (Stage::TakeOver, Requeue::AwaitChange),
    };
    let policy = c.at_stage(wanted, pin);
    if stage != Some(wanted) {
        memory.probing.observation = None;
        let step = c.change_policy(policy, true, memory);
        let is_takeover = stage == Some(Stage::Preserve);
        return if is_takeover { step.taking_over() } else { step };
    }
    if c.spec.differs {
        memory.probing.observation = None;
        return c.write(CopyWrite::Update, policy, memory);
    }
    memory.policy = Some(policy);
    let said = conditions::lags(c, pin, memory.probing.observation.as_ref(), refusal);
    MemberStep::Report(said, memory.probing.again().earlier(later))
}
