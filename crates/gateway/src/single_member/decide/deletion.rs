//! Deletion of an object that lives at one member (contract: clusters.md §3.4). Its copy is stopped and deleted, the member is
//! asked, and only then are companions, pin and finalizers released. Pure.

use super::{Case, CopyWrite, GRACE_PERIOD, MemberStep, Memory, WAIT, guards};
use crate::{
    index::{
        rows::{HubCopy, status::OwnCondition},
        single_member::{AdoptedState, CopyPolicy, Ended, Pin, PinnedCluster, Stage},
    },
    reason::WriteReason,
    single_member::{Observation, Probe, conditions, probe::Probing},
};
use fedgate_api::keys;
use fedgate_engine::{plan::Requeue, store::table::Row};
use fedgate_kinds::FinishedWhen;
use std::sync::Arc;

/// The next step of a deletion. Guards that hold it and refusals of the hub are the federator's.
pub fn end(c: &Case<'_>, memory: &mut Memory) -> MemberStep {
    let Ok(pin) = &c.at.pin else {
        return report(conditions::unreadable(c));
    };
    let is_own = |copy: &&Row<HubCopy>| {
        let from = copy.digest.source_uid.as_ref();
        from.is_none_or(|uid| *uid == c.source.uid)
    };
    let copy = c.copy.filter(is_own);
    let Some(pin) = pin else {
        return match copy {
            Some(copy) => end_without_pin(c, copy),
            None => finish(c, memory),
        };
    };
    if let Some(step) = refuse_abandonment(c, pin, memory) {
        return step;
    }
    let needs_cluster = !is_abandoned(c, pin) && (copy.is_some() || !is_over_without_member(c, pin));
    if needs_cluster && c.lacks_clusters() {
        memory.probing.observation = None;
        let unseen = Observation::Unknown("the hub's Clusters are not seen".to_owned());
        return report(conditions::waiting(c, pin, Some(&unseen)));
    }
    match copy {
        Some(copy) => stop(c, pin, copy, memory),
        None => confirm_absent(c, pin, memory),
    }
}

/// Withdraws an object that its member has ended from the hub. Its pin stays, so that the object is not made again.
pub(super) fn withdraw(c: &Case<'_>, pin: &Arc<Pin>, memory: &mut Memory) -> MemberStep {
    if pin.is_over() && c.copy.is_none() {
        memory.policy = None;
        return WAIT;
    }
    // An object that is absent from the index may not have been listed yet.
    if !c.complete {
        return WAIT;
    }
    let step = match c.copy {
        Some(copy) => stop(c, pin, copy, memory),
        None => confirm_absent(c, pin, memory),
    };
    match step {
        // The object's own conditions say that its member has ended it.
        MemberStep::Report(_, next) => MemberStep::Wait(next),
        step => step,
    }
}

fn report(condition: OwnCondition) -> MemberStep {
    MemberStep::Report(condition, Requeue::AwaitChange)
}

/// Reports what was observed, and asks again after a while.
fn report_and_ask_again(c: &Case<'_>, pin: &Pin, seen: &Observation, memory: &mut Memory) -> MemberStep {
    MemberStep::Report(conditions::waiting(c, pin, Some(seen)), memory.probing.again())
}

/// The member that the annotation `fedgate.dev/abandon` names: the deletion does not wait for it.
fn named_to_abandon<'a>(c: &'a Case<'_>) -> Option<&'a Arc<str>> {
    c.source.digest.ending.as_ref()?.abandons.as_ref()
}

/// True if the object is being deleted, and the annotation names its member.
pub(super) fn is_abandoned(c: &Case<'_>, pin: &Pin) -> bool {
    c.source.deleting && named_to_abandon(c) == Some(&pin.member)
}

/// Reports, once, that the annotation names another member than the object's.
fn refuse_abandonment(c: &Case<'_>, pin: &Pin, memory: &mut Memory) -> Option<MemberStep> {
    let wrong = named_to_abandon(c).filter(|member| **member != pin.member);
    if memory.deletion.refused_abandonment.as_ref() == wrong {
        return None;
    }
    memory.deletion.refused_abandonment = wrong.cloned();
    Some(MemberStep::RefuseAbandonment(format!(
        "{} names {}, but the object lives at {}: nothing is abandoned; correct the annotation",
        keys::ABANDON,
        wrong?,
        pin.member
    )))
}

/// A copy without a pin was delivered nowhere, unless the pin was lost: the copy's policy shows that.
fn end_without_pin(c: &Case<'_>, copy: &Row<HubCopy>) -> MemberStep {
    if copy.deleting {
        return WAIT;
    }
    match CopyPolicy::read(c.profile(), copy.digest.delivery_policy.as_deref()) {
        CopyPolicy::At(stage, member) if stage != Stage::Withdraw => c.write_pin(copy, member, true),
        _ => MemberStep::Delete(WriteReason::DeleteCopy),
    }
}

/// Stops the copy: in its last stage Karmada dispatches nothing of it, and preserves nothing.
fn stop(c: &Case<'_>, pin: &Arc<Pin>, copy: &Row<HubCopy>, memory: &mut Memory) -> MemberStep {
    if copy.deleting {
        memory.probing.observation = None;
        return report(conditions::waiting(c, pin, None));
    }
    let stage = c.stage(copy, pin);
    // Karmada deletes only what it manages: it takes over the object of a copy that was made again first. Nothing is sent to a
    // Cluster that is another one.
    let is_made_again = pin.delivered && pin.copy_uids.last() == Some(&copy.uid) && pin.copy_uids.len() > 1;
    if is_made_again
        && matches!(stage, Some(Stage::TakeOver | Stage::Preserve))
        && c.item(copy, pin).is_some_and(|item| item.applied)
    {
        memory.deletion.is_taken_over = true;
    }
    // Karmada would make an object again that the member has ended, so it takes over only one that the member was seen to have.
    let may_take_over = pin.ended.is_none() || memory.deletion.is_alive;
    let takes_over = is_made_again && may_take_over && c.is_at(PinnedCluster::Same);
    if takes_over
        && !memory.deletion.is_taken_over
        && stage == Some(Stage::TakeOver)
        && let Some(step) = await_takeover(c, pin, copy, memory)
    {
        return step;
    }
    let wanted = if takes_over && !memory.deletion.is_taken_over {
        Stage::TakeOver
    } else {
        Stage::Withdraw
    };
    if let Some(step) = c.name_copy(pin, copy) {
        return step;
    }
    if stage.is_some_and(|stage| stage != Stage::Withdraw)
        && let Some(step) = c.record_adopted(pin)
    {
        return step;
    }
    if wanted == Stage::Withdraw
        && let Some(step) = guards::deliver_spec(c, pin, copy, stage, memory)
    {
        return step;
    }
    if stage != Some(wanted) {
        memory.probing.observation = None;
        return c.change_policy(c.at_stage(wanted, pin), false, memory);
    }
    let Some((delivery, _)) = c.delivery(copy).filter(|(delivery, _)| delivery.suspended) else {
        // Without a binding there is nothing to stop, but Karmada may be about to make one.
        return if c.binding.is_some() || c.spec.is_binding_settled {
            WAIT
        } else {
            MemberStep::Delete(WriteReason::DeleteCopy)
        };
    };
    let has_stopped = memory.probing.observation == Some(Observation::WorksStopped);
    if has_stopped && guards::asks(c, pin, memory) {
        return MemberStep::Probe(Probe::Object { pin: pin.clone() });
    }
    delete_stopped(
        pin,
        delivery.id.as_ref(),
        &c.at.adopted,
        &mut memory.probing,
        WriteReason::DeleteCopy,
    )
}

/// Deletes a copy whose Works, and those of the companions that went with it, are stopped. A companion that the member deletes
/// together with the object must not be made again.
pub(in crate::single_member) fn delete_stopped(
    pin: &Pin,
    binding_id: Option<&Arc<str>>,
    adopted: &AdoptedState,
    probing: &mut Probing,
    reason: WriteReason,
) -> MemberStep {
    match (&probing.observation, binding_id) {
        (Some(Observation::WorksStopped), _) => {
            *probing = Probing::default();
            MemberStep::Delete(reason)
        }
        (Some(_), _) => MemberStep::Wait(probing.again()),
        (None, Some(id)) if !adopted.goes_on => MemberStep::Probe(Probe::Works {
            member: pin.member.clone(),
            ids: std::iter::once(id).chain(&adopted.ids).cloned().collect(),
        }),
        (None, _) => WAIT,
    }
}

/// Waits until Karmada has taken over the member's object. A member that does not allow it may have no object: then there is
/// nothing to take over.
fn await_takeover(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    copy: &Row<HubCopy>,
    memory: &mut Memory,
) -> Option<MemberStep> {
    let waited = c.now.since(*memory.unapplied.get_or_insert(c.now.instant));
    if waited < GRACE_PERIOD {
        return Some(MemberStep::Wait(Requeue::After(
            GRACE_PERIOD.saturating_sub(waited),
        )));
    }
    if c.profile().deletion.finished_when == FinishedWhen::Released {
        let words = c.item(copy, pin).map(|item| item.message.to_string());
        let words = words.filter(|words| !words.is_empty());
        let words = words.unwrap_or_else(|| "it has not taken it over from an earlier copy".to_owned());
        return Some(report(conditions::waiting(
            c,
            pin,
            Some(&Observation::Unknown(words)),
        )));
    }
    match memory.probing.observation.clone() {
        None => Some(MemberStep::Probe(Probe::Object { pin: pin.clone() })),
        Some(Observation::Absent) => {
            memory.deletion.is_taken_over = true;
            memory.unapplied = None;
            None
        }
        Some(seen) => Some(report_and_ask_again(c, pin, &seen, memory)),
    }
}

/// The copy is gone: the deletion is over once binding and member have nothing left.
fn confirm_absent(c: &Case<'_>, pin: &Arc<Pin>, memory: &mut Memory) -> MemberStep {
    if c.binding.is_some() {
        return report(conditions::waiting(c, pin, None));
    }
    if is_over_without_member(c, pin) {
        return release(c, pin, memory);
    }
    // Another Cluster under the member's name proves nothing.
    if c.is_at(PinnedCluster::Replaced) {
        memory.probing.observation = None;
        return report(conditions::replaced(c, pin));
    }
    match memory.probing.observation.clone() {
        None => MemberStep::Probe(Probe::Member {
            pin: pin.clone(),
            id: memory.deletion.binding_id.clone(),
        }),
        Some(Observation::Absent) if c.is_at(PinnedCluster::Same) => release(c, pin, memory),
        // The copy was deleted by somebody other than the gateway. Karmada deletes only what it manages, so that the copy is made again.
        Some(seen @ Observation::There { deleting: false, .. }) => {
            memory.probing.observation = None;
            if let Some(left) = c.next_takeover_in(memory) {
                return MemberStep::Report(conditions::waiting(c, pin, Some(&seen)), Requeue::After(left));
            }
            (memory.deletion.is_taken_over, memory.deletion.is_unguarded) = (false, false);
            memory.deletion.is_alive = true;
            // The sources of the copy may be gone with their namespace.
            let policy = c.at_stage(Stage::Withdraw, pin);
            c.write(CopyWrite::Create, policy, memory).taking_over()
        }
        Some(seen) => report_and_ask_again(c, pin, &seen, memory),
    }
}

/// True if a deletion is over once the hub has nothing left, whatever the member has.
fn is_over_without_member(c: &Case<'_>, pin: &Pin) -> bool {
    c.profile().deletion.finished_when == FinishedWhen::Released || is_abandoned(c, pin) || pin.is_over()
}

/// Removes the pin. The pin of an object that its member has ended stays, and records that the member has nothing of the object.
fn release(c: &Case<'_>, pin: &Pin, memory: &mut Memory) -> MemberStep {
    memory.probing = Probing::default();
    if let Some(ended) = pin.ended.filter(|_| !c.source.deleting) {
        return c.record(&pin.with_end(Ended { gone: true, ..ended }));
    }
    let Some(removal) = c.at.record.write(None).map(Box::new) else {
        return finish(c, memory);
    };
    if !is_abandoned(c, pin) {
        return MemberStep::Apply(removal);
    }
    let message = format!(
        "its deletion waits for {} no longer, as {} says; what is left there is to be removed by hand",
        pin.member,
        keys::ABANDON
    );
    MemberStep::Abandon(removal, message)
}

/// Nothing is left but companions, which their controller releases, and the finalizers.
fn finish(c: &Case<'_>, memory: &mut Memory) -> MemberStep {
    if c.binding.is_some() {
        return WAIT;
    }
    if !c.spec.is_binding_settled {
        return MemberStep::ConfirmGone;
    }
    memory.policy = None;
    if c.spec.companions_hold {
        return WAIT;
    }
    MemberStep::Finish
}
