//! Reconciles a binding: placement, dependencies, and the Works of its members.

use super::{
    depend,
    refs::{Key, NamespacedName, ObjectRef, Plane},
    wire::{self, label},
    works,
    world::{StepError, World, now, version},
};
use fedgate_karmada::{names, schedule};
use kube::api::DynamicObject;
use serde_json::json;
use std::sync::Arc;

/// Reconciles the binding `at`.
pub(super) async fn pass(world: &World, at: &NamespacedName) -> Result<(), StepError> {
    let Some(binding) = world.binding(at) else {
        world.made.lock().remove(at);
        return Ok(());
    };
    if binding.metadata.deletion_timestamp.is_some() {
        return end(world, at, &binding).await;
    }
    let binding = identify(world, at, binding).await?;
    // What is lifted from suspension by the write that changes the placement goes where the binding was scheduled before.
    let delivered = deliver(world, at, binding.clone()).await;
    schedule(world, at, binding).await?;
    delivered
}

/// Deletes a binding: deletes its Works, releases the attached bindings and removes the finalizers. Karmada does not wait
/// until the members have confirmed either.
async fn end(world: &World, at: &NamespacedName, binding: &DynamicObject) -> Result<(), StepError> {
    world.made.lock().remove(at);
    works::delete_all(world, binding).await?;
    depend::release_all(world, binding).await?;
    let own = [
        names::BINDING_FINALIZER,
        names::CLUSTER_BINDING_FINALIZER,
        fedgate_api::keys::DISTRIBUTOR_FINALIZER,
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
) -> Result<(), StepError> {
    if !schedule::is_scheduled(&binding) {
        return Ok(());
    }
    if !world.mirrors.synced(&Plane::Hub, &wire::cluster()) {
        return Err(StepError::Wait("the first list of Clusters".to_owned()));
    }
    let placed = schedule::place(&binding, &world.clusters());
    let placement = binding.data["spec"]["placement"].to_string();
    // The scheduler has observed what it read, not what it writes.
    let generation = json!(binding.metadata.generation);
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
    let stale = scheduled && status["schedulerObservedGeneration"] != generation;
    if conditions != status["conditions"] || stale {
        let mut patch = json!({"conditions": conditions});
        if scheduled {
            patch["schedulerObservedGeneration"] = generation;
            patch["lastScheduledTime"] = json!(now());
        }
        world.merge_status(&at.binding_kind(), &binding, patch).await?;
    }
    Ok(())
}

/// Keeps the Works of a binding that is new or changed, and updates its attached bindings.
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
    let kept = works::keep(world, &template, &binding, &schedule::reached(&binding)).await;
    if let Err(StepError::Refused(reason)) = &kept {
        world.warn(&template, "SyncWorkFailed", reason).await;
    }
    kept?;
    world.made.lock().insert(at.clone(), made(&binding));
    world.wake(Key::Report(at.clone()));
    Ok(())
}
