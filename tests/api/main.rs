//! The API as people and controllers meet it: `api::validate`, and the definitions and admission policies of
//! manifests/ on a real kube-apiserver.

mod plane;
mod table;

use fedgate::api::validate;
use std::collections::BTreeSet;

#[test]
fn rust_refuses_what_the_table_says_and_nothing_else() {
    let mut wrong = Vec::new();
    for case in table::cases() {
        let found = validate::spec(&case.spec);
        let right = case.breaks.map_or(found.is_empty(), |rule| found.iter().any(|p| p.rule == rule));
        if !right {
            wrong.push(format!("{}: expected {:?}, found {found:?}", case.name, case.breaks));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_breaks_every_rule() {
    let broken: BTreeSet<&str> = table::cases().iter().filter_map(|c| c.breaks).collect();
    for rule in (1..=26).map(|n| format!("V{n}")) {
        assert!(broken.contains(rule.as_str()), "no object of the table breaks {rule}");
    }
}
