//! The metric families, a row each: kind, name, labels and meaning.

use prometheus::{
    Error, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, core::Collector,
};
use std::{sync::Arc, time::Duration};

/// Kind of a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// A counter.
    Counter,
    /// A gauge that is set when its value changes.
    Gauge,
    /// A gauge that each scrape sets anew.
    Scraped,
    /// A histogram of seconds: the end of its first bucket, and the number of buckets, each twice as wide as the one before.
    Histogram(f64, usize),
}

/// A histogram from 1 ms to 32 s.
const SECONDS: Kind = Kind::Histogram(0.001, 16);
/// A histogram from 50 µs to 51 ms.
const SHORT: Kind = Kind::Histogram(0.000_05, 11);

/// A row of the table.
pub(super) struct FamilyRow {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

/// Declares the families, and the table of their rows in the same order.
macro_rules! families {
    ($($kind:ident $family:ident $name:literal [$($label:literal),*] $help:literal)+) => {
        /// A metric family.
        #[allow(clippy::doc_markdown, reason = "help texts are plain text")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Family {
            $(#[doc = $help] $family,)+
        }

        impl Family {
            /// All of them.
            pub(super) const ALL: &[Self] = &[$(Self::$family),+];
        }

        static ROWS: &[FamilyRow] = &[
            $(FamilyRow { kind: $kind, name: $name, labels: &[$($label),*], help: $help }),+
        ];
    };
}

use Kind::{Counter, Gauge, Scraped};
families! {
    Counter Requests "rest_client_requests_total" ["code", "method", "host"]
        "Requests to API servers; host is the kind of plane."
    SECONDS RequestSeconds "rest_client_request_duration_seconds" ["verb", "host"]
        "Time a request took; of a watch, until its headers came."
    Counter ApiRequests "fedgate_api_requests_total" ["plane", "verb", "kind", "code"] "Requests to API servers by resource."

    Counter Reconciles "controller_runtime_reconcile_total" ["controller", "result"] "Reconciles."
    Counter ReconcileErrors "controller_runtime_reconcile_errors_total" ["controller"] "Reconciles that failed."
    SECONDS ReconcileSeconds "controller_runtime_reconcile_time_seconds" ["controller"] "Time of a reconcile."
    Counter IdleReconciles "fedgate_noop_reconciles_total" ["controller"] "Reconciles that had nothing to write."
    Scraped UnfinishedWork "workqueue_unfinished_work_seconds" ["name"] "Sum of the ages of all reconciles under way."
    Scraped LongestReconcile "workqueue_longest_running_processor_seconds" ["name"] "Age of the oldest reconcile under way."
    Scraped ActiveWorkers "controller_runtime_active_workers" ["controller"] "Reconciles under way."
    Gauge MaxReconciles "controller_runtime_max_concurrent_reconciles" ["controller"]
        "Most reconciles at a time, of all controllers together."
    Counter Panics "controller_runtime_reconcile_panics_total" ["controller"] "Reconciles that panicked."

    Scraped QueueDepth "workqueue_depth" ["name"] "Keys that could run now."
    Counter QueueAdds "workqueue_adds_total" ["name"] "Keys put into the queue."
    SECONDS QueueWait "workqueue_queue_duration_seconds" ["name"] "Time a key waited for a worker."
    SECONDS QueueWork "workqueue_work_duration_seconds" ["name"] "Time a worker took for a key."
    Counter QueueRetries "workqueue_retries_total" ["name"] "Keys put back after a failure."

    SECONDS FederationSeconds "fedgate_federation_seconds" ["stage"]
        "Time from an event on one plane to its write on the other."
    Counter Writes "fedgate_writes_total" ["plane", "kind", "reason"] "Writes, each with its reason."
    Counter WriteFights "fedgate_write_fights_total" ["kind", "field_group"]
        "Writes of what was written before and someone changed back within a minute."
    Counter IdentityRejections "fedgate_identity_rejections_total" ["reason"]
        "Objects and namespaces that claim an identity that is not their own."
    Scraped RejectedClaims "fedgate_rejected_claims" [] "Project namespaces whose hub namespace is another project's."
    Scraped UnlabelledWriteBacks "fedgate_unlabelled_write_backs" []
        "Instances on the hub without a label that names their deployment: their names less the ordinal do."
    Scraped CopiesWithoutPlace "fedgate_copies_without_place" ["field"]
        "Copies on the hub whose spec lacks a field that names their place: cityCode or locationRef."
    Scraped Quarantined "fedgate_quarantined_objects" ["kind", "reason"] "Objects that are refused as they are."
    Scraped QuarantinedAlias "compute_federation_quarantined_objects" ["reason"]
        "The same under the name that datum-cloud/compute gives it."

    Scraped KeysInBackoff "fedgate_keys_in_backoff" ["controller", "category"] "Keys whose last reconcile failed."
    Scraped StuckKeys "fedgate_stuck_keys" ["controller", "category"]
        "Keys that have failed for more than 60 s; refused objects are in fedgate_quarantined_objects."
    Scraped OldestStuckKey "fedgate_oldest_stuck_key_seconds" [] "Age of the oldest failure that lasts; 0 if none does."
    Counter FailedReconciles "fedgate_reconcile_errors_total" ["controller", "plane", "category"]
        "Reconciles that failed, by the plane that failed them."
    Scraped Failures "fedgate_failures" [] "Last errors that are kept."
    Counter FailuresDropped "fedgate_failures_dropped_total" [] "Last errors that gave way to older ones."

    Gauge Build "fedgate_build_info" ["version", "revision", "rustc"] "Always 1; what was built is in the labels."
    Scraped MemoryLimit "fedgate_memory_limit_bytes" []
        "Memory that the process may use, by its control group; +Inf without a limit."

    Gauge Leader "leader_election_master_status" ["name"] "1 while this replica may write."
    Scraped Planes "fedgate_planes" ["plane", "state"]
        "Planes by kind and state: connected, syncing, backoff or unauthorized."
    Scraped LastEventAge "fedgate_plane_last_event_age_seconds" ["plane", "state"]
        "Longest silence of a plane of this kind in this state."
    Counter WatchRestarts "fedgate_watch_restarts_total" ["plane", "kind", "cause"]
        "Watches begun again after a failure: gone (410) or error. One that ends by its time limit or by \
         silence is begun again uncounted: there is no cause timeout."
    Scraped Projects "fedgate_projects" ["state"]
        "Projects by state: engaged, refused because of their kubeconfig, or other_hub: engaged, with deployments \
         that name another hub."
    Counter WatchEvents "fedgate_watch_events_total" ["plane", "kind", "type"]
        "Objects that watches brought, lists aside: applied or deleted."
    Scraped CachedObjects "fedgate_cache_objects" ["plane", "kind"] "Objects in the index."
    Scraped DelayedHubWrites "fedgate_delayed_hub_writes" []
        "Copies and companions that wait for the rate limit of the hub."
    Counter Rewinds "fedgate_plane_rewinds_total" ["plane"]
        "Planes, hub or project, that were found restored to an older state."

    Scraped Undelivered "fedgate_undelivered_objects" ["stage"] "Objects that are not yet where they are to go."
    Scraped OldestUndelivered "fedgate_oldest_undelivered_seconds" ["stage"]
        "Age of the oldest of these; 0 if there is none."
    Scraped FederatedObjects "fedgate_federated_objects" ["kind", "status", "reason"]
        "Federated objects by status and reason of their condition Federated; None while they have none."
    Scraped ReportedInstances "fedgate_reported_instances" ["state"]
        "Instances as deployments report them: desired, existing, ready, updated."
    Scraped Cells "fedgate_cells" ["state"] "Karmada Clusters by state: ready, draining, not_ready, unlabelled or leaving."
    Scraped CellObjects "fedgate_cell_objects" ["phase"] "Cells of the role provisioner by phase."
    Scraped Credentials "fedgate_credentials" ["plane", "expiry"]
        "Credentials by the time left: expired, day, week, later, or unknown."
    Scraped CredentialExpiry "fedgate_credential_expiry_timestamp_seconds" ["plane"]
        "Earliest end of a credential of this kind of plane, in seconds since the epoch; +Inf where none is known."
    SHORT IndexLock "fedgate_index_lock_seconds" ["holder"]
        "Time for which the index was held at a time: by operations or metrics."

    Scraped PendingDeletions "fedgate_pending_deletions" [] "Deployments being deleted."
    Scraped OldestPendingDeletion "fedgate_oldest_pending_deletion_seconds" []
        "Age of the oldest deletion under way, from its deletionTimestamp."
    Scraped Orphans "fedgate_orphan_hub_objects" [] "Objects on the hub whose origin is gone."
    Counter CellMoves "fedgate_cell_moves_total" ["outcome"]
        "Moves of deployments from cell to cell that have ended: completed or cancelled."
    Scraped MovesHeld "fedgate_moves_held" []
        "1 while the deployments of a lost cell do not move, because too many cells are not ready."
    Counter MembersAbandoned "fedgate_members_abandoned_total" []
        "Deleted objects that wait for their member no longer, because their annotation says so."
    Scraped InterpreterDrift "fedgate_interpreter_drift" []
        "Interpreters that differ from ours, or are a second one for a kind."
    Scraped GarbageBrake "fedgate_garbage_brake" []
        "1 while orphaned copies or the projections of vanished write-backs are not deleted because there are too many of them."

    Scraped QuotaUnverified "fedgate_quota_unverified_instances" []
        "Instances that were granted quota and whose claim cannot be seen as granted now."
    Counter ClaimsOrphaned "fedgate_quota_claims_orphaned_total" ["reason"]
        "Claims of quota that could not be released: their Namespace names no project (identity)."
    Scraped ReleaseRecords "fedgate_release_records" [] "Instances of which something is still to be released at another plane."
    Counter ReleasesDropped "fedgate_release_records_dropped_total" ["reason"]
        "Releases that were given up: the plane gave no answer for a week (expired), or too many are recorded (full)."

    Counter OperationsRequests "fedgate_operations_requests_total" ["path", "code"]
        "Requests to the operations API; other stands for paths that do not exist."
    SECONDS OperationsSeconds "fedgate_operations_request_duration_seconds" ["path"]
        "Time a request to the operations API took; of a stream, until its headers were sent."
    Gauge OperationsStreams "fedgate_operations_streams" [] "Event streams that are open."
}

impl Family {
    pub(super) fn row(self) -> &'static FamilyRow {
        &ROWS[self as usize]
    }
}

/// The value of a gauge.
pub trait Measure {
    /// The value as Prometheus stores it.
    fn measure(self) -> f64;
}

/// Counts are exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
mod counts {
    impl super::Measure for usize {
        fn measure(self) -> f64 {
            self as f64
        }
    }

    impl super::Measure for u64 {
        fn measure(self) -> f64 {
            self as f64
        }
    }
}

impl Measure for f64 {
    fn measure(self) -> f64 {
        self
    }
}

impl Measure for bool {
    fn measure(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl Measure for Duration {
    fn measure(self) -> f64 {
        self.as_secs_f64()
    }
}

#[derive(Debug)]
enum Registered {
    Counter(IntCounterVec),
    Gauge(GaugeVec),
    Histogram(HistogramVec),
}

/// All families of a registry; clones share them.
#[derive(Debug, Clone)]
pub struct Families(Arc<[Registered]>);

impl Families {
    /// Registers all families. Those without labels begin at 0.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let all: Result<Arc<[_]>, Error> = ROWS.iter().map(|row| register(registry, row)).collect();
        let families = Self(all?);
        for family in Family::ALL.iter().filter(|family| family.row().labels.is_empty()) {
            families.begin(*family, &[]);
        }
        Ok(families)
    }

    /// Lets the value with these labels begin at 0: a rate misses the first increase of a counter that appears with it.
    pub fn begin(&self, family: Family, labels: &[&str]) {
        match &self.0[family as usize] {
            Registered::Counter(counter) => drop(counter.with_label_values(labels)),
            Registered::Gauge(gauge) => drop(gauge.with_label_values(labels)),
            Registered::Histogram(histogram) => drop(histogram.with_label_values(labels)),
        }
    }

    /// Adds 1 to a counter.
    pub fn count(&self, family: Family, labels: &[&str]) {
        if let Registered::Counter(counter) = &self.0[family as usize] {
            counter.with_label_values(labels).inc();
        }
    }

    /// Raises a counter to a total that is counted elsewhere.
    pub(super) fn count_up_to(&self, family: Family, labels: &[&str], total: u64) {
        if let Registered::Counter(counter) = &self.0[family as usize] {
            let counter = counter.with_label_values(labels);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// Records a time in a histogram.
    pub fn observe(&self, family: Family, labels: &[&str], took: Duration) {
        if let Registered::Histogram(histogram) = &self.0[family as usize] {
            histogram.with_label_values(labels).observe(took.as_secs_f64());
        }
    }

    /// Sets a gauge.
    pub fn set(&self, family: Family, labels: &[&str], value: impl Measure) {
        if let Registered::Gauge(gauge) = &self.0[family as usize] {
            gauge.with_label_values(labels).set(value.measure());
        }
    }

    /// Drops the values of all gauges that a scrape sets.
    pub(super) fn reset_scraped(&self) {
        for (row, family) in ROWS.iter().zip(&*self.0) {
            if let Registered::Gauge(gauge) = family
                && row.kind == Kind::Scraped
            {
                gauge.reset();
            }
        }
    }
}

fn register(registry: &Registry, row: &FamilyRow) -> Result<Registered, Error> {
    let FamilyRow {
        kind,
        name,
        labels,
        help,
    } = row;
    Ok(match kind {
        Kind::Counter => Registered::Counter(kept(
            registry,
            IntCounterVec::new(Opts::new(*name, *help), labels)?,
        )?),
        Kind::Gauge | Kind::Scraped => {
            Registered::Gauge(kept(registry, GaugeVec::new(Opts::new(*name, *help), labels)?)?)
        }
        Kind::Histogram(first, count) => {
            let buckets = prometheus::exponential_buckets(*first, 2.0, *count)?;
            let options = HistogramOpts::new(*name, *help).buckets(buckets);
            Registered::Histogram(kept(registry, HistogramVec::new(options, labels)?)?)
        }
    })
}

fn kept<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}
