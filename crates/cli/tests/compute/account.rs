//! `quota` and `activation`.

use crate::project::{NAMESPACE, Project, instance};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};

const ENTITLEMENT: &str = "ServiceEntitlement";

/// A project of a platform that has entitlements and quota.
pub(crate) async fn platform() -> Project {
    let shop = Project::start("shop").await;
    shop.plane.define_plain(
        "services.miloapis.com",
        "v1alpha1",
        ENTITLEMENT,
        "serviceentitlements",
        false,
        true,
    );
    shop.plane.define_plain(
        "quota.miloapis.com",
        "v1alpha1",
        "AllowanceBucket",
        "allowancebuckets",
        true,
        true,
    );
    shop
}

fn entitle(shop: &Project, status: &Value) {
    shop.create(
        json!({"apiVersion": "services.miloapis.com/v1alpha1", "kind": ENTITLEMENT,
        "metadata": {"name": "compute"}, "spec": {"serviceRef": {"name": "compute"}}}),
    );
    let patch = json!({"status": status});
    shop.plane
        .merge_status(ENTITLEMENT, "", "compute", patch)
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_nothing_is_requested_also_with_yes() {
    let shop = platform().await;
    let before = shop.writes();
    for words in [
        &["workloads"][..],
        &["deploy", "web", "--image", "nginx", "--city", "DFW", "--yes"],
        &["activation", "request"],
    ] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 10, "{words:?}: {}", seen.stderr);
        assert!(
            seen.stderr
                .contains("compute is not activated for project \"shop\"")
                && seen
                    .stderr
                    .contains("next: kubectl compute activation request --yes"),
            "{}",
            seen.stderr
        );
    }
    assert_eq!(shop.writes(), before);
    let seen = shop.run(&["activation"]).await.ok();
    assert!(seen.stdout.contains("State    NotRequested"), "{}", seen.stdout);
    shop.run(&["version"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_made_once_and_later_commands_say_that_it_is_under_way() {
    let shop = platform().await;
    let request = shop.start_run(&["activation", "request", "--yes", "--message", "for the shop"]);
    shop.until(ENTITLEMENT, "compute", |entitlement| {
        entitlement.is_some_and(|entitlement| entitlement["spec"]["requestMessage"] == "for the shop")
    })
    .await;
    for _ in 0..3 {
        let seen = shop.run(&["workloads"]).await;
        assert_eq!(seen.code, 11);
        assert!(
            seen.stderr
                .starts_with("Compute is being activated for project \"shop\" (requested "),
            "{}",
            seen.stderr
        );
        assert!(
            !seen.stderr.contains("error") && !seen.stderr.contains("exists"),
            "{}",
            seen.stderr
        );
    }
    let patch = json!({"status": {"phase": "Active"}});
    shop.plane
        .merge_status(ENTITLEMENT, "", "compute", patch)
        .unwrap();
    let seen = request.end().await.ok();
    assert!(seen.stdout.contains("State    Active"), "{}", seen.stdout);
    shop.run(&["workloads"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_stands_also_if_its_decision_cannot_be_watched() {
    let shop = platform().await;
    let refused = Rule::new(When::Always, Fault::Forbidden).verb(Verb::Watch);
    shop.faults.add(refused.kind("serviceentitlements"));
    let seen = shop.run(&["activation", "request", "--yes"]).await;
    assert_eq!(seen.code, 11, "{}", seen.stderr);
    assert!(shop.plane.get(ENTITLEMENT, "", "compute").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_another_user_was_faster_with_is_no_error() {
    let shop = platform().await;
    // The list shows nothing yet, and the other user's entitlement is active.
    let revision = shop.plane.revision();
    entitle(&shop, &json!({"phase": "Active"}));
    shop.plane.serve_stale(ENTITLEMENT, revision);
    let request = shop.start_run(&["activation", "request", "--yes"]);
    shop.until_requested(Verb::Create, "serviceentitlements").await;
    shop.plane.serve_fresh(ENTITLEMENT);
    let seen = request.end().await;
    assert!([0, 11].contains(&seen.code), "{}", seen.stderr);
    assert!(
        !seen.stderr.contains("exists") && !seen.stderr.contains("serviceentitlement"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_the_providers_words_and_a_wait_ends_with_it() {
    let shop = platform().await;
    let rejected = json!({"phase": "Rejected", "message": "no credit"});
    entitle(&shop, &rejected);
    for words in [&["workloads"][..], &["activation", "--wait"]] {
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 12, "{words:?}");
        assert!(seen.stderr.contains("cause: no credit"), "{}", seen.stderr);
    }
    let shop = platform().await;
    entitle(&shop, &json!({"phase": "PendingApproval"}));
    let wait = ["activation", "--wait", "--timeout", "1s"];
    assert_eq!(shop.run(&wait).await.code, 8);
    // The list of the wait itself.
    let silent = Rule::new(When::Nth(2), Fault::Hang).verb(Verb::List);
    shop.faults.add(silent.kind("serviceentitlements"));
    let seen = shop.run(&wait).await;
    assert_eq!(seen.code, 8, "{}", seen.stderr);
    let seen = shop.run(&["activation", "-o", "json"]).await.ok();
    let state: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(
        (&state["kind"], &state["state"]),
        (&json!("Activation"), &json!("Requested"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_platform_that_does_not_tell_lets_everybody() {
    let shop = Project::start("shop").await;
    shop.run(&["workloads"]).await.ok();
    for words in [&["activation"][..], &["activation", "request", "--yes"]] {
        let seen = shop.run(words).await.ok();
        assert_eq!(
            seen.stderr,
            "This control plane knows no activation: compute can be used.\n"
        );
    }
    let shop = platform().await;
    for fault in [Fault::Forbidden, Fault::Internal, Fault::Unavailable] {
        shop.faults
            .add(Rule::new(When::Always, fault).kind("serviceentitlements"));
        let seen = shop.run(&["workloads"]).await.ok();
        assert_eq!(seen.stdout, "");
        shop.faults.clear();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_has_units_and_finds_the_instances_that_wait() {
    let shop = platform().await;
    entitle(&shop, &json!({"phase": "Active"}));
    for (name, type_, status) in [
        (
            "a",
            "vcpus",
            json!({"limit": 7500, "allocated": 1500, "available": 6000}),
        ),
        (
            "b",
            "instances",
            json!({"limit": 0, "allocated": 0, "available": 0}),
        ),
    ] {
        shop.create(
            json!({"apiVersion": "quota.miloapis.com/v1alpha1", "kind": "AllowanceBucket",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"resourceType": format!("compute.datumapis.com/{type_}")}, "status": status}),
        );
        let patch = json!({"status": status});
        shop.plane
            .merge_status("AllowanceBucket", NAMESPACE, name, patch)
            .unwrap();
    }
    let labels = json!({keys::INSTANCE_CITY_CODE: "DFW"});
    shop.create(instance("web-us-dfw-0", &labels));
    let quota = json!({"conditions": [{"type": "QuotaGranted", "status": "False", "reason": "QuotaExceeded",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    shop.status("Instance", "web-us-dfw-0", &quota);
    shop.create(instance(
        "web-us-iad-0",
        &json!({keys::INSTANCE_CITY_CODE: "IAD"}),
    ));
    let rows = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(1);
        lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    let seen = shop.run(&["quota"]).await.ok();
    assert_eq!(
        rows(&seen.stdout),
        [
            "Instances count 0 0 0 -",
            "vCPUs vCPU 7.5 1.5 6 [####----------------] 20%"
        ]
    );
    let seen = shop.run(&["quota", "--constrained"]).await.ok();
    assert_eq!(rows(&seen.stdout), ["Instances count 0 0 0 -"]);
    let seen = shop.run(&["quota", "--constrained", "--by-city"]).await.ok();
    assert_eq!(rows(&seen.stdout), ["DFW d1-standard-2 1 1 QuotaExceeded"]);
    shop.faults
        .add(Rule::new(When::Always, Fault::Forbidden).kind("allowancebuckets"));
    let seen = shop.run(&["quota"]).await.ok();
    assert_eq!(seen.stderr, "Limits cannot be read here.\n");
    assert_eq!(rows(&seen.stdout).len(), 2);
    let json = shop.run(&["quota", "-o", "json"]).await.ok();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&json["resources"], &json["cities"][0]["waiting"]),
        (&json!(null), &json!(1))
    );
}
