//! Planes whose definitions lack a field that others have. Cells that know one of the two forms of a place
//! (docs/contract/locations.md §4, rows 11 and 12): their API server prunes the field of the other form. A hub and a project
//! with an older definition (docs/compatibility.md, "Definitions of different age").

use crate::support::{
    Case,
    cell::running,
    condition,
    kinds::{CLUSTER, DEFINITION, DEPLOYMENT, INSTANCE},
    lone_trials, objects, seconds, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![
    l11_a_cell_of_either_form_gets_the_copies_of_both_and_stays_at_rest,
    a92_a_field_that_the_hub_does_not_declare_is_refused_by_its_path,
    a93_a_projection_has_the_fields_that_its_project_declares_and_never_freezes,
];

const OF_DEPLOYMENTS: &str = "workloaddeployments.compute.datumapis.com";
const OF_INSTANCES: &str = "instances.compute.datumapis.com";

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

/// The versions of a definition without the field `location` in the spec of an Instance, which is at `path` in the schema.
fn without_location(ours: &Value, path: &str) -> Value {
    let mut versions = ours["spec"]["versions"].clone();
    let spec = versions[0]["schema"]["openAPIV3Schema"]
        .pointer_mut(path)
        .unwrap();
    let fields = spec["properties"].as_object_mut().unwrap();
    fields.remove("location").expect("ours has the field");
    json!({"spec": {"versions": versions}})
}

async fn a92_a_field_that_the_hub_does_not_declare_is_refused_by_its_path(case: Case) {
    let ours = case
        .hub
        .get(&DEFINITION, "", OF_DEPLOYMENTS)
        .await
        .expect("it is installed");
    let older = without_location(&ours, "/properties/spec/properties/template/properties/spec");
    let is_federated = async |name: &str, said: &str, fits: fn(&Value) -> bool| {
        let fits = move |object: &Value| condition(object, "Federated").is_some_and(fits);
        let (project, ns) = (&case.project, &case.ns);
        project.sees(&DEPLOYMENT, ns, name, said, seconds(60), fits).await;
    };
    let federated = async |said: &str, fits: fn(&Value) -> bool| is_federated("api", said, fits).await;
    let is_refused_by_path: fn(&Value) -> bool = |c| {
        let message = c["message"].as_str().unwrap_or_default();
        c["reason"] == "HubRefused" && message.contains("unknown field \"spec.template.spec.location\"")
    };
    let locate = async |location: Value| {
        let spec = json!({"spec": {"template": {"spec": {"location": location}}}});
        case.project.merge(&DEPLOYMENT, &case.ns, "api", spec).await;
    };
    with_cleanup(
        async {
            case.hub.merge(&DEFINITION, "", OF_DEPLOYMENTS, older).await;
            case.create(&DEPLOYMENT, objects::deployment("api", "DFW")).await;
            federated("is federated", |c| c["status"] == "True").await;
            let before = case.copy("api").await;

            locate(json!({"name": "us-south-1"})).await;
            federated("names the path", is_refused_by_path).await;
            let copy = case.copy("api").await;
            assert_eq!(copy["spec"], before["spec"], "the copy keeps its last spec");

            // A new copy is refused as a change is, instead of losing the field.
            let mut born = objects::deployment("born", "DFW");
            born["spec"]["template"]["spec"]["location"] = json!({"name": "us-south-1"});
            case.create(&DEPLOYMENT, born).await;
            is_federated("born", "names the path", is_refused_by_path).await;
            assert!(case.hub.get(&DEPLOYMENT, &case.hub_ns, "born").await.is_none());
            case.project.delete(&DEPLOYMENT, &case.ns, "born").await;

            // The rest of its life goes on: a status still returns, and an end is one.
            case.dfw.run(&case.hub_ns, "api", 0).await;
            locate(Value::Null).await;
            federated("is federated again", |c| c["status"] == "True").await;
            locate(json!({"name": "us-south-1"})).await;
            federated("is refused again", |c| c["reason"] == "HubRefused").await;
            case.project.delete(&DEPLOYMENT, &case.ns, "api").await;
            case.project
                .gone(&DEPLOYMENT, &case.ns, "api", seconds(120))
                .await;
        },
        async {
            let versions = json!({"spec": {"versions": ours["spec"]["versions"]}});
            case.hub.merge(&DEFINITION, "", OF_DEPLOYMENTS, versions).await;
        },
    )
    .await;
}

async fn a93_a_projection_has_the_fields_that_its_project_declares_and_never_freezes(case: Case) {
    let ours = case
        .project
        .get(&DEFINITION, "", OF_INSTANCES)
        .await
        .expect("it is installed");
    let older = without_location(&ours, "/properties/spec");
    with_cleanup(
        async {
            case.project.merge(&DEFINITION, "", OF_INSTANCES, older).await;
            case.create(&DEPLOYMENT, objects::deployment("web", "DFW")).await;
            let mut instance = case.dfw.instance(&case.hub_ns, "web", 0).await;
            instance["spec"]["location"] = json!({"name": "us-south-1"});
            case.dfw.write_back(&instance).await;
            let ready = |wanted: &'static str| {
                move |object: &Value| condition(object, "Ready").is_some_and(|c| c["status"] == wanted)
            };
            let (project, ns) = (&case.project, &case.ns);
            project
                .sees(
                    &INSTANCE,
                    ns,
                    "web-0",
                    "is projected",
                    seconds(60),
                    ready("False"),
                )
                .await;

            let (kept, dropped) = (json!({"name": "db"}), json!({"name": "us-south-2"}));
            let spec = json!({"spec": {"location": dropped, "networkInterfaces": [{"network": kept}]}});
            case.hub.merge(&INSTANCE, &case.hub_ns, "web-0", spec).await;
            let status = running();
            case.hub
                .merge_status(&INSTANCE, &case.hub_ns, "web-0", status)
                .await;
            let arrived = |object: &Value| {
                ready("True")(object) && object["spec"]["networkInterfaces"][0]["network"]["name"] == "db"
            };
            let projected = project
                .sees(&INSTANCE, ns, "web-0", "follows its cell", seconds(60), arrived)
                .await;
            assert_eq!(projected["spec"].get("location"), None, "{projected}");
        },
        async {
            let versions = json!({"spec": {"versions": ours["spec"]["versions"]}});
            case.project.merge(&DEFINITION, "", OF_INSTANCES, versions).await;
        },
    )
    .await;
}
