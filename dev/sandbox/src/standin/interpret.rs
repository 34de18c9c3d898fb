//! Runs the scripts of `ResourceInterpreterCustomizations`.

use super::{
    refs::{INTERPRETER, kind_of},
    world::World,
};
use fedgate_kinds::lua::{LuaError, Operation};
use serde_json::Value;

/// The script of a kind for an operation, from the first customization by name that has it.
pub(super) fn script(world: &World, kind: &str, operation: Operation) -> Option<String> {
    world
        .hub
        .list(INTERPRETER, None)
        .iter()
        .map(|customization| &customization["spec"])
        .filter(|spec| kind_of(&spec["target"]) == kind)
        .find_map(|spec| spec["customizations"][operation.key()]["luaScript"].as_str())
        .map(ToOwned::to_owned)
}

/// The status that is synced to the hub: the script's result, or the whole status if the kind has no script.
pub(super) fn reflect(world: &World, kind: &str, observed: &Value) -> Result<Option<Value>, LuaError> {
    match script(world, kind, Operation::StatusReflection) {
        Some(text) => world.lua.reflect_status(&text, observed).map(Some),
        None => Ok(observed.get("status").filter(|status| !status.is_null()).cloned()),
    }
}

/// The health of the object: healthy without a script, unknown if the script fails.
pub(super) fn health(world: &World, kind: &str, observed: &Value) -> &'static str {
    let Some(text) = script(world, kind, Operation::HealthInterpretation) else {
        return "Healthy";
    };
    match world.lua.interpret_health(&text, observed) {
        Ok(true) => "Healthy",
        Ok(false) => "Unhealthy",
        Err(error) => {
            tracing::debug!(%error, "InterpretHealth failed");
            "Unknown"
        }
    }
}
