//! Tests: `NetworkPolicies` of Pods.

use super::*;

fn on() -> Settings {
    let mut on = settings();
    on.pods.network_policies = true;
    on
}

/// An Instance whose template has these ingress rules.
fn letting_in(rules: &Value) -> Fixture {
    let interfaces = json!([{"network": {"name": "default"}, "networkPolicy": {"ingress": rules}}]);
    with(&json!({"spec": {"networkInterfaces": interfaces}}))
}

#[test]
fn a_policy_comes_before_the_pod_is_mended_and_goes_after_it() {
    let rules = json!([{"ports": [{"port": 80}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]);
    let mut fixture = letting_in(&rules);
    assert_eq!(
        settle_with(&mut fixture, &on())[2..],
        [
            "cell: create networkpolicies web-0: network_policy",
            "cell: create pods web-0: pod",
            "cell: create services web-0: service",
            "cell: patch instances/status web-0: instance_report"
        ]
    );
    let policy = |fixture: &Fixture| {
        let policy = fixture.get(&Cell, TableId::NetworkPolicies, NS, "web-0").unwrap();
        policy["spec"].clone()
    };
    let uid = stored(&fixture)["metadata"]["uid"].clone();
    let wanted = json!({
        "podSelector": {"matchLabels": {keys::INSTANCE_UID: uid}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    });
    assert_eq!(policy(&fixture), wanted);
    let open =
        json!({"spec": {"ingress": [{}], "egress": [{}], "podSelector": {"matchLabels": {"app": "other"}}}});
    let enqueued = fixture.change(&Cell, TableId::NetworkPolicies, NS, "web-0", &open);
    assert_eq!(enqueued, [key()]);
    assert_eq!(
        settle_with(&mut fixture, &on()),
        ["cell: patch networkpolicies web-0: network_policy"]
    );
    assert_eq!(policy(&fixture), wanted);
    let going = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &going);
    let held = json!({"metadata": {"finalizers": ["x.example.com/y"]}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &held);
    assert_eq!(
        settle_with(&mut fixture, &on()),
        [
            "cell: patch instances/status web-0: instance_report",
            "cell: delete services web-0: service_stopped",
            "cell: delete pods web-0: pod_stopped"
        ]
    );
    fixture.lost(&Cell, TableId::Pods, NS, "web-0");
    assert_eq!(
        settle_with(&mut fixture, &on()),
        [
            "cell: delete networkpolicies web-0: network_policy_stopped",
            "cell: patch instances web-0: provider_done"
        ]
    );
}

#[test]
fn without_the_setting_there_is_none_and_one_that_was_made_goes() {
    let mut fixture = with(&json!({}));
    settle_with(&mut fixture, &on());
    let written = settle_with(&mut fixture, &settings());
    assert_eq!(
        written,
        ["cell: delete networkpolicies web-0: network_policy_unwanted"]
    );
    assert_eq!(settle_with(&mut fixture, &settings()), [""; 0]);
}

#[test]
fn limits_that_nobody_would_enforce_are_refused() {
    let mut limited = letting_in(&json!([{"ports": [{"port": 80}]}]));
    settle_with(&mut limited, &settings());
    assert_eq!(
        said(&limited),
        ["False ConfigurationError", "False ConfigurationError"]
    );
    assert!(limited.get(&Cell, TableId::Pods, NS, "web-0").is_none());
    // A rule that admits all traffic needs no enforcement.
    let mut open = letting_in(&json!([{}]));
    settle_with(&mut open, &settings());
    assert!(open.get(&Cell, TableId::Pods, NS, "web-0").is_some());
}

/// Without its policy no Pod is started; a Pod that runs already is reported, together with the missing policy.
#[test]
fn a_policy_that_is_refused_starts_no_pod_and_stops_no_report() {
    let why = "the cell's API server refuses the NetworkPolicy: quota";
    let mut fixture = with(&json!({}));
    let finalizer = decided_with(&fixture, &on(), None);
    fixture.perform(&finalizer.effects);
    let refused = decided_with(&fixture, &on(), Some(why));
    fixture.perform(&refused.effects);
    assert_eq!(
        said(&fixture),
        ["False ConfigurationError", "False ConfigurationError"]
    );
    assert!(fixture.get(&Cell, TableId::Pods, NS, "web-0").is_none());
    let mut fixture = running();
    let report = decided_with(&fixture, &on(), Some(why));
    assert_eq!(
        words(&report.effects),
        ["cell: patch instances/status web-0: instance_report"]
    );
    fixture.perform(&report.effects);
    assert_eq!(said(&fixture), ["False ConfigurationError", "True Available"]);
}
