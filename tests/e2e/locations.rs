//! Deployments of a location, and the limits of cells there (docs/contract/locations.md §4).

use crate::support::{
    Case, Cell,
    kinds::{CLUSTER, DEPLOYMENT, INSTANCE},
    label, lone_trials, objects, seconds, uid, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![l17_a_cell_of_another_location_may_not_write_or_delete];

fn at(name: &str, location: &str) -> Value {
    let mut of = objects::deployment(name, "");
    let spec = of["spec"].as_object_mut().unwrap();
    spec.remove("cityCode");
    spec.insert("locationRef".to_owned(), json!({"name": location}));
    of
}

/// Rows 13, 16 and 17: both cells are in DFW for the time of this test, each in a location of its own.
async fn l17_a_cell_of_another_location_may_not_write_or_delete(case: Case) {
    let place = async |cell: &str, city: &str, location: Value| {
        let labels = json!({keys::CITY_CODE: city, keys::LOCATION: location});
        let patch = json!({"metadata": {"labels": labels}});
        case.hub.merge(&CLUSTER, "", cell, patch).await;
    };
    // Its Instances say where their cell is.
    let other = Cell {
        city: "DFW".to_owned(),
        ..case.lhr.clone()
    };
    with_cleanup(
        async {
            place("dfw-1", "DFW", json!("us-south-1")).await;
            place("lhr-1", "DFW", json!("us-south-2")).await;
            case.create(&DEPLOYMENT, at("web", "us-south-1")).await;
            let copy = case.copy("web").await;
            assert_eq!(copy["spec"]["cityCode"], "DFW");
            assert_eq!(label(&copy, keys::LOCATION), Some("us-south-1"));
            assert_eq!(label(&copy, keys::CITY_CODE), None);
            let instance = case.dfw.instance(&case.hub_ns, "web", 0).await;
            let written = case.dfw.write_back(&instance).await;
            let label_it = async |location: &str| {
                let patch = json!({"metadata": {"labels": {keys::INSTANCE_LOCATION: location}}});
                let hub = &case.dfw.hub;
                hub.try_merge(&INSTANCE, &case.hub_ns, "web-0", &patch).await
            };
            let refused = label_it("us-south-2").await;
            let words = refused
                .expect_err("a cell is not in another's location")
                .to_string();
            assert!(
                words.contains("Cluster dfw-1 is in \"us-south-1\": write the location of your Cluster"),
                "{words}"
            );
            label_it("us-south-1").await.expect("it is in its own location");
            let may_delete = async || {
                let uid = Some(uid(&written));
                let hub = &other.hub;
                hub.try_delete(&INSTANCE, &case.hub_ns, "web-0", uid).await
            };
            may_delete()
                .await
                .expect_err("the other location of the city may not delete it");
            case.project
                .sees(
                    &INSTANCE,
                    &case.ns,
                    "web-0",
                    "has its location",
                    seconds(30),
                    |o| label(o, keys::INSTANCE_LOCATION) == Some("us-south-1"),
                )
                .await;
            // After a move to the other location its cell may: what the left one wrote stayed behind.
            let moved = json!({"spec": {"locationRef": {"name": "us-south-2"}}});
            case.merge(&DEPLOYMENT, "web", moved).await;
            other.deployment(&case.hub_ns, "web").await;
            case.dfw.gone(&case.hub_ns, "web").await;
            may_delete().await.expect("the new author may delete it");
            case.hub.gone(&INSTANCE, &case.hub_ns, "web-0", seconds(30)).await;
            // A city that is not the location's goes nowhere.
            let astray = json!({"spec": {"cityCode": "LHR"}});
            case.merge(&DEPLOYMENT, "web", astray).await;
            case.condition("web", "Federated", "False", "PlaceConflict").await;
        },
        async {
            case.project.delete(&DEPLOYMENT, &case.ns, "web").await;
            case.project
                .gone(&DEPLOYMENT, &case.ns, "web", seconds(120))
                .await;
            place("lhr-1", "LHR", Value::Null).await;
            place("dfw-1", "DFW", Value::Null).await;
        },
    )
    .await;
}
