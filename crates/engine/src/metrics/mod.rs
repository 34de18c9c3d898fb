//! Metrics: one registry, closed label sets, controller-runtime's names where those exist. No label holds a name of
//! a tenant or of an object; a plane is identified by its kind alone.

mod client;
mod closed;
mod families;
mod fleet;
mod gauges;
mod operations;
mod process;
mod reconcile;
mod registrar;

pub use client::{ClientMetrics, PlaneKind, Stage};
pub use closed::ClosedLabels;
pub use gauges::{Gauges, Restarts};
pub use process::Build;
pub use reconcile::{ReconcileResult, ReconcileTimer};
pub use registrar::Row;

use families::{
    Cells, CleanupMetrics, FailureMetrics, Federation, Planes, ProcessMetrics, QueueFigures, ReconcileMetrics,
};
use fleet::FleetMetrics;
pub use fleet::Holder;
use operations::OperationsMetrics;
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder, core::Collector, process_collector::ProcessCollector};
use registrar::Registrar;
use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

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
    fleet: FleetMetrics,
    leftovers: CleanupMetrics,
    cells: Cells,
    failures: FailureMetrics,
    process: ProcessMetrics,
    operations: OperationsMetrics,
    closed: Mutex<ClosedLabels>,
    under_way: Mutex<BTreeMap<u64, (&'static str, Instant)>>,
    restarts_seen: Mutex<BTreeMap<Restarts, u64>>,
    next_reconcile: AtomicU64,
    queue_name: &'static str,
}

/// Name of the gateway's queue in the workqueue metrics.
const GATEWAY_QUEUE: &str = "gateway";

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
        let metrics = Self {
            client,
            turns: ReconcileMetrics::register(&mut r)?,
            queue: QueueFigures::register(&mut r)?,
            federation: Federation::register(&mut r)?,
            planes: Planes::register(&mut r)?,
            fleet: FleetMetrics::register(&mut r)?,
            leftovers: CleanupMetrics::register(&mut r)?,
            cells: Cells::register(&mut r)?,
            failures: FailureMetrics::register(&mut r)?,
            process: ProcessMetrics::register(&mut r)?,
            operations: OperationsMetrics::register(&mut r)?,
            closed: Mutex::default(),
            rows: std::mem::take(&mut r.rows),
            under_way: Mutex::default(),
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
        self.under_way.lock().insert(number, (controller, began));
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

    /// Counts a reconcile that failed, by the plane that failed it.
    pub fn reconcile_failed(&self, controller: &'static str, plane: PlaneKind, category: &'static str) {
        let labels = [controller, plane.as_str(), category];
        self.failures.errors.with_label_values(&labels).inc();
    }

    /// Counts a reconcile that panicked.
    pub fn reconcile_panicked(&self, controller: &'static str) {
        self.turns.panics.with_label_values(&[controller]).inc();
    }

    /// Counts an object that a watch brought; `kind` is the resource, `event` is `applied` or `deleted`.
    pub fn watch_event(&self, plane: PlaneKind, kind: &str, event: &'static str) {
        let labels = [plane.as_str(), kind, event];
        self.planes.watch_events.with_label_values(&labels).inc();
    }

    /// Counts a plane that was restored to an older state.
    pub fn rewound(&self, plane: PlaneKind) {
        self.planes.rewinds.with_label_values(&[plane.as_str()]).inc();
    }

    /// Counts an object that claims an identity that is not its own.
    pub fn identity_rejected(&self, reason: &'static str) {
        self.federation.rejections.with_label_values(&[reason]).inc();
    }

    /// Counts an object whose deletion no longer waits for its member.
    pub fn member_abandoned(&self) {
        self.leftovers.abandoned.inc();
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

    /// All metrics, those of the process included, in order of name.
    pub fn rows(&self) -> Vec<Row> {
        let process = ProcessCollector::for_self();
        let process = process.desc().into_iter().map(|desc| Row {
            kind: if desc.fq_name.ends_with("_total") {
                "counter"
            } else {
                "gauge"
            },
            name: desc.fq_name.clone().into(),
            labels: &[],
            help: desc.help.clone().into(),
        });
        let mut rows: Vec<Row> = self.rows.iter().cloned().chain(process).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    /// The metrics as a Markdown table.
    pub fn markdown(&self) -> String {
        let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
        for Row {
            name,
            kind,
            labels,
            help,
        } in self.rows()
        {
            let labels: Vec<_> = labels.iter().map(|l| format!("`{l}`")).collect();
            let labels = labels.join(", ");
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
        assert!(text.contains("process_resident_memory_bytes"));
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
        figures.deleting = 1;
        figures.oldest_deletion = Duration::from_secs(1_260);
        let text = metrics.render(&figures).unwrap();
        assert!(text.contains("fedgate_pending_deletions 1\n"));
        assert!(text.contains("fedgate_oldest_pending_deletion_seconds 1260\n"));
        let over = metrics.render(&Gauges::default()).unwrap();
        assert!(over.contains("fedgate_oldest_pending_deletion_seconds 0\n"));
    }
}
