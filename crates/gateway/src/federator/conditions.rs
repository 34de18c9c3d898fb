//! The gateway's own conditions on a deployment: `Federated` and `ReferencedDataReady` (contract: federation.md
//! §3.1, api.md §8). Pure.

use super::{
    memory::{GRACE_PERIOD, Memory, UNCOPIED_AFTER},
    observe::{HubNamespaceState, Snapshot},
};
use crate::{
    index::derived::lacking::Lacking,
    index::derived::secondary::places::NoCity,
    index::rows::{
        HubCopy, Source,
        status::{FEDERATED, OwnCondition},
    },
    queries::{cells::Moving, cities::CITY_LIMIT},
    route::Route,
    single_member::Fault,
};
use fedgate_api::{Reason, keys, names::DEPLOYMENT_NAME_LIMIT};
use fedgate_engine::{clock::Now, message::clean, plan::Requeue, store::table::Row};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// Condition type: the referenced `ConfigMaps` and Secrets exist and are synced.
pub const REFERENCED_DATA_READY: &str = "ReferencedDataReady";

fn federated(status: bool, reason: Reason, message: &str, observed: i64) -> OwnCondition {
    OwnCondition::new(FEDERATED, status, reason, message, observed)
}

/// Faults of the deployment itself: a spec, city code or name that cannot be synced, too many cities, or a city
/// without a cell.
pub fn invalid(s: &Snapshot, source: &Row<Source>) -> Option<OwnCondition> {
    if source.digest.fits(s.largest_spec) {
        return misplaced(s, source);
    }
    let message = source.digest.extent.too_much(s.largest_spec);
    Some(federated(
        false,
        Reason::SpecTooLarge,
        &message,
        source.digest.generation,
    ))
}

/// The fault of a deployment whose name or place is wrong.
pub(super) fn misplaced(s: &Snapshot, source: &Row<Source>) -> Option<OwnCondition> {
    let generation = source.digest.generation;
    if s.name.len() > DEPLOYMENT_NAME_LIMIT {
        let message = format!(
            "metadata.name has {} characters, at most {DEPLOYMENT_NAME_LIMIT} can be carried; create it under a shorter name",
            s.name.len()
        );
        return Some(federated(false, Reason::InvalidName, &message, generation));
    }
    if s.readiness.is_over_city_limit {
        let message = format!(
            "this namespace uses {CITY_LIMIT} cities already, and no more are carried; delete deployments of another city or use another namespace"
        );
        return Some(federated(false, Reason::InvalidCityCode, &message, generation));
    }
    match &s.destination.to {
        Ok(to) => s.readiness.has_no_cell.then(|| {
            let message = without_cell(s, to.city.as_str());
            federated(false, Reason::NoCellForCity, &message, generation)
        }),
        // Before the Clusters are known, none of them proves that a location has no cell.
        Err(NoCity::Unknown(_)) if s.readiness.is_unproven => None,
        Err(fault) => {
            let (reason, message) = no_city(s, fault);
            Some(federated(false, reason, &message, generation))
        }
    }
}

/// Reason and message of a deployment without a city.
fn no_city(s: &Snapshot, fault: &NoCity) -> Fault {
    const RULE: &str = "which is no label value: use 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit";
    let label = keys::LOCATION;
    match fault {
        NoCity::InvalidCity(text) => {
            let path = s.profile().placement.path.text().trim_start_matches("$.");
            (Reason::InvalidCityCode, format!("{path} is {text:?}, {RULE}"))
        }
        NoCity::InvalidLocation(text) => (
            Reason::InvalidLocation,
            format!("spec.locationRef.name is {text:?}, {RULE}"),
        ),
        NoCity::Unknown(location) => (
            Reason::NoCellForLocation,
            format!(
                "no cell serves location {location}: the hub has no Cluster with label {label}={location}"
            ),
        ),
        NoCity::Disputed(location) => (
            Reason::NoCellForLocation,
            format!(
                "the city of location {location} is not known: the Clusters with label {label}={location} have not all the same label {}; an operator of the hub can set it",
                s.profile().placement.label
            ),
        ),
        NoCity::Conflict {
            location,
            named,
            city,
        } => (
            Reason::PlaceConflict,
            format!(
                "spec.cityCode is {named}, but location {location} is in {city}; remove one of the two fields or set the other city"
            ),
        ),
    }
}

fn without_cell(s: &Snapshot, city: &str) -> String {
    let label = &s.profile().placement.label;
    format!("no cell serves city {city}: the hub has no Cluster with label {label}={city}")
}

/// The hub's message when it rejected the objects made from the deployment.
pub fn hub_refused(source: &Row<Source>, message: &str) -> OwnCondition {
    federated(false, Reason::HubRefused, message, source.digest.generation)
}

/// True if an object that is not ours has the copy's name.
pub fn taken(s: &Snapshot, copy: &Row<HubCopy>) -> bool {
    copy.digest.source_uid.is_none() && copy.digest.upstream_namespace.as_deref() != Some(&*s.namespace)
}

fn names(clusters: &[Arc<str>]) -> String {
    clusters.iter().map(|c| &**c).collect::<Vec<_>>().join(", ")
}

/// The own conditions as they should be, and the time of the next reconcile if they depend on time.
pub fn own(
    s: &Snapshot,
    source: &Row<Source>,
    reported: bool,
    memory: &mut Memory,
    now: Now,
) -> (Vec<OwnCondition>, Requeue) {
    let refusal = invalid(s, source);
    // A deployment that was never synced needs no further condition.
    let references = references(s, source).filter(|_| refusal.is_none() || s.copy.is_some());
    let (delivery, next) = match refusal {
        Some(refusal) => (Some(refusal), Requeue::AwaitChange),
        None => delivery(s, source, reported, memory, now),
    };
    let own_types = &s.profile().status.own_conditions;
    let ours = |c: &OwnCondition| own_types.iter().any(|kind| kind == c.kind);
    (
        references.into_iter().chain(delivery).filter(ours).collect(),
        next,
    )
}

fn references(s: &Snapshot, source: &Row<Source>) -> Option<OwnCondition> {
    let found = s.companions.references.as_ref();
    let found = found.filter(|_| !source.digest.references.is_empty())?;
    let reading = "the referenced ConfigMaps and Secrets are being read";
    let ready = "all referenced ConfigMaps and Secrets are carried";
    let (status, reason, message) = match (&found.error, &s.companions.refused) {
        (Some((reason, message)), _) => (false, *reason, message.clone()),
        _ if found.resolving => (false, Reason::Resolving, reading.to_owned()),
        (None, Some(refused)) => (false, Reason::Resolving, not_carried(refused)),
        (None, None) => (true, Reason::Ready, ready.to_owned()),
    };
    let generation = source.digest.generation;
    Some(OwnCondition::new(
        REFERENCED_DATA_READY,
        status,
        reason,
        &message,
        generation,
    ))
}

fn not_carried((token, words): &(String, String)) -> String {
    format!("{token} is not carried: {words}")
}

/// Reason and message of an object that names another place than the one in which it stays.
pub(super) fn refused_place(s: &Snapshot) -> Option<Fault> {
    let asked = s.asks_for.as_ref()?;
    let member = s.single_member.as_ref().and_then(|at| at.pinned());
    let city = || s.destination.city().map_or("", |city| city.as_str());
    let at = member.map_or_else(city, |pin| &*pin.member);
    let message = format!(
        "it lives at {at} and cannot move to {asked}; set the place back, or make it anew under another name"
    );
    Some((Reason::PlacementImmutable, message))
}

/// Reason and message of an object whose kind no member of its city serves.
pub(super) fn missing_api(s: &Snapshot) -> Option<Fault> {
    s.city_members.missing_api(s.profile())
}

/// While the deployment is being deleted: a guard of its kind that holds.
pub(super) fn deletion_held(s: &Snapshot, source: &Row<Source>) -> Option<OwnCondition> {
    let guard = source.digest.ending.as_ref()?.guard?;
    let message = &s.profile().deletion.guards.get(guard)?.message;
    Some(federated(
        false,
        Reason::DeletionHeld,
        &clean(message),
        source.digest.generation,
    ))
}

fn delivery(
    s: &Snapshot,
    source: &Row<Source>,
    reported: bool,
    memory: &mut Memory,
    now: Now,
) -> (Option<OwnCondition>, Requeue) {
    let generation = source.digest.generation;
    let fault = refused_place(s).or_else(|| obstacle(s));
    if let Some((reason, message)) = fault.or_else(|| missing_api(s).filter(|_| s.lacks_api())) {
        let condition = federated(false, reason, &message, generation);
        return (Some(condition), Requeue::AwaitChange);
    }
    if let Some((message, left)) = memory.refusal(source, now) {
        return (Some(hub_refused(source, message)), Requeue::After(left));
    }
    let companion = s.companions.refused.as_ref().map(not_carried);
    if let Some(message) = s.readiness.refused.clone().or(companion) {
        let condition = federated(false, Reason::HubRefused, &message, generation);
        return (Some(condition), Requeue::AwaitChange);
    }
    if let Some((reason, message)) = uncopied(s, source) {
        return late(
            memory,
            UNCOPIED_AFTER,
            now,
            federated(false, reason, &message, generation),
        );
    }
    // A rejection of another state of the object does not apply to this state.
    let Some(copy) = s.copy.as_ref().filter(|copy| !is_older(source, copy)) else {
        return (None, Requeue::AwaitChange);
    };
    let observed = copy.digest.source_generation.unwrap_or(generation);
    let city = copy.digest.city.as_ref().map_or("", |c| c.as_str());
    if let Some((delivered, reason, message)) = verdict(s, copy, city, reported && !silent(copy)) {
        memory.since.undelivered = None;
        let condition = federated(delivered, reason, &message, observed);
        return (Some(condition), Requeue::AwaitChange);
    }
    let message = format!("the hub has not delivered it to a cell of city {city} yet");
    late(
        memory,
        GRACE_PERIOD,
        now,
        federated(false, Reason::Propagating, &message, observed),
    )
}

/// A condition that is written only after the deployment has been without a delivery for so long.
fn late(
    memory: &mut Memory,
    after: Duration,
    now: Now,
    condition: OwnCondition,
) -> (Option<OwnCondition>, Requeue) {
    let waited = now.since(*memory.since.undelivered.get_or_insert(now.instant));
    let left = after.saturating_sub(waited);
    if left.is_zero() {
        (Some(condition), Requeue::AwaitChange)
    } else {
        (None, Requeue::After(left))
    }
}

/// Reason and message of a deployment that has no copy of its own on the hub.
fn uncopied(s: &Snapshot, source: &Row<Source>) -> Option<Fault> {
    let Some(copy) = &s.copy else {
        return Some((Reason::Propagating, uncopied_because(s)));
    };
    let is_anothers = copy
        .digest
        .source_uid
        .as_ref()
        .is_some_and(|uid| *uid != source.uid);
    if is_anothers {
        let message = "the hub still holds the copy of an earlier deployment of this name";
        return Some((Reason::EarlierLifeDraining, message.to_owned()));
    }
    copy.deleting.then(|| {
        let message = "its copy on the hub is being deleted, and is made again when that is gone";
        (Reason::Propagating, message.to_owned())
    })
}

fn uncopied_because(s: &Snapshot) -> String {
    let hub = s.hub.as_ref().map_or("", |hub| hub.as_str());
    let city = s.destination.city().map_or("", |city| city.as_str());
    match s.readiness.lacking {
        Some(Lacking::Namespace) => format!("the hub namespace {hub} does not reach city {city} yet"),
        Some(Lacking::CitySet) => format!(
            "the hub is still deleting the policy of an earlier use of the cities that {hub} is to reach"
        ),
        Some(Lacking::Policy) => format!("the hub namespace {hub} has no policy for city {city} yet"),
        Some(Lacking::LeavingPolicy) => {
            format!("the hub is still deleting the policy of an earlier use of city {city} in {hub}")
        }
        None if !s.companions.are_there => {
            "the hub does not have all ConfigMaps and Secrets that it references yet".to_owned()
        }
        None => "its turn to be written to the hub has not come yet".to_owned(),
    }
}

/// Reason and message of what keeps the copy from being created or synced.
pub(super) fn obstacle(s: &Snapshot) -> Option<Fault> {
    let hub = s.hub.as_ref().map_or("", |h| h.as_str());
    match s.hub_state {
        HubNamespaceState::Terminating => Some((
            Reason::HubNamespaceTerminating,
            "the hub namespace is being deleted; delivery goes on when it is gone".into(),
        )),
        HubNamespaceState::EarlierLife => Some((
            Reason::EarlierLifeDraining,
            "the hub still holds objects of an earlier project of this name".into(),
        )),
        HubNamespaceState::Foreign => Some((
            Reason::HubNamespaceClaimed,
            "the hub namespace of this namespace is another project's, and nothing is carried; an operator of the hub can give it to this one".into(),
        )),
        HubNamespaceState::Absent | HubNamespaceState::Unproven | HubNamespaceState::Ours => {
            if s.readiness.is_limited {
                let message = "this project's namespaces use as many different sets of cities as they may; let this namespace use the cities of another one, or delete deployments";
                return Some((Reason::TooManyCitySets, message.into()));
            }
            let message = if let Some(held) = &s.companions.taken {
                format!("the hub has another object in {hub} in the place of {held}")
            } else if s.copy.as_ref().is_some_and(|copy| taken(s, copy)) {
                format!("the hub has another object named {} in {hub}", s.name)
            } else {
                return None;
            };
            Some((Reason::HubNameTaken, message))
        }
    }
}

/// Delivery as binding and reports show it: true if it is complete, with reason and message; `None` if they show
/// nothing.
fn verdict(s: &Snapshot, copy: &Row<HubCopy>, city: &str, reports: bool) -> Option<(bool, Reason, String)> {
    // A binding of an earlier copy of the name does not count.
    let binding = s.binding.as_ref().filter(|b| !b.deleting).map(|b| &b.digest);
    let Some(binding) = binding.filter(|b| b.owner.as_ref() == Some(&copy.uid)) else {
        return reports.then(|| (true, Reason::Delivered, "a cell reports".to_owned()));
    };
    if binding.no_cluster {
        if let Some((reason, message)) = missing_api(s) {
            return Some((false, reason, message));
        }
        let (reason, message) = match copy.digest.route() {
            Some(Route::Location(location)) => no_city(s, &NoCity::Unknown(location)),
            Some(Route::City(_)) | None => (Reason::NoCellForCity, without_cell(s, city)),
        };
        return Some((false, reason, message));
    }
    if let Some(told) = move_verdict(s) {
        return Some(told);
    }
    if let Some((cell, message)) = binding.failed.as_deref() {
        return Some((false, Reason::ApplyFailed, format!("{cell}: {message}")));
    }
    if let Some((token, cell, words)) = &s.companions.unapplied
        && binding.clusters.contains(cell)
    {
        let next = "if another object has this name at the cell, reference one of another name";
        return Some((
            false,
            Reason::ApplyFailed,
            format!("{cell} does not take {token}; {next}: {words}"),
        ));
    }
    let delivered = binding.scheduled && (binding.applied || reports);
    delivered.then(|| {
        if let Some(to) = &s.cells.cancelled {
            let message = format!(
                "the deployment stays at its cell, because it did not become ready at cell {to}; the gateway retries the move"
            );
            return (true, Reason::MoveStalled, message);
        }
        let message = format!("delivered to {}", names(&binding.clusters));
        (true, Reason::Delivered, message)
    })
}

/// The condition of a deployment that moves to another cell, or that no cell can run because its own is lost.
fn move_verdict(s: &Snapshot) -> Option<(bool, Reason, String)> {
    if let Some(Moving {
        from,
        to: Some(to),
        since,
        ..
    }) = &s.cells.moving
    {
        let message = format!("moving from cell {from} to cell {to} since {since}");
        return Some((true, Reason::Moving, message));
    }
    let (cell, since) = s.cells.stranded.as_ref()?;
    let since = Timestamp::from_second(*since).unwrap_or_default();
    let message = format!(
        "cell {cell} has not been ready since {since}, and no other cell of its city can run the deployment; the deployment runs as soon as a cell of the city is ready"
    );
    Some((false, Reason::CellLost, message))
}

/// True if the hub reports that no cell reports.
fn silent(copy: &Row<HubCopy>) -> bool {
    copy.digest
        .status
        .condition("Available")
        .is_some_and(|c| &*c.reason == "NoCellReporting")
}

/// Remaining time that a first `NoCellReporting` waits for the usual report.
pub fn defer_no_cell_reporting(
    copy: &Row<HubCopy>,
    source: &Row<Source>,
    memory: &mut Memory,
    now: Now,
) -> Option<Duration> {
    let said = source
        .digest
        .status
        .condition("Available")
        .is_some_and(|c| &*c.reason == "NoCellReporting");
    if !silent(copy) || said {
        memory.since.unreported = None;
        return None;
    }
    let waited = now.since(*memory.since.unreported.get_or_insert(now.instant));
    let left = GRACE_PERIOD.saturating_sub(waited);
    (!left.is_zero()).then_some(left)
}

/// While the deployment is being deleted: the cells that have not confirmed, and since when.
pub fn waiting_for_cells(s: &Snapshot, source: &Row<Source>, since: Timestamp) -> OwnCondition {
    let cells = s
        .binding
        .as_ref()
        .map(|b| names(&b.digest.clusters))
        .filter(|c| !c.is_empty());
    let is_held = s.binding.as_ref().is_some_and(|b| b.digest.is_held);
    let message = match cells {
        _ if is_held => {
            let controller = "Karmada's dependencies distributor";
            format!("being deleted since {since}: {controller} does not release its binding on the hub")
        }
        Some(cells) => format!("being deleted since {since}: {cells} has not confirmed"),
        None => format!("being deleted since {since}: the hub has not confirmed"),
    };
    federated(false, Reason::WaitingForCells, &message, source.digest.generation)
}

/// True if the project's object has an older generation than the one that its copy carries.
pub fn is_older(source: &Row<Source>, copy: &Row<HubCopy>) -> bool {
    let carried = copy.digest.source_generation;
    carried.is_some_and(|carried| carried > source.digest.generation)
}
