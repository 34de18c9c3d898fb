//! The tree and the table of a trace.

use super::{
    super::trace::{next_change, path, table, tree},
    Command,
    documents::trace,
    plain, read,
};
use crate::client::args::ListFormat;
use clap::Parser;
use fedgate_operations::{Answer, Trace};
use serde_json::json;
use std::time::Duration;
use tree::Drawing;

const PLAIN: Drawing = Drawing {
    is_utf8: true,
    color: false,
};

#[test]
fn the_tree_has_a_line_for_each_city_up_to_its_first_broken_hop() {
    let text = tree::text(&read(trace()), PLAIN);
    assert_eq!(
        text,
        "\
shop-prod default/web                                            broken at us/IAD: cell
├─ us/DFW  project gen 4 ── hub gen 4 ── binding ok ── cell dfw-1 gen 4 ── 2/2 ready ── 2/2 projected     ok
└─ us/IAD  project gen 4 ── hub gen 4 ── binding ok ── cell pop-iad gen 3 ✗ 6m  ClusterNotReachable
   next: check the cell pop-iad: fedgate stuck --cell pop-iad
"
    );
}

#[test]
fn a_terminal_without_utf8_gets_ascii_alone() {
    let drawing = Drawing {
        is_utf8: false,
        ..PLAIN
    };
    let text = tree::text(&read(trace()), drawing);
    assert!(text.is_ascii(), "{text}");
    assert!(
        text.contains("|- us/DFW  project gen 4 -- hub gen 4 -- binding ok"),
        "{text}"
    );
    assert!(
        text.contains("+- us/IAD") && text.contains("gen 3 x 6m  ClusterNotReachable"),
        "{text}"
    );
    for (locale, is_utf8) in [
        ("C.UTF-8", true),
        ("de_DE.utf8", true),
        ("C", false),
        ("en_US.ISO-8859-1", false),
    ] {
        assert_eq!(tree::is_utf8(locale), is_utf8, "{locale}");
    }
}

#[test]
fn the_words_of_a_server_do_not_reach_the_terminal_as_they_are() {
    let mut hostile = trace();
    let evil = "\u{1b}[2J\n└─ us/LHR  ok\u{202e}";
    hostile["branches"][1]["hops"][3]["detail"] = json!(evil);
    hostile["branches"][1]["hops"][3]["object"] = json!(evil);
    hostile["branches"][1]["city"] = json!(evil);
    hostile["firstBroken"]["city"] = json!(evil);
    hostile["firstBroken"]["next"] = json!(evil);
    hostile["object"]["name"] = json!(evil);
    let document: Answer<Trace> = read(hostile);
    for text in [
        tree::text(&document, PLAIN),
        table::text(&document, plain(ListFormat::Wide)),
    ] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    }
    assert_eq!(tree::text(&document, PLAIN).lines().count(), 4);
}

#[test]
fn a_moving_way_shows_all_hops_and_where_it_waits() {
    let mut moving = trace();
    moving["verdict"] = json!("moving");
    moving.as_object_mut().unwrap().remove("firstBroken");
    moving["branches"][1]["hops"][3]["state"] = json!("waiting");
    moving["branches"][1]["hops"][0] =
        json!({"hop": "project", "plane": "project", "state": "unseen", "source": "project"});
    let text = tree::text(&read(moving.clone()), PLAIN);
    assert!(
        text.starts_with("shop-prod default/web                                            moving\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "└─ us/IAD  project unseen ── hub gen 4 ── binding ok ── cell pop-iad gen 3 waiting 6m  ClusterNotReachable ── 2/2 ready waiting 6m  still on generation 3 ── 2/2 projected\n"
        ),
        "{text}"
    );
    let document: Answer<Trace> = read(moving.clone());
    assert_eq!(
        next_change(&document.body, document.header.as_of),
        None,
        "both are past the limit"
    );
    moving["branches"][1]["hops"][3]["since"] = json!("2026-12-01T09:59:00.000Z");
    let document: Answer<Trace> = read(moving);
    let left = next_change(&document.body, document.header.as_of);
    assert_eq!(left, Some(Duration::from_secs(60)));
}

#[test]
fn the_table_has_the_columns_of_kubectl_compute_trace() {
    let document: Answer<Trace> = read(trace());
    let narrow = table::text(&document, plain(ListFormat::Table));
    let lines: Vec<&str> = narrow.lines().collect();
    assert_eq!(lines[0], "CITY   HOP          OBJECT    STATE     AGE   DETAIL");
    assert_eq!(
        lines[10],
        "IAD    cell         pop-iad   broken    6m    ClusterNotReachable"
    );
    let wide = table::text(&document, plain(ListFormat::Wide));
    assert!(
        wide.lines()
            .nth(10)
            .unwrap()
            .ends_with("us          4       3     hub"),
        "{wide}"
    );
}

#[test]
fn names_are_encoded_in_the_path() {
    let words = ["fedgate", "trace", "a/b c", "ns/we?b"];
    let Ok(Command::Trace(args)) = Command::try_parse_from(words) else {
        panic!("not understood")
    };
    assert_eq!(path(&args, "workloads"), "/trace/a%2Fb%20c/ns/workloads/we%3Fb");
}
