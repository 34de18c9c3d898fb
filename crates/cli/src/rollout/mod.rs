//! The state of a rollout, one row for each placement and city (contract: cli.md §4).

mod progress;
mod report;
mod table;
mod wait;

pub(crate) use progress::Progress;
pub(crate) use table::{ROWS, table};
pub(crate) use wait::{Target, WaitFlags, once, wait};

use crate::{
    diff,
    view::{City, Counts, Joined, Object},
};
use jiff::Timestamp;
use std::fmt;

/// The phase of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// All Instances are ready on the latest template, and no other is left.
    Done,
    /// Nothing moves, and a condition says why.
    Blocked,
    /// The cell has not acted on the latest generation.
    Waiting,
    /// Surplus Instances go.
    Draining,
    /// No Instance has the latest template.
    Pending,
    /// Instances are being replaced or made.
    Updating,
}

impl Phase {
    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Blocked => "Blocked",
            Self::Waiting => "Waiting",
            Self::Draining => "Draining",
            Self::Pending => "Pending",
            Self::Updating => "Updating",
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
}

impl Row {
    /// True if nothing has changed but the Instance that explains it: its reason may come and go for ever.
    fn is_as(&self, before: &Self) -> bool {
        let Self {
            city,
            counts,
            phase,
            detail,
            refusal,
            since: _,
            instance: _,
        } = self;
        *city == before.city
            && *counts == before.counts
            && *phase == before.phase
            && *detail == before.detail
            && *refusal == before.refusal
    }

    /// The reason of the phase; the counts are in columns of their own.
    pub(crate) fn reason(&self) -> &str {
        match self.phase {
            Phase::Blocked | Phase::Waiting => &self.detail,
            Phase::Done | Phase::Draining | Phase::Pending | Phase::Updating => {
                self.refusal.as_deref().unwrap_or_default()
            }
        }
    }

    /// Instances that are not on the latest template.
    pub(crate) fn old(&self) -> i64 {
        (self.counts.replicas - self.counts.updated).max(0)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let City { placement, city } = &self.city;
        write!(f, "{placement}/{city} {}", self.phase.word())?;
        if !self.detail.is_empty() {
            write!(f, " {}", self.detail)?;
        }
        Ok(())
    }
}

/// The rows of a Workload, in the order of its spec. `instances` are all that are known, for details.
pub(crate) fn rows(joined: &Joined, instances: &[Object]) -> Vec<Row> {
    let rows = joined.cities.iter().map(|(city, deployment)| match deployment {
        Some(deployment) => row(&joined.workload, city, deployment, instances),
        None => Row {
            city: city.clone(),
            counts: Counts::default(),
            phase: Phase::Waiting,
            detail: "no deployment yet".to_owned(),
            refusal: refusal(&joined.workload, &["Available"]).map(|(text, _)| text),
            since: joined.workload.spec_written(),
            instance: None,
        },
    });
    rows.collect()
}

fn row(workload: &Object, city: &City, deployment: &Object, instances: &[Object]) -> Row {
    let counts = Counts::of(deployment);
    let Counts {
        replicas,
        updated,
        ready,
        desired,
    } = counts;
    let carried = carries_spec(workload, city, deployment);
    let acted = deployment.observed_generation("Available") == Some(deployment.generation());
    let phase = if !carried || !acted {
        Phase::Waiting
    } else if is_within_scale(workload, city, deployment) && ready >= desired && updated >= desired {
        if replicas <= desired {
            Phase::Done
        } else {
            Phase::Draining
        }
    } else if updated == 0 {
        Phase::Pending
    } else {
        Phase::Updating
    };
    let detail = match phase {
        Phase::Waiting if !carried => "the deployment has not this spec yet".to_owned(),
        Phase::Waiting => "the cell has not acted yet".to_owned(),
        _ => {
            let old = (replicas - updated).max(0);
            format!("{updated}/{desired} updated, {ready}/{desired} ready, {old} old")
        }
    };
    let refused = refusal(deployment, &["Federated", "Available", "ReplicasReady"]);
    let (refusal, refused_at) = refused.filter(|_| phase != Phase::Done).unzip();
    let since = if phase == Phase::Done {
        let conditions = ["Available", "ReplicasReady"].map(|type_| deployment.condition(type_)?.since);
        conditions.into_iter().flatten().max()
    } else {
        // A condition that was False before the spec was written says nothing of this phase.
        refused_at.flatten().max(deployment.spec_written())
    };
    Row {
        city: city.clone(),
        counts,
        phase,
        detail,
        refusal,
        since,
        instance: unready(city, deployment, instances),
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
pub(crate) fn is_within_scale(workload: &Object, city: &City, deployment: &Object) -> bool {
    let Some(placement) = placement(workload, city) else {
        return false;
    };
    let scale = &placement["scaleSettings"];
    let minimum = scale["minReplicas"].as_i64().unwrap_or(1);
    let maximum = scale["maxReplicas"].as_i64().unwrap_or(minimum).max(minimum);
    (minimum..=maximum).contains(&deployment.number("/status/desiredReplicas"))
}

fn placement<'a>(workload: &'a Object, city: &City) -> Option<&'a serde_json::Value> {
    let mut placements = workload.list("/spec/placements").iter();
    placements.find(|placement| placement["name"] == *city.placement)
}

/// Reason and message of the first of these conditions that is False, and since when it is.
fn refusal(object: &Object, types: &[&str]) -> Option<(String, Option<Timestamp>)> {
    let mut conditions = types.iter().filter_map(|type_| object.condition(type_));
    let refused = conditions.find(|condition| condition.status == "False")?;
    let text = match refused.message {
        "" => refused.reason.to_owned(),
        message => format!("{}: {message}", refused.reason),
    };
    Some((text, refused.since))
}

/// The first Instance of the deployment that is not ready, with its reason.
fn unready(city: &City, deployment: &Object, instances: &[Object]) -> Option<String> {
    let own = instances.iter().filter(|instance| {
        let (name, ordinal) = instance.name().rsplit_once('-').unwrap_or_default();
        name == deployment.name() && ordinal.parse::<u32>().is_ok()
    });
    let mut unready = own.filter_map(|instance| {
        let ready = instance.condition("Ready").filter(|ready| !ready.holds())?;
        Some((instance.name(), ready))
    });
    let (name, ready) = unready.next()?;
    Some(format!(
        "instance {name} in the cell of {}: {}",
        city.city, ready.reason
    ))
}

#[cfg(test)]
mod tests;
