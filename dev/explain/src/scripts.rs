//! The kind's status scripts, as Karmada runs them.

use fedgate_kinds::{
    FederatedKind,
    lua::{Host, LuaError, Operation},
};
use fedgate_simulator::karmada::Interpreter;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// See the module.
pub(super) struct Scripts {
    by_operation: Vec<(String, Arc<str>)>,
    lua: Host,
    /// The first error of a script, with its operation.
    pub(super) failed: OnceLock<(Operation, LuaError)>,
}

impl Scripts {
    pub(super) fn of(kind: &FederatedKind) -> Self {
        Self {
            by_operation: kind.interpreter.scripts.clone(),
            lua: Host::new(),
            failed: OnceLock::new(),
        }
    }

    /// The result of a script, null if it fails; `None` if the kind has no such script.
    fn run(
        &self,
        operation: Operation,
        call: impl FnOnce(&Host, &str) -> Result<Value, LuaError>,
    ) -> Option<Value> {
        let (_, script) = self.by_operation.iter().find(|(key, _)| key == operation.key())?;
        let result = call(&self.lua, script).map_err(|error| {
            // The first one is reported.
            let _ = self.failed.set((operation, error));
        });
        Some(result.unwrap_or_default())
    }
}

impl Interpreter for Scripts {
    fn reflect(&self, observed: &Value) -> Value {
        if observed["status"].is_null() {
            return Value::Null;
        }
        let reflect = |lua: &Host, script: &str| lua.reflect_status(script, observed);
        self.run(Operation::StatusReflection, reflect)
            .unwrap_or_else(|| observed["status"].clone())
    }

    fn aggregate(&self, template: &Value, items: &[Value]) -> Value {
        if items.iter().all(|item| item["status"].is_null()) {
            return Value::Null;
        }
        let aggregate = |lua: &Host, script: &str| {
            let object = lua.aggregate_status(script, template, items);
            object.map(|mut object| object["status"].take())
        };
        self.run(Operation::StatusAggregation, aggregate)
            .unwrap_or_default()
    }
}
