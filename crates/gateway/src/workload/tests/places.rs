//! Tests of placements at locations, of changes between the two forms, and of selectors.

use super::{super::prepare::change_of_place, *};

/// A Workload `shop` with one placement `us` of this field, whose map has `us-south-1` in DFW, and `eu-west-1` and
/// `eu-west-2` in LHR.
pub(super) fn placed(field: &Value) -> WorkloadSnapshot {
    let mut s = snapshot(&[("us", &[])]);
    place(&mut s, field);
    let city = |(location, city): (&str, &str)| (location.to_owned(), city.to_owned());
    let map = [("us-south-1", "DFW"), ("eu-west-1", "LHR"), ("eu-west-2", "LHR")];
    s.cities = map.map(city).into();
    s
}

/// Gives the placement this field in place of the one that it has.
pub(super) fn place(s: &mut WorkloadSnapshot, field: &Value) {
    let mut placement = json!({"name": "us", "scaleSettings": {"minReplicas": 1}});
    placement
        .as_object_mut()
        .unwrap()
        .extend(field.as_object().unwrap().clone());
    s.workload.spec.placements[0] = serde_json::from_value(placement).unwrap();
}

pub(super) fn cities(cities: &[&str]) -> Value {
    json!({"cityCodes": cities})
}

pub(super) fn locations(names: &[&str]) -> Value {
    let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"locations": names})
}

fn selector() -> Value {
    json!({"locationSelector": {"matchLabels": {"topology.datum.net/city-code": "DFW"}}})
}

/// Without differences, as [`normalized`].
pub(super) fn settled(field: &Value) -> WorkloadSnapshot {
    let mut s = placed(field);
    step(&mut s, 0);
    assert_eq!(step(&mut s, 1), []);
    s
}

fn live(s: &WorkloadSnapshot) -> Vec<(&str, String)> {
    let live = s
        .deployments
        .iter()
        .filter(|d| d.metadata.deletion_timestamp.is_none());
    live.map(|d| {
        let spec = serde_json::to_value(&d.spec).unwrap();
        let place = json!([spec["cityCode"], spec["locationRef"]]);
        (d.metadata.uid.as_deref().unwrap(), place.to_string())
    })
    .collect()
}

/// Case 2 of locations.md §4, at the project.
#[test]
fn a_location_gets_a_deployment_with_a_reference_alone() {
    let mut s = placed(&locations(&["us-south-1", "EU_west.9"]));
    let effects = step(&mut s, 0);
    let [Create(plain), Create(odd), PatchStatus(status)] = &effects[..] else {
        panic!("{:?}", words(&effects))
    };
    assert_eq!(plain.metadata.name.as_deref(), Some("shop-us-us-south-1"));
    let odd_name = odd.metadata.name.as_deref().unwrap();
    assert!(
        odd_name.starts_with("shop-") && odd_name.len() == 15,
        "{odd_name}"
    );
    for (made, location) in [(plain, "us-south-1"), (odd, "EU_west.9")] {
        let made = serde_json::to_value(made).unwrap();
        assert_eq!(made["spec"]["locationRef"], json!({"name": location}));
        assert_eq!(made["spec"].get("cityCode"), None);
        assert_eq!(
            made["metadata"]["labels"]["compute.datumapis.com/location"],
            location
        );
    }
    let resolved = serde_json::to_value(&status.placements[0].locations).unwrap();
    assert_eq!(
        resolved,
        json!([{"name": "EU_west.9"}, {"name": "us-south-1"}]),
        "by name"
    );
    assert_eq!(step(&mut s, 1), []);
    s.deployments[0]
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .remove(keys::INSTANCE_LOCATION);
    assert_eq!(
        words(&step(&mut s, 2)),
        ["update shop-us-us-south-1 us/@us-south-1"]
    );
}

/// Case 6 of locations.md §4: in place, forwards and backwards.
#[test]
fn a_change_of_form_keeps_name_and_uid_and_changes_the_place_alone() {
    let mut s = settled(&cities(&["DFW"]));
    place(&mut s, &locations(&["us-south-1"]));
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), ["place shop-us-dfw us/@us-south-1", "status"]);
    let ChangePlace(applied) = &effects[0] else {
        panic!()
    };
    assert_eq!(
        applied.metadata.labels.as_ref().unwrap()[keys::INSTANCE_LOCATION],
        "us-south-1"
    );
    let there = [("uid-of-shop-us-dfw", r#"[null,{"name":"us-south-1"}]"#.to_owned())];
    assert_eq!(live(&s), there);
    assert_eq!(step(&mut s, 3), []);
    place(&mut s, &cities(&["DFW"]));
    let effects = step(&mut s, 4);
    assert_eq!(words(&effects), ["place shop-us-dfw us/DFW", "status"]);
    let ChangePlace(applied) = &effects[0] else {
        panic!()
    };
    assert_eq!(
        applied
            .metadata
            .labels
            .as_ref()
            .unwrap()
            .get(keys::INSTANCE_LOCATION),
        None
    );
    assert_eq!(live(&s), [("uid-of-shop-us-dfw", r#"["DFW",null]"#.to_owned())]);
    assert_eq!(status_of(&effects).placements[0].locations, []);
    assert_eq!(step(&mut s, 5), [], "the label that stays is not ours");
}

/// Whichever request has written the field that goes, one write takes it away.
#[test]
fn a_change_of_place_names_both_fields_and_the_label() {
    let mut s = settled(&cities(&["DFW"]));
    let mut patch_to = |field: &Value| {
        place(&mut s, field);
        let effects = step(&mut s, 2);
        let [ChangePlace(changed), PatchStatus(_)] = &effects[..] else {
            panic!("{:?}", words(&effects))
        };
        change_of_place(changed)
    };
    let uid = "uid-of-shop-us-dfw";
    assert_eq!(
        patch_to(&locations(&["us-south-1"])),
        json!({
            "metadata": {"uid": uid, "labels": {"compute.datumapis.com/location": "us-south-1"}},
            "spec": {"placementName": "us", "cityCode": null, "locationRef": {"name": "us-south-1"}},
        })
    );
    assert_eq!(
        patch_to(&cities(&["DFW"])),
        json!({
            "metadata": {"uid": uid, "labels": {"compute.datumapis.com/location": null}},
            "spec": {"placementName": "us", "cityCode": "DFW", "locationRef": null},
        })
    );
}

/// Case 10 of locations.md §4: the others are made before the matched one leaves their cells.
#[test]
fn of_a_city_with_several_locations_the_first_keeps_the_deployment() {
    let mut s = settled(&cities(&["LHR"]));
    place(&mut s, &locations(&["eu-west-2", "eu-west-1"]));
    let wanted = [
        "create shop-us-eu-west-1 us/@eu-west-1",
        "place shop-us-lhr us/@eu-west-2",
        "status",
    ];
    assert_eq!(
        words(&step(&mut s, 2)),
        wanted,
        "the first in the placement's order"
    );
    assert_eq!(step(&mut s, 3), []);
    place(&mut s, &cities(&["LHR"]));
    let wanted = ["place shop-us-eu-west-1 us/LHR", "delete shop-us-lhr", "status"];
    assert_eq!(words(&step(&mut s, 4)), wanted, "the first by name");

    let mut s = settled(&cities(&["LHR"]));
    place(&mut s, &locations(&["eu-west-1"]));
    assert_eq!(
        words(&step(&mut s, 2)),
        ["place shop-us-lhr us/@eu-west-1", "status"]
    );
    place(&mut s, &locations(&["eu-west-1", "eu-west-2"]));
    assert_eq!(
        words(&step(&mut s, 3)),
        ["create shop-us-eu-west-2 us/@eu-west-2", "status"]
    );
}

#[test]
fn a_deployment_of_the_same_place_precedes_one_that_would_change_form() {
    let mut s = settled(&locations(&["eu-west-2"]));
    let mut other = s.deployments[0].clone();
    other.spec.location_ref = None;
    other.spec.city_code = Some("LHR".to_owned());
    other.metadata.name = Some("by-city".to_owned());
    other.metadata.uid = Some("by-city".to_owned());
    s.deployments.insert(0, other);
    place(&mut s, &locations(&["eu-west-1", "eu-west-2"]));
    assert_eq!(words(&step(&mut s, 2)), ["place by-city us/@eu-west-1", "status"]);
    assert_eq!(step(&mut s, 3), []);
}

#[test]
fn another_location_or_one_without_a_city_is_another_place() {
    for (from, to) in [
        (cities(&["DFW"]), locations(&["eu-west-1"])),
        (cities(&["DFW"]), locations(&["unknown"])),
        (locations(&["eu-west-1"]), locations(&["eu-west-2"])),
        (locations(&["unknown"]), cities(&["DFW"])),
    ] {
        let mut s = settled(&from);
        place(&mut s, &to);
        let effects = step(&mut s, 2);
        assert!(
            matches!(&effects[..], [Create(_), Delete { .. }, PatchStatus(_)]),
            "{from} {to}: {:?}",
            words(&effects)
        );
    }
}

#[test]
fn a_second_field_in_a_deployment_goes_and_its_location_decides() {
    let mut s = settled(&locations(&["eu-west-1"]));
    s.deployments[0].spec.city_code = Some("DFW".to_owned());
    assert_eq!(words(&step(&mut s, 2)), ["place shop-us-eu-west-1 us/@eu-west-1"]);
    assert_eq!(step(&mut s, 3), []);
}

#[test]
fn a_renamed_placement_may_change_its_form_as_well() {
    let mut s = settled(&cities(&["DFW", "LHR"]));
    place(&mut s, &locations(&["us-south-1", "eu-west-1"]));
    s.workload.spec.placements[0].name = "world".to_owned();
    let wanted = [
        "place shop-us-dfw world/@us-south-1",
        "place shop-us-lhr world/@eu-west-1",
        "status",
    ];
    assert_eq!(words(&step(&mut s, 2)), wanted);
    assert_eq!(step(&mut s, 3), []);
}

#[test]
fn a_terminating_deployment_of_the_other_form_is_waited_for() {
    let mut s = settled(&cities(&["DFW"]));
    s.deployments[0].metadata.deletion_timestamp = Some(Time(at(2)));
    place(&mut s, &locations(&["us-south-1"]));
    assert_eq!(words(&step(&mut s, 2)), ["status"]);
    s.deployments.clear();
    assert_eq!(
        words(&step(&mut s, 3)),
        ["create shop-us-us-south-1 us/@us-south-1"]
    );
}

#[test]
fn a_selector_that_cannot_be_resolved_keeps_what_exists_and_makes_nothing() {
    let mut s = placed(&selector());
    let effects = step(&mut s, 0);
    assert_eq!(words(&effects), ["status"]);
    assert_eq!(
        reasons(status_of(&effects)),
        ["NoMatchingLocations", "NoMatchingLocations"]
    );
    let message = &status_of(&effects).placements[0].conditions[0].message;
    assert!(message.contains("locationSelector of placement us"), "{message}");

    for from in [cities(&["DFW", "LHR"]), locations(&["eu-west-1", "us-south-1"])] {
        let mut s = settled(&from);
        let before = live(&s)
            .iter()
            .map(|(uid, place)| ((*uid).to_owned(), place.clone()))
            .collect::<Vec<_>>();
        place(&mut s, &selector());
        s.workload.spec.placements[0].scale_settings.min_replicas = 4;
        let effects = step(&mut s, 2);
        assert!(
            matches!(&effects[..], [Update(_), Update(_), PatchStatus(_)]),
            "{:?}",
            words(&effects)
        );
        let after = live(&s);
        assert!(
            before
                .iter()
                .all(|(uid, place)| after.contains(&(uid, place.clone()))),
            "{after:?}"
        );
        assert_eq!(step(&mut s, 3), []);
        s.workload.spec.placements[0].name = "renamed".to_owned();
        assert_eq!(
            words(&step(&mut s, 4)),
            ["status"],
            "a rename does not tear them down"
        );
        assert_eq!(live(&s).len(), 2);
    }
}

#[test]
fn beside_an_unresolved_selector_the_spec_still_removes_what_it_names_no_more() {
    let mut s = normalized(&[("a", &["DFW", "LHR"]), ("us", &["IAD"])]);
    s.workload.spec.placements[0].city_codes.pop();
    let mut placement = s.workload.spec.placements.remove(1);
    placement.city_codes.clear();
    placement.location_selector = serde_json::from_value(selector()["locationSelector"].clone()).unwrap();
    s.workload.spec.placements.push(placement);
    assert_eq!(words(&step(&mut s, 2)), ["delete shop-a-lhr", "status"]);
}
