//! The output and the exit codes of the commands for canned answers.

mod documents;
mod trace;

use super::{
    journal::{self, Seen},
    output::Output,
    status, stuck,
};
use crate::client::args::{JournalArgs, ListFormat, StatusArgs, StuckArgs, TraceArgs};
use clap::Parser;
use documents::{journal, overview, stuck as stuck_document};
use fedgate_operations::{Answer, Journal, Overview, Stuck};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The commands with their arguments.
#[derive(Parser)]
enum Command {
    Status(StatusArgs),
    Stuck(StuckArgs),
    Trace(TraceArgs),
    Journal(JournalArgs),
}

/// The document of an answer.
fn read<T: DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).unwrap()
}

/// The form of a table without colours.
fn plain(format: ListFormat) -> Output {
    Output {
        format,
        headers: true,
        color: false,
    }
}

fn status_of(document: Value) -> (String, u8) {
    let document: Answer<Overview> = read(document);
    let exit = status::verdict(&document).map_or_else(|error| error.kind.exit(), |()| 0);
    (status::render(&document, plain(ListFormat::Table)), exit)
}

#[test]
fn the_status_has_a_line_for_each_subject_the_worst_first() {
    let (text, exit) = status_of(overview());
    assert_eq!(
        text,
        "\
SUBJECT     STATE     AGE   DETAIL                                                   NEXT
plane hub   broken    6m    1: unreachable                                           check clusters[].cluster.server
hub         broken    6m    backoff, last event 7m ago                               -
projects    broken    -     9998 engaged, 8 in backoff, 2 refused                    -
cells       waiting   -     40 ready, 1 being drained, 1 not ready                   kubectl get clusters.cluster.karmada.io, on the hub
delivery    waiting   1h    3 project_to_hub, 17 hub_to_cell of 100000 deployments   -
stuck       waiting   -     2 quarantined, 4 retrying                                fedgate stuck
instances   waiting   -     299871 of 300000 ready, 299990 updated                   -
deletions   waiting   20m   1 pending                                                -
replica     ok        1d    fedgate-gateway-7c9d-x2x, leader, version 0.2.0          -
"
    );
    assert_eq!(exit, 9);
}

#[test]
fn the_status_exits_with_the_worst_of_broken_syncing_and_well() {
    let mut document = overview();
    document["health"] = json!({"state": "syncing", "reasons": []});
    document["complete"] = json!(false);
    document["missing"] = json!(["hub: workloaddeployments"]);
    let (text, exit) = status_of(document.clone());
    assert_eq!(exit, 7);
    assert!(
        text.contains("version 0.2.0, reads hub: workloaddeployments"),
        "{text}"
    );
    document["health"]["state"] = json!("ok");
    assert_eq!(status_of(document.clone()).1, 7, "first lists are read");
    document["complete"] = json!(true);
    assert_eq!(status_of(document.clone()).1, 0);
    for (class, wanted) in [("plane", 9), ("right", 9), ("brake", 9), ("retrying", 0)] {
        let reason = json!({"class": class, "plane": "hub", "word": "w", "count": 1, "next": "n"});
        document["health"]["reasons"] = json!([reason]);
        assert_eq!(status_of(document.clone()).1, wanted, "{class}");
    }
}

#[test]
fn a_cell_has_no_lines_of_projects_and_cells() {
    let mut document = overview();
    for field in ["projects", "cells", "hub"] {
        document.as_object_mut().unwrap().remove(field);
    }
    let (text, _) = status_of(document);
    assert!(!text.contains("projects") && !text.contains("\ncells"), "{text}");
}

#[test]
fn a_standby_without_a_leader_is_broken_and_names_a_hub_that_is_down() {
    let mut document = overview();
    document["health"] = json!({"state": "ok", "reasons": []});
    document["replica"] = json!({"identity": "b", "role": "standby", "version": "1", "revision": "r", "startedAt": "2026-12-01T10:00:00.000Z"});
    let since = "2026-12-01T09:54:00.000Z";
    let outages = [
        (
            json!({"state": "backoff", "since": since}),
            "standby without a leader: the hub is unreachable, version 1",
            "FedgateHubDisconnected",
        ),
        (
            json!({"state": "unauthorized", "since": since}),
            "standby without a leader: the hub rejects the credential, version 1",
            "FedgateHubDisconnected",
        ),
        // Some of its watches fail.
        (
            json!({"state": "backoff"}),
            "standby, no replica leads, version 1",
            "FedgateNoLeader",
        ),
        (
            json!({"state": "connected", "since": since}),
            "standby, no replica leads, version 1",
            "FedgateNoLeader",
        ),
    ];
    for (hub, words, runbook) in outages {
        document["hub"] = hub;
        let (text, exit) = status_of(document.clone());
        let line = text.lines().find(|line| line.starts_with("replica")).unwrap();
        assert!(line.starts_with("replica     broken    0s    b, "), "{text}");
        let next = format!("docs/runbooks/{runbook}.md");
        assert!(line.contains(words) && line.ends_with(&next), "{text}");
        assert_eq!(exit, 9, "{text}");
    }
    document["complete"] = json!(false);
    assert_eq!(
        status_of(document.clone()).1,
        7,
        "a start takes the Lease at its end"
    );
    document["complete"] = json!(true);
    document["replica"]["leader"] = json!("a");
    assert_eq!(status_of(document).1, 0, "another replica leads");
}

#[test]
fn stuck_groups_are_rows_and_their_items_the_wide_form() {
    let document: Answer<Stuck> = read(stuck_document());
    assert_eq!(
        stuck::render(&document, plain(ListFormat::Table)),
        "\
CLASS      PLANE     WORD     COUNT   OLDEST   NEXT
retrying   hub       server   412     11m      see the hub's API server's log
deleting   project   dfw-1    1       -        fedgate stuck --cell dfw-1
"
    );
    assert_eq!(
        stuck::render(&document, plain(ListFormat::Wide)),
        "\
CLASS      PLANE     WORD     PROJECT     OBJECT                                   CELL    AGE    ATTEMPTS   NEXT TRY   MESSAGE
retrying   hub       server   shop-prod   workloaddeployments default/web-us-iad   -       11m    11         in 30s     apply: \\u{1b}[31metcdserver: request timed out
deleting   project   dfw-1    shop-prod   workloads default/api                    dfw-1   >20m   -          -          -
"
    );
    assert_eq!(
        stuck::render(&document, plain(ListFormat::Name)),
        "shop-prod default/web-us-iad\nshop-prod default/api\n"
    );
    let empty: Answer<Stuck> = read(documents::answer("Stuck", json!({"groups": []})));
    assert_eq!(stuck::render(&empty, plain(ListFormat::Table)), "");
}

#[test]
fn only_the_words_have_colours() {
    let document: Answer<Stuck> = read(stuck_document());
    let output = Output {
        color: true,
        headers: false,
        ..plain(ListFormat::Table)
    };
    let text = stuck::render(&document, output);
    assert!(text.starts_with("\u{1b}[31mretrying\u{1b}[0m   hub "), "{text:?}");
    assert!(
        text.contains("\u{1b}[33mdeleting\u{1b}[0m   project "),
        "{text:?}"
    );
}

#[test]
fn the_latest_write_is_the_last_row() {
    let document: Answer<Journal> = read(journal());
    let rows: Vec<_> = document.body.items.iter().rev().collect();
    let text = |format| journal::text(&rows, plain(format), true, &mut Vec::new());
    assert_eq!(
        text(ListFormat::Table),
        "\
TIME                       PLANE     VERB    OBJECT                                                         REASON         RESULT
2026-12-01T09:59:00.000Z   project   patch   workloads.compute.datumapis.com default/web                    status         conflict
2026-12-01T09:59:58.000Z   hub       apply   workloaddeployments.compute.datumapis.com ns-6d1f/web-us-dfw   spec changed   ok
"
    );
    assert!(
        text(ListFormat::Wide).contains("shop-prod   9ms    -\n"),
        "{}",
        text(ListFormat::Wide)
    );
}

#[test]
fn a_write_is_printed_once_and_those_of_the_next_process_follow() {
    let numbers =
        |rows: Vec<&fedgate_operations::JournalRow>| rows.iter().map(|row| row.seq).collect::<Vec<_>>();
    let mut seen = Seen::default();
    let first: Answer<Journal> = read(journal());
    assert_eq!(numbers(seen.new_rows(&first)), [99_119, 99_120]);
    assert_eq!(numbers(seen.new_rows(&first)), [0_u64; 0]);
    let mut next = journal();
    next["replica"]["identity"] = json!("fedgate-gateway-b");
    next["items"] = json!([
        documents::write(2, "2026-12-01T10:00:03.000Z"),
        documents::write(1, "2026-12-01T09:59:57.000Z"),
    ]);
    let next: Answer<Journal> = read(next);
    let mut after_change = Seen::default();
    after_change.new_rows(&first);
    after_change.begin_another();
    assert_eq!(
        numbers(after_change.new_rows(&next)),
        [2],
        "its first write is older than the last one printed"
    );
}

#[test]
fn the_arguments_of_all_commands_are_understood() {
    for (line, is_ok) in [
        ("status", true),
        ("status --cell -w", true),
        ("status -o tree", false),
        ("status --timeout 0", false),
        ("status --server http://localhost:8080 --context c", false),
        ("stuck --cell dfw-1 --class unavailable --for 5m", true),
        ("stuck --cell", true),
        ("stuck --class nonsense", false),
        ("trace shop default/web -o wide --kind instances", true),
        ("trace shop web", false),
        ("trace shop a/b/c", false),
        ("journal --object default/web -f --no-headers --color never", true),
    ] {
        let words = std::iter::once("fedgate").chain(line.split(' '));
        assert_eq!(Command::try_parse_from(words).is_ok(), is_ok, "{line}");
    }
}
