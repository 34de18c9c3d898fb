//! The tests that docs/security.md names are there, and every row names some.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

use regex::Regex;
use std::{collections::BTreeSet, fs, path::Path};

/// The rows of threats.
const ROWS: usize = 30;

/// One row of the table: its number, and the cell with the tests.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    number: usize,
    tests: String,
}

fn rows(text: &str) -> Vec<Row> {
    let first = Regex::new(r"^\| S(\d+) \|").unwrap();
    let row = |line: &str| {
        let number = first.captures(line)?[1].parse().unwrap();
        let tests = line.trim_end_matches(" |").rsplit(" | ").next()?.to_owned();
        Some(Row { number, tests })
    };
    text.lines().filter_map(row).collect()
}

/// What is wrong with a row, given how to read a file of the tree.
fn faults(row: &Row, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut said = 0;
    let named =
        Regex::new(r"`((?:crates|src|tests)/[a-z0-9_/]+\.rs)(?:::([a-z0-9_]+))?`(?: \((S\d+)\))?").unwrap();
    for found in named.captures_iter(&row.tests) {
        said += 1;
        let file = &found[1];
        let wanted = match (found.get(2), found.get(3)) {
            (Some(test), None) => Regex::new(&format!(r"\bfn {}\(", test.as_str())).unwrap(),
            (None, Some(id)) => Regex::new(&format!(r"(?i)(?:\b|_){}(?:\b|_)", id.as_str())).unwrap(),
            _ => {
                wrong.push(format!(
                    "S{}: {} names neither a test nor a row",
                    row.number, &found[0]
                ));
                continue;
            }
        };
        match read(file) {
            None => wrong.push(format!("S{}: there is no {file}", row.number)),
            Some(text) if !wanted.is_match(&text) => {
                wrong.push(format!("S{}: {} is not there", row.number, &found[0]));
            }
            Some(_) => {}
        }
    }
    if said == 0 || said != row.tests.split("; ").count() {
        wrong.push(format!("S{}: tests cannot be read: {}", row.number, row.tests));
    }
    wrong
}

#[test]
fn every_row_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let rows = rows(&text);
    let numbers: Vec<usize> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=ROWS).collect::<Vec<_>>());
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let wrong: Vec<String> = rows.iter().flat_map(|row| faults(row, read)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Comments of tests that name a row name one of the table.
#[test]
fn every_row_that_a_comment_names_is_in_the_table() {
    let mark = Regex::new(r"\bS(\d{1,2})\b").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = BTreeSet::new();
    for file in [
        "tests/api/admission.rs",
        "tests/api/walls.rs",
        "tests/manifests.rs",
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let comments = text.lines().filter(|line| line.trim_start().starts_with("///"));
        for comment in comments {
            named.extend(
                mark.captures_iter(comment)
                    .map(|found| found[1].parse::<usize>().unwrap()),
            );
        }
    }
    assert!(
        !named.is_empty() && named.iter().all(|row| (1..=ROWS).contains(row)),
        "{named:?}"
    );
}

#[test]
fn faults_are_found() {
    let text = "| row | tests |\n| S1 | a threat | `tests/a.rs::one`; `tests/b.rs` (S1) |\n| S2 | nothing | later |\n";
    let read = |file: &str| match file {
        "tests/a.rs" => Some("fn one() {}\nfn other_one() {}".to_owned()),
        "tests/b.rs" => Some("fn s1_forged() {}".to_owned()),
        _ => None,
    };
    let rows = rows(text);
    assert_eq!(faults(&rows[0], read), Vec::<String>::new());
    assert_eq!(faults(&rows[1], read).len(), 1);
    let fault = |tests: &str| {
        let row = Row {
            number: 9,
            tests: tests.to_owned(),
        };
        faults(&row, read).join(" ")
    };
    assert_eq!(fault("`tests/a.rs::on`"), "S9: `tests/a.rs::on` is not there");
    assert_eq!(fault("`tests/b.rs` (S2)"), "S9: `tests/b.rs` (S2) is not there");
    assert_eq!(fault("`tests/c.rs::one`"), "S9: there is no tests/c.rs");
    assert_eq!(
        fault("`tests/a.rs`"),
        "S9: `tests/a.rs` names neither a test nor a row"
    );
    assert!(fault("`tests/a.rs::one`; by hand").contains("cannot be read"));
}
