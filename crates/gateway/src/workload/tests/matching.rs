//! Tests of the matching of deployments, and of the names of new ones.

use super::*;
use std::collections::BTreeSet;

#[test]
fn a_renamed_placement_keeps_its_deployments() {
    let mut s = normalized(&[("us", &["DFW", "IAD"])]);
    s.workload.spec.placements[0].name = "america".into();
    let wanted = [
        "update shop-us-dfw america/DFW",
        "update shop-us-iad america/IAD",
        "status",
    ];
    assert_eq!(words(&step(&mut s, 2)), wanted);
    assert_eq!(step(&mut s, 3), []);
}

#[test]
fn where_a_rename_is_not_certain_deployments_are_replaced() {
    let mut s = normalized(&[("us", &["DFW"])]);
    s.workload.spec.placements = workload(&[("a", &["DFW"]), ("b", &["DFW"])]).spec.placements;
    let wanted = [
        "create shop-a-dfw a/DFW",
        "create shop-b-dfw b/DFW",
        "delete shop-us-dfw",
        "status",
    ];
    assert_eq!(words(&step(&mut s, 2)), wanted);
}

#[test]
fn a_terminating_match_is_waited_for_and_nothing_is_pruned_meanwhile() {
    let mut s = normalized(&[("us", &["DFW", "IAD"])]);
    s.deployments[0].metadata.deletion_timestamp = Some(Time(at(2)));
    s.workload.spec.placements[0].city_codes.pop();
    assert_eq!(step(&mut s, 2), []);
    s.deployments.remove(0);
    assert_eq!(
        words(&step(&mut s, 3)),
        ["create shop-us-dfw us/DFW", "delete shop-us-iad"]
    );
}

#[test]
fn of_two_deployments_of_a_pair_the_older_stays() {
    for reversed in [false, true] {
        let mut s = normalized(&[("us", &["DFW"])]);
        let mut twin = s.deployments[0].clone();
        twin.metadata.name = Some("a-twin".into());
        twin.metadata.uid = Some("twin".into());
        twin.metadata.creation_timestamp = Some(Time(at(1)));
        s.deployments.push(twin);
        if reversed {
            s.deployments.reverse();
        }
        assert_eq!(words(&step(&mut s, 2)), ["delete a-twin", "status"]);
    }
}

#[test]
fn two_pairs_never_share_a_name() {
    let mut s = snapshot(&[("a-b", &["c"]), ("a", &["b-c", "B-C"])]);
    let effects = step(&mut s, 0);
    let names: Vec<_> = s
        .deployments
        .iter()
        .map(|d| d.metadata.name.clone().unwrap())
        .collect();
    assert_eq!(names[0], "shop-a-b-c");
    assert!(names[1].starts_with("shop-") && names[1].len() == 15, "{names:?}");
    assert!(
        names[2].starts_with("shop-") && names[2].len() == 15 && names[1] != names[2],
        "{names:?}"
    );
    assert_eq!(words(&effects).len(), 4);
    assert_eq!(step(&mut s, 1), []);
}

#[test]
fn a_held_name_gives_the_second_form_then_a_conflict() {
    let mut s = snapshot(&[("us", &["DFW"])]);
    s.held.insert("shop-us-dfw".into(), false);
    let effects = decide(&s, at(0));
    let Create(made) = &effects[0] else {
        panic!("{:?}", words(&effects))
    };
    let second = made.metadata.name.clone().unwrap();
    assert_ne!(second, "shop-us-dfw");
    s.held.insert(second.clone(), true);
    assert_eq!(words(&step(&mut s, 0)), ["status"], "its holder is going");
    s.held.insert(second.clone(), false);
    let effects = step(&mut s, 1);
    assert_eq!(words(&effects), ["status"]);
    assert_eq!(
        reasons(status_of(&effects)),
        ["DeploymentNameConflict", "DeploymentNameConflict"]
    );
    assert!(status_of(&effects).conditions[0].message.contains(&second));
    s.held.clear();
    assert_eq!(words(&step(&mut s, 2)), ["create shop-us-dfw us/DFW", "status"]);
}

#[test]
fn a_name_whose_holder_is_terminating_is_waited_for() {
    let mut s = snapshot(&[("us", &["DFW"])]);
    s.held.insert("shop-us-dfw".into(), true);
    assert_eq!(words(&step(&mut s, 0)), ["status"]);
    assert_eq!(step(&mut s, 1), []);
}

/// Case W15: objects derived from long names, such as Instances, Services and labels, are still valid.
#[test]
fn names_of_sixty_characters_become_names_that_a_service_may_have() {
    let long = |c: &str| c.repeat(60);
    let mut s = snapshot(&[(&long("p"), &["DFW", "IAD"]), (&long("q"), &["DFW"])]);
    s.workload.metadata.name = Some(long("w"));
    assert_eq!(words(&step(&mut s, 0)).len(), 4);
    let names: BTreeSet<&str> = s
        .deployments
        .iter()
        .filter_map(|d| d.metadata.name.as_deref())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        let service = format!("{name}-999");
        let dns = service
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(
            service.len() <= 63 && dns && service.starts_with('w'),
            "{service}"
        );
    }
    for deployment in &s.deployments {
        for (key, value) in deployment.metadata.labels.iter().flatten() {
            let whole = value
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            assert!(value.len() <= 63 && whole, "{key}: {value}");
        }
    }
    assert_eq!(step(&mut s, 1), []);
}

/// Case W15: another Workload's pair has the plain name.
#[test]
fn the_deployment_of_another_workload_is_not_taken_over() {
    let mut first = snapshot(&[("b-c", &["DFW"])]);
    first.workload.metadata.name = Some("a".to_owned());
    step(&mut first, 0);
    let held = first.deployments[0].metadata.name.clone().unwrap();
    assert_eq!(held, "a-b-c-dfw");
    let mut second = snapshot(&[("c", &["DFW"])]);
    second.workload.metadata.name = Some("a-b".to_owned());
    second.workload.metadata.uid = Some("5f1c2d9e-0000-4000-8000-000000000002".to_owned());
    second.held.insert(held.clone(), false);
    let effects = step(&mut second, 0);
    let [Create(made), PatchStatus(_)] = effects.as_slice() else {
        panic!("{:?}", words(&effects))
    };
    assert_ne!(made.metadata.name.as_deref(), Some(&*held));
    assert_eq!(step(&mut second, 1), []);
    assert_eq!(step(&mut first, 1), []);
}
