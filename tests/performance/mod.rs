//! docs/performance has the results of benches. The tables of docs/performance.md and the pictures are drawn from these results;
//! `make docs` draws them anew.

mod picture;
mod table;

use serde_json::Value;
use std::fs;

/// The results of a bench.
fn results(bench: &str) -> Value {
    let path = super::root().join(format!("docs/performance/{bench}.json"));
    let text = fs::read(path).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn tables_and_pictures_show_the_results_of_the_benches() {
    super::check(
        "../performance/latency.svg",
        &picture::latencies(&results("planes")),
    );
    let path = super::root().join("docs/performance.md");
    let mut text = fs::read_to_string(path).unwrap();
    for bench in ["planes", "cells"] {
        text = table::replaced(&text, bench, &results(bench));
    }
    super::check("../performance.md", &text);
}
