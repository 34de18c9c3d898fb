//! Argo CD's health scripts under `examples/argocd`: the cases beside them, in Argo CD's own format, and every reason.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

use fedgate_api::Reason;
use fedgate_kinds::lua::Host;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const KINDS: [&str; 3] = ["Workload", "WorkloadDeployment", "Instance"];

/// Argo CD's `health_test.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    health_status: Value,
    input_path: PathBuf,
}

fn folder(kind: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/argocd");
    examples.join("compute.datumapis.com").join(kind)
}

/// The health of an object: the script's result with `obj` as its global, as in Argo CD, which loads no `string`.
fn health(kind: &str, object: &Value) -> Value {
    let script = fs::read_to_string(folder(kind).join("health.lua")).unwrap();
    let entry = format!("function Health(obj)\nlocal string = nil\n{script}\nend");
    let result = Host::new().call(&entry, "Health", std::slice::from_ref(object));
    result.unwrap_or_else(|error| panic!("{kind}: {error}"))
}

#[test]
fn every_case_beside_a_script_holds_and_each_word_has_one() {
    for kind in KINDS {
        let text = fs::read_to_string(folder(kind).join("health_test.yaml")).unwrap();
        let cases: Cases = serde_saphyr::from_str(&text).unwrap();
        let mut words = BTreeSet::new();
        for case in cases.tests {
            let file = folder(kind).join(&case.input_path);
            let object: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
            assert_eq!(object["kind"], kind);
            let found = health(kind, &object);
            assert_eq!(found, case.health_status, "{kind} {}", case.input_path.display());
            words.insert(found["status"].as_str().unwrap().to_owned());
        }
        let all = ["Degraded", "Healthy", "Progressing", "Suspended"].map(str::to_owned);
        assert_eq!(words, BTreeSet::from(all), "{kind}");
    }
}

#[test]
fn the_scripts_have_the_reasons_of_priority_5_and_more() {
    for (kind, type_) in [
        ("Workload", "Ready"),
        ("WorkloadDeployment", "Federated"),
        ("WorkloadDeployment", "Available"),
        ("Instance", "Ready"),
    ] {
        for (reason, priority) in Reason::ALL.iter().filter_map(|r| Some((r, r.priority()?))) {
            let condition = json!({"type": type_, "status": "False", "reason": reason.as_str(), "message": "why",
                "lastTransitionTime": "2026-05-04T10:00:00Z"});
            let object = json!({"kind": kind, "metadata": {"name": "a", "generation": 1},
                "status": {"observedGeneration": 1, "conditions": [condition]}});
            let word = match priority {
                9 => "Suspended",
                5.. => "Degraded",
                _ => "Progressing",
            };
            let wanted = json!({"status": word, "message": format!("{reason}: why")});
            assert_eq!(health(kind, &object), wanted, "{kind} {type_}");
        }
    }
}
