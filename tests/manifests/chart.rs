//! The values of the chart: `values.yaml` and the schema say the same.

use serde_json::Value;
use std::{fs, path::Path};

fn read(name: &str) -> String {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/fedgate");
    fs::read_to_string(chart.join(name)).unwrap()
}

/// The schemas of sections and values below a section, each with its path; flags are in no file of values.
fn schemas<'a>(path: &str, section: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    for (name, schema) in section["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        found.push((path.clone(), schema));
        if schema.get("default").is_none() {
            schemas(&path, schema, found);
        }
    }
}

#[test]
fn each_value_has_the_default_and_the_meaning_of_its_schema() {
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let text = read("values.yaml");
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let lines = text.lines().map(|line| line.trim().trim_start_matches("# "));
    let words = lines.collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    schemas("", &schema, &mut found);
    assert!(found.len() > 60, "{} values", found.len());
    for (path, schema) in found {
        if ["/global", "/enabled"].contains(&&*path) {
            // They are values of a parent chart.
            assert!(values.pointer(&path).is_none(), "{path}");
            continue;
        }
        let meaning = schema["description"].as_str().unwrap();
        assert!(
            words.contains(meaning),
            "values.yaml does not say of {path}: {meaning}"
        );
        if let Some(default) = schema.get("default") {
            assert_eq!(values.pointer(&path), Some(default), "{path}");
        }
    }
}

/// A value of the file that no schema has would be refused by Helm; one without a default is a section.
#[test]
fn each_value_of_the_file_has_a_schema() {
    fn check(path: &str, values: &Value, section: &Value) {
        for (name, value) in values.as_object().unwrap() {
            let path = format!("{path}/{name}");
            let schema = &section["properties"][name];
            assert!(schema.is_object(), "{path} has no schema");
            if schema.get("default").is_none() {
                check(&path, value, schema);
            }
        }
    }
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    check("", &values, &schema);
}
