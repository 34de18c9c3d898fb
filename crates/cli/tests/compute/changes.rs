//! Commands that change something.

use crate::project::{Project, Seen};
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};

const WEB: [&str; 6] = ["deploy", "web", "--image", "web:1", "--city", "DFW,IAD"];
const MAP: &str = "compute-revisions.web";

/// A project whose gateway and cells work.
async fn living(name: &str) -> Project {
    let mut project = Project::start(name).await;
    project.cells();
    project
}

async fn history(project: &Project) -> Vec<(u64, String, String)> {
    let seen = project
        .run(&["rollout", "history", "web", "-o", "json"])
        .await
        .ok();
    let history: Value = serde_json::from_str(&seen.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let revisions = history["revisions"].as_array().unwrap().iter();
    revisions
        .map(|r| {
            (
                r["rev"].as_u64().unwrap(),
                text(&r["verb"]),
                text(&r["actor"]["name"]),
            )
        })
        .collect()
}

fn code(seen: &Seen) -> (i32, &str) {
    (seen.code, seen.stderr.lines().last().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn deploy_creates_records_and_waits_and_again_changes_nothing() {
    let shop = living("shop").await;
    let seen = shop.run(&WEB).await.ok();
    assert_eq!(
        seen.stdout,
        "workload.compute.datumapis.com/web created (rev #1)\n"
    );
    for part in [
        "adds DFW (min 1)\nadds IAD (min 1)\n",
        "Rolling out workload \"web\"  rev #1\n",
        "Rollout complete in ",
    ] {
        assert!(seen.stderr.contains(part), "{part}: {}", seen.stderr);
    }
    assert_eq!(
        history(&shop).await,
        [(1, "deploy".to_owned(), "unknown".to_owned())]
    );
    let before = shop.writes();
    let seen = shop.run(&WEB).await.ok();
    assert_eq!(seen.stdout, "");
    assert!(seen.stderr.starts_with("No changes.\n"), "{}", seen.stderr);
    assert!(
        seen.stderr.contains("Rollout complete in "),
        "it waits nevertheless: {}",
        seen.stderr
    );
    assert_eq!(shop.writes(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_recorded_and_undo_goes_back_and_forth() {
    let shop = living("shop").await;
    shop.run(&WEB).await.ok();
    shop.run(&["deploy", "web", "--env", "A=1", "--reason", "a variable"])
        .await
        .ok();
    shop.run(&["scale", "web", "--min", "3"]).await.ok();
    shop.run(&["restart", "web"]).await.ok();
    let spec = |shop: &Project| shop.plane.get("Workload", "default", "web").unwrap()["spec"].clone();
    let at_four = spec(&shop);
    let refused = shop.run(&["rollout", "undo", "web", "--to-revision", "2"]).await;
    assert_eq!(
        code(&refused),
        (
            4,
            "  next: kubectl compute rollout undo web --to-revision 2 --yes"
        )
    );
    let seen = shop
        .run(&["rollout", "undo", "web", "--to-revision", "2", "--yes"])
        .await
        .ok();
    assert!(seen.stderr.contains("minReplicas: 3 -> 1"), "{}", seen.stderr);
    assert_eq!(
        seen.stdout,
        "workload.compute.datumapis.com/web configured (rev #5)\n"
    );
    shop.run(&["rollout", "undo", "web", "--to-revision", "4", "--yes"])
        .await
        .ok();
    assert_eq!(spec(&shop), at_four, "undo twice is where it began");
    let verbs: Vec<String> = history(&shop)
        .await
        .into_iter()
        .map(|(_, verb, _)| verb)
        .collect();
    assert_eq!(verbs, ["undo", "undo", "restart", "scale", "deploy", "deploy"]);
    let table = shop
        .run(&["rollout", "history", "web", "--no-headers"])
        .await
        .ok()
        .stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("#6") && lines[0].trim_end().ends_with("active"),
        "{table}"
    );
    assert!(lines[4].contains("env[A]"), "{table}");
    let keep = [
        "rollout",
        "undo",
        "web",
        "--to-revision",
        "2",
        "--keep-scale",
        "--yes",
    ];
    let seen = shop.run(&keep).await.ok();
    assert!(!seen.stderr.contains("minReplicas"), "{}", seen.stderr);
    let missing = shop.run(&["rollout", "undo", "web", "--to-revision", "99"]).await;
    assert_eq!(missing.code, 3);
    assert!(
        missing.stderr.contains("revision #99 not found (kept: #1..#7)"),
        "{}",
        missing.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_others_is_shown_and_can_be_undone() {
    let shop = living("shop").await;
    shop.run(&WEB).await.ok();
    let edit = json!({"spec": {"placements": [{"name": "default", "cityCodes": ["DFW", "IAD"],
        "scaleSettings": {"minReplicas": 4, "instanceManagementPolicy": "OrderedReady"}}]}});
    shop.plane.merge("Workload", "default", "web", edit).unwrap();
    let table = shop
        .run(&["rollout", "history", "web", "--no-headers"])
        .await
        .ok()
        .stdout;
    assert!(
        table
            .lines()
            .next()
            .unwrap()
            .contains("changed outside of this command"),
        "{table}"
    );
    shop.run(&["rollout", "undo", "web", "--yes"]).await.ok();
    let all: Vec<_> = history(&shop)
        .await
        .into_iter()
        .map(|(rev, verb, _)| (rev, verb))
        .collect();
    let verbs = [(3, "undo"), (2, "observed"), (1, "deploy")];
    assert_eq!(all, verbs.map(|(rev, verb)| (rev, verb.to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_city_or_the_workload_needs_a_yes_and_nothing_is_written_without() {
    let shop = living("shop").await;
    shop.run(&WEB).await.ok();
    let before = shop.writes();
    let drop = ["deploy", "web", "--city", "DFW"];
    let seen = shop.run(&drop).await;
    assert_eq!(
        code(&seen),
        (4, "  next: kubectl compute deploy web --city DFW --yes")
    );
    assert!(
        seen.stderr.contains("removes IAD and its 1 instance"),
        "{}",
        seen.stderr
    );
    let seen = shop.run(&["destroy", "web"]).await;
    assert_eq!(code(&seen), (4, "  next: kubectl compute destroy web --yes"));
    assert_eq!(shop.writes(), before);
    shop.run(&[&drop[..], &["--yes"]].concat()).await.ok();
    let seen = shop.run(&["destroy", "web", "--yes"]).await.ok();
    assert_eq!(seen.stdout, "workload.compute.datumapis.com/web deleted\n");
    assert_eq!(shop.plane.count("WorkloadDeployment"), 0, "it has waited");
    assert!(
        shop.plane.get("ConfigMap", "default", MAP).is_none(),
        "the history goes too"
    );
    assert_eq!(shop.run(&["destroy", "web", "--yes"]).await.code, 3);
    shop.run(&["destroy", "web", "--yes", "--ignore-not-found"])
        .await
        .ok();
    shop.run(&WEB).await.ok();
    assert_eq!(history(&shop).await.len(), 1, "it begins anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn destroy_has_dry_runs_and_formats() {
    let shop = living("shop").await;
    shop.run(&WEB).await.ok();
    let writes = shop.writes();
    let list = "default/DFW: 1 instance\ndefault/IAD: 1 instance\n";
    for (how, words) in [
        ("--dry-run=client", "deleted (dry run)"),
        ("--dry-run=server", "deleted (server dry run)"),
    ] {
        let seen = shop.run(&["destroy", "web", "-q", how]).await.ok();
        assert_eq!(
            (seen.stdout, seen.stderr.as_str()),
            (format!("workload.compute.datumapis.com/web {words}\n"), list)
        );
        let seen = shop.run(&["destroy", "web", how, "-o", "name"]).await.ok();
        assert_eq!(seen.stdout, "workload.compute.datumapis.com/web\n");
    }
    let may_not = Rule::new(When::Always, Fault::Forbidden).verb(Verb::Delete);
    let rule = shop.faults.add(may_not);
    shop.run(&["destroy", "web", "--dry-run=client"]).await.ok();
    let seen = shop.run(&["destroy", "web", "--dry-run=server"]).await;
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    assert!(
        seen.stderr.contains("you may not delete workloads"),
        "{}",
        seen.stderr
    );
    assert_eq!((shop.faults.hits(rule), shop.writes()), (1, writes));
    shop.faults.clear();
    let seen = shop.run(&["destroy", "web", "--yes", "-o", "json"]).await.ok();
    let object: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("Workload"), &json!("web"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_that_stays_is_named() {
    let shop = living("shop").await;
    shop.run(&WEB).await.ok();
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    shop.plane.merge("Workload", "default", "web", held).unwrap();
    let seen = shop
        .run(&["destroy", "web", "--yes", "--timeout", "5500ms"])
        .await;
    assert_eq!(seen.code, 8);
    let line = "error: workload \"web\" is not gone after 5s: left: 1 workload held by example.com/hold";
    assert!(seen.stderr.contains(line), "{}", seen.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_at_its_timeout_and_names_the_cities() {
    let shop = Project::start("shop").await;
    let seen = shop.run(&[&WEB[..], &["--timeout", "5s"]].concat()).await;
    assert_eq!(seen.code, 8);
    let line = "error: rollout not finished after 5s: default/DFW Waiting, default/IAD Waiting";
    assert!(seen.stderr.contains(line), "{}", seen.stderr);
    let once = shop.run(&["rollout", "status", "web", "--watch=false"]).await;
    assert_eq!(once.code, 7, "{}", once.stderr);
    assert!(once.stdout.contains("no deployment yet"), "{}", once.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_the_workload_goes_or_somebody_changes_it() {
    for (what, expected) in [("delete", 3), ("change", 5)] {
        let shop = Project::start("shop").await;
        let wait = shop.run(&WEB);
        let disturb = async {
            // The history is written last, so the wait begins.
            shop.until("ConfigMap", MAP, |map| map.is_some()).await;
            if what == "delete" {
                shop.plane.delete("Workload", "default", "web").unwrap();
            } else {
                let template = json!({"metadata": {"labels": {"by": "bob"}}});
                let patch = json!({"spec": {"template": template}});
                shop.plane.merge("Workload", "default", "web", patch).unwrap();
            }
        };
        let (seen, ()) = tokio::join!(wait, disturb);
        assert_eq!(seen.code, expected, "{what}: {}", seen.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_tried_again_and_a_history_that_is_refused_is_a_warning() {
    let shop = living("shop").await;
    shop.run(&WEB).await.ok();
    // The first one is the dry run.
    let conflict = Rule::new(When::Nth(2), Fault::Conflict)
        .verb(Verb::Update)
        .kind("workloads");
    let rule = shop.faults.add(conflict);
    shop.run(&["scale", "web", "--min", "2"]).await.ok();
    assert!(shop.faults.hits(rule) >= 1);
    shop.faults.clear();
    let refused = Rule::new(When::Always, Fault::Forbidden).kind("configmaps");
    shop.faults.add(refused);
    let seen = shop.run(&["scale", "web", "--min", "3"]).await.ok();
    assert_eq!(seen.stdout, "workload.compute.datumapis.com/web configured\n");
    assert!(
        seen.stderr.contains("warning: the revision history cannot be"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_before_anything_is_written() {
    let shop = living("shop").await;
    shop.run(&WEB).await.ok();
    let before = shop.writes();
    let file = shop.file(
        "one.yaml",
        "apiVersion: compute.datumapis.com/v1alpha\nkind: Workload\nmetadata: {name: web}\nspec: {}\n",
    );
    for (words, part) in [
        (&["deploy"][..], "deploy needs NAME"),
        (&["deploy", "new"], "--image is required"),
        (
            &["deploy", "-f", &file, "--image", "x"],
            "--image cannot be used with -f; set spec.template",
        ),
        (
            &["deploy", "-f", &file, "-n", "other", "--min", "1"],
            "--min cannot be used with -f",
        ),
        (
            &["deploy", "web", "--min", "0"],
            "--min 0 is not within 1 and 1000",
        ),
        (&["deploy", "web", "--network", "other"], "is fixed"),
        (&["deploy", "web", "--env", "A"], "neither KEY=VALUE nor KEY-"),
        (&["deploy", "web", "--city", "a b"], "is no city code"),
        (
            &["restart", "web", "--city", "DFW"],
            "a city alone cannot be restarted",
        ),
        (&["scale", "web"], "--min"),
        (&["rollout"], "rollout needs the NAME"),
        (
            &["workloads", "destroy", "web"],
            "Did you mean: kubectl compute destroy web",
        ),
        (
            &["rolout", "status", "web"],
            "next: kubectl compute rollout status web",
        ),
    ] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 2, "{words:?}: {}", seen.stderr);
        assert!(seen.stderr.contains(part), "{words:?}: {}", seen.stderr);
    }
    assert_eq!(shop.writes(), before);
    let dry = shop
        .run(&["scale", "web", "--min", "5", "--dry-run=server"])
        .await
        .ok();
    assert_eq!(
        dry.stdout,
        "workload.compute.datumapis.com/web configured (server dry run)\n"
    );
    assert_eq!(shop.writes(), before);
}
