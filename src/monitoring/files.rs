//! The files of `manifests/monitoring`.

use super::{MonitoringError, alerts, dashboard};
use fedgate_engine::metrics::Row;
use fedgate_manifests::{ADMIN_PORT, ADMIN_SECRET, ADMIN_TOKEN, CELL, GATEWAY, Manifest, NAMESPACE};
use serde_json::{Map, Value, json};

/// The open places of the objects: defaults in `manifests/`, values of the chart in its templates.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// How often is scraped.
    pub(super) interval: Value,
    /// Name of the Secret with the token.
    pub(super) secret: Value,
    /// Further fields of an endpoint.
    pub(super) endpoint: Map<String, Value>,
}

impl Places {
    fn defaults() -> Self {
        Self {
            interval: json!("30s"),
            secret: json!(ADMIN_SECRET),
            endpoint: Map::new(),
        }
    }
}

/// All files; `rows` are the metrics, `runbooks` is the address below which the runbooks are, without a slash at its end.
pub fn files(rows: &[Row], runbooks: &str) -> Result<Vec<Manifest>, MonitoringError> {
    let groups = alerts::groups(rows, runbooks)?;
    let file = |name: &str, objects: Vec<Value>| Manifest {
        path: format!("monitoring/{name}"),
        planes: &[],
        objects,
    };
    let places = Places::defaults();
    Ok(vec![
        file("alerts.yaml", vec![json!({"groups": groups})]),
        file("dashboard.json", vec![dashboard::dashboard(rows)?]),
        file(
            "podmonitor.yaml",
            vec![pod_monitor(GATEWAY, &places), pod_monitor(CELL, &places)],
        ),
        file("prometheusrule.yaml", vec![rule(&groups)]),
        file("servicemonitor.yaml", vec![service_monitor(&places)]),
    ])
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "fedgate"}})
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name})
}

pub(super) fn rule(groups: &Value) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata("fedgate"),
        "spec": {"groups": groups},
    })
}

/// Where metrics are, and the token that they need. The label `job` of alerts and dashboard is the name of the role.
fn endpoint(places: &Places) -> Value {
    let mut endpoint = Map::from_iter([
        ("port".to_owned(), json!(ADMIN_PORT)),
        ("path".to_owned(), json!("/metrics")),
        ("interval".to_owned(), places.interval.clone()),
    ]);
    let token = json!({"name": places.secret, "key": ADMIN_TOKEN});
    endpoint.insert(
        "authorization".to_owned(),
        json!({"type": "Bearer", "credentials": token}),
    );
    endpoint.extend(places.endpoint.clone());
    endpoint.into()
}

pub(super) fn pod_monitor(role: &str, places: &Places) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata(role),
        "spec": {
            "jobLabel": "app.kubernetes.io/name",
            "selector": {"matchLabels": labels(role)},
            "podMetricsEndpoints": [endpoint(places)],
        },
    })
}

/// Of the gateway, whose Service belongs to its deployment.
pub(super) fn service_monitor(places: &Places) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata(GATEWAY),
        "spec": {
            "jobLabel": "app.kubernetes.io/name",
            "selector": {"matchLabels": labels(GATEWAY)},
            "endpoints": [endpoint(places)],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_engine::metrics::Metrics;

    #[test]
    fn a_rule_or_a_panel_of_a_metric_that_is_gone_is_an_error() {
        let rows = Metrics::new().unwrap().rows();
        assert!(files(&rows, "docs/runbooks").is_ok());
        for (metric, name) in [
            ("fedgate_interpreter_drift", "FedgateInterpreterDrift"),
            ("process_open_fds", "Open files"),
        ] {
            let rows: Vec<Row> = rows.iter().filter(|row| row.name != metric).cloned().collect();
            let error = files(&rows, "docs/runbooks").unwrap_err();
            assert_eq!(error.name, name);
            assert!(
                error
                    .to_string()
                    .contains(&format!("there is no metric {metric}")),
                "{error}"
            );
        }
    }
}
