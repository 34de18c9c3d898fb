//! The gateway's conditions on an object that lives at one member: `Federated`, `Scheduled`, `Applied`, `StatusCurrent`
//! (contract: clusters.md §4). Pure.

use super::observe::{CompanionState, HubUser, lane_of};
use crate::{
    federator::{
        conditions::{self as common, FEDERATED, clip},
        decide::lanes::Case,
        memory::{GRACE_PERIOD, Memory},
    },
    index::rows::{HubCopy, status::OwnCondition},
    lane::{CopyLane, Stage},
    member::Seen,
    pin::{Pin, PinnedCluster},
};
use fedgate_api::keys;
use fedgate_engine::{message::clean, plan::Requeue, store::table::Row};
use jiff::Timestamp;
use std::sync::Arc;

/// Condition type: a member is chosen.
pub const SCHEDULED: &str = "Scheduled";
/// Condition type: the member has the object.
pub const APPLIED: &str = "Applied";
/// Condition type: the status is the member's.
pub const STATUS_CURRENT: &str = "StatusCurrent";

/// Reasons that are faults: their tenant gets an Event.
pub const FAULTS: [&str; 32] = [
    "ApplyFailed",
    "CompanionRefused",
    "CompanionShared",
    "DeletionHeld",
    "EndedByMember",
    "HubIdentityRefused",
    "HubNameTaken",
    "HubNamespaceClaimed",
    "HubRefused",
    "HubUnreachable",
    "InvalidCityCode",
    "InvalidName",
    "MemberApiMissing",
    "MemberReplaced",
    "MissingRights",
    "NamespaceFull",
    "NoCellForCity",
    "NoMemberFits",
    "PlacementImmutable",
    "Retrying",
    "SourceNameReserved",
    "SourceNameTooLong",
    "SourceNotFound",
    "SourceTooLarge",
    "SourceUnauthorized",
    "SpecTooLarge",
    "StatusRefused",
    "StatusTooLarge",
    "Strayed",
    "TooManyCitySets",
    "TooManyMembers",
    "WorkStuck",
];

/// A condition as far as a decision sets it: reason and message of its fault, or what is true.
type Said = Result<(&'static str, String), (&'static str, String)>;

fn condition(c: &Case<'_>, kind: &'static str, said: Said) -> OwnCondition {
    let status = said.is_ok();
    let (reason, message) = said.unwrap_or_else(|fault| fault);
    OwnCondition {
        kind,
        status,
        reason,
        message: clip(&clean(&message)),
        observed: c.source.digest.generation,
    }
}

/// While an object is being deleted: the member, and what was seen of it.
pub(in crate::federator) fn waiting(c: &Case<'_>, pin: &Pin, seen: Option<&Seen>) -> OwnCondition {
    let since = c.source.digest.deleted.unwrap_or(c.now.wall);
    let member = &pin.member;
    if let Some(Seen::WorkStuck(work)) = seen {
        let message = format!("being deleted at {member} since {since}: {}", stuck(work));
        return condition(c, FEDERATED, Err(("WorkStuck", message)));
    }
    let found = match seen {
        Some(Seen::There { finalizers, .. }) if !finalizers.is_empty() => {
            format!("it is there, held by {}", finalizers.join(", "))
        }
        Some(Seen::There { .. }) => "it is there".to_owned(),
        Some(Seen::Unknown(why)) => format!("{member} does not say whether it is gone: {why}"),
        Some(Seen::Absent | Seen::WorksStopped | Seen::WorksGoOn | Seen::WorkStuck(_) | Seen::HubUser)
        | None => {
            format!("the hub has not withdrawn it from {member} yet")
        }
    };
    condition(
        c,
        FEDERATED,
        Err((
            "WaitingForMember",
            format!("being deleted at {member} since {since}: {found}"),
        )),
    )
}

/// While an object of a kind with guards is being deleted: its member does not have its last spec, as far as that was seen; the
/// member's words if it refuses that spec.
pub(in crate::federator) fn lags(
    c: &Case<'_>,
    pin: &Pin,
    seen: Option<&Seen>,
    refusal: Option<&str>,
) -> OwnCondition {
    let since = c.source.digest.deleted.unwrap_or(c.now.wall);
    let member = &pin.member;
    let (reason, found) = match (refusal, seen) {
        (Some(words), _) => {
            let abandon = format!(
                ", or annotate it with {}: {member}, which leaves it there",
                keys::ABANDON
            );
            let abandon = Some(abandon).filter(|_| c.s.profile().deletion.abandon);
            let found = format!(
                "a guard holds in it there, and {member} refuses the spec in which none does; edit the object until {member} \
                 takes it{}: {words}",
                abandon.unwrap_or_default()
            );
            ("ApplyFailed", found)
        }
        (None, Some(Seen::Unknown(why))) => {
            let found =
                format!("{member} does not say whether it has the last spec, in which no guard holds: {why}");
            ("WaitingForMember", found)
        }
        (None, _) => {
            let found =
                "it does not have the last spec yet, and a guard may hold in an earlier one".to_owned();
            ("WaitingForMember", found)
        }
    };
    let message = format!("being deleted at {member} since {since}: {found}");
    condition(c, FEDERATED, Err((reason, message)))
}

/// While an object is being deleted: its last spec is refused before it reaches the member, and a guard holds in the one before.
pub(in crate::federator) fn undeliverable(
    c: &Case<'_>,
    pin: &Pin,
    reason: &'static str,
    message: &str,
) -> OwnCondition {
    let since = c.source.digest.deleted.unwrap_or(c.now.wall);
    let message = format!(
        "being deleted at {} since {since}: a guard holds in the spec there, and the last one is not delivered: {message}",
        pin.member
    );
    condition(c, FEDERATED, Err((reason, message)))
}

/// While an object is being deleted: its Cluster is another one, so that nobody can say whether its object is gone.
pub(in crate::federator) fn replaced(c: &Case<'_>, pin: &Pin) -> Option<OwnCondition> {
    c.is_at(PinnedCluster::Replaced).then(|| {
        let since = c.source.digest.deleted.unwrap_or(c.now.wall);
        let message = format!("being deleted since {since}: {}", joined_anew(pin));
        condition(c, FEDERATED, Err(("MemberReplaced", message)))
    })
}

const UNREADABLE: &str =
    "the hub's record of its member cannot be read; an operator of the hub can correct it";

/// While an object is being deleted: nobody knows its member.
pub(in crate::federator) fn unreadable(c: &Case<'_>) -> OwnCondition {
    let since = c.source.digest.deleted.unwrap_or(c.now.wall);
    condition(
        c,
        FEDERATED,
        Err(("Strayed", format!("being deleted since {since}: {UNREADABLE}"))),
    )
}

fn joined_anew(pin: &Pin) -> String {
    format!(
        "Cluster {} has joined anew; annotation {}: {} on it says that it is the same member",
        pin.member,
        fedgate_api::keys::SAME_AS,
        pin.member_uid
    )
}

fn stuck(work: &str) -> String {
    format!(
        "Work {work} does not end, because it preserves an object that is not there; an operator of the hub takes its \
         finalizers off"
    )
}

/// All conditions, and the time of the next reconcile if they depend on time.
pub(in crate::federator) fn own(
    c: &Case<'_>,
    reported: bool,
    memory: &mut Memory,
) -> (Vec<OwnCondition>, Requeue) {
    let (scheduled, next) = scheduled(c, memory);
    let (applied, later) = applied(c, memory);
    let current = status_current(c, reported, memory);
    let federated = federated(c, memory, scheduled.as_ref(), applied.as_ref());
    let all = [
        (FEDERATED, federated),
        (SCHEDULED, scheduled),
        (APPLIED, applied),
        (STATUS_CURRENT, current),
    ];
    let own = &c.s.profile().status.own_conditions;
    let said = all.into_iter().filter_map(|(kind, said)| {
        let is_ours = own.iter().any(|own| own == kind);
        said.filter(|_| is_ours).map(|said| condition(c, kind, said))
    });
    (said.collect(), next.earlier(later))
}

fn federated(
    c: &Case<'_>,
    memory: &Memory,
    scheduled: Option<&Said>,
    applied: Option<&Said>,
) -> Option<Said> {
    if let Some(fault) = obstacle(c, memory) {
        return Some(Err(fault));
    }
    for said in [scheduled, applied] {
        if let Err(fault) = said? {
            return Some(Err(fault.clone()));
        }
    }
    let at = c.lanes.pinned().map_or("", |pin| &pin.member);
    Some(Ok(("Delivered", format!("delivered to {at}"))))
}

/// Reason and message of a fault that keeps the object from being carried, apart from its way to the member.
fn obstacle(c: &Case<'_>, memory: &Memory) -> Option<(&'static str, String)> {
    if let Some(fault) = common::invalid(c.s, c.source).filter(|fault| fault.reason != "NoCellForCity") {
        return Some((fault.reason, fault.message));
    }
    if let Some(fault) = common::refused_place(c.s) {
        return Some(fault);
    }
    if let HubUser::ServiceAccount(user) = &c.lanes.hub_user {
        let message = format!(
            "the hub knows the gateway as {user}, and no member can be asked in the name of a ServiceAccount whether a \
             deleted object is gone; give the gateway a client certificate of user fedgate-gateway without organization"
        );
        return Some(("HubIdentityRefused", message));
    }
    if let Some(kind) = &c.lanes.held_by {
        let message = format!(
            "another object of kind {kind} has the name {} on the hub; it is carried when that is gone",
            c.s.name
        );
        return Some(("HubNameTaken", message));
    }
    let fault = common::obstacle(c.s);
    let fault = fault.or_else(|| c.s.references.as_ref()?.error.clone());
    if fault.is_some() {
        return fault;
    }
    if let Some(shared) = c.lanes.companions.iter().find(|one| one.shared) {
        let message = format!(
            "{} goes with another object at its member; name one of its own, or wait until that object is gone",
            shared.token
        );
        return Some(("CompanionShared", message));
    }
    if let Some((message, _)) = memory.refusal(c.source, c.now) {
        return Some(("HubRefused", message.to_owned()));
    }
    let draining = c.lanes.pinned().is_some_and(|pin| pin.source_uid != c.source.uid);
    draining.then(|| {
        let message = "the hub still holds an earlier object of this name";
        ("EarlierLifeDraining", message.to_owned())
    })
}

fn scheduled(c: &Case<'_>, memory: &mut Memory) -> (Option<Said>, Requeue) {
    let idle = |said| (said, Requeue::AwaitChange);
    let invalid = common::invalid(c.s, c.source);
    if invalid
        .as_ref()
        .is_some_and(|fault| fault.reason == "NoCellForCity")
        || c.s.candidates.is_empty() && c.lanes.pinned().is_none()
    {
        let Some(city) = c.s.destination.city() else {
            return idle(None);
        };
        let label = &c.s.profile().placement.label;
        let message = format!("no cell serves city {city}: the hub has no Cluster with label {label}={city}");
        return idle(Some(Err(("NoCellForCity", message))));
    }
    if let Ok(Some(pin)) = &c.lanes.pin {
        if c.is_at(PinnedCluster::Gone) {
            let message = format!("it lives at {}, which has left the hub", pin.member);
            return idle(Some(Err(("Strayed", message))));
        }
        if memory
            .strayed
            .is_some_and(|since| c.now.since(since) >= GRACE_PERIOD)
        {
            return idle(Some(Err(("Strayed", strayed(c, pin)))));
        }
        return idle(Some(Ok(("Pinned", pin.member.to_string()))));
    }
    if c.lanes.pin.is_err() {
        return idle(Some(Err(("Strayed", UNREADABLE.to_owned()))));
    }
    if let Some(fault) = common::missing_api(c.s) {
        return idle(Some(Err(fault)));
    }
    if c.lanes.is_record_full {
        let message = "the hub's record of the members of this namespace's objects is full; delete some of them, or use \
                       another namespace";
        return idle(Some(Err(("NamespaceFull", message.to_owned()))));
    }
    let Some(copy) = &c.s.copy else {
        return idle(None);
    };
    match c.delivery(copy) {
        Some((delivery, _)) if delivery.unscheduled.is_some() => {
            let message = delivery
                .unscheduled
                .as_ref()
                .map(|(_, message)| message.to_string());
            idle(Some(Err(("NoMemberFits", message.unwrap_or_default()))))
        }
        Some((delivery, members)) if delivery.observed && members.len() > 1 => {
            let message = format!("the hub has chosen several members: {}", members.join(", "));
            idle(Some(Err(("TooManyMembers", message))))
        }
        _ => late(c, memory, "Scheduling", "the hub has not chosen a member yet"),
    }
}

fn strayed(c: &Case<'_>, pin: &Pin) -> String {
    let members = c.s.binding.as_ref().map(|row| row.digest.clusters.join(", "));
    match members.filter(|members| !members.is_empty()) {
        Some(members) => format!("it lives at {}, but the hub gives it to {members}", pin.member),
        None => format!("it lives at {}, but the hub gives it to no member", pin.member),
    }
}

/// A state that is said only after a while.
fn late(c: &Case<'_>, memory: &mut Memory, reason: &'static str, message: &str) -> (Option<Said>, Requeue) {
    let waited = c.now.since(*memory.undelivered.get_or_insert(c.now.instant));
    if waited >= GRACE_PERIOD {
        return (Some(Err((reason, message.to_owned()))), Requeue::AwaitChange);
    }
    (None, Requeue::After(GRACE_PERIOD.saturating_sub(waited)))
}

fn applied(c: &Case<'_>, memory: &mut Memory) -> (Option<Said>, Requeue) {
    let idle = |said| (said, Requeue::AwaitChange);
    let (Some(pin), Some(copy)) = (c.lanes.pinned(), &c.s.copy) else {
        return idle(None);
    };
    if c.is_at(PinnedCluster::Replaced) {
        let message = format!("{}; nothing is delivered until then", joined_anew(pin));
        return idle(Some(Err(("MemberReplaced", message))));
    }
    if let Some(since) = c.withheld_since(pin) {
        let message = format!(
            "{} deletes it there by itself: it was made again twice within an hour, and is not made any more since {since}; edit \
             its spec to have it delivered again, or delete it",
            pin.member
        );
        return idle(Some(Err(("EndedByMember", message))));
    }
    let stage = stage(c, copy, pin);
    if c.source.digest.suspended && stage.is_some_and(|stage| !stage.delivers()) {
        let message = if pin.delivered {
            "it is suspended; its object at the member stays as it is"
        } else {
            "it is suspended, and was not delivered before"
        };
        return idle(Some(Err(("DispatchSuspended", message.to_owned()))));
    }
    if let Some(fault) = companions(&c.lanes.companions).filter(|_| stage == Some(Stage::Drop)) {
        return idle(Some(Err(fault)));
    }
    if let Some(words) = refusal(c, copy, pin, Stage::delivers) {
        return idle(Some(Err(("ApplyFailed", format!("{}: {words}", pin.member)))));
    }
    let item = c
        .delivery(copy)
        .and_then(|(delivery, _)| delivery.at(&pin.member));
    match item {
        Some(item) if item.applied && stage.is_some_and(Stage::delivers) => {
            memory.undelivered = None;
            idle(Some(Ok(("Applied", pin.member.to_string()))))
        }
        _ => match &memory.stuck {
            Some(work) => idle(Some(Err((
                "WorkStuck",
                format!("{}: {}", pin.member, stuck(work)),
            )))),
            None => late(c, memory, "Applying", "the member has not applied it yet"),
        },
    }
}

/// The member's words for why it does not take the object, in one of some stages.
fn refusal<'a>(
    c: &'a Case<'_>,
    copy: &Row<HubCopy>,
    pin: &Arc<Pin>,
    stages: impl FnOnce(Stage) -> bool,
) -> Option<&'a str> {
    let (delivery, _) = c.delivery(copy)?;
    let item = delivery.at(&pin.member)?;
    let is_refused = stages(stage(c, copy, pin)?) && !item.applied && !item.message.is_empty();
    is_refused.then_some(&*item.message)
}

fn stage(c: &Case<'_>, copy: &Row<HubCopy>, pin: &Arc<Pin>) -> Option<Stage> {
    match lane_of(c.s.profile(), copy) {
        CopyLane::At(stage, member) if *member == *pin.member => Some(stage),
        CopyLane::At(..) | CopyLane::Choose | CopyLane::Other => None,
    }
}

/// The first companion that the member refuses, or those that it has not applied yet.
fn companions(all: &[CompanionState]) -> Option<(&'static str, String)> {
    let refused = all
        .iter()
        .find(|one| one.applied == Some(false) && !one.message.is_empty());
    if let Some(one) = refused {
        return Some(("CompanionRefused", format!("{}: {}", one.token, one.message)));
    }
    let pending: Vec<&str> = all
        .iter()
        .filter(|one| one.applied != Some(true))
        .map(|one| one.token.as_str())
        .collect();
    let message = || format!("the member has not applied yet: {}", pending.join(", "));
    (!pending.is_empty()).then(|| ("CompanionsPending", message()))
}

fn status_current(c: &Case<'_>, reported: bool, memory: &Memory) -> Option<Said> {
    let pin = c.lanes.pinned()?;
    if let Some(member) = c.lanes.member.as_ref().filter(|member| !member.is_ready) {
        let since = Timestamp::from_second(member.since).unwrap_or_default();
        let message = format!(
            "{} is not ready since {since}; the status is the last one that it reported",
            pin.member
        );
        return Some(Err(("MemberNotReady", message)));
    }
    let copy = c.s.copy.as_ref()?;
    if copy.digest.status.size > c.s.profile().status.max_bytes {
        let (size, most) = (copy.digest.status.size, c.s.profile().status.max_bytes);
        let message =
            format!("the member's status has {size} bytes, at most {most} are returned; the last one stays");
        return Some(Err(("StatusTooLarge", message)));
    }
    if let Some((words, _)) = memory.status_refusal(c.source, copy, c.now) {
        let message = format!("the project refuses the member's status, and the last one stays: {words}");
        return Some(Err(("StatusRefused", message)));
    }
    // An edit that was refused and is held now is not applied, either.
    let may_report = |stage: Stage| stage.delivers() || stage == Stage::Hold;
    if reported && refusal(c, copy, pin, may_report).is_some() {
        let message = format!(
            "{} refuses the object as it is; until it takes it no status comes, and the last one stays",
            pin.member
        );
        return Some(Err(("NotReported", message)));
    }
    if !reported {
        return Some(Err((
            "NotReported",
            format!("{} has not reported a status yet", pin.member),
        )));
    }
    Some(Ok(("Current", pin.member.to_string())))
}
