//! Scenarios, as `scenarios/*.yaml` has them.

use serde_json::{Value, json};
use std::{fs, path::Path};

/// Requests in a namespace of their own.
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// One request, or what is done between requests.
pub(crate) struct Step(pub(crate) Value);

impl Scenario {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/scenarios");
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        let read = |file: &std::path::PathBuf| -> Vec<Value> {
            let text = fs::read_to_string(file).unwrap();
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        files
            .iter()
            .flat_map(read)
            .map(|scenario| Self::read(&scenario))
            .collect()
    }

    fn read(scenario: &Value) -> Self {
        Self {
            name: scenario["name"].as_str().unwrap().to_owned(),
            steps: scenario["steps"]
                .as_array()
                .unwrap()
                .iter()
                .cloned()
                .map(Step)
                .collect(),
        }
    }
}

/// The ways to send a body, by their key in a step.
const BODIES: [(&str, &str); 4] = [
    ("merge", "application/merge-patch+json"),
    ("json", "application/json-patch+json"),
    ("apply", "application/apply-patch+yaml"),
    ("body", "application/json"),
];

impl Step {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    pub(crate) fn words(&self) -> String {
        self.0.to_string()
    }

    /// Content type and body.
    pub(crate) fn body(&self) -> (String, Value) {
        let found = BODIES.iter().find(|(key, _)| self.0.get(key).is_some());
        let Some((key, kind)) = found else {
            return (String::new(), Value::Null);
        };
        let kind = self.0["type"].as_str().unwrap_or(kind);
        let mut body = self.0[*key].clone();
        if let Some(kind) = body["kind"].as_str().filter(|_| body.get("apiVersion").is_none()) {
            body["apiVersion"] = json!(api_version(kind));
        }
        (kind.to_owned(), body)
    }
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Gadget" => "conformance.fedgate.dev/v1",
        "Lease" => "coordination.k8s.io/v1",
        "Event" => "events.k8s.io/v1",
        _ => "v1",
    }
}

/// The path of a kind in a namespace, from its short form: `gadgets/a?x=y`.
pub(crate) fn path(short: &str, namespace: &str) -> String {
    if short.starts_with('/') {
        return short.to_owned();
    }
    let (prefix, rest) = match short.split(['/', '?']).next().unwrap_or_default() {
        "gadgets" => ("/apis/conformance.fedgate.dev/v1", short.to_owned()),
        "leases" => ("/apis/coordination.k8s.io/v1", short.to_owned()),
        "events.k8s.io" => (
            "/apis/events.k8s.io/v1",
            short.replacen("events.k8s.io", "events", 1),
        ),
        _ => ("/api/v1", short.to_owned()),
    };
    format!("{prefix}/namespaces/{namespace}/{rest}")
}
