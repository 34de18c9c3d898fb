//! 78: the request budget of federation.md §4, row by row, from the API servers' logs.

use crate::support::{
    Case, deployment,
    kinds::{CLUSTER_POLICY, DEPLOYMENT, INSTANCE, NAMESPACE, POLICY},
    label, seconds, trials, uid,
};
use fedgate_api::{keys, names};
use serde_json::{Value, json};
use std::{
    ops::RangeInclusive,
    time::{Duration, Instant},
};

trials![
    a78_by_hand,
    a78_deletions,
    a78_status_and_write_back,
    a78_city_moves,
    a78_known_city_and_spec_change,
    a78_city_sets,
    a78_first_of_a_city,
    a78_first_of_a_namespace,
    a78_changes_that_carry_nothing,
];

/// After this time the gateway says that a copy is not delivered (federation.md §3.1).
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Longer than the gateway waits before it writes what it says of a delivery, or leaves a city.
pub(crate) const REST: Duration = Duration::from_secs(7);

pub(crate) const PATCH: &str = "project: patch workloaddeployments";
const STATUS: &str = "project: patch workloaddeployments/status";
pub(crate) const CREATE: &str = "hub: create workloaddeployments";
pub(crate) const APPLY: &str = "hub: patch workloaddeployments";
pub(crate) const REMOVE: &str = "hub: delete workloaddeployments";
const CREATE_NAMESPACE: &str = "hub: create namespaces";
const PATCH_NAMESPACE: &str = "hub: patch namespaces";
const CREATE_POLICY: &str = "hub: create propagationpolicies";
const PATCH_POLICY: &str = "hub: patch propagationpolicies";
const REMOVE_POLICY: &str = "hub: delete propagationpolicies";
const PROJECT: &str = "project: create instances";
const PATCH_PROJECTION: &str = "project: patch instances";
const INSTANCE_STATUS: &str = "project: patch instances/status";
const WITHDRAW: &str = "project: delete instances";

/// How often a deployment's status may return beside a row.
pub(crate) const NEVER: RangeInclusive<usize> = 0..=0;
pub(crate) const ONCE: RangeInclusive<usize> = 1..=1;
pub(crate) const AT_MOST_ONCE: RangeInclusive<usize> = 0..=1;

/// Runs one action on a gateway at rest and compares its requests, until it is at rest again, with the budget's row.
pub(crate) async fn costs<F: Future<Output = ()>>(
    case: &Case,
    what: &str,
    row: &[&str],
    returns: RangeInclusive<usize>,
    action: F,
) {
    let count = case.count();
    let began = Instant::now();
    action.await;
    // A status that says `Propagating` comes besides where Karmada has not delivered in time.
    let is_late = *returns.end() > 0 && began.elapsed() >= GRACE_PERIOD;
    let returns = *returns.start()..=returns.end() + usize::from(is_late);
    case.quiet_for(REST).await;
    // A read may have come in at this very moment: its write is awaited, if there is one.
    if !case.idle_reads(&count).is_empty() {
        case.quiet().await;
    }
    let all = case.writes(&count);
    let (statuses, writes): (Vec<&str>, Vec<&str>) =
        all.iter().map(String::as_str).partition(|write| *write == STATUS);
    let mut row = row.to_vec();
    row.sort_unstable();
    assert_eq!(writes, row, "{what}");
    assert!(
        returns.contains(&statuses.len()),
        "{what}: the status returned {} times and may {returns:?}",
        statuses.len()
    );
    // Reads are watches. A body is read again for a write that follows from it; what writes nothing reads nothing.
    assert_eq!(
        case.idle_reads(&count),
        [""; 0],
        "{what}: reads that no write follows from"
    );
    let gets = case.gets(&count);
    assert!(gets <= all.len(), "{what}: {gets} bodies were read for {all:?}");
}

/// A deployment whose first status has returned.
pub(crate) async fn settled(case: &Case, name: &str, city: &str) {
    case.create(&DEPLOYMENT, deployment(name, city)).await;
    reported(case, name, city).await;
}

/// Waits until the report of the city's cell has returned.
pub(crate) async fn reported(case: &Case, name: &str, city: &str) {
    let cell = if city == "DFW" { &case.dfw } else { &case.lhr };
    let report = cell.report(&case.hub_ns, name, 1, 1).await;
    let said = &report["status"]["location"];
    case.project_sees(name, "has the cell's counters", |o| {
        o["status"]["readyReplicas"] == 1 && o["status"]["location"] == *said
    })
    .await;
    case.condition(name, "Federated", "True", "Delivered").await;
}

fn scale(replicas: u32) -> Value {
    json!({"spec": {"scaleSettings": {"minReplicas": replicas}}})
}

async fn a78_first_of_a_namespace(case: Case) {
    // The set's policy is shared by the whole hub and thus not of this namespace: see the city sets.
    let row = [PATCH, CREATE_NAMESPACE, CREATE_POLICY, CREATE];
    costs(&case, "first of a project namespace", &row, ONCE, async {
        case.deploy("web", "DFW").await;
        case.dfw.deployment(&case.hub_ns, "web").await;
        // No cell reports: that is what the first returned status says, once.
        case.condition("web", "Available", "False", "NoCellReporting")
            .await;
    })
    .await;
}

async fn a78_first_of_a_city(case: Case) {
    settled(&case, "here", "DFW").await;
    case.quiet_for(REST).await;
    let row = [PATCH, PATCH_NAMESPACE, CREATE_POLICY, CREATE];
    costs(
        &case,
        "first of a city",
        &row,
        ONCE,
        settled(&case, "there", "LHR"),
    )
    .await;
}

async fn a78_city_sets(case: Case) {
    let city = case.unready_city().await;
    let code = names::CityCode::parse(&city).unwrap();
    let policy = names::city_set_policy(&names::city_set(&[code].into()).unwrap());
    let count = case.count();
    let row = [PATCH, CREATE_NAMESPACE, CREATE_POLICY, CREATE];
    costs(&case, "first use of a city set", &row, ONCE, async {
        case.deploy("web", &city).await;
        case.condition("web", "Federated", "False", "NoCellForCity").await;
    })
    .await;
    assert_eq!(
        case.city_set_writes(&count, &policy),
        ["create clusterpropagationpolicies"]
    );
    let ours = case.hub.exists(&CLUSTER_POLICY, "", &policy, seconds(5)).await;
    let count = case.count();
    costs(&case, "city set's policy deleted by hand", &[], NEVER, async {
        case.hub.delete(&CLUSTER_POLICY, "", &policy).await;
        let again = |o: &Value| uid(o) != uid(&ours) && o["spec"] == ours["spec"];
        case.hub
            .sees(&CLUSTER_POLICY, "", &policy, "is back", seconds(30), again)
            .await;
    })
    .await;
    assert_eq!(
        case.city_set_writes(&count, &policy),
        ["create clusterpropagationpolicies"]
    );
    let count = case.count();
    costs(&case, "city set's policy edited by hand", &[], NEVER, async {
        let edit = json!({"spec": {"placement": {"clusterAffinity": {"labelSelector": null}}}});
        case.hub.merge(&CLUSTER_POLICY, "", &policy, edit).await;
        case.hub
            .sees(&CLUSTER_POLICY, "", &policy, "is restored", seconds(30), |o| {
                o["spec"] == ours["spec"]
            })
            .await;
    })
    .await;
    assert_eq!(
        case.city_set_writes(&count, &policy),
        ["patch clusterpropagationpolicies"]
    );
}

async fn a78_known_city_and_spec_change(case: Case) {
    settled(&case, "one", "DFW").await;
    case.quiet_for(REST).await;
    costs(
        &case,
        "city known",
        &[PATCH, CREATE],
        ONCE,
        settled(&case, "two", "DFW"),
    )
    .await;
    // Beside the apply, one return of status: the cell says that it acted.
    costs(&case, "spec changed", &[APPLY], ONCE, async {
        case.merge(&DEPLOYMENT, "one", scale(2)).await;
        case.dfw
            .sees(&case.hub_ns, "one", "has the new scale", |o| {
                o["spec"]["scaleSettings"]["minReplicas"] == 2
            })
            .await;
        case.dfw.report(&case.hub_ns, "one", 1, 1).await;
    })
    .await;
    costs(&case, "carried annotation changed", &[APPLY], NEVER, async {
        let suspended = json!({"metadata": {"annotations": {keys::SUSPENDED: "true"}}});
        case.merge(&DEPLOYMENT, "two", suspended).await;
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
    case.quiet_for(REST).await;
    let to = |city: &str| json!({"spec": {"cityCode": city}});
    let row = [APPLY, PATCH_NAMESPACE, CREATE_POLICY];
    // The status returns as the left cell withdraws it: nobody reports.
    costs(&case, "move to a new city", &row, ONCE, async {
        case.merge(&DEPLOYMENT, "one", to("LHR")).await;
        case.lhr.deployment(&case.hub_ns, "one").await;
        case.dfw.gone(&case.hub_ns, "one").await;
        case.condition("one", "Available", "False", "NoCellReporting")
            .await;
    })
    .await;
    let row = [APPLY, REMOVE_POLICY, PATCH_NAMESPACE];
    let what = "move to a known city, leaving the old one empty";
    costs(&case, what, &row, ONCE, async {
        case.merge(&DEPLOYMENT, "two", to("LHR")).await;
        case.lhr.deployment(&case.hub_ns, "two").await;
        case.condition("two", "Available", "False", "NoCellReporting")
            .await;
        case.dfw.namespace_gone(&case.hub_ns).await;
    })
    .await;
}

async fn a78_status_and_write_back(case: Case) {
    settled(&case, "web", "DFW").await;
    let instance = case.dfw.instance(&case.hub_ns, "web", 0).await;
    case.quiet_for(REST).await;
    costs(&case, "copy's status changed", &[], ONCE, async {
        case.dfw.report(&case.hub_ns, "web", 0, 1).await;
        case.project_sees("web", "has the new counter", |o| {
            o["status"]["readyReplicas"] == 0
        })
        .await;
    })
    .await;
    let appears = [PROJECT, INSTANCE_STATUS];
    costs(&case, "write-back appears", &appears, NEVER, async {
        case.dfw.write_back(&instance).await;
        case.project
            .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
            .await;
    })
    .await;
    let what = "status of a write-back changes";
    costs(&case, what, &[INSTANCE_STATUS], NEVER, async {
        let running = crate::support::cell::running();
        case.dfw
            .hub
            .merge_status(&INSTANCE, &case.hub_ns, "web-0", running)
            .await;
    })
    .await;
    costs(&case, "projection deleted by hand", &appears, NEVER, async {
        let ours = case
            .project
            .exists(&INSTANCE, &case.ns, "web-0", seconds(5))
            .await;
        case.delete(&INSTANCE, "web-0").await;
        case.project
            .sees(&INSTANCE, &case.ns, "web-0", "is back", seconds(30), |o| {
                uid(o) != uid(&ours)
            })
            .await;
    })
    .await;
    let what = "projection edited by hand";
    costs(&case, what, &[PATCH_PROJECTION], NEVER, async {
        let edit = json!({"metadata": {"labels": {keys::INSTANCE_INDEX: "7"}}});
        case.merge(&INSTANCE, "web-0", edit).await;
        case.project
            .sees(&INSTANCE, &case.ns, "web-0", "is restored", seconds(30), |o| {
                label(o, keys::INSTANCE_INDEX) == Some("0")
            })
            .await;
    })
    .await;
    costs(&case, "write-back goes", &[WITHDRAW], NEVER, async {
        case.dfw.hub.delete(&INSTANCE, &case.hub_ns, "web-0").await;
        case.project.gone(&INSTANCE, &case.ns, "web-0", seconds(30)).await;
    })
    .await;
}

async fn a78_deletions(case: Case) {
    for name in ["one", "two"] {
        settled(&case, name, "DFW").await;
    }
    settled(&case, "there", "LHR").await;
    case.quiet_for(REST).await;
    costs(
        &case,
        "deployment deleted",
        &[PATCH, REMOVE],
        NEVER,
        case.remove("one"),
    )
    .await;
    let row = [PATCH, REMOVE, REMOVE_POLICY, PATCH_NAMESPACE];
    costs(&case, "last of its city deleted", &row, NEVER, async {
        case.remove("two").await;
        case.dfw.namespace_gone(&case.hub_ns).await;
    })
    .await;
    // The rest outlasts the linger, after which a city that is not the last would leave its set.
    let row = [PATCH, REMOVE, REMOVE_POLICY];
    costs(
        &case,
        "last of its namespace deleted",
        &row,
        NEVER,
        case.remove("there"),
    )
    .await;
}

async fn a78_changes_that_carry_nothing(case: Case) {
    settled(&case, "web", "DFW").await;
    case.dfw.run(&case.hub_ns, "web", 0).await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    case.quiet_for(REST).await;
    costs(&case, "changes that carry nothing", &[], NEVER, async {
        let noise = json!({"metadata": {"annotations": {"note": "x"}, "labels": {"note": "x"}}});
        let (hub, ns) = (&case.hub, case.hub_ns.as_str());
        case.merge(&DEPLOYMENT, "web", noise.clone()).await;
        hub.merge(&DEPLOYMENT, ns, "web", noise.clone()).await;
        hub.merge(&NAMESPACE, "", ns, noise.clone()).await;
        hub.merge(&POLICY, ns, "city-dfw", noise.clone()).await;
        hub.merge(&INSTANCE, ns, "web-0", noise.clone()).await;
        case.merge(&INSTANCE, "web-0", noise.clone()).await;
        case.project.merge(&NAMESPACE, "", &case.ns, noise).await;
    })
    .await;
}

/// Each object of ours on the hub, deleted or edited by hand, costs one request.
async fn a78_by_hand(case: Case) {
    settled(&case, "web", "DFW").await;
    case.quiet_for(REST).await;
    let (hub, ns) = (&case.hub, case.hub_ns.as_str());
    costs(&case, "copy edited by hand", &[APPLY], NEVER, async {
        hub.merge(&DEPLOYMENT, ns, "web", scale(9)).await;
        case.copy_sees("web", "is restored", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == 1
        })
        .await;
    })
    .await;
    costs(&case, "policy edited by hand", &[PATCH_POLICY], NEVER, async {
        let edit = json!({"spec": {"propagateDeps": false}});
        hub.merge(&POLICY, ns, "city-dfw", edit).await;
        hub.sees(&POLICY, ns, "city-dfw", "is restored", seconds(30), |o| {
            o["spec"]["propagateDeps"] == true
        })
        .await;
    })
    .await;
    let what = "policy deleted by hand";
    costs(&case, what, &[CREATE_POLICY], NEVER, async {
        let ours = hub.exists(&POLICY, ns, "city-dfw", seconds(5)).await;
        hub.delete(&POLICY, ns, "city-dfw").await;
        hub.sees(&POLICY, ns, "city-dfw", "is back", seconds(30), |o| {
            uid(o) != uid(&ours)
        })
        .await;
    })
    .await;
    let what = "Namespace edited by hand";
    costs(&case, what, &[PATCH_NAMESPACE], NEVER, async {
        let edit = json!({"metadata": {"labels": {keys::UPSTREAM_NAMESPACE: "forged"}}});
        hub.merge(&NAMESPACE, "", ns, edit).await;
        hub.sees(&NAMESPACE, "", ns, "is restored", seconds(30), |o| {
            label(o, keys::UPSTREAM_NAMESPACE) == Some(&case.ns)
        })
        .await;
    })
    .await;
    // With the copy goes its status. Whether the cell's is back before the gateway has looked is Karmada's to say.
    costs(&case, "copy deleted by hand", &[CREATE], AT_MOST_ONCE, async {
        let ours = case.copy("web").await;
        hub.delete(&DEPLOYMENT, ns, "web").await;
        case.copy_sees("web", "is back", |o| uid(o) != uid(&ours)).await;
    })
    .await;
    // Three objects go here. Each state on the way is returned at most once: the Namespace is terminating; after 5 s each,
    // the copy is not delivered, and no cell reports; the cell's report.
    let row = [CREATE_NAMESPACE, CREATE_POLICY, CREATE];
    costs(&case, "Namespace deleted by hand", &row, 0..=4, async {
        let ours = hub.exists(&NAMESPACE, "", ns, seconds(5)).await;
        let copy = case.copy("web").await;
        hub.delete(&NAMESPACE, "", ns).await;
        hub.sees(&NAMESPACE, "", ns, "is back", seconds(120), |o| {
            uid(o) != uid(&ours)
        })
        .await;
        case.copy_sees("web", "is back", |o| uid(o) != uid(&copy)).await;
    })
    .await;
}
