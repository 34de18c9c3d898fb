//! The figures of `kubectl top`: those of the gateway's process, where a metrics-server would have them.

use crate::{
    operator::PODS,
    support::{
        kinds::{DEFINITION, Kind, kind},
        plane::Plane,
        seconds, wait_for,
    },
};
use fedgate_manifests::NAMESPACE;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const GROUP: (&str, &str) = ("metrics.k8s.io", "v1beta1");
const POD_METRICS: Kind = kind(GROUP.0, GROUP.1, "PodMetrics", "pods", true);
const DEFINITION_NAME: &str = "pods.metrics.k8s.io";
/// Ticks of the kernel in a second, in which /proc counts CPU.
const TICKS: f64 = 100.0;

/// CPU that a process has used on average, in thousandths of a core, and its memory in KiB.
fn used_by(pid: &str) -> (f64, u64) {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (stat, status) = (
        read(&format!("/proc/{pid}/stat")),
        read(&format!("/proc/{pid}/status")),
    );
    // The name of the program, which may have spaces, ends with the last parenthesis; the state follows.
    let fields: Vec<f64> = stat
        .rsplit_once(')')
        .expect("a name in parentheses")
        .1
        .split_whitespace()
        .skip(1)
        .map(|field| field.parse().expect("a number"))
        .collect();
    let up: f64 = read("/proc/uptime")
        .split(' ')
        .next()
        .and_then(|up| up.parse().ok())
        .expect("the time since the start");
    let lived = (up - fields[18] / TICKS).max(1.0);
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
    let cpu = 1000.0 * (fields[10] + fields[11]) / TICKS / lived;
    (cpu, resident.expect("its memory"))
}

/// Memory of a process in bytes.
pub(super) fn resident(pid: &str) -> u64 {
    used_by(pid).1 * 1024
}

/// Serves the kind of a metrics-server.
pub(super) async fn serve(host: &Plane) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        // The group is one of Kubernetes.
        "metadata": {"name": DEFINITION_NAME, "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": GROUP.0, "scope": "Namespaced",
            "names": {"plural": "pods", "kind": "PodMetrics", "listKind": "PodMetricsList"},
            "versions": [{"name": GROUP.1, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]},
    });
    host.create(&DEFINITION, "", definition).await;
}

/// Serves it no longer.
pub(super) async fn end(host: &Plane) {
    host.delete(&DEFINITION, "", DEFINITION_NAME).await;
    host.gone(&DEFINITION, "", DEFINITION_NAME, seconds(60)).await;
}

/// Writes what the process uses now, for each Pod.
pub(super) async fn report(host: &Plane, pid: &str) {
    let (cpu, memory) = used_by(pid);
    for name in PODS {
        let figures = json!({
            "apiVersion": POD_METRICS.api_version(), "kind": "PodMetrics",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "fedgate-gateway"}},
            "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
            "containers": [{"name": "gateway", "usage": {"cpu": format!("{cpu:.0}m"), "memory": format!("{memory}Ki")}}],
        });
        // The API server serves the kind a moment after it is defined.
        wait_for("the figures are written", seconds(30), || async {
            let params = PatchParams::apply("metrics-server").force();
            let api = host.api(&POD_METRICS, NAMESPACE);
            api.patch(name, &params, &Patch::Apply(&figures)).await.ok()
        })
        .await;
    }
}
