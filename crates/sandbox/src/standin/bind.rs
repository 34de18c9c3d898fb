//! Reconciles a binding: placement, dependencies, and the works of its members.

use super::{
    depend, manifest,
    refs::{Key, NamespacedName, ObjectRef, Plane},
    wire::{self, label},
    world::{StepError, World, now, version},
};
use fedgate_karmada::{names, schedule};
use kube::api::DynamicObject;
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// Reconciles the binding `at`.
pub(super) async fn pass(world: &World, at: &NamespacedName) -> Result<(), StepError> {
    let Some(binding) = world.binding(at) else {
        if world.mirrors.synced(&Plane::Hub, &at.binding_kind()) {
            withdraw_all(world, at);
        }
        return Ok(());
    };
    if binding.metadata.deletion_timestamp.is_some() {
        return end(world, at, &binding).await;
    }
    let binding = identify(world, at, binding).await?;
    let binding = schedule(world, at, binding).await?;
    deliver(world, at, binding).await
}

/// Withdraws all works of a binding.
fn withdraw_all(world: &World, at: &NamespacedName) {
    world.made.lock().remove(at);
    world.wake_deliveries(world.works.withdraw(at, &BTreeSet::new()));
}

/// Deletes a binding: withdraws the members' copies, releases the attached bindings and removes the finalizers. Karmada
/// does not wait until the members have confirmed either.
async fn end(world: &World, at: &NamespacedName, binding: &DynamicObject) -> Result<(), StepError> {
    withdraw_all(world, at);
    depend::release_all(world, binding).await?;
    let own = [
        names::BINDING_FINALIZER,
        names::CLUSTER_BINDING_FINALIZER,
        wire::DEPENDENCIES_FINALIZER,
    ];
    let mut left = binding.metadata.finalizers.clone().unwrap_or_default();
    left.retain(|have| !own.contains(&have.as_str()));
    if Some(&left) == binding.metadata.finalizers.as_ref() || binding.metadata.finalizers.is_none() {
        return Ok(());
    }
    world
        .merge(
            &at.binding_kind(),
            binding,
            json!({"metadata": {"finalizers": left}}),
        )
        .await
        .map(drop)
}

/// Adds the permanent ID to a binding that another client created.
async fn identify(
    world: &World,
    at: &NamespacedName,
    binding: Arc<DynamicObject>,
) -> Result<Arc<DynamicObject>, StepError> {
    let key = if at.namespace.is_empty() {
        names::CLUSTER_BINDING_ID
    } else {
        names::BINDING_ID
    };
    if !label(&binding, key).is_empty() {
        return Ok(binding);
    }
    let uid = binding.metadata.uid.clone().unwrap_or_default();
    let patch = json!({"metadata": {"labels": {key: wire::permanent_id(&format!("binding/{uid}"))}}});
    world
        .merge(&at.binding_kind(), &binding, patch)
        .await
        .map(Arc::new)
}

/// Writes the scheduler's result and the condition `Scheduled`.
async fn schedule(
    world: &World,
    at: &NamespacedName,
    mut binding: Arc<DynamicObject>,
) -> Result<Arc<DynamicObject>, StepError> {
    if !schedule::is_scheduled(&binding) {
        return Ok(binding);
    }
    if !world.mirrors.synced(&Plane::Hub, &wire::cluster()) {
        return Err(StepError::Wait("the first list of Clusters".to_owned()));
    }
    let placed = schedule::place(&binding, &world.clusters());
    let placement = binding.data["spec"]["placement"].to_string();
    let moved = placed.members != schedule::members(&binding);
    if moved || wire::annotation(&binding, wire::APPLIED_PLACEMENT) != placement {
        let clusters = schedule::targets(&placed.members);
        let patch = json!({
            "metadata": {"annotations": {wire::APPLIED_PLACEMENT: placement}},
            "spec": {"clusters": clusters},
        });
        binding = Arc::new(world.merge(&at.binding_kind(), &binding, patch).await?);
    }
    let scheduled = placed.condition.status == "True";
    let status = &binding.data["status"];
    let conditions = placed.condition.set_in(&status["conditions"], &now());
    let generation = json!(binding.metadata.generation);
    let stale = scheduled && status["schedulerObservedGeneration"] != generation;
    if conditions != status["conditions"] || stale {
        let mut patch = json!({"conditions": conditions});
        if scheduled {
            patch["schedulerObservedGeneration"] = generation;
            patch["lastScheduledTime"] = json!(now());
        }
        binding = Arc::new(world.merge_status(&at.binding_kind(), &binding, patch).await?);
    }
    Ok(binding)
}

/// Creates the works of a binding that is new or changed, and updates its attached bindings.
async fn deliver(world: &World, at: &NamespacedName, binding: Arc<DynamicObject>) -> Result<(), StepError> {
    let resource = &binding.data["spec"]["resource"];
    let Some(template_at) = ObjectRef::read(resource) else {
        return Ok(());
    };
    world.watch_everywhere(&template_at.kind);
    if !world.mirrors.synced(&Plane::Hub, &template_at.kind) {
        return Err(StepError::Wait(format!(
            "the first list of {}",
            template_at.kind.kind
        )));
    }
    let template = world.hub_object(&template_at);
    let Some(template) =
        template.filter(|template| template.metadata.uid.as_deref() == resource["uid"].as_str())
    else {
        // The garbage collector deletes the binding.
        return Ok(());
    };
    if version(template.metadata.resource_version.as_deref()) < version(resource["resourceVersion"].as_str())
    {
        return Err(StepError::Wait(format!(
            "the watch of {template_at} is behind its binding"
        )));
    }
    let made = |binding: &DynamicObject| {
        let meta = &binding.metadata;
        (
            meta.uid.clone().unwrap_or_default(),
            meta.generation.unwrap_or_default(),
        )
    };
    let before = world.made.lock().get(at).cloned();
    let changed = before.as_ref() != Some(&made(&binding));
    let binding = depend::pass(world, binding, &template, changed).await?;
    if !changed {
        return Ok(());
    }
    let targets = schedule::reached(&binding);
    let withdrawn = world.works.withdraw(at, &targets);
    let fewer = !withdrawn.is_empty();
    world.wake_deliveries(withdrawn);
    for target in targets {
        if let Some((member, _)) = world.members.get_key_value(target.as_str()) {
            let object = manifest::render(&template, Some(&binding), member);
            world.works.put(member, &template_at, Some(at), object);
            world.wake_deliveries(vec![(member.clone(), template_at.clone())]);
        }
    }
    world.made.lock().insert(at.clone(), made(&binding));
    // The first report waits until a member has reported.
    if fewer || before.is_some() {
        world.wake(Key::Report(at.clone()));
    }
    Ok(())
}
