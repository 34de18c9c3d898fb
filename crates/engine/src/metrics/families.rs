//! The metric families, each registered with name, labels and meaning.

use super::registrar::Registrar;
use prometheus::{Error, Gauge, GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

/// Reconciles of the controllers.
#[derive(Debug)]
pub(super) struct ReconcileMetrics {
    pub(super) results: IntCounterVec,
    pub(super) errors: IntCounterVec,
    pub(super) seconds: HistogramVec,
    pub(super) noops: IntCounterVec,
    pub(super) unfinished: GaugeVec,
    pub(super) longest: GaugeVec,
    pub(super) active: IntGaugeVec,
    pub(super) most: IntGaugeVec,
    pub(super) panics: IntCounterVec,
}

impl ReconcileMetrics {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            results: r.counters(
                "controller_runtime_reconcile_total",
                &["controller", "result"],
                "Reconciles.",
            )?,
            errors: r.counters(
                "controller_runtime_reconcile_errors_total",
                &["controller"],
                "Reconciles that failed.",
            )?,
            seconds: r.seconds(
                "controller_runtime_reconcile_time_seconds",
                &["controller"],
                "Time of a reconcile.",
            )?,
            noops: r.counters(
                "fedgate_noop_reconciles_total",
                &["controller"],
                "Reconciles that had nothing to write.",
            )?,
            unfinished: r.seconds_gauges(
                "workqueue_unfinished_work_seconds",
                &["name"],
                "Sum of the ages of all reconciles under way.",
            )?,
            longest: r.seconds_gauges(
                "workqueue_longest_running_processor_seconds",
                &["name"],
                "Age of the oldest reconcile under way.",
            )?,
            active: r.gauges(
                "controller_runtime_active_workers",
                &["controller"],
                "Reconciles under way.",
            )?,
            most: r.gauges(
                "controller_runtime_max_concurrent_reconciles",
                &["controller"],
                "Most reconciles at a time, of all controllers together.",
            )?,
            panics: r.counters(
                "controller_runtime_reconcile_panics_total",
                &["controller"],
                "Reconciles that panicked.",
            )?,
        })
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct QueueFigures {
    pub(super) depth: IntGaugeVec,
    pub(super) adds: IntCounterVec,
    pub(super) waited: HistogramVec,
    pub(super) worked: HistogramVec,
    pub(super) retries: IntCounterVec,
}

impl QueueFigures {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            depth: r.gauges("workqueue_depth", &["name"], "Keys that could run now.")?,
            adds: r.counters("workqueue_adds_total", &["name"], "Keys put into the queue.")?,
            waited: r.seconds(
                "workqueue_queue_duration_seconds",
                &["name"],
                "Time a key waited for a worker.",
            )?,
            worked: r.seconds(
                "workqueue_work_duration_seconds",
                &["name"],
                "Time a worker took for a key.",
            )?,
            retries: r.counters(
                "workqueue_retries_total",
                &["name"],
                "Keys put back after a failure.",
            )?,
        })
    }
}

/// Synced, written and rejected objects.
#[derive(Debug)]
pub(super) struct Federation {
    pub(super) seconds: HistogramVec,
    pub(super) writes: IntCounterVec,
    pub(super) fights: IntCounterVec,
    pub(super) rejections: IntCounterVec,
    pub(super) claims: IntGauge,
    pub(super) unlabelled: IntGauge,
    pub(super) without_place: IntGaugeVec,
    pub(super) quarantined: IntGaugeVec,
    pub(super) quarantined_alias: IntGaugeVec,
}

impl Federation {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            seconds: r.seconds(
                "fedgate_federation_seconds",
                &["stage"],
                "Time from an event on one plane to its write on the other.",
            )?,
            writes: r.counters(
                "fedgate_writes_total",
                &["plane", "kind", "reason"],
                "Writes, each with its reason.",
            )?,
            fights: r.counters(
                "fedgate_write_fights_total",
                &["kind", "field_group"],
                "Writes of what was written before and someone changed back within a minute.",
            )?,
            rejections: r.counters(
                "fedgate_identity_rejections_total",
                &["reason"],
                "Objects and namespaces that claim an identity that is not their own.",
            )?,
            claims: r.gauge(
                "fedgate_rejected_claims",
                "Project namespaces whose hub namespace is another project's.",
            )?,
            unlabelled: r.gauge(
                "fedgate_unlabelled_write_backs",
                "Instances on the hub without a label that names their deployment: their names less the ordinal do.",
            )?,
            without_place: r.gauges(
                "fedgate_copies_without_place",
                &["field"],
                "Copies on the hub whose spec lacks a field that names their place: cityCode or locationRef.",
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
        })
    }
}

/// Failures of keys.
#[derive(Debug)]
pub(super) struct FailureMetrics {
    pub(super) backoff: IntGaugeVec,
    pub(super) stuck: IntGaugeVec,
    pub(super) oldest: Gauge,
    pub(super) errors: IntCounterVec,
    pub(super) kept: IntGauge,
    pub(super) dropped: IntCounter,
}

impl FailureMetrics {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            backoff: r.gauges(
                "fedgate_keys_in_backoff",
                &["controller", "category"],
                "Keys whose last reconcile failed.",
            )?,
            stuck: r.gauges(
                "fedgate_stuck_keys",
                &["controller", "category"],
                "Keys that have failed for more than 60 s; refused objects are in fedgate_quarantined_objects.",
            )?,
            oldest: r.float_gauge(
                "fedgate_oldest_stuck_key_seconds",
                "Age of the oldest failure that lasts; 0 if none does.",
            )?,
            errors: r.counters(
                "fedgate_reconcile_errors_total",
                &["controller", "plane", "category"],
                "Reconciles that failed, by the plane that failed them.",
            )?,
            kept: r.gauge("fedgate_failures", "Last errors that are kept.")?,
            dropped: r.counter(
                "fedgate_failures_dropped_total",
                "Last errors that gave way to older ones.",
            )?,
        })
    }
}

/// The process itself.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    pub(super) build: IntGaugeVec,
    pub(super) memory_limit: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            build: r.gauges(
                "fedgate_build_info",
                &["version", "revision", "rustc"],
                "Always 1; what was built is in the labels.",
            )?,
            memory_limit: r.float_gauge(
                "fedgate_memory_limit_bytes",
                "Memory that the process may use, by its control group; +Inf without a limit.",
            )?,
        })
    }
}

/// Planes, watches and the index.
#[derive(Debug)]
pub(super) struct Planes {
    pub(super) leader: IntGaugeVec,
    pub(super) states: IntGaugeVec,
    pub(super) last_event: GaugeVec,
    pub(super) projects: IntGaugeVec,
    pub(super) watch_events: IntCounterVec,
    pub(super) watch_restarts: IntCounterVec,
    pub(super) cached: IntGaugeVec,
    pub(super) delayed: IntGauge,
    pub(super) rewinds: IntCounterVec,
}

impl Planes {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            leader: r.gauges(
                "leader_election_master_status",
                &["name"],
                "1 while this replica may write.",
            )?,
            states: r.gauges(
                "fedgate_planes",
                &["plane", "state"],
                "Planes by kind and state: connected, syncing, backoff or unauthorized.",
            )?,
            last_event: r.seconds_gauges(
                "fedgate_plane_last_event_age_seconds",
                &["plane", "state"],
                "Longest silence of a plane of this kind in this state.",
            )?,
            watch_restarts: r.counters(
                "fedgate_watch_restarts_total",
                &["plane", "kind", "cause"],
                "Watches begun again after a failure: gone (410) or error. One that ends by its time limit or by \
                 silence is begun again uncounted: there is no cause timeout.",
            )?,
            projects: r.gauges(
                "fedgate_projects",
                &["state"],
                "Projects by state: engaged, refused because of their kubeconfig, or other_hub: engaged, with deployments \
                 that name another hub.",
            )?,
            watch_events: r.counters(
                "fedgate_watch_events_total",
                &["plane", "kind", "type"],
                "Objects that watches brought, lists aside: applied or deleted.",
            )?,
            cached: r.gauges(
                "fedgate_cache_objects",
                &["plane", "kind"],
                "Objects in the index.",
            )?,
            delayed: r.gauge(
                "fedgate_delayed_hub_writes",
                "Copies and companions that wait for the rate limit of the hub.",
            )?,
            rewinds: r.counters(
                "fedgate_plane_rewinds_total",
                &["plane"],
                "Planes, hub or project, that were found restored to an older state.",
            )?,
        })
    }
}

/// Objects to be removed from the hub, and objects that differ from ours.
#[derive(Debug)]
pub(super) struct CleanupMetrics {
    pub(super) pending: IntGauge,
    pub(super) oldest_pending: Gauge,
    pub(super) orphans: IntGauge,
    pub(super) abandoned: IntCounter,
    pub(super) drift: IntGauge,
    pub(super) brake: IntGauge,
}

impl CleanupMetrics {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            pending: r.gauge("fedgate_pending_deletions", "Deployments being deleted.")?,
            oldest_pending: r.float_gauge(
                "fedgate_oldest_pending_deletion_seconds",
                "Age of the oldest deletion under way, from its deletionTimestamp.",
            )?,
            orphans: r.gauge(
                "fedgate_orphan_hub_objects",
                "Objects on the hub whose origin is gone.",
            )?,
            abandoned: r.counter(
                "fedgate_members_abandoned_total",
                "Deleted objects that wait for their member no longer, because their annotation says so.",
            )?,
            drift: r.gauge(
                "fedgate_interpreter_drift",
                "Interpreters that differ from ours, or are a second one for a kind.",
            )?,
            brake: r.gauge(
                "fedgate_garbage_brake",
                "1 while orphaned copies or the projections of vanished write-backs are not deleted because there are too many of them.",
            )?,
        })
    }
}

/// Objects of a cell that are still to be released in projects and on the hub.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) unverified: IntGauge,
    pub(super) orphaned: IntCounterVec,
    pub(super) records: IntGauge,
    pub(super) dropped: IntCounterVec,
}

impl Cells {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            unverified: r.gauge(
                "fedgate_quota_unverified_instances",
                "Instances that were granted quota and whose claim cannot be seen as granted now.",
            )?,
            orphaned: r.counters(
                "fedgate_quota_claims_orphaned_total",
                &["reason"],
                "Claims of quota that could not be released: their Namespace names no project (identity).",
            )?,
            records: r.gauge(
                "fedgate_release_records",
                "Instances of which something is still to be released at another plane.",
            )?,
            dropped: r.counters(
                "fedgate_release_records_dropped_total",
                &["reason"],
                "Releases that were given up: the plane gave no answer for a week (expired), or too many are recorded (full).",
            )?,
        })
    }
}
