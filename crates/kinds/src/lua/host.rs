//! The host: runs entry points and converts their results to the values that Karmada would use.

use super::{
    LuaError, Operation, convert,
    error::line_of,
    vm::{Budget, CALL_LIMIT, Vm},
};
use mlua::{Function, MultiValue, Value as LuaValue, chunk::ChunkMode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// An object that Karmada propagates with another object, as `GetDependencies` returns it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Group and version, e.g. `v1`.
    #[serde(default)]
    pub api_version: String,
    /// Kind, e.g. `Secret`.
    #[serde(default)]
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; empty if the label selector is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Selects objects by label instead of by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Value>,
}

/// A Lua state that is reused from call to call, as Karmada's pool reuses its states: globals of one script stay for
/// the next script. A state that ran out of time or memory is replaced. Calls from several threads wait for each other.
pub struct Host {
    vm: Mutex<Option<Vm>>,
    limit: Duration,
    reversed: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self::with_limit(CALL_LIMIT)
    }
}

impl Host {
    /// Creates a host; the first call creates its Lua state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a host with `limit` as the time limit of a call, instead of Karmada's 1 s.
    pub fn with_limit(limit: Duration) -> Self {
        Self {
            vm: Mutex::new(None),
            limit,
            reversed: false,
        }
    }

    /// Creates a host in which `pairs` iterates over the keys of a table backwards; in Karmada the order of `pairs` is
    /// undefined.
    #[cfg(feature = "checks")]
    pub(super) fn reversed() -> Self {
        Self {
            reversed: true,
            ..Self::new()
        }
    }

    /// Parses `script`, calls `function` with `args` and returns its first result; every empty table is `[]`.
    ///
    /// The typed calls below also apply Karmada's rule for empty tables.
    pub fn call(&self, script: &str, function: &str, args: &[Value]) -> Result<Value, LuaError> {
        let mut slot = self.vm.lock();
        let vm = match slot.take() {
            Some(vm) => vm,
            None => Vm::new(self.reversed).map_err(|error| LuaError::Raised(error.to_string()))?,
        };
        let outcome = run(&vm, self.limit, script, function, args);
        if !matches!(outcome, Err(LuaError::Timeout | LuaError::Memory)) {
            *slot = Some(vm);
        }
        outcome
    }

    /// Returns the status that Karmada collects from a member to the hub: an object, without empty maps and lists.
    pub fn reflect_status(&self, script: &str, observed: &Value) -> Result<Value, LuaError> {
        let args = std::slice::from_ref(observed);
        let result = self.call(script, Operation::StatusReflection.entry_point(), args)?;
        table(result, &[])
    }

    /// Returns the object with the status aggregated from the members' `items` (`clusterName`, `status`, `applied`,
    /// `appliedMessage`, `health`; sorted by cluster). Karmada uses only its `status`. The script receives nil for no
    /// items.
    pub fn aggregate_status(
        &self,
        script: &str,
        desired: &Value,
        items: &[Value],
    ) -> Result<Value, LuaError> {
        // Go encodes a nil slice as null.
        let items = match items {
            [] => Value::Null,
            items => Value::Array(items.iter().map(without_zeros).collect()),
        };
        let args = [desired.clone(), items];
        object(table(
            self.call(script, Operation::StatusAggregation.entry_point(), &args)?,
            &[],
        )?)
    }

    /// True if the object is healthy.
    pub fn interpret_health(&self, script: &str, observed: &Value) -> Result<bool, LuaError> {
        let args = std::slice::from_ref(observed);
        match self.call(script, Operation::HealthInterpretation.entry_point(), args)? {
            Value::Bool(healthy) => Ok(healthy),
            other => Err(returned("a boolean", name_of(&other))),
        }
    }

    /// Returns the number of replicas. What a replica requires, the second result, is not read.
    pub fn get_replicas(&self, script: &str, desired: &Value) -> Result<i64, LuaError> {
        let args = std::slice::from_ref(desired);
        let result = self.call(script, Operation::ReplicaResource.entry_point(), args)?;
        result
            .as_i64()
            .ok_or_else(|| returned("a whole number", name_of(&result)))
    }

    /// Returns the dependencies of the object: without duplicates, sorted by apiVersion, kind, namespace and name, as
    /// in Karmada.
    pub fn get_dependencies(&self, script: &str, desired: &Value) -> Result<Vec<Dependency>, LuaError> {
        let args = std::slice::from_ref(desired);
        let result = self.call(script, Operation::DependencyInterpretation.entry_point(), args)?;
        if !matches!(result, Value::Array(_)) {
            return Err(returned("a list", name_of(&result)));
        }
        let result = convert::settle_empties(result, &[])?;
        let mut list: Vec<Dependency> = serde_json::from_value(result)
            .map_err(|error| LuaError::Result(format!("a dependency is malformed: {error}")))?;
        if let Some(bad) = list.iter().position(|d| {
            d.api_version.is_empty() || d.kind.is_empty() || (d.name.is_empty() && d.label_selector.is_none())
        }) {
            let why = format!(
                "dependency {} lacks apiVersion, kind, or both name and labelSelector",
                bad + 1
            );
            return Err(LuaError::Result(why));
        }
        list.sort_by_cached_key(|d| [&d.api_version, &d.kind, &d.namespace, &d.name].map(String::clone));
        list.dedup();
        Ok(list)
    }

    /// Returns the desired object with the retained fields of a member's object. Empty maps and lists of either are
    /// restored.
    pub fn retain(&self, script: &str, desired: &Value, observed: &Value) -> Result<Value, LuaError> {
        let args = [desired.clone(), observed.clone()];
        let result = self.call(script, Operation::Retention.entry_point(), &args)?;
        object(table(result, &[desired, observed])?)
    }
}

/// Parses and loads a script in a new state and checks that its entry point exists.
///
/// In Karmada's reused states a misspelt entry point goes unnoticed if another script has defined a function of that
/// name.
pub fn check_entry_point(script: &str, operation: Operation) -> Result<(), LuaError> {
    let vm = Vm::new(false).map_err(|error| LuaError::Raised(error.to_string()))?;
    let function = operation.entry_point();
    load(&vm, CALL_LIMIT, script, function).map(drop)
}

/// Compiles the script to bytecode with line information.
#[cfg(feature = "checks")]
pub(super) fn compile(script: &str) -> Result<Vec<u8>, LuaError> {
    let vm = Vm::new(false).map_err(|error| LuaError::Raised(error.to_string()))?;
    let chunk = vm.lua.load(script).set_mode(ChunkMode::Text).set_name("=script");
    let dumped = chunk.into_function().map(|function| function.dump(false));
    dumped.map_err(|error| classify(&error, &vm.budget))
}

/// Converts a result that must be a table to an object: at the top, an empty table is an empty object.
fn table(result: Value, references: &[&Value]) -> Result<Value, LuaError> {
    match &result {
        Value::Array(items) if items.is_empty() => Ok(Value::Object(Map::new())),
        Value::Array(_) | Value::Object(_) => convert::settle_empties(result, references),
        other => Err(returned("a table", name_of(other))),
    }
}

/// Checks that a result is a Kubernetes object.
fn object(result: Value) -> Result<Value, LuaError> {
    if result["kind"].as_str().is_some_and(|kind| !kind.is_empty()) {
        return Ok(result);
    }
    Err(returned(
        "the whole object, with its kind",
        "something without kind",
    ))
}

fn returned(expected: &'static str, found: &'static str) -> LuaError {
    LuaError::Type { expected, found }
}

/// The item without the zero values that Go omits when it encodes the item.
fn without_zeros(item: &Value) -> Value {
    let Value::Object(fields) = item else {
        return item.clone();
    };
    let zero = |key: &str, value: &Value| match value {
        Value::Null => true,
        Value::Bool(flag) => key == "applied" && !flag,
        Value::String(text) => key != "clusterName" && text.is_empty(),
        _ => false,
    };
    Value::Object(
        fields
            .iter()
            .filter(|(k, v)| !zero(k, v))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
    )
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) | Value::Object(_) => "a table",
    }
}

/// Starts the time limit of the call, runs the script's top level and returns the entry point.
fn load(vm: &Vm, limit: Duration, script: &str, function: &str) -> Result<Function, LuaError> {
    let failed = |error: mlua::Error| classify(&error, &vm.budget);
    vm.budget.begin(limit);
    vm.lua
        .load(script)
        .set_mode(ChunkMode::Text)
        .set_name("=script")
        .exec()
        .map_err(failed)?;
    match vm.lua.globals().get(function).map_err(failed)? {
        LuaValue::Function(entry) => Ok(entry),
        other => Err(LuaError::EntryPoint {
            name: function.to_owned(),
            found: other.type_name(),
        }),
    }
}

fn run(vm: &Vm, limit: Duration, script: &str, function: &str, args: &[Value]) -> Result<Value, LuaError> {
    let failed = |error: mlua::Error| classify(&error, &vm.budget);
    // The garbage collector runs the hook too, and the deadline of the last call must not fail it.
    vm.budget.begin(limit);
    vm.lua.gc_collect().map_err(failed)?;
    let entry = load(vm, limit, script, function)?;
    let mut values = MultiValue::new();
    for arg in args {
        values.push_back(convert::to_lua(&vm.lua, arg).map_err(failed)?);
    }
    let result: LuaValue = entry.call(values).map_err(failed)?;
    convert::to_json(&result)
}

/// Finds the cause inside the callback errors that mlua wraps around it.
fn classify(error: &mlua::Error, budget: &Budget) -> LuaError {
    if budget.is_spent() {
        return LuaError::Timeout;
    }
    let mut cause = error;
    while let mlua::Error::CallbackError { cause: inner, .. } = cause {
        cause = inner;
    }
    match cause {
        mlua::Error::MemoryError(_) => LuaError::Memory,
        mlua::Error::SyntaxError { message, .. } => {
            let (line, text) = line_of(message).unwrap_or((1, message));
            LuaError::Syntax {
                line,
                message: text.to_owned(),
            }
        }
        mlua::Error::RuntimeError(text) => {
            let text = text.split("\nstack traceback:").next().unwrap_or(text);
            LuaError::Raised(text.to_owned())
        }
        other => LuaError::Raised(other.to_string()),
    }
}
