//! What is compared of an answer.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Marks for what differs from plane to plane: the same thing has the same mark within a scenario.
#[derive(Default)]
pub(crate) struct Marks(BTreeMap<(&'static str, String), usize>);

impl Marks {
    fn mark(&mut self, kind: &'static str, text: &str) -> Value {
        let next = self.0.keys().filter(|(of, _)| *of == kind).count() + 1;
        let number = *self.0.entry((kind, text.to_owned())).or_insert(next);
        json!(format!("{kind}-{number}"))
    }

    /// An answer without what may differ.
    pub(crate) fn normal(&mut self, value: &Value) -> Value {
        if value["kind"] == "Status" && value["status"] == "Failure" {
            return refusal(value);
        }
        self.value("", value)
    }

    fn value(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(self.object(key, map)),
            Value::Array(list) if key == "managedFields" => self.managers(list),
            Value::Array(list) => list.iter().map(|item| self.value(key, item)).collect(),
            Value::String(text) => self.text(key, text),
            other => other.clone(),
        }
    }

    fn object(&mut self, key: &str, map: &Map<String, Value>) -> Map<String, Value> {
        let mut result = Map::new();
        for (name, value) in map {
            // Null, and an empty map of metadata in a Success, say nothing.
            if value.is_null() || (name == "metadata" && value.as_object().is_some_and(Map::is_empty)) {
                continue;
            }
            // Conditions of Namespaces come from their controller, when it gets to it.
            if key == "status" && name == "conditions" && map.contains_key("phase") {
                continue;
            }
            // How the server keeps a kind, and where it is, is its own affair.
            if ["storageVersionHash", "serverAddressByClientCIDRs"].contains(&name.as_str()) {
                continue;
            }
            let mut value = value.clone();
            // A list's version is the plane's, which anybody's write may move meanwhile.
            if key.is_empty()
                && name == "metadata"
                && map.contains_key("items")
                && let Some(version) = value.get_mut("resourceVersion")
            {
                *version = json!("");
            }
            result.insert(name.clone(), self.value(name, &value));
        }
        if let Some(prefix) = map.get("generateName").and_then(Value::as_str) {
            result.insert("name".to_owned(), json!(format!("{prefix}*")));
        }
        result
    }

    /// Managers without their times, by name. Keys of owners hold UIDs.
    fn managers(&self, list: &[Value]) -> Value {
        let mut text = Value::Array(list.to_vec()).to_string();
        for ((_, uid), number) in self.0.iter().filter(|((kind, _), _)| *kind == "uid") {
            text = text.replace(uid, &format!("uid-{number}"));
        }
        let mut entries: Vec<Value> = serde_json::from_str(&text).unwrap();
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
            entry.remove("fieldsType");
        }
        entries.sort_by_key(ToString::to_string);
        Value::Array(entries)
    }

    fn text(&mut self, key: &str, text: &str) -> Value {
        match key {
            "resourceVersion" if !text.is_empty() => self.mark("version", text),
            "uid" => self.mark("uid", text),
            "continue" if !text.is_empty() => json!("token"),
            "creationTimestamp" | "deletionTimestamp" => json!("time"),
            _ => json!(text),
        }
    }
}

/// A refusal without its sentence, whose wording is the server's own.
fn refusal(status: &Value) -> Value {
    let details = &status["details"];
    let causes = details["causes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut causes: Vec<Value> = causes
        .iter()
        .map(|cause| json!([cause["reason"], cause["field"]]))
        .collect();
    // Custom objects are looked at twice.
    causes.dedup();
    json!({"reason": status["reason"], "code": status["code"],
        "details": [details["name"], details["group"], details["kind"]], "causes": causes})
}

#[test]
fn equal_things_have_equal_marks() {
    let mut marks = Marks::default();
    let object =
        |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version, "x": null}});
    let expected = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
    assert_eq!(marks.normal(&object("a", "7")), expected("uid-1", "version-1"));
    assert_eq!(marks.normal(&object("a", "9")), expected("uid-1", "version-2"));
    assert_eq!(marks.normal(&object("b", "7")), expected("uid-2", "version-1"));
    let list = json!({"items": [], "metadata": {"resourceVersion": "9"}});
    assert_eq!(
        marks.normal(&list),
        json!({"items": [], "metadata": {"resourceVersion": ""}})
    );
}
