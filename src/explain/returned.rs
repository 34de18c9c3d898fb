//! The Secrets that would come back for the object, by the status of its example.

use super::example::{Example, NAMESPACE};
use fedgate_kinds::{FederatedKind, NamePattern, Return, ReturnName};
use serde_json::Value;

/// A line for each rule of the kind's `returns`.
pub(super) fn notes(kind: &FederatedKind, example: &Example) -> Vec<String> {
    let mut object = example.object.clone();
    object["status"] = example.status.clone();
    let rules = kind.returns.iter();
    rules.map(|rule| note(rule, &object)).collect()
}

fn note(rule: &Return, object: &Value) -> String {
    if let Some(name) = rule.name_for(object) {
        return format!(
            "comes back: Secret {name} of the member, to {NAMESPACE}/{name} of the project, with at most {} bytes",
            rule.max_bytes
        );
    }
    let allowed: Vec<&str> = rule.allow.iter().map(NamePattern::text).collect();
    match &rule.name {
        ReturnName::Path(path) => match path.first(object).and_then(Value::as_str) {
            None => format!(
                "comes back: nothing by {}, which the example has not; give its status that field to see it",
                path.text()
            ),
            Some(name) => format!(
                "comes back: nothing by {}: {name} is no name of a Secret that allow admits ({})",
                path.text(),
                allowed.join(", ")
            ),
        },
        ReturnName::Pattern(text) => format!(
            "comes back: nothing by {text}, whose name allow does not admit ({})",
            allowed.join(", ")
        ),
    }
}
