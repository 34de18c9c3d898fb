//! The binding of a template: its content, and the merge with an existing binding.

use super::wire::{self, label};
use fedgate_karmada::{
    claim::{Claim, Edit},
    names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{api::DynamicObject, core::ObjectMeta};
use serde_json::{Value, json};

/// Result of merging a desired binding into an existing binding.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Joined {
    /// The existing binding is up to date.
    Same,
    /// The existing binding must be replaced with this object.
    Changed(Box<DynamicObject>),
    /// The binding belongs to an earlier object of the same name and must be garbage-collected first.
    OfEarlierObject,
}

/// A reference to a template, for `spec.resource`.
pub(super) fn resource(template: &DynamicObject) -> Value {
    let meta = &template.metadata;
    let types = template.types.clone().unwrap_or_default();
    let mut value = json!({
        "apiVersion": types.api_version,
        "kind": types.kind,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    });
    if let Some(namespace) = &meta.namespace {
        value["namespace"] = json!(namespace);
    }
    value
}

/// A binding owned by `template`, without a policy's fields.
pub(super) fn owned_by(template: &DynamicObject) -> DynamicObject {
    let meta = &template.metadata;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let types = template.types.clone().unwrap_or_default();
    let name = names::binding(&types.kind, &text(&meta.name));
    let (kind, id, finalizer) = match meta.namespace {
        Some(_) => (wire::binding(), names::BINDING_ID, names::BINDING_FINALIZER),
        None => (
            wire::cluster_binding(),
            names::CLUSTER_BINDING_ID,
            names::CLUSTER_BINDING_FINALIZER,
        ),
    };
    let uid = text(&meta.uid);
    let permanent_id = wire::permanent_id(&format!("binding/{name}/{uid}"));
    DynamicObject {
        types: Some(wire::types(&kind)),
        metadata: ObjectMeta {
            name: Some(name),
            namespace: meta.namespace.clone(),
            labels: Some([(id.to_owned(), permanent_id)].into()),
            finalizers: Some(vec![finalizer.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: types.api_version,
                kind: types.kind,
                name: text(&meta.name),
                uid,
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        data: json!({"spec": {"resource": resource(template)}}),
    }
}

/// The binding of `template` that `policy` defines.
pub(super) fn build(template: &DynamicObject, policy: &DynamicObject) -> DynamicObject {
    let mut binding = owned_by(template);
    for field in names::CARRIED {
        let value = &policy.data["spec"][field];
        if !value.is_null() {
            binding.data["spec"][field] = value.clone();
        }
    }
    Edit::apply(&Claim::of(policy).put(policy), &mut binding);
    binding
}

/// Merges the desired binding into the existing binding: the policy's fields replace, labels and annotations are
/// merged, and the scheduler's result is kept.
pub(super) fn join(existing: &DynamicObject, desired: &DynamicObject) -> Joined {
    let Some(mut joined) = join_metadata(existing, desired) else {
        return Joined::OfEarlierObject;
    };
    if !label(desired, Claim::Policy.label()).is_empty() {
        Edit::apply(&Claim::ClusterPolicy.strip(), &mut joined);
    }
    for field in names::CARRIED.into_iter().chain(["resource"]) {
        let value = desired.data["spec"][field].clone();
        if value == joined.data["spec"][field] {
            continue;
        }
        match (value, joined.data["spec"].as_object_mut()) {
            (Value::Null, Some(spec)) => drop(spec.remove(field)),
            (value, Some(spec)) => drop(spec.insert(field.to_owned(), value)),
            (_, None) => {}
        }
    }
    settle(existing, joined)
}

/// The existing binding with the desired binding's labels, annotations, finalizers and owners; `None` if another object
/// owns it.
pub(super) fn join_metadata(existing: &DynamicObject, desired: &DynamicObject) -> Option<DynamicObject> {
    let owner = |object: &DynamicObject| {
        let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
        owners
            .iter()
            .find(|owner| owner.controller == Some(true))
            .map(|owner| owner.uid.clone())
    };
    if owner(existing).is_some_and(|uid| Some(uid) != owner(desired)) {
        return None;
    }
    let mut joined = existing.clone();
    let (meta, wanted) = (&mut joined.metadata, &desired.metadata);
    // A permanent ID, once set, is kept.
    let given = [names::BINDING_ID, names::CLUSTER_BINDING_ID];
    for (key, value) in wanted.labels.iter().flatten() {
        let labels = meta.labels.get_or_insert_default();
        if !(given.contains(&key.as_str()) && labels.contains_key(key)) {
            labels.insert(key.clone(), value.clone());
        }
    }
    let annotations = wanted.annotations.clone().unwrap_or_default();
    if !annotations.is_empty() {
        meta.annotations.get_or_insert_default().extend(annotations);
    }
    for finalizer in wanted.finalizers.iter().flatten() {
        let finalizers = meta.finalizers.get_or_insert_default();
        if !finalizers.contains(finalizer) {
            finalizers.push(finalizer.clone());
        }
    }
    meta.owner_references.clone_from(&wanted.owner_references);
    Some(joined)
}

/// Compares the existing binding with the merged binding.
pub(super) fn settle(existing: &DynamicObject, joined: DynamicObject) -> Joined {
    if joined == *existing {
        Joined::Same
    } else {
        Joined::Changed(Box::new(joined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    fn template(uid: &str, version: &str) -> DynamicObject {
        from_value(json!({"apiVersion": "g/v1", "kind": "Thing",
            "metadata": {"name": "web", "namespace": "n", "uid": uid, "resourceVersion": version}}))
        .unwrap()
    }

    fn policy() -> DynamicObject {
        from_value(json!({
            "metadata": {"name": "city-dfw", "namespace": "n", "labels": {Claim::Policy.label(): "p"}},
            "spec": {"propagateDeps": true, "placement": {"clusterAffinity": {}}, "priority": 0}
        }))
        .unwrap()
    }

    #[test]
    fn a_binding_is_owned_by_its_template_and_carries_the_policy() {
        let binding = build(&template("u", "1"), &policy());
        assert_eq!(binding.metadata.name.as_deref(), Some("web-thing"));
        assert_eq!(
            binding.metadata.owner_references.as_ref().unwrap()[0].controller,
            Some(true)
        );
        assert_eq!(binding.data["spec"]["resource"]["uid"], "u");
        assert_eq!(binding.data["spec"]["propagateDeps"], true);
        assert!(binding.data["spec"].get("priority").is_none());
        assert_eq!(label(&binding, Claim::Policy.label()), "p");
        assert!(!label(&binding, names::BINDING_ID).is_empty());
    }

    #[test]
    fn joining_keeps_the_schedule_and_writes_only_changes() {
        let mut existing = build(&template("u", "1"), &policy());
        existing.data["spec"]["clusters"] = json!([{"name": "dfw-1"}]);
        assert_eq!(
            join(&existing, &build(&template("u", "1"), &policy())),
            Joined::Same
        );
        let Joined::Changed(next) = join(&existing, &build(&template("u", "2"), &policy())) else {
            panic!("a new version is a change")
        };
        assert_eq!(next.data["spec"]["clusters"], json!([{"name": "dfw-1"}]));
        assert_eq!(next.data["spec"]["resource"]["resourceVersion"], "2");
    }

    #[test]
    fn a_binding_of_an_earlier_object_blocks() {
        let existing = build(&template("old", "1"), &policy());
        assert_eq!(
            join(&existing, &build(&template("new", "2"), &policy())),
            Joined::OfEarlierObject
        );
    }
}
