//! A row of a rollout: the state of a placement in a city.

use crate::{
    diff,
    output::style::Tone,
    view::{City, Condition, Counts, Instances, Joined, Object, minimum},
};
use fedgate_api::{
    Reason,
    conditions::types::{AVAILABLE, FEDERATED, PROGRESSING, READY, REPLICAS_READY},
};
use jiff::Timestamp;
use serde_json::Value;
use std::fmt;

fedgate_api::words! {
    /// The phase of a row.
    pub(crate) enum Phase {
        /// All Instances are ready on the latest template, and no other is left.
        Done = "Done",
        /// Nothing moves, and a condition says why.
        Blocked = "Blocked",
        /// The cell has not acted on the latest generation.
        Waiting = "Waiting",
        /// No more Instances are replaced until the rollout is resumed.
        Paused = "Paused",
        /// Surplus Instances go.
        Draining = "Draining",
        /// No Instance has the latest template.
        Pending = "Pending",
        /// Instances are being replaced or made.
        Updating = "Updating",
    }
}

impl Phase {
    /// The tone of the word.
    pub(crate) const fn tone(self) -> Tone {
        match self {
            Self::Done => Tone::Good,
            Self::Blocked => Tone::Bad,
            Self::Waiting | Self::Paused | Self::Draining | Self::Pending | Self::Updating => Tone::Busy,
        }
    }
}

/// The state of a placement in a city.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The placement and city.
    pub(crate) city: City,
    /// The counts of the deployment.
    pub(crate) counts: Counts,
    /// The phase; never `Blocked`, which takes time.
    pub(crate) phase: Phase,
    /// More about the phase.
    pub(crate) detail: String,
    /// Reason and message of the condition that would block it.
    pub(crate) refusal: Option<String>,
    /// Begin of the phase, as far as conditions and the last write of the spec tell.
    pub(crate) since: Option<Timestamp>,
    /// The Instance that is not ready, with its reason: it says more of a refusal.
    pub(crate) instance: Option<String>,
    /// True if there is no deployment because no Location serves the city.
    pub(crate) is_unserved: bool,
}

impl Row {
    /// True if nothing has changed but the Instance that explains it: its reason may come and go for ever.
    pub(super) fn is_as(&self, before: &Self) -> bool {
        let own = |row: &Self| {
            (
                row.counts,
                row.phase,
                row.city.clone(),
                row.detail.clone(),
                row.refusal.clone(),
            )
        };
        own(self) == own(before)
    }

    /// Turns a refused row into a blocked one.
    pub(super) fn block(&mut self) {
        let Some(refusal) = &self.refusal else { return };
        self.detail = match &self.instance {
            Some(instance) => format!("{refusal}; {instance}"),
            None => refusal.clone(),
        };
        self.phase = Phase::Blocked;
    }

    /// The reason of the phase; the counts are in columns of their own.
    pub(crate) fn reason(&self) -> &str {
        match self.phase {
            Phase::Blocked | Phase::Waiting | Phase::Paused => &self.detail,
            Phase::Done | Phase::Draining | Phase::Pending | Phase::Updating => {
                self.refusal.as_deref().unwrap_or_default()
            }
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.city, self.phase.as_str())?;
        if !self.detail.is_empty() {
            write!(f, " {}", self.detail)?;
        }
        Ok(())
    }
}

/// The rows of a Workload, in the order of its spec. `instances` are all that are known, for details.
pub(crate) fn rows(joined: &Joined, instances: &Instances) -> Vec<Row> {
    let rows = joined.cities.iter().map(|(city, deployment)| match deployment {
        Some(deployment) => row(&joined.workload, city, deployment, instances),
        None => without_deployment(joined, city),
    });
    rows.collect()
}

fn without_deployment(joined: &Joined, city: &City) -> Row {
    let workload = &joined.workload;
    let is_unserved = joined.unserved.contains(city);
    let detail = if is_unserved && city.location.is_empty() {
        format!("no deployment for city {}; no location serves it", city.shown)
    } else if is_unserved {
        let location = &city.location;
        format!("no deployment for location {location}; no location of this name is ready")
    } else if city.is_known() {
        let stalled = workload.stalled().and_then(|_| workload_refusal(workload, city));
        stalled.map_or_else(
            || "no deployment yet".to_owned(),
            |cause| format!("no deployment yet; {}", cause.text()),
        )
    } else if workload.acted_on().is_none_or(|on| on == workload.generation()) {
        "no location of the selector has a deployment yet".to_owned()
    } else {
        "the selector is not resolved yet".to_owned()
    };
    let refusal = if is_unserved {
        Some(detail.clone())
    } else {
        workload_refusal(workload, city).map(|refused| refused.text())
    };
    Row {
        city: city.clone(),
        counts: Counts {
            desired: placement(workload, city).map_or(0, |placement| minimum(&placement["scaleSettings"])),
            ..Counts::default()
        },
        phase: Phase::Waiting,
        detail,
        refusal,
        since: workload.spec_written(),
        instance: None,
        is_unserved,
    }
}

/// The reason of a placement that only says that there is no deployment.
const NO_DEPLOYMENT: &str = "NoAvailableDeployments";

/// The condition of the placement, else of the Workload, that refuses a city without a deployment. A placement without a cause
/// of its own has that of the Workload.
pub(crate) fn workload_refusal<'a>(workload: &'a Object, city: &City) -> Option<Condition<'a>> {
    let placement = workload.placement_condition(&city.placement, AVAILABLE);
    let placement = placement.filter(Condition::refuses);
    let has_cause = placement.is_some_and(|placement| placement.reason != NO_DEPLOYMENT);
    let stalled = workload.stalled().filter(|_| !has_cause);
    let available = || workload.condition(AVAILABLE).filter(Condition::refuses);
    // Ready has the cause while another city of the placement serves.
    let ready = || {
        let ready = workload.condition(READY);
        ready.filter(|ready| ready.refuses() && ready.is_grave())
    };
    stalled.or(placement).or_else(available).or_else(ready)
}

fn row(workload: &Object, city: &City, deployment: &Object, instances: &Instances) -> Row {
    let counts = Counts::of(deployment);
    let carried = carries_spec(workload, city, deployment);
    let acted = deployment.observed_generation(AVAILABLE) == Some(deployment.generation());
    let phase = if carried && acted {
        counted_phase(workload, city, deployment)
    } else {
        Phase::Waiting
    };
    let detail = match phase {
        Phase::Waiting if !carried => "the deployment does not have this spec yet".to_owned(),
        Phase::Waiting => "the cell has not acted yet".to_owned(),
        Phase::Paused => format!(
            "{}/{} updated; to resume: kubectl compute rollout resume {}",
            counts.updated,
            counts.desired,
            workload.name()
        ),
        _ => format!(
            "{}/{} updated, {}/{} ready, {} old",
            counts.updated,
            counts.desired,
            counts.ready,
            counts.desired,
            counts.old()
        ),
    };
    let conditions =
        [FEDERATED, PROGRESSING, AVAILABLE, REPLICAS_READY].map(|type_| deployment.condition(type_));
    let refused = conditions.into_iter().flatten().find(Condition::refuses);
    // During a surge the deployment lacks nothing, although the first new Instance cannot start.
    let unready = instances.first_unready(deployment.name());
    let grave = unready.map(|(_, ready)| ready).filter(Condition::is_grave);
    let refused = refused.or(grave.filter(|_| phase != Phase::Waiting));
    let refused = refused.filter(|_| !matches!(phase, Phase::Done | Phase::Paused));
    let since = if phase == Phase::Done {
        let conditions = [AVAILABLE, REPLICAS_READY].map(|type_| deployment.condition(type_)?.since);
        conditions.into_iter().flatten().max()
    } else {
        // A condition that was False before the spec was written says nothing of this phase.
        refused
            .and_then(|refused| refused.since)
            .max(deployment.spec_written())
    };
    Row {
        city: city.clone(),
        counts,
        phase,
        detail,
        refusal: refused.map(|refused| refused.text()),
        since,
        instance: unready.map(|(instance, ready)| {
            let (name, city) = (instance.name(), &city.shown);
            format!("instance {name} in the cell of {city}: {}", ready.reason)
        }),
        is_unserved: false,
    }
}

/// The phase that the counts tell of a deployment whose cell has acted on the latest spec.
pub(crate) fn counted_phase(workload: &Object, city: &City, deployment: &Object) -> Phase {
    let Counts {
        replicas,
        updated,
        ready,
        desired,
    } = Counts::of(deployment);
    let progressing = deployment.condition(PROGRESSING);
    let is_complete = progressing
        .as_ref()
        .is_none_or(|progressing| progressing.reason == Reason::RolloutComplete.as_str());
    let is_paused =
        progressing.is_some_and(|progressing| progressing.reason == Reason::RolloutPaused.as_str());
    let has_all = is_within_scale(workload, city, deployment) && ready >= desired && updated >= desired;
    if has_all && (is_complete || is_paused && replicas <= desired) {
        if replicas <= desired {
            Phase::Done
        } else {
            Phase::Draining
        }
    } else if is_paused {
        Phase::Paused
    } else if updated == 0 {
        Phase::Pending
    } else {
        Phase::Updating
    }
}

/// True if the deployment has the Workload's template and the scale settings of the placement.
pub(crate) fn carries_spec(workload: &Object, city: &City, deployment: &Object) -> bool {
    let scale = placement(workload, city).map(|placement| &placement["scaleSettings"]);
    diff::same(
        workload.0.pointer("/spec/template"),
        deployment.0.pointer("/spec/template"),
    ) && diff::same(scale, deployment.0.pointer("/spec/scaleSettings"))
}

/// True if the cell wants a number of Instances that the placement allows: not the zero of a fresh status.
fn is_within_scale(workload: &Object, city: &City, deployment: &Object) -> bool {
    let Some(placement) = placement(workload, city) else {
        return false;
    };
    let scale = &placement["scaleSettings"];
    let minimum = minimum(scale);
    let maximum = scale["maxReplicas"].as_i64().unwrap_or(minimum).max(minimum);
    (minimum..=maximum).contains(&deployment.number("/status/desiredReplicas"))
}

fn placement<'a>(workload: &'a Object, city: &City) -> Option<&'a Value> {
    let mut placements = workload.list("/spec/placements").iter();
    placements.find(|placement| placement["name"] == *city.placement)
}
