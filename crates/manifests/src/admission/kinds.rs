//! Policies of single kinds in projects (contract: clusters.md §3.2, §3.4, §8): a placement that cannot change, who may end the
//! wait for a member, and objects that only the platform writes.

use super::{
    super::{KindManifests, Manifest, Owner, Plane},
    annotations_of, gateway, labels_of, on, policy, telling, validation,
};
use fedgate_api::keys;
use serde_json::{Value, json};

/// Words of CEL that name no field after a dot.
const RESERVED: [&str; 21] = [
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

/// The file with the policies of a kind; `None` if it has none.
pub(in super::super) fn of_kind(kind: &KindManifests) -> Option<Manifest> {
    let mut objects = Vec::new();
    if kind.owner == Owner::Platform {
        objects.extend(platform(kind));
    }
    if let Some(path) = &kind.fixed_placement {
        objects.extend(placement(kind, path));
    }
    if kind.may_be_abandoned {
        objects.extend(abandon(kind));
    }
    (!objects.is_empty()).then(|| Manifest {
        path: format!("project/kinds/{}.yaml", name(kind)),
        planes: &[Plane::Project],
        objects,
    })
}

fn name(kind: &KindManifests) -> String {
    format!("{}.{}", kind.plural, kind.group)
        .trim_end_matches('.')
        .to_owned()
}

fn on_kind(kind: &KindManifests, operations: &[&str]) -> Value {
    on(&kind.group, &kind.version, operations, &[&kind.plural])
}

/// Limits objects with our label, and the label itself, to the gateway.
fn platform(kind: &KindManifests) -> Vec<Value> {
    let key = keys::PROJECTED;
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on_kind(kind, &["CREATE", "UPDATE", "DELETE"]),
        "matchConditions": [{"name": "not-by-the-gateway", "expression": format!("!({})", gateway::is_gateway())}],
        "variables": [labels_of("labels", "object"), labels_of("oldLabels", "oldObject")],
        "validations": [
            validation(
                format!("!('{key}' in variables.oldLabels)"),
                "this object is the platform's: it is changed on the hub alone; make one of another name",
            ),
            validation(
                format!("'{key}' in variables.oldLabels || !('{key}' in variables.labels)"),
                "only the gateway sets label fedgate.dev/projected; leave it out",
            ),
        ],
    });
    policy(&format!("fedgate-platform-{}", name(kind)), &spec, None)
}

/// Refuses every edit of a placement value that is set.
fn placement(kind: &KindManifests, path: &[String]) -> Vec<Value> {
    let text = path.join(".");
    let why = if kind.is_exactly_one {
        "the object lives at one member there"
    } else {
        "the object lives there"
    };
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on_kind(kind, &["UPDATE"]),
        "variables": [
            {"name": "was", "expression": member("oldObject", path)},
            {"name": "is", "expression": member("object", path)},
        ],
        "validations": [telling(
            "!variables.was.hasValue() || variables.was.value() == '' || variables.was == variables.is",
            format!(
                "{} + string(variables.was.value()) + '\": {why}; leave it, or make another object'",
                quoted(&format!("{text} cannot change from \""))
            ),
            &format!("{text} cannot change once it is set: {why}; leave it, or make another object"),
        )],
    });
    policy(&format!("fedgate-placement-{}", name(kind)), &spec, None)
}

/// A user who sets the annotation that ends the wait for a member needs the verb `abandon` on the object.
fn abandon(kind: &KindManifests) -> Vec<Value> {
    let KindManifests { group, plural, .. } = kind;
    let key = keys::ABANDON;
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on_kind(kind, &["CREATE", "UPDATE"]),
        "variables": [annotations_of("annotations", "object"), annotations_of("oldAnnotations", "oldObject")],
        "validations": [{
            "expression": format!(
                "!('{key}' in variables.annotations) || \
                 variables.annotations[?'{key}'] == variables.oldAnnotations[?'{key}'] || \
                 authorizer.group({}).resource({}).namespace(request.namespace).name(request.name)\
                 .check('abandon').allowed()",
                quoted(group),
                quoted(plural)
            ),
            "message": format!(
                "you may not set annotation {key}, which gives up what is left at a member; ask for the verb abandon on {}",
                name(kind)
            ),
            "reason": "Forbidden",
        }],
    });
    policy(&format!("fedgate-abandon-{}", name(kind)), &spec, None)
}

/// CEL expression: the value behind these names, as an optional.
fn member(object: &str, path: &[String]) -> String {
    let is_field = |name: &str| {
        let mut letters = name.chars();
        let first = letters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_') && !RESERVED.contains(&name)
    };
    let steps = path.iter().map(|name| {
        if is_field(name) {
            format!(".?{name}")
        } else {
            format!("[?{}]", quoted(name))
        }
    });
    steps.fold(object.to_owned(), |all, step| all + &step)
}

/// A text as a string of CEL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
