//! Alerts, dashboard and monitors for Prometheus and Grafana: files that are edited in `manifests/monitoring`, but for the
//! `PrometheusRule`, which repeats the alerts.

use crate::{Manifest, ManifestError, NAMESPACE};
use serde_json::{Value, json};

/// Folder of the runbooks in the files, relative to the root of a checkout.
pub const RUNBOOKS: &str = "docs/runbooks";

const FILES: [(&str, &str); 4] = [
    (
        "alerts.yaml",
        include_str!("../../../manifests/monitoring/alerts.yaml"),
    ),
    (
        "dashboard.json",
        include_str!("../../../manifests/monitoring/dashboard.json"),
    ),
    (
        "podmonitor.yaml",
        include_str!("../../../manifests/monitoring/podmonitor.yaml"),
    ),
    (
        "servicemonitor.yaml",
        include_str!("../../../manifests/monitoring/servicemonitor.yaml"),
    ),
];

/// All files of `manifests/monitoring`. The runbooks of alerts are below `runbooks`, an address without a slash at its end.
pub fn monitoring(runbooks: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut files = Vec::new();
    for (name, text) in FILES {
        files.push(Manifest::edited(&format!("monitoring/{name}"), text)?);
    }
    let alerts = &mut files[0];
    if runbooks != RUNBOOKS {
        let groups = alerts.objects[0]["groups"].as_array_mut().into_iter().flatten();
        for rule in groups.filter_map(|group| group["rules"].as_array_mut()).flatten() {
            let name = rule["alert"].as_str().unwrap_or_default();
            rule["annotations"]["runbook_url"] = json!(format!("{runbooks}/{name}.md"));
        }
        alerts.source = None;
    }
    let rule = prometheus_rule(&alerts.objects[0]["groups"]);
    files.insert(
        3,
        Manifest::generated("monitoring/prometheusrule.yaml", vec![rule]),
    );
    Ok(files)
}

fn prometheus_rule(groups: &Value) -> Value {
    let labels = json!({"app.kubernetes.io/part-of": "fedgate"});
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "fedgate", "namespace": NAMESPACE, "labels": labels},
        "spec": {"groups": groups},
    })
}
