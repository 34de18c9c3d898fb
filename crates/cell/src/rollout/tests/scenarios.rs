//! Tests: the table of cell.md §2.4, by scenario number.

use super::*;
use crate::rollout::StepAction;
use fedgate_api::{ManagementPolicy, Reason};
use serde_json::{Value, json};

fn parallel(replicas: u32) -> Deployment {
    Deployment {
        policy: Policy::Parallel,
        ..deployment(replicas)
    }
}

#[track_caller]
fn check(deployment: &Deployment, instances: &[RolloutInstance], expected: &[&str]) {
    assert_eq!(steps(deployment, instances, None), expected);
    let mut turned = instances.to_vec();
    turned.reverse();
    assert_eq!(
        steps(deployment, &turned, None),
        expected,
        "whatever the order of the list"
    );
}

fn patches(instances: &[RolloutInstance]) -> Vec<Value> {
    let steps = plan(&deployment(2), instances, None);
    let patches = steps.into_iter().filter_map(|step| match step.act {
        StepAction::PatchLabels { patch, .. } => Some(patch),
        _ => None,
    });
    patches.collect()
}

#[test]
fn s01_s02_the_first_instance_comes_first_and_the_others_are_said_to_wait() {
    check(
        &deployment(2),
        &[],
        &["Create 0* (Missing)", "Create 1 (Missing)"],
    );
    check(
        &deployment(3),
        &[],
        &["Create 0* (Missing)", "Create 1 (Missing)", "Create 2 (Missing)"],
    );
}

#[test]
fn s07_s14_to_s18_a_changed_template_rolls_from_the_highest_and_is_fixed_forward() {
    let all_stale = [stale(ready(0)), stale(ready(1))];
    check(
        &deployment(2),
        &all_stale,
        &["Delete 1* (Roll)", "Delete 0 (Roll)"],
    );
    check(
        &deployment(2),
        &[stale(ready(0)), stale(unready(1))],
        &["Delete 1* (FixForward)", "Delete 0 (Roll)"],
    );
    check(
        &deployment(3),
        &[unready(0), stale(unready(1)), stale(ready(2))],
        &["Wait 0* (NotReady)", "Delete 1 (FixForward)", "Delete 2 (Roll)"],
    );
    check(
        &deployment(3),
        &[stale(ready(0)), stale(ready(1)), unready(2)],
        &["Wait 2* (NotReady)", "Delete 1 (Roll)", "Delete 0 (Roll)"],
    );
    check(
        &deployment(3),
        &[stale(ready(0)), stale(ready(1)), stale(unready(2))],
        &["Delete 2* (FixForward)", "Delete 1 (Roll)", "Delete 0 (Roll)"],
    );
    check(&deployment(1), &[stale(ready(0))], &["Delete 0* (Roll)"]);
    check(&deployment(1), &[], &["Create 0* (Missing)"]);
}

#[test]
fn s37_to_s41_what_served_is_replaced_in_its_turn_alone() {
    check(
        &deployment(2),
        &[stale(ready(0)), stale(down(1))],
        &["Delete 1* (Roll)", "Delete 0 (Roll)"],
    );
    check(
        &deployment(3),
        &[stale(down(0)), stale(ready(1)), unready(2)],
        &["Wait 2* (NotReady)", "Delete 0 (Roll)", "Delete 1 (Roll)"],
    );
    check(
        &deployment(3),
        &[stale(down(0)), stale(down(1)), stale(unready(2))],
        &["Delete 2* (FixForward)", "Delete 1 (Roll)", "Delete 0 (Roll)"],
    );
    check(
        &deployment(3),
        &[stale(down(0)), stale(ready(1))],
        &["Create 2* (Missing)", "Delete 0 (Roll)", "Delete 1 (Roll)"],
    );
    check(
        &deployment(3),
        &[down(0), stale(down(1)), stale(ready(2))],
        &["Wait 0* (NotReady)", "Delete 1 (Roll)", "Delete 2 (Roll)"],
    );
    check(
        &parallel(3),
        &[stale(down(0)), stale(ready(1)), unready(2)],
        &["Wait 2 (NotReady)", "Delete 0 (Roll)", "Delete 1 (Roll)"],
    );
    check(
        &parallel(3),
        &[stale(down(0)), stale(down(1)), stale(ready(2))],
        &["Delete 1* (Roll)", "Delete 0 (Roll)", "Delete 2 (Roll)"],
    );
}

#[test]
fn s42_without_a_number_nothing_comes_or_goes() {
    let numberless = Deployment {
        replicas: None,
        ..deployment(0)
    };
    let homeless = labelled(ready(0), keys::INSTANCE_CITY_CODE, None);
    let odd = labelled(named(ready(0), "odd"), keys::INSTANCE_INDEX, None);
    check(
        &numberless,
        &[homeless, stale(unready(1)), stale(ready(7)), odd],
        &["PatchLabels 0* (Labels)"],
    );
}

#[test]
fn s43_an_end_that_nobody_confirms_holds_up_nothing_but_its_own_place_and_the_roll() {
    check(
        &deployment(1),
        &[ready(0), ready(1), lost(ready(2))],
        &["Wait 2 (Lost)", "Delete 1* (Surplus)"],
    );
    check(
        &deployment(3),
        &[lost(ready(0)), stale(ready(1))],
        &["Wait 0 (Lost)", "Create 2* (Missing)", "Delete 1 (Roll)"],
    );
    check(
        &deployment(2),
        &[lost(ready(0)), stale(ready(1))],
        &["Wait 0 (Lost)", "Delete 1 (Roll)"],
    );
    let mut former = lost(ready(0));
    former.owner = Owner::Deployment("uid-former".into());
    check(
        &deployment(2),
        &[former],
        &["Wait 0* (Lost)", "Create 0 (Missing)", "Create 1* (Missing)"],
    );
}

#[test]
fn s08_to_s10_a_slot_that_is_not_ready_holds_up_what_comes_after_it() {
    check(
        &deployment(3),
        &[ready(0), unready(1)],
        &["Wait 1* (NotReady)", "Create 2 (Missing)"],
    );
    check(
        &deployment(3),
        &[ready(0), deleting(ready(1))],
        &["Wait 1* (Terminating)", "Create 2 (Missing)"],
    );
    check(
        &deployment(3),
        &[unready(1)],
        &["Create 0* (Missing)", "Wait 1 (NotReady)", "Create 2 (Missing)"],
    );
}

#[test]
fn s11_to_s13_surplus_goes_one_at_a_time_whatever_else_waits() {
    check(&deployment(1), &[ready(0), ready(1)], &["Delete 1* (Surplus)"]);
    check(
        &deployment(1),
        &[ready(0), ready(1), deleting(ready(2))],
        &["Wait 2* (Terminating)", "Delete 1 (Surplus)"],
    );
    check(
        &deployment(2),
        &[unready(0), ready(1), ready(2)],
        &["Wait 0* (NotReady)", "Delete 2* (Surplus)"],
    );
}

#[test]
fn s19_to_s22_labels_are_repaired_at_once_and_replace_nothing() {
    let mut bare = unready(0);
    bare.labels = Labels::from_iter([(keys::INSTANCE_INDEX, "0")]);
    check(
        &deployment(2),
        &[bare.clone()],
        &[
            "Wait 0* (NotReady)",
            "Create 1 (Missing)",
            "PatchLabels 0* (Labels)",
        ],
    );
    assert_eq!(
        patches(&[bare]),
        [json!({
            "compute.datumapis.com/workload-uid": "uid-workload", "compute.datumapis.com/workload-name": "web",
            "compute.datumapis.com/placement-name": "us", "compute.datumapis.com/city-code": "DFW",
            "compute.datumapis.com/location": "us-south-1",
            "compute.datumapis.com/workload-deployment-name": NAME, "compute.datumapis.com/workload-deployment-uid": UID,
        })]
    );
    check(&deployment(1), &[ready(0)], &[]);
    let homeless = labelled(ready(0), keys::INSTANCE_CITY_CODE, None);
    check(
        &deployment(1),
        std::slice::from_ref(&homeless),
        &["PatchLabels 0* (Labels)"],
    );
    assert_eq!(
        patches(&[homeless, ready(1)]),
        [json!({"compute.datumapis.com/city-code": "DFW"})]
    );
    check(
        &deployment(2),
        &[stale(ready(0)), stale(ready(1))],
        &["Delete 1* (Roll)", "Delete 0 (Roll)"],
    );
    let old = labelled(ready(0), "compute.datumapis.com/runtime-class", Some("kraft"));
    let theirs = labelled(old, "example.com/theirs", Some("stays"));
    assert_eq!(
        patches(&[theirs, ready(1)]),
        [json!({"compute.datumapis.com/runtime-class": null})],
        "obsolete keys go, foreign ones stay"
    );
}

#[test]
fn s23_to_s25_a_name_tells_the_ordinal_and_else_the_label_does() {
    check(
        &deployment(2),
        &[named(ready(1), "x-renamed")],
        &["Create 0* (Missing)"],
    );
    for label in [None, Some("foo"), Some("-1")] {
        let instance = labelled(ready(0), keys::INSTANCE_INDEX, label);
        check(&deployment(1), &[instance], &["PatchLabels 0* (Labels)"]);
    }
    let mislabelled = labelled(ready(0), keys::INSTANCE_INDEX, Some("1"));
    check(
        &deployment(2),
        &[mislabelled],
        &["Create 1* (Missing)", "PatchLabels 0* (Labels)"],
    );
}

#[test]
fn s26_to_s28_strays_go_before_anything_is_made() {
    let odd = labelled(named(ready(0), "odd"), keys::INSTANCE_INDEX, None);
    check(
        &deployment(1),
        &[odd],
        &["Delete odd* (Stray)", "Create 0 (Missing)"],
    );
    let mut younger = named(ready(0), "x-younger");
    younger.created += 1;
    check(
        &deployment(1),
        &[ready(0), younger.clone()],
        &["Delete x-younger* (Stray)"],
    );
    check(
        &deployment(1),
        &[deleting(ready(0)), younger],
        &["Wait 0* (Terminating)"],
    );
    let mut former = ready(0);
    former.owner = Owner::Deployment("uid-former".into());
    check(
        &deployment(1),
        &[former.clone()],
        &["Delete 0* (Stray)", "Create 0 (Missing)"],
    );
    check(
        &deployment(1),
        &[deleting(former)],
        &["Wait 0* (Terminating)", "Create 0 (Missing)"],
    );
}

#[test]
fn s29_what_was_made_by_hand_is_never_touched() {
    let mut by_hand = labelled(ready(0), keys::INSTANCE_CITY_CODE, None);
    by_hand.owner = Owner::Foreign;
    check(
        &deployment(2),
        &[by_hand.clone()],
        &["Wait 0* (NameConflict)", "Create 1 (Missing)"],
    );
    check(&deployment(0), &[by_hand], &[]);
}

#[test]
fn s30_s31_holds_are_said() {
    let all_stale = [stale(ready(0)), stale(ready(1))];
    assert_eq!(
        steps(&deployment(2), &all_stale, Some(RolloutHold::Rolls)),
        ["Wait 1* (RollsHeld)", "Wait 0 (RollsHeld)"]
    );
    assert_eq!(
        steps(
            &deployment(3),
            &[stale(unready(0)), stale(ready(1))],
            Some(RolloutHold::Rolls)
        ),
        ["Wait 0* (RollsHeld)", "Create 2 (Missing)", "Wait 1 (RollsHeld)"],
        "nothing is replaced"
    );
    assert_eq!(
        steps(
            &deployment(3),
            &[ready(0), stale(down(1)), ready(2), ready(3)],
            Some(RolloutHold::Rolls)
        ),
        ["Wait 1* (RollsHeld)", "Delete 3* (Surplus)"],
        "only replacements are held"
    );
    let stopped = [stale(unready(0)), stale(unready(1)), ready(2)];
    assert_eq!(
        steps(
            &deployment(2),
            &stopped,
            Some(RolloutHold::Blocked(Reason::Suspended))
        ),
        [
            "Wait 0* (Blocked(Suspended))",
            "Wait 1 (Blocked(Suspended))",
            "Delete 2* (Surplus)"
        ]
    );
    let blocked = RolloutHold::Blocked(Reason::CityCodeMismatch);
    assert_eq!(
        steps(&parallel(2), &[], Some(blocked)),
        [
            "Wait 0* (Blocked(CityCodeMismatch))",
            "Wait 1 (Blocked(CityCodeMismatch))"
        ]
    );
}

#[test]
fn s32_to_s35_parallel_does_all_at_once_but_rolls_one_by_one() {
    check(
        &parallel(3),
        &[],
        &[
            "Create 0* (Missing)",
            "Create 1* (Missing)",
            "Create 2* (Missing)",
        ],
    );
    check(
        &parallel(3),
        &[unready(0)],
        &["Wait 0 (NotReady)", "Create 1* (Missing)", "Create 2* (Missing)"],
    );
    check(
        &parallel(3),
        &[stale(ready(0)), stale(ready(1)), stale(ready(2))],
        &["Delete 2* (Roll)", "Delete 1 (Roll)", "Delete 0 (Roll)"],
    );
    check(
        &parallel(3),
        &[stale(unready(0)), stale(ready(1)), stale(ready(2))],
        &["Delete 0* (FixForward)", "Delete 2 (Roll)", "Delete 1 (Roll)"],
    );
    check(
        &parallel(1),
        &[ready(0), ready(1), ready(2), ready(3)],
        &[
            "Delete 3* (Surplus)",
            "Delete 2* (Surplus)",
            "Delete 1* (Surplus)",
        ],
    );
    let mut former = ready(0);
    former.owner = Owner::Deployment("uid-former".into());
    check(
        &parallel(2),
        &[former],
        &["Delete 0* (Stray)", "Create 0 (Missing)", "Create 1* (Missing)"],
    );
}

#[test]
fn s36_an_unknown_policy_does_nothing_but_labels() {
    let unknown = Deployment {
        policy: Policy::of(&ManagementPolicy("Foo".to_owned())),
        ..deployment(3)
    };
    let instances = [labelled(ready(0), keys::WORKLOAD_NAME, Some("x")), ready(7)];
    check(&unknown, &instances, &["PatchLabels 0* (Labels)"]);
    assert_eq!(Policy::of(&ManagementPolicy(String::new())), Policy::OrderedReady);
}

/// A delete that depends on an Instance not being ready names the resource version that was not ready.
#[test]
fn a_fix_names_the_version_that_was_seen_and_a_roll_the_object_alone() {
    let versions = |instances: &[RolloutInstance]| -> Vec<Option<Arc<str>>> {
        let steps = plan(&deployment(2), instances, None);
        let deletes = steps.into_iter().filter_map(|step| match step.act {
            StepAction::Delete { version, .. } => Some(version),
            _ => None,
        });
        deletes.collect()
    };
    assert_eq!(
        versions(&[stale(unready(0)), stale(ready(1))]),
        [Some("7".into()), None]
    );
}
