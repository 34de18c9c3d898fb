//! Kinds: their names, versions and schemas.

use crate::schema::Schema;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// A kind that a plane serves. Parsed once, it serves any number of planes.
#[derive(Debug)]
pub struct Definition {
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) plural: Arc<str>,
    pub(crate) namespaced: bool,
    /// It was defined by a `CustomResourceDefinition`: objects have a generation.
    pub(crate) custom: bool,
    pub(crate) versions: Vec<Version>,
}

/// One version of a kind.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    /// `v1` or `group/v1`.
    pub(crate) full_name: String,
    /// Whether `status` has an endpoint of its own.
    pub(crate) status: bool,
    /// Objects are kept in this version.
    storage: bool,
    pub(crate) schema: Schema,
}

impl Definition {
    /// Reads a `CustomResourceDefinition` of `apiextensions.k8s.io/v1`.
    pub fn parse(crd: &Value) -> Self {
        let spec = &crd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = text(&spec["group"]);
        let served = spec["versions"].as_array().into_iter().flatten();
        let versions = served
            .filter(|version| version["served"] != false)
            .map(|version| {
                let name = text(&version["name"]);
                Version {
                    full_name: api_version(&group, &name),
                    name,
                    status: version["subresources"]["status"].is_object(),
                    storage: version["storage"] == true,
                    schema: Schema::whole(&version["schema"]["openAPIV3Schema"]),
                }
            });
        Self {
            kind: text(&spec["names"]["kind"]).into(),
            plural: text(&spec["names"]["plural"]).into(),
            namespaced: spec["scope"] == "Namespaced",
            custom: true,
            versions: versions.collect(),
            group: group.into(),
        }
    }

    /// A custom kind without a schema: every field is kept, maps merge by key and lists are replaced whole.
    pub fn plain(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        namespaced: bool,
        status: bool,
    ) -> Self {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": open, "status": open},
            "x-kubernetes-preserve-unknown-fields": true});
        Self {
            custom: true,
            ..Self::new(group, version, kind, plural, namespaced, status, &schema)
        }
    }

    /// A kind with one version. `schema` is in the language of a `CustomResourceDefinition`.
    fn new(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        namespaced: bool,
        status: bool,
        schema: &Value,
    ) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced,
            custom: false,
            versions: vec![Version {
                name: version.to_owned(),
                full_name: api_version(group, version),
                status,
                storage: true,
                schema: Schema::whole(schema),
            }],
        }
    }

    /// Whether a caller's word means this kind: its name or its plural, with the group behind it or without.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        let (name, group) = word
            .split_once('.')
            .map_or((word, None), |(name, group)| (name, Some(group)));
        (name == &*self.kind || name == &*self.plural) && group.is_none_or(|group| group == &*self.group)
    }

    /// The version in which objects are kept, if there is any version.
    pub(crate) fn storage(&self) -> Option<&Version> {
        self.versions
            .iter()
            .find(|version| version.storage)
            .or(self.versions.first())
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// The kinds that every plane has.
pub(crate) fn builtin() -> &'static [Arc<Definition>] {
    static KINDS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(|| {
        vec![
            namespace(),
            config_map(),
            secret(),
            lease(),
            core_event(),
            event(),
        ]
        .into_iter()
        .map(Arc::new)
        .collect()
    });
    &KINDS
}

fn scalars(names: &[&str]) -> Value {
    let fields = names
        .iter()
        .map(|name| ((*name).to_owned(), json!({"type": "string"})));
    Value::Object(fields.collect())
}

fn object(names: &[&str]) -> Value {
    json!({"type": "object", "properties": scalars(names)})
}

fn namespace() -> Definition {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "finalizers": {"type": "array", "items": {"type": "string"}},
        }},
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"},
            "conditions": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": object(&["type", "status", "reason", "message", "lastTransitionTime"]),
            },
        }},
    }});
    Definition::new("", "v1", "Namespace", "namespaces", false, true, &schema)
}

fn config_map() -> Definition {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "data": texts, "binaryData": texts, "immutable": {"type": "boolean"},
    }});
    Definition::new("", "v1", "ConfigMap", "configmaps", true, false, &schema)
}

fn secret() -> Definition {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "data": texts, "stringData": texts, "immutable": {"type": "boolean"},
        "type": {"type": "string", "default": "Opaque"},
    }});
    Definition::new("", "v1", "Secret", "secrets", true, false, &schema)
}

fn lease() -> Definition {
    let schema = json!({"type": "object", "properties": {"spec": object(&[
        "acquireTime", "holderIdentity", "leaseDurationSeconds", "leaseTransitions", "preferredHolder",
        "renewTime", "strategy",
    ])}});
    Definition::new(
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        true,
        false,
        &schema,
    )
}

/// A reference to an object, owned whole.
fn reference() -> Value {
    let mut reference = object(&[
        "apiVersion",
        "fieldPath",
        "kind",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ]);
    reference["x-kubernetes-map-type"] = json!("atomic");
    reference
}

fn core_event() -> Definition {
    let mut fields = scalars(&[
        "action",
        "count",
        "eventTime",
        "firstTimestamp",
        "lastTimestamp",
        "message",
        "reason",
        "reportingComponent",
        "reportingInstance",
        "type",
    ]);
    fields["involvedObject"] = reference();
    fields["related"] = reference();
    fields["series"] = object(&["count", "lastObservedTime"]);
    fields["source"] = object(&["component", "host"]);
    let schema = json!({"type": "object", "properties": fields});
    Definition::new("", "v1", "Event", "events", true, false, &schema)
}

fn event() -> Definition {
    let mut fields = scalars(&[
        "action",
        "deprecatedCount",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "note",
        "reason",
        "reportingController",
        "reportingInstance",
        "type",
    ]);
    fields["regarding"] = reference();
    fields["related"] = reference();
    fields["series"] = object(&["count", "lastObservedTime"]);
    fields["deprecatedSource"] = object(&["component", "host"]);
    let schema = json!({"type": "object", "properties": fields});
    Definition::new("events.k8s.io", "v1", "Event", "events", true, false, &schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_read() {
        let crd = json!({"spec": {
            "group": "g.dev", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [
                {"name": "v1", "served": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {}}},
                {"name": "v0", "served": false},
            ],
        }});
        let read = Definition::parse(&crd);
        assert!(read.namespaced && read.version("v1").unwrap().status);
        assert_eq!(read.version("v1").unwrap().full_name, "g.dev/v1");
        assert!(read.version("v0").is_none());
        for word in ["Gadget", "gadgets", "gadgets.g.dev", "Gadget.g.dev"] {
            assert!(read.is_called(word), "{word}");
        }
        assert!(!read.is_called("gadgets.other"));
    }
}
