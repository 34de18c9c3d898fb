//! Works: what each member must have of a template, and how far that is.

use crate::{
    Object, binding,
    condition::{Condition, is_true},
    list, manifest, names,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The Work of a binding for `member`; `id` is the permanent ID of a new one.
pub fn desired(template: &Value, binding: &Value, member: &str, id: &str) -> Value {
    let (label, value) = binding::id(binding);
    let mut annotations = Map::new();
    for (key, value) in manifest::origin(binding) {
        annotations.insert(key.to_owned(), json!(value));
    }
    annotations.insert(
        names::CONFLICT_RESOLUTION.to_owned(),
        json!(manifest::resolution(template, binding)),
    );
    json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {
            "name": names::work(template.kind(), template.namespace(), template.name()),
            "namespace": names::work_namespace(member),
            "finalizers": [names::WORK_FINALIZER],
            "labels": {label: value, names::WORK_ID: id},
            "annotations": annotations,
        },
        "spec": {
            "suspendDispatching": is_held_back(binding, member),
            "preserveResourcesOnDeletion": binding["spec"]["preserveResourcesOnDeletion"] == true,
            "workload": {"manifests": [manifest::render(template, Some(binding), member, id)]},
        },
    })
}

/// The Work of a Namespace that is synced to every member: the Namespace owns it.
pub fn of_namespace(namespace: &Value, member: &str, id: &str) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {
            "name": names::work(namespace.kind(), "", namespace.name()),
            "namespace": names::work_namespace(member),
            "finalizers": [names::WORK_FINALIZER],
            "labels": {names::WORK_ID: id},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Namespace", "name": namespace.name(),
                "uid": namespace["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"workload": {"manifests": [manifest::render(namespace, None, member, id)]}},
    })
}

/// True if a binding delivers nothing new to a member.
fn is_held_back(binding: &Value, member: &str) -> bool {
    let suspension = &binding["spec"]["suspension"];
    let mut named = list(&suspension["dispatchingOnClusters"]["clusterNames"]).iter();
    suspension["dispatching"] == true || named.any(|name| name == member)
}

/// The permanent ID of a Work; empty if it has none.
pub fn id(work: &Value) -> &str {
    work.label(names::WORK_ID).unwrap_or_default()
}

/// An existing Work, brought to what is desired; `None` if it is so already.
pub fn join(existing: &Value, desired: &Value) -> Option<Value> {
    let mut joined = existing.clone();
    for map in ["labels", "annotations"] {
        for (key, value) in desired["metadata"][map].as_object().into_iter().flatten() {
            joined["metadata"][map][key] = value.clone();
        }
    }
    joined["spec"] = desired["spec"].clone();
    (joined != *existing).then_some(joined)
}

/// Namespace and name of the binding of a Work; an empty namespace is that of a `ClusterResourceBinding`.
pub fn binding(work: &Value) -> Option<(&str, &str)> {
    let annotation = |key| work.annotation(key).filter(|text| !text.is_empty());
    match annotation(names::BINDING_NAME) {
        Some(name) => Some((annotation(names::BINDING_NAMESPACE)?, name)),
        None => Some(("", annotation(names::CLUSTER_BINDING_NAME)?)),
    }
}

/// The object of a Work as the member must have it.
pub fn content(work: &Value) -> &Value {
    &work["spec"]["workload"]["manifests"][0]
}

/// True if nothing of a Work is delivered.
pub fn is_suspended(work: &Value) -> bool {
    work["spec"]["suspendDispatching"] == true
}

/// True if the member's object stays when the Work ends.
pub fn preserves(work: &Value) -> bool {
    work["spec"]["preserveResourcesOnDeletion"] == true
}

/// True if the member has applied the Work once.
pub fn is_applied(work: &Value) -> bool {
    is_true(&work["status"]["conditions"], "Applied")
}

/// The condition `Dispatching` of a Work.
pub fn dispatching(work: &Value) -> Condition {
    if is_suspended(work) {
        let message = "Work dispatching is in a suspended state.";
        Condition::new("Dispatching", false, "SuspendDispatching", message)
    } else {
        let message = "Work is being dispatched to member clusters.";
        Condition::new("Dispatching", true, "Dispatching", message)
    }
}

/// The condition `Applied` after a delivery; the error is the reason why it failed.
pub fn applied(outcome: Result<(), &str>) -> Condition {
    match outcome {
        Ok(()) => {
            let message = "Manifest has been successfully applied";
            Condition::new("Applied", true, "AppliedSuccessful", message)
        }
        Err(reason) => {
            let message = format!("Failed to apply all manifests (0/1): {reason}");
            Condition::new("Applied", false, "AppliedFailed", &message)
        }
    }
}

/// `status.manifestStatuses` of a Work: status and health of the member's object.
pub fn reflected(work: &Value, status: Option<&Value>, health: &str) -> Value {
    let content = content(work);
    let (group, version) = content
        .api_version()
        .split_once('/')
        .unwrap_or(("", content.api_version()));
    let mut identifier = json!({
        "ordinal": 0, "version": version, "kind": content.kind(),
        "resource": "", "name": content.name(),
    });
    for (key, text) in [("group", group), ("namespace", content.namespace())] {
        if !text.is_empty() {
            identifier[key] = json!(text);
        }
    }
    let mut reflected = json!({"identifier": identifier, "health": health});
    if let Some(status) = status {
        reflected["status"] = status.clone();
    }
    json!([reflected])
}

/// The item of a Work in `status.aggregatedStatus` of its binding. False and empty fields are omitted where Karmada omits
/// them.
pub fn item(work: &Value) -> Value {
    let member = names::member_of(work.namespace()).unwrap_or_default();
    let mut item = json!({"clusterName": member, "health": "Unknown"});
    let status = &work["status"];
    if is_applied(work) {
        item["applied"] = json!(true);
        let reflected = &status["manifestStatuses"][0];
        if let Some(health) = reflected["health"].as_str() {
            item["health"] = json!(health);
        }
        if !reflected["status"].is_null() {
            item["status"] = reflected["status"].clone();
        }
        return item;
    }
    let mut conditions = list(&status["conditions"]).iter();
    let applied = conditions.find(|one| one["type"] == "Applied");
    if let Some(message) = applied.map(|applied| &applied["message"]) {
        item["appliedMessage"] = message.clone();
    }
    item
}

/// `status.aggregatedStatus` of a binding: an item of each Work that does not end, by member.
pub fn items(works: &[Arc<Value>]) -> Vec<Value> {
    let mut items: Vec<Value> = works
        .iter()
        .filter(|work| !work.is_deleting())
        .map(|work| item(work))
        .collect();
    items.sort_by(|one, other| one["clusterName"].as_str().cmp(&other["clusterName"].as_str()));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Value {
        json!({"apiVersion": "g.dev/v1", "kind": "Thing",
            "metadata": {"name": "web", "namespace": "n", "uid": "u"}, "spec": {"x": 1}})
    }

    fn binding_of(spec: &Value) -> Value {
        json!({"metadata": {"name": "web-thing", "namespace": "n", "labels": {names::BINDING_ID: "id"}},
            "spec": spec})
    }

    fn work(spec: &Value) -> Value {
        desired(&template(), &binding_of(spec), "dfw-1", "w")
    }

    #[test]
    fn a_work_names_its_binding_and_carries_its_suspension() {
        let plain = work(&json!({}));
        assert_eq!(plain.namespace(), "karmada-es-dfw-1");
        assert_eq!(binding(&plain), Some(("n", "web-thing")));
        assert_eq!((plain.label(names::BINDING_ID), id(&plain)), (Some("id"), "w"));
        assert_eq!(content(&plain)["spec"], json!({"x": 1}));
        assert!(!is_suspended(&plain) && !preserves(&plain));
        let held = work(&json!({"suspension": {"dispatching": true}, "preserveResourcesOnDeletion": true}));
        assert!(is_suspended(&held) && preserves(&held));
        let named = |name| json!({"suspension": {"dispatchingOnClusters": {"clusterNames": [name]}}});
        assert!(is_suspended(&work(&named("dfw-1"))) && !is_suspended(&work(&named("dfw-2"))));
        let mut everywhere = binding_of(&json!({}));
        everywhere["metadata"] = json!({"name": "ns-namespace", "labels": {names::CLUSTER_BINDING_ID: "id"}});
        assert_eq!(
            binding(&desired(&template(), &everywhere, "dfw-1", "w")),
            Some(("", "ns-namespace"))
        );
    }

    #[test]
    fn joining_writes_only_changes_and_keeps_what_others_set() {
        let mut existing = work(&json!({}));
        existing["metadata"]["resourceVersion"] = json!("4");
        existing["status"] = json!({"conditions": []});
        assert_eq!(join(&existing, &work(&json!({}))), None);
        let next = join(&existing, &work(&json!({"suspension": {"dispatching": true}}))).unwrap();
        assert!(is_suspended(&next));
        assert_eq!(next["metadata"]["resourceVersion"], "4");
        assert_eq!(next["status"], existing["status"]);
    }

    #[test]
    fn items_are_sorted_and_say_what_karmada_says() {
        let done = |member: &str, status: Value| {
            let mut work = desired(&template(), &binding_of(&json!({})), member, "w");
            work["status"]["conditions"] = applied(Ok(())).set_in(&Value::Null, "t");
            work["status"]["manifestStatuses"] = reflected(&work, Some(&status), "Healthy");
            work
        };
        let mut failed = done("a", json!({"replicas": 7}));
        failed["status"]["conditions"] = applied(Err("no")).set_in(&Value::Null, "t");
        let mut ending = done("d", json!({}));
        ending["metadata"]["deletionTimestamp"] = json!("t");
        let works = [
            done("c", json!({"replicas": 1})),
            ending,
            failed,
            desired(&template(), &binding_of(&json!({})), "b", "w"),
        ]
        .map(Arc::new);
        assert_eq!(
            json!(items(&works)),
            json!([
                {"clusterName": "a", "appliedMessage": "Failed to apply all manifests (0/1): no", "health": "Unknown"},
                {"clusterName": "b", "health": "Unknown"},
                {"clusterName": "c", "applied": true, "health": "Healthy", "status": {"replicas": 1}},
            ])
        );
    }
}
