//! The bindings of templates, and the attached bindings of the objects that templates depend on.

use crate::{Object, claim::Claim, list, merge, names};
use fedgate_api::keys::DISTRIBUTOR_FINALIZER;
use serde_json::{Value, json};

/// Annotation of a binding: the dependencies of its template, as JSON.
const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
/// Prefix of the labels which record that a binding needs an attached binding.
const DEPENDED_BY: &str = "resourcebinding.karmada.io/depended-by-";
/// Finalizers that Karmada removes from a binding that ends.
pub const FINALIZERS: [&str; 3] = [
    names::BINDING_FINALIZER,
    names::CLUSTER_BINDING_FINALIZER,
    DISTRIBUTOR_FINALIZER,
];

/// Label with the permanent ID of a binding in a namespace; an empty namespace is that of a `ClusterResourceBinding`.
fn id_label(namespace: &str) -> &'static str {
    match namespace {
        "" => names::CLUSTER_BINDING_ID,
        _ => names::BINDING_ID,
    }
}

/// The label with the permanent ID of a binding, and the ID.
pub fn id(binding: &Value) -> (&'static str, &str) {
    let label = id_label(binding.namespace());
    (label, binding.label(label).unwrap_or_default())
}

/// The binding of a template without the fields of a policy; `id` is its permanent ID.
fn of_template(template: &Value, id: &str) -> Value {
    let namespace = template.namespace();
    let (kind, finalizer) = match namespace {
        "" => ("ClusterResourceBinding", names::CLUSTER_BINDING_FINALIZER),
        _ => ("ResourceBinding", names::BINDING_FINALIZER),
    };
    let mut binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": kind,
        "metadata": {
            "name": names::binding(template.kind(), template.name()),
            "labels": {id_label(namespace): id},
            "finalizers": [finalizer],
            "ownerReferences": [{
                "apiVersion": template.api_version(), "kind": template.kind(), "name": template.name(),
                "uid": template.uid(), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"resource": {
            "apiVersion": template.api_version(), "kind": template.kind(), "name": template.name(),
            "uid": template.uid(), "resourceVersion": template["metadata"]["resourceVersion"],
        }},
    });
    if !namespace.is_empty() {
        binding["metadata"]["namespace"] = json!(namespace);
        binding["spec"]["resource"]["namespace"] = json!(namespace);
    }
    binding
}

/// Copies the fields that exist from one spec to another.
fn carry(fields: &[&str], from: &Value, to: &mut Value) {
    for field in fields.iter().filter(|field| !from["spec"][**field].is_null()) {
        to["spec"][*field] = from["spec"][*field].clone();
    }
}

/// The binding of a template that `policy` claims; `id` is its permanent ID.
pub fn of(template: &Value, policy: &Value, id: &str) -> Value {
    let mut binding = of_template(template, id);
    carry(&names::CARRIED, policy, &mut binding);
    merge(&mut binding, &Claim::of(policy).put(policy));
    binding
}

/// True if an existing binding belongs to an earlier object of the same name, which must be garbage-collected first.
pub fn is_of_earlier(existing: &Value, desired: &Value) -> bool {
    let owner = |binding: &Value| -> Option<String> {
        let mut owners = list(&binding["metadata"]["ownerReferences"]).iter();
        let owner = owners.find(|owner| owner["controller"] == true)?;
        owner["uid"].as_str().map(ToOwned::to_owned)
    };
    owner(existing).is_some_and(|uid| Some(uid) != owner(desired))
}

/// An existing binding, brought to what is desired; `None` if it is so already. The fields of the policy are replaced, labels
/// and annotations are merged, and the schedule stays.
pub fn join(existing: &Value, desired: &Value) -> Option<Value> {
    let mut joined = join_metadata(existing, desired);
    let claimed = !Claim::Policy.id(desired).is_empty();
    if claimed && !Claim::ClusterPolicy.id(existing).is_empty() {
        merge(&mut joined, &Claim::ClusterPolicy.strip());
    }
    for field in names::CARRIED.into_iter().chain(["resource"]) {
        match (&desired["spec"][field], joined["spec"].as_object_mut()) {
            (Value::Null, Some(spec)) => drop(spec.remove(field)),
            (value, _) => joined["spec"][field] = value.clone(),
        }
    }
    (joined != *existing).then_some(joined)
}

/// The existing binding with the labels, annotations, finalizers and owners of the desired one. Its permanent ID stays.
fn join_metadata(existing: &Value, desired: &Value) -> Value {
    let mut joined = existing.clone();
    let id = id_label(existing.namespace());
    for map in ["labels", "annotations"] {
        for (key, value) in desired["metadata"][map].as_object().into_iter().flatten() {
            if key != id || existing.label(id).is_none() {
                joined["metadata"][map][key] = value.clone();
            }
        }
    }
    let new = desired.finalizers().iter();
    let new = new.filter(|finalizer| !existing.finalizers().contains(finalizer));
    joined["metadata"]["finalizers"] = existing.finalizers().iter().chain(new).cloned().collect();
    joined["metadata"]["ownerReferences"] = desired["metadata"]["ownerReferences"].clone();
    joined
}

/// Label of an attached binding which records that `independent` needs it: key and value.
fn mark(independent: &Value) -> (String, &str) {
    let at = format!("{}/{}", independent.namespace(), independent.name());
    let id = independent.label(names::BINDING_ID).unwrap_or_default();
    (format!("{DEPENDED_BY}{}", names::safe_hash(&at)), id)
}

/// True if `binding` is attached because `independent` needs it.
pub fn is_attached(binding: &Value, independent: &Value) -> bool {
    let (key, id) = mark(independent);
    binding.label(&key) == Some(id)
}

/// The attached binding of `companion`, on which the template of `independent` depends; `id` is its permanent ID.
pub fn attach(independent: &Value, companion: &Value, id: &str) -> Value {
    let mut attached = of_template(companion, id);
    let (key, value) = mark(independent);
    attached["metadata"]["labels"][key] = json!(value);
    let mut need = json!({"namespace": independent.namespace(), "name": independent.name()});
    if !independent["spec"]["clusters"].is_null() {
        need["clusters"] = independent["spec"]["clusters"].clone();
    }
    attached["spec"]["requiredBy"] = json!([need]);
    let carried = ["conflictResolution", "preserveResourcesOnDeletion"];
    carry(&carried, independent, &mut attached);
    attached
}

/// An existing attached binding with the need of one more binding; `None` if it has it already.
pub fn join_attached(existing: &Value, desired: &Value) -> Option<Value> {
    let mut joined = join_metadata(existing, desired);
    let mut required = required_by(existing).to_vec();
    for wanted in required_by(desired) {
        match required.iter_mut().find(|old| is_same(old, wanted)) {
            Some(old) => old.clone_from(wanted),
            None => required.push(wanted.clone()),
        }
    }
    joined["spec"]["requiredBy"] = Value::Array(required);
    joined["spec"]["resource"] = desired["spec"]["resource"].clone();
    (joined != *existing).then_some(joined)
}

/// The attached binding without the need of `independent`.
pub fn release(attached: &Value, independent: &Value) -> Value {
    let mut released = attached.clone();
    let at = json!({"namespace": independent.namespace(), "name": independent.name()});
    let left = required_by(attached).iter().filter(|need| !is_same(need, &at));
    let left: Vec<Value> = left.cloned().collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    let patch = json!({"metadata": {"labels": {mark(independent).0: null}}, "spec": {"requiredBy": left}});
    merge(&mut released, &patch);
    released
}

fn is_same(one: &Value, other: &Value) -> bool {
    one["namespace"] == other["namespace"] && one["name"] == other["name"]
}

/// The bindings that need an attached binding.
pub fn required_by(attached: &Value) -> &[Value] {
    list(&attached["spec"]["requiredBy"])
}

/// The dependencies of its template that a binding recorded.
pub fn recorded(binding: &Value) -> Vec<Value> {
    let text = binding.annotation(DEPENDENCIES).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// The merge patch that records the dependencies of its template on a binding; `None` if they are recorded.
pub fn record(binding: &Value, dependencies: &[Value]) -> Option<Value> {
    let text = json!(dependencies).to_string();
    let mut finalizers = binding.finalizers().to_vec();
    let is_marked = finalizers.iter().any(|have| have == DISTRIBUTOR_FINALIZER);
    if is_marked && binding.annotation(DEPENDENCIES) == Some(text.as_str()) {
        return None;
    }
    if !is_marked {
        finalizers.push(json!(DISTRIBUTOR_FINALIZER));
    }
    Some(json!({"metadata": {"finalizers": finalizers, "annotations": {DEPENDENCIES: text}}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(uid: &str, version: &str) -> Value {
        json!({"apiVersion": "g/v1", "kind": "Thing",
            "metadata": {"name": "web", "namespace": "n", "uid": uid, "resourceVersion": version}})
    }

    fn policy() -> Value {
        json!({
            "metadata": {"name": "city-dfw", "namespace": "n", "labels": {Claim::Policy.label(): "p"}},
            "spec": {"propagateDeps": true, "placement": {"clusterAffinity": {}}, "priority": 0}
        })
    }

    fn binding(uid: &str, version: &str) -> Value {
        of(&template(uid, version), &policy(), "id")
    }

    #[test]
    fn a_binding_is_owned_by_its_template_and_carries_the_policy() {
        let binding = binding("u", "1");
        assert_eq!(binding.name(), "web-thing");
        assert_eq!(binding["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(binding["spec"]["resource"]["uid"], "u");
        assert_eq!(binding["spec"]["propagateDeps"], true);
        assert!(binding["spec"].get("priority").is_none());
        assert_eq!(Claim::Policy.id(&binding), "p");
        assert_eq!(binding.label(names::BINDING_ID), Some("id"));
    }

    #[test]
    fn joining_keeps_schedule_and_identity_and_writes_only_changes() {
        let mut existing = binding("u", "1");
        existing["spec"]["clusters"] = json!([{"name": "dfw-1"}]);
        assert_eq!(
            join(&existing, &of(&template("u", "1"), &policy(), "other")),
            None
        );
        let next = join(&existing, &binding("u", "2")).unwrap();
        assert_eq!(next["spec"]["clusters"], json!([{"name": "dfw-1"}]));
        assert_eq!(next["spec"]["resource"]["resourceVersion"], "2");
    }

    #[test]
    fn a_binding_of_an_earlier_object_is_told_apart() {
        assert!(is_of_earlier(&binding("old", "1"), &binding("new", "2")));
        assert!(!is_of_earlier(&binding("u", "1"), &binding("u", "2")));
    }

    fn independent(name: &str, cluster: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "n", "labels": {names::BINDING_ID: format!("id-{name}")}},
            "spec": {"clusters": [{"name": cluster}]}
        })
    }

    fn secret() -> Value {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "db", "namespace": "n", "uid": "s", "resourceVersion": "4"}})
    }

    #[test]
    fn two_bindings_share_one_attached_binding() {
        let (web, api) = (independent("web", "dfw-1"), independent("api", "lhr-1"));
        let first = attach(&web, &secret(), "id");
        assert_eq!(first.name(), "db-secret");
        assert_eq!(join_attached(&first, &attach(&web, &secret(), "id")), None);
        let both = join_attached(&first, &attach(&api, &secret(), "id")).unwrap();
        assert_eq!(required_by(&both).len(), 2);
        let left = release(&both, &web);
        assert_eq!(required_by(&left)[0]["name"], "api");
        assert!(!is_attached(&left, &web) && is_attached(&left, &api));
        let none = release(&left, &api);
        assert!(required_by(&none).is_empty() && none["spec"].get("requiredBy").is_none());
    }

    #[test]
    fn dependencies_are_recorded_once_and_read_back() {
        let mut web = independent("web", "dfw-1");
        let found = [json!({"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "db"})];
        let patch = record(&web, &found).unwrap();
        merge(&mut web, &patch);
        assert_eq!(recorded(&web), found);
        assert_eq!(record(&web, &found), None);
    }

    #[test]
    fn an_attached_binding_is_marked_as_karmada_marks_it() {
        let independent = json!({"metadata": {
            "namespace": "ns-6d1f0c52-0000-4000-8000-00000000a001", "name": "web-workloaddeployment"}});
        assert_eq!(
            mark(&independent).0,
            "resourcebinding.karmada.io/depended-by-5447b96cf4"
        );
    }
}
