//! The Workload's status: sums over its deployments, and the worst reason by the priority table (contract: cell.md §1,
//! step 7; api.md §8).

use super::{
    checks::CheckOutcome,
    matching::{Match, Matches},
    ready,
    replaced::Kept,
    snapshot::{WorkloadSnapshot, serves},
    wanted::{Access, Unresolved, name_of},
};
use crate::index::rows::WHY;
use fedgate_api::{
    Condition, ConditionStatus, NamedLocation, Placement, PlacementStatus, Reason, ReplicaCounts,
    WorkloadDeployment, WorkloadStatus,
    conditions::{self, types},
};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Outcome of a pair in this iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The deployment exists.
    Exists,
    /// The deployment exists and is changed in this iteration.
    Applied,
    /// The deployment is created in this iteration.
    Created,
    /// No live deployment exists, and none is created: a check failed, or the place has no Location that is ready.
    Absent,
    /// No live deployment exists: a terminating object blocks the creation.
    Waits,
    /// The deployment is to be created or changed, and the project refuses that with these words.
    Refused(String),
    /// No deployment exists: both forms of its name are in use; this is the second.
    NameConflict(String),
}

impl Outcome {
    /// Outcome without any write.
    pub(super) fn of(found: &Match) -> Self {
        match found {
            Match::Live(_) => Self::Exists,
            Match::None | Match::Leaving => Self::Absent,
        }
    }
}

/// The status after this iteration.
pub(super) fn status(
    snapshot: &WorkloadSnapshot,
    matches: &Matches,
    kept: &Kept,
    outcomes: &[Outcome],
    verdict: &CheckOutcome,
    now: Timestamp,
) -> WorkloadStatus {
    let workload = &snapshot.workload;
    let generation = workload.metadata.generation;
    let old = workload.status.clone().unwrap_or_default();
    let made = outcomes.iter().filter(|o| **o == Outcome::Created).count();

    let mut placements = Vec::new();
    let mut verdicts = Vec::new();
    for placement in &workload.spec.placements {
        let before = old.placements.iter().find(|p| p.name == placement.name);
        let view = View::new(placement, matches, kept, outcomes, now);
        let condition = view.available(now).observed(generation);
        let mut list = before.map(|p| p.conditions.clone()).unwrap_or_default();
        conditions::set(&mut list, condition.clone());
        placements.push(PlacementStatus {
            name: placement.name.clone(),
            conditions: list,
            counts: view.counts(matches),
            locations: view.locations(),
        });
        verdicts.push(condition);
    }

    let mut list = old.conditions;
    let available = match verdict {
        CheckOutcome::Bad { reason, message } => no(*reason, message, now),
        CheckOutcome::Good | CheckOutcome::Wait => overall(&verdicts, now),
    };
    conditions::set(&mut list, available.observed(generation));
    ready::set(&mut list, snapshot, matches, kept, outcomes, verdict, now);
    autoscaling(&workload.spec.placements, &mut list, generation, now);
    WorkloadStatus {
        conditions: list,
        deployments: count(snapshot.deployments.len() + made),
        counts: sum(&snapshot.deployments),
        observed_generation: generation,
        placements,
    }
}

fn yes(reason: Reason, message: &str, now: Timestamp) -> Condition {
    Condition::new(
        types::AVAILABLE,
        ConditionStatus::True,
        reason.as_str(),
        message,
        now,
    )
}

/// Available=False for a reason.
pub(super) fn no(reason: Reason, message: &str, now: Timestamp) -> Condition {
    worst_or(None, reason, message, now)
}

/// Available=False for the worst condition, or for a reason if there is none.
fn worst_or(worst: Option<&Condition>, reason: Reason, message: &str, now: Timestamp) -> Condition {
    let otherwise = (reason.as_str(), message);
    let (reason, message) = worst.map_or(otherwise, |worst| (&*worst.reason, &*worst.message));
    Condition::new(types::AVAILABLE, ConditionStatus::False, reason, message, now)
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn sum<'a>(deployments: impl IntoIterator<Item = &'a WorkloadDeployment>) -> ReplicaCounts {
    let mut total = ReplicaCounts::default();
    for status in deployments.into_iter().filter_map(|d| d.status.as_ref()) {
        total += status.counts;
    }
    total
}

/// Available=True if any placement is available, else the worst reason of all placements.
fn overall(placements: &[Condition], now: Timestamp) -> Condition {
    if placements.iter().any(|c| c.status == ConditionStatus::True) {
        return yes(Reason::AvailablePlacementFound, "a placement is available", now);
    }
    let worst = conditions::worst(placements);
    let worst = worst.filter(|c| c.reason != Reason::NoAvailableDeployments.as_str());
    let none = "no placement is available yet";
    worst_or(worst, Reason::NoAvailablePlacements, none, now)
}

/// Reports that no autoscaler exists if a placement has metrics.
fn autoscaling(placements: &[Placement], list: &mut Vec<Condition>, generation: Option<i64>, now: Timestamp) {
    if placements.iter().all(|p| p.scale_settings.metrics.is_empty()) {
        list.retain(|c| c.type_ != types::AUTOSCALING_READY);
        return;
    }
    let message = "metrics are carried, but no autoscaler acts on them: minReplicas is what runs";
    let reason = Reason::AwaitingAutoscaler.as_str();
    let condition = Condition::new(
        types::AUTOSCALING_READY,
        ConditionStatus::Unknown,
        reason,
        message,
        now,
    );
    conditions::set(list, condition.observed(generation));
}

/// A placement with its deployments.
struct View<'a> {
    placement: &'a Placement,
    /// Deployments of the placement, by place.
    deployments: Vec<&'a WorkloadDeployment>,
    /// True if a deployment of a former place is available.
    has_kept: bool,
    /// Locations of the placement that have a deployment or may get one.
    locations: BTreeSet<&'a str>,
    /// Conditions of the placement itself that are not True: names in use, places without a Location, a refused deployment.
    missing: Vec<Condition>,
}

impl<'a> View<'a> {
    fn new(
        placement: &'a Placement,
        matches: &'a Matches<'a>,
        kept: &Kept,
        outcomes: &'a [Outcome],
        now: Timestamp,
    ) -> Self {
        let (mut deployments, mut locations) = (Vec::new(), BTreeSet::new());
        let (mut conflicts, mut without_location, mut refused) = (Vec::new(), Vec::new(), None);
        for ((pair, found), outcome) in matches.pairs.iter().zip(outcomes) {
            if pair.placement.name != placement.name {
                continue;
            }
            if let Match::Live(deployment) = found {
                deployments.push(*deployment);
            }
            if matches!(found, Match::Live(_)) || pair.access == Access::Open {
                locations.extend(pair.place.location());
            }
            if pair.access == Access::NoLocation {
                without_location.push(pair.at());
            }
            match outcome {
                Outcome::NameConflict(name) => conflicts.push(name.as_str()),
                Outcome::Refused(words) => refused = Some(no(Reason::ApplyFailed, words, now)),
                Outcome::Exists | Outcome::Applied | Outcome::Created | Outcome::Absent | Outcome::Waits => {}
            }
        }
        deployments.sort_by_key(|d| d.spec.place().map(|place| name_of(&place).to_owned()));
        let mut selectors = matches.unresolved.iter();
        let selector = selectors.find(|of| of.placement.name == placement.name);
        let missing = [
            (!conflicts.is_empty()).then(|| name_conflict(&conflicts.join(", "), now)),
            (!without_location.is_empty()).then(|| no_location(&without_location, now)),
            selector.map(|of| unresolved(*of, now)),
            refused,
        ];
        Self {
            placement,
            deployments,
            has_kept: kept.serves(&placement.name),
            locations,
            missing: missing.into_iter().flatten().collect(),
        }
    }

    /// Sums over its deployments, and over unmatched ones that have its placement name.
    fn counts(&self, matches: &Matches) -> ReplicaCounts {
        let mut total = sum(self.deployments.iter().copied());
        total += sum(matches
            .unmatched
            .iter()
            .copied()
            .filter(|d| d.spec.placement_name == self.placement.name));
        total
    }

    /// Available=True if any deployment is available, else the worst reason of the deployments and of missing ones.
    fn available(&self, now: Timestamp) -> Condition {
        let conditions = || {
            self.deployments
                .iter()
                .filter_map(|d| d.status.as_ref())
                .map(|s| &s.conditions)
        };
        if self.has_kept || self.deployments.iter().any(|d| serves(d)) {
            let mut message = "a deployment is available".to_owned();
            for missing in &self.missing {
                message = format!("{message}; {}", missing.message);
            }
            return yes(Reason::AvailableDeploymentFound, &message, now);
        }
        let theirs =
            conditions().flat_map(|list| WHY.iter().filter_map(|type_| conditions::find(list, type_)));
        let worst = conditions::worst(self.missing.iter().chain(theirs));
        let none = "no deployment is available yet";
        worst_or(worst, Reason::NoAvailableDeployments, none, now)
    }

    /// The locations that the placement resolves to, by name.
    fn locations(&self) -> Vec<NamedLocation> {
        let names = self.locations.iter().map(|name| (*name).to_owned());
        names.map(|name| NamedLocation { name }).collect()
    }
}

/// Available=False for places without a Location that is ready.
pub(super) fn no_location(places: &[&str], now: Timestamp) -> Condition {
    let places = places.join(", ");
    let message = format!("no Location that is ready for {places}; check the city codes or locations");
    no(Reason::NoMatchingLocations, &message, now)
}

/// Available=False for a placement whose selector resolves to nothing.
pub(super) fn unresolved(of: Unresolved, now: Timestamp) -> Condition {
    let name = &of.placement.name;
    let message = if of.is_read {
        format!("no Location of the project matches locationSelector of placement {name}")
    } else {
        format!(
            "locationSelector of placement {name} cannot be resolved: this gateway does not read location objects; \
             name the locations in the field locations"
        )
    };
    no(Reason::NoMatchingLocations, &message, now)
}

/// Available=False for deployments whose names are in use.
pub(super) fn name_conflict(names: &str, now: Timestamp) -> Condition {
    let message = format!("another object holds the name of a deployment: {names}; rename or delete it");
    no(Reason::DeploymentNameConflict, &message, now)
}
