//! Attached bindings: the bindings of the `ConfigMaps` and Secrets that a template depends on.

use super::{
    binding::{self, Joined},
    refs::{NamespacedName, ObjectRef},
    wire::{self, label},
};
use fedgate_karmada::names;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// The label on an attached binding which records that `independent` needs it: key and value.
pub(super) fn mark(independent: &DynamicObject) -> (String, String) {
    let at = NamespacedName::to(independent);
    (
        wire::depended_by(&at.namespace, &at.name),
        label(independent, names::BINDING_ID).to_owned(),
    )
}

/// The attached binding of `companion`, needed because `independent` depends on `companion`.
pub(super) fn build(independent: &DynamicObject, companion: &DynamicObject) -> DynamicObject {
    let mut attached = binding::owned_by(companion);
    let (key, value) = mark(independent);
    attached
        .metadata
        .labels
        .get_or_insert_default()
        .insert(key, value);
    attached.data["spec"]["requiredBy"] = json!([snapshot(independent)]);
    for field in ["conflictResolution", "preserveResourcesOnDeletion"] {
        let value = &independent.data["spec"][field];
        if !value.is_null() {
            attached.data["spec"][field] = value.clone();
        }
    }
    attached
}

/// Merges the need of one binding into the existing attached binding.
pub(super) fn join(existing: &DynamicObject, desired: &DynamicObject) -> Joined {
    let Some(mut joined) = binding::join_metadata(existing, desired) else {
        return Joined::OfEarlierObject;
    };
    let mut required = required_by(&joined).to_vec();
    for wanted in required_by(desired) {
        let same = |old: &Value| NamespacedName::read(old) == NamespacedName::read(wanted);
        match required.iter_mut().find(|old| same(old)) {
            Some(old) => *old = wanted.clone(),
            None => required.push(wanted.clone()),
        }
    }
    joined.data["spec"]["requiredBy"] = Value::Array(required);
    joined.data["spec"]["resource"] = desired.data["spec"]["resource"].clone();
    binding::settle(existing, joined)
}

/// The attached binding without the need of `independent`.
pub(super) fn release(attached: &DynamicObject, independent: &DynamicObject) -> DynamicObject {
    let mut released = attached.clone();
    let at = NamespacedName::to(independent);
    if let Some(labels) = &mut released.metadata.labels {
        labels.remove(&mark(independent).0);
    }
    let left: Vec<Value> = required_by(attached)
        .iter()
        .filter(|need| NamespacedName::read(need).as_ref() != Some(&at))
        .cloned()
        .collect();
    if let Some(spec) = released.data["spec"].as_object_mut() {
        if left.is_empty() {
            spec.remove("requiredBy");
        } else {
            spec.insert("requiredBy".to_owned(), Value::Array(left));
        }
    }
    released
}

/// The bindings that need an attached binding.
pub(super) fn required_by(attached: &DynamicObject) -> &[Value] {
    attached.data["spec"]["requiredBy"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The dependencies of its template that a binding recorded.
pub(super) fn recorded(independent: &DynamicObject) -> Vec<ObjectRef> {
    let text = wire::annotation(independent, wire::DEPENDENCIES);
    let list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    list.iter().filter_map(ObjectRef::read).collect()
}

fn snapshot(independent: &DynamicObject) -> Value {
    let at = NamespacedName::to(independent);
    let mut snapshot = json!({"namespace": &*at.namespace, "name": &*at.name});
    let clusters = &independent.data["spec"]["clusters"];
    if !clusters.is_null() {
        snapshot["clusters"] = clusters.clone();
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    fn independent(name: &str, cluster: &str) -> DynamicObject {
        from_value(json!({
            "metadata": {"name": name, "namespace": "n", "labels": {names::BINDING_ID: format!("id-{name}")}},
            "spec": {"clusters": [{"name": cluster}]}
        }))
        .unwrap()
    }

    fn secret() -> DynamicObject {
        from_value(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "db", "namespace": "n", "uid": "s", "resourceVersion": "4"}}))
        .unwrap()
    }

    #[test]
    fn two_bindings_share_one_attached_binding() {
        let (web, api) = (independent("web", "dfw-1"), independent("api", "lhr-1"));
        let first = build(&web, &secret());
        assert_eq!(first.metadata.name.as_deref(), Some("db-secret"));
        assert_eq!(join(&first, &build(&web, &secret())), Joined::Same);
        let Joined::Changed(both) = join(&first, &build(&api, &secret())) else {
            panic!("a second need")
        };
        assert_eq!(required_by(&both).len(), 2);
        let left = release(&both, &web);
        assert_eq!(required_by(&left)[0]["name"], "api");
        assert_eq!(label(&left, &mark(&web).0), "");
        let none = release(&left, &api);
        assert!(required_by(&none).is_empty() && none.data["spec"].get("requiredBy").is_none());
    }

    #[test]
    fn recorded_dependencies_are_read_back() {
        let mut web = independent("web", "dfw-1");
        let text = r#"[{"apiVersion":"v1","kind":"Secret","namespace":"n","name":"db"}]"#;
        web.metadata.annotations = Some([(wire::DEPENDENCIES.to_owned(), text.to_owned())].into());
        assert_eq!(recorded(&web)[0].to_string(), "Secret n/db");
    }
}
