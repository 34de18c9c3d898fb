//! What Karmada's webhook puts into policies.

use super::claim::{Scope, label};
use crate::{definition::Definition, meta, random::Random};
use serde_json::{Value, json};

/// Completes a policy that is written: identity, finalizer, and a namespaced policy's own namespace in its selectors.
pub(crate) fn complete(
    definition: &Definition,
    old: Option<&Value>,
    policy: &mut Value,
    random: &mut Random,
) {
    let Some(scope) =
        Scope::of_plural(&definition.plural).filter(|_| &*definition.group == "policy.karmada.io")
    else {
        return;
    };
    if meta::is_ending(policy) {
        return;
    }
    let kept = old.map(|old| label(old, scope.id())).filter(|id| !id.is_empty());
    let id = match (kept, label(policy, scope.id())) {
        (Some(kept), _) => kept.to_owned(),
        (None, "") => random.uuid(),
        (None, given) => given.to_owned(),
    };
    policy["metadata"]["labels"][scope.id()] = json!(id);
    let mut finalizers = meta::list(policy, "finalizers").to_vec();
    if !finalizers.iter().any(|have| have == scope.finalizer()) {
        finalizers.push(json!(scope.finalizer()));
        meta::set(policy, "finalizers", Value::Array(finalizers));
    }
    if scope == Scope::Namespace {
        let namespace = meta::namespace(policy).to_owned();
        let selectors = policy["spec"]["resourceSelectors"].as_array_mut();
        for selector in selectors.into_iter().flatten() {
            if selector["namespace"].as_str().unwrap_or_default().is_empty() {
                selector["namespace"] = json!(namespace);
            }
        }
    }
}
