//! Objects by their identity, compared field for field.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Objects by kind, namespace and name.
pub(crate) type Objects = BTreeMap<String, Value>;

/// Labels that the chart puts on every object.
pub(crate) const LABELS: [&str; 6] = [
    "component",
    "instance",
    "managed-by",
    "name",
    "part-of",
    "version",
];

/// Reads a YAML stream, in which no object is there twice.
pub(crate) fn read(yaml: &str) -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    of(documents.into_iter().filter(|document| !document.is_null()))
}

pub(crate) fn of(all: impl IntoIterator<Item = Value>) -> Objects {
    let mut objects = Objects::new();
    for object in all {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let key = format!(
            "{} {}/{}",
            text(&object["kind"]),
            text(&metadata["namespace"]),
            text(&metadata["name"])
        );
        assert!(object["apiVersion"].is_string(), "{key} has no apiVersion");
        let before = objects.insert(key.clone(), object);
        assert!(before.is_none(), "{key} is there twice");
    }
    objects
}

/// Without the labels and annotations of the chart.
pub(crate) fn plain(objects: Objects) -> Objects {
    let without = |(key, mut object): (String, Value)| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        let mut remove = |of: &str, names: &[String]| {
            if let Some(fields) = metadata.get_mut(of).and_then(Value::as_object_mut) {
                fields.retain(|name, _| !names.contains(name));
                if fields.is_empty() {
                    metadata.remove(of);
                }
            }
        };
        remove(
            "labels",
            &LABELS.map(|label| format!("app.kubernetes.io/{label}")),
        );
        remove("annotations", &["helm.sh/resource-policy".to_owned()]);
        (key, object)
    };
    objects.into_iter().map(without).collect()
}

/// Says where they differ.
pub(crate) fn compare(what: &str, found: &Objects, wanted: &Objects) {
    let keys = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(found), keys(wanted), "{what}");
    for (key, object) in found {
        if let Some(difference) = difference(object, &wanted[key]) {
            panic!("{what}: {key}{difference}");
        }
    }
}

/// The first field that differs. A whole number is the same with and without a fraction of zero.
fn difference(found: &Value, wanted: &Value) -> Option<String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let names: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
            names.into_iter().find_map(|name| {
                let inside = difference(
                    found.get(name).unwrap_or(&Value::Null),
                    wanted.get(name).unwrap_or(&Value::Null),
                )?;
                Some(format!(" .{name}{inside}"))
            })
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            let mut pairs = found.iter().zip(wanted).enumerate();
            pairs.find_map(|(at, (found, wanted))| {
                let inside = difference(found, wanted)?;
                Some(format!(" [{at}]{inside}"))
            })
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        _ => (found != wanted).then(|| format!(": found {found}, wanted {wanted}")),
    }
}

/// Several Namespaces of one name are one with all labels; other objects that are the same are one.
pub(crate) fn merged(parts: impl IntoIterator<Item = Objects>) -> Objects {
    let mut all = Objects::new();
    for (key, object) in parts.into_iter().flatten() {
        let Some(before) = all.get_mut(&key) else {
            all.insert(key, object);
            continue;
        };
        if key.starts_with("Namespace ") {
            let more = object["metadata"]["labels"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            let mut labels = before["metadata"]["labels"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            labels.extend(more);
            if !labels.is_empty() {
                before["metadata"]["labels"] = json!(labels);
            }
        } else {
            assert_eq!(*before, object, "{key}");
        }
    }
    all
}
