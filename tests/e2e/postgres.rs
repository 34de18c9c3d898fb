//! A `PostgreSQL` cluster of `CloudNativePG`, which the executable ships (`interpreters/`). Its operator at the member is the test.

use crate::{
    lanes::{is, pin_of},
    returns::{at_member, in_project, member},
    shipped::{PG, came, delivered, release, waits_for_its_member},
    support::{
        Case, annotation, condition,
        kinds::{BINDING, POSTGRES, SECRET},
        seconds, trials, uid,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![x02_a_postgresql_cluster_is_at_one_member_and_keeps_what_is_filled_in_there];

const ORDERS: &str = "orders";
const ORDERS_PIN: &str = "clusters.postgresql.cnpg.io_orders";
/// The Secrets that the `PostgreSQL` cluster names, by each of the ways that there are.
const ORDERS_SECRETS: [&str; 4] = ["orders-super", "orders-owner", "orders-reader", "orders-backup"];

fn orders(city: &str) -> Value {
    let named = |name: &str| json!({"name": name});
    let key = |key: &str| json!({"name": "orders-backup", "key": key});
    json!({
        "metadata": {"name": ORDERS, "labels": {keys::CITY_CODE: city},
            "annotations": {"cnpg.io/hibernation": "off", "example.com/a": "b"}},
        "spec": {
            "instances": 3,
            "storage": {"size": "10Gi"},
            "superuserSecret": named("orders-super"),
            "bootstrap": {"initdb": {"database": ORDERS, "owner": ORDERS, "secret": named("orders-owner")}},
            "managed": {"roles": [{"name": "reader", "passwordSecret": named("orders-reader")}]},
            "backup": {"barmanObjectStore": {"destinationPath": "s3://orders",
                "s3Credentials": {"accessKeyId": key("id"), "secretAccessKey": key("secret")}}},
        },
    })
}

/// G49.
async fn x02_a_postgresql_cluster_is_at_one_member_and_keeps_what_is_filled_in_there(case: Case) {
    member(&case).await;
    let at = &case.dfw.plane;
    let since = at.version(&POSTGRES, &case.hub_ns).await;
    for name in ORDERS_SECRETS {
        case.secret(name, "Opaque", &json!({"password": "p"})).await;
    }
    let made = case.create(&POSTGRES, orders(&case.dfw.city)).await;
    let there = delivered(&case, &POSTGRES, PG, ORDERS).await;
    assert_eq!(there["spec"], made["spec"]);
    assert_eq!(annotation(&there, "cnpg.io/hibernation"), Some("off"));
    assert_eq!(
        annotation(&there, "example.com/a"),
        None,
        "its kind does not carry it"
    );
    let began = came(&case, &POSTGRES, ORDERS, &since).await;
    for name in ORDERS_SECRETS {
        let secret = came(&case, &SECRET, name, &since).await;
        assert!(secret < began, "Secret {name} was there before its cluster");
    }
    let binding = case.hub.get(&BINDING, &case.hub_ns, "orders-cluster").await;
    let clusters = binding.expect("it has a binding")["spec"]["clusters"].take();
    assert_eq!(clusters.as_array().map(Vec::len), Some(1), "{clusters}");
    assert_eq!(clusters[0]["name"], case.dfw.name);
    assert_eq!(case.lhr.plane.get(&POSTGRES, &case.hub_ns, ORDERS).await, None);
    filled_in(&case).await;
    healthy(&case).await;
    at_member(&case, "orders-ca", "never").await;
    at_member(&case, "orders-app", "app").await;
    let returned = in_project(&case, "orders-app", "app").await;
    assert_eq!(returned["metadata"]["ownerReferences"][0]["uid"], uid(&made));
    for name in ["orders-ca", &format!("{}.orders-ca", case.dfw.name)] {
        assert_eq!(case.hub.get(&SECRET, &case.hub_ns, name).await, None);
    }
    dropped(&case).await;
}

/// What the member's webhook fills in stays through edits of the project.
async fn filled_in(case: &Case) {
    const IMAGE: &str = "postgresql:17.5";
    let at = &case.dfw.plane;
    let image = json!({"spec": {"imageName": IMAGE}});
    let filled = at.merge(&POSTGRES, &case.hub_ns, ORDERS, image).await;
    let begin = filled["metadata"]["resourceVersion"].as_str().expect("a version");
    for instances in [5, 4] {
        let edit = json!({"spec": {"instances": instances}});
        case.merge(&POSTGRES, ORDERS, edit).await;
        at.sees(
            &POSTGRES,
            &case.hub_ns,
            ORDERS,
            "has the edit",
            seconds(60),
            |o| o["spec"]["instances"] == instances,
        )
        .await;
    }
    let changes = at.history(&POSTGRES, &case.hub_ns, begin).await;
    assert!(
        changes.len() >= 2
            && changes
                .iter()
                .all(|(_, o, there)| *there && o["spec"]["imageName"] == IMAGE),
        "no write took the image away: {changes:#?}"
    );
    let copy = case.hub.exists(&POSTGRES, &case.hub_ns, ORDERS, seconds(5)).await;
    assert_eq!(copy["spec"]["imageName"], Value::Null, "the project names none");
    // A tenant who names one gets it.
    let own = json!({"spec": {"imageName": "postgresql:18.1"}});
    case.merge(&POSTGRES, ORDERS, own).await;
    at.sees(
        &POSTGRES,
        &case.hub_ns,
        ORDERS,
        "has the tenant's image",
        seconds(60),
        |o| o["spec"]["imageName"] == "postgresql:18.1",
    )
    .await;
}

/// The status is the member's; the generation of its conditions is the project's.
async fn healthy(case: &Case) {
    let at = &case.dfw.plane;
    let there = at.exists(&POSTGRES, &case.hub_ns, ORDERS, seconds(5)).await;
    let status = json!({
        "phase": "Cluster in healthy state", "instances": 4, "readyInstances": 4, "currentPrimary": "orders-1",
        "instancesStatus": {"healthy": ["orders-1", "orders-2"], "failed": ["orders-3"]},
        "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterIsReady", "message": "ready",
            "lastTransitionTime": "2030-01-01T00:00:00Z", "observedGeneration": there["metadata"]["generation"]}],
    });
    at.merge_status(&POSTGRES, &case.hub_ns, ORDERS, status).await;
    let seen = case
        .project
        .sees(&POSTGRES, &case.ns, ORDERS, "has its status", seconds(60), |o| {
            is(o, "Ready", "ClusterIsReady")
        })
        .await;
    assert_eq!(seen["status"]["readyInstances"], 4);
    assert_eq!(seen["status"]["instancesStatus"]["failed"], json!(["orders-3"]));
    let ready = condition(&seen, "Ready").expect("the wait asks for it");
    assert_eq!(ready["observedGeneration"], seen["metadata"]["generation"]);
    assert_ne!(seen["metadata"]["generation"], there["metadata"]["generation"]);
    assert!(is(&seen, "StatusCurrent", "Current"), "{seen}");
    let better = json!({"instancesStatus": {"failed": null}});
    at.merge_status(&POSTGRES, &case.hub_ns, ORDERS, better).await;
    case.project
        .sees(
            &POSTGRES,
            &case.ns,
            ORDERS,
            "has no failed instance",
            seconds(60),
            |o| o["status"]["instancesStatus"] == json!({"healthy": ["orders-1", "orders-2"]}),
        )
        .await;
}

async fn dropped(case: &Case) {
    const DRAIN: &str = "cnpg.io/drain";
    let at = &case.dfw.plane;
    let held = json!({"metadata": {"finalizers": [DRAIN]}});
    at.merge(&POSTGRES, &case.hub_ns, ORDERS, held).await;
    case.delete(&POSTGRES, ORDERS).await;
    waits_for_its_member(case, &POSTGRES, ORDERS, DRAIN).await;
    for name in ORDERS_SECRETS {
        at.exists(&SECRET, &case.hub_ns, name, seconds(5)).await;
    }
    release(case, &POSTGRES, ORDERS).await;
    case.project.gone(&POSTGRES, &case.ns, ORDERS, seconds(200)).await;
    assert_eq!(pin_of(case, ORDERS_PIN).await, None);
    for plane in [at, &case.hub] {
        plane.gone(&POSTGRES, &case.hub_ns, ORDERS, seconds(60)).await;
        for name in ORDERS_SECRETS {
            plane.gone(&SECRET, &case.hub_ns, name, seconds(60)).await;
        }
    }
    let on_hub = format!("{}.orders-app", case.dfw.name);
    case.hub.gone(&SECRET, &case.hub_ns, &on_hub, seconds(60)).await;
    case.project
        .gone(&SECRET, &case.ns, "orders-app", seconds(60))
        .await;
}
