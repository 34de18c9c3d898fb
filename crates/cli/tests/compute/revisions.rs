//! Revisions: recorded, shown, undone.

use crate::project::{NAMESPACE, Project, Seen};
use serde_json::{Value, json};

const MAP: &str = "compute-revisions.web";
const STAMP: &str = "/spec/template/metadata/annotations/compute.datumapis.com~1restartedAt";

/// A project whose Workload was not made by this command.
async fn foreign() -> Project {
    let shop = Project::start("shop").await;
    shop.workload("web", "ghcr.io/acme/web:1", &["DFW"]);
    shop
}

/// Runs a command that changes something, and does not wait.
async fn change(shop: &Project, words: &[&str]) -> Seen {
    shop.run(&[words, &["--wait=false", "--yes"]].concat()).await
}

async fn verbs(shop: &Project) -> Vec<(u64, String)> {
    let seen = shop.run(&["rollout", "history", "web", "-o", "json"]).await.ok();
    let history: Value = serde_json::from_str(&seen.stdout).unwrap();
    let revisions = history["revisions"].as_array().unwrap().iter();
    revisions
        .map(|r| (r["rev"].as_u64().unwrap(), r["verb"].as_str().unwrap().to_owned()))
        .collect()
}

fn spec(shop: &Project) -> Value {
    shop.plane.get("Workload", NAMESPACE, "web").unwrap()["spec"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_change_of_a_workload_that_others_made_can_be_undone() {
    let shop = foreign().await;
    let before = spec(&shop);
    let seen = change(&shop, &["scale", "web", "--min", "5"]).await.ok();
    assert_eq!(
        seen.stdout,
        "workload.compute.datumapis.com/web configured (rev #2)\n"
    );
    let seen = change(&shop, &["rollout", "undo", "web"]).await.ok();
    assert!(
        seen.stderr.starts_with("#1 -> #3\n"),
        "the revision that is copied, and the new one: {}",
        seen.stderr
    );
    assert_eq!(spec(&shop), before);
    let all = [(3, "undo"), (2, "scale"), (1, "observed")];
    assert_eq!(verbs(&shop).await, all.map(|(rev, verb)| (rev, verb.to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_and_restart_list_nothing_for_a_plan_that_is_not_shown() {
    let shop = foreign().await;
    for words in [&["scale", "web", "--min", "5"][..], &["restart", "web"]] {
        let lists = shop.lists();
        change(&shop, words).await.ok();
        assert_eq!(shop.lists() - lists, 1, "{words:?}: the entitlements");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_refuses_what_it_cannot_do() {
    let shop = foreign().await;
    let refused = async |words: &[&str], code: i32, part: &str| {
        let writes = shop.writes();
        let seen = change(&shop, words).await;
        assert_eq!(seen.code, code, "{words:?}: {}", seen.stderr);
        assert!(seen.stderr.contains(part), "{words:?}: {}", seen.stderr);
        assert_eq!(shop.writes(), writes, "{words:?}");
    };
    let undo = ["rollout", "undo", "web"];
    let to = |number| ["rollout", "undo", "web", "-q", "--to-revision", number];
    refused(&undo, 3, "workload \"web\" has no history").await;
    change(&shop, &["scale", "web", "--min", "3"]).await.ok();
    refused(&to("9"), 3, "revision #9 not found (kept: #1..#2)").await;
    refused(&to("2"), 0, "Already at revision #2.\n").await;
    let data = json!({"data": {"rev-000001": null}});
    shop.plane.merge("ConfigMap", NAMESPACE, MAP, data).unwrap();
    refused(&undo, 3, "workload \"web\" has no earlier revision").await;
    let large = "x".repeat(310 << 10);
    let large = json!({"spec": {"template": {"metadata": {"annotations": {"note": large}}}}});
    shop.plane.merge("Workload", NAMESPACE, "web", large).unwrap();
    change(&shop, &["scale", "web", "--min", "4"]).await.ok();
    let all = [(4, "scale"), (3, "observed"), (2, "scale")];
    assert_eq!(verbs(&shop).await, all.map(|(rev, verb)| (rev, verb.to_owned())));
    refused(&to("3"), 3, "revision #3 is too large to undo").await;
    refused(&to("4"), 0, "Already at revision #4.").await;
    let table = shop.run(&["rollout", "history", "web"]).await.ok().stdout;
    assert_eq!(table.matches("(too large to undo)").count(), 2, "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_restarts_in_a_second_are_two_stamps_and_two_revisions() {
    let shop = foreign().await;
    let stamp = |shop: &Project| spec(shop).pointer(&STAMP["/spec".len()..]).unwrap().clone();
    change(&shop, &["restart", "web"]).await.ok();
    let first = stamp(&shop);
    change(&shop, &["rollout", "restart", "web"]).await.ok();
    assert_ne!(first, stamp(&shop));
    // The clock of the last restart may be ahead.
    let ahead = json!({"spec": {"template": {"metadata": {"annotations":
        {"compute.datumapis.com/restartedAt": "2099-01-01T00:00:00Z"}}}}});
    shop.plane.merge("Workload", NAMESPACE, "web", ahead).unwrap();
    change(&shop, &["restart", "web"]).await.ok();
    assert_eq!(stamp(&shop), "2099-01-01T00:00:01Z");
    let all = verbs(&shop).await;
    let words: Vec<&str> = all.iter().map(|(_, verb)| verb.as_str()).collect();
    assert_eq!(words, ["restart", "observed", "restart", "restart", "observed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_nobody_has_given_are_ignored() {
    let shop = foreign().await;
    change(&shop, &["scale", "web", "--min", "3"]).await.ok();
    let largest = u64::MAX.to_string();
    let bad = json!({"metadata": {"annotations": {"fedgate.dev/last-revision": largest}},
        "data": {format!("rev-{largest}"): "{}"}});
    shop.plane.merge("ConfigMap", NAMESPACE, MAP, bad).unwrap();
    let seen = change(&shop, &["scale", "web", "--min", "4"]).await.ok();
    assert_eq!(
        seen.stdout,
        "workload.compute.datumapis.com/web configured (rev #3)\n"
    );
    change(&shop, &["rollout", "undo", "web"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_revision_has_all_its_fields() {
    let shop = foreign().await;
    change(&shop, &["scale", "web", "--min", "3"]).await.ok();
    let words = ["rollout", "history", "web", "--revision", "2"];
    let seen = shop.run(&[&words[..], &["-o", "json"]].concat()).await.ok();
    let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(
        (&seen["apiVersion"], &seen["kind"], &seen["metadata"]["name"]),
        (&json!("cli.fedgate.dev/v1"), &json!("History"), &json!("web"))
    );
    let revisions = seen["revisions"].as_array().unwrap();
    assert_eq!((revisions.len(), &revisions[0]["rev"]), (1, &json!(2)));
    assert_eq!(revisions[0]["image"], "ghcr.io/acme/web:1");
    let text = shop.run(&words).await.ok().stdout;
    let hash = revisions[0]["specHash"].as_str().unwrap();
    assert!(
        text.contains(hash) && text.contains("ghcr.io/acme/web:1"),
        "{text}"
    );
    let table = shop.run(&["rollout", "history", "web"]).await.ok().stdout;
    assert!(
        table.contains(" acme/web:1") && !table.contains("ghcr.io"),
        "{table}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_without_placements_has_no_minimum() {
    let shop = Project::start("shop").await;
    let web = shop.workload("web", "web:1", &["DFW"]);
    let mut bare = web.clone();
    bare["metadata"] = json!({"name": "bare", "namespace": NAMESPACE});
    bare["spec"]["placements"] = json!([]);
    shop.create(bare);
    for words in [
        &["scale", "bare", "--min", "2"][..],
        &["deploy", "bare", "--min", "2"],
        &["deploy", "bare", "--city", "DFW"],
    ] {
        let seen = change(&shop, words).await;
        assert_eq!(seen.code, 1, "{words:?}: {}", seen.stderr);
        assert!(
            seen.stderr.contains("workload \"bare\" has no placements"),
            "{words:?}: {}",
            seen.stderr
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_is_blocked_says_why_also_without_a_wait() {
    let shop = Project::start("shop").await;
    let web = shop.workload("web", "web:1", &["DFW"]);
    shop.deployment(&web, "web-us-dfw", "DFW");
    let condition = json!([{"type": "Available", "status": "False", "reason": "NoCells", "message": "no cell",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    shop.status(
        "WorkloadDeployment",
        "web-us-dfw",
        &json!({"conditions": condition}),
    );
    let written = json!({"metadata": {"managedFields": [{"manager": "x", "operation": "Update",
        "apiVersion": web["apiVersion"], "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {}}]}});
    shop.plane
        .merge("WorkloadDeployment", NAMESPACE, "web-us-dfw", written)
        .unwrap();
    let seen = shop.run(&["rollout", "status", "web", "--watch=false"]).await;
    assert_eq!(seen.code, 9, "{}{}", seen.stdout, seen.stderr);
    assert!(
        seen.stderr
            .contains("error: rollout not finished: us/DFW Blocked: NoCells: no cell\n"),
        "{}",
        seen.stderr
    );
}
