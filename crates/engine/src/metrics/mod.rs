//! Metrics: one registry, closed label sets, controller-runtime's names where those exist. No label holds a name of
//! a tenant or of an object; a plane is identified by its kind alone.

mod closed;
mod families;
mod gauges;
mod process;
mod reconcile;

pub use closed::{ClosedLabels, Holder, PlaneKind, ReconcileResult, Stage};
pub use families::{Families, Family, Measure};
pub use gauges::Gauges;
pub use process::Build;
pub use reconcile::ReconcileTimer;

use families::{FamilyRow, Kind};
use gauges::Values;
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder, core::Collector, process_collector::ProcessCollector};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Write,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// One row of the table of metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The metric's name.
    pub name: Cow<'static, str>,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Labels of the family.
    pub labels: &'static [&'static str],
    /// Meaning of the family.
    pub help: Cow<'static, str>,
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The families, which clients of planes count in too.
    pub families: Families,
    /// Values of gauges in a scrape that does not mention them.
    defaults: Mutex<Values>,
    under_way: Mutex<BTreeMap<u64, (&'static str, Instant)>>,
    next_reconcile: AtomicU64,
    queue_name: &'static str,
}

impl Deref for Metrics {
    type Target = Families;

    fn deref(&self) -> &Families {
        &self.families
    }
}

/// Name of the gateway's queue in the workqueue metrics.
const GATEWAY_QUEUE: &str = "gateway";

impl Metrics {
    /// All metrics of the gateway, registered.
    pub fn new() -> Result<Arc<Self>, prometheus::Error> {
        Self::of(GATEWAY_QUEUE)
    }

    /// As `new`, for a role whose queue has this name.
    pub fn of(queue_name: &'static str) -> Result<Arc<Self>, prometheus::Error> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(Arc::new(Self {
            families: Families::new(&registry)?,
            registry,
            defaults: Mutex::default(),
            under_way: Mutex::default(),
            next_reconcile: AtomicU64::new(0),
            queue_name,
        }))
    }

    /// A controller starts to reconcile a key that has waited this long.
    pub fn reconcile(self: &Arc<Self>, controller: &'static str, waited: Duration) -> ReconcileTimer {
        let (number, began) = (
            self.next_reconcile.fetch_add(1, Ordering::Relaxed),
            Instant::now(),
        );
        self.under_way.lock().insert(number, (controller, began));
        self.observe(Family::QueueWait, &[self.queue_name], waited);
        ReconcileTimer {
            metrics: self.clone(),
            controller,
            number,
            began,
            result: ReconcileResult::Error,
        }
    }

    /// The text of a scrape.
    pub fn render(&self, figures: &Gauges) -> Result<String, prometheus::Error> {
        self.scrape(figures);
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
        let own = Family::ALL.iter().map(|family| {
            let FamilyRow {
                kind,
                name,
                labels,
                help,
            } = family.row();
            Row {
                name: (*name).into(),
                kind: match kind {
                    Kind::Counter => "counter",
                    Kind::Gauge | Kind::Scraped => "gauge",
                    Kind::Histogram(..) => "histogram",
                },
                labels,
                help: (*help).into(),
            }
        });
        let mut rows: Vec<Row> = own.chain(process).collect();
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
        let mut figures = Gauges::default();
        figures.set(Family::GarbageBrake, &[], true);
        figures.set(Family::Quarantined, &["Instance", "owner_mismatch"], 2_usize);
        figures.set(Family::QuarantinedAlias, &["owner_mismatch"], 2_usize);
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
    fn a_deletion_ages_until_it_is_over() {
        let metrics = Metrics::new().unwrap();
        let mut figures = Gauges::default();
        figures.set(Family::PendingDeletions, &[], 1_usize);
        figures.set(Family::OldestPendingDeletion, &[], Duration::from_secs(1_260));
        let text = metrics.render(&figures).unwrap();
        assert!(text.contains("fedgate_pending_deletions 1\n"));
        assert!(text.contains("fedgate_oldest_pending_deletion_seconds 1260\n"));
        let over = metrics.render(&Gauges::default()).unwrap();
        assert!(over.contains("fedgate_oldest_pending_deletion_seconds 0\n"));
    }
}
