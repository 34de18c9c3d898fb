//! Events about project objects.

use super::{delay, observe::Snapshot};
use crate::{
    effects,
    index::rows::{
        HubCopy, LEVEL_LIMIT, MoveCause, Source,
        status::{FEDERATED, OwnCondition},
    },
    queries::cells::Moving,
    single_member,
};
use fedgate_api::{Reason, conditions::types::PROGRESSING, keys, names::CityCode};
use fedgate_engine::{key::Plane, plan::Event, store::table::Row};
use serde_json::Value;

/// Reasons of conditions that are faults: their tenant gets an Event.
const FAULTS: [Reason; 19] = [
    Reason::NoCellForCity,
    Reason::CellLost,
    Reason::ApplyFailed,
    Reason::DeletionHeld,
    Reason::MemberApiMissing,
    Reason::PlacementImmutable,
    Reason::NoCellForLocation,
    Reason::InvalidCityCode,
    Reason::InvalidLocation,
    Reason::PlaceConflict,
    Reason::InvalidName,
    Reason::SpecTooLarge,
    Reason::HubRefused,
    Reason::HubNameTaken,
    Reason::HubNamespaceClaimed,
    Reason::TooManyCitySets,
    Reason::HubUnreachable,
    Reason::MissingRights,
    Reason::Retrying,
];

/// An Event about the project's object.
pub fn event(
    s: &Snapshot,
    source: &Row<Source>,
    warning: bool,
    reason: &str,
    action: &str,
    message: String,
) -> Event {
    let about = effects::about(&s.profile().resource, &s.namespace, &s.name, &source.uid);
    effects::event(
        Plane::Project(s.project.clone()),
        about,
        warning,
        [reason, action],
        message,
    )
}

/// The Events for conditions that are written: one for each new fault, and one if the deployment goes on after a delay.
pub fn of_conditions(s: &Snapshot, source: &Row<Source>, own: &[OwnCondition]) -> Vec<Event> {
    let had = |condition: &OwnCondition| source.digest.status.condition(condition.kind);
    let is_fault = |reason: &Reason| {
        let of_member = s.single_member.is_some() && single_member::conditions::FAULTS.contains(reason);
        FAULTS.contains(reason) || of_member
    };
    let faults = own.iter().filter(|condition| {
        is_fault(&condition.reason)
            && had(condition).is_none_or(|had| *had.reason != *condition.reason.as_str())
    });
    let faults = faults.map(|condition| {
        let message = condition.message.clone();
        event(s, source, true, condition.reason.as_str(), "Federating", message)
    });
    let goes_on = own.iter().find_map(|condition| {
        let had = had(condition)?;
        let goes_on = condition.kind == FEDERATED
            && delay::is_delay(&had.reason)
            && !delay::REASONS.contains(&condition.reason);
        let message = format!("it goes on; before: {}", had.reason);
        goes_on.then(|| event(s, source, false, "Resumed", "Federating", message))
    });
    faults.chain(goes_on).collect()
}

/// The Event for a rollout that failed or was undone. `status` is the status to be written; there is an Event only if its
/// condition `Progressing` gets another reason.
pub fn of_rollout(s: &Snapshot, source: &Row<Source>, status: &Value) -> Option<Event> {
    let mut conditions = status["conditions"].as_array()?.iter();
    let progressing = conditions.find(|condition| condition["type"] == PROGRESSING)?;
    let (reason, message) = (progressing["reason"].as_str()?, progressing["message"].as_str()?);
    let failed = [Reason::ProgressDeadlineExceeded, Reason::RolloutUndone];
    let failed = failed.into_iter().find(|failed| *failed.as_str() == *reason)?;
    let had = source.digest.status.condition(PROGRESSING);
    let is_new = had.is_none_or(|had| *had.reason != *reason);
    is_new.then(|| event(s, source, true, failed.as_str(), "RollingOut", message.to_owned()))
}

/// The Event for conditions that the project's API server has dropped.
pub fn pruned(s: &Snapshot, source: &Row<Source>) -> Event {
    let message = format!(
        "the schema of {} has no status.conditions: the gateway's are in annotation {} as long as it has none",
        s.profile().resource.kind,
        keys::CONDITIONS
    );
    event(s, source, true, "ConditionsPruned", "Federating", message)
}

/// The Event for a status that exceeds the size limit; the project keeps the last one.
pub fn too_large(s: &Snapshot) -> Option<Event> {
    let source = s.source.as_ref().filter(|source| !source.deleting)?;
    let copy = s.copy.as_ref()?;
    let (size, limit) = (copy.digest.status.size, s.profile().status.max_bytes);
    let ours = copy.digest.source_uid.as_ref() == Some(&source.uid);
    let found = if size == u32::MAX {
        format!("more than {LEVEL_LIMIT} levels of lists and maps, which are the most that are returned")
    } else {
        format!("{size} bytes, at most {limit} are returned")
    };
    let message = format!("the status that its cells report has {found}; the last one stays");
    let (reason, action) = ("QuarantinedTooLarge", "QuarantiningDeployment");
    (ours && size > limit).then(|| event(s, source, true, reason, action, message))
}

/// The Event for a city move.
pub fn moved(s: &Snapshot, source: &Row<Source>, copy: &Row<HubCopy>, to: &CityCode) -> Event {
    let from = copy.digest.city.as_ref().map_or("", CityCode::as_str);
    let message = format!("moved from city {from} to {to}");
    event(s, source, false, "CityMoved", "Moving", message)
}

/// The Event for a deployment that has moved to another cell of its city.
pub fn cell_moved(s: &Snapshot, source: &Row<Source>, moving: &Moving) -> Event {
    let Moving { from, to, cause, .. } = moving;
    let because = match cause {
        MoveCause::Draining => format!("because an operator drains cell {from}"),
        MoveCause::CellLost => format!("because cell {from} is lost"),
        MoveCause::Requested => "because an operator requested it".to_owned(),
    };
    let to = to.as_deref().unwrap_or_default();
    let message = format!("moved from cell {from} to cell {to} {because}");
    event(s, source, false, "CellMoved", "Moving", message)
}

/// The Event for a deployment that stays at its cell, because it did not become ready at another one.
pub fn move_stalled(s: &Snapshot, source: &Row<Source>, moving: &Moving) -> Event {
    let Moving { from, to, cause, .. } = moving;
    let because = match to {
        Some(to) => format!("it did not become ready at cell {to} in time"),
        None => "Karmada schedules it to no other cell".to_owned(),
    };
    let next = match cause {
        MoveCause::Draining | MoveCause::CellLost => "; the gateway retries the move",
        MoveCause::Requested => "",
    };
    let message = format!("stays at cell {from}: {because}{next}");
    event(s, source, true, Reason::MoveStalled.as_str(), "Moving", message)
}

/// The Event for an object whose project was restored to an older state; the older state is synced from now on.
pub fn rewound(s: &Snapshot, source: &Row<Source>, copy: &Row<HubCopy>) -> Event {
    let from = copy.digest.source_generation.unwrap_or_default();
    let to = source.digest.generation;
    let message = format!(
        "the hub had generation {from} of it and this project has generation {to}: the project was restored to an older state, which is carried"
    );
    event(s, source, false, "GenerationRewound", "Federating", message)
}
