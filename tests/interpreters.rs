//! Interpreter scripts: every case in our host, the linter, and, where there is one, Karmada itself as the judge.

use fedgate::{
    kinds::FederatedKind,
    lua::{self, Report},
};
use std::path::{Path, PathBuf};

/// The folders with kinds: those in the executable and the made-up one.
fn roots() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    [root.join("interpreters"), root.join("tests/kinds")]
}

fn assert_ok(report: &Report) {
    assert!(report.is_ok(), "\n{report}");
    assert!(report.checked > 0);
}

#[test]
fn every_case_holds_in_a_fresh_and_in_a_re_used_state() {
    for root in roots() {
        assert_ok(&lua::cases::run(&root));
    }
}

#[test]
fn every_script_passes_the_linter() {
    for root in roots() {
        assert_ok(&lua::lint(&root));
    }
}

#[test]
fn the_made_up_kind_loads_beside_the_built_in_ones() {
    let kinds = FederatedKind::load(Some(&roots()[1])).unwrap();
    let gadget = kinds.iter().find(|kind| kind.resource.kind == "Gadget").unwrap();
    assert_eq!(gadget.placement.path.text(), "$.spec.where.city");
    let companions = gadget.companions.as_ref().unwrap();
    assert_eq!(companions.expected_annotation, None);
    let object = serde_json::json!({"spec": {"credentials": {"secretName": "panel"}}});
    let reference = &companions.references[0];
    assert_eq!(
        reference.path.first(&object).unwrap()[&reference.name_field],
        "panel"
    );
    assert!(gadget.write_back.is_none());
    assert_eq!(gadget.interpreter.scripts.len(), 4);
}
