//! `rollout status`, `status -w` and waits while something happens.

use crate::{
    cells,
    project::{NAMESPACE, Project, Running},
};
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::time::Duration;

/// The longest wait for a change; a run that hangs must end the test.
const LIMIT: Duration = Duration::from_secs(60);

const WEB: [&str; 6] = ["deploy", "web", "--image", "web:1", "--city", "DFW"];
const DEPLOYMENT: &str = "WorkloadDeployment";
const MAP: &str = "compute-revisions.web";

/// The first object of a watch that has a state.
async fn until(watch: &mut Running, is: impl Fn(&Value) -> bool) -> Value {
    let found = async {
        loop {
            let seen = watch.json().await;
            if is(&seen) {
                return seen;
            }
        }
    };
    tokio::time::timeout(LIMIT, found).await.unwrap()
}

/// Writes the status that the cell of the only deployment reports, for its present generation.
fn report(shop: &Project, updated: u32, ready: u32, available: (&str, &str)) {
    let live = shop.plane.get(DEPLOYMENT, NAMESPACE, "web-us-dfw").unwrap();
    let (status, reason) = available;
    let condition = json!({"type": "Available", "status": status, "reason": reason, "message": "",
        "observedGeneration": live["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let counts = json!({"replicas": 2, "currentReplicas": updated, "updatedReplicas": updated, "readyReplicas": ready,
        "desiredReplicas": 2, "conditions": [condition]});
    shop.status(DEPLOYMENT, "web-us-dfw", &counts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_without_placements_is_done_at_once() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &[]);
    for words in [
        &["rollout", "status", "web", "-w=false"][..],
        &["rollout", "status", "web"],
    ] {
        let run = tokio::time::timeout(LIMIT, shop.run(words)).await;
        run.unwrap().ok();
    }
    let seen = shop.run(&["rollout", "status", "web", "-o", "json"]).await.ok();
    let status: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(
        (&status["kind"], &status["rows"]),
        (&json!("RolloutStatus"), &json!([]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_shows_a_dip_of_updated_instances_and_ends_when_all_are_replaced() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    cells::pass(&shop.plane);
    let mut status = shop.start_run(&["rollout", "status", "web", "-o", "json"]);
    assert_eq!(status.json().await["rows"][0]["phase"], "Done");
    status.end().await.ok();
    shop.run(&["rollout", "restart", "web", "--wait=false"])
        .await
        .ok();
    let mut status = shop.start_run(&["rollout", "status", "web", "-o", "json"]);
    let row = |status: &Value| {
        let row = &status["rows"][0];
        (
            row["phase"].as_str().unwrap().to_owned(),
            row["updated"].as_i64().unwrap(),
        )
    };
    let texts = |phase: &str, updated: i64| (phase.to_owned(), updated);
    assert_eq!(row(&status.json().await), texts("Waiting", 2));
    let workload = shop.plane.get("Workload", NAMESPACE, "web").unwrap();
    let template = json!({"spec": {"template": workload["spec"]["template"]}});
    shop.plane
        .merge(DEPLOYMENT, NAMESPACE, "web-us-dfw", template)
        .unwrap();
    assert_eq!(
        status.json().await["rows"][0]["detail"],
        "the cell has not acted yet"
    );
    for (updated, phase) in [(0, "Pending"), (1, "Updating")] {
        report(&shop, updated, 2, ("True", "Ready"));
        let seen = until(&mut status, |seen| row(seen).0 != "Waiting").await;
        assert_eq!(row(&seen), texts(phase, i64::from(updated)));
        let list = shop.run(&["workloads", "--no-headers"]).await.ok().stdout;
        assert!(list.contains(&format!("{updated}/2")), "{list}");
    }
    report(&shop, 2, 2, ("True", "Ready"));
    assert_eq!(row(&status.json().await), texts("Done", 2));
    let end = status.end().await.ok();
    assert_eq!((&*end.stdout, &*end.stderr), ("", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_in_yaml_is_a_document_for_each_change() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let mut status = shop.start_run(&["rollout", "status", "web", "-o", "yaml"]);
    assert_eq!(status.line().await, "---");
    cells::pass(&shop.plane);
    let end = tokio::time::timeout(LIMIT, status.end()).await.unwrap().ok();
    let documents: Vec<&str> = end.stdout.split("---\n").collect();
    assert!(documents.len() > 1, "{}", end.stdout);
    let last: Value = serde_saphyr::from_str(documents.last().unwrap()).unwrap();
    assert_eq!(last["rows"][0]["phase"], "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_rollout_has_a_header_with_the_revisions() {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&WEB).await.ok();
    shop.run(&["deploy", "web", "--env", "A=1"]).await.ok();
    let seen = shop.run(&["rollout", "status", "web"]).await.ok();
    assert!(
        seen.stderr
            .starts_with("Rolling out workload \"web\"  rev #1 -> #2\n"),
        "{}",
        seen.stderr
    );
    let edit = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    shop.plane.merge("Workload", NAMESPACE, "web", edit).unwrap();
    let seen = shop.run(&["rollout", "status", "web"]).await.ok();
    assert!(
        seen.stderr.starts_with("Rolling out workload \"web\"\n"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_watched_shows_the_author_once_the_revision_is_recorded() {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&WEB).await.ok();
    let before = shop.plane.get("ConfigMap", NAMESPACE, MAP).unwrap();
    shop.run(&["deploy", "web", "--env", "A=1"]).await.ok();
    let after = shop.plane.get("ConfigMap", NAMESPACE, MAP).unwrap();
    // The spec is written before its revision.
    let unrecorded = json!({"metadata": {"annotations": before["metadata"]["annotations"]},
        "data": {"rev-000002": null}});
    shop.plane.merge("ConfigMap", NAMESPACE, MAP, unrecorded).unwrap();
    let mut watch = shop.start_run(&["status", "web", "-w", "-o", "json"]);
    assert_eq!(watch.json().await["revision"]["number"], Value::Null);
    let recorded =
        json!({"metadata": {"annotations": after["metadata"]["annotations"]}, "data": after["data"]});
    shop.plane.merge("ConfigMap", NAMESPACE, MAP, recorded).unwrap();
    until(&mut watch, |seen| seen["revision"]["number"] == 2).await;
    assert_eq!(watch.interrupt().await.code, 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_whose_history_is_refused_is_watched_without_it() {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&WEB).await.ok();
    shop.faults
        .add(Rule::new(When::Always, Fault::Forbidden).kind("configmaps"));
    let mut watch = shop.start_run(&["status", "web", "-w", "-o", "json"]);
    let seen = until(&mut watch, |_| true).await;
    assert_eq!(
        (&seen["revision"], &seen["cities"][0]["phase"]),
        (&Value::Null, &json!("Done"))
    );
    assert_eq!(watch.interrupt().await.code, 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_says_nothing_before_all_kinds_were_listed() {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&WEB).await.ok();
    let slow = Rule::new(When::Nth(1), Fault::Unavailable)
        .kind("workloads")
        .verb(Verb::List);
    let slow = shop.faults.add(slow);
    let mut watch = shop.start_run(&["status", "web", "-w", "-o", "json"]);
    let seen = until(&mut watch, |_| true).await;
    assert_eq!(
        (&seen["revision"]["number"], shop.faults.hits(slow)),
        (&json!(1), 1)
    );
    assert_eq!(watch.interrupt().await.code, 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_another_user_overtakes_names_the_revision() {
    let shop = Project::start("shop").await;
    let wait = shop.start_run(&WEB);
    shop.until("ConfigMap", MAP, |map| map.is_some()).await;
    shop.run(&["scale", "web", "--min", "3", "--wait=false"])
        .await
        .ok();
    let seen = tokio::time::timeout(LIMIT, wait.end()).await.unwrap();
    assert_eq!(seen.code, 5, "{}", seen.stderr);
    let line = "error: workload \"web\" changed meanwhile (rev #2 by unknown)\n  next: kubectl compute rollout history web\n";
    assert!(seen.stderr.ends_with(line), "{}", seen.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_survives_a_version_that_expires_in_the_stream() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let mut wait = shop.start_run(&["rollout", "status", "web", "--timeout", "60s"]);
    assert_eq!(wait.remark().await, "Rolling out workload \"web\"");
    assert!(wait.remark().await.ends_with("us/DFW Waiting no deployment yet"));
    let kinds = ["Workload", DEPLOYMENT, "Instance"];
    for kind in kinds {
        shop.plane.pause_watches(kind);
    }
    cells::pass(&shop.plane);
    shop.plane.gone_in_stream(true);
    shop.plane.compact();
    shop.plane.close_watches(None);
    for kind in kinds {
        shop.plane.resume_watches(kind);
    }
    let end = tokio::time::timeout(LIMIT, wait.end()).await.unwrap().ok();
    assert!(end.stderr.contains("us/DFW Done "), "{}", end.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_city_that_no_location_serves_is_named() {
    let shop = Project::start("shop").await;
    shop.plane.define_plain(
        "networking.datumapis.com",
        "v1alpha",
        "Location",
        "locations",
        true,
        true,
    );
    shop.create(
        json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Location",
        "metadata": {"name": "us-south-1", "namespace": NAMESPACE},
        "spec": {"topology": {fedgate_api::keys::CITY_CODE: "DFW"}}}),
    );
    shop.workload("web", "nginx", &["DFW", "XYZ"]);
    cells::pass(&shop.plane);
    shop.plane.delete(DEPLOYMENT, NAMESPACE, "web-us-xyz").unwrap();
    let once = ["rollout", "status", "web", "-w=false"];
    let early = shop.run(&once).await;
    assert_eq!(early.code, 7, "its controller has not acted: {}", early.stderr);
    let live = shop.plane.get("Workload", NAMESPACE, "web").unwrap();
    shop.status(
        "Workload",
        "web",
        &json!({"observedGeneration": live["metadata"]["generation"]}),
    );
    let seen = shop.run(&once).await;
    let text = "no deployment for city XYZ; no location serves it";
    assert_eq!(seen.code, 9, "{}", seen.stderr);
    assert_eq!(
        seen.stderr,
        format!("error: {text}\n  next: kubectl compute trace web --city XYZ\n")
    );
    assert!(seen.stdout.contains(text), "{}", seen.stdout);
    let seen = shop.run(&["workloads", "describe", "web"]).await.ok().stdout;
    assert!(seen.contains(&format!("XYZ  0/2  Blocked - {text}")), "{seen}");
    assert!(
        seen.contains("  kubectl compute trace web --city XYZ\n"),
        "{seen}"
    );
    let seen = shop.run(&["status", "web"]).await.ok().stdout;
    assert!(seen.contains(text), "{seen}");
}
