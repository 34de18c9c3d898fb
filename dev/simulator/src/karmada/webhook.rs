//! What Karmada's webhook puts into policies.

use crate::{definition::Definition, meta, random::Random};
use fedgate_karmada::claim::Claim;
use serde_json::{Value, json};

/// Completes a policy that is written: identity, finalizer, and a namespaced policy's own namespace in its selectors.
pub(crate) fn complete(
    definition: &Definition,
    old: Option<&Value>,
    policy: &mut Value,
    random: &mut Random,
) {
    let Some(claim) =
        Claim::of_plural(&definition.plural).filter(|_| &*definition.group == "policy.karmada.io")
    else {
        return;
    };
    if meta::is_ending(policy) {
        return;
    }
    let kept = old.map(|old| claim.id(old)).filter(|id| !id.is_empty());
    let id = match (kept, claim.id(policy)) {
        (Some(kept), _) => kept.to_owned(),
        (None, "") => random.uuid(),
        (None, given) => given.to_owned(),
    };
    policy["metadata"]["labels"][claim.label()] = json!(id);
    let mut finalizers = meta::list(policy, "finalizers").to_vec();
    if !finalizers.iter().any(|have| have == claim.finalizer()) {
        finalizers.push(json!(claim.finalizer()));
        meta::set(policy, "finalizers", Value::Array(finalizers));
    }
    if claim == Claim::Policy {
        let namespace = meta::namespace(policy).to_owned();
        let selectors = policy["spec"]["resourceSelectors"].as_array_mut();
        for selector in selectors.into_iter().flatten() {
            if selector["namespace"].as_str().unwrap_or_default().is_empty() {
                selector["namespace"] = json!(namespace);
            }
        }
    }
}
