//! Events about project objects.

use super::{conditions::FEDERATED, delay, lanes, observe::Snapshot};
use crate::index::rows::{HubCopy, LEVEL_LIMIT, Source, status::OwnCondition};
use fedgate_api::{keys, names::CityCode};
use fedgate_engine::{
    key::Plane,
    plan::{Event, ObjectRef},
    store::table::Row,
};

/// The Event for a condition that is a fault.
pub fn note(s: &Snapshot, source: &Row<Source>, condition: &OwnCondition) -> Option<Event> {
    const FAULTS: [&str; 18] = [
        "NoCellForCity",
        "ApplyFailed",
        "DeletionHeld",
        "MemberApiMissing",
        "PlacementImmutable",
        "NoCellForLocation",
        "InvalidCityCode",
        "InvalidLocation",
        "PlaceConflict",
        "InvalidName",
        "SpecTooLarge",
        "HubRefused",
        "HubNameTaken",
        "HubNamespaceClaimed",
        "TooManyCitySets",
        "HubUnreachable",
        "MissingRights",
        "Retrying",
    ];
    let had = source
        .digest
        .status
        .condition(condition.kind)
        .map(|c| c.reason.clone());
    let is_fault = if s.lanes.is_some() {
        lanes::conditions::FAULTS.contains(&condition.reason)
    } else {
        FAULTS.contains(&condition.reason)
    };
    (is_fault && had.as_deref() != Some(condition.reason)).then(|| Event {
        plane: Plane::Project(s.project.clone()),
        about: about(s, source),
        warning: true,
        reason: condition.reason.to_owned(),
        action: "Federating".to_owned(),
        message: condition.message.clone(),
    })
}

/// The Event for a deployment that goes on after a delay.
pub fn resumed(s: &Snapshot, source: &Row<Source>, condition: &OwnCondition) -> Option<Event> {
    let had = source.digest.status.condition(condition.kind)?;
    let goes_on = condition.kind == FEDERATED
        && delay::REASONS.contains(&&*had.reason)
        && !delay::REASONS.contains(&condition.reason);
    goes_on.then(|| Event {
        plane: Plane::Project(s.project.clone()),
        about: about(s, source),
        warning: false,
        reason: "Resumed".to_owned(),
        action: "Federating".to_owned(),
        message: format!("it goes on; before: {}", had.reason),
    })
}

/// The Event for conditions that the project's API server has dropped.
pub fn pruned(s: &Snapshot, source: &Row<Source>) -> Event {
    Event {
        plane: Plane::Project(s.project.clone()),
        about: about(s, source),
        warning: true,
        reason: "ConditionsPruned".to_owned(),
        action: "Federating".to_owned(),
        message: format!(
            "the schema of {} has no status.conditions: the gateway's are in annotation {} as long as it has none",
            s.profile().resource.kind,
            keys::CONDITIONS
        ),
    }
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
    (ours && size > limit).then(|| Event {
        plane: Plane::Project(s.project.clone()),
        about: about(s, source),
        warning: true,
        reason: "QuarantinedTooLarge".to_owned(),
        action: "QuarantiningDeployment".to_owned(),
        message: format!("the status that its cells report has {found}; the last one stays"),
    })
}

/// The Event for a city move.
pub fn moved(s: &Snapshot, source: &Row<Source>, copy: &Row<HubCopy>, to: &CityCode) -> Event {
    let from = copy.digest.city.as_ref().map_or("", CityCode::as_str);
    Event {
        plane: Plane::Project(s.project.clone()),
        about: about(s, source),
        warning: false,
        reason: "CityMoved".to_owned(),
        action: "Moving".to_owned(),
        message: format!("moved from city {from} to {to}"),
    }
}

/// The Event for an object whose project was restored to an older state; the older state is synced from now on.
pub fn rewound(s: &Snapshot, source: &Row<Source>, copy: &Row<HubCopy>) -> Event {
    let (from, to) = (
        copy.digest.source_generation.unwrap_or_default(),
        source.digest.generation,
    );
    Event {
        plane: Plane::Project(s.project.clone()),
        about: about(s, source),
        warning: false,
        reason: "GenerationRewound".to_owned(),
        action: "Federating".to_owned(),
        message: format!(
            "the hub had generation {from} of it and this project has generation {to}: the project was restored to an older state, which is carried"
        ),
    }
}

/// The project's object as an Event refers to it.
pub fn about(s: &Snapshot, source: &Row<Source>) -> ObjectRef {
    ObjectRef {
        api_version: s.profile().resource.api_version.clone(),
        kind: s.profile().resource.kind.clone(),
        namespace: s.namespace.to_string(),
        name: s.name.to_string(),
        uid: source.uid.to_string(),
    }
}
