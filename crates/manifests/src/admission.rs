//! The parts of admission policies that depend on kinds: companions of the gateway on the hub, and policies of single kinds in
//! projects (contract: clusters.md §3.2, §3.4, §8).

use crate::{KindManifests, Manifest, ManifestError, sources};
use fedgate_kinds::FederatedKind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Words of CEL that name no field after a dot.
const RESERVED: &str = "as break const continue else false for function if import in let loop namespace null package return true var \
                        void while";

/// All policies of the planes, without those of single kinds.
pub(super) fn files(kinds: &[KindManifests]) -> Result<Vec<Manifest>, ManifestError> {
    let mut deletes = with_companions("hub/gateway-deletes.yaml", kinds)?;
    if kinds.iter().any(|kind| !kind.companions().is_empty()) {
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
    let companions: BTreeSet<_> = kinds.iter().flat_map(KindManifests::companions).collect();
    let rule = |(group, plural): (&str, &str)| json!({"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": [plural]});
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
    let resource = &kind.resource;
    let (group, plural) = (quoted(&resource.group), quoted(&resource.plural));
    let own = [
        ("kind", &*name),
        ("group", &resource.group),
        ("version", &resource.version),
        ("plural", &resource.plural),
        ("quoted_group", &group),
        ("quoted_plural", &plural),
    ];
    let mut objects = Vec::new();
    if let Some(federated) = &kind.federated {
        if let Some(path) = fixed_placement(federated) {
            let placement = path.join(".");
            let cannot_change = quoted(&format!("{placement} cannot change from \""));
            let of_placement = [
                ("path", &*steps(&path)),
                ("placement", &placement),
                ("cannot_change", &cannot_change),
                ("why", why(federated)),
            ];
            let places = [&own[..], &of_placement].concat();
            objects.extend(sources::objects("project/kinds/placement.yaml", &places)?);
        }
        if federated.deletion.abandon {
            objects.extend(sources::objects("project/kinds/abandon.yaml", &own)?);
        }
    } else {
        objects.extend(sources::objects("project/kinds/platform.yaml", &own)?);
    }
    let path = format!("project/kinds/{name}.yaml");
    Ok((!objects.is_empty()).then(|| Manifest::generated(&path, objects)))
}

/// Names on the way to the placement value, if it cannot change and one way leads to it.
fn fixed_placement(kind: &FederatedKind) -> Option<Vec<String>> {
    let path = kind.placement.immutable.then_some(&kind.placement.path)?;
    path.members()
}

/// The reason for which a placement cannot change.
fn why(kind: &FederatedKind) -> &'static str {
    if kind.is_exactly_one() {
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
        first
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !RESERVED.split(' ').any(|word| word == name)
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
