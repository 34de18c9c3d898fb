//! The streams of a run: escaped texts, results that stay, an end without a reader, plain candidates.

use crate::project::{NAMESPACE, Project, instance};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::{io::PipeWriter, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::Command,
    time::timeout,
};

/// The longest wait; a run that hangs must end the test.
const LIMIT: Duration = Duration::from_secs(60);

const EXE: &str = env!("CARGO_BIN_EXE_kubectl-compute");

/// A control plane that gives the same answer to every request; returns its kubeconfig.
async fn scripted(shop: &Project, status: &'static str, body: Value) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 16_384]).await;
            let body = body.to_string();
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let user = json!({"token": "ann"});
    shop.file("scripted", &kubeconfig(&server, &user).to_string())
}

fn kubeconfig(server: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "scripted",
        "contexts": [{"name": "scripted", "context": {"cluster": "scripted", "user": "ann"}}],
        "clusters": [{"name": "scripted", "cluster": {"server": server}}],
        "users": [{"name": "ann", "user": user}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_the_server_are_escaped_in_errors_and_versions() {
    let shop = Project::start("shop").await;
    let refused = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "no\u{1b}[31m\u{202e}access"});
    let config = scripted(&shop, "403 Forbidden", refused).await;
    let seen = shop.run(&["workloads", "--kubeconfig", &config]).await;
    assert_eq!(seen.code, 6);
    assert!(
        seen.stderr.contains("  cause: no\\u{1b}[31m\\u{202e}access\n"),
        "{:?}",
        seen.stderr
    );
    let invalid = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid",
        "message": "", "details": {"causes": [{"field": "spec", "message": "bad\n  next: evil"}]}});
    let config = scripted(&shop, "422 Unprocessable Entity", invalid).await;
    let seen = shop.run(&["workloads", "--kubeconfig", &config]).await;
    assert!(
        seen.stderr.contains("  spec: bad   next: evil\n"),
        "a text of the server passes for a hint: {:?}",
        seen.stderr
    );
    let version = json!({"major": "1", "minor": "30", "gitVersion": "v1\u{1b}[2J", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    let config = scripted(&shop, "200 OK", version).await;
    let seen = shop.run(&["version", "--kubeconfig", &config]).await.ok();
    assert!(seen.stdout.contains("server  v1\\u{1b}[2J"), "{:?}", seen.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_hides_footers_and_hints_and_no_results() {
    let shop = Project::start("shop").await;
    let seen = shop.run(&["workloads", "-q"]).await.ok();
    assert_eq!(seen.stderr, "No workloads in project shop.\n");
    let seen = shop.run(&["workloads"]).await.ok();
    assert!(seen.stderr.contains("Get started:"), "{}", seen.stderr);
    let seen = shop.run(&["quota", "-q"]).await.ok();
    assert!(
        seen.stderr.starts_with("Limits cannot be read here.\n"),
        "{}",
        seen.stderr
    );
    shop.workload("web", "nginx", &["DFW"]);
    let seen = shop.run(&["workloads", "-q"]).await.ok();
    assert_eq!(seen.stderr, "", "a footer");
}

fn closed() -> PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_quietly_when_its_reader_is_gone() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    for words in [
        &["workloads", "-w"][..],
        &["workloads", "-w", "-o", "json"],
        &["status", "web", "-w"],
        &["trace", "web", "-w", "-o", "json"],
    ] {
        let mut watch = Command::new(EXE)
            .args(words)
            .env("KUBECONFIG", shop.kubeconfig())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        timeout(LIMIT, lines.next_line()).await.unwrap().unwrap();
        drop(lines);
        let generation = shop.plane.revision();
        shop.plane
            .merge("Workload", NAMESPACE, "web", json!({"spec": {"placements": [
                {"name": format!("us{generation}"), "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}]}}))
            .unwrap();
        let end = timeout(LIMIT, watch.wait_with_output()).await;
        let end = end.unwrap_or_else(|_| panic!("{words:?} goes on")).unwrap();
        assert_eq!(end.status.code(), Some(130), "{words:?}");
        // A watch on stdout may say on stderr why it waited, e.g. a row that is gone.
        let stderr = String::from_utf8(end.stderr).unwrap();
        assert!(
            !stderr.contains("error") && !stderr.contains("panic"),
            "{words:?}: {stderr}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_streams_are_no_fault() {
    let shop = Project::start("shop").await;
    let run = |words: &'static [&'static str]| {
        let mut command = Command::new(EXE);
        command.args(words).env("KUBECONFIG", shop.kubeconfig());
        command
    };
    for (words, code) in [
        (&["--help"][..], 0),
        (&["workloads", "--help"], 0),
        (&["version"], 0),
        (&["__complete", ""], 0),
        (&["completion", "bash"], 0),
    ] {
        let end = run(words)
            .stdout(closed())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let end = end.wait_with_output().await.unwrap();
        assert_eq!(end.status.code(), Some(code), "{words:?}");
        assert_eq!(String::from_utf8(end.stderr).unwrap(), "", "{words:?}");
    }
    for (words, code) in [
        (&[][..], 2),
        (&["logs"], 2),
        (&["status", "web", "-o", "json"], 3),
        (&["workloads"], 0),
    ] {
        let end = run(words)
            .stderr(closed())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let end = end.wait_with_output().await.unwrap();
        assert_eq!(end.status.code(), Some(code), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_during_a_write_waits_for_the_record_and_the_result() {
    for kind in ["workloads", "configmaps"] {
        let mut shop = Project::start("shop").await;
        shop.cells();
        shop.run(&["deploy", "web", "--image", "web:1", "--city", "DFW"])
            .await
            .ok();
        let slow = Fault::SlowDrip {
            bytes: 256,
            every: Duration::from_millis(100),
        };
        let rule = Rule::new(When::Always, slow).verb(Verb::Update).kind(kind);
        shop.faults.add(rule);
        let change = shop.start_run(&["deploy", "web", "--image", "web:2", "--yes"]);
        shop.until("Workload", "web", |found| {
            found.is_some_and(|found| found.to_string().contains("web:2"))
        })
        .await;
        if kind == "configmaps" {
            shop.until_requested(Verb::Update, "configmaps").await;
        }
        let seen = change.interrupt().await;
        assert_eq!(seen.code, 130, "{kind}: {}", seen.stderr);
        assert_eq!(
            seen.stdout, "workload.compute.datumapis.com/web configured (rev #2)\n",
            "{kind}"
        );
        let seen = shop.run(&["rollout", "history", "web"]).await.ok();
        assert!(seen.stdout.contains("#2"), "{kind}: {}", seen.stdout);
    }
}

/// A kubeconfig whose credentials come from a program.
fn plugin(shop: &Project, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = shop.file("plugin", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": path,
        "interactiveMode": "IfAvailable"}});
    let text = std::fs::read_to_string(shop.kubeconfig()).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let server = document["clusters"][0]["cluster"]["server"].as_str().unwrap();
    shop.file("with-plugin", &kubeconfig(server, &exec).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_plugin_neither_delays_nor_disturbs_completion() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let credential = r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "ann"}}"#;
    let folder = shop.folder().display().to_string();
    let config = plugin(
        &shop,
        &format!("echo 'log in at https://example.com' >&2\ncat > {folder}/read\necho '{credential}'"),
    );
    let mut command = Command::new(EXE);
    command
        .args(["__complete", "--kubeconfig", &config, "destroy", ""])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    run.stdin.take().unwrap().write_all(b"typed ahead").await.unwrap();
    let end = run.wait_with_output().await.unwrap();
    assert_eq!(
        (
            &*String::from_utf8(end.stdout).unwrap(),
            &*String::from_utf8(end.stderr).unwrap()
        ),
        ("web\tnginx, Unknown\n:4\n", "")
    );
    assert_eq!(std::fs::read_to_string(format!("{folder}/read")).unwrap(), "");
    let config = plugin(
        &shop,
        &format!("until [ -e {folder}/released ]; do sleep 0.1; done"),
    );
    let words = ["__complete", "--kubeconfig", &config, "destroy", ""];
    let seen = timeout(LIMIT, shop.run(&words)).await;
    shop.file("released", "");
    let seen = seen.unwrap();
    assert_eq!((&*seen.stdout, &*seen.stderr), (":4\n", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_are_plain_words() {
    let shop = Project::start("shop").await;
    let text = std::fs::read_to_string(shop.kubeconfig()).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let contexts = document["contexts"].as_array_mut().unwrap();
    for name in ["arn:aws:eks:a/b@c", "a b", "$(touch x)", "a\u{202e}b"] {
        contexts.push(json!({"name": name, "context": {"cluster": "shop", "user": "ann"}}));
    }
    let config = shop.file("many", &document.to_string());
    let seen = shop
        .run(&["__complete", "--kubeconfig", &config, "--context", "a"])
        .await;
    assert_eq!(seen.stdout, "arn:aws:eks:a/b@c\n:4\n");
    let seen = shop
        .run(&["__complete", "--kubeconfig", &config, "--context", "$"])
        .await;
    assert_eq!(seen.stdout, ":4\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn giant_cells_are_cut_in_tables_alone() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let reason = "R".repeat(5_000);
    let conditions = json!([{"type": "Available", "status": "False", "reason": reason}]);
    shop.status("Workload", "web", &json!({"conditions": conditions}));
    let seen = shop.run(&["workloads"]).await.ok();
    let longest = seen.stdout.lines().map(str::len).max().unwrap();
    assert!(longest < 300 && seen.stdout.contains("RRR...   "), "{longest}");
    let seen = shop.run(&["workloads", "describe", "web"]).await.ok();
    assert!(seen.stdout.contains(&reason));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_instances_follow_the_placements_of_the_spec() {
    let shop = Project::start("shop").await;
    let mut web = shop.workload("web", "nginx", &["DFW"]);
    let placement = |name: &str, cities: &[&str]| json!({"name": name, "cityCodes": cities, "scaleSettings": {"minReplicas": 1}});
    let placements = json!([placement("zeta", &["LHR", "DFW"]), placement("alpha", &["DFW"])]);
    web["spec"]["placements"] = placements.clone();
    shop.plane
        .merge(
            "Workload",
            NAMESPACE,
            "web",
            json!({"spec": {"placements": placements}}),
        )
        .unwrap();
    for (placement, city, ordinal) in [
        ("alpha", "DFW", 0),
        ("zeta", "LHR", 0),
        ("zeta", "DFW", 10),
        ("zeta", "DFW", 2),
    ] {
        let name = format!("web-{placement}-{}-{ordinal}", city.to_lowercase());
        shop.create(instance(
            &name,
            &json!({keys::WORKLOAD_NAME: "web", keys::PLACEMENT_NAME: placement, keys::INSTANCE_CITY_CODE: city}),
        ));
    }
    let ordered = [
        "web-zeta-dfw-2",
        "web-zeta-dfw-10",
        "web-zeta-lhr-0",
        "web-alpha-dfw-0",
    ];
    let seen = shop.run(&["instances", "--no-headers"]).await.ok();
    let names = seen
        .stdout
        .lines()
        .map(|line| line.split_whitespace().next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ordered);
    let mut watch = shop.start_run(&["instances", "--no-headers", "-w"]);
    for name in ordered {
        assert!(watch.line().await.starts_with(name));
    }
    let seen = shop.run(&["workloads", "-o", "wide", "--no-headers"]).await.ok();
    assert!(
        seen.stdout.contains("LHR,DFW "),
        "each city once: {}",
        seen.stdout
    );
}
