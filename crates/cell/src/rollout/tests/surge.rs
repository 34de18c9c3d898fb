//! Tests: rollouts with a strategy (contract: serving.md §3).

use super::*;

/// A deployment of this many Instances with this surge and number of unavailable ones.
fn with(replicas: u32, surge: u32, unavailable: u32) -> Deployment {
    Deployment {
        strategy: Some(strategy(surge, unavailable)),
        ..deployment(replicas)
    }
}

fn parallel(deployment: Deployment) -> Deployment {
    Deployment {
        policy: Policy::Parallel,
        ..deployment
    }
}

/// An Instance of the current template for which quota was denied.
fn denied(n: u32) -> RolloutInstance {
    RolloutInstance {
        quota_denied: true,
        ..unready(n)
    }
}

/// An Instance that has been ready for less than `minReadySeconds`.
fn fresh(n: u32) -> RolloutInstance {
    RolloutInstance {
        available: false,
        ..ready(n)
    }
}

#[track_caller]
fn check(deployment: &Deployment, instances: &[RolloutInstance], expected: &[&str]) {
    assert_eq!(steps(deployment, instances, None), expected);
}

#[test]
fn one_instance_is_replaced_while_another_one_serves() {
    let one = with(1, 1, 0);
    check(
        &one,
        &[stale(ready(0))],
        &["Create 1* (Missing)", "Delete 0 (Roll)"],
    );
    let waits = ["Wait 1* (NotReady)", "Delete 0 (Roll)"];
    check(&one, &[stale(ready(0)), unready(1)], &waits);
    check(&one, &[stale(ready(0)), fresh(1)], &waits);
    check(&one, &[stale(ready(0)), ready(1)], &["Delete 0* (Roll)"]);
    check(
        &one,
        &[deleting(stale(unready(0))), ready(1)],
        &["Wait 0* (Terminating)", "Delete 1 (Surplus)"],
    );
    check(&one, &[ready(1)], &["Create 0* (Missing)", "Delete 1 (Surplus)"]);
    check(
        &one,
        &[fresh(0), ready(1)],
        &["Wait 0* (NotReady)", "Delete 1 (Surplus)"],
    );
    check(&one, &[ready(0), ready(1)], &["Delete 1* (Surplus)"]);
    check(&one, &[ready(0)], &[]);
    check(&one, &[], &["Create 0* (Missing)"]);
}

#[test]
fn slots_are_replaced_in_order_and_in_parallel_as_many_as_the_surge() {
    let stale_ones = [stale(ready(0)), stale(ready(1)), stale(ready(2))];
    let surging = [&stale_ones[..], &[ready(3), ready(4)]].concat();
    check(
        &with(3, 2, 0),
        &surging,
        &["Delete 0* (Roll)", "Delete 1 (Roll)", "Delete 2 (Roll)"],
    );
    check(
        &parallel(with(3, 2, 0)),
        &surging,
        &["Delete 0* (Roll)", "Delete 1* (Roll)", "Delete 2 (Roll)"],
    );
    check(
        &parallel(with(3, 2, 0)),
        &[&stale_ones[..], &[ready(3), unready(4)]].concat(),
        &[
            "Wait 4 (NotReady)",
            "Delete 0* (Roll)",
            "Delete 1 (Roll)",
            "Delete 2 (Roll)",
        ],
    );
    check(
        &parallel(with(3, 0, 2)),
        &stale_ones,
        &["Delete 0* (Roll)", "Delete 1* (Roll)", "Delete 2 (Roll)"],
    );
    check(
        &parallel(with(3, 0, 2)),
        &[unready(0), unready(1), stale(ready(2))],
        &["Wait 0 (NotReady)", "Wait 1 (NotReady)", "Delete 2 (Roll)"],
    );
}

#[test]
fn instances_that_never_become_ready_replace_nothing_and_are_deleted_after_a_revert() {
    check(
        &with(2, 1, 0),
        &[stale(ready(0)), stale(ready(1)), unready(2)],
        &["Wait 2* (NotReady)", "Delete 0 (Roll)", "Delete 1 (Roll)"],
    );
    check(
        &with(2, 1, 0),
        &[unready(0), stale(down(1)), ready(2)],
        &["Wait 0* (NotReady)", "Delete 1 (Roll)"],
    );
    check(
        &with(2, 1, 0),
        &[ready(0), ready(1), stale(unready(2))],
        &["Delete 2* (Surplus)"],
    );
    // After a third template, the surge Instance of the second template is deleted.
    check(
        &with(2, 1, 0),
        &[stale(ready(0)), stale(ready(1)), stale(unready(2))],
        &["Delete 0 (Roll)", "Delete 1 (Roll)", "Delete 2* (Surplus)"],
    );
}

#[test]
fn an_available_instance_stays_until_enough_others_are_available() {
    // The template changes again while slot 0 is replaced: the Instance of the surge is the only one that serves.
    check(
        &with(1, 1, 0),
        &[stale(unready(0)), stale(ready(1))],
        &["Delete 0* (FixForward)", "Delete 1 (Surplus)"],
    );
    // Slot 0 has no available Instance, so its Instance is replaced at once. The surplus Instance of the former template serves
    // until slot 0 is available.
    check(
        &with(1, 1, 0),
        &[stale(down(0)), stale(ready(1))],
        &["Delete 0* (Roll)", "Delete 1 (Surplus)"],
    );
}

#[test]
fn a_surge_without_quota_makes_room_by_one_unavailable_instance() {
    check(
        &with(2, 1, 0),
        &[stale(ready(0)), stale(ready(1)), denied(2)],
        &[
            "Delete 0* (Roll)",
            "Delete 1 (Roll)",
            "Wait 2 (SurgeWithoutQuota)",
        ],
    );
    check(
        &with(2, 1, 0),
        &[stale(ready(1)), denied(2)],
        &[
            "Create 0* (Missing)",
            "Delete 1 (Roll)",
            "Wait 2 (SurgeWithoutQuota)",
        ],
    );
    check(
        &with(2, 1, 0),
        &[ready(0), ready(1), denied(2)],
        &["Delete 2* (Surplus)"],
    );
}

#[test]
fn denied_surges_let_no_more_instances_go_than_one() {
    let all = [0, 1, 2, 3].map(|n| stale(fresh(n)));
    let denied_ones = [4, 5, 6, 7].map(denied);
    let steps = steps(
        &parallel(with(4, 4, 0)),
        &[&all[..], &denied_ones[..]].concat(),
        None,
    );
    assert!(
        steps.iter().all(|step| !step.contains('*')),
        "ready Instances are not deleted before they are available: {steps:?}"
    );
    let all = [0, 1, 2, 3].map(|n| stale(ready(n)));
    check(
        &parallel(with(4, 4, 0)),
        &[&all[..], &denied_ones[..]].concat(),
        &[
            "Delete 0* (Roll)",
            "Delete 1 (Roll)",
            "Delete 2 (Roll)",
            "Delete 3 (Roll)",
            "Wait 4 (SurgeWithoutQuota)",
            "Wait 5 (SurgeWithoutQuota)",
            "Wait 6 (SurgeWithoutQuota)",
            "Wait 7 (SurgeWithoutQuota)",
        ],
    );
    // An Instance that is denied quota in a scale-down lets no available one go.
    check(
        &parallel(with(3, 1, 0)),
        &[ready(0), ready(1), down(2), ready(3), denied(4)],
        &["Wait 2 (NotReady)", "Delete 4* (Surplus)", "Delete 3 (Surplus)"],
    );
}

#[test]
fn the_surge_gives_its_quota_to_a_slot() {
    check(
        &with(2, 1, 0),
        &[denied(0), stale(ready(1)), ready(2)],
        &["Wait 0* (NotReady)", "Delete 1 (Roll)", "Delete 2* (Surplus)"],
    );
    // Every Instance has the template: the surge serves until the slot has quota.
    check(
        &with(1, 1, 0),
        &[denied(0), ready(1)],
        &["Wait 0* (NotReady)", "Delete 1 (Surplus)"],
    );
}

#[test]
fn a_surge_that_does_not_start_is_not_needed_if_an_instance_may_be_unavailable() {
    check(
        &with(2, 1, 1),
        &[stale(ready(0)), stale(ready(1)), unready(2)],
        &["Wait 2* (NotReady)", "Delete 0* (Roll)", "Delete 1 (Roll)"],
    );
    check(
        &with(2, 1, 1),
        &[unready(0), stale(ready(1)), unready(2)],
        &["Wait 0* (NotReady)", "Wait 2 (NotReady)", "Delete 1 (Roll)"],
    );
}

#[test]
fn a_pause_holds_replacements_and_the_surge_and_nothing_else() {
    let paused = |instances: &[RolloutInstance]| steps(&with(2, 1, 0), instances, Some(RolloutHold::Paused));
    assert_eq!(
        paused(&[stale(ready(0)), stale(ready(1))]),
        ["Wait 0* (Paused)", "Wait 1 (Paused)"]
    );
    assert_eq!(
        paused(&[stale(ready(0))]),
        ["Create 1* (Missing)", "Wait 0 (Paused)"],
        "the number follows minReplicas"
    );
    assert_eq!(
        paused(&[stale(ready(0)), stale(ready(1)), stale(ready(2)), stale(ready(3))]),
        [
            "Wait 0* (Paused)",
            "Wait 1 (Paused)",
            "Delete 3* (Surplus)",
            "Delete 2 (Surplus)"
        ]
    );
    assert_eq!(
        paused(&[ready(0), stale(ready(1)), ready(2)]),
        ["Wait 1* (Paused)"],
        "the surge of the rollout stays"
    );
}

#[test]
fn scaling_down_in_a_rollout_leaves_as_many_available_as_are_wanted() {
    check(
        &with(1, 1, 0),
        &[stale(ready(0)), stale(ready(1)), stale(ready(2)), unready(3)],
        &[
            "Delete 0* (Roll)",
            "Delete 3* (Surplus)",
            "Delete 2 (Surplus)",
            "Delete 1 (Surplus)",
        ],
    );
    check(
        &with(1, 1, 0),
        &[unready(0), stale(ready(1)), stale(ready(2))],
        &["Wait 0* (NotReady)", "Delete 2* (Surplus)", "Delete 1 (Surplus)"],
    );
    check(
        &with(1, 1, 0),
        &[unready(0), stale(ready(1))],
        &["Wait 0* (NotReady)", "Delete 1 (Surplus)"],
    );
}
