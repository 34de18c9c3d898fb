//! The template hash: decides which template changes replace Instances and which do not (contract: cell.md §2.3).

use super::labels::{self, Labels};
use fedgate_api::names::hex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Prefix that names the hash algorithm. Another algorithm gets another prefix, so that no Instance is replaced because
/// of it.
const VERSION: &str = "v1-";
/// Number of hex digits of the digest in the hash.
const DIGITS: usize = 32;
/// Fields of an Instance's spec that the controller writes.
const CONTROLLERS: [&str; 2] = ["location", "controller"];

/// Hash of a template's labels, annotations and spec. An absent field, an empty field and a field with its default
/// value give the same hash.
pub fn of(template: &Value) -> String {
    let meta = &template["metadata"];
    let parts = [
        ("annotations", canonical(&meta["annotations"], None)),
        ("labels", canonical(&meta["labels"], None)),
        ("spec", canonical_spec(&template["spec"])),
    ];
    let kept = parts
        .into_iter()
        .filter_map(|(key, part)| Some((key.to_owned(), part?)));
    // JSON without white space, keys in code-point order, strings as in RFC 8785. The order is that of serde_json without its
    // feature `preserve_order`.
    let text = Value::Object(kept.collect()).to_string();
    let mut digits = hex(&Sha256::digest(text.as_bytes()));
    digits.truncate(DIGITS);
    format!("{VERSION}{digits}")
}

/// The fields of an Instance that are compared with a template.
#[derive(Debug, Clone, Copy)]
pub struct AppliedTemplate<'a> {
    /// `spec.controller.templateHash`.
    pub hash: Option<&'a str>,
    /// Spec of the Instance as JSON text.
    pub spec: &'a str,
    /// Labels of the Instance.
    pub labels: &'a Labels,
    /// Annotations of the Instance.
    pub annotations: &'a Labels,
}

/// True if an Instance matches the template, which is JSON text. An Instance without a hash of this algorithm, such as one
/// made by a peer, is compared by its content.
pub fn is_current(template: &str, template_hash: &str, made: AppliedTemplate<'_>) -> bool {
    if let Some(hash) = made.hash.filter(|hash| hash.starts_with(VERSION)) {
        return hash == template_hash;
    }
    let read = |text: &str| -> Value { serde_json::from_str(text).unwrap_or_default() };
    let template = read(template);
    let meta = &template["metadata"];
    canonical_spec(&template["spec"]) == canonical_spec(&read(made.spec))
        && has_all(made.labels, &meta["labels"], |key| !labels::is_controllers(key))
        && has_all(made.annotations, &meta["annotations"], |_| true)
}

fn has_all(has: &Labels, wanted: &Value, counts: impl Fn(&str) -> bool) -> bool {
    let mut wanted = wanted.as_object().into_iter().flatten();
    wanted.all(|(key, value)| !counts(key) || has.get(key) == value.as_str())
}

fn canonical_spec(spec: &Value) -> Option<Value> {
    let mut spec = spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|key, _| !CONTROLLERS.contains(&key.as_str()));
    }
    canonical(&spec, Some("spec"))
}

/// The value without empty members; `None` if nothing is left. Elements of lists, and the values of labels and
/// annotations, are never dropped. `field` is the field that has the value or its list; `None` below keys that users choose,
/// where no value has a default.
fn canonical(value: &Value, field: Option<&str>) -> Option<Value> {
    let kept = reduced(value, field);
    (!says_nothing(&kept)).then_some(kept)
}

fn reduced(value: &Value, field: Option<&str>) -> Value {
    match value {
        Value::Object(map) => Value::Object(members(map, field)),
        Value::Array(list) => Value::Array(list.iter().map(|item| reduced(item, field)).collect()),
        scalar => scalar.clone(),
    }
}

fn members(map: &Map<String, Value>, field: Option<&str>) -> Map<String, Value> {
    let Some(field) = field else {
        return map.clone();
    };
    let members = map.iter().filter_map(|(key, value)| {
        let is_free = ["labels", "annotations"].contains(&key.as_str());
        let value = canonical(value, (!is_free).then_some(key.as_str()))?;
        (!is_default(field, key, &value)).then(|| (key.clone(), value))
    });
    members.collect()
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Defaults of the CRDs, which an older or newer API server may or may not have filled in.
fn is_default(field: &str, key: &str, value: &Value) -> bool {
    match (field, key) {
        ("ports", "protocol") => value == "TCP",
        ("configMap" | "secret", "defaultMode") => value == 420,
        // Type of a disk; no other spec has a field `type`.
        ("spec", "type") => value == "pd-standard",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn storefront() -> Value {
        json!({
            "metadata": {"labels": {"app": "storefront"}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{
                        "name": "web", "image": "shop/web:1.4.2", "args": ["--listen", ":8080", ""],
                        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "EMPTY", "value": ""}],
                        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                        "volumeAttachments": [{"name": "settings", "mountPath": "/etc/web"}],
                    }]},
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [{"name": "settings", "configMap": {"name": "web-settings", "defaultMode": 420}}],
            },
        })
    }

    fn bastion() -> Value {
        json!({
            "metadata": {"annotations": {"compute.datumapis.com/ssh-keys": "ops:ssh-ed25519 AAAA ops@example"}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "virtualMachine": {"volumeAttachments": [{"name": "boot"}], "ports": [{"name": "ssh", "port": 22}]},
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [{"name": "boot", "disk": {"template": {"spec": {
                    "type": "pd-standard", "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}}}}}}],
            },
        })
    }

    /// Instances store these hashes: the hash of an unchanged template must never change.
    #[test]
    fn hashes_of_three_templates_are_what_they_have_always_been() {
        let hashes = [of(&storefront()), of(&bastion()), of(&json!({"spec": {}}))];
        assert_eq!(
            hashes,
            [
                "v1-912827eabf5c93720d1b1b8bda3f3117",
                "v1-b9bb17a8f24c55532cd8fd6616b92e7a",
                "v1-44136fa355b3678a1146ad16f7e8649e"
            ]
        );
    }

    #[test]
    fn canonical_json_drops_what_says_nothing_and_nothing_else() {
        let spec = json!({
            "b": null, "a": "", "c": false, "d": [], "e": {"f": {}}, "z": [null, "", false, {"x": null}], "n": 0, "t": true,
            "ä": "\u{1}\n\"\\é\u{7f}",
        });
        let text = canonical_spec(&spec).unwrap().to_string();
        assert_eq!(
            text,
            "{\"n\":0,\"t\":true,\"z\":[null,\"\",false,{}],\"ä\":\"\\u0001\\n\\\"\\\\é\u{7f}\"}"
        );
    }

    #[test]
    fn defaults_and_what_the_controller_writes_change_nothing() {
        let mut other = storefront();
        other["metadata"]["name"] = json!("ignored");
        other["metadata"]["finalizers"] = json!(["ignored"]);
        other["metadata"]["annotations"] = json!({});
        let spec = &mut other["spec"];
        spec["location"] = json!({"name": "us-south-1"});
        spec["controller"] = json!({"templateHash": "x"});
        spec["runtime"]["sandbox"]["imagePullSecrets"] = json!([]);
        spec["volumes"][0]["configMap"]
            .as_object_mut()
            .unwrap()
            .remove("defaultMode");
        spec["volumes"][0]["configMap"]["optional"] = json!(false);
        let container = &mut spec["runtime"]["sandbox"]["containers"][0];
        container["ports"][0].as_object_mut().unwrap().remove("protocol");
        container["command"] = Value::Null;
        assert_eq!(of(&other), of(&storefront()));
        let mut disk = bastion();
        disk["spec"]["volumes"][0]["disk"]["template"]["spec"]
            .as_object_mut()
            .unwrap()
            .remove("type");
        assert_eq!(of(&disk), of(&bastion()));
    }

    #[test]
    fn every_change_of_labels_annotations_or_spec_changes_it() {
        let changes: &[(&str, Value)] = &[
            ("/metadata/labels/app", json!("")),
            (
                "/spec/runtime/sandbox/containers/0/image",
                json!("shop/web:1.4.3"),
            ),
            ("/spec/runtime/sandbox/containers/0/args/2", json!("--debug")),
            (
                "/spec/runtime/sandbox/containers/0/ports/0/protocol",
                json!("UDP"),
            ),
            ("/spec/runtime/sandbox/containers/0/env/0/value", json!("TCP")),
            ("/spec/volumes/0/configMap/defaultMode", json!(256)),
        ];
        let mut seen = vec![of(&storefront())];
        for (path, value) in changes {
            let mut other = storefront();
            *other.pointer_mut(path).unwrap() = value.clone();
            seen.push(of(&other));
        }
        let mut annotated = storefront();
        annotated["metadata"]["annotations"] =
            json!({"compute.datumapis.com/restartedAt": "2026-05-04T10:00:00Z"});
        seen.push(of(&annotated));
        // A key that users choose has no default, whatever its name.
        for labels in [
            json!({"app": "storefront", "protocol": "TCP"}),
            json!({"app": "storefront", "empty": ""}),
        ] {
            let mut labelled = storefront();
            labelled["metadata"]["labels"] = labels;
            seen.push(of(&labelled));
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn an_instance_of_a_peer_is_compared_by_its_content() {
        let template = storefront();
        let (text, hash) = (template.to_string(), of(&template));
        let mut spec = template["spec"].clone();
        spec["location"] = json!({"name": "us-south-1"});
        spec["controller"] = json!({"templateHash": "6b86b273ff34"});
        let labels = Labels::from_iter([
            ("app".to_owned(), "storefront".to_owned()),
            ("compute.datumapis.com/instance-index".to_owned(), "0".to_owned()),
        ]);
        let annotations = Labels::default();
        let written = spec.to_string();
        let made = AppliedTemplate {
            hash: Some("6b86b273ff34"),
            spec: &written,
            labels: &labels,
            annotations: &annotations,
        };
        let is_current = |made| is_current(&text, &hash, made);
        assert!(is_current(made));
        assert!(is_current(AppliedTemplate { hash: None, ..made }));
        let ours = AppliedTemplate {
            hash: Some(&hash),
            spec: "{}",
            ..made
        };
        assert!(is_current(ours));
        let former = AppliedTemplate {
            hash: Some("v1-0"),
            ..made
        };
        assert!(!is_current(former));
        let unlabelled = AppliedTemplate {
            labels: &annotations,
            ..made
        };
        assert!(!is_current(unlabelled));
        spec["runtime"]["sandbox"]["containers"][0]["image"] = json!("shop/web:1.4.1");
        let other = spec.to_string();
        assert!(!is_current(AppliedTemplate { spec: &other, ..made }));
    }
}
