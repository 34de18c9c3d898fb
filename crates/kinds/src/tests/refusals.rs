//! Each refusal, with line, message and allowed names.

use super::{GOOD, load, load_all, refused};

/// A file without anything that may be left out.
pub(super) const ALL: &str = "\
plural: gizmos
placement:
  path: $.spec.city
  label: topology.datum.net/city-code
  policyPrefix: gizmo-
";

/// A kind whose objects live at one member.
pub(super) const ONE: &str = "\
plural: gizmos
placement:
  path: $.spec.city
  label: topology.datum.net/city-code
  policyPrefix: gz-
  cardinality: exactlyOne
";

/// A kind of the platform.
pub(super) const PLATFORM: &str = "plural: gizmos\nscope: Cluster\nplatform: {from: hub}\n";

/// A file, a text that is added to it, and the line and message of the refusal.
type Row = (&'static str, &'static str, &'static str);

/// The refusals of whole files: scope, and fields that another scope has.
const FILES: &[Row] = &[
    (
        ALL,
        "scope: Global",
        "6: scope \"Global\" is unknown; allowed are Namespaced, Cluster",
    ),
    (
        ALL,
        "scope: Namespaced\nplatform: {from: hub}",
        "7: field \"platform\" needs scope: Cluster; allowed without it are scope, plural, placement, \
         carriedAnnotations, suspendAnnotation, suspension, status, companions, writeBack, deletion, returns, interpreter",
    ),
    (
        "",
        "plural: gizmos\nscope: Cluster",
        "2: missing field \"platform\"; the file has the fields plural, scope, platform",
    ),
    (
        PLATFORM,
        "placement: {}",
        "4: field \"placement\" is not for scope: Cluster; allowed with it are plural, scope, platform",
    ),
    (
        PLATFORM,
        "plurals: x",
        "4: unknown field \"plurals\"; allowed are plural, scope, platform",
    ),
    (
        "",
        "plural: gizmos\nscope: Cluster\nplatform: {from: project}",
        "3: unknown value \"project\"; allowed are hub",
    ),
    (
        "",
        "plural: gizmos\nscope: Cluster\nplatform:\n  from: hub\n  selector:\n    matchExpressions:\n    \
         - {key: a, operator: In}",
        "7: In and NotIn need values, Exists and DoesNotExist have none",
    ),
    (
        ALL,
        "color: red",
        "6: unknown field \"color\"; allowed are scope, plural, placement, carriedAnnotations, \
         suspendAnnotation, suspension, status, companions, writeBack, deletion, returns, interpreter",
    ),
];

/// The refusals of sections but for companions.
const SECTIONS: &[Row] = &[
    (
        ALL,
        "  cardinality: some",
        "6: unknown value \"some\"; allowed are all, one, exactlyOne",
    ),
    (
        ONE,
        "  immutable: false",
        "7: immutable must be true with cardinality: exactlyOne, allowed is true: what lives at one member does not move",
    ),
    (
        ALL,
        "suspension: pause",
        "6: unknown value \"pause\"; allowed are annotation, dispatch",
    ),
    (
        ONE,
        "suspension: annotation",
        "7: suspension: annotation is not for cardinality: exactlyOne; allowed is dispatch",
    ),
    (
        ALL,
        "status:\n  maxBytes: 1023",
        "7: status.maxBytes 1023 is out of range; allowed are 1024 to 524288 bytes",
    ),
    (
        ALL,
        "status: {maxBytes: 524289}",
        "6: status.maxBytes 524289 is out of range; allowed are 1024 to 524288 bytes",
    ),
    (
        ALL,
        "status: {maxBytes: -1}",
        "6: status.maxBytes -1 is out of range; allowed are 1024 to 524288 bytes",
    ),
    (
        ALL,
        "status: {conditionsIn: labels}",
        "6: unknown value \"labels\"; allowed are status, annotation",
    ),
    (
        ALL,
        "deletion: {finishedWhen: memberAbsent}",
        "6: finishedWhen: memberAbsent needs cardinality: exactlyOne; allowed without it is released",
    ),
    (
        ONE,
        "deletion: {finishedWhen: gone}",
        "7: unknown value \"gone\"; allowed are released, memberAbsent",
    ),
    (
        ONE,
        "deletion: {byMember: ends}",
        "7: byMember: ends needs finishedWhen: memberAbsent; allowed without it is restored",
    ),
    (
        ONE,
        "deletion: {byMember: kept}",
        "7: unknown value \"kept\"; allowed are restored, ends",
    ),
    (
        ONE,
        "deletion:\n  abandon: true",
        "8: abandon: true needs finishedWhen: memberAbsent; allowed without it is false",
    ),
    (
        ALL,
        "deletion:\n  guards:\n  - path: $.spec.a\n    equals: [true]\n    message: m",
        "9: equals is compared with one value; allowed are a text, a number, true and false",
    ),
    (
        ALL,
        "deletion:\n  guards:\n  - {path: $.spec.a, equals: {a: 1}, message: m}",
        "8: equals is compared with one value; allowed are a text, a number, true and false",
    ),
    (
        ALL,
        "deletion:\n  guards:\n  - {path: $.spec.a, equals: null, message: m}",
        "8: equals is compared with one value; allowed are a text, a number, true and false",
    ),
    (
        ALL,
        "deletion:\n  guards:\n  - path: $.spec.a\n    equals: 1\n    message: ' '",
        "10: message is empty; say what holds the deletion and how it is let go",
    ),
    (
        ONE,
        "returns:\n- {kind: ConfigMap, name: \"{name}-app\", allow: ['*-app']}",
        "8: unknown value \"ConfigMap\"; allowed are Secret",
    ),
    (
        "",
        "plural: gizmos-with-a-name-that-is-longer-than-labels-hold-it\nplacement:\n  path: $.spec.city\n  \
         label: topology.datum.net/city-code\n  policyPrefix: gz-\n  cardinality: exactlyOne\nreturns:\n\
         - {kind: Secret, name: \"{name}-app\", allow: ['*-app']}",
        "8: returns mark each Secret with a label that names the kind, and \
         \"gizmos-with-a-name-that-is-longer-than-labels-hold-it.example.com\" has 65 characters; allowed are 63",
    ),
    (
        ONE,
        "returns:\n- {kind: Secret, allow: ['*-app']}",
        "8: the Secret's name comes from one place, none given; allowed is path or name",
    ),
    (
        ONE,
        "returns:\n- {kind: Secret, path: $.status.s, name: \"{name}-app\", allow: ['*-app']}",
        "8: the Secret's name comes from one place, both given; allowed is path or name",
    ),
    (
        ONE,
        "returns:\n- kind: Secret\n  path: $.status.s\n  allow: ['*-application', '*app']",
        "10: pattern \"*app\" fits almost any name; allowed are patterns with 4 or more characters beside '*'",
    ),
    (
        ONE,
        "returns:\n- {kind: Secret, path: $.status.s, allow: []}",
        "8: allow is empty, so nothing would go back; name patterns of Secrets, e.g. \"*-app\"",
    ),
    (
        ONE,
        "returns:\n- {kind: Secret, path: $.status.s}",
        "8: missing field \"allow\"; returns[] has the fields kind, path, name, allow, maxBytes",
    ),
    (
        ONE,
        "returns:\n- {kind: Secret, name: app, allow: ['*-app']}",
        "8: name \"app\" is no object name with {name} in it, which stands for the object's, e.g. {name}-app",
    ),
    (
        ONE,
        "returns:\n- {kind: Secret, path: $.status.s, allow: ['*-app'], maxBytes: 0}",
        "8: maxBytes 0 is out of range; allowed are 1024 to 524288 bytes",
    ),
    (
        ALL,
        "returns:\n- {kind: Secret, path: $.status.s, allow: ['*-app']}",
        "7: returns need cardinality: exactlyOne, since a Secret goes back from the one member at which its object lives; \
         allowed without it are none",
    ),
    (
        ALL,
        "suspension: dispatch",
        "6: suspension: dispatch needs cardinality: exactlyOne, since a lane stops the dispatch, and only what lives at one \
         member has lanes; allowed without it is annotation",
    ),
];

/// The refusals of companions.
const REFERENCES: &[Row] = &[
    (
        ONE,
        "{kind: Lease, path: $.spec.l}",
        "9: missing field \"plural\" of kind \"Lease\"; allowed without it are ConfigMap and Secret of v1",
    ),
    (
        ONE,
        "{apiVersion: example.com/v1, kind: Secret, path: $.spec.l}",
        "9: missing field \"plural\" of kind \"Secret\"; allowed without it are ConfigMap and Secret of v1",
    ),
    (
        ONE,
        "{apiVersion: v2, kind: Lease, plural: leases, path: $.spec.l}",
        "9: apiVersion \"v2\" is unknown; allowed are v1 and <group>/<version>",
    ),
    (
        ONE,
        "{apiVersion: example.com/v1, kind: Lease, plural: Leases, path: $.spec.l}",
        "9: plural \"Leases\" is no object name: lower-case letters, digits, '-' and '.'",
    ),
    (
        ONE,
        "{kind: Secret, path: $.spec.s, required: unlessOptional}",
        "9: required: unlessOptional needs nameField: without it nothing stands beside the name; allowed in its place is \
         optional",
    ),
    (
        ONE,
        "{kind: Secret, path: $.spec.s, required: never}",
        "9: unknown value \"never\"; allowed are always, ifNamed, optional, unlessOptional",
    ),
    (
        ALL,
        "{kind: Secret, path: $.spec.s, before: applied}",
        "8: before: applied needs cardinality: exactlyOne; allowed without it is none",
    ),
    (
        ONE,
        "{kind: Secret, path: $.spec.s, before: delivered}",
        "9: unknown value \"delivered\"; allowed are applied, none",
    ),
    (
        ONE,
        "{apiVersion: example.com/v1, kind: Lease, plural: leases, path: $.spec.l, before: none, adopted: true}",
        "9: adopted: true needs before: applied; allowed without it is false",
    ),
    (
        ONE,
        "{kind: ConfigMap, path: $.spec.s, adopted: true}",
        "9: adopted: true is not for ConfigMap and Secret, which several objects share; allowed is false, or another kind",
    ),
    (
        ONE,
        "{kind: Secret, path: $.spec.s, maxBytes: 1000000}",
        "9: maxBytes 1000000 is out of range; allowed are 1024 to 524288 bytes",
    ),
    (
        ONE,
        "{kind: Secret, pfad: $.spec.s}",
        "9: unknown field \"pfad\"; allowed are apiVersion, kind, plural, path, nameField, required, before, adopted, maxBytes",
    ),
];

/// The refusals of prefixes.
const PREFIXES: &[Row] = &[
    (
        ONE,
        "gizmos-of-x",
        "5: policyPrefix \"gizmos-of-x\" has 11 characters; allowed are 10 with cardinality: exactlyOne",
    ),
    (
        ONE,
        "with-",
        "5: policyPrefix \"with-\" begins as the policies of companions do; allowed is what does not begin with with-, \
         keep-, park-",
    ),
    (
        ONE,
        "keep-x-",
        "5: policyPrefix \"keep-x-\" begins as the policies of companions do; allowed is what does not begin with with-, \
         keep-, park-",
    ),
    (
        ONE,
        "park-",
        "5: policyPrefix \"park-\" begins as the policies of companions do; allowed is what does not begin with with-, \
         keep-, park-",
    ),
];

const KIND: &str = "example.com/v1/Gizmo/kind.yaml";

/// The rows that are not refused with their text.
fn wrong(rows: &[Row], file: impl Fn(&str, &str) -> String) -> Vec<String> {
    let differs = |(base, added, expected): &Row| {
        let text = file(base, added);
        let expected = format!("DIR/{KIND}:{expected}");
        match load_all(&[("example.com/v1/Gizmo", &text)], &[]) {
            Err(found) if found == expected => None,
            found => Some(format!(
                "{text}\n  expected {expected}\n  found    {:?}",
                found.err()
            )),
        }
    };
    rows.iter().filter_map(differs).collect()
}

fn added(base: &str, text: &str) -> String {
    format!("{base}{text}\n")
}

pub(super) fn referring(base: &str, text: &str) -> String {
    format!("{base}companions:\n  references:\n  - {text}\n")
}

fn prefixed(base: &str, text: &str) -> String {
    base.replace("policyPrefix: gz-", &format!("policyPrefix: {text}"))
}

#[test]
fn each_mistake_is_refused_with_line_and_allowed_names() {
    let mut all = wrong(FILES, added);
    all.extend(wrong(SECTIONS, added));
    all.extend(wrong(REFERENCES, referring));
    all.extend(wrong(PREFIXES, prefixed));
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn the_longest_prefix_and_one_that_only_resembles_those_of_companions_are_allowed() {
    for (base, prefix) in [(ONE, "gizmosofx-"), (ONE, "within-"), (ONE, "a-with-")] {
        load(&prefixed(base, prefix), &[]).unwrap();
    }
    load(&ALL.replace("gizmo-", "a-prefix-of-many-characters-"), &[]).unwrap();
}

#[test]
fn a_reference_that_is_missing_its_kind_lists_every_section_with_such_a_field() {
    let error = refused(&referring(ONE, "{path: $.spec.s}"), &[]);
    let text = "missing field \"kind\"; companions.references[] has the fields apiVersion, kind, plural, path, nameField, \
        required, before, adopted, maxBytes; writeBack has the fields";
    assert!(error.contains(text), "{error}");
}

#[test]
fn a_dependency_script_is_refused_where_lanes_carry_the_companions() {
    let script = [(
        "dependency-interpretation.lua",
        "function GetDependencies() return {} end",
    )];
    let error = refused(ONE, &script);
    assert_eq!(
        error,
        "DIR/example.com/v1/Gizmo/dependency-interpretation.lua:1: with cardinality: exactlyOne the gateway delivers the \
         companions itself, remove the file; allowed are health-interpretation.lua, replica-resource.lua, retention.lua, \
         status-aggregation.lua, status-reflection.lua"
    );
    load(ALL, &script).unwrap();
}

#[test]
fn a_script_of_a_kind_of_the_platform_is_refused() {
    let error = refused(PLATFORM, &[("retention.lua", "function Retain(d) return d end")]);
    assert!(
        error.starts_with(
            "DIR/example.com/v1/Gizmo/retention.lua:1: a kind with scope: Cluster has no scripts"
        ),
        "{error}"
    );
}

/// The page shows refusals; each is one of the tables, word for word up to its mark of omission.
#[test]
fn the_refusals_of_the_page_are_refused_so() {
    let page = include_str!("../../../../docs/kinds.md");
    let folder = "interpreters/example.com/v1/Gizmo/kind.yaml:";
    let mut known: Vec<String> = [FILES, SECTIONS, REFERENCES, PREFIXES]
        .concat()
        .iter()
        .map(|(_, _, expected)| (*expected).to_owned())
        .collect();
    for (from, to) in [
        ("  path:", "  pfad: x\n  path:"),
        ("  policyPrefix: gizmo-\n", ""),
        ("$.spec.city", "'$.spec['"),
    ] {
        let error = refused(&GOOD.replace(from, to), &[]);
        known.push(error.replace(&format!("DIR/{KIND}:"), ""));
    }
    let shown: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix(folder))
        .collect();
    assert!(shown.len() >= 10, "{shown:?}");
    for line in shown {
        let begin = line.split('…').next().unwrap_or_default();
        assert!(known.iter().any(|known| known.starts_with(begin)), "{line}");
    }
}
