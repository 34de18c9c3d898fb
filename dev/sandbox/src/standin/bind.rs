//! Reconciles a binding: placement, dependencies, the Works of its members, and their status.

use super::{
    interpret,
    refs::{BINDING, CLUSTER, Kind, ObjectRef, WORK, kind_of},
    works,
    world::{Call, StepError, World, now, permanent_id},
};
use crate::cache::version;
use fedgate_karmada::{Object, binding, condition::fully_applied, list, schedule, work};
use fedgate_kinds::lua::Operation;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Annotation of a binding: the placement that was scheduled, as JSON.
const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// Reconciles the binding `at`.
pub(super) async fn pass(world: &World, at: &ObjectRef) -> Result<(), StepError> {
    let Some(binding) = world.hub.get(at) else {
        world.forget(at);
        return Ok(());
    };
    if binding.is_deleting() {
        return end(world, at, &binding).await;
    }
    let binding = identify(world, binding).await?;
    // What is lifted from suspension by the write that changes the placement goes where the binding was scheduled before.
    let (binding, delivered) = match deliver(world, &binding).await {
        Ok(changed) => (changed, Ok(())),
        Err(error) => (binding, Err(error)),
    };
    let (binding, has_moved) = schedule(world, binding).await?;
    // The write of a new placement brings the binding here once more; the status until then is of the version before it.
    if !has_moved {
        report(world, &binding).await?;
    }
    delivered
}

/// Deletes the Works of a binding that ends, releases the attached bindings and removes the finalizers. Karmada does not wait
/// until the members have confirmed either.
async fn end(world: &World, at: &ObjectRef, binding: &Value) -> Result<(), StepError> {
    world.forget(at);
    for work in works::of(world, binding) {
        world.hub.delete(&work).await?;
    }
    release_all(world, binding, &BTreeSet::new()).await?;
    world.hub.remove_finalizers(binding, &binding::FINALIZERS).await
}

/// Adds the permanent ID to a binding that another client created.
async fn identify(world: &World, binding: Arc<Value>) -> Result<Arc<Value>, StepError> {
    let (label, id) = binding::id(&binding);
    if !id.is_empty() {
        return Ok(binding);
    }
    let id = permanent_id(&format!("binding/{}", binding.uid()));
    let patch = json!({"metadata": {"labels": {label: id}}});
    world.hub.merge(&binding, patch).await.map(Arc::new)
}

/// Writes the scheduler's result and the condition `Scheduled`; true if the placement is a new one.
async fn schedule(world: &World, mut binding: Arc<Value>) -> Result<(Arc<Value>, bool), StepError> {
    if !schedule::is_scheduled(&binding) {
        return Ok((binding, false));
    }
    world.hub.synced(&[CLUSTER])?;
    let placed = schedule::place(&binding, &world.hub.list(CLUSTER, None));
    let placement = binding["spec"]["placement"].to_string();
    // The scheduler has observed what it read, not what it writes.
    let generation = binding["metadata"]["generation"].clone();
    let has_moved = placed.members != schedule::members(&binding);
    if has_moved || binding.annotation(APPLIED_PLACEMENT) != Some(placement.as_str()) {
        let patch = json!({
            "metadata": {"annotations": {APPLIED_PLACEMENT: placement}},
            "spec": {"clusters": schedule::targets(&placed.members)},
        });
        binding = Arc::new(world.hub.merge(&binding, patch).await?);
    }
    let is_scheduled = placed.condition.status == "True";
    let status = &binding["status"];
    let conditions = placed.condition.set_in(&status["conditions"], &now());
    let is_stale = is_scheduled && status["schedulerObservedGeneration"] != generation;
    if conditions != status["conditions"] || is_stale {
        let mut patch = json!({"conditions": conditions});
        if is_scheduled {
            patch["schedulerObservedGeneration"] = generation;
            patch["lastScheduledTime"] = json!(now());
        }
        binding = Arc::new(world.hub.merge_status(&binding, patch).await?);
    }
    Ok((binding, has_moved))
}

/// Keeps the Works of a binding that is new or changed, and updates its attached bindings.
async fn deliver(world: &World, binding: &Arc<Value>) -> Result<Arc<Value>, StepError> {
    let resource = &binding["spec"]["resource"];
    let at = ObjectRef::read(resource);
    world.watch_everywhere(&at.kind);
    world.hub.synced(&[&at.kind, WORK])?;
    let Some(template) = world
        .hub
        .get(&at)
        .filter(|template| template.uid() == resource["uid"])
    else {
        // The garbage collector deletes the binding.
        return Ok(Arc::clone(binding));
    };
    if version(&template) < version(&json!({"metadata": resource})) {
        return Err(StepError::Wait(format!(
            "the watch of {at} is behind its binding"
        )));
    }
    let is_changed = !world.is_done(binding);
    let binding = depend(world, binding, &template, is_changed).await?;
    if is_changed {
        works::keep(world, &template, &binding).await?;
        world.set_done(&binding);
    }
    Ok(binding)
}

/// Updates the attached bindings of `binding`. The script runs when the binding has changed; for a companion that is
/// created, changed or deleted, the recorded dependencies suffice.
async fn depend(
    world: &World,
    binding: &Arc<Value>,
    template: &Value,
    is_changed: bool,
) -> Result<Arc<Value>, StepError> {
    if binding["spec"]["propagateDeps"] != true {
        release_all(world, binding, &BTreeSet::new()).await?;
        return Ok(Arc::clone(binding));
    }
    if list(&binding["spec"]["clusters"]).is_empty() && attached_to(world, binding).is_empty() {
        // Not scheduled yet.
        return Ok(Arc::clone(binding));
    }
    let mut binding = Arc::clone(binding);
    let script = interpret::script(world, &kind_of(template), Operation::DependencyInterpretation);
    if let Some(script) = script.filter(|_| is_changed) {
        let found = world.lua.get_dependencies(&script, template);
        let found = found.map_err(|error| StepError::Refused(format!("GetDependencies: {error}")))?;
        let found: Vec<Value> = found.iter().map(|dependency| json!(dependency)).collect();
        if let Some(patch) = binding::record(&binding, &found) {
            binding = Arc::new(world.hub.merge(&binding, patch).await?);
        }
    }
    let wanted = binding::recorded(&binding);
    let wanted = wanted
        .iter()
        .map(ObjectRef::read)
        .filter(|at| !at.name.is_empty());
    let wanted: BTreeSet<ObjectRef> = wanted.collect();
    release_all(world, &binding, &wanted).await?;
    for at in wanted {
        attach(world, &binding, &at).await?;
    }
    Ok(binding)
}

/// Creates or updates the attached binding of one dependency. A dependency that does not exist is skipped; its creation
/// event enqueues the binding again.
async fn attach(world: &World, independent: &Value, at: &ObjectRef) -> Result<(), StepError> {
    world.watch_everywhere(&at.kind);
    world.hub.synced(&[&at.kind])?;
    let Some(companion) = world.hub.get(at) else {
        return Ok(());
    };
    let id = permanent_id(&format!("binding/{}/{}", at.binding().name, companion.uid()));
    let desired = binding::attach(independent, &companion, &id);
    let join = |existing: &Value| {
        if existing.is_deleting() || binding::is_of_earlier(existing, &desired) {
            return Err(StepError::Wait(format!(
                "an earlier binding of {at} is not gone yet"
            )));
        }
        Ok(binding::join_attached(existing, &desired))
    };
    world.keep(&desired, join).await
}

/// Removes the need of `independent` from its attached bindings, but for those of the objects `kept`.
async fn release_all(
    world: &World,
    independent: &Value,
    kept: &BTreeSet<ObjectRef>,
) -> Result<(), StepError> {
    let kept: BTreeSet<ObjectRef> = kept.iter().map(ObjectRef::binding).collect();
    for attached in attached_to(world, independent) {
        let at = ObjectRef::of(&attached);
        if !kept.contains(&at) {
            let released = binding::release(&attached, independent);
            world.hub.send(&at, Call::Replace(&released)).await?;
        }
    }
    Ok(())
}

fn attached_to(world: &World, independent: &Value) -> Vec<Arc<Value>> {
    let mut found = world.hub.list(BINDING, Some(independent.namespace()));
    found.retain(|other| binding::is_attached(other, independent));
    found
}

/// Writes the status of a binding, and the aggregated status of its template.
async fn report(world: &World, binding: &Arc<Value>) -> Result<(), StepError> {
    let items = work::items(&works::of(world, binding));
    let status = &binding["status"];
    if items.is_empty() && status["aggregatedStatus"].is_null() && status["lastScheduledTime"].is_null() {
        return Ok(());
    }
    let condition = fully_applied(&schedule::reached(binding), &items);
    let conditions = condition.set_in(&status["conditions"], &now());
    let all = if items.is_empty() {
        Value::Null
    } else {
        json!(items)
    };
    if status["conditions"] != conditions || status["aggregatedStatus"] != all {
        let patch = json!({"conditions": conditions, "aggregatedStatus": all});
        world.hub.merge_status(binding, patch).await?;
    }
    let at = ObjectRef::read(&binding["spec"]["resource"]);
    let template = world.hub.get(&at);
    match template.filter(|template| template.uid() == binding["spec"]["resource"]["uid"]) {
        Some(template) => aggregate(world, &at.kind, &template, &items).await,
        None => Ok(()),
    }
}

/// Writes the aggregated status to the template, as a PUT of its status.
async fn aggregate(world: &World, kind: &Kind, template: &Value, items: &[Value]) -> Result<(), StepError> {
    let Some(script) = interpret::script(world, kind, Operation::StatusAggregation) else {
        return Ok(());
    };
    let aggregated = world.lua.aggregate_status(&script, template, items);
    let mut aggregated =
        aggregated.map_err(|error| StepError::Refused(format!("AggregateStatus: {error}")))?;
    if aggregated["status"] == template["status"] {
        return Ok(());
    }
    let mut next = template.clone();
    next["status"] = aggregated["status"].take();
    let call = Call::ReplaceStatus(&next);
    world.hub.send(&ObjectRef::of(template), call).await.map(drop)
}
