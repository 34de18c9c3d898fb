//! Reconciles a template: its claim and its binding; and syncs Namespaces to every member.

use super::{
    binding::{self, Joined},
    refs::{NamespacedName, ObjectRef, Plane},
    wire::{self, label},
    works,
    world::{StepError, World},
};
use fedgate_api::keys::SKIP_AUTO_PROPAGATION;
use fedgate_karmada::{
    Object,
    claim::{self, Claim, Decision, Edit, PolicyName},
    names,
};
use kube::api::DynamicObject;
use std::sync::Arc;

/// Reconciles the template `at`.
pub(super) async fn pass(world: &World, at: &ObjectRef) -> Result<(), StepError> {
    let is_namespace = at.kind == wire::namespace();
    let Some(template) = world.hub_object(at) else {
        return Ok(());
    };
    if names::is_reserved(&at.namespace) {
        return Ok(());
    }
    if is_namespace {
        spread(world, at, &template).await?;
    }
    propagate(world, at, template).await
}

/// Delivers a Namespace without the skip label to every member.
async fn spread(world: &World, at: &ObjectRef, template: &DynamicObject) -> Result<(), StepError> {
    let skipped = label(template, SKIP_AUTO_PROPAGATION).eq_ignore_ascii_case("true");
    let ours = names::is_reserved(&at.name) || &*at.name == "default";
    if skipped || ours || template.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    for cluster in world.clusters() {
        let member = cluster.metadata.name.as_deref().unwrap_or_default();
        if world.members.contains_key(member) {
            works::keep_namespace(world, template, member).await?;
        }
    }
    Ok(())
}

async fn propagate(world: &World, at: &ObjectRef, template: Arc<DynamicObject>) -> Result<(), StepError> {
    let synced = world.mirrors.synced(&Plane::Hub, &wire::policy())
        && world.mirrors.synced(&Plane::Hub, &wire::cluster_policy());
    if !synced {
        return Err(StepError::Wait("the first list of policies".to_owned()));
    }
    let candidates = |scope| match scope {
        Claim::Policy => world
            .mirrors
            .list(&Plane::Hub, &wire::policy(), Some(&at.namespace)),
        Claim::ClusterPolicy => world.mirrors.list(&Plane::Hub, &wire::cluster_policy(), None),
    };
    let find = |wanted: PolicyName<'_>| world.policy(&NamespacedName::of(wanted));
    match claim::decide(&template, find, candidates) {
        Decision::Nothing => Ok(()),
        Decision::PolicyTerminating(policy) => Err(StepError::Wait(format!(
            "policy {}/{} is being deleted",
            policy.namespace(),
            policy.name()
        ))),
        Decision::Release(claim) => release(world, at, &template, claim).await,
        Decision::Apply(policy) => apply(world, at, &template, &policy).await,
    }
}

/// Claims the template for the policy, with a PUT of the whole object, and creates or updates its binding.
async fn apply(
    world: &World,
    at: &ObjectRef,
    template: &DynamicObject,
    policy: &DynamicObject,
) -> Result<(), StepError> {
    let scope = Claim::of(policy);
    let held = scope.is_held(template, policy);
    let answered;
    let template = if held {
        template
    } else {
        let mut claimed = template.clone();
        Edit::apply(&scope.put(policy), &mut claimed);
        answered = world.replace(&at.kind, &claimed).await?;
        &answered
    };
    let desired = binding::build(template, policy);
    let name = at.binding();
    let kind = name.binding_kind();
    let Some(existing) = world.binding(&name) else {
        world.create(&kind, &desired).await?;
        return Ok(());
    };
    match binding::join(&existing, &desired) {
        Joined::Same => Ok(()),
        Joined::Changed(next) => world.replace(&kind, &next).await.map(drop),
        Joined::OfEarlierObject => {
            let why = "failed to update binding due to different owner reference UID, will try again later after \
                       binding is garbage collected, see https://github.com/karmada-io/karmada/issues/2090";
            let note = format!(
                "Apply policy({}/{}) failed: {why}",
                policy.namespace(),
                policy.name()
            );
            world.warn(template, "ApplyPolicyFailed", &note).await;
            Err(StepError::Wait(format!(
                "binding {} of another object is not collected yet",
                name.name
            )))
        }
    }
}

/// Removes a claim from a template and its binding. The binding comes first, because a template without the claim is
/// not found by its claim on a retry.
pub(super) async fn release(
    world: &World,
    at: &ObjectRef,
    template: &DynamicObject,
    claim: Claim,
) -> Result<(), StepError> {
    let id = label(template, claim.label());
    let name = at.binding();
    if let Some(binding) = world.binding(&name)
        && label(&binding, claim.label()) == id
    {
        let mut bare = (*binding).clone();
        Edit::apply(&claim.strip(), &mut bare);
        world.replace(&name.binding_kind(), &bare).await?;
    }
    let mut bare = template.clone();
    Edit::apply(&claim.strip(), &mut bare);
    world.replace(&at.kind, &bare).await.map(drop)
}
