//! Fields of a template that the types of this version do not have. The definitions of a project may be newer, and a field that
//! got lost on the way would build other Instances than the tenant asked for.

use super::{InstanceTemplate, crd};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The schema of a template's spec.
static SPEC: LazyLock<Value> = LazyLock::new(|| {
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template/properties/spec";
    let crd = crd::workload_deployment().unwrap_or_default();
    crd.pointer(path).cloned().unwrap_or_default()
});

/// A template as fedgate writes it: without the defaults of an API server, and with the fields that this version does not know.
///
/// # Errors
///
/// If the template is not one of Instances.
pub fn written_template(template: &Value) -> serde_json::Result<Value> {
    let mut written = serde_json::to_value(InstanceTemplate::deserialize(template)?)?;
    carry(&mut written["spec"], &template["spec"], &SPEC);
    Ok(written)
}

/// Copies the fields of `template` that the schema does not have.
fn carry(written: &mut Value, template: &Value, schema: &Value) {
    match (written, template) {
        (Value::Object(written), Value::Object(template)) => {
            let Some(known) = schema["properties"].as_object() else {
                return;
            };
            for (name, value) in template {
                match (known.get(name), written.get_mut(name)) {
                    (Some(schema), Some(written)) => carry(written, value, schema),
                    // The types leave out what is empty or a default; unknown fields below it remain.
                    (Some(schema), None) if value.is_object() => {
                        let mut below = Value::Object(Map::new());
                        carry(&mut below, value, schema);
                        if below.as_object().is_some_and(|below| !below.is_empty()) {
                            written.insert(name.clone(), below);
                        }
                    }
                    (None, _) if !value.is_null() => {
                        written.insert(name.clone(), value.clone());
                    }
                    (Some(_) | None, _) => {}
                }
            }
        }
        (Value::Array(written), Value::Array(template)) => {
            for (written, template) in written.iter_mut().zip(template) {
                carry(written, template, &schema["items"]);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"a": "b"}, "creationTimestamp": null},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [
                        {"name": "web", "image": "example.com/web:1"},
                        {"name": "log", "image": "example.com/log:1"},
                    ]},
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [{"name": "data", "disk": {"template": {"spec": {"type": "pd-standard"}}}}],
            },
        })
    }

    #[test]
    fn fields_that_this_version_does_not_know_are_carried_in_their_places() {
        let mut newer = template();
        newer["spec"]["runtime"]["class"] = json!("kata");
        newer["spec"]["runtime"]["sandbox"]["containers"][1]["securityContext"] = json!({"runAsUser": 1});
        newer["spec"]["networkInterfaces"][0]["addresses"] = json!([{"family": "IPv6"}]);
        newer["spec"]["volumes"][0]["reclaimPolicy"] = json!("Retain");
        newer["spec"]["sysctls"] = json!([{"name": "a", "value": "1"}]);
        let written = written_template(&newer).unwrap();
        for path in [
            "/spec/runtime/class",
            "/spec/runtime/sandbox/containers/1/securityContext",
            "/spec/networkInterfaces/0/addresses",
            "/spec/volumes/0/reclaimPolicy",
            "/spec/sysctls",
        ] {
            assert_eq!(written.pointer(path), newer.pointer(path), "{path}");
            assert!(written.pointer(path).is_some(), "{path}");
        }
        assert_eq!(
            written["spec"]["runtime"]["sandbox"]["containers"][0].get("securityContext"),
            None
        );
    }

    #[test]
    fn a_template_without_unknown_fields_is_written_as_its_types_are() {
        let mut defaulted = template();
        defaulted["spec"]["unset"] = Value::Null;
        let typed: InstanceTemplate = serde_json::from_value(template()).unwrap();
        let typed = serde_json::to_value(typed).unwrap();
        assert_eq!(written_template(&defaulted).unwrap(), typed);
        assert!(written_template(&json!({"spec": 1})).is_err());
    }

    #[test]
    fn the_schema_of_a_template_is_found() {
        assert!(SPEC["properties"]["runtime"].is_object());
    }
}
