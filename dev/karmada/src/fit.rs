//! Whether a member may get a binding.

use crate::{list, schedule::is_ready, select::cluster_matches};
use serde_json::{Value, json};

/// The first reason, in the words of Karmada, that keeps a member from a binding; `None` if there is none. Only the
/// affinity takes a binding from a member that is `held`, one that has it already.
pub(crate) fn obstacle(binding: &Value, cluster: &Value, held: bool) -> Option<String> {
    let placement = &binding["spec"]["placement"];
    if !held && !serves(cluster, &binding["spec"]["resource"]) {
        return Some("cluster(s) did not have the API resource".to_owned());
    }
    if !cluster_matches(&placement["clusterAffinity"], cluster) {
        return Some("cluster(s) did not match the placement cluster affinity constraint".to_owned());
    }
    let mut tasks = list(&binding["spec"]["gracefulEvictionTasks"]).iter();
    if tasks.any(|task| task["fromCluster"] == cluster["metadata"]["name"]) {
        return Some("cluster(s) is in the process of eviction".to_owned());
    }
    if held {
        return None;
    }
    let taint = untolerated(cluster, &placement["clusterTolerations"])?;
    Some(format!("cluster(s) had untolerated taint {{{taint}}}"))
}

/// True if a Cluster reports the kind. A Cluster that reports no kinds at all counts as having each: Karmada reports
/// them for every member, and only a simulated one without an API server has none.
fn serves(cluster: &Value, resource: &Value) -> bool {
    let Some(enabled) = cluster["status"]["apiEnablements"].as_array() else {
        return true;
    };
    enabled
        .iter()
        .filter(|enabled| enabled["groupVersion"] == resource["apiVersion"])
        .flat_map(|enabled| enabled["resources"].as_array().into_iter().flatten())
        .any(|served| served["kind"] == resource["kind"])
}

/// The first taint that keeps new bindings away and that no toleration admits. Karmada taints a Cluster that is not
/// ready.
fn untolerated(cluster: &Value, tolerations: &Value) -> Option<String> {
    let own = cluster["spec"]["taints"].as_array();
    let unready =
        (!is_ready(cluster)).then(|| json!({"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}));
    let tolerations = list(tolerations);
    own.into_iter()
        .flatten()
        .chain(unready.as_ref())
        .filter(|taint| matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute")))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
        .map(words)
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let any_or_same = |key: &str| text(&toleration[key]).is_empty() || toleration[key] == taint[key];
    let value = match toleration["operator"].as_str() {
        Some("Exists") => true,
        None | Some("" | "Equal") => text(&toleration["value"]) == text(&taint["value"]),
        Some(_) => false,
    };
    any_or_same("effect") && any_or_same("key") && value
}

fn words(taint: &Value) -> String {
    let text = |key: &str| taint[key].as_str().unwrap_or_default();
    match text("value") {
        "" => format!("{}:{}", text("key"), text("effect")),
        value => format!("{}={value}:{}", text("key"), text("effect")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(tolerations: &Value) -> Value {
        json!({"spec": {
            "resource": {"apiVersion": "g.dev/v1", "kind": "Thing"},
            "placement": {
                "clusterAffinity": {"labelSelector": {"matchLabels": {"city": "DFW"}}},
                "clusterTolerations": tolerations,
            },
        }})
    }

    fn cluster(ready: &str) -> Value {
        json!({
            "metadata": {"name": "dfw-1", "labels": {"city": "DFW"}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    #[test]
    fn tolerations_admit_taints_and_members_that_are_not_ready() {
        let mut tainted = cluster("True");
        tainted["spec"]["taints"] = json!([{"key": "x", "value": "y", "effect": "NoExecute"}]);
        let said = |tolerations: Value, cluster: &Value| obstacle(&binding(&tolerations), cluster, false);
        assert_eq!(
            said(Value::Null, &tainted).as_deref(),
            Some("cluster(s) had untolerated taint {x=y:NoExecute}")
        );
        assert_eq!(said(json!([{"operator": "Exists"}]), &tainted), None);
        assert_eq!(said(json!([{"key": "x", "value": "y"}]), &tainted), None);
        assert!(said(json!([{"key": "x"}]), &tainted).is_some());
        assert!(
            said(
                json!([{"key": "x", "operator": "Exists", "effect": "NoSchedule"}]),
                &tainted
            )
            .is_some()
        );
        assert!(said(Value::Null, &cluster("False")).is_some());
        assert_eq!(said(json!([{"operator": "Exists"}]), &cluster("False")), None);
    }

    #[test]
    fn a_member_must_serve_the_kind_unless_it_has_it_already() {
        let said = |enabled: Value, held: bool| {
            let mut cluster = cluster("True");
            cluster["status"]["apiEnablements"] = enabled;
            obstacle(&binding(&Value::Null), &cluster, held)
        };
        let of = |version: &str, kind: &str| json!([{"groupVersion": version, "resources": [{"name": "x", "kind": kind}]}]);
        assert_eq!(said(of("g.dev/v1", "Thing"), false), None);
        for other in [json!([]), of("g.dev/v2", "Thing"), of("g.dev/v1", "Other")] {
            let reason = said(other.clone(), false);
            assert_eq!(
                reason.as_deref(),
                Some("cluster(s) did not have the API resource")
            );
            assert_eq!(said(other, true), None);
        }
    }

    #[test]
    fn only_the_affinity_takes_a_binding_from_a_member() {
        let mut moved = cluster("False");
        assert_eq!(obstacle(&binding(&Value::Null), &moved, true), None);
        moved["metadata"]["labels"]["city"] = json!("LHR");
        assert!(obstacle(&binding(&json!([{"operator": "Exists"}])), &moved, true).is_some());
    }
}
