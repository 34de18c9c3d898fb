//! Tests of selectors and named locations against the project's Locations (locations.md §2.3, number 1 and 2).

use super::{
    super::snapshot::ListedLocation,
    places::{cities, locations, place, placed, settled},
    *,
};

const CITY: &str = "topology.datum.net/city-code";

/// Lists a Location of this city in the project.
fn list(s: &mut WorkloadSnapshot, name: &str, city: &str, placeable: bool) {
    let topology = [(CITY.to_owned(), city.to_owned())];
    let location = ListedLocation {
        topology: std::sync::Arc::new(topology.into()),
        placeable,
    };
    s.checks
        .listed
        .get_or_insert_default()
        .insert(name.to_owned(), location);
}

fn list_all(s: &mut WorkloadSnapshot) {
    for (name, city) in s.cities.clone() {
        list(s, &name, &city, true);
    }
}

fn in_dfw() -> Value {
    json!({"locationSelector": {"matchLabels": {CITY: "DFW"}}})
}

fn in_both() -> Value {
    json!({"locationSelector": {"matchExpressions": [{"key": CITY, "operator": "In", "values": ["DFW", "LHR"]}]}})
}

/// With all Locations listed and without differences.
fn selected(field: &Value) -> WorkloadSnapshot {
    let mut s = placed(field);
    list_all(&mut s);
    step(&mut s, 0);
    assert_eq!(step(&mut s, 1), []);
    s
}

fn message(effects: &[WorkloadEffect]) -> &str {
    &status_of(effects).placements[0].conditions[0].message
}

/// Case 4 of locations.md §4.
#[test]
fn a_selector_gives_each_location_that_matches_a_deployment() {
    let mut s = placed(&in_dfw());
    list_all(&mut s);
    assert_eq!(
        words(&step(&mut s, 0)),
        ["create shop-us-us-south-1 us/@us-south-1", "status"]
    );
    place(&mut s, &in_both());
    let effects = step(&mut s, 1);
    let wanted = [
        "create shop-us-eu-west-1 us/@eu-west-1",
        "create shop-us-eu-west-2 us/@eu-west-2",
        "status",
    ];
    assert_eq!(words(&effects), wanted);
    let names: Vec<&str> = status_of(&effects).placements[0]
        .locations
        .iter()
        .map(|l| &*l.name)
        .collect();
    assert_eq!(names, ["eu-west-1", "eu-west-2", "us-south-1"]);
    list(&mut s, "us-south-2", "DFW", true);
    assert_eq!(
        words(&step(&mut s, 2)),
        ["create shop-us-us-south-2 us/@us-south-2", "status"]
    );
    assert_eq!(step(&mut s, 3), []);
}

/// Case 5 of locations.md §4.
#[test]
fn a_location_that_is_not_ready_or_gone_keeps_its_deployment_and_one_that_ceases_to_match_loses_it() {
    let mut s = selected(&in_both());
    list(&mut s, "eu-west-1", "LHR", false);
    s.checks.listed.as_mut().unwrap().remove("eu-west-2");
    list(&mut s, "us-south-2", "DFW", false);
    s.workload.spec.placements[0].scale_settings.min_replicas = 3;
    let effects = step(&mut s, 2);
    let kept = ["eu-west-1", "us-south-1", "eu-west-2"].map(|l| format!("update shop-us-{l} us/@{l}"));
    let (applied, rest) = effects.split_at(3);
    assert_eq!(words(applied), kept, "kept, and updated");
    assert_eq!(words(rest), ["status"], "us-south-2 is not made");
    for named in ["eu-west-1", "eu-west-2", "us-south-2"] {
        assert!(message(&effects).contains(named), "{}", message(&effects));
    }
    assert_eq!(
        reasons(status_of(&effects)),
        ["NoMatchingLocations", "NoMatchingLocations"]
    );
    assert_eq!(step(&mut s, 3), []);
    list(&mut s, "eu-west-1", "AMS", false);
    assert_eq!(words(&step(&mut s, 4)), ["delete shop-us-eu-west-1", "status"]);
}

/// Case 7 of locations.md §4.
#[test]
fn a_selector_in_place_of_cities_keeps_their_deployments() {
    let mut s = settled(&cities(&["DFW"]));
    list_all(&mut s);
    place(&mut s, &in_dfw());
    assert_eq!(
        words(&step(&mut s, 2)),
        ["place shop-us-dfw us/@us-south-1", "status"]
    );
    assert_eq!(step(&mut s, 3), []);
    place(&mut s, &cities(&["DFW"]));
    assert_eq!(words(&step(&mut s, 4)), ["place shop-us-dfw us/DFW", "status"]);

    let mut s = settled(&cities(&["LHR"]));
    list_all(&mut s);
    place(&mut s, &in_both());
    let wanted = [
        "create shop-us-eu-west-2 us/@eu-west-2",
        "create shop-us-us-south-1 us/@us-south-1",
        "place shop-us-lhr us/@eu-west-1",
        "status",
    ];
    assert_eq!(words(&step(&mut s, 2)), wanted, "the first by name");
}

#[test]
fn a_city_goes_with_a_selector_only_if_its_locations_are_listed() {
    let mut s = settled(&cities(&["LHR"]));
    list(&mut s, "us-south-1", "DFW", true);
    place(&mut s, &in_dfw());
    let effects = step(&mut s, 2);
    assert_eq!(
        words(&effects),
        ["create shop-us-us-south-1 us/@us-south-1", "status"]
    );
    assert_eq!(step(&mut s, 3), [], "no Location of LHR says whether it matches");
    list(&mut s, "eu-west-2", "LHR", false);
    assert_eq!(words(&step(&mut s, 4)), ["delete shop-us-lhr", "status"]);
}

#[test]
fn a_selector_that_matches_nothing_says_so_and_an_unlisted_deployment_stays() {
    let mut s = selected(&in_dfw());
    s.checks.listed = Some([].into());
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), ["status"]);
    assert!(message(&effects).contains("us-south-1"), "{}", message(&effects));
    list(&mut s, "us-south-1", "AMS", true);
    let effects = step(&mut s, 3);
    assert_eq!(words(&effects), ["delete shop-us-us-south-1", "status"]);
    assert!(
        message(&effects).contains("no Location of the project matches"),
        "{}",
        message(&effects)
    );
}

#[test]
fn a_named_location_that_is_missing_gets_nothing_new_and_keeps_what_it_has() {
    let mut s = selected(&locations(&["us-south-1"]));
    place(&mut s, &locations(&["us-south-1", "eu-west-1", "elsewhere"]));
    list(&mut s, "us-south-1", "DFW", false);
    list(&mut s, "eu-west-1", "LHR", false);
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), ["status"]);
    assert!(
        message(&effects).contains("us-south-1, eu-west-1, elsewhere"),
        "{}",
        message(&effects)
    );
    s.checks.listed = None;
    let wanted = [
        "create shop-us-eu-west-1 us/@eu-west-1",
        "create shop-us-elsewhere us/@elsewhere",
        "status",
    ];
    assert_eq!(
        words(&step(&mut s, 3)),
        wanted,
        "where no Locations are read every name counts"
    );
}

#[test]
fn a_change_of_form_waits_for_the_list_of_clusters_and_nothing_else_does() {
    for (from, to) in [
        (cities(&["DFW"]), locations(&["us-south-1"])),
        (locations(&["us-south-1"]), cities(&["DFW"])),
    ] {
        let mut s = settled(&from);
        let map = std::mem::take(&mut s.cities);
        s.clusters_listed = false;
        s.workload.spec.placements[0].scale_settings.min_replicas = 2;
        assert_eq!(step(&mut s, 2).len(), 1, "another change");
        place(&mut s, &to);
        assert_eq!(step(&mut s, 3), []);
        s.cities = map;
        s.clusters_listed = true;
        let effects = step(&mut s, 4);
        assert!(
            matches!(&effects[..], [ChangePlace(_), PatchStatus(_)]),
            "{:?}",
            words(&effects)
        );
    }
}
