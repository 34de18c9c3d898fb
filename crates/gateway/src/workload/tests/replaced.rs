//! Deployments of former places serve until those that replace them are ready (contract: serving.md §4).

use super::*;

const READY: ReplicaCounts = ReplicaCounts {
    replicas: 1,
    current_replicas: 1,
    updated_replicas: 1,
    ready_replicas: 1,
    desired_replicas: 1,
};

/// The deployments of these places become available.
fn serve(s: &mut WorkloadSnapshot, names: &[&str]) {
    for d in &mut s.deployments {
        if names.contains(&d.metadata.name.as_deref().unwrap()) {
            report(
                d,
                &[("Available", ConditionStatus::True, "StableInstanceFound")],
                READY,
            );
        }
    }
}

/// A Workload whose deployments all serve.
fn serving(placements: &[(&str, &[&str])]) -> WorkloadSnapshot {
    let mut s = normalized(placements);
    let names: Vec<String> = s
        .deployments
        .iter()
        .filter_map(|d| d.metadata.name.clone())
        .collect();
    serve(&mut s, &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(words(&step(&mut s, 2)), ["status"]);
    s
}

fn edit(s: &mut WorkloadSnapshot, placements: &[(&str, &[&str])]) {
    s.workload.spec.placements = workload(placements).spec.placements;
    s.workload.metadata.generation = s.workload.metadata.generation.map(|n| n + 1);
}

/// The deployment in a city.
fn in_city<'a>(s: &'a mut WorkloadSnapshot, city: &str) -> &'a mut WorkloadDeployment {
    let mut all = s.deployments.iter_mut();
    all.find(|d| d.spec.city_code.as_deref() == Some(city)).unwrap()
}

/// Removes the deployments that are terminating.
fn end(s: &mut WorkloadSnapshot) {
    s.deployments.retain(|d| d.metadata.deletion_timestamp.is_none());
}

/// Message of the condition `Moving`.
fn moving(s: &WorkloadSnapshot) -> Option<&str> {
    let found = find(&s.workload.status.as_ref()?.conditions, "Moving")?;
    assert_eq!(found.status, ConditionStatus::True);
    Some(&found.message)
}

fn replaced_by(s: &WorkloadSnapshot, name: &str) -> Option<String> {
    let named = |d: &&WorkloadDeployment| d.metadata.name.as_deref() == Some(name);
    let found = s.deployments.iter().find(named).unwrap();
    found.metadata.annotations.as_ref()?.get(keys::REPLACES).cloned()
}

fn allow_gap(s: &mut WorkloadSnapshot, value: &str) {
    let annotations = s.workload.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::ALLOW_GAP.to_owned(), value.to_owned());
}

#[test]
fn a_city_serves_until_the_one_that_replaces_it_is_ready() {
    let mut s = serving(&[("us", &["DFW"])]);
    edit(&mut s, &[("us", &["ORD"])]);
    let effects = step(&mut s, 3);
    assert_eq!(words(&effects), ["create shop-us-ord us/ORD", "status"]);
    assert_eq!(replaced_by(&s, "shop-us-ord").unwrap(), "uid-of-shop-us-dfw");
    let available = ["AvailablePlacementFound", "AvailableDeploymentFound"];
    assert_eq!(reasons(status_of(&effects)), available);
    assert_eq!(
        moving(&s).unwrap(),
        "the deployment of us/DFW stays until that of us/ORD is ready: us/ORD: no deployment yet; to delete it at once, \
         set annotation fedgate.dev/allow-gap=true on the Workload"
    );
    step(&mut s, 4);
    assert_eq!(step(&mut s, 5), []);

    // The new one lacks something, and says what.
    let counts = ReplicaCounts {
        ready_replicas: 0,
        ..READY
    };
    report(
        in_city(&mut s, "ORD"),
        &[("Available", ConditionStatus::False, "QuotaExceeded")],
        counts,
    );
    assert_eq!(words(&step(&mut s, 6)), ["status"]);
    assert!(moving(&s).unwrap().contains("us/ORD is ready: QuotaExceeded!"));
    let status = s.workload.status.clone().unwrap();
    assert_eq!(
        find(&status.conditions, "Moving").unwrap().reason,
        "QuotaExceeded"
    );
    assert_eq!(find(&status.conditions, "Ready").unwrap().reason, "QuotaExceeded");
    assert_eq!(reasons(&status), available);

    // A status of an earlier spec says nothing of this one.
    serve(&mut s, &["shop-us-ord"]);
    in_city(&mut s, "ORD").metadata.generation = Some(2);
    assert_eq!(words(&step(&mut s, 7)), ["status"]);
    in_city(&mut s, "ORD").metadata.generation = Some(1);
    assert_eq!(words(&step(&mut s, 8)), ["delete shop-us-dfw", "status"]);
    assert_eq!(moving(&s), None);
    end(&mut s);
    step(&mut s, 9);
    let status = s.workload.status.clone().unwrap();
    assert_eq!(
        find(&status.conditions, "Ready").unwrap().status,
        ConditionStatus::True
    );
}

/// The placement names ORD instead of DFW, and the deployment in DFW goes without waiting for that in ORD.
fn moves_at_once(s: &mut WorkloadSnapshot) {
    edit(s, &[("us", &["ORD"])]);
    let effects = step(s, 3);
    assert_eq!(
        words(&effects),
        ["create shop-us-ord us/ORD", "delete shop-us-dfw", "status"]
    );
    assert_eq!(replaced_by(s, "shop-us-ord"), None);
}

#[test]
fn what_serves_nobody_or_is_replaced_by_nothing_goes_at_once() {
    // It does not serve.
    let mut s = normalized(&[("us", &["DFW"])]);
    moves_at_once(&mut s);
    // Its placement is gone.
    let mut s = serving(&[("us", &["DFW"])]);
    edit(&mut s, &[("eu", &["LHR"])]);
    let effects = step(&mut s, 3);
    assert_eq!(
        words(&effects),
        ["create shop-eu-lhr eu/LHR", "delete shop-us-dfw", "status"]
    );
    // Nothing is new, though the city that stays does not serve.
    let mut s = normalized(&[("us", &["DFW", "LHR"])]);
    serve(&mut s, &["shop-us-lhr"]);
    step(&mut s, 2);
    edit(&mut s, &[("us", &["DFW"])]);
    assert_eq!(words(&step(&mut s, 3)), ["delete shop-us-lhr", "status"]);
}

#[test]
fn a_gap_is_allowed_before_and_during_a_move() {
    let mut s = serving(&[("us", &["DFW"])]);
    allow_gap(&mut s, "true");
    moves_at_once(&mut s);

    let mut s = serving(&[("us", &["DFW"])]);
    allow_gap(&mut s, "yes");
    edit(&mut s, &[("us", &["ORD"])]);
    step(&mut s, 3);
    step(&mut s, 4);
    allow_gap(&mut s, "true");
    assert_eq!(words(&step(&mut s, 5)), ["delete shop-us-dfw", "status"]);
    assert_eq!(moving(&s), None);
}

#[test]
fn each_new_city_replaces_all_former_ones_of_its_placement() {
    let mut s = serving(&[("us", &["DFW", "LHR"])]);
    edit(&mut s, &[("us", &["ORD", "IAD"])]);
    step(&mut s, 3);
    for name in ["shop-us-ord", "shop-us-iad"] {
        let replaced = replaced_by(&s, name).unwrap();
        assert_eq!(replaced, "uid-of-shop-us-dfw,uid-of-shop-us-lhr");
    }
    serve(&mut s, &["shop-us-iad"]);
    assert_eq!(words(&step(&mut s, 4)), ["status"]);
    // One of the two new cities is wanted no more; the other one still replaces both.
    let mut narrowed = serving(&[("us", &["DFW"])]);
    edit(&mut narrowed, &[("us", &["ORD", "IAD"])]);
    step(&mut narrowed, 3);
    edit(&mut narrowed, &[("us", &["IAD"])]);
    assert_eq!(words(&step(&mut narrowed, 4)), ["delete shop-us-ord", "status"]);
    serve(&mut s, &["shop-us-ord"]);
    let effects = step(&mut s, 5);
    assert_eq!(
        words(&effects),
        ["delete shop-us-dfw", "delete shop-us-lhr", "status"]
    );
}

#[test]
fn a_city_replaces_nothing_before_all_its_instances_are_ready() {
    let mut s = serving(&[("us", &["DFW"])]);
    edit(&mut s, &[("us", &["ORD"])]);
    s.workload.spec.placements[0].scale_settings.min_replicas = 3;
    step(&mut s, 3);
    let report_ready = |s: &mut WorkloadSnapshot, ready: i32| {
        let counts = ReplicaCounts {
            replicas: 3,
            current_replicas: 3,
            updated_replicas: 3,
            ready_replicas: ready,
            desired_replicas: 3,
        };
        report(
            in_city(s, "ORD"),
            &[("Available", ConditionStatus::True, "StableInstanceFound")],
            counts,
        );
    };
    report_ready(&mut s, 2);
    assert_eq!(words(&step(&mut s, 4)), ["status"]);
    assert!(moving(&s).unwrap().contains("us/ORD: 2/3 instances are ready"));
    report_ready(&mut s, 3);
    assert_eq!(words(&step(&mut s, 5)), ["delete shop-us-dfw", "status"]);
}

#[test]
fn a_city_that_fails_for_a_moment_or_whose_placement_is_renamed_stays() {
    let mut s = serving(&[("us", &["DFW"])]);
    edit(&mut s, &[("us", &["ORD"])]);
    step(&mut s, 3);
    let counts = ReplicaCounts {
        ready_replicas: 0,
        ..READY
    };
    report(
        in_city(&mut s, "DFW"),
        &[("Available", ConditionStatus::False, "InstancesProvisioning")],
        counts,
    );
    let effects = step(&mut s, 4);
    assert_eq!(words(&effects), ["status"]);
    assert_eq!(
        reasons(status_of(&effects))[0],
        "NoAvailablePlacements",
        "nothing serves"
    );
    serve(&mut s, &["shop-us-dfw"]);
    step(&mut s, 5);
    edit(&mut s, &[("america", &["ORD"])]);
    let effects = step(&mut s, 6);
    assert_eq!(words(&effects), ["update shop-us-ord america/ORD", "status"]);
    assert_eq!(reasons(status_of(&effects))[0], "AvailablePlacementFound");
    // Without the placement nothing replaces it.
    edit(&mut s, &[("eu", &["LHR"])]);
    let effects = words(&step(&mut s, 7));
    assert_eq!(
        effects,
        [
            "create shop-eu-lhr eu/LHR",
            "delete shop-us-dfw",
            "delete shop-us-ord",
            "status"
        ]
    );
}

#[test]
fn a_refused_deployment_is_said_while_the_former_one_serves() {
    let mut s = serving(&[("us", &["DFW"])]);
    edit(&mut s, &[("us", &["ORD"])]);
    s.checks.refused = Some("the project refuses deployment shop-us-ord: no more".to_owned());
    step(&mut s, 3);
    let status = s.workload.status.clone().unwrap();
    for type_ in ["Moving", "Ready"] {
        let said = find(&status.conditions, type_).unwrap();
        assert_eq!(said.reason, "ApplyFailed");
        assert!(said.message.contains("no more"), "{}", said.message);
    }
}

#[test]
fn a_second_edit_passes_the_wait_on_and_drops_what_never_served() {
    let mut s = serving(&[("us", &["DFW"])]);
    edit(&mut s, &[("us", &["ORD"])]);
    step(&mut s, 3);
    edit(&mut s, &[("us", &["SIN"])]);
    let effects = step(&mut s, 4);
    assert_eq!(
        words(&effects),
        ["create shop-us-sin us/SIN", "delete shop-us-ord", "status"]
    );
    assert_eq!(replaced_by(&s, "shop-us-sin").unwrap(), "uid-of-shop-us-dfw");
    // Back again: the former city is wanted, and nothing waits.
    end(&mut s);
    edit(&mut s, &[("us", &["DFW"])]);
    assert_eq!(words(&step(&mut s, 5)), ["delete shop-us-sin", "status"]);
    assert_eq!(moving(&s), None);
}

#[test]
fn a_city_without_a_location_replaces_nothing() {
    let mut s = serving(&[("us", &["DFW"])]);
    s.checks.locations = Locations::Serving(["DFW".to_owned()].into());
    edit(&mut s, &[("us", &["ORX"])]);
    assert_eq!(words(&step(&mut s, 3)), ["status"]);
    let message = moving(&s).unwrap();
    assert!(
        message.starts_with("the deployment of us/DFW stays until that of us/ORX is ready: no Location"),
        "{message}"
    );
    // Another deployment of the placement is enough.
    let mut several = serving(&[("us", &["DFW", "LHR"])]);
    several.checks.locations = s.checks.locations.clone();
    edit(&mut several, &[("us", &["DFW", "ORX"])]);
    assert_eq!(words(&step(&mut several, 3)), ["delete shop-us-lhr", "status"]);
    s.checks.locations = Locations::Serving(["DFW".to_owned(), "ORX".to_owned()].into());
    assert_eq!(words(&step(&mut s, 4)), ["create shop-us-orx us/ORX", "status"]);
    assert_eq!(replaced_by(&s, "shop-us-orx").unwrap(), "uid-of-shop-us-dfw");
}

#[test]
fn one_deployment_replaces_a_bounded_number() {
    let cities: Vec<String> = (10..30).map(|n| format!("C{n}")).collect();
    let cities: Vec<&str> = cities.iter().map(String::as_str).collect();
    let mut s = serving(&[("us", &cities)]);
    edit(&mut s, &[("us", &["ORD"])]);
    assert_eq!(words(&step(&mut s, 3)), ["create shop-us-ord us/ORD", "status"]);
    assert_eq!(replaced_by(&s, "shop-us-ord").unwrap().split(',').count(), 16);
    let deleted = words(&step(&mut s, 4));
    assert_eq!(deleted.len(), 5, "{deleted:?}");
    assert!(
        deleted[..4]
            .iter()
            .all(|word| word.starts_with("delete shop-us-c2")),
        "{deleted:?}"
    );
}
