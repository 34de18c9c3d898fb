//! 78: the request budget of federation.md §4, row by row, from the API servers' logs.

use crate::support::{
    Case, deployment_with_data,
    gateway::LINGER,
    kinds::{CONFIG_MAP, DEPLOYMENT, INSTANCE, NAMESPACE, POLICY},
    seconds, trials,
};
use fedgate::api::keys;
use serde_json::json;

trials![
    a78_first_of_a_namespace,
    a78_first_of_a_city,
    a78_known_city_and_spec_change,
    a78_city_moves,
    a78_status_and_write_back,
    a78_companions,
    a78_deletions,
    a78_changes_that_carry_nothing,
];

const PATCH: &str = "project: patch workloaddeployments";
const STATUS: &str = "project: patch workloaddeployments/status";
const CREATE: &str = "hub: create workloaddeployments";
const APPLY: &str = "hub: patch workloaddeployments";
const REMOVE: &str = "hub: delete workloaddeployments";
const WIDEN: &str = "hub: patch namespaces";

/// Runs one action and compares the gateway's requests, after they have come to an end, with the budget's row.
async fn costs<F: Future<Output = ()>>(case: &Case, what: &str, row: &[&str], action: F) {
    case.quiet().await;
    let count = case.count();
    action.await;
    case.quiet().await;
    let mut row: Vec<String> = row.iter().map(|request| (*request).to_owned()).collect();
    row.sort();
    assert_eq!(case.writes(&count), row, "{what}");
    // A body that is about to be written may be read again; what writes nothing reads nothing.
    if row.is_empty() {
        assert_eq!(case.gets(&count), Vec::<String>::new(), "{what}");
    }
}

async fn a78_first_of_a_namespace(case: Case) {
    // The set's policy is shared by the whole hub and thus not of this namespace.
    let row = [
        PATCH,
        "hub: create namespaces",
        "hub: create propagationpolicies",
        CREATE,
    ];
    costs_beside_status(&case, "first of a project namespace", &row, async {
        case.deploy("web", "DFW").await;
        case.dfw.deployment(&case.hub_ns, "web").await;
        // No cell reports: that is what the first returned status says, once.
        case.condition("web", "Available", "False", "NoCellReporting")
            .await;
    })
    .await;
}

/// A deployment at rest, its first status returned.
pub(crate) async fn settled(case: &Case, name: &str, city: &str) {
    case.deploy(name, city).await;
    let cell = if city == "DFW" { &case.dfw } else { &case.lhr };
    cell.report(&case.hub_ns, name, 1, 1).await;
    case.project_sees(name, "has the cell's counters", |o| {
        o["status"]["readyReplicas"] == 1
    })
    .await;
    case.condition(name, "Federated", "True", "Delivered").await;
}

/// Requests other than status patches: how often a new deployment's status returns depends on Karmada's steps.
fn without_status(writes: Vec<String>) -> Vec<String> {
    writes.into_iter().filter(|write| write != STATUS).collect()
}

async fn costs_beside_status<F: Future<Output = ()>>(case: &Case, what: &str, row: &[&str], action: F) {
    case.quiet().await;
    let count = case.count();
    action.await;
    case.quiet().await;
    let mut row: Vec<String> = row.iter().map(|request| (*request).to_owned()).collect();
    row.sort();
    assert_eq!(without_status(case.writes(&count)), row, "{what}");
}

async fn a78_first_of_a_city(case: Case) {
    settled(&case, "here", "DFW").await;
    let row = [PATCH, WIDEN, "hub: create propagationpolicies", CREATE];
    costs_beside_status(&case, "first of a city", &row, settled(&case, "there", "LHR")).await;
}

async fn a78_known_city_and_spec_change(case: Case) {
    settled(&case, "one", "DFW").await;
    costs_beside_status(
        &case,
        "city known",
        &[PATCH, CREATE],
        settled(&case, "two", "DFW"),
    )
    .await;
    // Beside the apply, one return of status: the cell says that it acted.
    costs(&case, "spec changed", &[APPLY, STATUS], async {
        case.merge(
            &DEPLOYMENT,
            "one",
            json!({"spec": {"scaleSettings": {"minReplicas": 2}}}),
        )
        .await;
        case.copy_sees("one", "has the new scale", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == 2
        })
        .await;
        case.dfw
            .sees(&case.hub_ns, "one", "has the new scale", |o| {
                o["spec"]["scaleSettings"]["minReplicas"] == 2
            })
            .await;
        case.dfw.report(&case.hub_ns, "one", 1, 1).await;
    })
    .await;
    costs(&case, "carried annotation changed", &[APPLY], async {
        case.merge(
            &DEPLOYMENT,
            "two",
            json!({"metadata": {"annotations": {keys::SUSPENDED: "true"}}}),
        )
        .await;
        case.copy_sees("two", "is suspended", |o| {
            o["metadata"]["annotations"][keys::SUSPENDED] == "true"
        })
        .await;
    })
    .await;
}

async fn a78_city_moves(case: Case) {
    for name in ["one", "two"] {
        settled(&case, name, "DFW").await;
    }
    let to = |city: &str| json!({"spec": {"cityCode": city}});
    costs_beside_status(
        &case,
        "move to a new city",
        &[APPLY, WIDEN, "hub: create propagationpolicies"],
        async {
            case.merge(&DEPLOYMENT, "one", to("LHR")).await;
            case.lhr.deployment(&case.hub_ns, "one").await;
            case.dfw.gone(&case.hub_ns, "one").await;
        },
    )
    .await;
    costs_beside_status(
        &case,
        "move to a known city, leaving the old one empty",
        &[APPLY, "hub: delete propagationpolicies", WIDEN],
        async {
            case.merge(&DEPLOYMENT, "two", to("LHR")).await;
            case.lhr.deployment(&case.hub_ns, "two").await;
            case.dfw.namespace_gone(&case.hub_ns).await;
        },
    )
    .await;
}

async fn a78_status_and_write_back(case: Case) {
    settled(&case, "web", "DFW").await;
    costs(&case, "copy's status changed", &[STATUS], async {
        case.dfw.report(&case.hub_ns, "web", 0, 1).await;
        case.project_sees("web", "has the new counter", |o| {
            o["status"]["readyReplicas"] == 0
        })
        .await;
    })
    .await;
    let instance = case.dfw.instance(&case.hub_ns, "web", 0).await;
    // The cell writes its status some time after the object, as a rule: one patch of status.
    costs(
        &case,
        "write-back appears",
        &["project: create instances", "project: patch instances/status"],
        async {
            case.dfw.write_back(&instance).await;
            case.project
                .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
                .await;
        },
    )
    .await;
    costs(
        &case,
        "status of a write-back changes",
        &["project: patch instances/status"],
        async {
            case.dfw
                .hub
                .merge_status(&INSTANCE, &case.hub_ns, "web-0", crate::support::cell::running())
                .await;
        },
    )
    .await;
    costs(&case, "write-back goes", &["project: delete instances"], async {
        case.dfw.hub.delete(&INSTANCE, &case.hub_ns, "web-0").await;
        case.project.gone(&INSTANCE, &case.ns, "web-0", seconds(30)).await;
    })
    .await;
}

async fn a78_companions(case: Case) {
    case.config_map("settings", &json!({"a": "1"})).await;
    settled(&case, "other", "DFW").await;
    let row = [PATCH, CREATE, "hub: patch configmaps"];
    case.quiet().await;
    let count = case.count();
    case.create(
        &DEPLOYMENT,
        deployment_with_data("web", "DFW", Some("settings"), None, &[]),
    )
    .await;
    case.dfw
        .plane
        .exists(&CONFIG_MAP, &case.hub_ns, "settings", seconds(60))
        .await;
    case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    case.project_sees("web", "has the cell's counters", |o| {
        o["status"]["readyReplicas"] == 1
    })
    .await;
    case.quiet().await;
    let mut writes = without_status(case.writes(&count));
    // A companion is created by POST or by an apply: one request either way.
    for write in &mut writes {
        *write = write.replace("hub: create configmaps", "hub: patch configmaps");
    }
    writes.sort();
    let mut wanted = row.map(str::to_owned);
    wanted.sort();
    assert_eq!(writes, wanted, "deployment with a companion");
    costs(&case, "source changed", &["hub: patch configmaps"], async {
        case.merge(&CONFIG_MAP, "settings", json!({"data": {"a": "2"}}))
            .await;
        case.dfw
            .plane
            .sees(
                &CONFIG_MAP,
                &case.hub_ns,
                "settings",
                "has the change",
                seconds(60),
                |o| o["data"]["a"] == "2",
            )
            .await;
    })
    .await;
}

async fn a78_deletions(case: Case) {
    for name in ["one", "two"] {
        settled(&case, name, "DFW").await;
    }
    settled(&case, "there", "LHR").await;
    costs_beside_status(&case, "deployment deleted", &[PATCH, REMOVE], case.remove("one")).await;
    let row = [PATCH, REMOVE, "hub: delete propagationpolicies", WIDEN];
    costs_beside_status(&case, "last of its city deleted", &row, async {
        case.remove("two").await;
        case.dfw.namespace_gone(&case.hub_ns).await;
    })
    .await;
    let row = [PATCH, REMOVE, "hub: delete propagationpolicies"];
    costs_beside_status(&case, "last of its namespace deleted", &row, async {
        case.remove("there").await;
        tokio::time::sleep(seconds(LINGER + 1)).await;
    })
    .await;
}

async fn a78_changes_that_carry_nothing(case: Case) {
    settled(&case, "web", "DFW").await;
    case.dfw.run(&case.hub_ns, "web", 0).await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    costs(&case, "changes that carry nothing", &[], async {
        let noise = json!({"metadata": {"annotations": {"note": "x"}, "labels": {"note": "x"}}});
        case.merge(&DEPLOYMENT, "web", noise.clone()).await;
        case.hub
            .merge(&DEPLOYMENT, &case.hub_ns, "web", noise.clone())
            .await;
        case.hub.merge(&NAMESPACE, "", &case.hub_ns, noise.clone()).await;
        case.hub
            .merge(&POLICY, &case.hub_ns, "city-dfw", noise.clone())
            .await;
        case.merge(&INSTANCE, "web-0", noise.clone()).await;
        case.project.merge(&NAMESPACE, "", &case.ns, noise).await;
    })
    .await;
    // Each object of ours, deleted or edited by hand, costs one request.
    costs(&case, "copy edited by hand", &[APPLY], async {
        case.hub
            .merge(
                &DEPLOYMENT,
                &case.hub_ns,
                "web",
                json!({"spec": {"scaleSettings": {"minReplicas": 9}}}),
            )
            .await;
        case.copy_sees("web", "is restored", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == 1
        })
        .await;
    })
    .await;
}
