//! Runs the scripts of `ResourceInterpreterCustomizations`.

use super::{
    refs::{Kind, ObjectRef, Plane},
    wire::{self, as_value},
    world::{StepError, World},
};
use fedgate_kinds::lua::LuaError;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// The script of a kind for an operation, e.g. `statusReflection`, from the first customization by name that has it.
fn script(world: &World, kind: &Kind, operation: &str) -> Option<String> {
    world
        .mirrors
        .list(&Plane::Hub, &wire::interpreter(), None)
        .iter()
        .filter(|customization| Kind::of(&customization.data["spec"]["target"]).as_ref() == Some(kind))
        .find_map(|customization| {
            customization.data["spec"]["customizations"][operation]["luaScript"]
                .as_str()
                .map(ToOwned::to_owned)
        })
}

fn failed(what: &str) -> impl Fn(LuaError) -> StepError {
    let what = what.to_owned();
    move |error| StepError::Script(what.clone(), error)
}

/// The status that is synced to the hub: the script's result, or the whole status if the kind has no script.
pub(super) fn reflect(
    world: &World,
    kind: &Kind,
    observed: &DynamicObject,
) -> Result<Option<Value>, StepError> {
    match script(world, kind, "statusReflection") {
        Some(text) => world
            .lua
            .reflect_status(&text, &as_value(observed))
            .map(Some)
            .map_err(failed("ReflectStatus")),
        None => Ok(observed
            .data
            .get("status")
            .filter(|status| !status.is_null())
            .cloned()),
    }
}

/// The health of the object: healthy without a script, unknown if the script fails.
pub(super) fn health(world: &World, kind: &Kind, observed: &DynamicObject) -> &'static str {
    match script(world, kind, "healthInterpretation") {
        None => "Healthy",
        Some(text) => match world.lua.interpret_health(&text, &as_value(observed)) {
            Ok(true) => "Healthy",
            Ok(false) => "Unhealthy",
            Err(error) => {
                tracing::debug!(%error, "InterpretHealth failed");
                "Unknown"
            }
        },
    }
}

/// True if the kind has a script that aggregates the members' status.
pub(super) fn has_aggregation(world: &World, kind: &Kind) -> bool {
    script(world, kind, "statusAggregation").is_some()
}

/// The template's status, aggregated from the members' items; `None` if the kind has no script for it.
pub(super) fn aggregate(
    world: &World,
    kind: &Kind,
    template: &DynamicObject,
    items: &[Value],
) -> Result<Option<Value>, StepError> {
    let Some(text) = script(world, kind, "statusAggregation") else {
        return Ok(None);
    };
    let mut object = world
        .lua
        .aggregate_status(&text, &as_value(template), items)
        .map_err(failed("AggregateStatus"))?;
    Ok(Some(object["status"].take()))
}

/// The template's dependencies, as Karmada records them; `None` if the kind has no script for it.
pub(super) fn dependencies(
    world: &World,
    kind: &Kind,
    template: &DynamicObject,
) -> Result<Option<Vec<(ObjectRef, Value)>>, StepError> {
    let Some(text) = script(world, kind, "dependencyInterpretation") else {
        return Ok(None);
    };
    let list = world
        .lua
        .get_dependencies(&text, &as_value(template))
        .map_err(failed("GetDependencies"))?;
    let read = |dependency| {
        let value = json!(dependency);
        ObjectRef::read(&value).map(|object| (object, value))
    };
    Ok(Some(list.iter().filter_map(read).collect()))
}

/// Retains in `desired` the fields that the member's object must keep, if the kind has a script for it.
pub(super) fn retain(
    world: &World,
    kind: &Kind,
    desired: Value,
    observed: &Value,
) -> Result<Value, StepError> {
    let Some(text) = script(world, kind, "retention") else {
        return Ok(desired);
    };
    world
        .lua
        .retain(&text, &desired, observed)
        .map_err(failed("Retain"))
}
