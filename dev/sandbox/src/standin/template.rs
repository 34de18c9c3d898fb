//! Reconciles a template: its claim and its binding; syncs Namespaces to every member; reconciles a policy.

use super::{
    refs::{BINDING, CLUSTER, CLUSTER_BINDING, CLUSTER_POLICY, NAMESPACE, ObjectRef, POLICY, kind_of},
    works,
    world::{Call, StepError, World, permanent_id},
};
use fedgate_api::keys::SKIP_AUTO_PROPAGATION;
use fedgate_karmada::{
    Object, binding,
    claim::{self, Claim, Decision},
    merge, names,
    select::{selectors, selectors_match},
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// Reconciles the template `at`.
pub(super) async fn pass(world: &World, at: &ObjectRef) -> Result<(), StepError> {
    let Some(template) = world.hub.get(at) else {
        return Ok(());
    };
    if names::is_reserved(&at.namespace) {
        return Ok(());
    }
    if at.kind == NAMESPACE {
        spread(world, &template).await?;
    }
    world.hub.synced(&[POLICY, CLUSTER_POLICY])?;
    let candidates = |claim| match claim {
        Claim::Policy => world.hub.list(POLICY, Some(&at.namespace)),
        Claim::ClusterPolicy => world.hub.list(CLUSTER_POLICY, None),
    };
    let find = |policy: claim::PolicyName<'_>| {
        let kind = match policy.claim {
            Claim::Policy => POLICY,
            Claim::ClusterPolicy => CLUSTER_POLICY,
        };
        world
            .hub
            .get(&ObjectRef::new(kind, policy.namespace, policy.name))
    };
    match claim::decide(&template, find, candidates) {
        Decision::Nothing => Ok(()),
        Decision::PolicyTerminating(policy) => {
            let at = ObjectRef::of(&policy);
            Err(StepError::Wait(format!("{at} is being deleted")))
        }
        Decision::Release(claim) => release(world, &template, claim).await,
        Decision::Apply(policy) => apply(world, template, &policy).await,
    }
}

/// Delivers a Namespace without the skip label to every member.
async fn spread(world: &World, namespace: &Value) -> Result<(), StepError> {
    let skip = namespace.label(SKIP_AUTO_PROPAGATION);
    let is_skipped = skip.is_some_and(|skip| skip.eq_ignore_ascii_case("true"));
    let is_ours = names::is_reserved(namespace.name()) || namespace.name() == "default";
    if is_skipped || is_ours || namespace.is_deleting() {
        return Ok(());
    }
    for cluster in world.hub.list(CLUSTER, None) {
        if world.members.contains_key(cluster.name()) {
            works::keep_namespace(world, namespace, cluster.name()).await?;
        }
    }
    Ok(())
}

/// Claims the template for the policy, with a PUT of the whole object, and creates or updates its binding.
async fn apply(world: &World, template: Arc<Value>, policy: &Value) -> Result<(), StepError> {
    let claim = Claim::of(policy);
    let template = if claim.is_held(&template, policy) {
        template
    } else {
        Arc::new(replace(world, &template, &claim.put(policy)).await?)
    };
    let id = format!(
        "binding/{}/{}",
        names::binding(template.kind(), template.name()),
        template.uid()
    );
    let desired = binding::of(&template, policy, &permanent_id(&id));
    let earlier = world.hub.get(&ObjectRef::of(&desired));
    if earlier.is_some_and(|existing| binding::is_of_earlier(&existing, &desired)) {
        let name = desired.name();
        return Err(StepError::Wait(format!(
            "binding {name} of another object is not collected yet"
        )));
    }
    world
        .keep(&desired, |existing| Ok(binding::join(existing, &desired)))
        .await
}

/// Replaces an object of the hub by itself with a merge patch applied.
async fn replace(world: &World, object: &Value, patch: &Value) -> Result<Value, StepError> {
    let mut changed = object.clone();
    merge(&mut changed, patch);
    world
        .hub
        .send(&ObjectRef::of(object), Call::Replace(&changed))
        .await
}

/// Removes a claim from a template and its binding. The binding comes first, because a template without the claim is
/// not found by its claim on a retry.
async fn release(world: &World, template: &Value, claim: Claim) -> Result<(), StepError> {
    if let Some(binding) = world.hub.get(&ObjectRef::of(template).binding())
        && claim.id(&binding) == claim.id(template)
    {
        replace(world, &binding, &claim.strip()).await?;
    }
    replace(world, template, &claim.strip()).await.map(drop)
}

/// Reconciles the policy `at`: the defaults of Karmada's webhook, claims that no longer match, and the deletion.
pub(super) async fn policy(world: &World, at: &ObjectRef) -> Result<(), StepError> {
    let Some(policy) = world.hub.get(at) else {
        world.forget(at);
        return Ok(());
    };
    let claim = Claim::of(&policy);
    if policy.is_deleting() {
        return end(world, claim, &policy).await;
    }
    let mut completed = Value::clone(&policy);
    claim::complete(&mut completed, || {
        permanent_id(&format!("policy/{}", policy.uid()))
    });
    if completed != *policy {
        return world.hub.send(at, Call::Replace(&completed)).await.map(drop);
    }
    if world.is_done(&policy) {
        return Ok(());
    }
    // After a change of the policy itself, the templates that it claims and no longer selects are released.
    for kind in [BINDING, CLUSTER_BINDING] {
        for binding in world.hub.list(kind, None) {
            if claim.id(&binding) == claim.id(&policy)
                && let Some(held) = world.hub.get(&ObjectRef::read(&binding["spec"]["resource"]))
                && selectors_match(selectors(&policy), &held).is_none()
            {
                release(world, &held, claim).await?;
            }
        }
    }
    world.set_done(&policy);
    Ok(())
}

/// Removes the claims of a policy that is being deleted, then its finalizer. Nothing is withdrawn.
async fn end(world: &World, claim: Claim, policy: &Value) -> Result<(), StepError> {
    let id = claim.id(policy);
    let kinds: BTreeSet<String> = selectors(policy).iter().map(kind_of).collect();
    let namespace = Some(policy.namespace()).filter(|namespace| !namespace.is_empty());
    for kind in kinds {
        for held in world.hub.list(&kind, namespace) {
            if !id.is_empty() && claim.id(&held) == id {
                release(world, &held, claim).await?;
            }
        }
    }
    world.hub.remove_finalizers(policy, &[claim.finalizer()]).await
}
