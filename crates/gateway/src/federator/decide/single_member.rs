//! Carries out the steps of objects that live at one member: `crate::single_member` decides what becomes of copy and pin, and the
//! federator knows how a copy is written.

use super::{
    Act, CopyStep, Pass, WAIT, act,
    copy::{create, delete_copy, differs, reroute, update},
    deletion::{self, remove_finalizers},
    status::report_own,
};
use crate::{
    federator::{conditions, events::event, memory::Memory},
    index::{rows::status::OwnCondition, single_member::PinnedCluster},
    rate_limit::Permit,
    reason::WriteReason,
    single_member::{
        self, SingleMember,
        conditions::Faults,
        decide::{Case, CopyWrite, MemberStep, Spec},
    },
};
use fedgate_api::{Reason, keys};
use fedgate_engine::plan::{Plan, Requeue};
use serde_json::json;

/// The spec of the object, for decisions on its way to the member.
fn spec(p: &Pass<'_>, memory: &Memory) -> Spec {
    let Pass { s, source, now, .. } = *p;
    let retains_last_spec = s.retains_last_spec(source);
    let has_changed = s
        .copy
        .as_ref()
        .is_some_and(|copy| differs(s, source, copy, memory));
    let references = s.companions.references.as_ref();
    let fault = || conditions::invalid(s, source).map(|fault| (fault.reason, fault.message));
    let is_refused = retains_last_spec || s.destination.to.is_err();
    Spec {
        differs: has_changed && !retains_last_spec && !memory.refuses_spec(source, now),
        fits: source.digest.fits(s.largest_spec),
        has_sources: references.is_none_or(|found| !found.resolving && found.expected.is_some()),
        fault: conditions::refused_place(s).or_else(fault).filter(|_| is_refused),
        is_binding_settled: deletion::is_settled(s, memory),
        companions_hold: s.companions.hold,
    }
}

fn case<'a>(p: &Pass<'a>, at: &'a SingleMember, spec: &'a Spec) -> Case<'a> {
    Case {
        kinds: &p.s.kinds,
        kind: p.s.kind,
        hub: p.s.hub.as_ref().map_or("", |hub| hub.as_str()),
        name: &p.s.name,
        at,
        source: p.source,
        copy: p.s.copy.as_ref(),
        binding: p.s.binding.as_ref(),
        candidates: &p.s.city_members.candidates,
        city: p.s.destination.city(),
        spec,
        complete: p.s.complete,
        now: p.now,
    }
}

/// Brings the copy to its member, and updates it there.
pub(super) fn sync(p: &Pass<'_>, at: &SingleMember, memory: &mut Memory) -> CopyStep {
    let refused = memory.refusal(p.source, p.now).map(|(_, left)| left);
    // A copy that exists goes through its stages while the hub refuses a new spec.
    let goes_on = p.s.copy.is_some() && memory.refuses_spec(p.source, p.now);
    if let Some(left) = refused.filter(|_| !goes_on) {
        return CopyStep::Wait(Requeue::After(left));
    }
    let is_taken = p.s.copy.as_ref().is_some_and(|copy| conditions::taken(p.s, copy));
    let step = if is_taken {
        WAIT
    } else {
        let spec = spec(p, memory);
        let next = single_member::decide::advance(&case(p, at, &spec), &mut memory.member);
        carry_out(p, next, memory)
    };
    match (refused, step) {
        (Some(left), step) => step.by(Requeue::After(left)),
        (None, CopyStep::Wait(next)) => {
            memory.refused = None;
            CopyStep::Wait(next)
        }
        (None, step) => step,
    }
}

/// Deletes the copy, waits until the member has nothing of it, and removes pin and finalizers.
pub(super) fn delete(p: &Pass<'_>, at: &SingleMember, memory: &mut Memory) -> CopyStep {
    if let Some((message, left)) = memory.refusal(p.source, p.now) {
        let condition = conditions::hub_refused(p.source, message);
        return report_own(p, &condition, memory).by(Requeue::After(left));
    }
    let spec = spec(p, memory);
    let next = single_member::decide::end(&case(p, at, &spec), &mut memory.member);
    carry_out(p, next, memory)
}

fn carry_out(p: &Pass<'_>, step: MemberStep, memory: &Memory) -> CopyStep {
    match (step, &p.s.copy) {
        (MemberStep::Wait(next), _) => CopyStep::Wait(next),
        (MemberStep::Probe(probe), _) => CopyStep::Probe(probe),
        (MemberStep::ConfirmGone, _) => CopyStep::ConfirmGone,
        (MemberStep::Apply(effect), _) => act(*effect, memory.clone()),
        (MemberStep::Abandon(mut removal, message), _) => {
            removal.reason = WriteReason::AbandonMember.into();
            let mut plan = Plan::one(*removal);
            plan.notes
                .push(event(p.s, p.source, true, "MemberAbandoned", "Deleting", message));
            CopyStep::Act(Box::new(Act::new(plan, memory.clone())))
        }
        (MemberStep::RefuseAbandonment(message), _) => {
            let plan = Plan::with_event(event(p.s, p.source, true, "AbandonRefused", "Deleting", message));
            CopyStep::Act(Box::new(Act::new(plan, memory.clone())))
        }
        (MemberStep::Report(condition, next), _) => report_own(p, &condition, memory).by(next),
        (MemberStep::Finish, _) => remove_finalizers(p, memory),
        (MemberStep::Delete(reason), Some(copy)) => {
            let step = act(delete_copy(p.s, copy, reason), memory.clone());
            if reason == WriteReason::ReplaceCopy {
                step.after_get()
            } else {
                step
            }
        }
        (
            MemberStep::Write {
                write,
                policy,
                is_takeover,
            },
            copy,
        ) => {
            let name = policy.name(&p.s.kinds);
            let mut step = match (write, copy) {
                (CopyWrite::Update, Some(copy)) => update(p, copy, Some(&name), memory),
                (CopyWrite::ChangePolicy { with_spec }, Some(copy)) => {
                    let p = &Pass {
                        permit: permit_to_move(p),
                        ..*p
                    };
                    let labels = vec![(keys::LANE, json!(name))];
                    reroute(p, copy, labels, with_spec, WriteReason::ChangeLane, memory)
                }
                (CopyWrite::Create, _) => create(p, Some(&name), memory),
                (_, None) => WAIT,
            };
            if let CopyStep::Act(act) = &mut step {
                act.applied.since.undelivered = None;
                act.applied.member.wrote(write, is_takeover, p.now);
            }
            step
        }
        (MemberStep::Delete(_), None) => WAIT,
    }
}

/// The permit for another policy. Writes of other objects do not delay a copy that is only withdrawn from another Cluster.
fn permit_to_move(p: &Pass<'_>) -> Permit {
    let cluster = p.s.single_member.as_ref().and_then(|at| at.cluster);
    match cluster {
        Some(PinnedCluster::Gone | PinnedCluster::Replaced) => Permit::Granted,
        Some(PinnedCluster::Same | PinnedCluster::Unknown) | None => p.permit,
    }
}

/// The gateway's own conditions, and the time of the next reconcile if they depend on time.
pub(super) fn own(
    p: &Pass<'_>,
    at: &SingleMember,
    is_reported: bool,
    memory: &mut Memory,
) -> (Vec<OwnCondition>, Requeue) {
    let Pass { s, source, now, .. } = *p;
    let invalid = conditions::invalid(s, source).map(|fault| (fault.reason, fault.message));
    let has_no_cell = invalid
        .as_ref()
        .is_some_and(|(reason, _)| *reason == Reason::NoCellForCity);
    let copy = s.copy.as_ref();
    let references = s.companions.references.as_ref();
    let faults = Faults {
        of_object: invalid
            .filter(|_| !has_no_cell)
            .or_else(|| conditions::refused_place(s)),
        has_no_cell,
        of_hub: conditions::obstacle(s).or_else(|| references?.error.clone()),
        refused_by_hub: memory.refusal(source, now).map(|(words, _)| words.to_owned()),
        missing_api: conditions::missing_api(s),
        refused_status: copy
            .and_then(|copy| memory.status_refusal(source, copy, now))
            .map(|(words, _)| words.to_owned()),
        is_reported,
    };
    let spec = spec(p, memory);
    single_member::conditions::own(&case(p, at, &spec), &faults, &mut memory.member)
}
