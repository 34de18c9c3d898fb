//! Workloads in the project: deployments per placement and city, and the roll-up of their status.

use crate::support::{
    Case, condition, has_finalizer,
    kinds::{DEPLOYMENT, WORKLOAD},
    objects, seconds, trials, uid,
};
use fedgate::api::keys;
use serde_json::json;

trials![
    workload_becomes_deployments_and_rolls_up,
    workload_deletion_takes_all_along
];

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
