//! The tables of README.md are what the executable says. `make manifests` writes them anew.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::expect_used)]

use fedgate::{config::flags_markdown, metrics::Metrics};
use std::path::Path;

/// Replaces what stands between `<!-- begin: <name> -->` and `<!-- end: <name> -->`.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let (begin, end) = (
        format!("<!-- begin: {name} -->\n"),
        format!("<!-- end: {name} -->"),
    );
    let (before, rest) = text
        .split_once(&begin)
        .expect("README.md has the mark that begins the table");
    let (_, after) = rest
        .split_once(&end)
        .expect("README.md has the mark that ends the table");
    format!("{before}{begin}{}\n{end}{after}", table.trim_end())
}

#[test]
fn tables_are_those_of_the_executable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let metrics = Metrics::new().unwrap().markdown();
    let wanted = with_table(
        &with_table(&text, "flags", &flags_markdown()),
        "metrics",
        &metrics,
    );
    if std::env::var_os("FEDGATE_WRITE_README").is_some() {
        std::fs::write(&path, wanted).unwrap();
    } else {
        assert!(text == wanted, "README.md is out of date: run `make manifests`");
    }
}
