//! Fields of a Workload that the server does not know: it refuses a strict write, and drops them in any other.

use super::meant;
use crate::error::Error;
use serde_json::{Map, Value};

/// The definition of Workloads, for the names of their fields.
const DEFINITION: &str = include_str!("../../../../manifests/crds/workloads.compute.datumapis.com.yaml");

/// The error that names them, each with the field that was probably meant.
pub(super) fn refusal(paths: &[String]) -> Error {
    let definition: Value = serde_saphyr::from_str(DEFINITION).unwrap_or_default();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let lines = paths
        .iter()
        .map(|path| format!("\n  {path}{}", near(schema, path).unwrap_or_default()));
    let what = format!(
        "the workload has fields that the server does not know:{}",
        lines.collect::<String>()
    );
    Error::usage(what).next("kubectl explain workloads.spec --recursive")
}

/// The paths in the message of a server that refused a strict write.
pub(super) fn in_message(message: &str) -> Vec<String> {
    let rest = message.split("unknown field \"").skip(1);
    rest.filter_map(|rest| rest.split('"').next().map(str::to_owned))
        .collect()
}

/// The paths of fields that `stored` lacks, for servers that know no strict writes.
pub(super) fn dropped(wanted: &Value, stored: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    compare("spec", &wanted["spec"], &stored["spec"], &mut paths);
    paths
}

fn compare(path: &str, wanted: &Value, stored: &Value, paths: &mut Vec<String>) {
    match (wanted, stored) {
        (Value::Object(wanted), Value::Object(stored)) => {
            for (name, value) in wanted.iter().filter(|(_, value)| !is_empty(value)) {
                let path = format!("{path}.{name}");
                match stored.get(name) {
                    Some(stored) => compare(&path, value, stored, paths),
                    None => paths.push(path),
                }
            }
        }
        (Value::Array(wanted), Value::Array(stored)) if wanted.len() == stored.len() => {
            for (at, (wanted, stored)) in wanted.iter().zip(stored).enumerate() {
                compare(&format!("{path}[{at}]"), wanted, stored, paths);
            }
        }
        _ => {}
    }
}

/// True for values that a server may leave out.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// A question for the nearest field of the object that a path leads into.
fn near(schema: &Value, path: &str) -> Option<String> {
    let (parents, field) = path.rsplit_once('.')?;
    let mut node = schema;
    for part in parents.split('.') {
        let mut steps = part.split('[');
        node = &node["properties"][steps.next()?];
        for _ in steps {
            node = &node["items"];
        }
    }
    let known = node["properties"].as_object()?.keys();
    let field = field.split('[').next().unwrap_or(field);
    Some(meant(field, known.map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_a_server_drops_or_refuses_are_named_with_those_that_were_meant() {
        let message = "Workload in version \"v1alpha\" cannot be handled as a Workload: strict decoding error: unknown field \
                       \"spec.placements[0].scaleSettings.minReplica\", unknown field \"spec.tmplate\"";
        let refused = in_message(message);
        assert_eq!(
            refusal(&refused).what,
            "the workload has fields that the server does not know:\n  \
             spec.placements[0].scaleSettings.minReplica; did you mean \"minReplicas\"?\n  \
             spec.tmplate; did you mean \"template\"?"
        );
        let wanted =
            json!({"spec": {"placements": [{"name": "us", "cityCods": ["DFW"], "none": null}], "extra": 1}});
        let stored = json!({"spec": {"placements": [{"name": "us", "scaleSettings": {}}]}});
        let dropped = dropped(&wanted, &stored);
        assert_eq!(dropped, ["spec.extra", "spec.placements[0].cityCods"]);
        assert!(
            refusal(&dropped)
                .what
                .ends_with("cityCods; did you mean \"cityCodes\"?")
        );
        assert!(in_message("anything else").is_empty());
    }
}
