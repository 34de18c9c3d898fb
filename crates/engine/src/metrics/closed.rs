//! Closed sets of label values. Each of their pairs exists from the start: a rate misses the first increase of a
//! counter that appears with it.

use super::{Family, Metrics};

crate::words! {
    /// The kind of plane that a metric is about; no metric identifies a plane otherwise.
    pub enum PlaneKind {
        /// The Karmada hub.
        Hub = "hub",
        /// A tenant's project control plane.
        Project = "project",
        /// A cell's own API server.
        Cell = "cell",
        /// The cluster that runs the provisioner.
        Home = "home",
    }
}

crate::words! {
    /// The direction that `fedgate_federation_seconds` measures.
    pub enum Stage {
        /// From a project's change to its write on the hub.
        ProjectToHub = "project_to_hub",
        /// From a status on the hub to its write in the project.
        HubStatusToProject = "hub_status_to_project",
        /// From a write-back to the write of its projection.
        WritebackToProjection = "writeback_to_projection",
    }
}

crate::words! {
    /// For whom the index is held.
    pub enum Holder {
        /// An answer of the operations API.
        Operations = "operations",
        /// A scrape.
        Metrics = "metrics",
    }
}

crate::words! {
    /// Result of a reconcile.
    pub enum ReconcileResult {
        /// Nothing left to do.
        Success = "success",
        /// Requeued for a later time.
        RequeueAfter = "requeue_after",
        /// Failed; retried after a delay.
        Error = "error",
    }
}

/// States of a plane.
const PLANE_STATES: [&str; 4] = ["connected", "syncing", "backoff", "unauthorized"];

/// Times left to a credential.
const TIMES_LEFT: [&str; 5] = ["expired", "day", "week", "later", "unknown"];

/// The label values that a role uses.
#[derive(Debug, Clone, Default)]
pub struct ClosedLabels {
    /// Kinds of planes.
    pub planes: Vec<&'static str>,
    /// Names of controllers.
    pub controllers: Vec<&'static str>,
    /// Categories of failures.
    pub categories: Vec<&'static str>,
    /// Number of keys that all controllers together reconcile at a time.
    pub workers: usize,
    /// Directions between planes that are measured.
    pub stages: Vec<Stage>,
    /// Reasons for which an identity is rejected.
    pub rejections: Vec<&'static str>,
    /// Kind of plane and resource of each watch.
    pub watches: Vec<(&'static str, String)>,
}

impl Metrics {
    /// Declares the label values of the role; the values with these begin at 0.
    pub fn declare(&self, closed: &ClosedLabels) {
        for controller in &closed.controllers {
            for result in ReconcileResult::ALL {
                self.begin(Family::Reconciles, &[controller, result.as_str()]);
            }
            for family in [
                Family::ReconcileErrors,
                Family::IdleReconciles,
                Family::Panics,
                Family::ReconcileSeconds,
            ] {
                self.begin(family, &[controller]);
            }
            self.set(Family::MaxReconciles, &[controller], closed.workers);
            self.scrape_at_least(Family::ActiveWorkers, &[controller], 0.0);
            for category in &closed.categories {
                self.scrape_at_least(Family::KeysInBackoff, &[controller, category], 0.0);
                self.scrape_at_least(Family::StuckKeys, &[controller, category], 0.0);
                for plane in &closed.planes {
                    self.begin(Family::FailedReconciles, &[controller, plane, category]);
                }
            }
        }
        for plane in &closed.planes {
            self.begin(Family::Rewinds, &[plane]);
            for state in PLANE_STATES {
                self.scrape_at_least(Family::Planes, &[plane, state], 0.0);
                self.scrape_at_least(Family::LastEventAge, &[plane, state], 0.0);
            }
            for left in TIMES_LEFT {
                self.scrape_at_least(Family::Credentials, &[plane, left], 0.0);
            }
            self.scrape_at_least(Family::CredentialExpiry, &[plane], f64::INFINITY);
        }
        for stage in &closed.stages {
            self.begin(Family::FederationSeconds, &[stage.as_str()]);
        }
        for reason in &closed.rejections {
            self.begin(Family::IdentityRejections, &[reason]);
        }
        for (plane, kind) in &closed.watches {
            for event in ["applied", "deleted"] {
                self.begin(Family::WatchEvents, &[plane, kind, event]);
            }
            for cause in ["gone", "error"] {
                self.begin(Family::WatchRestarts, &[plane, kind, cause]);
            }
        }
        for holder in Holder::ALL {
            self.begin(Family::IndexLock, &[holder.as_str()]);
        }
        for family in [Family::QueueRetries, Family::QueueWait, Family::QueueWork] {
            self.begin(family, &[self.queue_name]);
        }
    }

    /// Declares the paths of the operations API and the statuses of its answers; all pairs begin at 0.
    pub fn declare_operations(&self, paths: impl IntoIterator<Item = &'static str>, statuses: &[u16]) {
        for path in paths {
            self.begin(Family::OperationsSeconds, &[path]);
            for status in statuses {
                self.begin(Family::OperationsRequests, &[path, &status.to_string()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Gauges;

    #[test]
    fn every_pair_of_closed_values_is_there_in_the_first_scrape() {
        let metrics = Metrics::new().unwrap();
        metrics.declare(&ClosedLabels {
            planes: vec!["hub", "project"],
            controllers: vec!["federator"],
            categories: vec!["server", "timeout"],
            workers: 32,
            stages: vec![Stage::ProjectToHub],
            rejections: vec!["identity_mismatch"],
            watches: vec![("hub", "instances".to_owned())],
        });
        let mut figures = Gauges::default();
        figures.set(Family::Planes, &["hub", "backoff"], 1_usize);
        figures.set(Family::StuckKeys, &["federator", "timeout"], 3_usize);
        let text = metrics.render(&figures).unwrap();
        for line in [
            "fedgate_planes{plane=\"hub\",state=\"backoff\"} 1",
            "fedgate_planes{plane=\"hub\",state=\"connected\"} 0",
            "fedgate_planes{plane=\"project\",state=\"backoff\"} 0",
            "fedgate_plane_last_event_age_seconds{plane=\"project\",state=\"unauthorized\"} 0",
            "fedgate_plane_rewinds_total{plane=\"project\"} 0",
            "fedgate_keys_in_backoff{category=\"server\",controller=\"federator\"} 0",
            "fedgate_stuck_keys{category=\"server\",controller=\"federator\"} 0",
            "fedgate_stuck_keys{category=\"timeout\",controller=\"federator\"} 3",
            "fedgate_oldest_stuck_key_seconds 0",
            "fedgate_failures 0",
            "fedgate_failures_dropped_total 0",
            "fedgate_reconcile_errors_total{category=\"timeout\",controller=\"federator\",plane=\"project\"} 0",
            "controller_runtime_reconcile_total{controller=\"federator\",result=\"error\"} 0",
            "controller_runtime_reconcile_panics_total{controller=\"federator\"} 0",
            "controller_runtime_active_workers{controller=\"federator\"} 0",
            "controller_runtime_max_concurrent_reconciles{controller=\"federator\"} 32",
            "fedgate_watch_events_total{kind=\"instances\",plane=\"hub\",type=\"deleted\"} 0",
            "fedgate_watch_restarts_total{cause=\"gone\",kind=\"instances\",plane=\"hub\"} 0",
            "fedgate_federation_seconds_count{stage=\"project_to_hub\"} 0",
            "fedgate_identity_rejections_total{reason=\"identity_mismatch\"} 0",
            "workqueue_retries_total{name=\"gateway\"} 0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is missing in {text}");
        }
        metrics.count(Family::FailedReconciles, &["federator", "hub", "server"]);
        metrics.count(Family::WatchEvents, &["hub", "instances", "applied"]);
        let under_way = metrics.reconcile("federator", std::time::Duration::ZERO);
        let text = metrics.render(&Gauges::default()).unwrap();
        for line in [
            "fedgate_planes{plane=\"hub\",state=\"backoff\"} 0",
            "fedgate_stuck_keys{category=\"timeout\",controller=\"federator\"} 0",
            "fedgate_reconcile_errors_total{category=\"server\",controller=\"federator\",plane=\"hub\"} 1",
            "fedgate_watch_events_total{kind=\"instances\",plane=\"hub\",type=\"applied\"} 1",
            "controller_runtime_active_workers{controller=\"federator\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is missing in {text}");
        }
        drop(under_way);
    }

    #[test]
    fn each_path_and_status_is_there_before_its_first_request() {
        let metrics = Metrics::new().unwrap();
        metrics.declare_operations(["overview", "other"], &[200, 404]);
        metrics.count(Family::OperationsRequests, &["overview", "200"]);
        metrics.observe(
            Family::OperationsSeconds,
            &["overview"],
            std::time::Duration::from_millis(3),
        );
        metrics.set(Family::OperationsStreams, &[], 2_usize);
        let text = metrics.render(&Gauges::default()).unwrap();
        for line in [
            "fedgate_operations_requests_total{code=\"200\",path=\"overview\"} 1",
            "fedgate_operations_requests_total{code=\"404\",path=\"overview\"} 0",
            "fedgate_operations_requests_total{code=\"200\",path=\"other\"} 0",
            "fedgate_operations_request_duration_seconds_count{path=\"overview\"} 1",
            "fedgate_operations_request_duration_seconds_count{path=\"other\"} 0",
            "fedgate_operations_streams 2",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is missing in {text}");
        }
    }
}
