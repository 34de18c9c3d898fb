//! Workloads in the project: deployments per placement and city, and the roll-up of their status.

use crate::support::{
    Case,
    cell::{THEN, said},
    condition, has_finalizer,
    kinds::{DEPLOYMENT, WORKLOAD},
    objects,
    plane::BY_EVENT,
    seconds, trials, uid,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    workload_at_a_location_has_a_deployment_that_names_it_alone,
    #[core]
    workload_becomes_deployments_and_rolls_up,
    workload_edit_is_one_change_of_its_deployment,
    #[core]
    workload_deletion_takes_all_along,
    workload_that_does_not_decode_is_quarantined,
];

/// The project's part of locations.md §4: one field of the two, and a selector that takes nothing away.
async fn workload_at_a_location_has_a_deployment_that_names_it_alone(case: Case) {
    let place = |workload: &mut Value, field: &str, value: Value| {
        let placement = workload["spec"]["placements"][0].as_object_mut().unwrap();
        for other in ["cityCodes", "locations", "locationSelector"] {
            placement.remove(other);
        }
        placement.insert(field.to_owned(), value);
        json!({"spec": {"placements": workload["spec"]["placements"]}})
    };
    let mut workload = objects::workload("shop", &[]);
    place(&mut workload, "locations", json!([{"name": "us-south-1"}]));
    case.create(&WORKLOAD, workload.clone()).await;
    let (project, name) = (&case.project, "shop-main-us-south-1");
    let made = project.exists(&DEPLOYMENT, &case.ns, name, seconds(30)).await;
    assert_eq!(made["spec"]["locationRef"], json!({"name": "us-south-1"}));
    assert_eq!(made["spec"].get("cityCode"), None);
    assert_eq!(made["metadata"]["labels"][keys::INSTANCE_LOCATION], "us-south-1");
    let resolved = json!([{"name": "us-south-1"}]);
    let names_it = |o: &Value| o["status"]["placements"][0]["locations"] == resolved;
    let wanted = "names the location in its status";
    project
        .sees(&WORKLOAD, &case.ns, "shop", wanted, seconds(30), names_it)
        .await;

    // A second field beside it goes again.
    case.merge(&DEPLOYMENT, name, json!({"spec": {"cityCode": "DFW"}}))
        .await;
    let restored = |o: &Value| {
        let again = o["metadata"]["generation"].as_i64() > Some(2);
        again && o["spec"].get("cityCode").is_none() && o["spec"]["locationRef"]["name"] == "us-south-1"
    };
    let wanted = "names its location alone again";
    let kept = project
        .sees(&DEPLOYMENT, &case.ns, name, wanted, seconds(30), restored)
        .await;
    assert_eq!(uid(&kept), uid(&made));
    assert_eq!(kept["metadata"]["generation"], 3, "by one write");

    let selector = json!({"matchLabels": {"topology.datum.net/city-code": "DFW"}});
    case.merge(
        &WORKLOAD,
        "shop",
        place(&mut workload, "locationSelector", selector),
    )
    .await;
    let answered = |o: &Value| {
        let conditions = &o["status"]["placements"][0]["conditions"];
        let reason = "NoMatchingLocations";
        conditions
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["reason"] == reason))
    };
    let wanted = "says that its selector is not resolved";
    project
        .sees(&WORKLOAD, &case.ns, "shop", wanted, seconds(30), answered)
        .await;
    case.quiet().await;
    let kept = project.get(&DEPLOYMENT, &case.ns, name).await;
    let kept = kept.expect("a selector takes nothing away");
    assert_eq!(
        (uid(&kept), kept["metadata"].get("deletionTimestamp")),
        (uid(&made), None)
    );
}

async fn workload_becomes_deployments_and_rolls_up(case: Case) {
    let made = case
        .create(&WORKLOAD, objects::workload("shop", &["DFW", "LHR"]))
        .await;
    for (name, cell) in [("shop-main-dfw", &case.dfw), ("shop-main-lhr", &case.lhr)] {
        let deployment = case
            .project
            .exists(&DEPLOYMENT, &case.ns, name, seconds(30))
            .await;
        assert_eq!(deployment["metadata"]["ownerReferences"][0]["uid"], uid(&made));
        assert_eq!(deployment["spec"]["workloadRef"]["uid"], uid(&made));
        assert_eq!(deployment["spec"]["cityCode"], cell.city);
        cell.report(&case.hub_ns, name, 1, 1).await;
    }
    let rolled = case
        .project
        .sees(
            &WORKLOAD,
            &case.ns,
            "shop",
            "has the sum of both cities",
            seconds(60),
            |o| o["status"]["readyReplicas"] == 2 && o["status"]["deployments"] == 2,
        )
        .await;
    assert_eq!(
        condition(&rolled, "Available").map(|c| &c["reason"]),
        Some(&json!("AvailablePlacementFound"))
    );
    // A city less: its deployment goes, the other stays.
    case.merge(
        &WORKLOAD,
        "shop",
        json!({"spec": {"placements": objects::workload("shop", &["LHR"])["spec"]["placements"]}}),
    )
    .await;
    case.project
        .gone(&DEPLOYMENT, &case.ns, "shop-main-dfw", seconds(60))
        .await;
    case.dfw.gone(&case.hub_ns, "shop-main-dfw").await;
    case.project
        .sees(
            &WORKLOAD,
            &case.ns,
            "shop",
            "has one deployment",
            seconds(30),
            |o| o["status"]["deployments"] == 1,
        )
        .await;
}

async fn workload_edit_is_one_change_of_its_deployment(case: Case) {
    let with = |variable: &str| {
        let mut workload = objects::workload("shop", &["DFW"]);
        workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["env"] =
            json!([{"name": variable, "value": "x"}]);
        workload
    };
    case.create(&WORKLOAD, with("OLD")).await;
    let names = |deployment: &Value| {
        let containers = &deployment["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"];
        containers[0]["env"].as_array().map_or_else(Vec::new, |env| {
            env.iter().map(|variable| variable["name"].clone()).collect()
        })
    };
    case.dfw.deployment(&case.hub_ns, "shop-main-dfw").await;
    let (project, ns) = (&case.project, &case.ns);
    let made = project
        .exists(&DEPLOYMENT, ns, "shop-main-dfw", seconds(30))
        .await;
    assert_eq!(names(&made), ["OLD"]);
    // A deployment that had both for a moment would be rolled out twice.
    case.merge(&WORKLOAD, "shop", json!({"spec": with("NEW")["spec"]}))
        .await;
    let is_new = move |deployment: &Value| names(deployment) == ["NEW"];
    let edited = project
        .sees(
            &DEPLOYMENT,
            ns,
            "shop-main-dfw",
            "has the new variable alone",
            seconds(30),
            is_new,
        )
        .await;
    let generation = |deployment: &Value| deployment["metadata"]["generation"].as_i64().unwrap();
    assert_eq!(generation(&edited), generation(&made) + 1);
}

async fn workload_deletion_takes_all_along(case: Case) {
    case.create(&WORKLOAD, objects::workload("shop", &["DFW"])).await;
    case.dfw.deployment(&case.hub_ns, "shop-main-dfw").await;
    let workload = case
        .project
        .get(&WORKLOAD, &case.ns, "shop")
        .await
        .expect("the Workload is there");
    assert!(has_finalizer(&workload, keys::WORKLOAD_FINALIZER));
    case.delete(&WORKLOAD, "shop").await;
    case.project.gone(&WORKLOAD, &case.ns, "shop", seconds(90)).await;
    assert!(
        case.project
            .get(&DEPLOYMENT, &case.ns, "shop-main-dfw")
            .await
            .is_none()
    );
    assert!(
        case.hub
            .get(&DEPLOYMENT, &case.hub_ns, "shop-main-dfw")
            .await
            .is_none()
    );
    case.dfw.gone(&case.hub_ns, "shop-main-dfw").await;
}

async fn workload_that_does_not_decode_is_quarantined(case: Case) {
    case.create(&WORKLOAD, objects::workload("shop", &["DFW"])).await;
    let made = case
        .project
        .exists(&DEPLOYMENT, &case.ns, "shop-main-dfw", seconds(30))
        .await;
    case.dfw.deployment(&case.hub_ns, "shop-main-dfw").await;
    case.quiet().await;
    let (gateway, mark) = (&case.suite.gateway, case.suite.gateway.log_mark());
    // An API server takes any two digits for hours and minutes of an offset; no time has this one.
    let mut odd = said("Odd", "True", "Odd", None);
    odd["lastTransitionTime"] = json!(THEN.replace('Z', "+99:99"));
    let status = async |conditions: serde_json::Value| {
        case.project
            .merge_status(&WORKLOAD, &case.ns, "shop", json!({"conditions": conditions}))
            .await
    };
    status(json!([odd])).await;
    let event = case.event("shop", "QuarantinedUndecodable").await;
    assert_eq!(
        (&event["type"], &event["action"]),
        (&json!("Warning"), &json!("QuarantiningWorkload"))
    );
    let note = event["note"].as_str().unwrap_or_default();
    assert!(note.contains("correct"), "the next step is said: {note:?}");
    let held = gateway
        .metric("fedgate_quarantined_objects", &["undecodable"])
        .await;
    assert!((held - 1.0).abs() < f64::EPSILON, "the gauge is {held}");
    // Until it is repaired nothing is made of it, nor taken from it.
    let wider = objects::workload("shop", &["DFW", "LHR"]);
    case.merge(
        &WORKLOAD,
        "shop",
        json!({"spec": {"placements": wider["spec"]["placements"]}}),
    )
    .await;
    case.quiet().await;
    let later = case.project.get(&DEPLOYMENT, &case.ns, "shop-main-lhr").await;
    assert!(
        later.is_none(),
        "a city is added to a Workload that cannot be read"
    );
    let still = case
        .project
        .get(&DEPLOYMENT, &case.ns, "shop-main-dfw")
        .await
        .expect("what runs goes on");
    assert_eq!(uid(&still), uid(&made));
    assert!(still["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(
        case.events("shop", "QuarantinedUndecodable").await.len(),
        1,
        "it is said once"
    );
    let lines: Vec<String> = gateway
        .log_since(mark)
        .into_iter()
        .filter(|line| line.contains("\"WARN\"") && line.contains(&case.ns))
        .collect();
    assert_eq!(lines.len(), 1, "one log line says it: {lines:#?}");
    // Repaired, it is taken up by that event.
    status(json!([])).await;
    case.project
        .exists(&DEPLOYMENT, &case.ns, "shop-main-lhr", BY_EVENT)
        .await;
    let left = gateway
        .metric("fedgate_quarantined_objects", &["undecodable"])
        .await;
    assert!(left < 0.5, "the gauge is back at 0, not {left}");
}
