//! Reconciles a policy: the defaults of Karmada's webhook, claims that no longer match, and the deletion.

use super::{
    refs::{Kind, NamespacedName, ObjectRef, Plane},
    template,
    wire::{self, label},
    world::{StepError, World},
};
use fedgate_karmada::{
    claim::Claim,
    select::{selectors, selectors_match},
};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Reconciles the policy `at`.
pub(super) async fn pass(world: &World, at: &NamespacedName) -> Result<(), StepError> {
    let Some(policy) = world.policy(at) else {
        world.swept.lock().remove(at);
        return Ok(());
    };
    if policy.metadata.deletion_timestamp.is_some() {
        return end(world, at, &policy).await;
    }
    if let Some(patch) = defaults(&policy) {
        return world.merge(&at.policy_kind(), &policy, patch).await.map(drop);
    }
    sweep(world, at, &policy).await
}

/// The defaults that Karmada's webhook sets in a policy: permanent ID and finalizer, and the namespace of a namespaced
/// policy in its selectors. `None` if nothing is missing.
fn defaults(policy: &DynamicObject) -> Option<Value> {
    let at = NamespacedName::to(policy);
    let mut patch = json!({});
    let claim = Claim::of(policy);
    let id = claim.label();
    if label(policy, id).is_empty() {
        let uid = policy.metadata.uid.clone().unwrap_or_default();
        patch["metadata"]["labels"][id] = json!(wire::permanent_id(&format!("policy/{uid}")));
        let mut finalizers = policy.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|have| have == claim.finalizer()) {
            finalizers.push(claim.finalizer().to_owned());
        }
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    let bare = |selector: &Value| selector["namespace"].as_str().unwrap_or_default().is_empty();
    if !at.namespace.is_empty() && selectors(policy).iter().any(bare) {
        let mut selectors = selectors(policy).to_vec();
        for selector in selectors.iter_mut().filter(|selector| bare(selector)) {
            selector["namespace"] = json!(&*at.namespace);
        }
        patch["spec"]["resourceSelectors"] = json!(selectors);
    }
    (patch != json!({})).then_some(patch)
}

/// After a change of the policy itself: releases the templates that it claims and no longer selects.
async fn sweep(world: &World, at: &NamespacedName, policy: &DynamicObject) -> Result<(), StepError> {
    let meta = &policy.metadata;
    let version = (
        meta.uid.clone().unwrap_or_default(),
        meta.generation.unwrap_or_default(),
    );
    if world.swept.lock().get(at) == Some(&version) {
        return Ok(());
    }
    let scope = Claim::of(policy);
    let id = label(policy, scope.label());
    for kind in [wire::binding(), wire::cluster_binding()] {
        for binding in world.mirrors.list(&Plane::Hub, &kind, None) {
            if label(&binding, scope.label()) != id {
                continue;
            }
            let Some(at) = ObjectRef::read(&binding.data["spec"]["resource"]) else {
                continue;
            };
            if let Some(held) = world.hub_object(&at)
                && selectors_match(selectors(policy), &held).is_none()
            {
                template::release(world, &at, &held, scope).await?;
            }
        }
    }
    world.swept.lock().insert(at.clone(), version);
    Ok(())
}

/// Removes the claims of a policy that is being deleted, then its finalizer. Nothing is withdrawn.
async fn end(world: &World, at: &NamespacedName, policy: &DynamicObject) -> Result<(), StepError> {
    let scope = Claim::of(policy);
    let id = label(policy, scope.label());
    let kinds: BTreeSet<Kind> = selectors(policy).iter().filter_map(Kind::of).collect();
    let namespace = Some(&*at.namespace).filter(|namespace| !namespace.is_empty());
    for kind in kinds {
        for held in world.mirrors.list(&Plane::Hub, &kind, namespace) {
            if !id.is_empty() && label(&held, scope.label()) == id {
                template::release(world, &ObjectRef::to(&kind, &held), &held, scope).await?;
            }
        }
    }
    let mut left = policy.metadata.finalizers.clone().unwrap_or_default();
    left.retain(|have| have != scope.finalizer());
    if Some(&left) != policy.metadata.finalizers.as_ref() {
        world
            .merge(
                &at.policy_kind(),
                policy,
                json!({"metadata": {"finalizers": left}}),
            )
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    #[test]
    fn a_new_policy_gets_identity_finalizer_and_namespace_once() {
        let mut policy: DynamicObject = from_value(json!({
            "metadata": {"name": "city-dfw", "namespace": "n", "uid": "u"},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Thing"}]}
        }))
        .unwrap();
        let patch = defaults(&policy).unwrap();
        assert_eq!(patch["spec"]["resourceSelectors"][0]["namespace"], "n");
        assert_eq!(
            patch["metadata"]["finalizers"],
            json!([Claim::Policy.finalizer()])
        );
        policy.metadata.labels = from_value(patch["metadata"]["labels"].clone()).unwrap();
        policy.data["spec"]["resourceSelectors"] = patch["spec"]["resourceSelectors"].clone();
        assert_eq!(defaults(&policy), None);
    }

    #[test]
    fn a_cluster_policy_keeps_its_selectors() {
        let policy: DynamicObject = from_value(json!({
            "metadata": {"name": "cities-dfw", "uid": "u"},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace"}]}
        }))
        .unwrap();
        let patch = defaults(&policy).unwrap();
        assert!(patch.get("spec").is_none());
        assert_eq!(
            patch["metadata"]["finalizers"],
            json!([Claim::ClusterPolicy.finalizer()])
        );
    }
}
