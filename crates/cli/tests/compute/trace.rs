//! `trace`, `status` and watches.

use crate::{
    cells,
    project::{NAMESPACE, Project},
};
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};

/// A project with a Workload of one city, whose gateway and cell have brought it where it should be.
async fn whole() -> Project {
    let project = Project::start("shop").await;
    project.workload("web", "nginx", &["DFW"]);
    cells::pass(&project.plane);
    project
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_asks_the_project_alone() {
    let shop = whole().await;
    let seen = shop.run(&["trace", "web", "-o", "wide"]).await.ok();
    let rows: Vec<Vec<&str>> = seen
        .stdout
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let hops: Vec<(&str, &str)> = rows[..6]
        .iter()
        .map(|row| (row[1], *row.last().unwrap()))
        .collect();
    assert_eq!(
        hops,
        [
            ("project", "project"),
            ("hub", "project"),
            ("binding", "inferred"),
            ("cell", "project"),
            ("instances", "project"),
            ("projection", "project")
        ]
    );
    assert_eq!(seen.stdout.lines().last(), Some("Whole."));
    assert_eq!(
        shop.planes(),
        ["shop".to_owned()].into(),
        "no request to another plane"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_names_the_first_broken_link_by_its_exit_code_and_as_an_object() {
    let shop = whole().await;
    let edit = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    shop.plane.merge("Workload", NAMESPACE, "web", edit).unwrap();
    // The simulator's objects are of the first of January.
    let moving = shop.run(&["trace", "web", "--stuck-after", "90000h"]).await;
    assert_eq!(moving.code, 7, "{}{}", moving.stdout, moving.stderr);
    assert!(
        moving
            .stdout
            .lines()
            .last()
            .unwrap()
            .starts_with("Moving: us/DFW waits at project"),
        "{}",
        moving.stdout
    );
    assert_eq!(moving.stderr, "");
    let broken = shop
        .run(&["trace", "web", "--stuck-after", "0s", "-o", "json"])
        .await;
    assert_eq!((broken.code, &*broken.stderr), (9, ""));
    let trace: Value = serde_json::from_str(&broken.stdout).unwrap();
    assert_eq!(
        (
            &trace["kind"],
            &trace["state"],
            &trace["cities"][0]["hops"][0]["state"]
        ),
        (&json!("Trace"), &json!("Broken"), &json!("broken"))
    );
    cells::pass(&shop.plane);
    shop.run(&["trace", "web"]).await.ok();
    let seen = shop.run(&["trace", "web", "--city", "LHR"]).await;
    assert_eq!(seen.code, 3);
    assert!(seen.stderr.contains("it has us/DFW"), "{}", seen.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_watches_ends_when_all_is_whole() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let mut watch = shop.start_run(&["trace", "web", "-w"]);
    assert!(watch.line().await.starts_with("CITY"));
    cells::pass(&shop.plane);
    let seen = watch.end().await.ok();
    assert!(seen.stdout.ends_with("Whole.\n"), "{}", seen.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_watched_is_shown_at_each_change() {
    let mut shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let mut watch = shop.start_run(&["status", "web", "-w", "-o", "json"]);
    let first = watch.json().await;
    assert_eq!(first["cities"][0]["phase"], "Waiting");
    shop.cells();
    loop {
        let seen = watch.json().await;
        if seen["cities"][0]["phase"] == "Done" {
            break;
        }
    }
    assert_eq!(watch.interrupt().await.code, 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_shows_the_revision_and_its_author() {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&["deploy", "web", "--image", "nginx", "--city", "DFW"])
        .await
        .ok();
    let seen = shop.run(&["status", "web"]).await.ok().stdout;
    assert!(seen.contains("Revision  #1 by unknown "), "{seen}");
    let edit = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    shop.plane.merge("Workload", NAMESPACE, "web", edit).unwrap();
    let seen = shop.run(&["status", "web"]).await.ok().stdout;
    assert!(
        seen.contains("Revision  changed outside of this command by unknown"),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_survives_a_watch_that_is_cut_and_a_version_that_is_gone() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let mut wait = shop.start_run(&["rollout", "status", "web", "--timeout", "60s"]);
    assert_eq!(wait.remark().await, "Rolling out workload \"web\"");
    assert!(wait.remark().await.ends_with("us/DFW Waiting no deployment yet"));
    let gone = Rule::new(When::Nth(1), Fault::Gone).verb(Verb::Watch);
    let gone = shop.faults.add(gone);
    shop.plane.close_watches(None);
    cells::pass(&shop.plane);
    assert!(wait.end().await.ok().stderr.contains("Rollout complete in "));
    assert_eq!(shop.faults.hits(gone), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_ends_a_wait_after_one_attempt() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let refused = Rule::new(When::Always, Fault::Forbidden).kind("workloaddeployments");
    let rule = shop.faults.add(refused);
    let seen = shop.run(&["rollout", "status", "web"]).await;
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    assert!(
        seen.stderr
            .contains("you may not list workloaddeployments in namespace default"),
        "{}",
        seen.stderr
    );
    assert_eq!(shop.faults.hits(rule), 1);
}
