//! 76–81, 83, 84: nothing is written that need not be, and what fails does no harm.

use crate::support::{
    Case, Entry,
    audit::GATEWAY,
    credentials, deployment, deployment_with_data,
    gateway::{LINGER, ORPHAN, SWEEP},
    kinds::{CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, INSTANCE, INTERPRETER, NAMESPACE, POLICY},
    label, lone_trials, seconds, trials, uid, wait_for,
};
use fedgate::api::keys;
use serde_json::{Value, json};

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

lone_trials![
    a76_restart_writes_nothing,
    a77_rest_with_forced_relists,
    a79_hub_down,
    a81_interpreter_disturbed,
    a83_two_replicas,
    a80_failing_lists_and_the_brake,
];

// -- 78: the request budget, row by row -------------------------------------------------------------------------

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
    let gets = case.gets(&count);
    assert!(
        gets.iter()
            .all(|get| get.contains("configmaps") || get.contains("secrets")),
        "{what}: gets {gets:?}"
    );
}

async fn a78_first_of_a_namespace(case: Case) {
    // The set's policy is shared by the whole hub and thus not of this namespace.
    let row = [
        PATCH,
        "hub: create namespaces",
        "hub: create propagationpolicies",
        CREATE,
    ];
    costs(&case, "first of a project namespace", &row, async {
        case.deploy("web", "DFW").await;
        case.dfw.deployment(&case.hub_ns, "web").await;
        // No cell reports: that is what the first returned status says, once.
        case.condition("web", "Available", "False", "NoCellReporting")
            .await;
    })
    .await;
}

/// A deployment at rest, its first status returned.
async fn settled(case: &Case, name: &str, city: &str) {
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
    costs(&case, "spec changed", &[APPLY], async {
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

// -- rest and outages -------------------------------------------------------------------------------------------

/// One of everything, settled.
async fn furnished(case: &Case) {
    case.config_map("settings", &json!({"a": "1"})).await;
    case.create(
        &DEPLOYMENT,
        deployment_with_data("web", "DFW", Some("settings"), None, &[]),
    )
    .await;
    case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    case.dfw.run(&case.hub_ns, "web", 0).await;
    settled(case, "there", "LHR").await;
    case.create(&DEPLOYMENT, deployment("odd", "a b")).await;
    case.condition("odd", "Federated", "False", "InvalidCityCode")
        .await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    case.condition("web", "Federated", "True", "Delivered").await;
    everywhere_quiet(case).await;
}

/// All that the gateway asked of hub and projects since the marks, other than lists and watches.
fn asked(case: &Case, marks: [u64; 3]) -> Vec<String> {
    let suite = &case.suite;
    let logs = [
        (&suite.hub_log, marks[0]),
        (&suite.alpha_log, marks[1]),
        (&suite.beta_log, marks[2]),
    ];
    let entries = logs.into_iter().flat_map(|(log, mark)| log.since(mark, GATEWAY));
    let entries = entries.filter(|e| e.user.username == GATEWAY && (e.is_write() || e.verb == "get"));
    let entries = entries.filter(|e| e.object_ref.resource != "leases" && !e.object_ref.resource.is_empty());
    entries
        .map(|e| format!("{} {}/{}", e.action(), e.object_ref.namespace, e.object_ref.name))
        .collect()
}

fn marks(case: &Case) -> [u64; 3] {
    [
        case.suite.hub_log.mark(),
        case.suite.alpha_log.mark(),
        case.suite.beta_log.mark(),
    ]
}

/// Waits until what former tests left is gone and the gateway has asked for nothing for a while.
async fn everywhere_quiet(case: &Case) {
    wait_for("the gateway is at rest everywhere", seconds(180), || async {
        let start = marks(case);
        tokio::time::sleep(seconds(SWEEP.max(ORPHAN) + 2)).await;
        asked(case, start).is_empty().then_some(())
    })
    .await;
}

async fn a76_restart_writes_nothing(case: Case) {
    furnished(&case).await;
    case.suite.gateway.stop().await;
    let start = marks(&case);
    case.suite.gateway.start().await;
    tokio::time::sleep(seconds(LINGER + SWEEP + 2)).await;
    let asked = asked(&case, start);
    assert!(
        asked.is_empty(),
        "a restart costs lists and watches only, but there were {asked:#?}"
    );
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"spec": {"scaleSettings": {"minReplicas": 2}}}),
    )
    .await;
    case.copy_sees("web", "follows after the restart", |o| {
        o["spec"]["scaleSettings"]["minReplicas"] == 2
    })
    .await;
}

/// Seconds at rest; the contract's ten minutes are `FEDGATE_E2E_REST_SECONDS=600`.
fn rest_seconds() -> u64 {
    std::env::var("FEDGATE_E2E_REST_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20)
}

async fn a77_rest_with_forced_relists(case: Case) {
    furnished(&case).await;
    let start = marks(&case);
    tokio::time::sleep(seconds(rest_seconds() / 2)).await;
    // An API server that starts anew has an empty watch cache: every watch ends, and lists begin again.
    for plane in ["alpha", "hub"] {
        case.suite.stop_plane(plane).await;
        case.suite.start_plane(plane).await;
    }
    tokio::time::sleep(seconds(rest_seconds())).await;
    let asked = asked(&case, start);
    assert!(
        asked.is_empty(),
        "at rest nothing is asked but lists and watches, yet there were {asked:#?}"
    );
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"spec": {"scaleSettings": {"minReplicas": 2}}}),
    )
    .await;
    case.copy_sees("web", "follows after the rest", |o| {
        o["spec"]["scaleSettings"]["minReplicas"] == 2
    })
    .await;
}

async fn a79_hub_down(case: Case) {
    furnished(&case).await;
    let before = case
        .project
        .get(&DEPLOYMENT, &case.ns, "there")
        .await
        .expect("the deployment is there");
    case.suite.stop_plane("hub").await;
    let scaled = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
    case.merge(&DEPLOYMENT, "web", scaled).await;
    let same = |state: Option<&Value>| {
        state.is_some_and(|o| o["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"])
    };
    let outage = seconds(rest_seconds());
    let held = case
        .project
        .holds(&DEPLOYMENT, &case.ns, "there", "is not written to", outage, same);
    let held = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(held)).await;
    let ready = case.suite.gateway.is_running().await;
    case.suite.start_plane("hub").await;
    let returned = tokio::time::Instant::now();
    if let Err(panic) = held {
        std::panic::resume_unwind(panic);
    }
    assert!(ready, "the gateway lives through the outage");
    case.copy_sees("web", "follows after the outage", |o| {
        o["spec"]["scaleSettings"]["minReplicas"] == 2
    })
    .await;
    assert!(
        returned.elapsed() < seconds(10),
        "converged {:?} after the hub's return",
        returned.elapsed()
    );
    let web = case
        .project
        .get(&DEPLOYMENT, &case.ns, "web")
        .await
        .expect("the deployment is there");
    let federated = crate::support::condition(&web, "Federated").map(|c| c["reason"].clone());
    assert_eq!(
        federated,
        Some(json!("Delivered")),
        "an outage changes no condition"
    );
}

async fn a80_failing_lists_and_the_brake(case: Case) {
    furnished(&case).await;
    let copy = case.copy("web").await;
    // A project whose lists fail proves nothing.
    case.suite.gateway.stop().await;
    case.suite.stop_plane("alpha").await;
    case.suite.gateway.spawn().await;
    let same = |state: Option<&Value>| {
        state.is_some_and(|o| uid(o) == uid(&copy) && o["metadata"]["deletionTimestamp"].is_null())
    };
    let time = seconds(SWEEP + ORPHAN + 8);
    let held = case
        .hub
        .holds(&DEPLOYMENT, &case.hub_ns, "web", "is untouched", time, same);
    let held = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(held)).await;
    case.suite.start_plane("alpha").await;
    if let Err(panic) = held {
        std::panic::resume_unwind(panic);
    }
    case.suite.gateway.ready().await;
    everywhere_quiet(&case).await;
    // More orphans at once than a sweep may delete.
    let gateway = &case.suite.gateway;
    for number in 0..14 {
        let mut orphan = deployment(&format!("orphan-{number}"), "DFW");
        orphan["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW", keys::UPSTREAM_NAMESPACE: case.ns});
        orphan["metadata"]["annotations"] = json!({
            keys::SOURCE_UID: format!("00000000-0000-4000-8000-0000000000{number:02}"), keys::SOURCE_GENERATION: "1",
        });
        case.hub.create(&DEPLOYMENT, &case.hub_ns, orphan).await;
    }
    wait_for("the brake is on", seconds(SWEEP + ORPHAN + 30), || async {
        (gateway.metric("fedgate_garbage_brake", &[]).await > 0.5).then_some(())
    })
    .await;
    tokio::time::sleep(seconds(SWEEP + 2)).await;
    let orphans = case.hub.list(&DEPLOYMENT, &case.hub_ns, "").await;
    let left = orphans
        .iter()
        .filter(|o| {
            o["metadata"]["name"]
                .as_str()
                .is_some_and(|n| n.starts_with("orphan-"))
        })
        .count();
    assert_eq!(left, 14, "a sweep over the brake deletes nothing");
    for number in 0..14 {
        case.hub
            .delete(&DEPLOYMENT, &case.hub_ns, &format!("orphan-{number}"))
            .await;
    }
    gateway.restart().await;
    wait_for("the brake is off", seconds(30), || async {
        (gateway.metric("fedgate_garbage_brake", &[]).await < 0.5).then_some(())
    })
    .await;
}

async fn a81_interpreter_disturbed(case: Case) {
    let name = "workloaddeployment";
    let ours = case.hub.exists(&INTERPRETER, "", name, seconds(30)).await;
    case.hub.delete(&INTERPRETER, "", name).await;
    let again = case
        .hub
        .sees(&INTERPRETER, "", name, "is back", seconds(10), |o| {
            uid(o) != uid(&ours) && o["spec"] == ours["spec"]
        })
        .await;
    let edit = json!({"spec": {"customizations": {"healthInterpretation": {"luaScript":
        "function InterpretHealth(observed) return false end"}}}});
    case.hub.merge(&INTERPRETER, "", name, edit).await;
    // A second restoration waits up to a minute after the first.
    case.hub
        .sees(&INTERPRETER, "", name, "is restored", seconds(70), |o| {
            o["spec"] == again["spec"]
        })
        .await;
    // A second one for the kind can only come while ours is away: Karmada's webhook refuses it otherwise.
    let gateway = &case.suite.gateway;
    gateway.stop().await;
    case.hub.delete(&INTERPRETER, "", name).await;
    case.hub.gone(&INTERPRETER, "", name, seconds(10)).await;
    let rival = json!({"metadata": {"name": format!("rival-{}", case.ns)}, "spec": {
        "target": ours["spec"]["target"],
        "customizations": {"healthInterpretation": {"luaScript": "function InterpretHealth(observed) return true end"}},
    }});
    let rival = case.hub.create(&INTERPRETER, "", rival).await;
    let rival_name = rival["metadata"]["name"]
        .as_str()
        .expect("a stored object has a name")
        .to_owned();
    let mark = gateway.log_mark();
    gateway.spawn().await;
    wait_for("the rival is reported", seconds(60), || async {
        gateway
            .log_since(mark)
            .into_iter()
            .find(|line| line.contains(&rival_name))
    })
    .await;
    let after = case
        .hub
        .get(&INTERPRETER, "", &rival_name)
        .await
        .expect("it is not touched");
    assert_eq!(
        after["metadata"]["resourceVersion"],
        rival["metadata"]["resourceVersion"]
    );
    case.hub.delete(&INTERPRETER, "", &rival_name).await;
    case.hub
        .sees(&INTERPRETER, "", name, "is there again", seconds(70), |o| {
            o["spec"] == ours["spec"]
        })
        .await;
    gateway.ready().await;
}

async fn a83_two_replicas(case: Case) {
    let twin = credentials::Twin::new(&case.hub, "default", &format!("twin-{}", case.ns)).await;
    let kubeconfig = case.suite.dir.join("twin.yaml");
    let text = credentials::with_token(case.suite.gateway.hub_kubeconfig(), &twin.token().await);
    credentials::replace(&kubeconfig, &text);
    let second = case.suite.second_gateway(kubeconfig);
    let mark = case.suite.hub_log.mark();
    let create = async |name: &str| {
        case.create(&DEPLOYMENT, deployment(name, "DFW")).await;
        case.copy(name).await;
    };
    create("first-leads").await;
    second.spawn().await;
    tokio::time::sleep(seconds(5)).await;
    create("first-still-leads").await;
    case.suite.gateway.kill().await;
    let killed = tokio::time::Instant::now();
    create("second-leads").await;
    assert!(
        killed.elapsed() < seconds(30),
        "taken over {:?} after the crash",
        killed.elapsed()
    );
    case.suite.gateway.spawn().await;
    tokio::time::sleep(seconds(5)).await;
    create("second-still-leads").await;
    second.stop().await;
    let stopped = tokio::time::Instant::now();
    create("first-leads-again").await;
    assert!(
        stopped.elapsed() < seconds(10),
        "taken over {:?} after the hand-over",
        stopped.elapsed()
    );
    case.suite.gateway.ready().await;
    // In the order of the requests the writers change twice, and never take turns.
    let mut requests = case.suite.hub_log.since(mark, "");
    requests.retain(|e| e.is_write() && (e.user.username == GATEWAY || e.user.username == twin.user()));
    requests.sort_by(|a, b| a.request_received_timestamp.cmp(&b.request_received_timestamp));
    let mut writers: Vec<String> = requests.iter().map(|e| e.user.username.clone()).collect();
    writers.dedup();
    assert_eq!(writers, [GATEWAY.to_owned(), twin.user(), GATEWAY.to_owned()]);
    twin.remove().await;
}

// -- 84 ---------------------------------------------------------------------------------------------------------

/// Runs after all others: what the shipped roles did not allow, on any plane, in the whole run.
pub(crate) fn closing_trials() -> Vec<libtest_mimic::Trial> {
    vec![
        crate::support::trial(
            module_path!(),
            "a84_no_request_was_forbidden",
            a84_no_request_was_forbidden,
        ),
        crate::support::trial(
            module_path!(),
            "nothing_is_left_on_the_hub",
            nothing_is_left_on_the_hub,
        ),
    ]
}

async fn a84_no_request_was_forbidden(case: Case) {
    let suite = &case.suite;
    let mut asked = 0;
    let mut forbidden: Vec<String> = Vec::new();
    for (plane, log) in [
        ("hub", &suite.hub_log),
        ("alpha", &suite.alpha_log),
        ("beta", &suite.beta_log),
    ] {
        let entries = log.since(0, GATEWAY);
        let entries: Vec<&Entry> = entries.iter().filter(|e| e.user.username == GATEWAY).collect();
        asked += entries.len();
        forbidden.extend(
            entries
                .iter()
                .filter(|e| e.response_status.code == 403)
                .filter(|e| {
                    !e.response_status
                        .message
                        .contains("because it is being terminated")
                })
                .filter(|e| !e.response_status.message.contains("exceeded quota"))
                .map(|e| {
                    format!(
                        "{plane}: {} {}: {}",
                        e.action(),
                        e.object_ref.name,
                        e.response_status.message
                    )
                }),
        );
    }
    assert!(asked > 100, "the audit logs show the gateway at work");
    forbidden.dedup();
    assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
}

async fn nothing_is_left_on_the_hub(case: Case) {
    let live: Vec<String> = [&case.suite.alpha, &case.suite.beta]
        .map(|plane| plane.name.clone())
        .into();
    assert_eq!(live.len(), 2);
    let what = "every hub namespace without a project namespace is gone";
    wait_for(what, seconds(120), || async {
        let mut tied: Vec<String> = Vec::new();
        for plane in [&case.suite.alpha, &case.suite.beta] {
            tied.extend(
                plane
                    .list(&NAMESPACE, "", "")
                    .await
                    .iter()
                    .map(crate::support::hub_namespace),
            );
        }
        let hub = case.hub.list(&NAMESPACE, "", keys::PROJECT_UID).await;
        hub.iter()
            .all(|ns| tied.iter().any(|name| ns["metadata"]["name"] == *name))
            .then_some(())
    })
    .await;
    wait_for("every city set's policy has a namespace", seconds(60), || async {
        let namespaces = case.hub.list(&NAMESPACE, "", keys::CITIES).await;
        let used: Vec<String> = namespaces
            .iter()
            .filter_map(|ns| label(ns, keys::CITIES))
            .map(fedgate::api::names::city_set_policy)
            .collect();
        let policies = case.hub.list(&CLUSTER_POLICY, "", "").await;
        policies
            .iter()
            .filter_map(|p| p["metadata"]["name"].as_str())
            .filter(|name| name.starts_with("cities-"))
            .all(|name| used.iter().any(|u| u == name))
            .then_some(())
    })
    .await;
}
