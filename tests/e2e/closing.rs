//! 84 and what else only the whole run shows.

use crate::{
    returns,
    support::{
        Case,
        audit::{AuditLog, Entry, GATEWAY},
        credentials::Twin,
        federated::federated,
        in_all_worlds,
        kinds::{CLUSTER_POLICY, DEPLOYMENT, NAMESPACE},
        label, log_lines,
        rights::{as_of_first, granted, needed},
        seconds,
        suite::{ALPHA_KEY, BETA_KEY, SYSTEM, Suite},
        trials, wait_for,
    },
};
use fedgate_api::keys;
use fedgate_manifests::{Plane, RETURNS};
use fedgate_sandbox::Sandbox;
use std::{collections::BTreeSet, time::Duration};

trials![
    #[core]
    a84_no_request_was_forbidden,
    #[core]
    nothing_is_left_on_the_hub,
    no_right_is_unused,
    #[core]
    metrics_name_no_tenant,
    #[core]
    no_log_line_has_a_key_twice,
];

async fn a84_no_request_was_forbidden(case: Case) {
    let suite = &case.suite;
    let mut asked = 0;
    let mut forbidden: Vec<String> = Vec::new();
    for (plane, log) in [
        ("hub", &suite.hub_log),
        ("alpha", &suite.alpha_log),
        ("beta", &suite.beta_log),
    ] {
        for entry in log
            .since(0, GATEWAY)
            .iter()
            .filter(|e| e.user.username == GATEWAY)
        {
            asked += 1;
            let said = &entry.response_status.message;
            let allowed = entry.response_status.code != 403
                || said.contains("because it is being terminated")
                || said.contains("exceeded quota")
                // Karmada's webhook, while 81 has a rival of our interpreter: no right would change that.
                || said.contains("denied the request: conflicting with InterpreterOperation")
                // doctor's question to members, for a name that no object can have, while they have not heard yet that
                // the role is there again.
                || entry.request_uri.ends_with("/FEDGATE-DOCTOR")
                // An API server that starts answers before it has read its roles.
                || suite.was_out(plane, &entry.request_received_timestamp).await;
            if !allowed {
                forbidden.push(format!(
                    "{plane}: {} {}: {said}",
                    entry.action(),
                    entry.object_ref.name
                ));
            }
        }
    }
    assert!(asked > 100, "the audit logs show the gateway at work");
    forbidden.extend(forbidden_to_returns(suite).await);
    forbidden.dedup();
    assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
}

/// The requests of `fedgate returns` to the member where it runs.
async fn asked_of_member(suite: &Suite) -> Vec<Entry> {
    let member = &suite.dfw.name;
    let log = suite
        .with_sandbox(async |sandbox: &Sandbox| AuditLog::new(&sandbox.audit_log(member)))
        .await;
    let user = Twin::of(&suite.dfw.plane, SYSTEM, RETURNS).user();
    let mut asked = log.since(0, &user);
    asked.retain(|entry| entry.user.username == user);
    asked
}

/// The requests of `fedgate returns` that the member forbade, if a test of this world has started it.
async fn forbidden_to_returns(suite: &Suite) -> Vec<String> {
    if !returns::has_member() {
        return Vec::new();
    }
    let asked = asked_of_member(suite).await;
    assert!(
        asked.len() > 10,
        "the member's audit log shows fedgate returns at work"
    );
    let mut forbidden = Vec::new();
    for entry in asked.iter().filter(|entry| entry.response_status.code == 403) {
        if !suite
            .was_out(&suite.dfw.name, &entry.request_received_timestamp)
            .await
        {
            let said = &entry.response_status.message;
            forbidden.push(format!(
                "member: {} {}: {said}",
                entry.action(),
                entry.object_ref.name
            ));
        }
    }
    forbidden
}

async fn nothing_is_left_on_the_hub(case: Case) {
    case.suite.keep_no_longer().await;
    case.suite.only_live_namespaces().await;
    wait_for("every city set's policy has a namespace", seconds(60), || async {
        let namespaces = case.hub.list(&NAMESPACE, "", keys::CITIES).await;
        let used: Vec<String> = namespaces
            .iter()
            .filter_map(|ns| label(ns, keys::CITIES))
            .map(fedgate_api::names::city_set_policy)
            .collect();
        let policies = case.hub.list(&CLUSTER_POLICY, "", "").await;
        policies
            .iter()
            .filter_map(|p| p["metadata"]["name"].as_str())
            .filter(|name| name.starts_with("cities-"))
            .all(|name| used.iter().any(|u| u == name))
            .then_some(())
    })
    .await;
}

async fn no_log_line_has_a_key_twice(case: Case) {
    let (faults, lines) = log_lines::faults(&case.suite.dir).expect("the logs can be read");
    assert!(lines > 100, "the logs show the gateway at work");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The rights of the gateway and of `fedgate returns` that no request of the run has needed.
async fn unused(suite: &Suite) -> Vec<String> {
    let mut used = BTreeSet::new();
    for (plane, log) in [
        ("hub", &suite.hub_log),
        ("project", &suite.alpha_log),
        ("project", &suite.beta_log),
    ] {
        let entries = log.since(0, GATEWAY);
        let asked = entries
            .iter()
            .filter(|e| e.user.username == GATEWAY && e.response_status.code != 403);
        used.extend(asked.flat_map(|entry| needed(plane, entry)));
    }
    let kinds = federated().expect("the kinds load");
    let (first, other) = kinds.split_first().expect("there is a built-in kind");
    let mut used = as_of_first(used, first, other);
    let asked = asked_of_member(suite).await.into_iter();
    let below = asked.filter(|entry| entry.response_status.code != 403);
    let below = below.flat_map(|entry| needed("member", &entry)).collect();
    used.extend(as_of_first(below, first, other));
    let planes = [(Plane::Hub, "hub"), (Plane::Project, "project")];
    let mut all = granted(GATEWAY, &planes, &kinds);
    let below = granted(RETURNS, &[(Plane::Cell, "member")], &kinds);
    assert!(!below.is_empty(), "the role of fedgate returns is found");
    all.extend(below);
    as_of_first(all, first, other)
        .difference(&used)
        .filter(|right| !right.is_spare())
        .map(ToString::to_string)
        .collect()
}

async fn no_right_is_unused(case: Case) {
    let suite = &case.suite;
    // The logs have a watch once it has ended.
    suite.gateway.stop().await;
    returns::member(&case).await.stop().await;
    let mut left = unused(suite).await;
    for _ in 0..10 {
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        left = unused(suite).await;
    }
    suite.gateway.start().await;
    let left = in_all_worlds("e2e", left);
    assert!(
        left.is_empty(),
        "granted and never used; take it out of crates/manifests/src/yaml or src/rbac.rs there, or say in support/rights.rs why not: {left:#?}"
    );
}

async fn metrics_name_no_tenant(case: Case) {
    let suite = &case.suite;
    case.deploy("web", "DFW").await;
    let mut names: BTreeSet<String> = [ALPHA_KEY, BETA_KEY, "web"].map(str::to_owned).into();
    for plane in [&suite.hub, &suite.alpha, &suite.beta] {
        for kind in [&NAMESPACE, &DEPLOYMENT] {
            let objects = plane.list(kind, "", "").await;
            names.extend(
                objects
                    .iter()
                    .filter_map(|o| Some(o["metadata"]["name"].as_str()?.to_owned())),
            );
        }
    }
    assert!(names.contains(&case.ns) && names.contains(&case.hub_ns));
    let text = suite.gateway.metrics().await;
    let values: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split("=\"").skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(values.contains("hub") && values.len() > 20, "{values:?}");
    let told: Vec<&&str> = values
        .iter()
        .filter(|value| names.iter().any(|name| value.split('/').any(|part| part == name)))
        .collect();
    assert!(
        told.is_empty(),
        "labels of metrics name tenants or their objects: {told:?}"
    );
}
