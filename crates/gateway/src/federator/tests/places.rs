//! Deployments that name a location (contract: locations.md §2.4).

use super::*;
use crate::index::derived::secondary::places::tests::clusters;

/// The deployment with the place of these fields alone.
fn placed(fields: &Value) -> Value {
    let mut d = deployment();
    let spec = d["spec"].as_object_mut().unwrap();
    spec.remove("cityCode");
    spec.extend(fields.as_object().unwrap().clone());
    d
}

/// The copy that is made of a deployment beside Clusters with these labels, as the hub serves it.
fn made(d: &Value, labels: &[(&str, &str)]) -> Value {
    let mut made = body(&one(decided(&beside(d, None, labels)))).clone();
    made["metadata"]["uid"] = json!("u-copy");
    made["metadata"]["resourceVersion"] = json!("900");
    made
}

fn here() -> Value {
    json!({"locationRef": {"name": "us-south-1"}})
}

/// The snapshot beside Clusters with these labels: city and location.
fn beside(d: &Value, copy: Option<&Value>, labels: &[(&str, &str)]) -> Snapshot {
    observed(d, copy, labels, true)
}

fn observed(d: &Value, copy: Option<&Value>, labels: &[(&str, &str)], listed: bool) -> Snapshot {
    let mut s = snapshot(d, copy);
    s.destination = Destination::of(
        Labels {
            places: &clusters(labels),
            listed,
        },
        &KINDS[KindId::FIRST],
        s.source.as_ref(),
        s.copy.as_ref(),
    );
    s
}

fn decided(s: &Snapshot) -> Action {
    decide(s, &mut Memory::default(), &SETTINGS, now())
}

fn refusal(s: &Snapshot) -> (String, String) {
    let effect = one(decided(s));
    let condition = &patch(&effect)["status"]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

fn body(effect: &Effect) -> &Value {
    match &effect.write {
        Write::Create { body, .. } | Write::Update { body, .. } => body,
        other => panic!("{other:?}"),
    }
}

const ONE: &[(&str, &str)] = &[("DFW", "us-south-1")];

#[tokio::test]
async fn a_copy_names_city_and_location_where_the_clusters_tell_both() {
    for fields in [
        json!({"cityCode": "DFW"}),
        here(),
        json!({"cityCode": "DFW", "locationRef": {"name": "us-south-1"}}),
    ] {
        let effect = one(decided(&beside(&placed(&fields), None, ONE)));
        assert_eq!(effect.reason.label(), "create_copy");
        let copy = body(&effect);
        assert_eq!(copy["spec"]["cityCode"], "DFW", "{fields}");
        assert_eq!(
            copy["spec"]["locationRef"],
            json!({"name": "us-south-1"}),
            "{fields}"
        );
        // One label of a place: policies select by each.
        let labels = &copy["metadata"]["labels"];
        let by_location = fields.get("locationRef").is_some();
        let routed = if by_location {
            [Value::Null, json!("us-south-1")]
        } else {
            [json!("DFW"), Value::Null]
        };
        assert_eq!(
            [&labels[keys::CITY_CODE], &labels[keys::LOCATION]],
            routed.each_ref(),
            "{fields}"
        );
        // The copy that was made is the one that is wanted.
        let made = made(&placed(&fields), ONE);
        idle(decided(&beside(&placed(&fields), Some(&made), ONE)));
    }
}

#[tokio::test]
async fn a_city_without_a_location_or_with_several_adds_none() {
    for labels in [
        &[("DFW", "")][..],
        &[("DFW", "a"), ("DFW", "")],
        &[("DFW", "a"), ("DFW", "b")],
        &[("DFW", "a"), ("LHR", "a")],
    ] {
        let effect = one(decided(&beside(&deployment(), None, labels)));
        assert_eq!(body(&effect)["spec"].get("locationRef"), None, "{labels:?}");
        idle(decided(&beside(&deployment(), Some(&hub_copy()), labels)));
    }
}

/// The labels of the place in a merge patch of a copy, and that the claim goes with them.
fn rerouted(effect: &Effect) -> [Value; 2] {
    assert_eq!(effect.reason.label(), "move_copy");
    let metadata = &patch(effect)["metadata"];
    assert_eq!(metadata["labels"].get(keys::CLAIM_ID), Some(&Value::Null));
    let label = |key: &str| metadata["labels"].get(key).cloned().unwrap();
    [label(keys::CITY_CODE), label(keys::LOCATION)]
}

/// locations.md §4, 6 to 8: a change of form is one patch of the copy, by which it has the other label of the same cells,
/// and no Event.
#[tokio::test]
async fn a_change_of_form_is_one_patch_and_no_move() {
    let Action::Apply(plan) = decided(&beside(&placed(&here()), Some(&hub_copy()), ONE)) else {
        panic!()
    };
    assert_eq!(plan.notes, []);
    assert_eq!(plan.effects.len(), 1);
    assert_eq!(rerouted(&plan.effects[0]), [Value::Null, json!("us-south-1")]);
    assert_eq!(
        patch(&plan.effects[0])["spec"],
        json!({"locationRef": {"name": "us-south-1"}})
    );
    // And back.
    let made = made(&placed(&here()), ONE);
    let Action::Apply(plan) = decided(&beside(&deployment(), Some(&made), ONE)) else {
        panic!()
    };
    assert_eq!((plan.notes, plan.effects.len()), (vec![], 1));
    assert_eq!(rerouted(&plan.effects[0]), [json!("DFW"), Value::Null]);
}

/// locations.md §4, 10: of a city with several locations the copy goes to the one that is named.
#[tokio::test]
async fn a_location_of_a_city_with_several_has_its_own_route() {
    let several = &[("DFW", "us-south-1"), ("DFW", "us-south-2")][..];
    let effect = one(decided(&beside(&placed(&here()), None, several)));
    let labels = &body(&effect)["metadata"]["labels"];
    assert_eq!(labels[keys::LOCATION], "us-south-1");
    assert_eq!(labels.get(keys::CITY_CODE), None);
    let effect = one(decided(&beside(&placed(&here()), Some(&hub_copy()), several)));
    assert_eq!(rerouted(&effect), [Value::Null, json!("us-south-1")]);
    // From one location of the city to the other: no move to another city either.
    let made = made(&placed(&here()), several);
    let other = placed(&json!({"locationRef": {"name": "us-south-2"}}));
    let Action::Apply(plan) = decided(&beside(&other, Some(&made), several)) else {
        panic!()
    };
    assert_eq!(plan.notes, []);
    assert_eq!(rerouted(&plan.effects[0]), [Value::Null, json!("us-south-2")]);
}

/// locations.md §4, 9: a copy that went by its city waits for the label of each Cluster there; a new one does not.
#[tokio::test]
async fn a_copy_changes_its_route_when_no_cell_would_lose_it() {
    let half = &[("DFW", "us-south-1"), ("DFW", "")][..];
    let mut there = hub_copy();
    there["spec"]["locationRef"] = json!({"name": "us-south-1"});
    idle(decided(&beside(&placed(&here()), Some(&there), half)));
    let effect = one(decided(&beside(&placed(&here()), Some(&there), ONE)));
    assert_eq!(rerouted(&effect), [Value::Null, json!("us-south-1")]);
    let effect = one(decided(&beside(&placed(&here()), None, half)));
    assert_eq!(body(&effect)["metadata"]["labels"][keys::LOCATION], "us-south-1");
    // Once it has the route of the location, it keeps it.
    let made = made(&placed(&here()), half);
    idle(decided(&beside(&placed(&here()), Some(&made), half)));
}

/// locations.md §4, 13: whoever adds the other label, two policies would match, so it is taken off again.
#[tokio::test]
async fn a_second_label_of_a_place_is_taken_off() {
    for (fields, wanted) in [
        (json!({"cityCode": "DFW"}), [json!("DFW"), Value::Null]),
        (here(), [Value::Null, json!("us-south-1")]),
    ] {
        let d = placed(&fields);
        for (key, value) in [
            (keys::CITY_CODE, "DFW"),
            (keys::LOCATION, "us-south-1"),
            (keys::LOCATION, "x"),
        ] {
            let mut made = made(&d, ONE);
            if made["metadata"]["labels"].get(key) == Some(&json!(value)) {
                continue;
            }
            made["metadata"]["labels"][key] = json!(value);
            let effect = one(decided(&beside(&d, Some(&made), ONE)));
            assert_eq!(rerouted(&effect), wanted, "{fields} {key}");
        }
    }
}

/// locations.md §4, 8: the location comes to a Cluster later, and its copies get it by one update each.
#[tokio::test]
async fn a_location_that_a_city_gets_later_is_added_to_its_copies() {
    let effect = one(decided(&beside(&deployment(), Some(&hub_copy()), ONE)));
    assert_eq!(effect.reason.label(), "update_copy");
    assert_eq!(body(&effect)["spec"]["locationRef"]["name"], "us-south-1");
}

/// locations.md §4, 14 to 16: what cannot be carried says why, the hub is asked nothing, and a copy stays as it is.
#[tokio::test]
async fn a_location_that_the_hub_cannot_serve_alone_is_refused_with_the_reason() {
    let long = json!({"locationRef": {"name": "x".repeat(64)}});
    let both = json!({"cityCode": "LHR", "locationRef": {"name": "us-south-1"}});
    let cases = [
        (
            here(),
            &[][..],
            "NoCellForLocation",
            "topology.datum.net/location=us-south-1",
        ),
        (
            here(),
            &[("DFW", "us-south-1"), ("LHR", "us-south-1")],
            "NoCellForLocation",
            "is not known",
        ),
        (here(), &[("", "us-south-1")], "NoCellForLocation", "is not known"),
        (
            both.clone(),
            ONE,
            "PlaceConflict",
            "spec.cityCode is LHR, but location us-south-1 is in DFW",
        ),
        (
            both,
            &[("LHR", "eu-west-1")],
            "NoCellForLocation",
            "no cell serves location us-south-1",
        ),
        (long, ONE, "InvalidLocation", "spec.locationRef.name"),
    ];
    for (fields, labels, reason, part) in cases {
        for copy in [None, Some(hub_copy())] {
            let (said, message) = refusal(&beside(&placed(&fields), copy.as_ref(), labels));
            assert_eq!(said, reason, "{fields} {labels:?}");
            assert!(message.contains(part), "{message}");
        }
    }
}

#[tokio::test]
async fn a_location_of_an_unlabelled_fleet_goes_by_the_city_beside_it() {
    let fields = json!({"cityCode": "DFW", "locationRef": {"name": "us-south-1"}});
    let effect = one(decided(&beside(&placed(&fields), None, &[("DFW", "")])));
    assert_eq!(body(&effect)["metadata"]["labels"][keys::CITY_CODE], "DFW");
}

/// A Cluster that is gone for a while takes nothing away, as for a city.
#[tokio::test]
async fn a_copy_stays_served_while_its_location_has_no_cluster() {
    let made = made(&placed(&here()), ONE);
    idle(decided(&beside(&placed(&here()), Some(&made), &[])));
    let mut d = placed(&here());
    d["spec"]["scaleSettings"]["minReplicas"] = json!(5);
    d["metadata"]["generation"] = json!(4);
    let effect = one(decided(&beside(&d, Some(&made), &[])));
    assert_eq!(effect.reason.label(), "update_copy");
    let body = body(&effect);
    assert_eq!(body["spec"]["cityCode"], "DFW");
    assert_eq!(body["spec"]["locationRef"]["name"], "us-south-1");
    assert_eq!(body["metadata"]["labels"][keys::LOCATION], "us-south-1");
    assert_eq!(body["metadata"]["labels"].get(keys::CITY_CODE), None);
}

/// A new leader has the copies before the Clusters, or a part of them: it writes none anew, and what it must write keeps
/// the place.
#[tokio::test]
async fn before_the_clusters_are_listed_a_copy_keeps_its_place() {
    for fields in [json!({"cityCode": "DFW"}), here()] {
        let d = placed(&fields);
        let made = made(&d, ONE);
        let mut edited = d.clone();
        edited["spec"]["scaleSettings"]["minReplicas"] = json!(5);
        edited["metadata"]["generation"] = json!(4);
        for part in [&[][..], &[("DFW", "")], &[("LHR", "us-south-1")]] {
            idle(decided(&observed(&d, Some(&made), part, false)));
            let effect = one(decided(&observed(&edited, Some(&made), part, false)));
            assert_eq!(effect.reason.label(), "update_copy");
            let spec = &body(&effect)["spec"];
            assert_eq!(
                (&spec["cityCode"], &spec["locationRef"]["name"]),
                (&json!("DFW"), &json!("us-south-1"))
            );
        }
        // Of a city that has no Cluster for a while, as well.
        idle(decided(&beside(&d, Some(&made), &[])));
    }
    let made = made(&deployment(), ONE);
    // The location goes with its label.
    let effect = one(decided(&beside(&deployment(), Some(&made), &[("DFW", "")])));
    assert_eq!(body(&effect)["spec"].get("locationRef"), None);
}

/// A hub whose definition does not know the field yet drops it: that is written once, not for ever.
#[tokio::test]
async fn a_hub_that_drops_the_location_is_not_written_to_again() {
    let s = beside(&deployment(), Some(&hub_copy()), ONE);
    let mut memory = Memory::default();
    memory.payload.record(
        s.wanted(s.source.as_ref().unwrap()),
        s.copy.as_ref().unwrap().digest.whole(),
    );
    idle(decide(&s, &mut memory, &SETTINGS, now()));
}

#[tokio::test]
async fn before_the_clusters_are_known_a_location_is_not_said_to_have_none() {
    let mut s = beside(&placed(&here()), None, &[]);
    s.readiness.is_unproven = true;
    idle(decided(&s));
}
