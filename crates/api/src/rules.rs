//! Additions of the definitions to the schemas of their types (contract: api.md §6): strict bounds, defaults, and the CEL rules V1
//! to V33 of Workload, which [`validate`](super::validate) says in Rust, and the rules of Cell. The table is `schemas.yaml`.

use super::{
    schema::{self, SchemaError},
    yaml,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::LazyLock};

/// Additions of a kind's definition.
#[derive(Default, Deserialize)]
struct Additions {
    /// Keywords of the schema, by path.
    keywords: BTreeMap<String, Map<String, Value>>,
    #[serde(default)]
    rules: Vec<Rule>,
}

/// One rule of the contract.
#[derive(Deserialize)]
struct Rule {
    /// `V1` to `V33`, and `C1` to `C10` of Cell.
    id: String,
    /// Where it stands.
    #[serde(default)]
    at: Vec<String>,
    /// The rule in CEL; `None` if only [`validate`](super::validate) checks it.
    cel: Option<String>,
    /// What a user reads.
    message: String,
}

/// The table, by kind.
static ADDITIONS: LazyLock<BTreeMap<String, Additions>> =
    LazyLock::new(|| yaml::read(include_str!("schemas.yaml")).unwrap_or_default());

/// The rules of all kinds.
fn rules() -> impl Iterator<Item = &'static Rule> {
    ADDITIONS.values().flat_map(|additions| &additions.rules)
}

/// A template label's key, V26.
pub(super) const LABEL_KEY: &str =
    "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";

/// True if the definition leaves a rule to the controllers.
#[must_use]
pub fn is_left_to_controllers(id: &str) -> bool {
    rules().any(|rule| rule.id == id && rule.cel.is_none())
}

/// Adds to the schema of a kind.
pub(super) fn apply(kind: &str, schema: &mut Value) -> Result<(), SchemaError> {
    let unknown = || SchemaError {
        path: kind.to_owned(),
    };
    let additions = ADDITIONS.get(kind).ok_or_else(unknown)?;
    for (path, keywords) in &additions.keywords {
        for path in schema::expand_alternatives(path) {
            schema::at(schema, &path)?.extend(keywords.clone());
        }
    }
    for rule in &additions.rules {
        for at in rule.at.iter().flat_map(|at| schema::expand_alternatives(at)) {
            let node = schema::at(schema, &at)?;
            let list = node
                .entry("x-kubernetes-validations")
                .or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(json!({"rule": rule.cel, "message": rule.message}));
            }
        }
    }
    Ok(())
}

/// What a user reads when the rule is broken.
pub(super) fn message(id: &str) -> &'static str {
    rules()
        .find(|rule| rule.id == id)
        .map_or("", |rule| &rule.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_contract_is_there() {
        let mut ids: Vec<&str> = rules()
            .map(|rule| &*rule.id)
            .filter(|id| id.starts_with('V'))
            .collect();
        ids.dedup();
        ids.sort_by_key(|id| id[1..].parse::<u32>().unwrap());
        let wanted: Vec<String> = (1..=33).map(|n| format!("V{n}")).collect();
        assert_eq!(ids, wanted);
        let left = rules().filter(|rule| rule.at.is_empty());
        assert!(
            left.map(|rule| (&*rule.id, &rule.cel))
                .eq([("V5", &None), ("V18", &None)])
        );
    }

    #[test]
    fn the_expressions_shared_with_rust_are_the_same() {
        let cel = |id: &str| rules().find(|r| r.id == id).unwrap().cel.as_ref().unwrap();
        assert!(cel("V26").contains(LABEL_KEY));
        assert!(cel("V24").contains(crate::keys::SSH_KEYS));
    }
}
