//! The fields of the language that the gateway does not carry yet.

use super::{
    load, load_all,
    refusals::{ALL, ONE, PLATFORM},
};

#[test]
fn the_first_field_that_is_not_carried_is_named() {
    for (base, added, field) in [
        (ALL, "  immutable: true\n".to_owned(), "placement.immutable: true"),
        (
            ALL,
            "  requireMemberAPI: true\n".to_owned(),
            "placement.requireMemberAPI: true",
        ),
        (
            ALL,
            "deletion: {guards: [{path: $.spec.a, equals: 1, message: m}]}\n".to_owned(),
            "deletion.guards",
        ),
        (
            ALL,
            "returns: [{kind: Secret, path: $.status.s, allow: ['*-app']}]\n".to_owned(),
            "returns",
        ),
        (ALL, "suspension: dispatch\n".to_owned(), "suspension: dispatch"),
    ] {
        let text = format!("{base}{added}");
        let kind = load(&text, &[]).unwrap().remove(1);
        assert_eq!(kind.beyond_this_version().as_deref(), Some(field), "{text}");
    }
}

#[test]
fn a_file_of_language_2_that_uses_nothing_new_is_carried() {
    let text = format!(
        "{ALL}companions:\n  references:\n  - {{kind: Secret, path: $.spec.s}}\n  \
         - {{kind: ConfigMap, path: $.spec.c, nameField: name, required: optional}}\n  \
         - {{kind: Secret, path: $.spec.t, required: always, maxBytes: 2048}}\n  \
         - {{apiVersion: example.com/v1, kind: Lease, plural: leases, path: $.spec.l}}\n"
    );
    for text in [ALL, ONE, PLATFORM, &text] {
        let kinds = load_all(&[("example.com/v1/Gizmo", text)], &[]).unwrap();
        assert_eq!(kinds.beyond_this_version(), None);
    }
}

#[test]
fn the_refusal_names_the_file() {
    let refusal = |text: &str| {
        let kinds = load_all(&[("example.com/v1/Gizmo", text)], &[]).unwrap();
        kinds.beyond_this_version().unwrap()
    };
    let one = refusal(&format!("{ALL}  immutable: true\n"));
    let end = "/example.com/v1/Gizmo/kind.yaml: this version does not carry placement.immutable: true yet";
    assert!(one.ends_with(end), "{one}");
}
