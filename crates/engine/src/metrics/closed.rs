//! Closed sets of label values. Each of their pairs exists from the start: a rate misses the first increase of a
//! counter that appears with it.

use super::{Metrics, client::Stage, gauges::Pair};

/// States of a plane.
const PLANE_STATES: [&str; 4] = ["connected", "syncing", "backoff", "unauthorized"];

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

impl ClosedLabels {
    /// Controllers with categories.
    pub(super) fn failures(&self) -> impl Iterator<Item = Pair> {
        let pairs = |controller: &'static str| {
            self.categories
                .iter()
                .map(move |category| (controller, *category))
        };
        self.controllers.iter().copied().flat_map(pairs)
    }

    /// Kinds of planes with states.
    pub(super) fn plane_states(&self) -> impl Iterator<Item = Pair> {
        let pairs = |plane: &'static str| PLANE_STATES.map(|state| (plane, state));
        self.planes.iter().copied().flat_map(pairs)
    }
}

impl Metrics {
    /// Declares the label values of the role; the counters with these begin at 0.
    pub fn declare(&self, closed: ClosedLabels) {
        let most = i64::try_from(closed.workers).unwrap_or(i64::MAX);
        for controller in &closed.controllers {
            let (turns, name) = (&self.turns, [*controller]);
            for result in ["success", "requeue_after", "error"] {
                turns.results.with_label_values(&[*controller, result]);
            }
            turns.errors.with_label_values(&name);
            turns.noops.with_label_values(&name);
            turns.panics.with_label_values(&name);
            turns.seconds.with_label_values(&name);
            turns.most.with_label_values(&name).set(most);
            for (plane, category) in pairs(&closed.planes, &closed.categories) {
                self.failures
                    .errors
                    .with_label_values(&[*controller, plane, category]);
            }
        }
        for plane in &closed.planes {
            self.planes.rewinds.with_label_values(&[plane]);
        }
        for stage in &closed.stages {
            self.federation.seconds.with_label_values(&[stage.as_str()]);
        }
        for reason in &closed.rejections {
            self.federation.rejections.with_label_values(&[reason]);
        }
        for (plane, kind) in &closed.watches {
            for event in ["applied", "deleted"] {
                self.planes.watch_events.with_label_values(&[*plane, kind, event]);
            }
            for cause in ["gone", "error"] {
                self.planes
                    .watch_restarts
                    .with_label_values(&[*plane, kind, cause]);
            }
        }
        self.declare_holders();
        let queue = [self.queue_name];
        self.queue.retries.with_label_values(&queue);
        self.queue.waited.with_label_values(&queue);
        self.queue.worked.with_label_values(&queue);
        *self.closed.lock() = closed;
    }
}

fn pairs<'a>(one: &'a [&'static str], other: &'a [&'static str]) -> impl Iterator<Item = Pair> + 'a {
    one.iter().flat_map(move |a| other.iter().map(move |b| (*a, *b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Gauges, PlaneKind};

    #[test]
    fn every_pair_of_closed_values_is_there_in_the_first_scrape() {
        let metrics = Metrics::new().unwrap();
        metrics.declare(ClosedLabels {
            planes: vec!["hub", "project"],
            controllers: vec!["federator"],
            categories: vec!["server", "timeout"],
            workers: 32,
            stages: vec![Stage::ProjectToHub],
            rejections: vec!["identity_mismatch"],
            watches: vec![("hub", "instances".to_owned())],
        });
        let mut figures = Gauges::default();
        figures.planes.insert(("hub", "backoff"), 1);
        figures.stuck_keys.insert(("federator", "timeout"), 3);
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
        metrics.reconcile_failed("federator", PlaneKind::Hub, "server");
        metrics.watch_event(PlaneKind::Hub, "instances", "applied");
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
}
