//! The tables of README.md are what the executable says. `make manifests` writes them anew.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use clap::CommandFactory;
use fedgate::commands;
use fedgate_engine::metrics::Metrics;
use fedgate_sandbox::SandboxCommand;
use regex::Regex;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// What stands before, between and after `<!-- begin: <name> -->` and `<!-- end: <name> -->`.
fn parts<'a>(text: &'a str, name: &str) -> (&'a str, &'a str, &'a str) {
    let (begin, end) = (
        format!("<!-- begin: {name} -->\n"),
        format!("<!-- end: {name} -->"),
    );
    let at = text
        .find(&begin)
        .expect("README.md has the mark that begins the table")
        + begin.len();
    let to = at
        + text[at..]
            .find(&end)
            .expect("README.md has the mark that ends the table");
    (&text[..at], &text[at..to], &text[to..])
}

#[test]
fn tables_are_those_of_the_executable() {
    let text = readme();
    let tables = [
        ("flags", commands::gateway_flags()),
        ("cell", commands::cell_flags()),
        ("commands", commands::other_commands(&[SandboxCommand::command()])),
        ("metrics", Metrics::new().unwrap().markdown()),
    ];
    let wanted = tables.into_iter().fold(text.clone(), |text, (name, table)| {
        let (before, _, after) = parts(&text, name);
        format!("{before}{}\n{after}", table.trim_end())
    });
    if std::env::var_os("FEDGATE_WRITE_README").is_some() {
        fs::write(root().join("README.md"), wanted).unwrap();
    } else {
        assert!(text == wanted, "README.md is out of date: run `make manifests`");
    }
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The variables that the sources read by themselves; those of flags are in the tables of flags.
#[test]
fn the_table_of_variables_has_those_that_are_read_and_no_others() {
    let mut files = Vec::new();
    for dir in ["src", "crates", "tests", "benches"] {
        sources(&root().join(dir), &mut files);
    }
    // `set` and `from_env` are the sources' own short words for reading a variable.
    let read = Regex::new(r#"\b(?:var|var_os|set|from_env)\("([A-Z][A-Z0-9_]+)"\)"#).unwrap();
    let mut wanted = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        wanted.extend(read.captures_iter(&text).map(|found| found[1].to_owned()));
    }
    let text = readme();
    let (_, table, _) = parts(&text, "variables");
    let row = Regex::new(r"(?m)^\| ([^|]+) \|").unwrap();
    let name = Regex::new("`([A-Z][A-Z0-9_]+)`").unwrap();
    let told: BTreeSet<String> = row
        .captures_iter(table)
        .flat_map(|cell| name.captures_iter(cell.get(1).map_or("", |c| c.as_str())))
        .map(|found| found[1].to_owned())
        .collect();
    assert_eq!(
        told, wanted,
        "README.md, table of variables (left) and sources (right)"
    );
}

/// Commands of the program itself, such as the stand-ins' processes, are hidden.
#[test]
fn the_table_of_commands_has_those_that_are_typed_alone() {
    let table = commands::other_commands(&[SandboxCommand::command()]);
    for row in [
        "| **`fedgate-sandbox prepare`** | | | Get the executables",
        "| `--project` | – | `alpha`, `beta` | A project plane; may be repeated. |",
    ] {
        assert!(table.contains(row), "{row} is missing in {table}");
    }
    for hidden in ["supervise", "standin", "`fedgate-sandbox hold`", "demonstrate"] {
        assert!(!table.contains(hidden), "{table}");
    }
}
