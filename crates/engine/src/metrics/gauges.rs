//! The gauges that a scrape sets from the state of a role.

use super::{ClosedLabels, Metrics, process};
use prometheus::{GaugeVec, IntGaugeVec};
use std::{collections::BTreeMap, time::Duration};

/// Labels of watch restarts: kind of plane, resource, cause (`gone` or `error`).
pub type Restarts = (&'static str, String, &'static str);

/// Two labels with closed values.
pub(super) type Pair = (&'static str, &'static str);

/// State of a role at a scrape; gauges are set from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gauges {
    /// Keys that are ready to run.
    pub queue_ready: usize,
    /// Keys added since the start.
    pub queue_added: u64,
    /// Keys whose last reconcile failed, by controller and category.
    pub keys_in_backoff: BTreeMap<(&'static str, &'static str), usize>,
    /// Keys that have failed for more than 60 s, by controller and category; refused objects aside.
    pub stuck_keys: BTreeMap<(&'static str, &'static str), usize>,
    /// Age of the oldest failure of these keys.
    pub oldest_stuck_key: Duration,
    /// Recorded failures.
    pub failures: usize,
    /// Failures that gave way to older ones since the start.
    pub failures_dropped: u64,
    /// Quarantined objects by kind and reason.
    pub quarantined: BTreeMap<(String, &'static str), usize>,
    /// Planes by kind and state: `connected`, `syncing`, `backoff`, `unauthorized`.
    pub planes: BTreeMap<(&'static str, &'static str), usize>,
    /// Longest time since an event of a plane, by the plane's kind and state.
    pub last_event_age: BTreeMap<(&'static str, &'static str), Duration>,
    /// Projects by state: `engaged`, `refused`. Empty for a role without.
    pub projects: BTreeMap<&'static str, usize>,
    /// Objects that are not yet where they are to go: their number and the age of the oldest, by stage. Empty for a role
    /// without stages.
    pub undelivered: BTreeMap<&'static str, (usize, Duration)>,
    /// Federated objects by kind, and by status and reason of their condition `Federated`.
    pub federated: BTreeMap<(String, &'static str, &'static str), usize>,
    /// Instances as deployments report them, by state.
    pub reported: BTreeMap<&'static str, u64>,
    /// Karmada Clusters by state. Empty for a role without.
    pub cells: BTreeMap<&'static str, usize>,
    /// Credentials by kind of plane and time left.
    pub credentials: BTreeMap<(&'static str, &'static str), usize>,
    /// Earliest known end of a credential by kind of plane, in seconds since the epoch.
    pub credential_ends: BTreeMap<&'static str, i64>,
    /// Objects in the index by kind of plane and resource.
    pub cached: BTreeMap<(&'static str, String), usize>,
    /// Objects that are being deleted.
    pub deleting: usize,
    /// Time since the oldest deletion timestamp of these.
    pub oldest_deletion: Duration,
    /// Number of failures of the present watches.
    pub watch_restarts: BTreeMap<Restarts, u64>,
    /// Objects on the hub without an origin.
    pub orphans: usize,
    /// Rejected claims on hub namespaces of another project.
    pub rejected_claims: usize,
    /// Write-backs whose deployment is known by their name alone.
    pub unlabelled_write_backs: usize,
    /// Copies without a field that names their place, by field.
    pub copies_without_place: BTreeMap<&'static str, usize>,
    /// True if the sweep stopped because it would have deleted too much, or projections of vanished write-backs are kept.
    pub garbage_brake: bool,
    /// Changes that wait for a permit to write to the hub.
    pub delayed_hub_writes: usize,
    /// Interpreters that differ from ours, or are a second one for a kind.
    pub interpreter_drift: usize,
    /// Instances with a quota grant that cannot be confirmed now.
    pub quota_unverified: usize,
    /// Instances with a recorded release.
    pub release_records: usize,
}

pub(super) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Sets a gauge for each pair of closed values, 0 where nothing is counted.
pub(super) fn set_counts(
    gauge: &IntGaugeVec,
    closed: impl Iterator<Item = Pair>,
    counts: &BTreeMap<Pair, usize>,
) {
    gauge.reset();
    for (a, b) in closed {
        gauge.with_label_values(&[a, b]).set(0);
    }
    for ((a, b), count) in counts {
        gauge.with_label_values(&[*a, *b]).set(integer(*count));
    }
}

/// As [`set_counts`], for times.
fn set_ages(gauge: &GaugeVec, closed: impl Iterator<Item = Pair>, ages: &BTreeMap<Pair, Duration>) {
    gauge.reset();
    for (a, b) in closed {
        gauge.with_label_values(&[a, b]).set(0.0);
    }
    for ((a, b), age) in ages {
        gauge.with_label_values(&[*a, *b]).set(age.as_secs_f64());
    }
}

impl Metrics {
    pub(super) fn set(&self, figures: &Gauges) {
        let closed = self.closed.lock().clone();
        self.set_queue(figures, &closed);
        self.set_planes(figures, &closed);
        self.set_objects(figures);
        self.set_fleet(figures, &closed);
        self.count_restarts(&figures.watch_restarts);
        self.set_reconciles(&closed);
        self.process.memory_limit.set(process::memory_limit());
    }

    fn set_queue(&self, figures: &Gauges, closed: &ClosedLabels) {
        self.queue
            .depth
            .with_label_values(&[self.queue_name])
            .set(integer(figures.queue_ready));
        let adds = self.queue.adds.with_label_values(&[self.queue_name]);
        adds.inc_by(figures.queue_added.saturating_sub(adds.get()));
        let failures = &self.failures;
        set_counts(&failures.backoff, closed.failures(), &figures.keys_in_backoff);
        set_counts(&failures.stuck, closed.failures(), &figures.stuck_keys);
        failures.oldest.set(figures.oldest_stuck_key.as_secs_f64());
        failures.kept.set(integer(figures.failures));
        let dropped = &failures.dropped;
        dropped.inc_by(figures.failures_dropped.saturating_sub(dropped.get()));
    }

    fn set_planes(&self, figures: &Gauges, closed: &ClosedLabels) {
        set_counts(&self.planes.states, closed.plane_states(), &figures.planes);
        set_ages(
            &self.planes.last_event,
            closed.plane_states(),
            &figures.last_event_age,
        );
        for (state, count) in &figures.projects {
            self.planes
                .projects
                .with_label_values(&[state])
                .set(integer(*count));
        }
        self.planes.cached.reset();
        for ((plane, kind), count) in &figures.cached {
            self.planes
                .cached
                .with_label_values(&[*plane, kind.as_str()])
                .set(integer(*count));
        }
        self.planes.delayed.set(integer(figures.delayed_hub_writes));
    }

    fn set_objects(&self, figures: &Gauges) {
        // Without a reset, a class whose last object recovered would keep its former number.
        self.federation.quarantined.reset();
        self.federation.quarantined_alias.reset();
        for ((kind, reason), count) in &figures.quarantined {
            self.federation
                .quarantined
                .with_label_values(&[kind.as_str(), *reason])
                .set(integer(*count));
            self.federation
                .quarantined_alias
                .with_label_values(&[reason])
                .add(integer(*count));
        }
        self.leftovers.pending.set(integer(figures.deleting));
        self.leftovers
            .oldest_pending
            .set(figures.oldest_deletion.as_secs_f64());
        self.federation.claims.set(integer(figures.rejected_claims));
        self.federation
            .unlabelled
            .set(integer(figures.unlabelled_write_backs));
        for (field, count) in &figures.copies_without_place {
            let of = self.federation.without_place.with_label_values(&[field]);
            of.set(integer(*count));
        }
        self.leftovers.orphans.set(integer(figures.orphans));
        self.leftovers.drift.set(integer(figures.interpreter_drift));
        self.leftovers.brake.set(i64::from(figures.garbage_brake));
        self.cells.unverified.set(integer(figures.quota_unverified));
        self.cells.records.set(integer(figures.release_records));
    }

    /// The reconciles under way, and their ages.
    fn set_reconciles(&self, closed: &ClosedLabels) {
        let mut ages = Vec::new();
        let mut active: BTreeMap<&'static str, usize> =
            closed.controllers.iter().map(|name| (*name, 0)).collect();
        for (controller, began) in self.under_way.lock().values() {
            ages.push(began.elapsed().as_secs_f64());
            *active.entry(controller).or_default() += 1;
        }
        for (controller, count) in active {
            self.turns
                .active
                .with_label_values(&[controller])
                .set(integer(count));
        }
        self.turns
            .unfinished
            .with_label_values(&[self.queue_name])
            .set(ages.iter().copied().fold(0.0, |sum, age| sum + age));
        self.turns
            .longest
            .with_label_values(&[self.queue_name])
            .set(ages.iter().copied().fold(0.0, f64::max));
    }

    /// Adds the restarts since the last scrape; a watch that ended takes its number with it and is no decrease.
    fn count_restarts(&self, totals: &BTreeMap<Restarts, u64>) {
        let mut seen = self.restarts_seen.lock();
        for (key, total) in totals {
            let before = seen.get(key).copied().unwrap_or(0);
            let (plane, kind, cause) = key;
            let counter = self
                .planes
                .watch_restarts
                .with_label_values(&[*plane, kind.as_str(), *cause]);
            counter.inc_by(total.saturating_sub(before));
        }
        seen.clone_from(totals);
    }
}
