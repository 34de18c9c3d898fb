//! The annotation that ends the wait for a member (contract: clusters.md §3.4): only the name of the object's own member does,
//! and the tenant gets an Event either way. Pure.

use super::Case;
use crate::{
    federator::{
        decide::{Act, Step},
        events::about,
        memory::Memory,
    },
    pin::Pin,
    reason::WriteReason,
};
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Event, Plan},
};
use std::sync::Arc;

/// The member that the annotation names.
fn named<'a>(c: &'a Case<'_>) -> Option<&'a Arc<str>> {
    c.source.digest.ending.as_ref()?.abandons.as_ref()
}

/// True if the annotation names the object's member.
pub(super) fn is_abandoned(c: &Case<'_>, pin: &Pin) -> bool {
    named(c) == Some(&pin.member)
}

/// Reports, once, that the annotation names another member.
pub(super) fn refuse(c: &Case<'_>, pin: &Pin, memory: &mut Memory) -> Option<Step> {
    let wrong = named(c).filter(|member| **member != pin.member);
    if memory.abandon_refused.as_ref() == wrong {
        return None;
    }
    memory.abandon_refused = None;
    let wrong = wrong?;
    let message = format!(
        "{} names {wrong}, but the object lives at {}: nothing is abandoned; correct the annotation",
        fedgate_api::keys::ABANDON,
        pin.member
    );
    let told = Memory {
        abandon_refused: Some(wrong.clone()),
        ..memory.clone()
    };
    let plan = Plan::with_event(event(c, "AbandonRefused", message));
    Some(Step::Act(Box::new(Act::new(plan, told))))
}

/// The removal of the pin of an abandoned object, with what is said of it.
pub(super) fn release(c: &Case<'_>, pin: &Pin, removal: Effect, memory: &Memory) -> Step {
    let message = format!(
        "its deletion waits for {} no longer, as {} says; what is left there is to be removed by hand",
        pin.member,
        fedgate_api::keys::ABANDON
    );
    let mut plan = Plan::one(Effect {
        reason: WriteReason::AbandonMember.into(),
        ..removal
    });
    plan.notes.push(event(c, "MemberAbandoned", message));
    Step::Act(Box::new(Act::new(plan, memory.clone())))
}

fn event(c: &Case<'_>, reason: &str, message: String) -> Event {
    Event {
        plane: Plane::Project(c.s.project.clone()),
        about: about(c.s, c.source),
        warning: true,
        reason: reason.to_owned(),
        action: "Deleting".to_owned(),
        message,
    }
}
