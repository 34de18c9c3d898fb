//! Gauges of the fleet: what is under way, what is federated, cells and credentials.

use super::{
    ClosedLabels, Metrics,
    gauges::{Gauges, integer, set_counts},
    registrar::Registrar,
};
use prometheus::{Error, GaugeVec, HistogramVec, IntGaugeVec};
use std::time::Duration;

/// Times left to a credential.
const TIMES_LEFT: [&str; 5] = ["expired", "day", "week", "later", "unknown"];

/// Gauges of the fleet.
#[derive(Debug)]
pub(super) struct FleetMetrics {
    undelivered: IntGaugeVec,
    oldest_undelivered: GaugeVec,
    federated: IntGaugeVec,
    reported: IntGaugeVec,
    cells: IntGaugeVec,
    credentials: IntGaugeVec,
    credential_ends: GaugeVec,
    index_held: HistogramVec,
}

impl FleetMetrics {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            undelivered: r.gauges(
                "fedgate_undelivered_objects",
                &["stage"],
                "Objects that are not yet where they are to go.",
            )?,
            oldest_undelivered: r.seconds_gauges(
                "fedgate_oldest_undelivered_seconds",
                &["stage"],
                "Age of the oldest of these; 0 if there is none.",
            )?,
            federated: r.gauges(
                "fedgate_federated_objects",
                &["kind", "status", "reason"],
                "Federated objects by status and reason of their condition Federated; None while they have none.",
            )?,
            reported: r.gauges(
                "fedgate_reported_instances",
                &["state"],
                "Instances as deployments report them: desired, existing, ready, updated.",
            )?,
            cells: r.gauges(
                "fedgate_cells",
                &["state"],
                "Karmada Clusters by state: ready, not_ready, unlabelled or leaving.",
            )?,
            credentials: r.gauges(
                "fedgate_credentials",
                &["plane", "expiry"],
                "Credentials by the time left: expired, day, week, later, or unknown.",
            )?,
            credential_ends: r.seconds_gauges(
                "fedgate_credential_expiry_timestamp_seconds",
                &["plane"],
                "Earliest end of a credential of this kind of plane, in seconds since the epoch; +Inf where none is known.",
            )?,
            index_held: r.seconds_from(
                0.000_05,
                11,
                "fedgate_index_lock_seconds",
                &["holder"],
                "Time for which the index was held at a time: by operations or metrics.",
            )?,
        })
    }
}

/// For whom the index is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// An answer of the operations API.
    Operations,
    /// A scrape.
    Metrics,
}

impl Holder {
    const ALL: [Self; 2] = [Self::Operations, Self::Metrics];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Metrics => "metrics",
        }
    }
}

impl Metrics {
    /// Declares the holders of the index; their histograms begin at 0.
    pub(super) fn declare_holders(&self) {
        for holder in Holder::ALL {
            self.fleet.index_held.with_label_values(&[holder.as_str()]);
        }
    }

    /// Records that the index was held for so long.
    pub fn index_held(&self, holder: Holder, took: Duration) {
        let held = self.fleet.index_held.with_label_values(&[holder.as_str()]);
        held.observe(took.as_secs_f64());
    }

    pub(super) fn set_fleet(&self, figures: &Gauges, closed: &ClosedLabels) {
        let fleet = &self.fleet;
        for (stage, (count, oldest)) in &figures.undelivered {
            fleet.undelivered.with_label_values(&[stage]).set(integer(*count));
            fleet
                .oldest_undelivered
                .with_label_values(&[stage])
                .set(oldest.as_secs_f64());
        }
        fleet.federated.reset();
        for ((kind, status, reason), count) in &figures.federated {
            fleet
                .federated
                .with_label_values(&[kind.as_str(), *status, *reason])
                .set(integer(*count));
        }
        for (state, count) in &figures.reported {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            fleet.reported.with_label_values(&[state]).set(count);
        }
        for (state, count) in &figures.cells {
            fleet.cells.with_label_values(&[state]).set(integer(*count));
        }
        let planes = closed.planes.iter().copied();
        let pairs = planes.flat_map(|plane| TIMES_LEFT.map(|left| (plane, left)));
        set_counts(&fleet.credentials, pairs, &figures.credentials);
        for plane in &closed.planes {
            let end = figures.credential_ends.get(plane);
            // Seconds since the epoch are exact in a f64 for 285 million years.
            #[allow(clippy::cast_precision_loss)]
            let end = end.map_or(f64::INFINITY, |end| *end as f64);
            fleet.credential_ends.with_label_values(&[plane]).set(end);
        }
    }
}
