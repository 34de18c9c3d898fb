//! Metrics of the operations API.

use super::{Metrics, registrar::Registrar};
use prometheus::{Error, HistogramVec, IntCounterVec, IntGauge};
use std::time::Duration;

/// Requests and streams.
#[derive(Debug)]
pub(super) struct OperationsMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    streams: IntGauge,
}

impl OperationsMetrics {
    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, Error> {
        Ok(Self {
            requests: r.counters(
                "fedgate_operations_requests_total",
                &["path", "code"],
                "Requests to the operations API; other stands for paths that do not exist.",
            )?,
            seconds: r.seconds(
                "fedgate_operations_request_duration_seconds",
                &["path"],
                "Time a request to the operations API took; of a stream, until its headers were sent.",
            )?,
            streams: r.gauge("fedgate_operations_streams", "Event streams that are open.")?,
        })
    }
}

impl Metrics {
    /// Declares the paths of the operations API and the statuses of its answers; all pairs begin at 0.
    pub fn declare_operations(&self, paths: impl IntoIterator<Item = &'static str>, statuses: &[u16]) {
        for path in paths {
            self.operations.seconds.with_label_values(&[path]);
            for status in statuses {
                let labels = [path, &status.to_string()];
                self.operations.requests.with_label_values(&labels);
            }
        }
    }

    /// Counts an answer of the operations API. `path` is a route of the program, not the path of the request.
    pub fn operations_answered(&self, path: &'static str, status: u16, took: Duration) {
        let labels = [path, &status.to_string()];
        self.operations.requests.with_label_values(&labels).inc();
        let seconds = self.operations.seconds.with_label_values(&[path]);
        seconds.observe(took.as_secs_f64());
    }

    /// Sets the number of open event streams.
    pub fn operations_streams(&self, open: usize) {
        let open = i64::try_from(open).unwrap_or(i64::MAX);
        self.operations.streams.set(open);
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::{Gauges, Metrics};
    use std::time::Duration;

    #[test]
    fn each_path_and_status_is_there_before_its_first_request() {
        let metrics = Metrics::new().unwrap();
        metrics.declare_operations(["overview", "other"], &[200, 404]);
        metrics.operations_answered("overview", 200, Duration::from_millis(3));
        metrics.operations_streams(2);
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
