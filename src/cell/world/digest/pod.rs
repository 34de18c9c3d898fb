//! Pods and Services of the provider.

use super::{Words, annotation, controller, labels, text};
use crate::{
    api::keys,
    cell::{instances::labels::Labels, provider::pod::MANAGED_BY},
};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// A Pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// UID of its controller.
    pub owner: Option<Arc<str>>,
    /// Its labels, as far as they are the provider's.
    pub labels: Labels,
    /// What of it is looked at, as text in the form of a Pod.
    pub seen: Arc<str>,
    /// Whether a container has ended and was not started again.
    pub has_ended: bool,
    /// The address that the runtime has announced under the configured key.
    pub external: Option<Arc<str>>,
}

/// Reads a Pod; `external` is the key of the annotation with its external address.
pub fn pod(object: &DynamicObject, external: Option<&str>, words: &mut Words) -> Pod {
    let ours = |key: &str| keys::LINKING.contains(&key) || key == MANAGED_BY.0 || key == keys::INSTANCE_UID;
    let external = external.and_then(|key| annotation(object, key));
    Pod {
        owner: controller(object, words),
        labels: labels(object.metadata.labels.as_ref(), words, ours),
        seen: text(&seen(object)).into(),
        has_ended: has_ended(object),
        external: external.filter(|address| !address.is_empty()).map(Into::into),
    }
}

fn has_ended(object: &DynamicObject) -> bool {
    let containers = object.data["status"]["containerStatuses"].as_array();
    let mut containers = containers.into_iter().flatten();
    containers.any(|of| of["state"]["terminated"].is_object())
}

/// So much of what a runtime says is kept for the log.
const LONGEST_TEXT: usize = 256;

/// The fields that reports and recovery read, and no others: what else changes wakes nobody.
fn seen(object: &DynamicObject) -> Value {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    let list = |value: &Value, of: fn(&Value) -> Value| -> Value {
        value.as_array().into_iter().flatten().map(of).collect()
    };
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ready: Value = conditions
        .filter(|c| c["type"] == "Ready")
        .map(|c| json!({"type": "Ready", "status": c["status"], "lastTransitionTime": c["lastTransitionTime"]}))
        .collect();
    let addresses = list(&status["podIPs"], |ip| ip["ip"].clone());
    json!({
        "metadata": {"deletionTimestamp": object.metadata.deletion_timestamp,
            "deletionGracePeriodSeconds": object.metadata.deletion_grace_period_seconds},
        "spec": {"containers": list(&spec["containers"], |c| json!({"name": c["name"], "image": c["image"]}))},
        "status": {
            "phase": status["phase"], "message": status["message"], "podIP": status["podIP"], "podIPs": addresses,
            "conditions": ready,
            "containerStatuses": list(&status["containerStatuses"], container),
        },
    })
}

fn container(of: &Value) -> Value {
    let ended = |state: &Value| match &state["terminated"] {
        Value::Object(ended) => {
            json!({"exitCode": ended.get("exitCode"), "finishedAt": ended.get("finishedAt")})
        }
        _ => Value::Null,
    };
    let waiting = match &of["state"]["waiting"] {
        Value::Object(waiting) => {
            let message = waiting.get("message").and_then(Value::as_str);
            // The text of a pause changes with each: it says nothing that the reason does not.
            let pauses = waiting
                .get("reason")
                .is_some_and(|reason| reason == "CrashLoopBackOff");
            let message = message.filter(|_| !pauses);
            let message = message.map(|text| text.chars().take(LONGEST_TEXT).collect::<String>());
            json!({"reason": waiting.get("reason"), "message": message})
        }
        _ => Value::Null,
    };
    json!({
        "name": of["name"], "restartCount": of["restartCount"],
        "state": {"waiting": waiting, "terminated": ended(&of["state"])},
        "lastState": {"terminated": ended(&of["lastState"])},
    })
}

/// A Service or `NetworkPolicy` of an Instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// UID of its controller.
    pub owner: Option<Arc<str>>,
    /// Its labels, as far as they are the provider's.
    pub labels: Labels,
    /// What of its spec is compared, as text.
    pub spec: Arc<str>,
}

/// Reads a Service.
pub fn service(object: &DynamicObject, words: &mut Words) -> Attached {
    attached(object, &service_spec(&object.data["spec"]), words)
}

/// Reads a `NetworkPolicy`.
pub fn network_policy(object: &DynamicObject, words: &mut Words) -> Attached {
    attached(object, &network_policy_spec(&object.data["spec"]), words)
}

fn attached(object: &DynamicObject, spec: &Value, words: &mut Words) -> Attached {
    let ours = |key: &str| keys::LINKING.contains(&key) || key == MANAGED_BY.0 || key == keys::INSTANCE_UID;
    Attached {
        owner: controller(object, words),
        labels: labels(object.metadata.labels.as_ref(), words, ours),
        spec: text(spec).into(),
    }
}

/// Selector and ports, without what a server fills in.
pub fn service_spec(spec: &Value) -> Value {
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports: Vec<Value> = ports
        .map(|p| json!({"name": p["name"], "port": p["port"], "targetPort": p["targetPort"], "protocol": p["protocol"]}))
        .collect();
    json!({"selector": spec["selector"], "ports": ports})
}

/// What of a policy's spec is compared: all of it, in the form in which it is rendered.
pub fn network_policy_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec.is_object() && !spec["ingress"].is_array() {
        spec["ingress"] = json!([]);
    }
    spec
}
