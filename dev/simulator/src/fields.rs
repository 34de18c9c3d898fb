//! Sets of fields, in the form in which `managedFields` lists them (`FieldsV1`).

use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt::Write as _};

/// A tree of fields. A step is written as in `FieldsV1`: `f:name`, `k:{"name":"web"}` or `v:"text"`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// The place itself is in the set.
    own: bool,
    below: BTreeMap<Box<str>, Fields>,
}

/// The step to a named field or key.
pub(crate) fn named(name: &str) -> String {
    format!("f:{name}")
}

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        !self.own && self.below.is_empty()
    }

    pub(crate) fn has_own(&self) -> bool {
        self.own
    }

    pub(crate) fn step(&self, step: &str) -> Option<&Self> {
        self.below.get(step)
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.below.iter().map(|(step, fields)| (&**step, fields))
    }

    /// Marks the place at the end of `path`.
    pub(crate) fn insert(&mut self, path: &[String]) {
        let mut at = self;
        for step in path {
            at = at.below.entry(step.as_str().into()).or_default();
        }
        at.own = true;
    }

    /// Keeps what is below `step` alone.
    pub(crate) fn only(&mut self, step: &str) {
        self.own = false;
        self.below.retain(|found, _| &**found == step);
    }

    /// Takes away `step` and all below it.
    pub(crate) fn without(&mut self, step: &str) {
        self.below.remove(step);
    }

    /// Takes away the place at the end of `path`, but nothing below it.
    pub(crate) fn unmark(&mut self, path: &[&str]) {
        let Some((step, rest)) = path.split_first() else {
            self.own = false;
            return;
        };
        if let Some(next) = self.below.get_mut(*step) {
            next.unmark(rest);
            if next.is_empty() {
                self.below.remove(*step);
            }
        }
    }

    pub(crate) fn union(&mut self, other: &Self) {
        self.own |= other.own;
        for (step, fields) in &other.below {
            self.below.entry(step.clone()).or_default().union(fields);
        }
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(step, fields)| {
            let left = match other.below.get(step) {
                Some(gone) => fields.difference(gone),
                None => fields.clone(),
            };
            (!left.is_empty()).then(|| (step.clone(), left))
        });
        Self {
            own: self.own && !other.own,
            below: below.collect(),
        }
    }

    /// Takes away the places of another set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.own &= !other.own;
        for (step, gone) in &other.below {
            if let Some(fields) = self.below.get_mut(step) {
                fields.subtract(gone);
                if fields.is_empty() {
                    self.below.remove(step);
                }
            }
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(step, fields)| {
            let both = fields.intersection(other.below.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        Self {
            own: self.own && other.own,
            below: below.collect(),
        }
    }

    /// A copy in which `f` may mark further places: it is called with each step, and answers what is below it.
    pub(crate) fn map(&self, f: impl Fn(&str, &Self) -> Self) -> Self {
        Self {
            own: self.own,
            below: self
                .below
                .iter()
                .map(|(step, fields)| (step.clone(), f(step, fields)))
                .collect(),
        }
    }

    pub(crate) fn marked(mut self) -> Self {
        self.own = true;
        self
    }

    /// Every place in the set, in words such as `.spec.ports[name="web"].port`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.walk(&mut String::new(), &mut all);
        all
    }

    fn walk(&self, path: &mut String, all: &mut Vec<String>) {
        if self.own {
            all.push(path.clone());
        }
        for (step, fields) in &self.below {
            let length = path.len();
            spell(step, path);
            fields.walk(path, all);
            path.truncate(length);
        }
    }

    /// Reads `FieldsV1`.
    pub(crate) fn parse(value: &Value) -> Self {
        let Some(map) = value.as_object() else {
            return Self::default();
        };
        Self {
            own: map.is_empty() || map.contains_key("."),
            below: map
                .iter()
                .filter(|(step, _)| *step != ".")
                .map(|(step, below)| (step.as_str().into(), Self::parse(below)))
                .collect(),
        }
    }

    /// Writes `FieldsV1`.
    pub(crate) fn render(&self) -> Value {
        let mut map = Map::new();
        if self.own && !self.below.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (step, fields) in &self.below {
            map.insert(step.to_string(), fields.render());
        }
        Value::Object(map)
    }
}

fn spell(step: &str, path: &mut String) {
    let (kind, rest) = step.split_at_checked(2).unwrap_or(("", step));
    // Writing to a string cannot fail.
    let _ = match kind {
        "f:" => write!(path, ".{rest}"),
        "v:" => write!(path, "[={rest}]"),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            write!(path, "[{}]", pairs.join(","))
        }
        _ => write!(path, "[{step}]"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: &Value) -> Fields {
        Fields::parse(value)
    }

    #[test]
    fn the_written_form_is_read_back() {
        let written = json!({
            "f:data": {".": {}, "f:a": {}},
            "f:spec": {"f:ports": {"k:{\"name\":\"web\"}": {".": {}, "f:port": {}}}},
            "f:metadata": {"f:finalizers": {"v:\"x/y\"": {}}},
        });
        let read = set(&written);
        assert_eq!(read.render(), written);
        assert_eq!(
            read.paths(),
            [
                ".data",
                ".data.a",
                ".metadata.finalizers[=\"x/y\"]",
                ".spec.ports[name=\"web\"]",
                ".spec.ports[name=\"web\"].port",
            ]
        );
    }

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let ab = set(&json!({"f:d": {"f:a": {}, "f:b": {}}}));
        let bc = set(&json!({"f:d": {".": {}, "f:b": {}, "f:c": {}}}));
        let mut all = ab.clone();
        all.union(&bc);
        assert_eq!(all.paths(), [".d", ".d.a", ".d.b", ".d.c"]);
        assert_eq!(ab.intersection(&bc).paths(), [".d.b"]);
        assert_eq!(bc.difference(&ab).paths(), [".d", ".d.c"]);
        let mut left = bc.clone();
        left.subtract(&ab);
        assert_eq!(left, bc.difference(&ab));
        left.subtract(&bc);
        assert!(left.is_empty());
        assert!(ab.difference(&all).is_empty());
    }

    #[test]
    fn a_place_goes_and_what_is_below_stays() {
        let mut fields = set(&json!({"f:metadata": {".": {}, "f:name": {}, "f:labels": {"f:a": {}}}}));
        fields.unmark(&["f:metadata"]);
        fields.unmark(&["f:metadata", "f:name"]);
        fields.unmark(&["f:other", "f:name"]);
        assert_eq!(fields.paths(), [".metadata.labels.a"]);
    }
}
