//! Reconciles the status of a binding and the status of its template.

use super::{
    interpret,
    refs::{NamespacedName, ObjectRef, Plane},
    works,
    world::{StepError, World, limited, now},
};
use fedgate_karmada::{condition::fully_applied, schedule, work};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;

/// Reconciles the status of the binding `at`.
pub(super) async fn pass(world: &World, at: &NamespacedName) -> Result<(), StepError> {
    let Some(binding) = world.binding(at) else {
        return Ok(());
    };
    if binding.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let items = work::items(&works::of(world, &binding));
    let status = &binding.data["status"];
    if items.is_empty() && status["aggregatedStatus"].is_null() && status["lastScheduledTime"].is_null() {
        return Ok(());
    }
    let binding = record(world, at, binding.clone(), &items).await?;
    aggregate(world, &binding, &items).await
}

async fn record(
    world: &World,
    at: &NamespacedName,
    binding: Arc<DynamicObject>,
    items: &[Value],
) -> Result<Arc<DynamicObject>, StepError> {
    let status = &binding.data["status"];
    let condition = fully_applied(&schedule::reached(&binding), items);
    let conditions = condition.set_in(&status["conditions"], &now());
    let list = if items.is_empty() {
        Value::Null
    } else {
        json!(items)
    };
    if status["conditions"] == conditions && status["aggregatedStatus"] == list {
        return Ok(binding);
    }
    let patch = json!({"conditions": conditions, "aggregatedStatus": list});
    world
        .merge_status(&at.binding_kind(), &binding, patch)
        .await
        .map(Arc::new)
}

/// Writes the aggregated status to the template, as a PUT of its status.
async fn aggregate(world: &World, binding: &DynamicObject, items: &[Value]) -> Result<(), StepError> {
    let resource = &binding.data["spec"]["resource"];
    let Some(at) = ObjectRef::read(resource) else {
        return Ok(());
    };
    // Checked first, so that kinds without a script cost no request.
    if interpret::has_aggregation(world, &at.kind) {
        let api = world.api(&Plane::Hub, &at.kind, &at.namespace)?;
        let Some(template) = limited(&at, "read", api.get_opt(&at.name)).await? else {
            return Ok(());
        };
        if template.metadata.uid.as_deref() != resource["uid"].as_str() {
            return Ok(());
        }
        let status = match interpret::aggregate(world, &at.kind, &template, items) {
            Ok(Some(status)) => status,
            Ok(None) => return Ok(()),
            Err(error) => {
                world
                    .warn(&template, "AggregateStatusFailed", &error.reason())
                    .await;
                return Err(error);
            }
        };
        if template.data["status"] == status {
            return Ok(());
        }
        let mut next = template.clone();
        next.data["status"] = status;
        let params = PostParams::default();
        let written = limited(
            &at,
            "replace the status of",
            api.replace_status(&at.name, &params, &next),
        )
        .await;
        if let Err(error) = written {
            if !error.lost_race() {
                world
                    .warn(&template, "AggregateStatusFailed", &error.reason())
                    .await;
            }
            return Err(error);
        }
    }
    Ok(())
}
