//! Interpreter scripts: every case in our host, the linter, and Karmada as the judge by its recorded answers.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod definitions;
mod karmada;

use fedgate_kinds::{
    Kinds,
    lua::checks::{self, Report},
};
use libtest_mimic::{Arguments, Trial};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// The folders with kinds: those in the executable and the made-up one.
fn roots() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    [root.join("interpreters"), root.join("tests/kinds")]
}

fn assert_ok(report: &Report) {
    assert!(report.is_ok(), "\n{report}");
    assert!(report.checked > 0);
}

fn every_case_holds_in_a_fresh_and_in_a_re_used_state() {
    for root in roots() {
        assert_ok(&checks::cases::run(&root));
    }
}

fn a_case_that_fails_shows_its_line_and_a_diff() {
    let dir = Scratch::new();
    let kind = dir.0.join("example.com/v1/Gizmo");
    fs::create_dir_all(kind.join("testdata")).unwrap();
    fs::write(kind.join("kind.yaml"), "").unwrap();
    let script = "function ReflectStatus(o)
        local keys = {} for key in pairs(o.status) do keys[#keys + 1] = key end
        return {size = o.spec.size + 1, keys = keys} end";
    fs::write(kind.join("status-reflection.lua"), script).unwrap();
    fs::write(kind.join("retention.lua"), "function Retain(d) return d end").unwrap();
    let cases = "operation: statusReflection
cases:
- {name: grows, observed: {spec: {size: 1}, status: {}}, expect: {size: 3}}
- {name: one key, observed: {spec: {size: 1}, status: {a: 1}}, expect: {size: 2, keys: [a]}}
- {name: refused, observed: {spec: {}, status: {}}, error: arithmetic}
- {name: order, observed: {spec: {size: 1}, status: {a: 1, b: 2}}, expect: {size: 2, keys: [a, b]}}
";
    fs::write(kind.join("testdata/a.yaml"), cases).unwrap();
    fs::write(
        kind.join("testdata/b.yaml"),
        "operation: retention\ncases:\n- nome: x\n",
    )
    .unwrap();
    let lint = checks::lint(&dir.0).to_string();
    assert!(
        lint.contains("testdata/a.yaml:3: grows (without a status): "),
        "{lint}"
    );
    let report = checks::cases::run(&dir.0);
    let text = report
        .to_string()
        .replace(&format!("{}/example.com/v1/Gizmo/", dir.0.display()), "");
    assert_eq!((report.checked, report.findings.len()), (4, 7), "{text}");
    for part in [
        "retention.lua:1: has no cases",
        "testdata/a.yaml:3: grows (in a fresh state): the result differs",
        "-size: 3\n+size: 2",
        "testdata/a.yaml:3: grows (without a status): ",
        "testdata/a.yaml:6: order (",
        "testdata/b.yaml:3: unknown field",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

fn every_script_passes_the_linter() {
    for root in roots() {
        assert_ok(&checks::lint(&root));
    }
}

fn the_made_up_kind_loads_beside_the_built_in_ones() {
    let kinds = Kinds::load(&[], Some(&roots()[1])).unwrap().federated;
    let gadget = kinds.iter().find(|kind| kind.resource.kind == "Gadget").unwrap();
    assert_eq!(gadget.placement.path.text(), "$.spec.where.city");
    let companions = gadget.companions.as_ref().unwrap();
    assert_eq!(companions.expected_annotation, None);
    let object = serde_json::json!({"spec": {"credentials": {"secretName": "panel"}}});
    let reference = &companions.references[0];
    assert_eq!(
        reference.path.first(&object).unwrap()[reference.name_field.as_ref().unwrap()],
        "panel"
    );
    assert!(gadget.write_back.is_none());
    assert_eq!(gadget.interpreter.scripts.len(), 4);
}

/// A folder of its own for each test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("fedgate-interpret-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn main() {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let mut trials = vec![
        trial(
            "every_case_holds_in_a_fresh_and_in_a_re_used_state",
            every_case_holds_in_a_fresh_and_in_a_re_used_state,
        ),
        trial(
            "a_case_that_fails_shows_its_line_and_a_diff",
            a_case_that_fails_shows_its_line_and_a_diff,
        ),
        trial("every_script_passes_the_linter", every_script_passes_the_linter),
        trial(
            "the_made_up_kind_loads_beside_the_built_in_ones",
            the_made_up_kind_loads_beside_the_built_in_ones,
        ),
        trial(
            "every_kind_that_is_named_has_a_definition",
            definitions::every_kind_that_is_named_has_a_definition,
        ),
        trial(
            "karmada_agreed_on_every_case",
            karmada::karmada_agreed_on_every_case,
        ),
        trial(
            "the_host_answers_as_karmada_did",
            karmada::the_host_answers_as_karmada_did,
        ),
        trial(
            "the_host_encodes_results_as_karmada_did",
            karmada::the_host_encodes_results_as_karmada_did,
        ),
    ];
    let absent = karmada::judge().is_none();
    for (name, test) in [
        (
            "karmada_agrees_on_every_case",
            karmada::karmada_agrees_on_every_case as fn(),
        ),
        (
            "the_recorded_answers_are_karmadas",
            karmada::the_recorded_answers_are_karmadas,
        ),
    ] {
        if absent {
            // `tests/run.sh` counts these lines.
            eprintln!("NOT RUN: {name}: needs KARMADA_BIN_DIR");
        } else {
            trials.push(trial(name, test));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
