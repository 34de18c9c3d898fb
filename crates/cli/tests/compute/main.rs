//! `kubectl compute` as a process, beside a project's control plane that the simulator plays over TCP.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod account;
mod cells;
mod changes;
mod completion;
mod concurrent;
mod describe;
mod files;
mod links;
mod locations;
mod many;
mod plane;
mod project;
mod revisions;
mod scripted;
mod streams;
mod terminal;
mod trace;
mod typing;
mod waiting;

use project::{Project, instance};
use serde_json::{Value, json};

/// A Workload with a placement of two cities, of which one has no deployment yet, and one without cells.
async fn shop() -> Project {
    let project = Project::start("shop").await;
    let web = project.workload("web", "ghcr.io/acme/web:1", &["DFW", "IAD"]);
    project.status("Workload", "web", &available("True", "Ready"));
    project.deployment(&web, "web-us-dfw", "DFW");
    let counts = json!({"replicas": 2, "currentReplicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "desiredReplicas": 2});
    project.status("WorkloadDeployment", "web-us-dfw", &counts);
    project.workload("api", "nginx", &["LHR"]);
    project.status("Workload", "api", &available("False", "NoCells"));
    project.create(instance("web-us-dfw-0", &json!({})));
    project.status(
        "Instance",
        "web-us-dfw-0",
        &json!({
        "conditions": [condition("Ready", "True", "Running")],
        "networkInterfaces": [{"assignments": {"networkIP": "10.0.0.1", "externalIP": "203.0.113.7"}}]}),
    );
    project.create(instance("web-us-dfw-1", &json!({})));
    let crashing = [
        condition("Programmed", "False", "InstanceCrashing"),
        condition("Ready", "False", "NotReady"),
    ];
    project.status("Instance", "web-us-dfw-1", &json!({"conditions": crashing}));
    project.create(instance("stray-0", &json!({})));
    project
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn available(status: &str, reason: &str) -> Value {
    json!({"conditions": [condition("Available", status, reason)]})
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_have_health_counts_and_images() {
    let shop = shop().await;
    let seen = shop.run(&["workloads", "--no-headers"]).await.ok();
    let rows: Vec<Vec<&str>> = seen
        .stdout
        .lines()
        .map(|line| {
            line.split("   ")
                .map(str::trim)
                .filter(|c| !c.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        rows[0][..6],
        ["api", "Unavailable - NoCells", "0/0", "0/0", "us", "nginx"]
    );
    assert_eq!(
        rows[1][..6],
        [
            "web",
            "Available - all placements at desired replicas",
            "2/2",
            "2/2",
            "us",
            "acme/web:1"
        ]
    );
    assert_eq!(seen.stderr.trim(), "2 workloads - 1 Available, 1 Unavailable");
    let wide = shop.run(&["workloads", "-o", "wide"]).await.ok();
    let head: Vec<&str> = wide.stdout.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        head,
        [
            "NAME",
            "HEALTH",
            "READY",
            "UP-TO-DATE",
            "PLACEMENTS",
            "IMAGE",
            "AGE",
            "INSTANCE",
            "TYPE",
            "CITIES",
            "REV"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_gives_the_same_set_in_every_format() {
    let shop = shop().await;
    let formats = |filter: &'static [&'static str], command: &'static str| {
        let shop = &shop;
        async move {
            let mut sets = Vec::new();
            for format in [
                "table",
                "wide",
                "name",
                "json",
                "yaml",
                "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}",
            ] {
                let words = [&[command, "--no-headers", "-q", "-o", format], filter].concat();
                let seen = shop.run(&words).await.ok().stdout;
                let names: Vec<String> = match format {
                    "json" => names(&serde_json::from_str(&seen).unwrap()),
                    "yaml" => names(&serde_saphyr::from_str(&seen).unwrap()),
                    "name" => seen
                        .lines()
                        .map(|line| line.rsplit('/').next().unwrap().to_owned())
                        .collect(),
                    _ => seen
                        .lines()
                        .map(|line| line.split_whitespace().next().unwrap().to_owned())
                        .collect(),
                };
                sets.push(names);
            }
            assert!(sets.iter().all(|set| *set == sets[0]), "{filter:?}: {sets:#?}");
            sets.swap_remove(0)
        }
    };
    assert_eq!(formats(&["--health", "unavailable"], "workloads").await, ["api"]);
    assert_eq!(formats(&["--city", "IAD"], "workloads").await, ["web"]);
    assert_eq!(
        formats(&["--workload", "web", "--city", "DFW"], "instances").await,
        ["web-us-dfw-0", "web-us-dfw-1"]
    );
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_have_states_addresses_and_a_home() {
    let shop = shop().await;
    let seen = shop.run(&["instances"]).await.ok();
    let row = |name: &str| {
        let line = seen.stdout.lines().find(|line| line.starts_with(name)).unwrap();
        line.split("   ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        row("web-us-dfw-0")[1..5],
        ["web", "DFW", "203.0.113.7", "10.0.0.1"]
    );
    assert_eq!(row("web-us-dfw-0")[7], "Available");
    assert_eq!(row("web-us-dfw-1")[7], "Failed (crashing)");
    assert_eq!(row("stray-0")[1..3], ["orphaned", "unknown"]);
    assert_eq!(
        seen.stderr.trim(),
        "3 instances - 1 Available, 1 Pending, 1 Failed, 0 Terminating"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_a_city_without_deployment() {
    let shop = shop().await;
    let seen = shop.run(&["status", "web"]).await.ok().stdout;
    assert!(
        seen.contains("Health    Available - all placements at desired replicas"),
        "{seen}"
    );
    let cells = |line: &str| {
        let cells = line.split("   ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.take(6).map(str::to_owned).collect::<Vec<_>>()
    };
    let lines: Vec<Vec<String>> = seen.lines().skip(5).map(cells).collect();
    assert_eq!(
        lines,
        [
            ["us", "DFW", "2/2", "2/2", "Waiting", "the cell has not acted yet"],
            ["us", "IAD", "0/2", "0/2", "Waiting", "no deployment yet"]
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_next_command_and_exit_by_their_kind() {
    let shop = shop().await;
    let seen = shop.run(&["status", "wbe"]).await;
    assert_eq!(seen.code, 3);
    assert_eq!(
        seen.stderr,
        "error: workload \"wbe\" not found in project shop, namespace default; did you mean \"web\"?\n  next: kubectl compute workloads\n"
    );
    let seen = shop.run(&["status", "wbe", "-o", "json"]).await;
    let error: Value = serde_json::from_str(&seen.stderr).unwrap();
    assert_eq!(
        (&error["error"]["exit"], &error["error"]["code"]),
        (&json!(3), &json!("NotFound"))
    );
    assert_eq!((seen.stdout.as_str(), seen.code), ("", 3));
    for (words, part) in [
        (
            &["workloads", "-o", "tabel"][..],
            "table, wide, json, yaml, name, jsonpath=TEMPLATE",
        ),
        (
            &["workloads", "--health", "good"],
            "Available, Progressing, Degraded, Unavailable, Unknown, Deleting",
        ),
        (&["workloads", "-o", "jsonpath={.a"], "a closing brace is missing"),
        (&["wrkloads"], "unrecognized subcommand 'wrkloads'"),
    ] {
        let seen = shop.run(words).await;
        assert_eq!((seen.code, seen.stdout.as_str()), (2, ""), "{words:?}");
        assert!(seen.stderr.contains(part), "{words:?}: {}", seen.stderr);
    }
    let gone = shop.run(&["workloads", "--context", "other"]).await;
    assert_eq!(gone.code, 1);
    assert!(
        gone.stderr.contains("next: kubectl config get-contexts"),
        "{}",
        gone.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_server_moves_no_cursor_and_colour_is_by_choice_alone() {
    let shop = shop().await;
    shop.status("Workload", "api", &available("False", "No\u{1b}[31mCells"));
    let seen = shop.run(&["workloads"]).await.ok().stdout;
    assert!(
        seen.contains("No\\u{1b}[31mCells") && !seen.contains('\u{1b}'),
        "{seen}"
    );
    let coloured = shop.run(&["workloads", "--color=always"]).await.ok().stdout;
    assert!(coloured.contains("\u{1b}[32mAvailable\u{1b}[0m"), "{coloured}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_not_there_is_named() {
    let shop = Project::start("shop").await;
    let seen = shop.elsewhere(&["workloads", "--request-timeout", "2s"]).await;
    assert_eq!(seen.code, 1);
    assert!(
        seen.stderr.starts_with("error: cannot reach 127.0.0.1:"),
        "{}",
        seen.stderr
    );
    assert!(
        seen.stderr.ends_with("  next: kubectl compute version\n"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_read_in_pages() {
    let shop = Project::start("shop").await;
    for n in 0..1_200 {
        shop.create(instance(&format!("web-us-dfw-{n}"), &json!({})));
    }
    let seen = shop.run(&["instances", "-o", "name"]).await.ok();
    assert_eq!(seen.stdout.lines().count(), 1_200);
    assert_eq!(
        shop.lists(),
        6,
        "three pages of Instances, one of deployments, one of Workloads, one of entitlements"
    );
}

const WEB: &str = "\
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: web}
spec:
  placements:
  - {name: us, cityCodes: [DFW, LHR], scaleSettings: {minReplicas: 2}}
  template:
    spec:
      runtime:
        resources: {instanceType: datumcloud/d1-standard-2}
        sandbox: {containers: [{name: app, image: 'ghcr.io/acme/web:2'}]}
      networkInterfaces: [{network: {name: default}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn diff_shows_fields_and_effects_and_writes_nothing() {
    let shop = shop().await;
    let before = shop.writes();
    let file = shop.file("web.yaml", WEB);
    let seen = shop.run(&["diff", "-f", &file]).await;
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert_eq!(
        seen.stdout.lines().collect::<Vec<_>>(),
        [
            "~ spec.placements[us].cityCodes[1]: IAD -> LHR",
            "~ spec.template.spec.runtime.sandbox.containers[app].image: ghcr.io/acme/web:1 -> ghcr.io/acme/web:2",
            "replaces 2 instances, one at a time per city",
            "adds LHR (min 2)",
            "removes IAD and its 0 instances",
        ]
    );
    assert_eq!(seen.stderr, "");
    let json = shop.run(&["diff", "-f", &file, "-o", "json"]).await.stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["changes"][0]["op"], "change");
    let same = WEB.replace("LHR", "IAD").replace("web:2", "web:1");
    let same = shop
        .run(&["diff", "-f", &shop.file("same.yaml", &same)])
        .await
        .ok();
    assert_eq!(same.stdout, "");
    let new = shop
        .run(&[
            "diff",
            "-f",
            &shop.file("new.yaml", &WEB.replace("name: web", "name: new")),
        ])
        .await;
    assert!(
        new.code == 1 && new.stdout.contains("+ spec.placements[us]: "),
        "{}",
        new.stdout
    );
    let two = shop.file("two.yaml", &format!("{WEB}---\n{WEB}"));
    let seen = shop.run(&["diff", "-f", &two]).await;
    assert_eq!((seen.code, seen.stdout.as_str()), (2, ""), "{}", seen.stderr);
    let seen = shop.elsewhere(&["diff", "-f", &file]).await;
    assert_eq!(
        (seen.code, seen.stdout.as_str()),
        (70, ""),
        "1 is a difference: {}",
        seen.stderr
    );
    assert_eq!(shop.writes(), before, "a dry run is no write");
}
