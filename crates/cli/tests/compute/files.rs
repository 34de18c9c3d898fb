//! Changes by a file.

use crate::project::{NAMESPACE, Project, Seen};
use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

/// The longest wait for a run that must end.
const LIMIT: Duration = Duration::from_secs(60);

const WEB: &str = "\
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: web}
spec:
  placements:
  - {name: us, cityCodes: [DFW, IAD], scaleSettings: {minReplicas: 1}}
  template:
    spec:
      runtime:
        resources: {instanceType: datumcloud/d1-standard-2}
        sandbox: {containers: [{name: app, image: 'web:1'}]}
      networkInterfaces: [{network: {name: default}}]
";

/// A project whose Workload was made of the file.
async fn living() -> (Project, String) {
    let mut shop = Project::start("shop").await;
    shop.cells();
    let file = shop.file("web.yaml", WEB);
    shop.run(&["deploy", "-f", &file]).await.ok();
    (shop, file)
}

/// A run whose stdin is the test's.
fn reading(shop: &Project, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-compute"));
    command
        .args(words)
        .env("KUBECONFIG", shop.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().unwrap()
}

/// A run that reads this text from stdin.
async fn fed(shop: &Project, words: &[&str], text: &str) -> Seen {
    let mut child = reading(shop, words);
    let mut stdin = child.stdin.take().unwrap();
    let write = async {
        // A run that has read enough closes its end.
        let _ = stdin.write_all(text.as_bytes()).await;
        drop(stdin);
    };
    let (end, ()) = tokio::join!(child.wait_with_output(), write);
    let end = end.unwrap();
    Seen {
        code: end.status.code().unwrap(),
        stdout: String::from_utf8(end.stdout).unwrap(),
        stderr: String::from_utf8(end.stderr).unwrap(),
    }
}

fn uids(shop: &Project) -> Vec<Value> {
    let instances = shop.plane.list("Instance");
    instances
        .iter()
        .map(|instance| instance["metadata"]["uid"].clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_after_a_restart_replaces_no_instance() {
    let (shop, file) = living().await;
    let first = uids(&shop);
    shop.run(&["restart", "web"]).await.ok();
    let restarted = uids(&shop);
    assert!(first.iter().all(|uid| !restarted.contains(uid)));
    let writes = shop.writes();
    let seen = shop.run(&["deploy", "-f", &file]).await.ok();
    assert!(seen.stderr.starts_with("No changes.\n"), "{}", seen.stderr);
    assert_eq!(shop.writes(), writes);
    let labelled = WEB.replace("{name: web}", "{name: web, labels: {tier: front}}");
    let labelled = shop.file("labelled.yaml", &labelled);
    let seen = shop.run(&["deploy", "-f", &labelled]).await.ok();
    assert!(
        seen.stderr.starts_with("+ metadata.labels.tier: front\n") && !seen.stderr.contains("replaces"),
        "{}",
        seen.stderr
    );
    assert_eq!(uids(&shop), restarted);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_objects_another_namespace_and_flags_beside_a_file_are_refused() {
    let (shop, file) = living().await;
    let writes = shop.writes();
    let two = shop.file("two.yaml", &format!("{WEB}---\n{WEB}"));
    let other = WEB.replace("{name: web}", "{name: web, namespace: other}");
    let other = shop.file("other.yaml", &other);
    for (words, parts) in [
        (
            &["deploy", "-f", &two][..],
            &["must have exactly one Workload"][..],
        ),
        (
            &["deploy", "-f", &other],
            &["is for namespace other, not default", "-n other"],
        ),
        (
            &[
                "deploy", "web", "-f", &file, "--image", "x", "--min", "2", "--label", "a=b",
            ],
            &[
                "NAME cannot be used with -f; set metadata.name in the file",
                "--image cannot be used with -f; set spec.template.spec.runtime.sandbox.containers[].image",
                "--min cannot be used with -f; set spec.placements[].scaleSettings.minReplicas",
                "--label cannot be used with -f; set spec.template.metadata.labels",
            ],
        ),
    ] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 2, "{words:?}: {}", seen.stderr);
        for part in parts {
            assert!(seen.stderr.contains(part), "{words:?} {part}: {}", seen.stderr);
        }
    }
    assert_eq!(shop.writes(), writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_addresses_lists_and_long_names_are_refused_with_the_way_on() {
    let (shop, _) = living().await;
    let writes = shop.writes();
    let folder = shop.folder().display().to_string();
    let list = shop.file("list.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    let two = shop.file("two.yaml", &format!("{WEB}---\n{WEB}"));
    for file in [folder.as_str(), "https://example.com/web.yaml", &list, &two] {
        let seen = shop.run(&["deploy", "-f", file]).await;
        assert_eq!(seen.code, 2, "{file}: {}", seen.stderr);
        let next = format!("  next: kubectl apply -f {file}\n");
        assert!(seen.stderr.ends_with(&next), "{file}: {}", seen.stderr);
    }
    let long = WEB.replace("name: web}", &format!("name: {}}}", "w".repeat(64)));
    let seen = shop.run(&["deploy", "-f", &shop.file("long.yaml", &long)]).await;
    assert_eq!(seen.code, 2, "{}", seen.stderr);
    assert!(
        seen.stderr.contains("64 characters; 63 are allowed"),
        "{}",
        seen.stderr
    );
    assert_eq!(shop.writes(), writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_the_server_does_not_know_is_refused_with_the_one_that_was_meant() {
    let (shop, _) = living().await;
    let writes = shop.writes();
    let wrong = WEB.replace("networkInterfaces:", "networkInterface:");
    let file = shop.file("wrong.yaml", &wrong);
    for command in ["deploy", "diff"] {
        let seen = shop.run(&[command, "-f", &file]).await;
        assert_eq!(seen.code, 2, "{command}: {}", seen.stderr);
        let line = "spec.template.spec.networkInterface; did you mean \"networkInterfaces\"?";
        assert!(seen.stderr.contains(line), "{command}: {}", seen.stderr);
    }
    assert_eq!(shop.writes(), writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_wrong_shape_is_refused_by_the_field() {
    let (shop, _) = living().await;
    shop.run(&["restart", "web"]).await.ok();
    let writes = shop.writes();
    let head = "apiVersion: compute.datumapis.com/v1alpha\nkind: Workload\n";
    for (rest, field) in [
        ("metadata: {name: web}\nspec: todo\n", "spec must be an object"),
        ("metadata: {name: web}\n", "spec must be an object"),
        (
            "metadata: {name: web}\nspec: {template: todo}\n",
            "spec.template must be an object",
        ),
        (
            "metadata: {name: web}\nspec: {template: {metadata: todo}}\n",
            "spec.template.metadata must be an object",
        ),
        (
            "metadata: {name: web}\nspec: {template: {metadata: {annotations: [todo]}}}\n",
            "spec.template.metadata.annotations must be an object",
        ),
        (
            "metadata: {name: web, labels: [todo]}\nspec: {template: {}}\n",
            "metadata.labels must be an object",
        ),
        ("metadata: todo\n", "metadata.name is missing"),
    ] {
        let file = shop.file("wrong.yaml", &format!("{head}{rest}"));
        for command in ["deploy", "diff"] {
            let seen = shop.run(&[command, "-f", &file]).await;
            assert_eq!(seen.code, 2, "{command} {rest}: {}", seen.stderr);
            assert!(seen.stderr.contains(field), "{command} {rest}: {}", seen.stderr);
        }
    }
    let large = format!("{WEB}# {}\n", "x".repeat(3 << 20));
    let file = shop.file("large.yaml", &large);
    for seen in [
        shop.run(&["deploy", "-f", &file]).await,
        fed(&shop, &["diff", "-f", "-"], &large).await,
    ] {
        assert_eq!(seen.code, 2, "{}", seen.stderr);
        assert!(seen.stderr.contains("is larger than 3 MiB"), "{}", seen.stderr);
    }
    assert_eq!(shop.writes(), writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_command_that_waits_for_a_file_on_stdin() {
    let shop = Project::start("shop").await;
    let mut child = reading(&shop, &["deploy", "-f", "-"]);
    let mut stdin = child.stdin.take().unwrap();
    // More than a pipe holds: the run reads once it is taken.
    stdin
        .write_all("# more\n".repeat(30_000).as_bytes())
        .await
        .unwrap();
    let id = child.id().unwrap().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().await.unwrap();
    assert!(sent.success());
    let end = tokio::time::timeout(LIMIT, child.wait()).await.unwrap().unwrap();
    assert_eq!(end.code(), Some(130));
    drop(stdin);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_city_that_goes_needs_a_yes_also_with_a_file() {
    let (shop, _) = living().await;
    let one = WEB.replace("[DFW, IAD]", "[DFW]");
    let writes = shop.writes();
    let seen = fed(&shop, &["deploy", "-f", "-"], &one).await;
    assert_eq!(seen.code, 4, "{}", seen.stderr);
    assert!(
        seen.stderr.contains("removes IAD and its 1 instance\n")
            && seen
                .stderr
                .ends_with("  next: kubectl compute deploy -f - --yes\n"),
        "{}",
        seen.stderr
    );
    assert_eq!(shop.writes(), writes);
    let seen = fed(&shop, &["deploy", "-f", "-", "--yes", "--quiet"], &one)
        .await
        .ok();
    assert!(
        seen.stderr.contains("removes IAD and its 1 instance\n"),
        "the plan is shown also with --quiet: {}",
        seen.stderr
    );
    assert_eq!(
        seen.stdout,
        "workload.compute.datumapis.com/web configured (rev #2)\n"
    );
    assert_eq!(shop.plane.count("WorkloadDeployment"), 1);
    let seen = fed(&shop, &["deploy", "-f", "-", "--quiet"], &one).await.ok();
    assert_eq!(seen.stderr, "No changes.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_sees_one_field_alone_and_deploy_has_the_same_lines() {
    let (shop, _) = living().await;
    let container = "{name: app, image: 'web:1'}";
    let full = "{name: app, image: 'web:1', env: [{name: A, value: '1'}, {name: B, value: '2'}], \
                ports: [{name: http, port: 80}]}";
    let base = WEB.replace(container, full).replace(
        "networkInterfaces:",
        "volumes: [{name: data, disk: {template: {spec: {type: pd-standard, resources: {requests: {storage: 1Gi}}}}}}]\n      networkInterfaces:",
    );
    shop.run(&["deploy", "-f", &shop.file("base.yaml", &base)])
        .await
        .ok();
    for (from, to, part) in [
        ("value: '1'", "value: '3'", "env[A].value: 1 -> 3"),
        ("port: 80", "port: 81", "ports[http].port: 80 -> 81"),
        ("storage: 1Gi", "storage: 2Gi", "volumes[data]"),
        (
            "{name: web}",
            "{name: web, labels: {tier: front}}",
            "+ metadata.labels.tier: front",
        ),
    ] {
        assert!(base.contains(from), "{from}");
        let file = shop.file("changed.yaml", &base.replace(from, to));
        let writes = shop.writes();
        let diff = shop.run(&["diff", "-f", &file]).await;
        assert_eq!(diff.code, 1, "{from}: {}", diff.stderr);
        assert!(diff.stdout.contains(part), "{part}: {}", diff.stdout);
        assert_eq!(shop.writes(), writes);
        let deployed = shop.run(&["deploy", "-f", &file]).await.ok();
        assert!(
            deployed.stderr.starts_with(&diff.stdout),
            "{} is not before {}",
            diff.stdout,
            deployed.stderr
        );
        shop.run(&["deploy", "-f", &shop.file("base.yaml", &base)])
            .await
            .ok();
    }
    let sorted = base.replace(
        "{name: A, value: '1'}, {name: B, value: '2'}",
        "{name: B, value: '2'}, {name: A, value: '1'}",
    );
    assert_ne!(sorted, base);
    let file = shop.file("sorted.yaml", &sorted);
    shop.run(&["diff", "-f", &file]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_saves_the_manifest_and_waits_for_nothing() {
    let shop = Project::start("shop").await;
    let file = shop.file("web.yaml", WEB);
    shop.run(&["deploy", "-f", &file, "--wait=false"]).await.ok();
    let writes = shop.writes();
    for how in ["--dry-run=client", "--dry-run=server"] {
        let saved = shop.folder().join("saved.yaml").display().to_string();
        let words = ["deploy", "web", "--image", "web:2", "--save", &saved, how];
        shop.run(&words).await.ok();
        let text = std::fs::read_to_string(&saved).unwrap();
        assert!(text.contains("web:2"), "{how}: {text}");
        std::fs::remove_file(&saved).unwrap();
        // Nothing would end this wait: no cell works.
        let words = [
            "deploy",
            "web",
            "--image",
            "web:1",
            how,
            "--timeout",
            "1s",
            "--save",
            &saved,
        ];
        let seen = shop.run(&words).await.ok();
        let result = (seen.stdout.as_str(), seen.stderr.as_str());
        assert_eq!(result, ("", "No changes.\n"));
        std::fs::remove_file(&saved).unwrap();
        for (format, part) in [
            ("name", "workload.compute.datumapis.com/web\n"),
            ("json", "\"image\": \"web:1\""),
        ] {
            let words = ["deploy", "web", "--image", "web:1", how, "-o", format];
            let seen = shop.run(&words).await.ok();
            assert!(seen.stdout.contains(part), "{how} {format}: {}", seen.stdout);
        }
    }
    assert_eq!(shop.writes(), writes);
    let live = shop.plane.get("Workload", NAMESPACE, "web").unwrap();
    let containers = &live["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"];
    assert_eq!(containers[0]["image"], json!("web:1"));
}
