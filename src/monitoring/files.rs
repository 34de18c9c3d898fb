//! The files of `manifests/monitoring`.

use super::{MonitoringError, alerts, dashboard};
use fedgate_engine::metrics::Row;
use fedgate_manifests::{CELL, GATEWAY, Manifest, NAMESPACE};
use serde_json::{Value, json};

/// All files; `rows` are the metrics, `runbooks` is the address below which the runbooks are, without a slash at its end.
pub fn files(rows: &[Row], runbooks: &str) -> Result<Vec<Manifest>, MonitoringError> {
    let groups = alerts::groups(rows, runbooks)?;
    let rule = json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata("fedgate"),
        "spec": {"groups": groups},
    });
    let file = |name: &str, objects: Vec<Value>| Manifest {
        path: format!("monitoring/{name}"),
        planes: &[],
        objects,
    };
    Ok(vec![
        file("alerts.yaml", vec![json!({"groups": groups})]),
        file("dashboard.json", vec![dashboard::dashboard(rows)?]),
        file("podmonitor.yaml", vec![pod_monitor(GATEWAY), pod_monitor(CELL)]),
        file("prometheusrule.yaml", vec![rule]),
        file("servicemonitor.yaml", vec![service(), service_monitor()]),
    ])
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "fedgate"}})
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name})
}

/// Where metrics are, and the token that they need. The label `job` of alerts and dashboard is the name of the role.
fn endpoint() -> Value {
    json!({
        "port": "admin",
        "path": "/metrics",
        "interval": "30s",
        "authorization": {"type": "Bearer", "credentials": {"name": "fedgate-admin", "key": "token"}},
    })
}

fn pod_monitor(role: &str) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata(role),
        "spec": {
            "jobLabel": "app.kubernetes.io/name",
            "selector": {"matchLabels": labels(role)},
            "podMetricsEndpoints": [endpoint()],
        },
    })
}

/// Every replica is scraped, a standby or one that is not ready as well.
fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": GATEWAY, "namespace": NAMESPACE, "labels": labels(GATEWAY)},
        "spec": {
            "publishNotReadyAddresses": true,
            "selector": labels(GATEWAY),
            "ports": [{"name": "admin", "port": 8080, "targetPort": "admin"}],
        },
    })
}

fn service_monitor() -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata(GATEWAY),
        "spec": {
            "jobLabel": "app.kubernetes.io/name",
            "selector": {"matchLabels": labels(GATEWAY)},
            "endpoints": [endpoint()],
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
