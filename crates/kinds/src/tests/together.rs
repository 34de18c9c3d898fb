//! Checks between kinds.

use super::{
    load_all,
    refusals::{ALL, ONE, PLATFORM},
};

fn referring(kind: &str, api_version: &str) -> String {
    ALL.replace("gizmos", "widgets").replace("gizmo-", "widget-")
        + &format!(
            "companions:\n  references:\n  - {{kind: Secret, path: $.spec.s}}\n  \
             - {{apiVersion: {api_version}, kind: {kind}, plural: gizmos, path: $.spec.g}}\n"
        )
}

#[test]
fn a_federated_kind_is_no_companion() {
    for (version, place, gizmo) in [
        ("example.com/v1", "kind Gizmo of example.com/v1", ONE),
        ("example.com/v2", "v2", ONE),
        ("example.com/v1", "kind Gizmo of example.com/v1", ALL),
    ] {
        let widget = referring("Gizmo", version);
        let error = load_all(
            &[
                ("example.com/v1/Gizmo", gizmo),
                ("example.com/v1/Widget", &widget),
            ],
            &[],
        )
        .unwrap_err();
        assert!(
            error.starts_with("DIR/example.com/v1/Widget/kind.yaml:9: kind Gizmo of ")
                && error.contains(place),
            "{error}"
        );
        assert!(
            error.ends_with(
                "is federated by DIR/example.com/v1/Gizmo/kind.yaml, so it cannot be a companion; take \
                 the reference out"
            ),
            "{error}"
        );
    }
}

#[test]
fn a_kind_of_another_group_may_be_a_companion() {
    let widget = referring("Gizmo", "example.org/v1");
    load_all(
        &[("example.com/v1/Gizmo", ONE), ("example.com/v1/Widget", &widget)],
        &[],
    )
    .unwrap();
}

#[test]
fn a_kind_cannot_be_its_own_companion() {
    let own = format!(
        "{ONE}companions:\n  references:\n  - {{apiVersion: example.com/v1, kind: Gizmo, plural: gizmos, path: $.spec.g}}\n"
    );
    let error = load_all(&[("example.com/v1/Gizmo", &own)], &[]).unwrap_err();
    assert!(
        error.starts_with("DIR/example.com/v1/Gizmo/kind.yaml:9: "),
        "{error}"
    );
}

#[test]
fn kinds_of_the_platform_load_beside_federated_ones() {
    let platform = format!("{PLATFORM}# none\n").replace(
        "{from: hub}",
        "{from: hub, selector: {matchLabels: {tier: gold}, matchExpressions: [{key: old, operator: DoesNotExist}]}}",
    );
    let kinds = load_all(
        &[("example.com/v1/Gizmo", ONE), ("example.com/v1/Plan", &platform)],
        &[],
    )
    .unwrap();
    assert_eq!((kinds.federated.len(), kinds.platform.len()), (2, 1));
    let plan = &kinds.platform[0];
    assert_eq!(
        (plan.resource.kind.as_str(), plan.resource.plural.as_str()),
        ("Plan", "gizmos")
    );
    assert_eq!(plan.selector.to_string(), "tier=gold,!old");
    let all = load_all(&[("example.com/v1/Plan", PLATFORM)], &[]).unwrap();
    assert!(all.platform[0].selector.selects_all());
}

#[test]
fn a_kind_has_one_folder_whatever_its_version() {
    let folder = |version: &str| format!("example.com/{version}/Gizmo");
    let [first, second] = ["v1", "v2"].map(folder);
    for (kind, other) in [(ONE, ONE), (ONE, PLATFORM), (PLATFORM, ONE), (PLATFORM, PLATFORM)] {
        let error = load_all(&[(&first, kind), (&second, other)], &[]).unwrap_err();
        // Platform kinds are compared after federated ones.
        let (at, there, version) = match (kind == PLATFORM, other == PLATFORM) {
            (true, false) => (&first, &second, "v2"),
            _ => (&second, &first, "v1"),
        };
        assert_eq!(
            error,
            format!(
                "DIR/{at}/kind.yaml:1: DIR/{there}/kind.yaml describes this kind already, in version {version}; allowed is \
                 one version of a kind, remove one of the folders"
            )
        );
    }
}

#[test]
fn a_kind_of_the_platform_is_no_companion() {
    for version in ["v1", "v2"] {
        let widget = referring("Plan", &format!("example.com/{version}"));
        let error = load_all(
            &[
                ("example.com/v1/Plan", PLATFORM),
                ("example.com/v1/Widget", &widget),
            ],
            &[],
        )
        .unwrap_err();
        assert_eq!(
            error,
            format!(
                "DIR/example.com/v1/Widget/kind.yaml:9: kind Plan of example.com/{version} is projected by \
                 DIR/example.com/v1/Plan/kind.yaml, so it cannot be a companion; take the reference out"
            )
        );
    }
}

/// A file whose kind names a number of kinds of companions, all of which are adopted.
fn adopting(count: usize) -> String {
    let reference = |number: usize| {
        format!(
            "  - {{apiVersion: example.org/v1, kind: Part{number:02}, plural: parts{number}, path: $.spec.p{number}, \
             adopted: true}}\n"
        )
    };
    let references: String = (0..count).map(reference).collect();
    format!("{ONE}companions:\n  references:\n{references}")
}

#[test]
fn more_kinds_of_companions_than_a_set_holds_are_refused() {
    let load = |count| load_all(&[("example.com/v1/Gizmo", &adopting(count))], &[]);
    // ConfigMap and Secret are always there.
    load(62).unwrap();
    for count in [63, 70, 300] {
        assert_eq!(
            load(count).unwrap_err(),
            "DIR/example.com/v1/Gizmo/kind.yaml:1: the folders name more than 64 kinds of companions; take some out"
        );
    }
}
