//! Digests of the provider's Pods, Services and `NetworkPolicies`.

use super::{Strings, annotation, controller, labels};
use crate::{rollout::labels::Labels, writes::MANAGED_BY};
use fedgate_api::keys;
use fedgate_engine::object::entries;
use kube::{ResourceExt, core::DynamicObject};
use serde_json::{Value, json};
use std::sync::Arc;

/// A Pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// UID of the controller.
    pub owner: Option<Arc<str>>,
    /// The labels that the provider owns.
    pub labels: Labels,
    /// The fields that the provider reads, as JSON text in the shape of a Pod.
    pub seen: Arc<str>,
    /// True if a container has terminated and has not been restarted.
    pub has_ended: bool,
    /// The external address that the runtime writes into the configured annotation.
    pub external: Option<Arc<str>>,
}

impl Pod {
    /// The fields that the provider reads, in the shape of a Pod.
    pub fn seen(&self) -> Value {
        serde_json::from_str(&self.seen).unwrap_or_default()
    }
}

/// Builds the digest of a Pod; `external` is the annotation key of the external address.
pub fn pod(object: &DynamicObject, external: Option<&str>, words: &mut Strings) -> Pod {
    let external = external.and_then(|key| annotation(object, key));
    Pod {
        owner: controller(object, words),
        labels: labels(object.labels(), words, is_ours),
        seen: seen(object).to_string().into(),
        has_ended: has_ended(object),
        external: external.filter(|address| !address.is_empty()).map(Into::into),
    }
}

/// True if the provider owns the label.
fn is_ours(key: &str) -> bool {
    keys::LINKING.contains(&key) || key == MANAGED_BY.0 || key == keys::INSTANCE_UID
}

fn has_ended(object: &DynamicObject) -> bool {
    let mut containers = entries(&object.data["status"]["containerStatuses"]).iter();
    containers.any(|of| of["state"]["terminated"].is_object())
}

/// Maximum length of a message of a runtime or scheduler, in characters.
const LONGEST_TEXT: usize = 256;

/// The fields that reports and recovery read. Changes of other fields enqueue no key.
fn seen(object: &DynamicObject) -> Value {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    let list = |value: &Value, of: fn(&Value) -> Value| -> Value { entries(value).iter().map(of).collect() };
    let conditions = entries(&status["conditions"]);
    let ready: Value = conditions
        .iter()
        .filter(|c| c["type"] == "Ready")
        .map(|c| json!({"type": "Ready", "status": c["status"], "lastTransitionTime": c["lastTransitionTime"]}))
        .collect();
    let is_unscheduled =
        |c: &&Value| c["type"] == "PodScheduled" && c["status"] == "False" && c["reason"] == "Unschedulable";
    let unscheduled = conditions.iter().find(is_unscheduled);
    let unscheduled = unscheduled.and_then(|c| c["message"].as_str()).map(shortened);
    let addresses = list(&status["podIPs"], |ip| ip["ip"].clone());
    json!({
        "metadata": {"deletionTimestamp": object.metadata.deletion_timestamp,
            "deletionGracePeriodSeconds": object.metadata.deletion_grace_period_seconds},
        "spec": {"containers": list(&spec["containers"], digest_container)},
        "status": {
            "phase": status["phase"], "message": status["message"], "podIP": status["podIP"], "podIPs": addresses,
            "conditions": ready, "unscheduled": unscheduled,
            "containerStatuses": list(&status["containerStatuses"], container),
        },
    })
}

/// Digest of a container: name, image, and the texts of its startup and readiness probes for condition messages.
fn digest_container(container: &Value) -> Value {
    let mut seen = json!({"name": container["name"], "image": container["image"]});
    for (field, probed) in [("startupProbe", "startup"), ("readinessProbe", "readiness")] {
        if let Some(text) = describe_probe(&container[field]) {
            seen[probed] = json!(shortened(&text));
        }
    }
    seen
}

/// Text of what a probe does; `None` if there is no probe.
fn describe_probe(probe: &Value) -> Option<String> {
    let port = |action: &Value| match &action["port"] {
        Value::String(name) => name.clone(),
        number => number.to_string(),
    };
    let action = |field: &str| Some(&probe[field]).filter(|action| action.is_object());
    if let Some(http) = action("httpGet") {
        let path = http["path"].as_str().unwrap_or("/");
        return Some(format!("GET {path} at port {}", port(http)));
    }
    if let Some(tcp) = action("tcpSocket") {
        return Some(format!("a connection to port {}", port(tcp)));
    }
    if let Some(grpc) = action("grpc") {
        return Some(format!("gRPC at port {}", port(grpc)));
    }
    action("exec").map(|_| "exec of its command".to_owned())
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

fn container(of: &Value) -> Value {
    let ended = |state: &Value| match &state["terminated"] {
        Value::Object(ended) => {
            let mut seen = json!({"exitCode": ended.get("exitCode"), "finishedAt": ended.get("finishedAt")});
            // The program of the container was never started, so only the runtime says why.
            if ended.get("reason").is_some_and(|reason| reason == "StartError") {
                let message = ended.get("message").and_then(Value::as_str);
                seen["unstarted"] = json!(message.map(shortened).unwrap_or_default());
            }
            seen
        }
        _ => Value::Null,
    };
    let waiting = match &of["state"]["waiting"] {
        Value::Object(waiting) => {
            let message = waiting.get("message").and_then(Value::as_str);
            // The message of a backoff changes with each pause and adds nothing to the reason.
            let pauses = waiting
                .get("reason")
                .is_some_and(|reason| reason == "CrashLoopBackOff");
            let message = message.filter(|_| !pauses).map(shortened);
            json!({"reason": waiting.get("reason"), "message": message})
        }
        _ => Value::Null,
    };
    let mut seen = json!({
        "name": of["name"], "restartCount": of["restartCount"],
        "state": {"waiting": waiting, "terminated": ended(&of["state"])},
        "lastState": {"terminated": ended(&of["lastState"])},
    });
    for field in ["ready", "started"] {
        if of[field] == false {
            seen[field] = json!(false);
        }
    }
    seen
}

/// A Service or `NetworkPolicy` of an Instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// UID of the controller.
    pub owner: Option<Arc<str>>,
    /// The labels that the provider owns.
    pub labels: Labels,
    /// The part of the spec that is compared, as JSON text.
    pub spec: Arc<str>,
}

/// Builds the digest of a Service.
pub fn service(object: &DynamicObject, words: &mut Strings) -> Attached {
    attached(object, &service_spec(&object.data["spec"]), words)
}

/// Builds the digest of a `NetworkPolicy`.
pub fn network_policy(object: &DynamicObject, words: &mut Strings) -> Attached {
    attached(object, &network_policy_spec(&object.data["spec"]), words)
}

fn attached(object: &DynamicObject, spec: &Value, words: &mut Strings) -> Attached {
    Attached {
        owner: controller(object, words),
        labels: labels(object.labels(), words, is_ours),
        spec: spec.to_string().into(),
    }
}

/// Selector and ports of a Service spec, without server defaults.
pub fn service_spec(spec: &Value) -> Value {
    let ports: Value = entries(&spec["ports"])
        .iter()
        .map(|p| json!({"name": p["name"], "port": p["port"], "targetPort": p["targetPort"], "protocol": p["protocol"]}))
        .collect();
    json!({"selector": spec["selector"], "ports": ports})
}

/// The complete spec of a `NetworkPolicy` in its rendered form: an absent `ingress` becomes an empty list.
pub fn network_policy_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec.is_object() && !spec["ingress"].is_array() {
        spec["ingress"] = json!([]);
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_described_by_its_action() {
        for (probe, expected) in [
            (
                json!({"httpGet": {"path": "/ready", "port": "http"}}),
                Some("GET /ready at port http"),
            ),
            (
                json!({"httpGet": {"port": 80}, "periodSeconds": 1}),
                Some("GET / at port 80"),
            ),
            (
                json!({"tcpSocket": {"port": 5432}}),
                Some("a connection to port 5432"),
            ),
            (json!({"grpc": {"port": 9000}}), Some("gRPC at port 9000")),
            (
                json!({"exec": {"command": ["cat", "/secret"]}}),
                Some("exec of its command"),
            ),
            (Value::Null, None),
        ] {
            assert_eq!(describe_probe(&probe).as_deref(), expected, "{probe}");
        }
    }
}
