//! Tests: a cell that leaves Instances to another provider.

use super::{Cell, running, said, settle_with, with};
use crate::{
    index::tables::TableId,
    settings::Settings,
    testing::{Fixture, NS, condition, settings},
};
use fedgate_api::keys;
use serde_json::json;

/// Retires the provider for an Instance until the plan is idle; returns the writes.
fn retired(fixture: &mut Fixture) -> Vec<String> {
    let off = Settings {
        provider: false,
        ..settings()
    };
    settle_with(fixture, &off)
}

#[test]
fn a_provider_that_is_switched_off_starts_nothing_and_ends_what_it_has_begun() {
    // The provider does not touch an Instance without its finalizer.
    let mut other = with(&json!({}));
    assert_eq!(retired(&mut other), Vec::<String>::new());
    let gated = json!({"metadata": {"finalizers": [keys::PROVIDER_FINALIZER]},
        "spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}});
    let mut gated = with(&gated);
    assert_eq!(
        retired(&mut gated),
        ["cell: patch instances web-0: provider_done"]
    );
    // A Pod that runs continues and is reported.
    let mut fixture = running();
    assert_eq!(retired(&mut fixture), Vec::<String>::new());
    let down = json!({"status": {"conditions": [condition("Ready", "False", "Down")]}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &down);
    assert_eq!(
        retired(&mut fixture),
        ["cell: patch instances/status web-0: instance_report"]
    );
    assert_eq!(said(&fixture), ["True Programmed", "False Starting"]);
    // A Pod that has ended is not started again.
    let failed = json!({"status": {"phase": "Failed"}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &failed);
    assert_eq!(
        retired(&mut fixture),
        [
            "cell: patch instances/status web-0: instance_report",
            "cell: delete pods web-0: pod_stopped",
            "cell: delete services web-0: service_stopped",
            "cell: patch instances web-0: provider_done",
        ]
    );
    assert_eq!(said(&fixture), ["False Failed", "False Failed"]);
}

#[test]
fn a_policy_holds_until_nothing_runs_and_goes_before_the_hand_over() {
    let mut fixture = running();
    let owner = fixture.get(&Cell, TableId::Pods, NS, "web-0").unwrap()["metadata"].clone();
    let policy = json!({"metadata": {"name": "web-0", "namespace": NS, "uid": "uid-policy", "resourceVersion": "1",
        "labels": owner["labels"], "ownerReferences": owner["ownerReferences"]}, "spec": {"policyTypes": ["Ingress"]}});
    fixture.has(&Cell, TableId::NetworkPolicies, policy);
    assert_eq!(retired(&mut fixture), Vec::<String>::new());
    fixture.lost(&Cell, TableId::Pods, NS, "web-0");
    assert_eq!(
        retired(&mut fixture),
        [
            "cell: patch instances/status web-0: instance_report",
            "cell: delete services web-0: service_stopped",
            "cell: delete networkpolicies web-0: network_policy_stopped",
            "cell: patch instances web-0: provider_done",
        ]
    );
}
