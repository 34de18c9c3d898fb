//! The Secrets that would come back for the object, by the status of its example and by the status that the hub gets of it.

use super::example::{Example, NAMESPACE};
use fedgate_karmada::Object;
use fedgate_kinds::{FederatedKind, NamePattern, Return, ReturnName};
use serde_json::Value;

/// A line for each rule of the kind's `returns`; `copy` is the object on the hub.
pub(super) fn notes(kind: &FederatedKind, example: &Example, copy: Option<&Value>) -> Vec<String> {
    let mut object = example.object.clone();
    object["status"] = example.status.clone();
    let rules = kind.returns.iter();
    rules
        .map(|rule| format!("comes back: {}", note(rule, &object, copy)))
        .collect()
}

fn note(rule: &Return, object: &Value, copy: Option<&Value>) -> String {
    let source = match &rule.name {
        ReturnName::Path(path) => path.text(),
        ReturnName::Pattern(text) => text,
    };
    let Some(name) = rule.rendered(object).filter(|name| !name.is_empty()) else {
        return format!(
            "nothing by {source}, which the example has not as a text; give its status that field to see it"
        );
    };
    if rule.name_for(object).is_none() {
        let allowed: Vec<&str> = rule.allow.iter().map(NamePattern::text).collect();
        return format!(
            "nothing by {source}: {name} is no name of a Secret that allow admits ({})",
            allowed.join(", ")
        );
    }
    let Some(copy) = copy else {
        return format!(
            "nothing by {source} yet: the hub has no copy of the object; the conditions of Create say why"
        );
    };
    // The gateway waits until the status on the hub names the Secret, too.
    if rule.name_for(copy).as_ref() != Some(&name) {
        return format!(
            "nothing by {source}: the status of the example names {name}, that on the hub does not; keep the field in both \
             status scripts"
        );
    }
    format!(
        "Secret {name} of the member, by {}/<member>.{name} of the hub to {NAMESPACE}/{name} of the project, with at most {} bytes",
        copy.namespace(),
        rule.max_bytes
    )
}
