//! Deployments that name a location, and labels of the place (contract: locations.md §2.5, §4 18 to 20).

use super::*;
use crate::rollout::hash;

/// A deployment whose place is this: fields that are null are left out.
fn placed(city: &Value, location: &Value) -> Value {
    let mut deployment = deployment("web", 1);
    deployment["spec"]["cityCode"] = city.clone();
    deployment["spec"]["locationRef"] = location.clone();
    let spec = deployment["spec"].as_object_mut().unwrap();
    spec.retain(|_, value| !value.is_null());
    deployment
}

fn instance_of(fixture: &Fixture) -> Value {
    fixture
        .get(&Cell, TableId::Instances, NS, "web-0")
        .unwrap()
        .clone()
}

fn here() -> Value {
    json!({"name": "us-south-1"})
}

/// A cell that knows no place.
fn nowhere() -> Settings {
    Settings {
        place: None,
        ..settings()
    }
}

/// Case 19: the name decides, although the city is the cell's.
#[test]
fn a_deployment_of_another_location_makes_nothing_and_what_runs_stays() {
    for city in [json!("DFW"), Value::Null] {
        let mut fixture = with(settings(), placed(&city, &json!({"name": "us-south-2"})));
        fixture.has(&Cell, TableId::Instances, instance("web", 0));
        let before = instance_of(&fixture);
        let all = settle(&mut fixture, "web");
        assert!(
            all.iter()
                .all(|one| !one.contains("create") && !one.contains("delete")),
            "{all:?}"
        );
        assert_eq!(
            status(&fixture, "web", "Available"),
            "False LocationMismatch: spec.locationRef is us-south-2, but this cell is at location us-south-1"
        );
        let after = instance_of(&fixture);
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["spec"], before["spec"]);
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    }
}

/// Case 18: each form of a place makes the same Instance, with both labels.
#[test]
fn each_form_of_a_place_makes_the_same_instance() {
    let forms = [
        (json!("DFW"), Value::Null),
        (json!("DFW"), here()),
        (Value::Null, here()),
        (Value::Null, json!({"name": "us-south-1", "namespace": "other"})),
    ];
    let made = forms.map(|(city, location)| {
        let mut fixture = with(settings(), placed(&city, &location));
        settle(&mut fixture, "web");
        instance_of(&fixture)
    });
    for instance in &made {
        let labels = &instance["metadata"]["labels"];
        assert_eq!(labels[keys::INSTANCE_CITY_CODE], "DFW");
        assert_eq!(labels[keys::INSTANCE_LOCATION], "us-south-1");
        assert_eq!(instance["spec"], made[0]["spec"]);
    }
    let hash = hash::of(&deployment("web", 1)["spec"]["template"]);
    assert_eq!(made[0]["spec"]["controller"]["templateHash"], json!(hash));
}

/// Case 18: the upgrade is one patch of metadata, a change of form none.
#[test]
fn an_instance_without_the_label_gets_it_by_one_patch_and_a_change_of_form_writes_none() {
    let mut fixture = with(settings(), deployment("web", 1));
    settle(&mut fixture, "web");
    let older = json!({"metadata": {"labels": {keys::INSTANCE_LOCATION: null}}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &older);
    let all = effects(&fixture, "web");
    assert_eq!(words(&all), ["cell: patch instances web-0: instance_labels"]);
    assert_eq!(
        body(&all[0]),
        json!({"metadata": {"labels": {keys::INSTANCE_LOCATION: "us-south-1"}}})
    );
    fixture.perform(&all);
    assert_eq!(settle(&mut fixture, "web"), [""; 0]);

    let before = instance_of(&fixture);
    for spec in [
        json!({"cityCode": null, "locationRef": here()}),
        json!({"cityCode": "DFW"}),
        json!({"locationRef": null}),
    ] {
        fixture.change(&Cell, TableId::Deployments, NS, "web", &json!({ "spec": spec }));
        let all = settle(&mut fixture, "web");
        assert!(all.iter().all(|one| !one.contains(" instances ")), "{all:?}");
        assert_eq!(instance_of(&fixture), before);
    }
}

/// Case 18: a label of another writer stays where the cell knows none.
#[test]
fn a_cell_without_a_place_keeps_labels_of_places_that_it_does_not_know() {
    let mut fixture = with(nowhere(), deployment("web", 1));
    settle(&mut fixture, "web");
    assert_eq!(
        instance_of(&fixture)["metadata"]["labels"].get(keys::INSTANCE_LOCATION),
        None
    );
    let theirs = json!({"metadata": {"labels": {keys::INSTANCE_LOCATION: "eu-west-1"}}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &theirs);
    assert_eq!(settle(&mut fixture, "web"), [""; 0]);
    assert_eq!(
        instance_of(&fixture)["metadata"]["labels"][keys::INSTANCE_LOCATION],
        "eu-west-1"
    );
}

#[test]
fn a_template_does_not_say_where_an_instance_is() {
    let forged =
        json!({keys::INSTANCE_LOCATION: "forged", keys::INSTANCE_CITY_CODE: "forged", "app": "storefront"});
    for (settings, location) in [(settings(), json!("us-south-1")), (nowhere(), Value::Null)] {
        let mut deployment = placed(&json!("DFW"), &Value::Null);
        deployment["spec"]["template"]["metadata"]["labels"] = forged.clone();
        let mut fixture = with(settings, deployment);
        settle(&mut fixture, "web");
        let labels = &instance_of(&fixture)["metadata"]["labels"];
        assert_eq!(labels[keys::INSTANCE_LOCATION], location);
        assert_eq!(labels[keys::INSTANCE_CITY_CODE], "DFW");
        assert_eq!(labels["app"], "storefront");
    }
}

#[test]
fn a_deployment_without_any_place_makes_nothing_and_says_so() {
    let mut fixture = with(settings(), placed(&Value::Null, &Value::Null));
    assert_eq!(
        settle(&mut fixture, "web"),
        ["cell: patch workloaddeployments/status web: deployment_status"]
    );
    assert!(
        status(&fixture, "web", "Available")
            .starts_with("False InvalidTemplate: spec: neither cityCode nor locationRef")
    );
}

/// A name that no label can have stops neither the Instances nor, at the cell of another location, the labels.
#[test]
fn a_location_of_any_text_is_not_written_as_a_label() {
    let odd = json!({"name": "no label value! ".repeat(20)});
    let mut fixture = with(nowhere(), placed(&json!("DFW"), &odd));
    settle(&mut fixture, "web");
    let labels = &instance_of(&fixture)["metadata"]["labels"];
    assert_eq!(labels.get(keys::INSTANCE_LOCATION), None);
    assert_eq!(labels[keys::INSTANCE_CITY_CODE], "DFW");

    let long = Settings {
        place: Some(("l".repeat(64).into(), "DFW".into())),
        ..settings()
    };
    let mut fixture = with(long, deployment("web", 1));
    settle(&mut fixture, "web");
    let labels = &instance_of(&fixture)["metadata"]["labels"];
    assert_eq!(labels.get(keys::INSTANCE_LOCATION), None);
    let huge = json!({"name": "x".repeat(100_000)});
    let mut fixture = with(settings(), placed(&json!("DFW"), &huge));
    settle(&mut fixture, "web");
    let said = status(&fixture, "web", "Available");
    assert!(
        said.starts_with("False LocationMismatch") && said.len() < 300,
        "{}",
        said.len()
    );
}
