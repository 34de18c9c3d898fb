//! The gateway's conditions on an object that lives at one member: `Federated`, `Scheduled`, `Applied` and `StatusCurrent`
//! (contract: clusters.md §4). Pure.

use super::{
    CompanionState, Fault, HubUser, Observation,
    decide::{Case, GRACE_PERIOD, Memory},
};
use crate::index::{
    rows::{
        HubCopy, Returning, Source,
        status::{FEDERATED, OwnCondition},
    },
    single_member::{Pin, PinnedCluster, Stage},
};
use fedgate_api::{Reason, keys};
use fedgate_engine::{message::clean, plan::Requeue, store::table::Row};
use fedgate_kinds::{FederatedKind, NamePattern};
use jiff::Timestamp;

/// Condition type: a member is chosen.
const SCHEDULED: &str = "Scheduled";
/// Condition type: the member has the object.
const APPLIED: &str = "Applied";
/// Condition type: the status is the member's.
const STATUS_CURRENT: &str = "StatusCurrent";

const UNREADABLE: &str =
    "the hub's record of its member cannot be read; an operator of the hub can correct it";

/// Reasons that are faults only for these objects, beside those of all objects: their tenant gets an Event.
pub const FAULTS: [Reason; 18] = [
    Reason::CompanionRefused,
    Reason::CompanionShared,
    Reason::EndedByMember,
    Reason::HubIdentityRefused,
    Reason::MemberReplaced,
    Reason::NamespaceFull,
    Reason::NoMemberFits,
    Reason::ReturnRejected,
    Reason::SourceNameReserved,
    Reason::SourceNameTooLong,
    Reason::SourceNotFound,
    Reason::SourceTooLarge,
    Reason::SourceUnauthorized,
    Reason::StatusRefused,
    Reason::StatusTooLarge,
    Reason::Strayed,
    Reason::TooManyMembers,
    Reason::WorkStuck,
];

/// Facts that the federator knows of an object, apart from its way to the member.
#[derive(Debug, Default)]
pub struct Faults {
    /// A fault of the object itself, but for a city without a cell.
    pub of_object: Option<Fault>,
    /// True if no cell serves its city.
    pub has_no_cell: bool,
    /// The obstacle that keeps the namespace or the companions from the hub.
    pub of_hub: Option<Fault>,
    /// The hub's message if it refuses the object.
    pub refused_by_hub: Option<String>,
    /// No member of its city serves its kind.
    pub missing_api: Option<Fault>,
    /// The message of the project's API server if it refuses the status.
    pub refused_status: Option<String>,
    /// True if a status is returned.
    pub is_reported: bool,
}

/// A condition as far as a decision sets it: reason and message of a fault, or of what is true.
type Said = Result<Fault, Fault>;

fn said(c: &Case<'_>, kind: &'static str, said: Said) -> OwnCondition {
    let status = said.is_ok();
    let (reason, message) = said.unwrap_or_else(|fault| fault);
    OwnCondition::new(kind, status, reason, &clean(&message), c.source.digest.generation)
}

fn fault(reason: Reason, message: impl Into<String>) -> Said {
    Err((reason, message.into()))
}

/// `Federated` while the object is being deleted, at the pin's member if there is one.
fn ending(c: &Case<'_>, pin: Option<&Pin>, reason: Reason, found: &str) -> OwnCondition {
    let since = c.source.digest.deleted.unwrap_or(c.now.wall);
    let at = pin.map_or_else(String::new, |pin| format!(" at {}", pin.member));
    let message = format!("being deleted{at} since {since}: {found}");
    said(c, FEDERATED, fault(reason, message))
}

/// While the object is being deleted: the member, and what was observed of it.
pub(super) fn waiting(c: &Case<'_>, pin: &Pin, seen: Option<&Observation>) -> OwnCondition {
    let member = &pin.member;
    let found = match seen {
        Some(Observation::WorkStuck(work)) => return ending(c, Some(pin), Reason::WorkStuck, &stuck(work)),
        Some(Observation::There { finalizers, .. }) if !finalizers.is_empty() => {
            format!("it is there, held by {}", finalizers.join(", "))
        }
        Some(Observation::There { .. }) => "it is there".to_owned(),
        Some(Observation::Unknown(why)) => format!("{member} does not say whether it is gone: {why}"),
        _ => format!("the hub has not withdrawn it from {member} yet"),
    };
    ending(c, Some(pin), Reason::WaitingForMember, &found)
}

/// While an object of a kind with guards is being deleted: the member does not have its last spec, as far as was observed; with
/// the member's message if it refuses that spec.
pub(super) fn lags(
    c: &Case<'_>,
    pin: &Pin,
    seen: Option<&Observation>,
    refusal: Option<&str>,
) -> OwnCondition {
    let member = &pin.member;
    let (reason, found) = match (refusal, seen) {
        (Some(words), _) => {
            let abandon = format!(
                ", or annotate it with {}: {member}, which leaves it there",
                keys::ABANDON
            );
            let abandon = Some(abandon).filter(|_| c.profile().deletion.abandon);
            let found = format!(
                "a guard holds in it there, and {member} refuses the spec in which none does; edit the object until {member} \
                 takes it{}: {words}",
                abandon.unwrap_or_default()
            );
            (Reason::ApplyFailed, found)
        }
        (None, Some(Observation::Unknown(why))) => (
            Reason::WaitingForMember,
            format!("{member} does not say whether it has the last spec, in which no guard holds: {why}"),
        ),
        (None, _) => (
            Reason::WaitingForMember,
            "it does not have the last spec yet, and a guard may hold in an earlier one".to_owned(),
        ),
    };
    ending(c, Some(pin), reason, &found)
}

/// While the object is being deleted: its last spec does not go to the hub, and a guard holds in the one before.
pub(super) fn undeliverable(c: &Case<'_>, pin: &Pin, (reason, message): &Fault) -> OwnCondition {
    let found = format!("a guard holds in the spec there, and the last one is not delivered: {message}");
    ending(c, Some(pin), *reason, &found)
}

/// While the object is being deleted: its Cluster is another one, so that nobody can say whether its object is gone.
pub(super) fn replaced(c: &Case<'_>, pin: &Pin) -> OwnCondition {
    ending(c, None, Reason::MemberReplaced, &joined_anew(pin))
}

/// While the object is being deleted: nobody knows its member.
pub(super) fn unreadable(c: &Case<'_>) -> OwnCondition {
    ending(c, None, Reason::Strayed, UNREADABLE)
}

fn joined_anew(pin: &Pin) -> String {
    format!(
        "Cluster {} has joined anew; annotation {}: {} on it says that it is the same member",
        pin.member,
        keys::SAME_AS,
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
pub fn own(c: &Case<'_>, faults: &Faults, memory: &mut Memory) -> (Vec<OwnCondition>, Requeue) {
    let (all, next) = match of_end(c) {
        Some(all) => (all, Requeue::AwaitChange),
        None => of_delivery(c, faults, memory),
    };
    let own = &c.profile().status.own_conditions;
    let ours = all.into_iter().filter_map(|(kind, state)| {
        let is_ours = own.iter().any(|own| own == kind);
        state.filter(|_| is_ours).map(|state| said(c, kind, state))
    });
    (ours.collect(), next)
}

/// Types and states of the conditions; `None` for a condition that the object does not have.
type ConditionStates = [(&'static str, Option<Said>); 4];

/// The conditions of an object that its member has ended.
fn of_end(c: &Case<'_>) -> Option<ConditionStates> {
    let pin = c.at.pinned().filter(|pin| pin.source_uid == c.source.uid)?;
    let ended = pin.ended.as_ref()?;
    let member = &pin.member;
    let left = if ended.gone {
        format!("nothing of the object is left at {member}")
    } else {
        format!("{member} is still deleting it")
    };
    let message = format!(
        "{member} deleted the object at {}; {left}; fedgate does not create the object again: to have one, delete this object \
         and create a new one",
        ended.at
    );
    let said = || Some(fault(Reason::EndedByMember, message.clone()));
    Some([
        (FEDERATED, said()),
        (SCHEDULED, Some(Ok((Reason::Pinned, pin.member.to_string())))),
        (APPLIED, said()),
        (STATUS_CURRENT, said()),
    ])
}

/// The conditions of an object that is on its way to its member, or there.
fn of_delivery(c: &Case<'_>, faults: &Faults, memory: &mut Memory) -> (ConditionStates, Requeue) {
    let (scheduled, next) = scheduled(c, faults, memory);
    let (applied, later) = applied(c, memory);
    let all = [
        (
            FEDERATED,
            federated(c, faults, scheduled.as_ref(), applied.as_ref()),
        ),
        (SCHEDULED, scheduled),
        (APPLIED, applied),
        (STATUS_CURRENT, status_current(c, faults)),
    ];
    (all, next.earlier(later))
}

/// `StatusCurrent` of an object that is being deleted, because the status no longer returns; `None` if the object has no such
/// condition.
pub fn status_ending(source: &Row<Source>, kind: &FederatedKind) -> Option<OwnCondition> {
    let mut own = kind.status.own_conditions.iter();
    own.find(|own| *own == STATUS_CURRENT)?;
    source.digest.status.condition(STATUS_CURRENT)?;
    let message = "the object is being deleted; the status is the last one that returned";
    let generation = source.digest.generation;
    Some(OwnCondition::new(
        STATUS_CURRENT,
        false,
        Reason::Deleting,
        message,
        generation,
    ))
}

fn federated(
    c: &Case<'_>,
    faults: &Faults,
    scheduled: Option<&Said>,
    applied: Option<&Said>,
) -> Option<Said> {
    if let Some(fault) = obstacle(c, faults) {
        return Some(Err(fault));
    }
    for said in [scheduled, applied] {
        if let Err(fault) = said? {
            return Some(Err(fault.clone()));
        }
    }
    let at = c.at.pinned().map_or("", |pin| &pin.member);
    Some(Ok((Reason::Delivered, format!("delivered to {at}"))))
}

/// The fault that keeps the object from being carried, apart from its way to the member.
fn obstacle(c: &Case<'_>, faults: &Faults) -> Option<Fault> {
    if faults.of_object.is_some() {
        return faults.of_object.clone();
    }
    if let HubUser::ServiceAccount(user) = &c.at.hub_user {
        let message = format!(
            "the hub knows the gateway as {user}, and no member can be asked in the name of a ServiceAccount whether a \
             deleted object is gone; give the gateway a client certificate of user fedgate-gateway without organization"
        );
        return Some((Reason::HubIdentityRefused, message));
    }
    if let Some(kind) = &c.at.held_by {
        let message = format!(
            "another object of kind {kind} has the name {} on the hub; it is carried when that is gone",
            c.name
        );
        return Some((Reason::HubNameTaken, message));
    }
    if faults.of_hub.is_some() {
        return faults.of_hub.clone();
    }
    if let Some(shared) = c.at.companions.iter().find(|one| one.shared) {
        let message = format!(
            "{} goes with another object at its member; name one of its own, or wait until that object is gone",
            shared.token
        );
        return Some((Reason::CompanionShared, message));
    }
    if let Some(message) = &faults.refused_by_hub {
        return Some((Reason::HubRefused, message.clone()));
    }
    let is_draining = c.at.pinned().is_some_and(|pin| pin.source_uid != c.source.uid);
    is_draining.then(|| {
        let message = "the hub still holds an earlier object of this name";
        (Reason::EarlierLifeDraining, message.to_owned())
    })
}

fn scheduled(c: &Case<'_>, faults: &Faults, memory: &mut Memory) -> (Option<Said>, Requeue) {
    let state = match (&c.at.pin, c.copy) {
        (pin, _) if faults.has_no_cell || c.candidates.is_empty() && !matches!(pin, Ok(Some(_))) => {
            c.city.map(|city| {
                let label = &c.profile().placement.label;
                let message =
                    format!("no cell serves city {city}: the hub has no Cluster with label {label}={city}");
                fault(Reason::NoCellForCity, message)
            })
        }
        (Ok(Some(pin)), _) => {
            let is_late = |since| c.now.since(since) >= GRACE_PERIOD;
            Some(if c.is_at(PinnedCluster::Gone) {
                fault(
                    Reason::Strayed,
                    format!("it lives at {}, which has left the hub", pin.member),
                )
            } else if memory.strayed.is_some_and(is_late) {
                fault(Reason::Strayed, strayed(c, pin))
            } else {
                Ok((Reason::Pinned, pin.member.to_string()))
            })
        }
        (Err(()), _) => Some(fault(Reason::Strayed, UNREADABLE)),
        (Ok(None), _) if faults.missing_api.is_some() => faults.missing_api.clone().map(Err),
        (Ok(None), _) if c.at.record.is_full => Some(fault(
            Reason::NamespaceFull,
            "the hub's record of the members of this namespace's objects is full; delete some of them, or use \
             another namespace",
        )),
        (Ok(None), None) => None,
        (Ok(None), Some(copy)) => match c.delivery(copy) {
            Some((delivery, _)) if delivery.unscheduled.is_some() => {
                let words = delivery.unscheduled.as_ref().map(|(_, words)| words.to_string());
                Some(fault(Reason::NoMemberFits, words.unwrap_or_default()))
            }
            Some((delivery, members)) if delivery.observed && members.len() > 1 => Some(fault(
                Reason::TooManyMembers,
                format!("the hub has chosen several members: {}", members.join(", ")),
            )),
            _ => {
                return late(
                    c,
                    memory,
                    Reason::Scheduling,
                    "the hub has not chosen a member yet",
                );
            }
        },
    };
    (state, Requeue::AwaitChange)
}

fn strayed(c: &Case<'_>, pin: &Pin) -> String {
    let members = c.binding.map(|row| row.digest.clusters.join(", "));
    let members = members.filter(|members| !members.is_empty());
    let members = members.as_deref().unwrap_or("no member");
    format!("it lives at {}, but the hub gives it to {members}", pin.member)
}

/// A state that is reported only after a while.
fn late(c: &Case<'_>, memory: &mut Memory, reason: Reason, message: &str) -> (Option<Said>, Requeue) {
    let waited = c.now.since(*memory.undelivered.get_or_insert(c.now.instant));
    if waited >= GRACE_PERIOD {
        return (Some(fault(reason, message)), Requeue::AwaitChange);
    }
    (None, Requeue::After(GRACE_PERIOD.saturating_sub(waited)))
}

fn applied(c: &Case<'_>, memory: &mut Memory) -> (Option<Said>, Requeue) {
    let (Some(pin), Some(copy)) = (c.at.pinned(), c.copy) else {
        return (None, Requeue::AwaitChange);
    };
    let stage = c.stage(copy, pin);
    let is_delivered = stage.is_some_and(Stage::delivers);
    let said = if c.is_at(PinnedCluster::Replaced) {
        fault(
            Reason::MemberReplaced,
            format!("{}; nothing is delivered until then", joined_anew(pin)),
        )
    } else if let Some(since) = c.withheld_since(pin) {
        let message = format!(
            "{} deletes it there by itself: fedgate created it again twice within an hour, and has created it no more since {since}; \
             edit its spec to have it delivered again, or delete it",
            pin.member
        );
        fault(Reason::EndedByMember, message)
    } else if c.source.digest.suspended && stage.is_some() && !is_delivered {
        let message = if pin.delivered {
            "it is suspended; its object at the member stays as it is"
        } else {
            "it is suspended, and was not delivered before"
        };
        fault(Reason::DispatchSuspended, message)
    } else if let Some(fault) = companions(&c.at.companions).filter(|_| stage == Some(Stage::Withdraw)) {
        Err(fault)
    } else if let Some(words) = refusal(c, copy, pin, Stage::delivers) {
        fault(Reason::ApplyFailed, format!("{}: {words}", pin.member))
    } else if is_delivered && c.item(copy, pin).is_some_and(|item| item.applied) {
        memory.undelivered = None;
        Ok((Reason::Applied, pin.member.to_string()))
    } else if let Some(work) = &memory.stuck_work {
        fault(Reason::WorkStuck, format!("{}: {}", pin.member, stuck(work)))
    } else {
        return late(c, memory, Reason::Applying, "the member has not applied it yet");
    };
    (Some(said), Requeue::AwaitChange)
}

/// The member's message if it refuses the object, in one of some stages.
fn refusal<'a>(
    c: &Case<'a>,
    copy: &Row<HubCopy>,
    pin: &Pin,
    stages: impl FnOnce(Stage) -> bool,
) -> Option<&'a str> {
    let item = c.item(copy, pin)?;
    let is_refused = stages(c.stage(copy, pin)?) && !item.applied && !item.message.is_empty();
    is_refused.then_some(&*item.message)
}

/// The first companion that the member refuses, or those that it has not applied yet.
fn companions(all: &[CompanionState]) -> Option<Fault> {
    let mut refused = all
        .iter()
        .filter(|one| one.applied == Some(false) && !one.message.is_empty());
    if let Some(one) = refused.next() {
        return Some((
            Reason::CompanionRefused,
            format!("{}: {}", one.token, one.message),
        ));
    }
    let pending = all.iter().filter(|one| one.applied != Some(true));
    let pending: Vec<&str> = pending.map(|one| one.token.as_str()).collect();
    let message = || format!("the member has not applied yet: {}", pending.join(", "));
    (!pending.is_empty()).then(|| (Reason::CompanionsPending, message()))
}

fn status_current(c: &Case<'_>, faults: &Faults) -> Option<Said> {
    let pin = c.at.pinned()?;
    if let Some(member) = c.at.member.as_ref().filter(|member| !member.is_ready) {
        let since = Timestamp::from_second(member.since).unwrap_or_default();
        let message = format!(
            "{} is not ready since {since}; the status is the last one that it reported",
            pin.member
        );
        return Some(fault(Reason::MemberNotReady, message));
    }
    let copy = c.copy?;
    let (size, most) = (copy.digest.status.size, c.profile().status.max_bytes);
    // An edit that was refused and is held now is not applied, either.
    let may_report = |stage: Stage| stage.delivers() || stage == Stage::Suspend;
    Some(if size > most {
        let message =
            format!("the member's status has {size} bytes, at most {most} are returned; the last one stays");
        fault(Reason::StatusTooLarge, message)
    } else if let Some(words) = &faults.refused_status {
        let message = format!("the project refuses the member's status, and the last one stays: {words}");
        fault(Reason::StatusRefused, message)
    } else if !faults.is_reported {
        fault(
            Reason::NotReported,
            format!("{} has not reported a status yet", pin.member),
        )
    } else if refusal(c, copy, pin, may_report).is_some() {
        let message = format!(
            "{} refuses the object as it is; until it takes it no status comes, and the last one stays",
            pin.member
        );
        fault(Reason::NotReported, message)
    } else if let Some(name) = copy.digest.returning.as_deref().and_then(Returning::refused) {
        let rules = c.profile().returns.iter();
        let patterns: Vec<&str> = rules
            .flat_map(|rule| rule.allow.iter().map(NamePattern::text))
            .collect();
        let message = format!(
            "the status names Secret {name}, which does not return: a Secret returns if its name fits {}",
            patterns.join(" or ")
        );
        fault(Reason::ReturnRejected, message)
    } else {
        Ok((Reason::Current, pin.member.to_string()))
    })
}
