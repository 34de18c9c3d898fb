//! Renders the object that a member gets from a template, and merges it with the member's object.

use super::wire::{self, annotation, label};
use fedgate_karmada::names;
use kube::{api::DynamicObject, core::ObjectMeta};
use serde_json::Value;
use std::collections::BTreeMap;

/// The template without the fields that only concern the hub: owners, finalizers, status and the API server's own
/// fields.
pub(super) fn prune(object: &DynamicObject) -> DynamicObject {
    let meta = &object.metadata;
    let mut data = object.data.clone();
    if let Some(fields) = data.as_object_mut() {
        fields.remove("status");
    }
    DynamicObject {
        types: object.types.clone(),
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            labels: meta.labels.clone(),
            annotations: meta.annotations.clone(),
            ..ObjectMeta::default()
        },
        data,
    }
}

/// The object for `member`. `binding` is `None` for a Namespace that is synced to every member.
pub(super) fn render(
    template: &DynamicObject,
    binding: Option<&DynamicObject>,
    member: &str,
) -> DynamicObject {
    let meta = &template.metadata;
    let kind = template.types.as_ref().map_or("", |types| &types.kind);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let uid = text(&meta.uid);
    let mut object = prune(template);
    let labels = object.metadata.labels.get_or_insert_default();
    let annotations = object.metadata.annotations.get_or_insert_default();
    let mut annotate = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    if let Some(binding) = binding {
        let name = text(&binding.metadata.name);
        let id = if let Some(namespace) = &binding.metadata.namespace {
            annotate(wire::BINDING_NAMESPACE, namespace.clone());
            annotate(wire::BINDING_NAME, name);
            names::BINDING_ID
        } else {
            annotate(wire::CLUSTER_BINDING_NAME, name);
            names::CLUSTER_BINDING_ID
        };
        labels.insert(id.to_owned(), label(binding, id).to_owned());
        if let Some(generation) = meta.generation.filter(|generation| *generation > 0) {
            annotate(wire::TEMPLATE_GENERATION, generation.to_string());
        }
        let own = annotation(template, wire::CONFLICT_RESOLUTION);
        let overwrite = match own {
            "overwrite" | "abort" => own == "overwrite",
            _ => binding.data["spec"]["conflictResolution"] == "Overwrite",
        };
        annotate(
            wire::CONFLICT_RESOLUTION,
            if overwrite { "overwrite" } else { "abort" }.to_owned(),
        );
    }
    annotate(wire::TEMPLATE_UID, uid.clone());
    annotate(
        wire::WORK_NAME,
        wire::work_name(kind, &text(&meta.namespace), &text(&meta.name)),
    );
    annotate(wire::WORK_NAMESPACE, wire::work_namespace(member));
    labels.insert(wire::MANAGED.to_owned(), "true".to_owned());
    labels.insert(
        wire::WORK_ID.to_owned(),
        wire::permanent_id(&format!("{member}/{uid}")),
    );
    let joined = |mut keys: Vec<&str>| {
        keys.sort_unstable();
        keys.join(",")
    };
    let label_keys = joined(labels.keys().map(String::as_str).collect());
    let both = [wire::MANAGED_ANNOTATIONS, wire::MANAGED_LABELS];
    let others = annotations
        .keys()
        .map(String::as_str)
        .filter(|key| !both.contains(key));
    let annotation_keys = joined(others.chain(both).collect());
    annotations.insert(wire::MANAGED_LABELS.to_owned(), label_keys);
    annotations.insert(wire::MANAGED_ANNOTATIONS.to_owned(), annotation_keys);
    object
}

/// True if Karmada manages a member's object.
pub(super) fn is_managed(object: &DynamicObject) -> bool {
    label(object, wire::MANAGED) == "true"
}

/// The reason why an object that exists at the member must not be taken over; `None` if it may be.
pub(super) fn refusal(desired: &DynamicObject, observed: &DynamicObject, member: &str) -> Option<String> {
    if is_managed(observed) || annotation(desired, wire::CONFLICT_RESOLUTION) == "overwrite" {
        return None;
    }
    let kind = desired.types.as_ref().map_or("", |types| &types.kind);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    Some(format!(
        "resource(kind={kind}, {}/{}) already exists in the cluster {member} and the {} strategy value is empty, \
         Karmada will not manage this resource",
        text(&desired.metadata.namespace),
        text(&desired.metadata.name),
        wire::CONFLICT_RESOLUTION
    ))
}

/// The desired object with the fields that the member keeps: resourceVersion, owners, finalizers, and labels and
/// annotations that the hub never set.
pub(super) fn retain(desired: &DynamicObject, observed: &DynamicObject) -> DynamicObject {
    let mut object = desired.clone();
    let (meta, theirs) = (&mut object.metadata, &observed.metadata);
    meta.resource_version.clone_from(&theirs.resource_version);
    meta.owner_references.clone_from(&theirs.owner_references);
    meta.finalizers.clone_from(&theirs.finalizers);
    keep(
        &mut meta.annotations,
        theirs.annotations.as_ref(),
        annotation(observed, wire::MANAGED_ANNOTATIONS),
    );
    keep(
        &mut meta.labels,
        theirs.labels.as_ref(),
        annotation(observed, wire::MANAGED_LABELS),
    );
    object
}

fn keep(
    ours: &mut Option<BTreeMap<String, String>>,
    theirs: Option<&BTreeMap<String, String>>,
    managed: &str,
) {
    let managed: Vec<&str> = managed.split(',').collect();
    for (key, value) in theirs.into_iter().flatten() {
        if !managed.contains(&key.as_str()) {
            ours.get_or_insert_default()
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
    }
}

/// The part of an object that a write would change, as text: two objects with equal text need no write.
pub(super) fn substance(object: &DynamicObject) -> String {
    let mut bare = prune(object);
    for map in [&mut bare.metadata.labels, &mut bare.metadata.annotations] {
        if map.as_ref().is_some_and(BTreeMap::is_empty) {
            *map = None;
        }
    }
    serde_json::to_string(&bare).unwrap_or_default()
}

/// An object as JSON, for scripts.
pub(super) fn as_value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn template(labels: &Value) -> DynamicObject {
        from_value(json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {
                "name": "web", "namespace": "n", "uid": "u", "generation": 3, "resourceVersion": "9",
                "labels": labels, "annotations": {"a": "1"},
                "finalizers": ["f"], "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "y"}]
            },
            "spec": {"x": 1}, "status": {"y": 2}
        }))
        .unwrap()
    }

    fn binding() -> DynamicObject {
        from_value(
            json!({"metadata": {"name": "web-thing", "namespace": "n", "labels": {names::BINDING_ID: "id"}}}),
        )
        .unwrap()
    }

    #[test]
    fn a_member_gets_labels_annotations_and_spec_and_nothing_of_the_hub() {
        let object = render(&template(&json!({"l": "1"})), Some(&binding()), "dfw-1");
        assert!(object.metadata.finalizers.is_none() && object.metadata.owner_references.is_none());
        assert_eq!(object.data, json!({"spec": {"x": 1}}));
        assert_eq!(annotation(&object, wire::TEMPLATE_GENERATION), "3");
        assert_eq!(annotation(&object, wire::TEMPLATE_UID), "u");
        assert_eq!(annotation(&object, wire::BINDING_NAME), "web-thing");
        assert_eq!(annotation(&object, wire::WORK_NAMESPACE), "karmada-es-dfw-1");
        assert_eq!(label(&object, names::BINDING_ID), "id");
        assert!(is_managed(&object));
        assert_eq!(
            annotation(&object, wire::MANAGED_LABELS),
            "karmada.io/managed,l,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id"
        );
        assert!(
            annotation(&object, wire::MANAGED_ANNOTATIONS).starts_with("a,resourcebinding.karmada.io/name,")
        );
    }

    #[test]
    fn removed_keys_go_and_the_members_own_stay() {
        let mut observed = render(
            &template(&json!({"old": "1", "l": "1"})),
            Some(&binding()),
            "dfw-1",
        );
        observed
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .insert("theirs".to_owned(), "x".to_owned());
        observed.metadata.finalizers = Some(vec!["cell".to_owned()]);
        observed.metadata.resource_version = Some("7".to_owned());
        let desired = render(&template(&json!({"l": "2"})), Some(&binding()), "dfw-1");
        let merged = retain(&desired, &observed);
        assert_eq!(
            (
                label(&merged, "l"),
                label(&merged, "old"),
                label(&merged, "theirs")
            ),
            ("2", "", "x")
        );
        assert_eq!(merged.metadata.finalizers, Some(vec!["cell".to_owned()]));
        assert_eq!(merged.metadata.resource_version.as_deref(), Some("7"));
        assert_ne!(substance(&merged), substance(&observed));
        assert_eq!(substance(&retain(&merged, &merged)), substance(&merged));
    }

    #[test]
    fn what_somebody_else_made_is_not_taken_over() {
        let desired = render(&template(&json!({})), Some(&binding()), "dfw-1");
        let theirs = template(&json!({}));
        assert!(
            refusal(&desired, &theirs, "dfw-1")
                .unwrap()
                .contains("already exists in the cluster dfw-1")
        );
        assert_eq!(refusal(&desired, &desired, "dfw-1"), None);
    }
}
