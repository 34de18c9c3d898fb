//! At a cell that leaves Instances to another provider.

use super::{Cell, now, running, said, with};
use crate::{
    api::keys,
    cell::{
        fixture::{Fixture, NS, condition, words},
        provider::{decide::Surroundings, observe, recovery::Sightings, retire, settings::Settings},
        size::Sizes,
        world::role::Role,
    },
    engine::clock::Now,
};
use serde_json::json;
use tokio::time::Instant;

/// What is done for an Instance at a cell that leaves Instances to another provider.
fn retired(fixture: &mut Fixture) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let snapshot = observe::observe(&fixture.context, &super::key()).unwrap();
        let around = Surroundings {
            settings: &Settings::default(),
            sizes: &Sizes::default(),
            successor_in: None,
            held: None,
            service_held: None,
            going: None,
            sightings: &Sightings::default(),
            now: Now {
                wall: now(),
                instant: Instant::now(),
            },
        };
        let plan = retire::decide(&snapshot, &around);
        if plan.is_idle() {
            return all;
        }
        all.extend(words(&plan.effects));
        fixture.perform(&plan.effects);
    }
}

#[test]
fn a_provider_that_is_switched_off_starts_nothing_and_ends_what_it_has_begun() {
    // What it never began is not its own.
    let mut other = with(&json!({}));
    assert_eq!(retired(&mut other), Vec::<String>::new());
    let gated = json!({"metadata": {"finalizers": [keys::PROVIDER_FINALIZER]},
        "spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}});
    let mut gated = with(&gated);
    assert_eq!(
        retired(&mut gated),
        ["cell: patch instances web-0: provider_done"]
    );
    // What runs goes on running and is reported on.
    let mut fixture = running();
    assert_eq!(retired(&mut fixture), Vec::<String>::new());
    let down = json!({"status": {"conditions": [condition("Ready", "False", "Down")]}});
    fixture.change(&Cell, Role::Pods, NS, "web-0", &down);
    assert_eq!(
        retired(&mut fixture),
        ["cell: patch instances/status web-0: instance_report"]
    );
    assert_eq!(said(&fixture), ["True Programmed", "False Starting"]);
    // Of what has ended nothing is started again.
    let failed = json!({"status": {"phase": "Failed"}});
    fixture.change(&Cell, Role::Pods, NS, "web-0", &failed);
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
    let owner = fixture.get(&Cell, Role::Pods, NS, "web-0").unwrap()["metadata"].clone();
    let policy = json!({"metadata": {"name": "web-0", "namespace": NS, "uid": "uid-policy", "resourceVersion": "1",
        "labels": owner["labels"], "ownerReferences": owner["ownerReferences"]}, "spec": {"policyTypes": ["Ingress"]}});
    fixture.has(&Cell, Role::NetworkPolicies, policy);
    assert_eq!(retired(&mut fixture), Vec::<String>::new());
    fixture.lost(&Cell, Role::Pods, NS, "web-0");
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
