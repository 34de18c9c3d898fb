//! 24–30: what the cells report, in the project.

use crate::support::{
    Case, Cell, annotation,
    cell::{running, said},
    condition, deployment_with_data,
    kinds::{BINDING, CLUSTER, DEPLOYMENT, INSTANCE, Kind},
    lone_trials,
    plane::BY_EVENT,
    seconds, trials, uid, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

trials![
    #[core]
    a24_counters_return,
    #[core]
    a25_generation_follows_the_cell,
    #[core]
    a26_own_conditions_survive,
    #[core]
    a30_zero_counters_are_written,
];

lone_trials![a27_withdrawn_cell, a28_two_cells_in_a_city, a29_status_storm];

async fn a24_counters_return(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.report(&case.hub_ns, "web", 0, 1).await;
    let reported = |o: &Value| o["status"]["replicas"] == 1 && o["status"]["desiredReplicas"] == 1;
    case.copy_sees("web", "has the cell's counters", reported).await;
    let there = case
        .project_sees("web", "has the cell's counters", reported)
        .await;
    assert_eq!(
        condition(&there, "Available").map(|c| &c["reason"]),
        Some(&json!("InstancesProvisioning"))
    );
    assert_eq!(there["status"]["location"]["name"], "dfw-1-a");
    case.condition("web", "Federated", "True", "Delivered").await;
}

async fn a25_generation_follows_the_cell(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    let observed = |o: &Value| condition(o, "Available").and_then(|c| c["observedGeneration"].as_i64());
    case.project_sees("web", "shows generation 1", |o| observed(o) == Some(1))
        .await;
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"spec": {"scaleSettings": {"minReplicas": 2}}}),
    )
    .await;
    let spec = |o: &Value| o["spec"]["scaleSettings"]["minReplicas"] == 2;
    let at_cell = case.dfw.sees(&case.hub_ns, "web", "has the new spec", spec).await;
    // The cell says something, though not yet about the new spec.
    let mut stale = at_cell["status"].clone();
    stale["readyReplicas"] = json!(0);
    case.dfw
        .plane
        .merge_status(&DEPLOYMENT, &case.hub_ns, "web", stale)
        .await;
    let now = case
        .project_sees("web", "has the new counter", |o| {
            o["status"]["readyReplicas"] == 0
        })
        .await;
    assert_eq!(observed(&now), Some(1), "the cell has not acted on generation 2");
    case.dfw.report(&case.hub_ns, "web", 2, 2).await;
    case.project_sees("web", "shows generation 2", |o| {
        observed(o) == Some(2) && o["status"]["observedGeneration"] == 2 && o["status"]["readyReplicas"] == 2
    })
    .await;
}

async fn a26_own_conditions_survive(case: Case) {
    case.config_map("settings", &json!({"a": "1"})).await;
    case.create(
        &DEPLOYMENT,
        deployment_with_data("web", "DFW", Some("settings"), None, &[]),
    )
    .await;
    case.copy("web").await;
    case.condition("web", "ReferencedDataReady", "True", "Ready")
        .await;
    for ready in [0, 1, 0, 1] {
        case.dfw.report(&case.hub_ns, "web", ready, 1).await;
        let there = case
            .project_sees("web", "has the new counter", |o| {
                o["status"]["readyReplicas"] == ready
            })
            .await;
        assert_eq!(
            condition(&there, "ReferencedDataReady").map(|c| &c["status"]),
            Some(&json!("True"))
        );
    }
    // A cell that claims our types is not believed.
    let forged = json!({"conditions": [
        said("Available", "True", "StableInstanceFound", Some(1)),
        said("ReferencedDataReady", "False", "SourceNotFound", Some(1)),
        said("Federated", "False", "HubRefused", Some(1)),
    ], "readyReplicas": 7});
    case.dfw
        .plane
        .merge_status(&DEPLOYMENT, &case.hub_ns, "web", forged)
        .await;
    let there = case
        .project_sees("web", "has the new counter", |o| {
            o["status"]["readyReplicas"] == 7
        })
        .await;
    assert_eq!(
        condition(&there, "ReferencedDataReady").map(|c| &c["reason"]),
        Some(&json!("Ready"))
    );
    assert_eq!(
        condition(&there, "Federated").map(|c| &c["reason"]),
        Some(&json!("Delivered"))
    );
}

async fn a30_zero_counters_are_written(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    case.project_sees("web", "has a counter", |o| o["status"]["readyReplicas"] == 1)
        .await;
    case.dfw.report(&case.hub_ns, "web", 0, 0).await;
    case.project_sees("web", "has every counter at 0", |o| {
        [
            "replicas",
            "currentReplicas",
            "desiredReplicas",
            "readyReplicas",
            "updatedReplicas",
        ]
        .iter()
        .all(|counter| o["status"][counter] == 0)
    })
    .await;
}

pub(crate) fn in_city(code: &str) -> Value {
    json!({"metadata": {"labels": {keys::CITY_CODE: code}}})
}

pub(crate) async fn lhr_serves_its_city(case: &Case) {
    case.hub
        .merge(&CLUSTER, "", &case.lhr.name, in_city(&case.lhr.city))
        .await;
}

async fn a27_withdrawn_cell(case: Case) {
    case.deploy("web", "LHR").await;
    case.lhr.report(&case.hub_ns, "web", 1, 1).await;
    case.project_sees("web", "has the cell's counters", |o| {
        o["status"]["readyReplicas"] == 1
    })
    .await;
    case.hub
        .merge(&CLUSTER, "", &case.lhr.name, in_city("ELSEWHERE"))
        .await;
    let withdrawn = case.project_sees("web", "has zero counters and NoCellReporting", |o| {
        o["status"]["readyReplicas"] == 0
            && o["status"]["replicas"] == 0
            && condition(o, "Available").is_some_and(|c| c["reason"] == "NoCellReporting")
    });
    with_cleanup(withdrawn, lhr_serves_its_city(&case)).await;
    case.lhr.deployment(&case.hub_ns, "web").await;
}

/// serving.md §1: one of two cells of a city has the deployment and its status counts. When it goes to the other, that one takes the
/// write-backs over, and the first may make none and take none back.
async fn a28_two_cells_in_a_city(case: Case) {
    let label_cluster = async |cell: &Cell, city: &str| {
        case.hub.merge(&CLUSTER, "", &cell.name, in_city(city)).await;
    };
    label_cluster(&case.lhr, "DFW").await;
    let serving = async {
        case.deploy("web", "DFW").await;
        let of_one = |b: &Value| b["spec"]["clusters"].as_array().is_some_and(|all| all.len() == 1);
        let ns = &case.hub_ns;
        let binding = "web-workloaddeployment";
        let bound = case
            .hub
            .sees(&BINDING, ns, binding, "has one cell", seconds(60), of_one)
            .await;
        let home = bound["spec"]["clusters"][0]["name"].clone();
        let cells = if home == case.dfw.name {
            [&case.dfw, &case.lhr]
        } else {
            [&case.lhr, &case.dfw]
        };
        let [home, other] = cells.map(|cell| Cell {
            city: "DFW".to_owned(),
            ..cell.clone()
        });
        home.report(ns, "web", 1, 2).await;
        case.project_sees("web", "has the cell's counters", |o| {
            o["status"]["replicas"] == 2 && o["status"]["readyReplicas"] == 1
        })
        .await;
        assert_eq!(
            other.plane.get(&DEPLOYMENT, ns, "web").await,
            None,
            "it runs at one cell"
        );
        home.run(ns, "web", 0).await;
        let projected = case
            .project
            .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
            .await;
        let copy = case
            .hub
            .get(&DEPLOYMENT, ns, "web")
            .await
            .expect("the copy is there");
        assert_eq!(
            annotation(&copy, keys::CELL),
            None,
            "a name would tell nothing yet"
        );

        label_cluster(&home, "ELSEWHERE").await;
        let is_named = |o: &Value| annotation(o, keys::CELL) == Some(other.name.as_str());
        case.hub
            .sees(
                &DEPLOYMENT,
                ns,
                "web",
                "names the other cell",
                seconds(60),
                is_named,
            )
            .await;
        other.report(ns, "web", 1, 1).await;
        let taken = other.instance(ns, "web", 0).await;
        let taken = other.written_back(&taken).await;
        let by = |cell: &Cell| json!({"metadata": {"labels": {keys::CELL: cell.name}}});
        case.hub.merge(&CLUSTER, "", &home.name, in_city("DFW")).await;
        // Until it is taken over, the write-back is its writer's.
        home.hub.merge_status(&INSTANCE, ns, "web-0", running()).await;
        other.hub.merge(&INSTANCE, ns, "web-0", taken.clone()).await;
        other.hub.merge_status(&INSTANCE, ns, "web-0", running()).await;
        let back = home.hub.try_merge(&INSTANCE, ns, "web-0", &by(&home)).await;
        assert!(back.is_err(), "the former cell took the write-back back");
        let mut more = taken.clone();
        more["metadata"]["name"] = json!("web-1");
        more["metadata"]["labels"][keys::CELL] = json!(home.name);
        let more = home.hub.try_create(&INSTANCE, ns, more).await;
        let refusal = more.expect_err("the former cell made another one").to_string();
        assert!(
            refusal.contains(&format!("runs at cell {}", other.name)),
            "{refusal}"
        );
        let is_ready = |o: &Value| condition(o, "Ready").is_some_and(|c| c["status"] == "True");
        let ready = case
            .project
            .sees(&INSTANCE, &case.ns, "web-0", "is Ready", seconds(30), is_ready)
            .await;
        assert_eq!(uid(&ready), uid(&projected), "the project's Instance stays");
        case.remove("web").await;
    };
    let restored = async {
        label_cluster(&case.dfw, "DFW").await;
        lhr_serves_its_city(&case).await;
    };
    with_cleanup(serving, restored).await;
}

/// Writes the status of a copy for five seconds as fast as the hub takes it, and then a last value that the project is to
/// have without a further event, with no more writes in between than may be: three at once, and four a second. Karmada itself would
/// already thin the storm out, so it is written to the copy.
pub(crate) async fn storm(case: &Case, kind: &Kind, name: &str, field: &str, status: Value) {
    const TIME: Duration = Duration::from_secs(5);
    /// Five times what may be written: a weaker storm would prove nothing. One object of a real API server takes some
    /// tens of writes a second on a busy machine.
    const WORTH_THE_NAME: f64 = 20.0;
    const LAST: u32 = 424_242;
    let write = async |number: u32| {
        let mut status = status.clone();
        status[field] = json!(number);
        case.hub.merge_status(kind, &case.hub_ns, name, status).await;
    };
    // Longer than what is said of a delivery takes.
    case.quiet_for(seconds(7)).await;
    let count = case.count();
    let (began, mut sent) = (Instant::now(), 0_u32);
    // Several senders would only make the server try again.
    while began.elapsed() < TIME {
        sent += 1;
        write(sent).await;
    }
    let rate = f64::from(sent) / began.elapsed().as_secs_f64();
    assert!(
        rate >= WORTH_THE_NAME,
        "inconclusive: the hub took only {rate:.0} status updates a second, and less than {WORTH_THE_NAME} are no storm; \
         run it on an idle machine"
    );
    write(LAST).await;
    let ended = Instant::now();
    case.project
        .sees(kind, &case.ns, name, "has the last value", seconds(60), |o| {
            o["status"][field] == LAST
        })
        .await;
    let (lag, elapsed) = (ended.elapsed(), began.elapsed().as_secs_f64());
    let returned = format!("project: patch {}/status", kind.plural);
    let writes = case.writes(&count);
    let written = writes.iter().filter(|write| **write == returned).count();
    let written = f64::from(u32::try_from(written).unwrap());
    eprintln!("    {rate:.0} status writes a second; {written} in the project; the last after {lag:?}");
    assert!(
        (1.0..=3.0 + 4.0 * elapsed + 1.0).contains(&written),
        "{written} project writes in {elapsed:.1} s; there may be three at once and four a second"
    );
    assert!(lag < BY_EVENT, "the last value took {lag:?}");
}

async fn a29_status_storm(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    let status = json!({"currentReplicas": 0, "desiredReplicas": 1, "readyReplicas": 0,
        "conditions": [said("Available", "False", "InstancesProvisioning", None)]});
    storm(&case, &DEPLOYMENT, "web", "replicas", status).await;
}
