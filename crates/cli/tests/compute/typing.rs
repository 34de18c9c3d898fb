//! Lines as people type them: words in the wrong place, flags at any place, values out of range.

use crate::project::{NAMESPACE, Project, Seen};
use serde_json::Value;

/// A kubeconfig that does not exist.
const NOWHERE: [&str; 2] = ["--kubeconfig", "/nowhere/config"];

fn last(seen: &Seen) -> &str {
    seen.stderr.lines().last().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_of_kubectl_name_the_way_to_the_same() {
    let shop = Project::start("shop").await;
    for (flags, way) in [
        (&["-A"][..], "kubectl get workloads -A"),
        (&["--all-namespaces"], "kubectl get workloads -A"),
        (&["-l", "a=b"], "kubectl get workloads -l LABEL=VALUE"),
        (&["-s", "https://x"], "--context NAME"),
        (&["-v=6"], "kubectl get workloads -v=6"),
        (
            &["--token", "t"],
            "kubectl config set-credentials NAME --token=TOKEN",
        ),
    ] {
        let seen = shop.run(&[&["workloads"], flags].concat()).await;
        assert_eq!(seen.code, 2, "{flags:?}: {}", seen.stderr);
        assert!(seen.stderr.contains(way), "{flags:?}: {}", seen.stderr);
    }
    assert_eq!(shop.lists(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misplaced_word_is_removed_and_all_others_stay() {
    let shop = Project::start("shop").await;
    for (words, meant) in [
        (
            &["-n", "staging", "workloads", "destroy", "web"][..],
            "-n staging destroy web",
        ),
        (
            &["workloads", "-n", "staging", "destroy", "web", "--timeout=1m"],
            "-n staging destroy web --timeout=1m",
        ),
        (
            &["workloads", "scale", "web", "--min", "2", "--reason", "it's time"],
            r"scale web --min 2 --reason 'it'\''s time'",
        ),
        (&["rollout", "histroy", "web"], "rollout history web"),
        (&["rolout", "status", "web"], "rollout status web"),
        (&["rollout", "web", "history"], "rollout history web"),
        (
            &["rollout", "--timeout", "5m", "status", "web"],
            "rollout status --timeout 5m web",
        ),
        (&["workloads", "web"], "workloads describe web"),
        (
            &["instances", "-n", "a", "web-0"],
            "instances -n a describe web-0",
        ),
    ] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 2, "{words:?}: {}", seen.stderr);
        assert_eq!(
            last(&seen),
            format!("  next: kubectl compute {meant}"),
            "{words:?}"
        );
    }
    for words in [
        &["workloads", "one", "two"][..],
        &["logs", "web"],
        &["quota", "web"],
    ] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 2);
        assert!(!seen.stderr.contains("Did you mean"), "{}", seen.stderr);
    }
    assert_eq!(shop.lists(), 0, "a misplaced word is found before any request");
}

#[tokio::test(flavor = "multi_thread")]
async fn global_flags_stand_at_any_place() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    for (words, part) in [
        (
            &["workloads", "-n", NAMESPACE, "describe", "web"][..],
            "Workload:   web",
        ),
        (&["workloads", "-o", "wide", "list"], "INSTANCE TYPE"),
        (&["workloads", "--city", "DFW", "list", "-q"], "web"),
        (
            &["-q", "workloads", "-qo", "name", "list"],
            "workload.compute.datumapis.com/web",
        ),
        (&["workloads", "--no-headers", "list", "--city=DFW"], "web"),
    ] {
        let seen = shop.run(words).await.ok();
        assert!(seen.stdout.contains(part), "{words:?}: {}", seen.stdout);
    }
    let seen = shop
        .run(&["rollout", "--context", "shop", "status", "web", "-w=false"])
        .await;
    assert!(seen.code == 7 && seen.stdout.contains("DFW"), "{}", seen.stderr);
    let seen = shop.run(&["rollout", "-n", NAMESPACE, "history", "web"]).await;
    assert!(
        seen.code == 3 && seen.stderr.contains("workload \"web\" has no history"),
        "{}",
        seen.stderr
    );
    let seen = shop
        .run(&["workloads", "--health", "unknown", "describe", "web"])
        .await;
    assert_eq!(seen.code, 2, "a flag of the list is none of the description");
    let seen = shop.run(&["workloads", "list", "-n"]).await;
    assert!(
        seen.code == 2 && seen.stderr.contains("--namespace"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_is_a_duration() {
    let mut shop = Project::start("shop").await;
    shop.cells();
    let deploy = ["deploy", "web", "--image", "nginx", "--city", "DFW"];
    shop.run(&[&deploy[..], &["--timeout", "0", "--stall-timeout=0"]].concat())
        .await
        .ok();
    shop.run(&["rollout", "web", "--timeout", "0", "--request-timeout", "0"])
        .await
        .ok();
    let seen = shop.run(&["rollout", "web", "--timeout", "5"]).await;
    assert!(
        seen.code == 2 && seen.stderr.contains("--timeout"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_use_is_found_without_a_context() {
    let shop = Project::start("shop").await;
    for (words, part) in [
        (&["deploy"][..], "deploy needs NAME --image IMAGE"),
        (
            &["deploy", "-f", "x.yaml", "--image", "x"],
            "--image cannot be used with -f",
        ),
        (
            &["restart", "web", "--city", "DFW"],
            "a city alone cannot be restarted",
        ),
        (
            &["rollout", "restart", "web", "--city", "DFW"],
            "a city alone cannot be restarted",
        ),
        (&["rollout"], "rollout needs the NAME of a workload"),
        (&["rollout", "status"], "rollout needs the NAME of a workload"),
        (&["diff"], "diff needs -f FILE"),
    ] {
        let seen = shop.run(&[words, &NOWHERE].concat()).await;
        assert_eq!(seen.code, 2, "{words:?}: {}", seen.stderr);
        assert!(seen.stderr.contains(part), "{words:?}: {}", seen.stderr);
    }
    let seen = shop
        .run(&[&["diff", "-f", "x.yaml"][..], &NOWHERE].concat())
        .await;
    assert_eq!(seen.code, 70, "1 is a difference: {}", seen.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_is_answered_by_the_values_that_are_accepted() {
    let shop = Project::start("shop").await;
    for (words, parts) in [
        (
            &["scale", "web", "--min", "abc"][..],
            &["--min", "a whole number is expected"][..],
        ),
        (
            &["rollout", "history", "web", "--revision", "abc"],
            &["--revision", "a whole number is expected"],
        ),
        (
            &["workloads", "--color", "blue"],
            &["--color", "auto, always, never"],
        ),
        (&["destroy", "web", "--wait=maybe"], &["--wait", "true, false"]),
        (
            &["scale", "web", "--min=1", "--dry-run=no"],
            &["--dry-run", "none, client, server"],
        ),
    ] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 2, "{words:?}");
        for part in parts {
            assert!(seen.stderr.contains(part), "{words:?}: {}", seen.stderr);
        }
        assert!(!seen.stderr.contains("invalid digit"), "{}", seen.stderr);
    }
    let seen = shop.run(&[]).await;
    assert_eq!(seen.code, 2);
    assert!(
        seen.stderr.starts_with("Run workloads") && seen.stderr.contains("Usage:"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_json_however_the_format_is_typed() {
    let shop = Project::start("shop").await;
    for words in [
        &["status", "-qo", "json", "--bogus"][..],
        &["-qojson", "status", "--bogus"],
        &["status", "-o=json", "--bogus"],
        &["status", "--output=json", "--bogus"],
        &["--bogus", "-o", "json"],
        &["-o", "json"],
    ] {
        let seen = shop.run(words).await;
        let error: Value = serde_json::from_str(&seen.stderr).unwrap_or_default();
        assert_eq!(error["error"]["exit"], 2, "{words:?}: {}", seen.stderr);
    }
    for words in [
        &["status", "-n", "-ojson", "a", "b"][..],
        &["status", "--", "-o", "json"],
    ] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 2, "{words:?}");
    }
}
