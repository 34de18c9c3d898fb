//! Deletion of an object that lives at one member: its copy is stopped and deleted, the member is asked, and only then are
//! companions, pin and finalizers released (contract: clusters.md §3.4). Pure.

use super::{Case, abandon, guards, pins::record};
use crate::{
    federator::{
        conditions::hub_refused,
        decide::{
            Settings, Step, act,
            copy::delete_copy,
            deletion::{guarded, remove_finalizers},
            status::status_only,
        },
        lanes::{conditions, lane_of},
        memory::{GRACE_PERIOD, Memory},
    },
    index::rows::HubCopy,
    lane::{CopyLane, Lane, Stage},
    member::{Look, Seen, pause},
    pin::{Pin, PinnedCluster},
    rate_limit::Permit,
    reason::WriteReason,
};
use fedgate_engine::{plan::Requeue, store::table::Row};
use fedgate_kinds::FinishedWhen;
use std::sync::Arc;

/// The next step of a deletion.
pub(in crate::federator) fn delete_step(
    c: &Case<'_>,
    memory: &mut Memory,
    settings: &Settings,
    permit: Permit,
) -> Step {
    memory.bound |= c.s.binding.is_some();
    let delivery =
        c.s.binding
            .as_ref()
            .and_then(|row| row.digest.delivery.as_deref());
    if let Some(id) = delivery.and_then(|delivery| delivery.id.as_ref()) {
        memory.binding_id = Some(id.clone());
    }
    if let Some(step) = guarded(c.s, c.source, memory, settings, c.now) {
        return step;
    }
    if let Some((message, left)) = memory.refusal(c.source, c.now) {
        let said = hub_refused(c.source, message);
        return tell(c, &[said], memory, settings).by(Requeue::After(left));
    }
    let Ok(pin) = c.lanes.pin.clone() else {
        return tell(c, &[conditions::unreadable(c)], memory, settings);
    };
    if let Some(step) = pin.as_ref().and_then(|pin| abandon::refuse(c, pin, memory)) {
        return step;
    }
    let copy = c.s.copy.as_ref();
    let mine = copy.filter(|copy| {
        copy.digest
            .source_uid
            .as_ref()
            .is_none_or(|uid| *uid == c.source.uid)
    });
    if let Some(pin) = pin.as_ref().filter(|pin| needs_its_cluster(c, pin, mine))
        && c.lacks_clusters()
    {
        memory.seen = None;
        let unseen = Seen::Unknown("the hub's Clusters are not seen".to_owned());
        return tell(c, &[conditions::waiting(c, pin, Some(&unseen))], memory, settings);
    }
    match (pin, mine) {
        (None, Some(copy)) => without_pin(c, copy, memory),
        (None, None) => finish(c, memory),
        (Some(pin), Some(copy)) => stop(c, &pin, copy, memory, settings, permit),
        (Some(pin), None) => confirm_absent(c, &pin, memory, settings, permit),
    }
}

/// A copy without a pin was delivered nowhere, unless its pin was lost: lane and binding then tell it.
fn without_pin(c: &Case<'_>, copy: &Row<HubCopy>, memory: &Memory) -> Step {
    if copy.deleting {
        return Step::Wait(Requeue::AwaitChange);
    }
    if let CopyLane::At(stage, member) = lane_of(c.s.profile(), copy)
        && stage != Stage::Drop
    {
        return c.restore_pin(copy, member, memory);
    }
    act(delete_copy(c.s, copy, WriteReason::DeleteCopy), memory.clone())
}

/// Stops the copy: in its last lane Karmada dispatches nothing of it, and preserves nothing.
fn stop(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    copy: &Row<HubCopy>,
    memory: &mut Memory,
    settings: &Settings,
    permit: Permit,
) -> Step {
    if copy.deleting {
        memory.seen = None;
        return tell(c, &[conditions::waiting(c, pin, None)], memory, settings);
    }
    let stage = match lane_of(c.s.profile(), copy) {
        CopyLane::At(stage, member) if *member == *pin.member => Some(stage),
        CopyLane::At(..) | CopyLane::Choose | CopyLane::Other => None,
    };
    let is_applied = c
        .delivery(copy)
        .and_then(|(delivery, _)| delivery.at(&pin.member))
        .is_some_and(|item| item.applied);
    // Karmada deletes only what it manages: a copy that was made again takes its object over first.
    let takes_over = pin.delivered && pin.copy_uids.last() == Some(&copy.uid) && pin.copy_uids.len() > 1;
    let was_mended = matches!(stage, Some(Stage::Mend | Stage::Pin)) && is_applied || memory.taken_over;
    // Nothing is sent to a Cluster that is another one.
    let has_no_member = !c.is_at(PinnedCluster::Same);
    if takes_over
        && !has_no_member
        && !was_mended
        && stage == Some(Stage::Mend)
        && let Some(step) = not_taken_over(c, pin, copy, memory, settings)
    {
        return step;
    }
    let wanted = if takes_over && !has_no_member && !was_mended && !memory.taken_over {
        Stage::Mend
    } else {
        Stage::Drop
    };
    memory.taken_over |= was_mended && takes_over;
    if !pin.copy_uids.contains(&copy.uid) {
        return c.add_copy(pin, copy, memory);
    }
    if stage.is_some_and(|stage| stage != Stage::Drop)
        && let Some(step) = c.record_kept(pin, memory)
    {
        return step;
    }
    if wanted == Stage::Drop
        && let Some(step) = guards::deliver_first(c, pin, copy, stage, memory, settings, permit)
    {
        return step;
    }
    if stage != Some(wanted) {
        memory.seen = None;
        let lane = Lane::At(c.s.kind, wanted, pin.member.clone());
        let permit = c.permit_to_move(permit);
        return c.change_lane(copy, &lane, memory, permit, false);
    }
    let Some((delivery, _)) = c.delivery(copy).filter(|(delivery, _)| delivery.suspended) else {
        // Without a binding there is nothing to stop, but Karmada may be about to make one.
        return if memory.bound {
            Step::Wait(Requeue::AwaitChange)
        } else {
            act(delete_copy(c.s, copy, WriteReason::DeleteCopy), memory.clone())
        };
    };
    match (&memory.seen, &delivery.id) {
        (Some(Seen::WorksStopped), _) if guards::asks(c, pin, memory) => {
            Step::Look(Look::Object { pin: pin.clone() })
        }
        (Some(Seen::WorksStopped), _) => {
            memory.seen = None;
            memory.looks = 0;
            act(delete_copy(c.s, copy, WriteReason::DeleteCopy), memory.clone())
        }
        (Some(_), _) => Step::Wait(again(memory)),
        // A companion that the member deletes together with the object must not be made again.
        (None, Some(_)) if c.lanes.kept.goes_on => Step::Wait(Requeue::AwaitChange),
        (None, Some(id)) => Step::Look(Look::Works {
            member: pin.member.clone(),
            ids: std::iter::once(id).chain(&c.lanes.kept.ids).cloned().collect(),
        }),
        (None, None) => Step::Wait(Requeue::AwaitChange),
    }
}

/// A member that does not take its object over may have none: then there is nothing to take over.
fn not_taken_over(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    copy: &Row<HubCopy>,
    memory: &mut Memory,
    settings: &Settings,
) -> Option<Step> {
    let waited = c.now.since(*memory.unapplied.get_or_insert(c.now.instant));
    if waited < GRACE_PERIOD {
        let left = GRACE_PERIOD.saturating_sub(waited);
        return Some(Step::Wait(Requeue::After(left)));
    }
    let is_released = c.s.profile().deletion.finished_when == FinishedWhen::Released;
    let seen = match memory.seen.clone() {
        _ if is_released => {
            let item = c
                .delivery(copy)
                .and_then(|(delivery, _)| delivery.at(&pin.member));
            let words = item.map(|item| item.message.to_string());
            let words = words.filter(|words| !words.is_empty());
            Seen::Unknown(words.unwrap_or_else(|| "it has not taken it over from an earlier copy".to_owned()))
        }
        None => return Some(Step::Look(Look::Object { pin: pin.clone() })),
        Some(Seen::Absent) => {
            memory.taken_over = true;
            memory.unapplied = None;
            return None;
        }
        Some(seen) => seen,
    };
    Some(if is_released {
        tell(c, &[conditions::waiting(c, pin, Some(&seen))], memory, settings)
    } else {
        tell_and_look_again(c, pin, &seen, memory, settings)
    })
}

/// Looks again after a while.
pub(super) fn again(memory: &mut Memory) -> Requeue {
    memory.seen = None;
    memory.looks = memory.looks.saturating_add(1);
    Requeue::After(pause(memory.looks - 1))
}

fn tell_and_look_again(
    c: &Case<'_>,
    pin: &Pin,
    seen: &Seen,
    memory: &mut Memory,
    settings: &Settings,
) -> Step {
    let said = conditions::waiting(c, pin, Some(seen));
    let next = again(memory);
    tell(c, &[said], memory, settings).by(next)
}

/// The copy is gone: the deletion is over once binding and member have nothing left.
fn confirm_absent(
    c: &Case<'_>,
    pin: &Arc<Pin>,
    memory: &mut Memory,
    settings: &Settings,
    permit: Permit,
) -> Step {
    if c.s.binding.is_some() {
        return tell(c, &[conditions::waiting(c, pin, None)], memory, settings);
    }
    if is_over_without_its_member(c, pin) {
        return release(c, pin, memory);
    }
    // Another Cluster under the member's name proves nothing.
    if let Some(replaced) = conditions::replaced(c, pin) {
        memory.seen = None;
        return tell(c, &[replaced], memory, settings);
    }
    match memory.seen.clone() {
        None => Step::Look(Look::Member {
            pin: pin.clone(),
            id: memory.binding_id.clone(),
        }),
        Some(Seen::Absent) if c.is_at(PinnedCluster::Same) => release(c, pin, memory),
        // Karmada let go of the copy by another hand: only what it manages is deleted by it.
        Some(seen @ Seen::There { deleting: false, .. }) => {
            if let Some(left) = c.next_round_in(memory) {
                memory.seen = None;
                let said = conditions::waiting(c, pin, Some(&seen));
                return tell(c, &[said], memory, settings).by(Requeue::After(left));
            }
            memory.seen = None;
            memory.taken_over = false;
            memory.unguarded = false;
            let step = c.create_again(pin, memory, permit);
            c.taken_over(step)
        }
        Some(seen) => tell_and_look_again(c, pin, &seen, memory, settings),
    }
}

/// True if the next step of a deletion depends on which Cluster has the name of the pin's member.
fn needs_its_cluster(c: &Case<'_>, pin: &Pin, copy: Option<&Row<HubCopy>>) -> bool {
    !abandon::is_abandoned(c, pin) && (copy.is_some() || !is_over_without_its_member(c, pin))
}

/// True if a deletion is over once the hub has nothing left, whatever its member has.
fn is_over_without_its_member(c: &Case<'_>, pin: &Pin) -> bool {
    c.s.profile().deletion.finished_when == FinishedWhen::Released || abandon::is_abandoned(c, pin)
}

/// Removes the pin.
fn release(c: &Case<'_>, pin: &Pin, memory: &mut Memory) -> Step {
    memory.seen = None;
    memory.looks = 0;
    match record(c.s, c.lanes, None) {
        Some(effect) if abandon::is_abandoned(c, pin) => abandon::release(c, pin, effect, memory),
        Some(effect) => act(effect, memory.clone()),
        None => finish(c, memory),
    }
}

/// Nothing is left but companions, which their controller releases, and the finalizers.
fn finish(c: &Case<'_>, memory: &mut Memory) -> Step {
    if c.s.binding.is_some() {
        return Step::Wait(Requeue::AwaitChange);
    }
    if !memory.bound {
        return Step::ConfirmGone;
    }
    memory.lane = None;
    if c.s.companions_hold {
        return Step::Wait(Requeue::AwaitChange);
    }
    remove_finalizers(c.s, c.source, memory)
}

/// Tells the tenant, and nothing else.
pub(super) fn tell(
    c: &Case<'_>,
    said: &[crate::index::rows::status::OwnCondition],
    memory: &Memory,
    settings: &Settings,
) -> Step {
    status_only(c.s, c.source, said, memory, settings, c.now)
}
