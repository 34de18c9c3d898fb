//! A made-up kind of which every member of a city has one, and whose place is fixed (tests/kinds, `Beacon`): language 2
//! without a single member.

use crate::{
    lanes::is,
    support::{
        Case, condition,
        kinds::{BEACON, CLUSTER, NAMESPACE},
        label,
        policies::without_policy,
        seconds, trials, wait_for,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    w01_a_beacon_stays_in_its_city_and_is_not_deleted_while_it_is_locked,
    w02_a_beacon_waits_until_a_member_of_its_city_serves_its_kind,
];

const NAME: &str = "north";

fn beacon(city: &str, is_locked: bool) -> Value {
    json!({"metadata": {"name": NAME}, "spec": {"city": city, "power": 1, "locked": is_locked}})
}

async fn power(case: &Case, power: i64) {
    case.dfw
        .plane
        .sees(&BEACON, &case.hub_ns, NAME, "has its power", seconds(120), |o| {
            o["spec"]["power"] == power
        })
        .await;
}

async fn told(case: &Case, reason: &str) -> Value {
    case.project
        .sees(&BEACON, &case.ns, NAME, reason, seconds(60), |o| {
            is(o, "Federated", reason)
        })
        .await
}

async fn w01_a_beacon_stays_in_its_city_and_is_not_deleted_while_it_is_locked(case: Case) {
    case.create(&BEACON, beacon(&case.dfw.city, true)).await;
    power(&case, 1).await;
    told(&case, "Delivered").await;
    let moved = json!({"spec": {"city": case.lhr.city, "power": 2}});
    let edit = async || case.project.try_merge(&BEACON, &case.ns, NAME, &moved).await;
    let refused = edit().await.expect_err("the place is set").to_string();
    let why = format!("cannot change from \"{}\": the object lives there", case.dfw.city);
    assert!(refused.contains(&why), "{refused}");
    without_policy(
        &case.project,
        "fedgate-placement-beacons.example.fedgate.dev",
        async {
            wait_for("the edit is let through", seconds(60), || async {
                edit().await.ok()
            })
            .await;
            let beacon = told(&case, "PlacementImmutable").await;
            let said = condition(&beacon, "Federated").expect("it is told");
            assert_eq!(said["observedGeneration"], beacon["metadata"]["generation"]);
            assert_eq!(case.event(NAME, "PlacementImmutable").await["type"], "Warning");
            let copy = case.hub.exists(&BEACON, &case.hub_ns, NAME, seconds(5)).await;
            assert_eq!(
                (label(&copy, keys::CITY_CODE), &copy["spec"]["power"]),
                (Some(&*case.dfw.city), &json!(1))
            );
            assert!(
                case.lhr.plane.get(&NAMESPACE, "", &case.hub_ns).await.is_none(),
                "the other city gets nothing"
            );
            case.merge(&BEACON, NAME, json!({"spec": {"city": case.dfw.city}}))
                .await;
            power(&case, 2).await;
        },
    )
    .await;
    case.delete(&BEACON, NAME).await;
    let held = told(&case, "DeletionHeld").await;
    let said = condition(&held, "Federated").expect("it is told");
    assert_eq!(said["message"], "spec.locked is true; set it to false to delete");
    assert_eq!(case.event(NAME, "DeletionHeld").await["type"], "Warning");
    let copy = case.hub.exists(&BEACON, &case.hub_ns, NAME, seconds(5)).await;
    assert!(copy["metadata"]["deletionTimestamp"].is_null());
    case.merge(&BEACON, NAME, json!({"spec": {"locked": false}}))
        .await;
    case.project.gone(&BEACON, &case.ns, NAME, seconds(120)).await;
    case.dfw
        .plane
        .gone(&BEACON, &case.hub_ns, NAME, seconds(60))
        .await;
}

async fn w02_a_beacon_waits_until_a_member_of_its_city_serves_its_kind(case: Case) {
    let city = case.unready_city().await;
    let cell = format!("absent-{}", case.ns);
    let serves = async |kinds: Value| {
        let status = json!({
            "conditions": [{"type": "CompleteAPIEnablements", "status": "True", "reason": "Complete", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "apiEnablements": [{"groupVersion": "example.fedgate.dev/v1", "resources": kinds}],
        });
        case.hub.merge_status(&CLUSTER, "", &cell, status).await
    };
    serves(json!([{"kind": "Gadget", "name": "gadgets"}])).await;
    case.create(&BEACON, beacon(&city, false)).await;
    let waits = told(&case, "MemberApiMissing").await;
    let said = condition(&waits, "Federated").expect("it is told");
    assert_eq!(
        said["message"],
        format!("no cell of the city serves example.fedgate.dev/v1 Beacon: {cell}")
    );
    assert!(
        case.hub.get(&NAMESPACE, "", &case.hub_ns).await.is_none(),
        "nothing goes to the hub"
    );
    serves(json!([{"kind": "Beacon", "name": "beacons"}])).await;
    case.hub.exists(&BEACON, &case.hub_ns, NAME, seconds(60)).await;
    serves(json!([{"kind": "Gadget", "name": "gadgets"}])).await;
    case.merge(&BEACON, NAME, json!({"spec": {"power": 2}})).await;
    case.hub
        .sees(&BEACON, &case.hub_ns, NAME, "has the edit", seconds(60), |o| {
            o["spec"]["power"] == 2
        })
        .await;
}
