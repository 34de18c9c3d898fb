//! The strict bounds of the Workload's spec, by path (contract: api.md §6).
//!
//! The API server estimates each CEL rule's cost from these bounds and refuses a definition beyond its budget: raising
//! a bound can make the definition invalid.

use super::schema::{self, SchemaError};
use serde_json::{Value, json};

/// A DNS-1123 label; with the length it is one of at most 63 characters.
const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A label value that is not empty.
const LABEL_VALUE: &str = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
const C_IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// A relative path without `..`.
const RELATIVE_PATH: &str =
    r"^([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+|\.)(/([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+|\.)?)*$";

/// One restriction of one place.
enum Bound {
    /// At most so many items.
    Items(u32),
    /// Items are unique scalars.
    Set,
    /// At most so many keys.
    Keys(u32),
    /// From so many to so many characters.
    Length(u32, u32),
    /// From this number to that.
    Range(i64, i64),
    /// Matches this expression.
    Pattern(&'static str),
    /// Has this format of the API server's.
    Format(&'static str),
    /// Is one of these.
    OneOf(&'static [&'static str]),
}
use Bound::{Format, Items, Keys, Length, OneOf, Pattern, Range, Set};

/// A name that is a DNS label.
const NAME: &[Bound] = &[Length(1, 63), Pattern(DNS_LABEL)];
/// A name of a ConfigMap or Secret.
const OBJECT_NAME: &[Bound] = &[Length(0, 253)];
const QUANTITY: &[Bound] = &[Length(0, 32)];
const MODE: &[Bound] = &[Range(0, 511)];
const CIDR: &[Bound] = &[Format("cidr")];

/// Bounds of several fields under one or more places.
struct Group {
    under: &'static [&'static str],
    fields: &'static [(&'static str, &'static [Bound])],
}

const TABLE: &[Group] = &[
    Group {
        under: &["spec.placements"],
        fields: &[
            ("", &[Items(32)]),
            ("[].name", NAME),
            ("[].cityCodes", &[Items(64), Set]),
            ("[].cityCodes[]", &[Length(1, 63), Pattern(LABEL_VALUE)]),
            ("[].locations", &[Items(64)]),
            ("[].locations[].name", &[Length(1, 63), Pattern(LABEL_VALUE)]),
        ],
    },
    Group {
        under: &["spec.placements[].locationSelector"],
        fields: &[
            (".matchLabels", &[Keys(16)]),
            (".matchLabels{}", &[Length(0, 63)]),
            (".matchExpressions", &[Items(16)]),
            (".matchExpressions[].key", &[Length(1, 317)]),
            (
                ".matchExpressions[].operator",
                &[OneOf(&["In", "NotIn", "Exists", "DoesNotExist"])],
            ),
            (".matchExpressions[].values", &[Items(64)]),
            (".matchExpressions[].values[]", &[Length(0, 63)]),
        ],
    },
    Group {
        under: &["spec.placements[].scaleSettings"],
        fields: &[
            (".minReplicas", &[Range(1, 1000)]),
            (
                ".instanceManagementPolicy",
                &[OneOf(&["OrderedReady", "Parallel"])],
            ),
            (".metrics", &[Items(8)]),
            (".metrics[].resource.name", &[OneOf(&["cpu"])]),
            (".metrics[].resource.target.value", QUANTITY),
            (".metrics[].resource.target.averageValue", QUANTITY),
        ],
    },
    Group {
        under: &["spec.template.metadata"],
        fields: &[
            (".labels", &[Keys(32)]),
            (".labels{}", &[Length(0, 63)]),
            (".annotations", &[Keys(64)]),
        ],
    },
    Group {
        under: &["spec.template.spec.networkInterfaces"],
        fields: &[
            ("", &[Items(8)]),
            ("[].network.name", NAME),
            ("[].network.namespace", NAME),
            ("[].networkPolicy.ingress", &[Items(32)]),
            ("[].networkPolicy.ingress[].ports", &[Items(64)]),
            ("[].networkPolicy.ingress[].from", &[Items(64)]),
            ("[].networkPolicy.ingress[].from[].ipBlock.cidr", CIDR),
            ("[].networkPolicy.ingress[].from[].ipBlock.except", &[Items(64)]),
            ("[].networkPolicy.ingress[].from[].ipBlock.except[]", CIDR),
        ],
    },
    Group {
        under: &["spec.template.spec.runtime.sandbox"],
        fields: &[
            (".containers", &[Items(8)]),
            (".imagePullSecrets", &[Items(8)]),
            (".imagePullSecrets[].name", OBJECT_NAME),
        ],
    },
    Group {
        under: &["spec.template.spec.runtime.sandbox.containers[]"],
        fields: &[
            (".name", NAME),
            (".image", &[Length(1, 1024)]),
            (".env", &[Items(256)]),
            (".env[].valueFrom.configMapKeyRef.name", OBJECT_NAME),
            (".env[].valueFrom.secretKeyRef.name", OBJECT_NAME),
            (".env[].valueFrom.resourceFieldRef.divisor", QUANTITY),
            (".envFrom", &[Items(32)]),
            (".envFrom[].prefix", &[Pattern(C_IDENTIFIER)]),
            (".envFrom[].configMapRef.name", NAME),
            (".envFrom[].secretRef.name", NAME),
        ],
    },
    Group {
        under: &[
            "spec.template.spec.runtime.resources.requests",
            "spec.template.spec.runtime.sandbox.containers[].resources.limits",
            "spec.template.spec.runtime.sandbox.containers[].resources.requests",
            "spec.template.spec.volumes[].disk.template.spec.resources.requests",
        ],
        fields: &[("", &[Keys(16)]), ("{}", QUANTITY)],
    },
    Group {
        under: &[
            "spec.template.spec.runtime.sandbox.containers[].ports",
            "spec.template.spec.runtime.virtualMachine.ports",
        ],
        fields: &[
            ("", &[Items(16)]),
            ("[].name", &[Length(1, 15), Pattern(DNS_LABEL)]),
            ("[].port", &[Range(1, 65535)]),
            ("[].protocol", &[OneOf(&["TCP", "UDP", "SCTP"])]),
        ],
    },
    Group {
        under: &[
            "spec.template.spec.runtime.sandbox.containers[].volumeAttachments",
            "spec.template.spec.runtime.virtualMachine.volumeAttachments",
        ],
        fields: &[
            ("", &[Items(32)]),
            ("[].name", NAME),
            ("[].mountPath", &[Length(1, 512)]),
        ],
    },
    Group {
        under: &["spec.template.spec.volumes"],
        fields: &[
            ("", &[Items(32)]),
            ("[].name", NAME),
            ("[].disk.deviceName", &[Length(0, 63)]),
            ("[].disk.template.spec.type", &[OneOf(&["pd-standard"])]),
            (
                "[].disk.template.spec.populator.filesystem.type",
                &[OneOf(&["ext4"])],
            ),
            ("[].configMap.name", OBJECT_NAME),
            ("[].secret.secretName", OBJECT_NAME),
        ],
    },
    Group {
        under: &[
            "spec.template.spec.volumes[].configMap",
            "spec.template.spec.volumes[].secret",
        ],
        fields: &[
            (".defaultMode", MODE),
            (".items", &[Items(64)]),
            (".items[].mode", MODE),
            (".items[].path", &[Pattern(RELATIVE_PATH)]),
        ],
    },
];

/// Adds the bounds to the schema of Workload.
pub(super) fn apply(schema: &mut Value) -> Result<(), SchemaError> {
    for group in TABLE {
        for (field, bounds) in group.fields {
            for under in group.under {
                let node = schema::at(schema, &format!("{under}{field}"))?;
                for (key, value) in bounds.iter().flat_map(Bound::keywords) {
                    node.insert(key.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

impl Bound {
    /// The keywords that say it in an `OpenAPI` schema.
    fn keywords(&self) -> Vec<(&'static str, Value)> {
        match self {
            Items(max) => vec![("maxItems", json!(max))],
            Set => vec![("x-kubernetes-list-type", json!("set"))],
            Keys(max) => vec![("maxProperties", json!(max))],
            Length(0, max) => vec![("maxLength", json!(max))],
            Length(min, max) => vec![("minLength", json!(min)), ("maxLength", json!(max))],
            Range(min, max) => vec![("minimum", json!(min)), ("maximum", json!(max))],
            Pattern(expression) => vec![("pattern", json!(expression))],
            Format(name) => vec![("format", json!(name))],
            OneOf(values) => vec![("enum", json!(values))],
        }
    }
}
