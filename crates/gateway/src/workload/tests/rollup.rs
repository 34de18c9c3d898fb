//! Tests of the Workload's status.

use super::*;

#[test]
fn counters_are_sums_and_count_what_leaves() {
    let mut s = normalized(&[("us", &["DFW", "IAD"]), ("eu", &["LHR"])]);
    let counts = |n| ReplicaCounts {
        replicas: n,
        current_replicas: 2 * n,
        desired_replicas: 3 * n,
        ready_replicas: 4 * n,
        updated_replicas: 5 * n,
    };
    for (i, n) in [1, 10, 100].into_iter().enumerate() {
        report(&mut s.deployments[i], &[], counts(n));
    }
    s.workload.spec.placements[0].city_codes.pop();
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), ["delete shop-us-iad", "status"]);
    let status = status_of(&effects);
    assert_eq!((status.deployments, status.counts), (3, counts(111)));
    assert_eq!(status.placements[0].counts, counts(11));
    assert_eq!(status.placements[1].counts, counts(100));
}

#[test]
fn one_that_serves_is_enough_and_the_worst_speaks_otherwise() {
    use ConditionStatus::{False, True, Unknown};
    let mut s = normalized(&[("us", &["DFW", "IAD"]), ("eu", &["LHR"])]);
    let none = ReplicaCounts::default();
    report(
        &mut s.deployments[0],
        &[("Available", False, "InstancesProvisioning")],
        none,
    );
    report(
        &mut s.deployments[1],
        &[
            ("Available", False, "ImageUnavailable"),
            ("Federated", True, "Delivered"),
        ],
        none,
    );
    report(
        &mut s.deployments[2],
        &[
            ("Available", Unknown, "Stranger"),
            ("Federated", False, "NoCellForCity"),
        ],
        none,
    );
    let effects = step(&mut s, 2);
    assert_eq!(
        reasons(status_of(&effects)),
        ["NoCellForCity", "ImageUnavailable", "NoCellForCity"]
    );
    assert_eq!(status_of(&effects).conditions[0].message, "NoCellForCity!");

    report(
        &mut s.deployments[0],
        &[("Available", True, "StableInstanceFound")],
        none,
    );
    let effects = step(&mut s, 3);
    let wanted = [
        "AvailablePlacementFound",
        "AvailableDeploymentFound",
        "NoCellForCity",
    ];
    assert_eq!(reasons(status_of(&effects)), wanted);
    let available = find(&status_of(&effects).conditions, "Available").unwrap();
    assert_eq!(
        (available.status, available.last_transition_time.0),
        (True, at(3))
    );
    assert_eq!(available.observed_generation, Some(3));

    // The condition's status does not change, so its transition time does not either.
    report(
        &mut s.deployments[0],
        &[("Available", True, "StableInstanceFound")],
        ReplicaCounts { replicas: 1, ..none },
    );
    let effects = step(&mut s, 4);
    assert_eq!(
        find(&status_of(&effects).conditions, "Available")
            .unwrap()
            .last_transition_time
            .0,
        at(3)
    );
}

#[test]
fn metrics_are_answered_by_a_condition() {
    let mut s = normalized(&[("us", &["DFW"])]);
    let scale = json!({"minReplicas": 1, "metrics": [{"resource": {"name": "cpu", "target": {"value": 1}}}]});
    s.workload.spec.placements[0].scale_settings = serde_json::from_value(scale).unwrap();
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), ["update shop-us-dfw us/DFW", "status"]);
    let condition = find(&status_of(&effects).conditions, "AutoscalingReady").unwrap();
    assert_eq!(
        (condition.status, condition.reason.as_str()),
        (ConditionStatus::Unknown, "AwaitingAutoscaler")
    );
    s.workload.spec.placements[0].scale_settings.metrics.clear();
    let effects = step(&mut s, 3);
    assert_eq!(find(&status_of(&effects).conditions, "AutoscalingReady"), None);
}

#[test]
fn every_reason_surfaces_on_the_workload() {
    for reason in Reason::ALL
        .iter()
        .filter(|r| r.priority().is_some() && **r != Reason::NoAvailableDeployments)
    {
        for type_ in ["Available", "ReferencedDataReady", "Federated"] {
            let mut s = normalized(&[("us", &["DFW"])]);
            let condition = [(type_, ConditionStatus::False, reason.as_str())];
            report(&mut s.deployments[0], &condition, ReplicaCounts::default());
            assert_eq!(reasons(status_of(&step(&mut s, 2))), [reason.as_str(); 2]);
        }
    }
}
