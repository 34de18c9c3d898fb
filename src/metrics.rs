//! Metrics: one registry, closed label sets, controller-runtime's names where those exist. No label ever holds a name
//! of a tenant or an object; a plane is told by its kind alone.

mod client;
mod registrar;
mod turn;

pub use client::{ClientMetrics, PlaneKind, Stage};
pub use registrar::Row;
pub use turn::{Measurement, TurnResult};

use parking_lot::Mutex;
use prometheus::{
    Gauge, GaugeVec, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
    core::Collector, process_collector::ProcessCollector,
};
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

/// What restarts of watches are counted by: kind of plane, resource, cause (`gone` or `error`).
pub type Restarts = (&'static str, String, &'static str);

/// What the gateway can count of its state when it is asked; gauges are set from it at each scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Keys that could run now.
    pub queue_ready: usize,
    /// Keys put in so far.
    pub queue_added: u64,
    /// Keys that failed at their last turn.
    pub keys_in_backoff: usize,
    /// Quarantined objects by kind and reason.
    pub quarantined: BTreeMap<(String, &'static str), usize>,
    /// Planes by state: `connected`, `syncing`, `backoff`, `unauthorized`.
    pub planes: BTreeMap<&'static str, usize>,
    /// Longest time since an event of a plane, by the plane's state.
    pub last_event_age: BTreeMap<&'static str, Duration>,
    /// Objects in the index by kind of plane and resource.
    pub cached: BTreeMap<(&'static str, String), usize>,
    /// UIDs of the objects whose deletion is under way. Never shown; they tell how long it has been.
    pub deleting: BTreeSet<Arc<str>>,
    /// How often watches failed and began again, over the watches there are now.
    pub watch_restarts: BTreeMap<Restarts, u64>,
    /// Objects on the hub without an origin.
    pub orphans: usize,
    /// Whether the sweep stopped because it would have deleted too much.
    pub garbage_brake: bool,
    /// Interpreters that differ from ours or rival them.
    pub interpreter_drift: usize,
}

/// All figures of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rows: Vec<Row>,
    /// The clients' figures.
    pub client: ClientMetrics,
    reconciles: IntCounterVec,
    reconcile_errors: IntCounterVec,
    reconcile_seconds: HistogramVec,
    noops: IntCounterVec,
    queue_depth: IntGaugeVec,
    queue_adds: IntCounterVec,
    queue_seconds: HistogramVec,
    work_seconds: HistogramVec,
    retries: IntCounterVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    leader: IntGaugeVec,
    federation: HistogramVec,
    writes: IntCounterVec,
    quarantined: IntGaugeVec,
    quarantined_alias: IntGaugeVec,
    backoff: IntGauge,
    planes: IntGaugeVec,
    last_event: GaugeVec,
    watch_restarts: IntCounterVec,
    cached: IntGaugeVec,
    pending: IntGauge,
    oldest_pending: Gauge,
    orphans: IntGauge,
    fights: IntCounterVec,
    rejections: IntCounterVec,
    drift: IntGauge,
    brake: IntGauge,
    under_way: Mutex<BTreeMap<u64, Instant>>,
    deletions: Mutex<BTreeMap<Arc<str>, Instant>>,
    restarts_seen: Mutex<BTreeMap<Restarts, u64>>,
    next_turn: AtomicU64,
}

/// Name of the one queue in the workqueue metrics.
const QUEUE: &str = "gateway";

fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Metrics {
    /// All metrics of the gateway, registered.
    #[expect(clippy::too_many_lines, reason = "one entry per metric")]
    pub fn new() -> Result<Arc<Self>, prometheus::Error> {
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
            reconciles: r.counters(
                "controller_runtime_reconcile_total",
                &["controller", "result"],
                "Turns of controllers.",
            )?,
            reconcile_errors: r.counters(
                "controller_runtime_reconcile_errors_total",
                &["controller"],
                "Turns that failed.",
            )?,
            reconcile_seconds: r.seconds(
                "controller_runtime_reconcile_time_seconds",
                &["controller"],
                "Time of a turn.",
            )?,
            noops: r.counters(
                "fedgate_noop_reconciles_total",
                &["controller"],
                "Turns that had nothing to write.",
            )?,
            queue_depth: r.gauges("workqueue_depth", &["name"], "Keys that could run now.")?,
            queue_adds: r.counters("workqueue_adds_total", &["name"], "Keys put into the queue.")?,
            queue_seconds: r.seconds(
                "workqueue_queue_duration_seconds",
                &["name"],
                "Time a key waited for a worker.",
            )?,
            work_seconds: r.seconds(
                "workqueue_work_duration_seconds",
                &["name"],
                "Time a worker took for a key.",
            )?,
            retries: r.counters(
                "workqueue_retries_total",
                &["name"],
                "Keys put back after a failure.",
            )?,
            unfinished: r.seconds_gauges(
                "workqueue_unfinished_work_seconds",
                &["name"],
                "Sum of the ages of all turns under way.",
            )?,
            longest: r.seconds_gauges(
                "workqueue_longest_running_processor_seconds",
                &["name"],
                "Age of the oldest turn under way.",
            )?,
            leader: r.gauges(
                "leader_election_master_status",
                &["name"],
                "1 while this replica may write.",
            )?,
            federation: r.seconds(
                "fedgate_federation_seconds",
                &["stage"],
                "Time from an event on one plane to its write on the other.",
            )?,
            writes: r.counters(
                "fedgate_writes_total",
                &["plane", "kind", "reason"],
                "Writes, each with its reason.",
            )?,
            quarantined: r.gauges(
                "fedgate_quarantined_objects",
                &["kind", "reason"],
                "Objects that are refused as they are.",
            )?,
            quarantined_alias: r.gauges(
                "compute_federation_quarantined_objects",
                &["reason"],
                "The same under the name that datum-cloud/compute gives it.",
            )?,
            backoff: r.gauge("fedgate_keys_in_backoff", "Keys that failed at their last turn.")?,
            planes: r.gauges(
                "fedgate_planes",
                &["state"],
                "Planes: connected, syncing, backoff or unauthorized.",
            )?,
            last_event: r.seconds_gauges(
                "fedgate_plane_last_event_age_seconds",
                &["state"],
                "Longest silence of a plane in this state.",
            )?,
            watch_restarts: r.counters(
                "fedgate_watch_restarts_total",
                &["plane", "kind", "cause"],
                "Watches begun again after a failure: gone (410) or error.",
            )?,
            cached: r.gauges(
                "fedgate_cache_objects",
                &["plane", "kind"],
                "Objects in the index.",
            )?,
            pending: r.gauge("fedgate_pending_deletions", "Deployments being deleted.")?,
            oldest_pending: r.seconds_gauge(
                "fedgate_oldest_pending_deletion_seconds",
                "Age of the oldest deletion under way.",
            )?,
            orphans: r.gauge(
                "fedgate_orphan_hub_objects",
                "Objects on the hub whose origin is gone.",
            )?,
            fights: r.counters(
                "fedgate_write_fights_total",
                &["kind", "field_group"],
                "Writes of what was written before and someone changed back within a minute.",
            )?,
            rejections: r.counters(
                "fedgate_identity_rejections_total",
                &["reason"],
                "Objects whose identity labels contradict their namespace.",
            )?,
            drift: r.gauge(
                "fedgate_interpreter_drift",
                "Interpreters that differ from ours or rival them.",
            )?,
            brake: r.gauge(
                "fedgate_garbage_brake",
                "1 while orphaned copies are not deleted because there are too many of them.",
            )?,
            rows: std::mem::take(&mut r.rows),
            under_way: Mutex::default(),
            deletions: Mutex::default(),
            restarts_seen: Mutex::default(),
            next_turn: AtomicU64::new(0),
            registry: registry.clone(),
        };
        Ok(Arc::new(metrics))
    }

    /// A controller begins a turn with a key that has waited this long.
    pub fn turn(self: &Arc<Self>, controller: &'static str, waited: Duration) -> Measurement {
        let (number, began) = (self.next_turn.fetch_add(1, Ordering::Relaxed), Instant::now());
        self.under_way.lock().insert(number, began);
        self.queue_seconds
            .with_label_values(&[QUEUE])
            .observe(waited.as_secs_f64());
        Measurement {
            metrics: self.clone(),
            controller,
            number,
            began,
            result: TurnResult::Error,
        }
    }

    /// A write was done. `kind` and `reason` are words of the program, never of a tenant.
    pub fn wrote(&self, plane: PlaneKind, kind: &str, reason: &'static str) {
        self.writes
            .with_label_values(&[plane.as_str(), kind, reason])
            .inc();
    }

    /// Something has crossed from one plane to the other.
    pub fn federated(&self, stage: Stage, took: Duration) {
        self.federation
            .with_label_values(&[stage.as_str()])
            .observe(took.as_secs_f64());
    }

    /// The same was written again within a minute: someone else changes it back.
    pub fn write_fight(&self, kind: &str, field_group: &'static str) {
        self.fights.with_label_values(&[kind, field_group]).inc();
    }

    /// An object claimed an identity that is not its own.
    pub fn identity_rejected(&self, reason: &'static str) {
        self.rejections.with_label_values(&[reason]).inc();
    }

    /// This replica holds the Lease `name`, or no longer does.
    pub fn leading(&self, name: &str, leads: bool) {
        self.leader.with_label_values(&[name]).set(i64::from(leads));
    }

    /// The text that a scrape gets.
    pub fn render(&self, figures: &Figures) -> Result<String, prometheus::Error> {
        self.set(figures);
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn set(&self, figures: &Figures) {
        self.queue_depth
            .with_label_values(&[QUEUE])
            .set(integer(figures.queue_ready));
        let adds = self.queue_adds.with_label_values(&[QUEUE]);
        adds.inc_by(figures.queue_added.saturating_sub(adds.get()));
        self.backoff.set(integer(figures.keys_in_backoff));
        for (vector, counts) in [(&self.planes, &figures.planes)] {
            vector.reset();
            for (label, count) in counts {
                vector.with_label_values(&[label]).set(integer(*count));
            }
        }
        self.last_event.reset();
        for (state, age) in &figures.last_event_age {
            self.last_event.with_label_values(&[state]).set(age.as_secs_f64());
        }
        // Without a reset, a class whose last object healed would keep its old number.
        self.quarantined.reset();
        self.quarantined_alias.reset();
        for ((kind, reason), count) in &figures.quarantined {
            self.quarantined
                .with_label_values(&[kind.as_str(), *reason])
                .set(integer(*count));
            self.quarantined_alias
                .with_label_values(&[reason])
                .add(integer(*count));
        }
        self.cached.reset();
        for ((plane, kind), count) in &figures.cached {
            self.cached
                .with_label_values(&[*plane, kind.as_str()])
                .set(integer(*count));
        }
        self.pending.set(integer(figures.deleting.len()));
        self.oldest_pending
            .set(self.oldest_deletion(&figures.deleting).as_secs_f64());
        self.count_restarts(&figures.watch_restarts);
        self.orphans.set(integer(figures.orphans));
        self.drift.set(integer(figures.interpreter_drift));
        self.brake.set(i64::from(figures.garbage_brake));
        let ages: Vec<f64> = self
            .under_way
            .lock()
            .values()
            .map(|began| began.elapsed().as_secs_f64())
            .collect();
        self.unfinished
            .with_label_values(&[QUEUE])
            .set(ages.iter().copied().fold(0.0, |sum, age| sum + age));
        self.longest
            .with_label_values(&[QUEUE])
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

    /// Adds what has come since the last scrape; a watch that is gone takes its number with it and is no decrease.
    fn count_restarts(&self, totals: &BTreeMap<Restarts, u64>) {
        let mut seen = self.restarts_seen.lock();
        for (key, total) in totals {
            let before = seen.get(key).copied().unwrap_or(0);
            let (plane, kind, cause) = key;
            let counter = self
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
        let mut figures = Figures {
            garbage_brake: true,
            ..Figures::default()
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
                .render(&Figures::default())
                .unwrap()
                .contains("owner_mismatch")
        );
    }

    #[test]
    fn a_turn_is_counted_by_its_result_also_when_it_is_lost() {
        let metrics = Metrics::new().unwrap();
        metrics
            .turn("federator", Duration::ZERO)
            .end(TurnResult::Success, false);
        metrics
            .turn("federator", Duration::ZERO)
            .end(TurnResult::Success, true);
        let lost = metrics.turn("federator", Duration::ZERO);
        assert!(
            metrics
                .render(&Figures::default())
                .unwrap()
                .contains("workqueue_longest_running_processor_seconds{")
        );
        drop(lost);
        let text = metrics.render(&Figures::default()).unwrap();
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
        let mut figures = Figures::default();
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
        let over = metrics.render(&Figures::default()).unwrap();
        assert!(over.contains("fedgate_oldest_pending_deletion_seconds 0\n"));
    }
}
