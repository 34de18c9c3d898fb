//! Deployments of a location, and the limits of cells there (docs/contract/locations.md §4).

use crate::support::{
    Case, Cell,
    kinds::{CLUSTER, DEFINITION, DEPLOYMENT, INSTANCE, Kind, WORKLOAD, kind},
    label, lone_trials, objects, seconds, uid, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![
    l17_a_cell_of_another_location_may_not_write_or_delete,
    l25_the_kinds_that_a_project_serves_tell_its_locations,
];

const LOCATION: Kind = kind(
    "locations.miloapis.com",
    "v1alpha1",
    "Location",
    "locations",
    false,
);
const AVAILABILITY: Kind = kind(
    "services.miloapis.com",
    "v1alpha1",
    "ServiceAvailability",
    "serviceavailabilities",
    false,
);

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

/// A definition of a kind whose fields are not checked.
fn definition(of: &Kind) -> Value {
    let api_version = of.api_version();
    let (group, version) = api_version.split_once('/').unwrap();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"metadata": {"name": name_of_definition(of)}, "spec": {
        "group": group, "scope": "Cluster", "names": {"kind": of.name, "plural": of.plural},
        "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn name_of_definition(of: &Kind) -> String {
    let api_version = of.api_version();
    format!("{}.{}", of.plural, api_version.split_once('/').unwrap().0)
}

/// Rows 4, 5 and 25: the other tests' project serves no kind of a location, and asks for none.
async fn l25_the_kinds_that_a_project_serves_tell_its_locations(case: Case) {
    let (project, ns) = (&case.project, &case.ns);
    let says = async |reason: &str| {
        let wanted = format!("says {reason}");
        let said = |o: &Value| {
            let placement = &o["status"]["placements"][0]["conditions"];
            let mut all = placement.as_array().into_iter().flatten();
            all.any(|condition| condition["reason"] == reason)
        };
        project
            .sees(&WORKLOAD, ns, "shop", &wanted, seconds(30), said)
            .await
    };
    with_cleanup(
        async {
            for kind in [&LOCATION, &AVAILABILITY] {
                project.create(&DEFINITION, "", definition(kind)).await;
                let name = name_of_definition(kind);
                let established = |o: &Value| {
                    let mut conditions = o["status"]["conditions"].as_array().into_iter().flatten();
                    conditions.any(|c| c["type"] == "Established" && c["status"] == "True")
                };
                project
                    .sees(&DEFINITION, "", &name, "is established", seconds(30), established)
                    .await;
            }
            // A new engagement asks at once for what is looked for every ten minutes.
            case.suite.gateway.restart().await;
            let mut workload = objects::workload("shop", &[]);
            let placement = workload["spec"]["placements"][0].as_object_mut().unwrap();
            placement.remove("cityCodes");
            let selector = json!({"matchLabels": {keys::CITY_CODE: "DFW"}});
            placement.insert("locationSelector".to_owned(), selector);
            case.create(&WORKLOAD, workload).await;
            says("NoMatchingLocations").await;
            let location =
                json!({"metadata": {"name": "us-south-1"}, "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
            project.create(&LOCATION, "", location).await;
            let names_it = |o: &Value| {
                let message = &o["status"]["placements"][0]["conditions"][0]["message"];
                message.as_str().is_some_and(|text| text.contains("us-south-1"))
            };
            let wanted = "says that its location is not ready";
            project
                .sees(&WORKLOAD, ns, "shop", wanted, seconds(30), names_it)
                .await;
            let available = json!({"metadata": {"name": "compute-us-south-1"},
                "spec": {"serviceRef": {"name": "compute"}, "locationRef": {"name": "us-south-1"}},
                "status": {"conditions": [{"type": "Available", "status": "True"}]}});
            project.create(&AVAILABILITY, "", available).await;
            let name = "shop-main-us-south-1";
            let made = project.exists(&DEPLOYMENT, ns, name, seconds(30)).await;
            assert_eq!(made["spec"]["locationRef"], json!({"name": "us-south-1"}));
            // Its availability ends: nothing is taken away.
            project.delete(&AVAILABILITY, "", "compute-us-south-1").await;
            says("NoMatchingLocations").await;
            case.quiet().await;
            let kept = project.get(&DEPLOYMENT, ns, name).await.expect("it stays");
            assert_eq!(
                (uid(&kept), kept["metadata"].get("deletionTimestamp")),
                (uid(&made), None)
            );
        },
        async {
            case.delete(&WORKLOAD, "shop").await;
            project.gone(&WORKLOAD, ns, "shop", seconds(120)).await;
            for kind in [&LOCATION, &AVAILABILITY] {
                let name = name_of_definition(kind);
                project.delete(&DEFINITION, "", &name).await;
                project.gone(&DEFINITION, "", &name, seconds(60)).await;
            }
            case.suite.gateway.restart().await;
        },
    )
    .await;
}
