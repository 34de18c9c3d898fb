//! The object that a member gets of a template, and how it goes together with the member's object.

use crate::{Object, binding, claim::Claim, names};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Labels at a member that Karmada takes off an object that it leaves there.
const LEFT_LABELS: [&str; 3] = [names::BINDING_ID, names::WORK_ID, names::MANAGED];
/// Annotations at a member that Karmada takes off an object that it leaves there.
const LEFT_ANNOTATIONS: [&str; 8] = [
    names::MANAGED_ANNOTATIONS,
    names::MANAGED_LABELS,
    names::BINDING_NAMESPACE,
    names::BINDING_NAME,
    names::TEMPLATE_UID,
    names::TEMPLATE_GENERATION,
    names::WORK_NAME,
    names::WORK_NAMESPACE,
];

/// The object without the fields that only concern its own API server: owners, finalizers, status and what the server
/// sets.
pub fn prune(object: &Value) -> Value {
    let mut bare = object.clone();
    let mut metadata = json!({});
    for key in ["name", "namespace", "labels", "annotations"] {
        let value = &object["metadata"][key];
        if !value.is_null() {
            metadata[key] = value.clone();
        }
    }
    if let Some(fields) = bare.as_object_mut() {
        fields.remove("status");
        fields.insert("metadata".to_owned(), metadata);
    }
    bare
}

/// The object for `member`, whose Work has the permanent ID `work`. `binding` is `None` for a Namespace that is synced to
/// every member.
pub fn render(template: &Value, binding: Option<&Value>, member: &str, work: &str) -> Value {
    let mut object = prune(template);
    let mut annotate = |key: &str, value: &str| object["metadata"]["annotations"][key] = json!(value);
    annotate(
        names::TEMPLATE_UID,
        template["metadata"]["uid"].as_str().unwrap_or_default(),
    );
    annotate(
        names::WORK_NAME,
        &names::work(template.kind(), template.namespace(), template.name()),
    );
    annotate(names::WORK_NAMESPACE, &names::work_namespace(member));
    if let Some(binding) = binding {
        for (key, value) in origin(binding) {
            annotate(key, value);
        }
        if let Some(generation) = template["metadata"]["generation"].as_i64().filter(|g| *g > 0) {
            annotate(names::TEMPLATE_GENERATION, &generation.to_string());
        }
        annotate(names::CONFLICT_RESOLUTION, resolution(template, binding));
        let (label, id) = binding::id(binding);
        object["metadata"]["labels"][label] = json!(id);
    }
    object["metadata"]["labels"][names::MANAGED] = json!("true");
    object["metadata"]["labels"][names::WORK_ID] = json!(work);
    record(&mut object);
    object
}

/// The annotations that name a binding, at members and on Works.
pub(crate) fn origin(binding: &Value) -> Vec<(&'static str, &str)> {
    match binding.namespace() {
        "" => vec![(names::CLUSTER_BINDING_NAME, binding.name())],
        namespace => vec![
            (names::BINDING_NAMESPACE, namespace),
            (names::BINDING_NAME, binding.name()),
        ],
    }
}

/// How to handle an object that is at the member already: the template says so, else the binding.
pub(crate) fn resolution(template: &Value, binding: &Value) -> &'static str {
    let overwrite = match template.annotation(names::CONFLICT_RESOLUTION) {
        Some("overwrite") => true,
        Some("abort") => false,
        _ => binding["spec"]["conflictResolution"] == "Overwrite",
    };
    if overwrite { "overwrite" } else { "abort" }
}

/// Records in the object which of its labels and annotations the hub set.
fn record(object: &mut Value) {
    let keys = |map: &Value, more: &[&str]| -> String {
        let keys = map.as_object().into_iter().flat_map(Map::keys);
        let all: BTreeSet<&str> = keys.map(String::as_str).chain(more.iter().copied()).collect();
        all.into_iter().collect::<Vec<_>>().join(",")
    };
    let both = [names::MANAGED_ANNOTATIONS, names::MANAGED_LABELS];
    let labels = keys(&object["metadata"]["labels"], &[]);
    let annotations = keys(&object["metadata"]["annotations"], &both);
    object["metadata"]["annotations"][names::MANAGED_LABELS] = json!(labels);
    object["metadata"]["annotations"][names::MANAGED_ANNOTATIONS] = json!(annotations);
}

/// True if Karmada manages a member's object.
pub fn is_managed(object: &Value) -> bool {
    object.label(names::MANAGED) == Some("true")
}

/// The reason why an object that exists at the member must not be changed; `None` if it may be.
pub fn refusal(desired: &Value, observed: &Value, member: &str) -> Option<String> {
    if is_managed(observed) || desired.annotation(names::CONFLICT_RESOLUTION) == Some("overwrite") {
        return None;
    }
    Some(format!(
        "resource(kind={}, {}/{}) already exists in the cluster {member} and the {} strategy value is empty, \
         Karmada will not manage this resource",
        desired.kind(),
        desired.namespace(),
        desired.name(),
        names::CONFLICT_RESOLUTION
    ))
}

/// The desired object with the fields that the member keeps: resourceVersion, owners, finalizers, and labels and
/// annotations that the hub never set.
pub fn retain(desired: &Value, observed: &Value) -> Value {
    let mut object = desired.clone();
    for key in ["resourceVersion", "ownerReferences", "finalizers"] {
        let theirs = &observed["metadata"][key];
        match object["metadata"].as_object_mut() {
            Some(metadata) if theirs.is_null() => drop(metadata.remove(key)),
            Some(metadata) => drop(metadata.insert(key.to_owned(), theirs.clone())),
            None => {}
        }
    }
    for (map, recorded) in [
        ("labels", names::MANAGED_LABELS),
        ("annotations", names::MANAGED_ANNOTATIONS),
    ] {
        let ours: BTreeSet<&str> = observed
            .annotation(recorded)
            .unwrap_or_default()
            .split(',')
            .collect();
        for (key, value) in observed["metadata"][map].as_object().into_iter().flatten() {
            if !ours.contains(&**key) && object["metadata"][map][key].is_null() {
                object["metadata"][map][key] = value.clone();
            }
        }
    }
    object
}

/// The object that stays at a member when its Work ends and preserves it: the manifest of the Work without Karmada's
/// keys, so that a spec that was held back is written, too.
pub fn leave(manifest: &Value) -> Value {
    let claim = match manifest.namespace() {
        "" => Claim::ClusterPolicy,
        _ => Claim::Policy,
    };
    let claim = claim.strip();
    let mut object = manifest.clone();
    for (map, keys) in [
        ("labels", LEFT_LABELS.as_slice()),
        ("annotations", &LEFT_ANNOTATIONS),
    ] {
        let own = &claim["metadata"][map];
        if let Some(fields) = object["metadata"][map].as_object_mut() {
            fields.retain(|key, _| !keys.contains(&&**key) && own.get(key).is_none());
        }
    }
    object
}

/// The part of an object that a write would change: two objects with equal parts need no write.
pub fn substance(object: &Value) -> Value {
    let mut bare = prune(object);
    if let Some(metadata) = bare["metadata"].as_object_mut() {
        metadata.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(labels: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {
                "name": "web", "namespace": "n", "uid": "u", "generation": 3, "resourceVersion": "9",
                "labels": labels, "annotations": {"a": "1"},
                "finalizers": ["f"], "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "y"}],
            },
            "spec": {"x": 1}, "status": {"y": 2},
        })
    }

    fn binding() -> Value {
        json!({"metadata": {"name": "web-thing", "namespace": "n", "labels": {names::BINDING_ID: "id"}}})
    }

    fn rendered(labels: &Value) -> Value {
        render(&template(labels), Some(&binding()), "dfw-1", "w")
    }

    #[test]
    fn a_member_gets_labels_annotations_and_spec_and_nothing_of_the_hub() {
        let object = rendered(&json!({"l": "1"}));
        let fields: Vec<&String> = object["metadata"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["annotations", "labels", "name", "namespace"]);
        assert_eq!(
            (&object["spec"], &object["status"]),
            (&json!({"x": 1}), &Value::Null)
        );
        let annotation = |key| object.annotation(key).unwrap();
        assert_eq!(annotation(names::TEMPLATE_GENERATION), "3");
        assert_eq!(annotation(names::TEMPLATE_UID), "u");
        assert_eq!(annotation(names::BINDING_NAME), "web-thing");
        assert_eq!(annotation(names::WORK_NAMESPACE), "karmada-es-dfw-1");
        assert_eq!(annotation(names::CONFLICT_RESOLUTION), "abort");
        assert_eq!(
            (object.label(names::BINDING_ID), object.label(names::WORK_ID)),
            (Some("id"), Some("w"))
        );
        assert!(is_managed(&object));
        assert_eq!(
            annotation(names::MANAGED_LABELS),
            "karmada.io/managed,l,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id"
        );
        assert!(annotation(names::MANAGED_ANNOTATIONS).starts_with("a,resourcebinding.karmada.io/name,"));
    }

    #[test]
    fn removed_keys_go_and_the_members_own_stay() {
        let mut observed = rendered(&json!({"old": "1", "l": "1"}));
        observed["metadata"]["labels"]["theirs"] = json!("x");
        observed["metadata"]["finalizers"] = json!(["cell"]);
        observed["metadata"]["resourceVersion"] = json!("7");
        let merged = retain(&rendered(&json!({"l": "2"})), &observed);
        assert_eq!(
            (merged.label("l"), merged.label("old"), merged.label("theirs")),
            (Some("2"), None, Some("x"))
        );
        assert_eq!(merged["metadata"]["finalizers"], json!(["cell"]));
        assert_eq!(merged["metadata"]["resourceVersion"], "7");
        assert_ne!(substance(&merged), substance(&observed));
        assert_eq!(substance(&retain(&merged, &merged)), substance(&merged));
    }

    #[test]
    fn what_somebody_else_made_is_not_taken_over_unless_it_is_overwritten() {
        let desired = rendered(&json!({}));
        let theirs = template(&json!({}));
        let reason = refusal(&desired, &theirs, "dfw-1").unwrap();
        assert!(reason.contains("(kind=Thing, n/web) already exists in the cluster dfw-1"));
        assert_eq!(refusal(&desired, &desired, "dfw-1"), None);
        let mut binding = binding();
        binding["spec"]["conflictResolution"] = json!("Overwrite");
        let desired = render(&template(&json!({})), Some(&binding), "dfw-1", "w");
        assert_eq!(refusal(&desired, &theirs, "dfw-1"), None);
    }

    #[test]
    fn what_is_left_at_a_member_has_the_held_spec_and_none_of_karmadas_keys() {
        let claimed = json!({"l": "1", Claim::Policy.label(): "p"});
        let mut manifest = rendered(&claimed);
        let observed = rendered(&claimed);
        manifest["spec"]["x"] = json!(2);
        let left = retain(&leave(&manifest), &observed);
        assert_eq!(left["metadata"]["labels"], json!({"l": "1"}));
        assert_eq!(
            left["metadata"]["annotations"],
            json!({"a": "1", names::CONFLICT_RESOLUTION: "abort"})
        );
        assert_eq!(left["spec"], json!({"x": 2}));
    }
}
