//! Cells whose definition knows one of the two forms of a place (docs/contract/locations.md §4, rows 11 and 12): their API
//! server prunes the field of the other form.

use crate::support::{
    Case,
    kinds::{CLUSTER, DEFINITION, DEPLOYMENT, INSTANCE},
    lone_trials, objects, seconds, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![l11_a_cell_of_either_form_gets_the_copies_of_both_and_stays_at_rest];

const OF_DEPLOYMENTS: &str = "workloaddeployments.compute.datumapis.com";

/// How long a cell is watched for a change that nobody wanted.
const REST: u64 = 30;

/// The versions of a definition of form C or L: without one of the two fields, and with the other required.
fn of_form(ours: &Value, without: &str, with: &str) -> Value {
    let mut versions = ours["spec"]["versions"].clone();
    let spec = &mut versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let spec = spec.as_object_mut().unwrap();
    // Their rules name both fields.
    spec.remove("x-kubernetes-validations");
    spec["properties"].as_object_mut().unwrap().remove(without);
    let required = spec.entry("required").or_insert(json!([]));
    required.as_array_mut().unwrap().push(json!(with));
    json!({"spec": {"versions": versions}})
}

async fn l11_a_cell_of_either_form_gets_the_copies_of_both_and_stays_at_rest(case: Case) {
    let cell = &case.dfw.plane;
    let label = async |location: Value| {
        let labels = json!({"metadata": {"labels": {keys::LOCATION: location}}});
        case.hub.merge(&CLUSTER, "", &case.dfw.name, labels).await;
    };
    let ours = cell
        .get(&DEFINITION, "", OF_DEPLOYMENTS)
        .await
        .expect("it is installed");
    let define = async |definition: Value| {
        cell.merge(&DEFINITION, "", OF_DEPLOYMENTS, definition).await;
    };
    let mut located = objects::deployment("located", "");
    let spec = located["spec"].as_object_mut().unwrap();
    spec.remove("cityCode");
    spec.insert("locationRef".to_owned(), json!({"name": "us-south-1"}));
    with_cleanup(
        async {
            label(json!("us-south-1")).await;
            define(of_form(&ours, "locationRef", "cityCode")).await;
            case.create(&DEPLOYMENT, located).await;
            let arrived = case.dfw.deployment(&case.hub_ns, "located").await;
            assert_eq!(arrived["spec"]["cityCode"], "DFW");
            assert_eq!(arrived["spec"].get("locationRef"), None, "it is pruned");
            case.dfw.run(&case.hub_ns, "located", 0).await;
            let there = |o: &Value| o["metadata"]["name"] == "located-0";
            case.project
                .sees(
                    &INSTANCE,
                    &case.ns,
                    "located-0",
                    "is projected",
                    seconds(60),
                    there,
                )
                .await;
            rests(&case, "located").await;

            define(of_form(&ours, "cityCode", "locationRef")).await;
            case.create(&DEPLOYMENT, objects::deployment("by-city", "DFW"))
                .await;
            let arrived = case.dfw.deployment(&case.hub_ns, "by-city").await;
            assert_eq!(arrived["spec"]["locationRef"]["name"], "us-south-1");
            assert_eq!(arrived["spec"].get("cityCode"), None, "it is pruned");
            case.dfw.run(&case.hub_ns, "by-city", 0).await;
            let there = |o: &Value| o["metadata"]["name"] == "by-city-0";
            case.project
                .sees(
                    &INSTANCE,
                    &case.ns,
                    "by-city-0",
                    "is projected",
                    seconds(60),
                    there,
                )
                .await;
            rests(&case, "by-city").await;
        },
        async {
            define(json!({"spec": {"versions": ours["spec"]["versions"]}})).await;
            for name in ["located", "by-city"] {
                case.project.delete(&DEPLOYMENT, &case.ns, name).await;
                case.project.gone(&DEPLOYMENT, &case.ns, name, seconds(120)).await;
            }
            label(Value::Null).await;
        },
    )
    .await;
}

/// Nobody writes the copy, or what was delivered of it, for a while.
async fn rests(case: &Case, name: &str) {
    case.quiet().await;
    let of = |object: &Value| {
        let at = |field: &str| object["metadata"][field].clone();
        [at("uid"), at("generation"), at("resourceVersion")]
    };
    let copy = of(&case.copy(name).await);
    let delivered = of(&case.dfw.deployment(&case.hub_ns, name).await);
    let same =
        |known: [Value; 3]| move |state: Option<&Value>| state.is_some_and(|object| of(object) == known);
    let (hub, cell) = (&case.hub, &case.dfw.plane);
    tokio::join!(
        hub.holds(
            &DEPLOYMENT,
            &case.hub_ns,
            name,
            "is untouched",
            seconds(REST),
            same(copy)
        ),
        cell.holds(
            &DEPLOYMENT,
            &case.hub_ns,
            name,
            "is untouched",
            seconds(REST),
            same(delivered)
        ),
    );
}
