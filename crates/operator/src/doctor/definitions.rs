//! The kinds of a plane, and whether their definitions are those of this executable.

use super::{Check, Finding, PreflightError, Role, Subject, preflight};
use fedgate_engine::plane::client::PlaneClient;
use fedgate_kinds::FederatedKind;
use kube::core::ApiResource;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// Keys of a schema that are compared, beside its fields.
const COMPARED: [&str; 10] = [
    "type",
    "required",
    "enum",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "maxLength",
    "pattern",
];

/// Checks that our kinds are served.
pub(super) async fn kinds(subject: &Subject, kinds: &[FederatedKind]) -> Finding {
    let ours = kinds.iter().flat_map(|kind| {
        let written = kind.write_back.as_ref().map(|w| &w.resource);
        std::iter::once(&kind.resource).chain(written)
    });
    let workload = ApiResource::erase::<fedgate_api::Workload>(&());
    let wanted = ours.chain((subject.role == Role::Project).then_some(&workload));
    match preflight::missing(&subject.client, wanted).await {
        Ok(None) => subject.ok(Check::Kinds, "our kinds are served"),
        Ok(Some(resource)) => subject.error(Check::Kinds, &PreflightError::NoDefinition(resource)),
        Err(error) => subject.error(Check::Kinds, &error),
    }
}

/// Compares the schemas that the plane serves with those of this executable.
pub(super) async fn schemas(subject: &Subject, crds: &[Value]) -> Finding {
    let check = Check::Definitions;
    let path = format!("/openapi/v3/apis/{}", fedgate_api::API_VERSION);
    let document: Value = match get(&subject.client, &path).await {
        Ok(document) => document,
        Err(error) => {
            let next = "compare manifests/crds with kubectl diff";
            let text = format!("the schemas cannot be read: {}", error.text());
            return subject.open(check, text, next);
        }
    };
    for crd in crds {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let Some(served) = schema_of(&document, kind) else {
            continue;
        };
        let ours = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for root in ["spec", "status"] {
            let (ours, served) = (&ours["properties"][root], &served["properties"][root]);
            if let Some((field, side)) = difference(root, ours, served) {
                return differs(subject, kind, &field, side);
            }
        }
    }
    subject.ok(check, "the definitions are those of this executable")
}

/// A field that differs: the plane lacks it, the executable does, or neither. The plane's definition is then the older, the newer,
/// or another one.
fn differs(subject: &Subject, kind: &str, field: &str, side: Ordering) -> Finding {
    let apply = "apply manifests/crds to this plane";
    let (text, next) = match side {
        Ordering::Less => (
            format!("{kind} is older than this executable: it has no {field}"),
            apply,
        ),
        Ordering::Greater => (
            format!("{kind} is newer than this executable, which does not know {field}"),
            "use the executable of the version that was applied",
        ),
        Ordering::Equal => (
            format!("{kind} is of another version than this executable: {field} differs"),
            apply,
        ),
    };
    subject.open(Check::Definitions, text, next)
}

/// Compares columns and short names of the hub's definitions, which an administrator may read.
pub(super) async fn columns(subject: &Subject, crds: &[Value]) -> Finding {
    let check = Check::Definitions;
    let shown = |crd: &Value| {
        let names = &crd["spec"]["names"];
        let columns = &crd["spec"]["versions"][0]["additionalPrinterColumns"];
        json!([names["shortNames"], names["categories"], columns])
    };
    for crd in crds {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        match get(&subject.client, &path).await {
            Ok(served) if shown(&served) == shown(crd) => {}
            Ok(_) => {
                let text = format!("columns or short names of {name} are of another version");
                return subject.open(check, text, "apply manifests/crds to this plane");
            }
            Err(error) => {
                let text = format!("columns cannot be read: {}", error.text());
                let next = "give a credential that may get customresourcedefinitions";
                return subject.open(check, text, next);
            }
        }
    }
    subject.ok(check, "columns and short names are those of this executable")
}

/// An answer as JSON.
pub(super) async fn get(client: &PlaneClient, path: &str) -> Result<Value, PreflightError> {
    ask(client, path, ("get", path)).await
}

/// An answer as JSON; an error calls the request by this verb and resource.
pub(super) async fn ask(
    client: &PlaneClient,
    path: &str,
    (verb, resource): (&'static str, &str),
) -> Result<Value, PreflightError> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| PreflightError::Unreachable(error.to_string()))?;
    let answer = client.client().request(request).await;
    answer.map_err(|error| PreflightError::of(&error, verb, resource))
}

fn schema_of<'a>(document: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut all = document["components"]["schemas"].as_object()?.values();
    all.find(|schema| {
        let names = schema["x-kubernetes-group-version-kind"].as_array();
        names
            .into_iter()
            .flatten()
            .any(|of| of["kind"] == kind && of["group"] == fedgate_api::GROUP)
    })
}

/// The first field below this one that differs, and the side of the plane's definition.
fn difference(path: &str, ours: &Value, served: &Value) -> Option<(String, Ordering)> {
    match (ours.is_object(), served.is_object()) {
        (false, false) => return None,
        (true, false) => return Some((path.to_owned(), Ordering::Less)),
        (false, true) => return Some((path.to_owned(), Ordering::Greater)),
        (true, true) => {}
    }
    let none = Map::new();
    let [wanted, found] = [ours, served].map(|schema| schema["properties"].as_object().unwrap_or(&none));
    let missing = Value::Null;
    let both = wanted
        .iter()
        .map(|(name, schema)| (name, schema, found.get(name)));
    let mut both = both.chain(
        found
            .iter()
            .filter(|(name, _)| !wanted.contains_key(*name))
            .map(|(name, schema)| (name, &missing, Some(schema))),
    );
    let below = both.find_map(|(name, ours, served)| {
        difference(&format!("{path}.{name}"), ours, served.unwrap_or(&missing))
    });
    if below.is_some() {
        return below;
    }
    // An API server spells a number or text in its own way.
    let free = ours["x-kubernetes-int-or-string"] == true;
    let rules = |schema: &Value| schema["x-kubernetes-validations"].as_array().map_or(0, Vec::len);
    let differs = |key: &&str| normal(&ours[*key]) != normal(&served[*key]);
    if !free && COMPARED.iter().any(differs) || rules(ours) != rules(served) {
        return Some((path.to_owned(), Ordering::Equal));
    }
    [("items", "[]"), ("additionalProperties", "{}")]
        .into_iter()
        .find_map(|(key, mark)| difference(&format!("{path}{mark}"), &ours[key], &served[key]))
}

/// A value without order and without the fraction that JSON may write behind a number.
fn normal(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items = items.clone();
            items.sort_by_key(ToString::to_string);
            Value::Array(items)
        }
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_that_differs_is_named_with_its_direction() {
        let crd = fedgate_api::crd::workload().unwrap();
        let ours = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
        assert_eq!(difference("spec", &ours, &ours), None);
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut served = ours.clone();
            change(&mut served["properties"]["placements"]["items"]);
            difference("spec", &ours, &served)
        };
        let at = "spec.placements[]";
        let remove = |placement: &mut Value| {
            placement["properties"].as_object_mut().unwrap().remove("name");
        };
        assert_eq!(changed(&remove), Some((format!("{at}.name"), Ordering::Less)));
        let add = |placement: &mut Value| placement["properties"]["zone"] = json!({"type": "string"});
        assert_eq!(changed(&add), Some((format!("{at}.zone"), Ordering::Greater)));
        let bound = |placement: &mut Value| placement["properties"]["cityCodes"]["maxItems"] = json!(65);
        let other = Some((format!("{at}.cityCodes"), Ordering::Equal));
        assert_eq!(changed(&bound), other);
        let same = |placement: &mut Value| placement["properties"]["cityCodes"]["maxItems"] = json!(64.0);
        assert_eq!(changed(&same), None);
    }
}
