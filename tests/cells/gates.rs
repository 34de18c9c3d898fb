//! Networks and referenced data: what an Instance waits for before it runs.

use crate::support::{
    Case, Wish,
    case::is_true,
    kinds::{
        CONFIG_MAP, DEFINITION, DEPLOYMENT, INSTANCE, Kind, NETWORK_BINDING, POD, SERVING_LOCATION, WORKLOAD,
        kind,
    },
    label, lone_trials, message, says, seconds, trials, uid, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    w12_w23_referenced_data_is_waited_for_and_rolls_nothing,
    a_network_that_is_missing_is_told,
];
lone_trials![
    w24_two_serving_locations_stop_nothing_that_runs,
    w24_serving_locations_of_both_groups_count_by_name,
    a_network_provider_that_stalls_is_waited_for,
];

async fn w12_w23_referenced_data_is_waited_for_and_rolls_nothing(case: Case) {
    let wish = Wish::new("web", 1).config_map("settings");
    case.create(&wish).await;
    let instance = "web-us-dfw-0";
    let missing = case
        .project_says(
            &INSTANCE,
            instance,
            ["ReferencedDataReady", "False", "SourceNotFound"],
        )
        .await;
    let message = message(&missing, "ReferencedDataReady");
    assert!(
        message.contains("settings"),
        "what is missing is named: {message}"
    );
    case.project_says(&WORKLOAD, "web", ["Available", "False", "SourceNotFound"])
        .await;
    assert!(case.at(case.dfw(), &POD).await.is_empty());
    let settings = json!({"metadata": {"name": "settings"}, "data": {"mode": "a"}});
    case.project.create(&CONFIG_MAP, &case.ns, settings).await;
    case.runs(&wish).await;
    let before = case.sees(&INSTANCE, instance, "is there", |_| true).await;
    // Its content changes: it arrives, and nothing rolls.
    let mark = case.mark();
    case.project
        .merge(&CONFIG_MAP, &case.ns, "settings", json!({"data": {"mode": "b"}}))
        .await;
    case.sees(&CONFIG_MAP, "settings", "has the new content", |c| {
        c["data"]["mode"] == "b"
    })
    .await;
    let companions = case.at(case.dfw(), &CONFIG_MAP).await;
    assert!(
        companions
            .iter()
            .any(|c| label(c, keys::REFERENCED_DATA).is_some()),
        "{companions:#?}"
    );
    // Something that the cell answers to after it, so that it has seen the change.
    case.suspend("web-us-dfw", true).await;
    case.cell_says(&INSTANCE, instance, ["Ready", "False", "Suspended"])
        .await;
    case.suspend("web-us-dfw", false).await;
    case.runs(&wish).await;
    let after = case.sees(&INSTANCE, instance, "is there", |_| true).await;
    assert_eq!((uid(&after), &after["spec"]), (uid(&before), &before["spec"]));
    let rolled: Vec<String> = case
        .writes_of(case.dfw(), &mark)
        .into_iter()
        .filter(|w| w.contains(" instances web"))
        .collect();
    assert!(
        !rolled
            .iter()
            .any(|w| w.contains("create") || w.contains("delete")),
        "{rolled:?}"
    );
}

async fn a_network_that_is_missing_is_told(case: Case) {
    let wish = Wish::new("web", 1).network("missing-1");
    case.create(&wish).await;
    let instance = case
        .project_says(
            &INSTANCE,
            "web-us-dfw-0",
            ["Ready", "False", "NetworkFailedToCreate"],
        )
        .await;
    let message = message(&instance, "Ready");
    assert!(message.contains("missing-1"), "the network is named: {message}");
    case.project_says(&WORKLOAD, "web", ["Available", "False", "NetworkFailedToCreate"])
        .await;
    let binding = case
        .sees(&NETWORK_BINDING, "web-us-dfw-net-0", "is there", |_| true)
        .await;
    assert!(case.at(case.dfw(), &POD).await.is_empty());
    // A corrected template: another binding, and the Instance that never ran is replaced.
    let good = wish.network("default");
    case.update(&good).await;
    case.runs(&good).await;
    case.dfw()
        .plane
        .gone(&NETWORK_BINDING, &case.hub_ns, "web-us-dfw-net-0", seconds(60))
        .await;
    let bindings = case.at(case.dfw(), &NETWORK_BINDING).await;
    let [after] = bindings.as_slice() else {
        panic!("one binding, of the network that is used: {bindings:?}");
    };
    assert_ne!(uid(after), uid(&binding));
    assert_eq!(after["spec"]["network"]["name"], "default");
    assert!(is_true(after, "Ready"), "{after}");
}

/// The other group's, which this suite's cells do not serve but for one trial.
const MILO_SERVING_LOCATION: Kind = kind(
    "locations.miloapis.com",
    "v1alpha1",
    "ServingLocation",
    "servinglocations",
    false,
);

/// A new Workload is refused for its cell's two locations, and the one Instance that runs goes on.
async fn begins_nothing(case: &Case, new: &Wish) {
    case.create(new).await;
    case.project_says(
        &DEPLOYMENT,
        "new-us-dfw",
        ["Available", "False", "AmbiguousServingLocation"],
    )
    .await;
    let instances = case.at(case.dfw(), &INSTANCE).await;
    assert!(
        instances.len() == 1 && is_true(&instances[0], "Ready"),
        "{instances:#?}"
    );
}

async fn w24_two_serving_locations_stop_nothing_that_runs(case: Case) {
    let (old, new) = (Wish::new("old", 1), Wish::new("new", 1));
    case.run(&old).await;
    let cell = &case.dfw().plane;
    let second = json!({"metadata": {"name": "second"}, "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
    cell.create(&SERVING_LOCATION, "", second).await;
    let body = async {
        begins_nothing(&case, &new).await;
    };
    with_cleanup(body, cell.delete(&SERVING_LOCATION, "", "second")).await;
    case.runs(&new).await;
    case.runs(&old).await;
}

/// A cell that serves `ServingLocations` of both groups: one of an equal name is the same place, another one is a second.
async fn w24_serving_locations_of_both_groups_count_by_name(case: Case) {
    let (old, new) = (Wish::new("old", 1), Wish::new("new", 1));
    let role = case.dfw();
    let cell = &role.plane;
    let definition = "servinglocations.locations.miloapis.com";
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition_of_milo = json!({"metadata": {"name": definition}, "spec": {
        "group": "locations.miloapis.com", "scope": "Cluster",
        "names": {"kind": MILO_SERVING_LOCATION.name, "plural": MILO_SERVING_LOCATION.plural},
        "versions": [{"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
    let location =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"topology": {keys::CITY_CODE: "DFW"}}});
    cell.create(&DEFINITION, "", definition_of_milo).await;
    let body = async {
        cell.sees(&DEFINITION, "", definition, "is established", seconds(30), |d| {
            is_true(d, "Established")
        })
        .await;
        cell.create(&MILO_SERVING_LOCATION, "", location("dfw-1")).await;
        // A cell looks for kinds that it did not find at longer and longer intervals, and at its start.
        role.restart().await;
        case.run(&old).await;
        cell.create(&MILO_SERVING_LOCATION, "", location("second")).await;
        begins_nothing(&case, &new).await;
        cell.delete(&MILO_SERVING_LOCATION, "", "second").await;
        case.runs(&new).await;
    };
    let cleanup = async {
        role.stop().await;
        cell.delete(&DEFINITION, "", definition).await;
        cell.gone(&DEFINITION, "", definition, seconds(30)).await;
        role.start().await;
    };
    with_cleanup(body, cleanup).await;
    case.runs(&old).await;
}

async fn a_network_provider_that_stalls_is_waited_for(case: Case) {
    let cell = &case.dfw().plane;
    let tell = async |word: Value| {
        for location in cell.list(&SERVING_LOCATION, "", "").await {
            let name = location["metadata"]["name"].as_str().expect("it has a name");
            let told = json!({"metadata": {"annotations": {"sandbox.fedgate.dev/network": word}}});
            cell.merge(&SERVING_LOCATION, "", name, told).await;
        }
    };
    let wish = Wish::new("web", 1);
    tell(json!("stall")).await;
    let body = async {
        case.create(&wish).await;
        case.project_says(
            &DEPLOYMENT,
            "web-us-dfw",
            ["Available", "False", "NetworkProvisioning"],
        )
        .await;
        let gated = case
            .sees(
                &INSTANCE,
                "web-us-dfw-0",
                "has its quota and waits for the network alone",
                |i| i["spec"]["controller"]["schedulingGates"] == json!([{"name": "Network"}]),
            )
            .await;
        assert!(
            says(&gated, ["Ready", "False", "SchedulingGatesPresent"]) && !is_true(&gated, "Programmed"),
            "{gated}"
        );
        assert!(case.at(case.dfw(), &POD).await.is_empty());
    };
    with_cleanup(body, tell(Value::Null)).await;
    case.dfw()
        .plane
        .sees(&POD, &case.hub_ns, "web-us-dfw-0", "is made", seconds(30), |_| {
            true
        })
        .await;
    case.runs(&wish).await;
}
