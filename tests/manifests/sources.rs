//! Names in the YAML sources of policies are those of the code.

use super::further;
use fedgate_api::{GROUP, VERSION, names::CLAIM_PREFIX};
use fedgate_manifests::{QUOTA, QUOTA_USER_PREFIX};
use regex::Regex;
use serde_json::Value;

/// Source file with the names of labels and annotations.
const KEYS: &str = include_str!("../../crates/api/src/keys.rs");

/// The texts of all admission policies.
fn texts() -> Vec<String> {
    fn collect(value: &Value, texts: &mut Vec<String>) {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
            Value::Object(fields) => fields.values().for_each(|value| collect(value, texts)),
            _ => {}
        }
    }
    let kinds = further(&[
        "clusters.azimuth.stackhpc.com",
        "clustertemplates.azimuth.stackhpc.com",
        "clusters.postgresql.cnpg.io",
    ]);
    let files = fedgate_manifests::all(&kinds).unwrap();
    let objects = files.iter().flat_map(|file| &file.objects);
    let mut texts = Vec::new();
    for policy in objects.filter(|object| object["kind"] == "ValidatingAdmissionPolicy") {
        collect(policy, &mut texts);
    }
    texts
}

#[test]
fn each_label_and_annotation_of_a_policy_is_one_of_the_code() {
    let quoted = Regex::new(r"'([a-z.]+/[a-z-]+)'").unwrap();
    let mut found = 0;
    for text in texts() {
        for name in quoted.captures_iter(&text).map(|found| found[1].to_owned()) {
            let is_known = KEYS.contains(&format!("\"{name}\""));
            assert!(is_known, "{name} is not in crates/api/src/keys.rs: {text}");
            found += 1;
        }
    }
    assert!(found > 60, "{found} names were found");
}

/// A policy takes the name of a cell from behind the prefix of its user's name.
#[test]
fn what_follows_a_prefix_begins_at_its_length() {
    let prefix =
        Regex::new(r"startsWith\('([^']+)'\) \? request\.userInfo\.username\.substring\((\d+)\)").unwrap();
    let mut found = Vec::new();
    for text in texts() {
        for captured in prefix.captures_iter(&text) {
            assert_eq!(captured[1].len().to_string(), captured[2], "{text}");
            found.push(captured[1].to_owned());
        }
    }
    for wanted in [
        fedgate_manifests::CELL_USER_PREFIX,
        fedgate_manifests::CELL_ACCOUNT_PREFIX,
        QUOTA_USER_PREFIX,
    ] {
        assert!(found.iter().any(|found| found == wanted), "{wanted}: {found:?}");
    }
}

#[test]
fn policies_have_the_groups_and_names_of_the_code() {
    let texts = texts();
    for wanted in [
        format!("'{QUOTA}' in request.userInfo.groups"),
        format!("object.metadata.name.startsWith('{CLAIM_PREFIX}')"),
        format!("r.resourceType.startsWith('{GROUP}/')"),
        format!("'{GROUP}/{VERSION}/WorkloadDeployment/' + variables.deployment"),
    ] {
        assert!(texts.iter().any(|text| text.contains(&wanted)), "{wanted}");
    }
}
