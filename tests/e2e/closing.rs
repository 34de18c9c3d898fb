//! 84 and what else only the whole run shows.

use crate::support::{
    Case, Entry,
    audit::GATEWAY,
    hub_namespace,
    kinds::{CLUSTER_POLICY, NAMESPACE},
    label, seconds, trials, wait_for,
};
use fedgate::api::keys;

trials![a84_no_request_was_forbidden, nothing_is_left_on_the_hub];

async fn a84_no_request_was_forbidden(case: Case) {
    let suite = &case.suite;
    let mut asked = 0;
    let mut forbidden: Vec<String> = Vec::new();
    for (plane, log) in [
        ("hub", &suite.hub_log),
        ("alpha", &suite.alpha_log),
        ("beta", &suite.beta_log),
    ] {
        let entries = log.since(0, GATEWAY);
        let entries: Vec<&Entry> = entries.iter().filter(|e| e.user.username == GATEWAY).collect();
        asked += entries.len();
        forbidden.extend(
            entries
                .iter()
                .filter(|e| e.response_status.code == 403)
                .filter(|e| {
                    !e.response_status
                        .message
                        .contains("because it is being terminated")
                })
                .filter(|e| !e.response_status.message.contains("exceeded quota"))
                .map(|e| {
                    format!(
                        "{plane}: {} {}: {}",
                        e.action(),
                        e.object_ref.name,
                        e.response_status.message
                    )
                }),
        );
    }
    assert!(asked > 100, "the audit logs show the gateway at work");
    forbidden.dedup();
    assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
}

async fn nothing_is_left_on_the_hub(case: Case) {
    let what = "every hub namespace without a project namespace is gone";
    wait_for(what, seconds(120), || async {
        let mut tied: Vec<String> = Vec::new();
        for plane in [&case.suite.alpha, &case.suite.beta] {
            tied.extend(plane.list(&NAMESPACE, "", "").await.iter().map(hub_namespace));
        }
        let hub = case.hub.list(&NAMESPACE, "", keys::PROJECT_UID).await;
        hub.iter()
            .all(|ns| tied.iter().any(|name| ns["metadata"]["name"] == *name))
            .then_some(())
    })
    .await;
    wait_for("every city set's policy has a namespace", seconds(60), || async {
        let namespaces = case.hub.list(&NAMESPACE, "", keys::CITIES).await;
        let used: Vec<String> = namespaces
            .iter()
            .filter_map(|ns| label(ns, keys::CITIES))
            .map(fedgate::api::names::city_set_policy)
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
