//! The parts of admission policies that depend on kinds: companions of the gateway on the hub, and policies of single kinds in
//! projects (contract: clusters.md §3.2, §3.4, §8).

use crate::{KindManifests, Manifest, ManifestError, Owner, sources};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Words of CEL that name no field after a dot.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// All policies of the planes, without those of single kinds.
pub(super) fn files(kinds: &[KindManifests]) -> Result<Vec<Manifest>, ManifestError> {
    let mut deletes = with_companions("hub/gateway-deletes.yaml", kinds)?;
    if kinds.iter().any(|kind| !kind.companions.is_empty()) {
        push(&mut deletes.objects[0]["spec"]["validations"], [labelled()]);
    }
    Ok(vec![
        deletes,
        with_companions("hub/gateway-writes.yaml", kinds)?,
        sources::manifest("hub/reassigning.yaml")?,
        sources::manifest("hub/cell-writes.yaml")?,
        sources::manifest("project/cell-claims.yaml")?,
        sources::manifest("project/network-use.yaml")?,
    ])
}

/// A policy of the gateway that matches companions beside `ConfigMap` and Secret, too.
fn with_companions(path: &str, kinds: &[KindManifests]) -> Result<Manifest, ManifestError> {
    let mut policy = sources::manifest(path)?;
    let rules = &mut policy.objects[0]["spec"]["matchConstraints"]["resourceRules"];
    let operations = rules[0]["operations"].clone();
    let companions: BTreeSet<&(String, String)> = kinds.iter().flat_map(|kind| &kind.companions).collect();
    let rule = |(group, plural): &(String, String)| json!({"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": [plural]});
    push(rules, companions.into_iter().map(rule));
    Ok(policy)
}

fn push(list: &mut Value, more: impl IntoIterator<Item = Value>) {
    if let Some(list) = list.as_array_mut() {
        list.extend(more);
    }
}

/// The condition on which the gateway deletes companions beside `ConfigMap` and Secret.
fn labelled() -> Value {
    json!({
        "expression": "request.resource.group in ['', 'work.karmada.io'] || (has(oldObject.metadata.labels) && \
                       oldObject.metadata.labels[?'compute.datumapis.com/referenced-data'].orValue('') == 'true')",
        "message": "the gateway may delete only companions labelled compute.datumapis.com/referenced-data=true",
    })
}

/// The file with the policies of a kind; `None` if it has none.
pub(super) fn of_kind(kind: &KindManifests) -> Result<Option<Manifest>, ManifestError> {
    let name = kind.name();
    let (group, plural) = (quoted(&kind.group), quoted(&kind.plural));
    let own = [
        ("kind", &*name),
        ("group", &kind.group),
        ("version", &kind.version),
        ("plural", &kind.plural),
        ("quoted_group", &group),
        ("quoted_plural", &plural),
    ];
    let mut objects = Vec::new();
    if kind.owner == Owner::Platform {
        objects.extend(sources::objects("project/kinds/platform.yaml", &own)?);
    }
    if let Some(path) = &kind.fixed_placement {
        let placement = path.join(".");
        let of_placement = [
            ("path", &*steps(path)),
            ("placement", &placement),
            (
                "cannot_change",
                &quoted(&format!("{placement} cannot change from \"")),
            ),
            ("why", why(kind)),
        ];
        let places = [&own[..], &of_placement].concat();
        objects.extend(sources::objects("project/kinds/placement.yaml", &places)?);
    }
    if kind.may_be_abandoned {
        objects.extend(sources::objects("project/kinds/abandon.yaml", &own)?);
    }
    let path = format!("project/kinds/{name}.yaml");
    Ok((!objects.is_empty()).then(|| Manifest::generated(&path, objects)))
}

/// The reason for which a placement cannot change.
fn why(kind: &KindManifests) -> &'static str {
    if kind.is_exactly_one {
        "the object lives at one member there"
    } else {
        "the object lives there"
    }
}

/// The steps of a CEL expression from an object to the value behind these names, as an optional.
fn steps(path: &[String]) -> String {
    let is_field = |name: &str| {
        let mut letters = name.chars();
        let first = letters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_') && !RESERVED.contains(&name)
    };
    path.iter()
        .map(|name| {
            if is_field(name) {
                format!(".?{name}")
            } else {
                format!("[?{}]", quoted(name))
            }
        })
        .collect()
}

/// A text as a string of CEL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
