//! 84 and what else only the whole run shows.

use crate::support::{
    Case,
    audit::GATEWAY,
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
    forbidden.dedup();
    assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
}

async fn nothing_is_left_on_the_hub(case: Case) {
    case.suite.keep_no_longer().await;
    case.suite.only_live_namespaces().await;
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
