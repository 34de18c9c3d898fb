//! Metrics: one registry, closed label sets, controller-runtime's names where those exist. No label holds a name of
//! a tenant or of an object; a plane is identified by its kind alone.

mod client;
mod families;
mod reconcile;
mod registrar;

pub use client::{ClientMetrics, PlaneKind, Stage};
pub use reconcile::{ReconcileResult, ReconcileTimer};
pub use registrar::Row;

use families::{Cells, CleanupMetrics, Federation, Planes, QueueFigures, ReconcileMetrics};
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder, core::Collector, process_collector::ProcessCollector};
use registrar::Registrar;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Labels of watch restarts: kind of plane, resource, cause (`gone` or `error`).
pub type Restarts = (&'static str, String, &'static str);

/// State of a role at a scrape; gauges are set from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gauges {
    /// Keys that are ready to run.
    pub queue_ready: usize,
    /// Keys added since the start.
    pub queue_added: u64,
    /// Keys whose last reconcile failed.
    pub keys_in_backoff: usize,
    /// Quarantined objects by kind and reason.
    pub quarantined: BTreeMap<(String, &'static str), usize>,
    /// Planes by state: `connected`, `syncing`, `backoff`, `unauthorized`.
    pub planes: BTreeMap<&'static str, usize>,
    /// Longest time since an event of a plane, by the plane's state.
    pub last_event_age: BTreeMap<&'static str, Duration>,
    /// Objects in the index by kind of plane and resource.
    pub cached: BTreeMap<(&'static str, String), usize>,
    /// UIDs of objects that are being deleted. Never exposed; they give the age of the oldest deletion.
    pub deleting: BTreeSet<Arc<str>>,
    /// Number of failures of the present watches.
    pub watch_restarts: BTreeMap<Restarts, u64>,
    /// Objects on the hub without an origin.
    pub orphans: usize,
    /// Rejected claims on hub namespaces of another project.
    pub rejected_claims: usize,
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

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rows: Vec<Row>,
    /// The clients' metrics.
    pub client: ClientMetrics,
    turns: ReconcileMetrics,
    queue: QueueFigures,
    federation: Federation,
    planes: Planes,
    leftovers: CleanupMetrics,
    cells: Cells,
    under_way: Mutex<BTreeMap<u64, Instant>>,
    deletions: Mutex<BTreeMap<Arc<str>, Instant>>,
    restarts_seen: Mutex<BTreeMap<Restarts, u64>>,
    next_reconcile: AtomicU64,
    queue_name: &'static str,
}

/// Name of the gateway's queue in the workqueue metrics.
const GATEWAY_QUEUE: &str = "gateway";

fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Metrics {
    /// All metrics of the gateway, registered.
    pub fn new() -> Result<Arc<Self>, prometheus::Error> {
        Self::of(GATEWAY_QUEUE)
    }

    /// As `new`, for a role whose queue has this name.
    pub fn of(queue: &'static str) -> Result<Arc<Self>, prometheus::Error> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let mut r = Registrar {
            registry: &registry,
            rows: Vec::new(),
        };
        let client = ClientMetrics::register(&mut r)?;
        let build = r.gauges(
            "fedgate_build_info",
            &["version"],
            "Always 1; the version is a label.",
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Self {
            client,
            turns: ReconcileMetrics::register(&mut r)?,
            queue: QueueFigures::register(&mut r)?,
            federation: Federation::register(&mut r)?,
            planes: Planes::register(&mut r)?,
            leftovers: CleanupMetrics::register(&mut r)?,
            cells: Cells::register(&mut r)?,
            rows: std::mem::take(&mut r.rows),
            under_way: Mutex::default(),
            deletions: Mutex::default(),
            restarts_seen: Mutex::default(),
            next_reconcile: AtomicU64::new(0),
            queue_name: queue,
            registry: registry.clone(),
        };
        Ok(Arc::new(metrics))
    }

    /// A controller starts to reconcile a key that has waited this long.
    pub fn reconcile(self: &Arc<Self>, controller: &'static str, waited: Duration) -> ReconcileTimer {
        let (number, began) = (
            self.next_reconcile.fetch_add(1, Ordering::Relaxed),
            Instant::now(),
        );
        self.under_way.lock().insert(number, began);
        self.queue
            .waited
            .with_label_values(&[self.queue_name])
            .observe(waited.as_secs_f64());
        ReconcileTimer {
            metrics: self.clone(),
            controller,
            number,
            began,
            result: ReconcileResult::Error,
        }
    }

    /// Counts a write. `kind` and `reason` are words of the program, never of a tenant.
    pub fn wrote(&self, plane: PlaneKind, kind: &str, reason: &'static str) {
        self.federation
            .writes
            .with_label_values(&[plane.as_str(), kind, reason])
            .inc();
    }

    /// Records the time between two planes.
    pub fn federated(&self, stage: Stage, took: Duration) {
        self.federation
            .seconds
            .with_label_values(&[stage.as_str()])
            .observe(took.as_secs_f64());
    }

    /// Counts a write that was repeated within a minute: another client changes it back.
    pub fn write_fight(&self, kind: &str, field_group: &'static str) {
        self.federation
            .fights
            .with_label_values(&[kind, field_group])
            .inc();
    }

    /// Counts a plane that was restored to an older state.
    pub fn rewound(&self, plane: PlaneKind) {
        self.planes.rewinds.with_label_values(&[plane.as_str()]).inc();
    }

    /// Counts an object that claims an identity that is not its own.
    pub fn identity_rejected(&self, reason: &'static str) {
        self.federation.rejections.with_label_values(&[reason]).inc();
    }

    /// Counts a claim of a deleted Instance that cannot be released.
    pub fn claim_orphaned(&self, reason: &'static str) {
        self.cells.orphaned.with_label_values(&[reason]).inc();
    }

    /// Counts a release that is abandoned or not recorded.
    pub fn release_dropped(&self, reason: &'static str) {
        self.cells.dropped.with_label_values(&[reason]).inc();
    }

    /// Sets whether this replica holds the Lease `name`.
    pub fn leading(&self, name: &str, leads: bool) {
        self.planes
            .leader
            .with_label_values(&[name])
            .set(i64::from(leads));
    }

    /// The text of a scrape.
    pub fn render(&self, figures: &Gauges) -> Result<String, prometheus::Error> {
        self.set(figures);
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn set(&self, figures: &Gauges) {
        self.queue
            .depth
            .with_label_values(&[self.queue_name])
            .set(integer(figures.queue_ready));
        let adds = self.queue.adds.with_label_values(&[self.queue_name]);
        adds.inc_by(figures.queue_added.saturating_sub(adds.get()));
        self.federation.backoff.set(integer(figures.keys_in_backoff));
        for (vector, counts) in [(&self.planes.states, &figures.planes)] {
            vector.reset();
            for (label, count) in counts {
                vector.with_label_values(&[label]).set(integer(*count));
            }
        }
        self.planes.last_event.reset();
        for (state, age) in &figures.last_event_age {
            self.planes
                .last_event
                .with_label_values(&[state])
                .set(age.as_secs_f64());
        }
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
        self.planes.cached.reset();
        for ((plane, kind), count) in &figures.cached {
            self.planes
                .cached
                .with_label_values(&[*plane, kind.as_str()])
                .set(integer(*count));
        }
        self.leftovers.pending.set(integer(figures.deleting.len()));
        self.leftovers
            .oldest_pending
            .set(self.oldest_deletion(&figures.deleting).as_secs_f64());
        self.count_restarts(&figures.watch_restarts);
        self.federation.claims.set(integer(figures.rejected_claims));
        self.planes.delayed.set(integer(figures.delayed_hub_writes));
        self.leftovers.orphans.set(integer(figures.orphans));
        self.leftovers.drift.set(integer(figures.interpreter_drift));
        self.leftovers.brake.set(i64::from(figures.garbage_brake));
        self.cells.unverified.set(integer(figures.quota_unverified));
        self.cells.records.set(integer(figures.release_records));
        let ages: Vec<f64> = self
            .under_way
            .lock()
            .values()
            .map(|began| began.elapsed().as_secs_f64())
            .collect();
        self.turns
            .unfinished
            .with_label_values(&[self.queue_name])
            .set(ages.iter().copied().fold(0.0, |sum, age| sum + age));
        self.turns
            .longest
            .with_label_values(&[self.queue_name])
            .set(ages.iter().copied().fold(0.0, f64::max));
    }

    /// Age of the oldest deletion, counted from the first scrape that saw it.
    fn oldest_deletion(&self, deleting: &BTreeSet<Arc<str>>) -> Duration {
        let mut seen = self.deletions.lock();
        seen.retain(|uid, _| deleting.contains(uid));
        for uid in deleting {
            seen.entry(uid.clone()).or_insert_with(Instant::now);
        }
        seen.values().map(Instant::elapsed).max().unwrap_or_default()
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

    /// The metrics as a Markdown table, for the README.
    pub fn markdown(&self) -> String {
        let ours = self.rows.iter().map(|row| {
            let labels: Vec<_> = row.labels.iter().map(|l| format!("`{l}`")).collect();
            (
                row.name.to_owned(),
                row.kind,
                labels.join(", "),
                row.help.to_owned(),
            )
        });
        let process = ProcessCollector::for_self();
        let process = process.desc().into_iter().map(|desc| {
            let kind = if desc.fq_name.ends_with("_total") {
                "counter"
            } else {
                "gauge"
            };
            (desc.fq_name.clone(), kind, String::new(), desc.help.clone())
        });
        let mut rows: Vec<_> = ours.chain(process).collect();
        rows.sort();
        let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
        for (name, kind, labels, help) in rows {
            let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {help} |");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_appear_and_vanish_with_what_they_count() {
        let metrics = Metrics::new().unwrap();
        let mut figures = Gauges {
            garbage_brake: true,
            ..Gauges::default()
        };
        figures
            .quarantined
            .insert(("Instance".to_owned(), "owner_mismatch"), 2);
        let text = metrics.render(&figures).unwrap();
        assert!(text.contains("fedgate_quarantined_objects{kind=\"Instance\",reason=\"owner_mismatch\"} 2"));
        assert!(text.contains("compute_federation_quarantined_objects{reason=\"owner_mismatch\"} 2"));
        assert!(text.contains("fedgate_garbage_brake 1"));
        assert!(
            text.contains("fedgate_build_info{version=") && text.contains("process_resident_memory_bytes")
        );
        assert!(
            !metrics
                .render(&Gauges::default())
                .unwrap()
                .contains("owner_mismatch")
        );
    }

    #[test]
    fn a_turn_is_counted_by_its_result_also_when_it_is_lost() {
        let metrics = Metrics::new().unwrap();
        metrics
            .reconcile("federator", Duration::ZERO)
            .end(ReconcileResult::Success, false);
        metrics
            .reconcile("federator", Duration::ZERO)
            .end(ReconcileResult::Success, true);
        let lost = metrics.reconcile("federator", Duration::ZERO);
        assert!(
            metrics
                .render(&Gauges::default())
                .unwrap()
                .contains("workqueue_longest_running_processor_seconds{")
        );
        drop(lost);
        let text = metrics.render(&Gauges::default()).unwrap();
        assert!(
            text.contains(
                "controller_runtime_reconcile_total{controller=\"federator\",result=\"success\"} 2"
            )
        );
        assert!(text.contains("fedgate_noop_reconciles_total{controller=\"federator\"} 1"));
        assert!(text.contains("controller_runtime_reconcile_errors_total{controller=\"federator\"} 1"));
        assert!(text.contains("workqueue_unfinished_work_seconds{name=\"gateway\"} 0"));
    }

    #[test]
    fn the_table_names_every_metric_once() {
        let table = Metrics::new().unwrap().markdown();
        assert_eq!(table.matches("`fedgate_writes_total`").count(), 1);
        assert!(table.lines().count() > 25, "{table}");
    }

    #[test]
    fn restarts_only_grow_and_a_deletion_ages_until_it_is_over() {
        let metrics = Metrics::new().unwrap();
        let mut figures = Gauges::default();
        let key = ("project", "instances".to_owned(), "error");
        for (total, shown) in [(2, 2), (1, 2), (4, 5)] {
            figures.watch_restarts.insert(key.clone(), total);
            let text = metrics.render(&figures).unwrap();
            let line = format!("cause=\"error\",kind=\"instances\",plane=\"project\"}} {shown}");
            assert!(text.contains(&line), "{shown}: {text}");
        }
        figures.deleting.insert("uid".into());
        metrics.render(&figures).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let text = metrics.render(&figures).unwrap();
        assert!(text.contains("fedgate_pending_deletions 1") && !text.contains("uid"));
        assert!(!text.contains("fedgate_oldest_pending_deletion_seconds 0\n"));
        let over = metrics.render(&Gauges::default()).unwrap();
        assert!(over.contains("fedgate_oldest_pending_deletion_seconds 0\n"));
    }
}
