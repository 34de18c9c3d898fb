//! Dependencies: the objects that are synced together with a template.

use super::{
    attached,
    binding::Joined,
    interpret,
    refs::{NamespacedName, ObjectRef, Plane},
    wire,
    world::{StepError, World},
};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Updates the attached bindings of `binding`. The scripts run when the binding `changed`; for a companion that is
/// created, changed or deleted, the recorded dependencies suffice.
pub(super) async fn pass(
    world: &World,
    binding: Arc<DynamicObject>,
    template: &DynamicObject,
    changed: bool,
) -> Result<Arc<DynamicObject>, StepError> {
    if binding.data["spec"]["propagateDeps"] != true {
        release_all(world, &binding).await?;
        return Ok(binding);
    }
    if binding.data["spec"]["clusters"]
        .as_array()
        .is_none_or(Vec::is_empty)
        && attached_to(world, &binding).is_empty()
    {
        // Not scheduled yet.
        return Ok(binding);
    }
    let (binding, wanted) = if changed {
        record(world, binding, template).await?
    } else {
        (binding.clone(), attached::recorded(&binding))
    };
    let kept: BTreeSet<NamespacedName> = wanted.iter().map(ObjectRef::binding).collect();
    for orphan in attached_to(world, &binding) {
        if !kept.contains(&NamespacedName::to(&orphan)) {
            world
                .replace(&wire::binding(), &attached::release(&orphan, &binding))
                .await?;
        }
    }
    for at in wanted {
        attach(world, &binding, &at).await?;
    }
    Ok(binding)
}

/// Runs the script and records the dependencies that it returns on the binding.
async fn record(
    world: &World,
    binding: Arc<DynamicObject>,
    template: &DynamicObject,
) -> Result<(Arc<DynamicObject>, Vec<ObjectRef>), StepError> {
    let types = template.types.clone().unwrap_or_default();
    let kind = super::refs::Kind::new(&types.api_version, &types.kind);
    let found = match interpret::dependencies(world, &kind, template) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok((binding.clone(), attached::recorded(&binding))),
        Err(error) => {
            world
                .warn(template, "GetDependenciesFailed", &error.to_string())
                .await;
            return Err(error);
        }
    };
    let (wanted, values): (Vec<ObjectRef>, Vec<Value>) = found.into_iter().unzip();
    let text = Value::Array(values).to_string();
    let mut finalizers = binding.metadata.finalizers.clone().unwrap_or_default();
    let marked = finalizers
        .iter()
        .any(|have| have == fedgate_api::keys::DISTRIBUTOR_FINALIZER);
    if marked && wire::annotation(&binding, wire::DEPENDENCIES) == text {
        return Ok((binding, wanted));
    }
    if !marked {
        finalizers.push(fedgate_api::keys::DISTRIBUTOR_FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {"finalizers": finalizers, "annotations": {wire::DEPENDENCIES: text}}});
    let binding = world.merge(&wire::binding(), &binding, patch).await?;
    Ok((Arc::new(binding), wanted))
}

/// Creates or updates the attached binding of one dependency. A dependency that does not exist is skipped; its creation
/// event enqueues the binding again.
async fn attach(world: &World, binding: &DynamicObject, at: &ObjectRef) -> Result<(), StepError> {
    world.watch_everywhere(&at.kind);
    if !world.mirrors.synced(&Plane::Hub, &at.kind) {
        return Err(StepError::Wait(format!("the first list of {}", at.kind.kind)));
    }
    let Some(companion) = world.hub_object(at) else {
        return Ok(());
    };
    let desired = attached::build(binding, &companion);
    let kind = wire::binding();
    let Some(existing) = world.binding(&at.binding()) else {
        return world.create(&kind, &desired).await.map(drop);
    };
    if existing.metadata.deletion_timestamp.is_some() {
        return Err(StepError::Wait(format!("the binding of {at} is being deleted")));
    }
    match attached::join(&existing, &desired) {
        Joined::Same => Ok(()),
        Joined::Changed(next) => world.replace(&kind, &next).await.map(drop),
        Joined::OfEarlierObject => Err(StepError::Wait(format!(
            "the binding of an earlier {at} is not collected yet"
        ))),
    }
}

/// Removes `binding` from the `requiredBy` of all its attached bindings.
pub(super) async fn release_all(world: &World, binding: &DynamicObject) -> Result<(), StepError> {
    for orphan in attached_to(world, binding) {
        world
            .replace(&wire::binding(), &attached::release(&orphan, binding))
            .await?;
    }
    Ok(())
}

fn attached_to(world: &World, binding: &DynamicObject) -> Vec<Arc<DynamicObject>> {
    let Some(namespace) = binding.metadata.namespace.as_deref() else {
        return Vec::new();
    };
    let (key, value) = attached::mark(binding);
    let mut found = world.mirrors.list(&Plane::Hub, &wire::binding(), Some(namespace));
    found.retain(|other| other.metadata.labels.as_ref().and_then(|labels| labels.get(&key)) == Some(&value));
    found
}
