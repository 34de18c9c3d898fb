//! 76, 77, 79–81, 83: nothing is written that need not be, and what fails does no harm.

use crate::{
    adopted,
    budget::settled,
    platform,
    support::{
        Case,
        audit::GATEWAY,
        credentials, deployment, deployment_with_data,
        gateway::{LINGER, ORPHAN, SELDOM, SWEEP},
        kinds::{CONFIG_MAP, DEPLOYMENT, INSTANCE, INTERPRETER, LEASE, NAMESPACE, POLICY},
        lone_trials, rest_seconds, seconds,
        suite::{ALPHA_KEY, BETA_KEY, SYSTEM},
        uid, wait_for, with_cleanup,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![
    a83_two_replicas,
    a81_interpreter_disturbed,
    a76_restart_writes_nothing,
    a77_rest_with_forced_relists,
    a79_hub_down,
    a80_failing_lists_and_the_brake,
];

/// One of everything, settled, under a gateway that sweeps often: a namespace of the first test that asks, for all.
async fn furnished(case: &Case) -> Case {
    case.suite.gateway.sweep_every(SWEEP).await;
    if let Some(shared) = case.suite.shared().await {
        return case.within(shared);
    }
    case.suite.share(&case.ns, &case.hub_ns).await;
    case.config_map("settings", &json!({"a": "1"})).await;
    case.create(
        &DEPLOYMENT,
        deployment_with_data("web", "DFW", Some("settings"), None, &[]),
    )
    .await;
    case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    case.dfw.run(&case.hub_ns, "web", 0).await;
    settled(case, "there", "LHR").await;
    adopted::delivered(case).await;
    platform::offered(case).await;
    case.create(&DEPLOYMENT, deployment("odd", "a b")).await;
    case.condition("odd", "Federated", "False", "InvalidCityCode")
        .await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    case.condition("web", "Federated", "True", "Delivered").await;
    // What former tests left goes as well.
    case.suite.only_live_namespaces().await;
    everywhere_quiet(case).await;
    case.clone()
}

/// Scales the deployment and waits until its copy follows.
async fn follows(case: &Case, name: &str, scale: u32, when: &str) {
    let patch = json!({"spec": {"scaleSettings": {"minReplicas": scale}}});
    case.merge(&DEPLOYMENT, name, patch).await;
    case.copy_sees(name, &format!("follows {when}"), |o| {
        o["spec"]["scaleSettings"]["minReplicas"] == scale
    })
    .await;
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

/// Waits until the gateway has asked for nothing for longer than any of its pauses.
async fn everywhere_quiet(case: &Case) {
    wait_for("the gateway is at rest everywhere", seconds(180), || async {
        let start = marks(case);
        tokio::time::sleep(seconds(SWEEP.max(ORPHAN).max(LINGER) + 2)).await;
        asked(case, start).is_empty().then_some(())
    })
    .await;
}

async fn a76_restart_writes_nothing(case: Case) {
    let case = furnished(&case).await;
    case.suite.gateway.stop().await;
    let start = marks(&case);
    case.suite.gateway.start().await;
    case.suite.gateway.leads().await;
    tokio::time::sleep(seconds(LINGER + SWEEP + 2)).await;
    let asked = asked(&case, start);
    assert!(
        asked.is_empty(),
        "a restart costs lists and watches only, but there were {asked:#?}"
    );
    follows(&case, "web", 2, "after the restart").await;
}

async fn a77_rest_with_forced_relists(case: Case) {
    let case = furnished(&case).await;
    everywhere_quiet(&case).await;
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
    follows(&case, "web", 3, "after the rest").await;
}

async fn a79_hub_down(case: Case) {
    let case = furnished(&case).await;
    let before = case
        .project
        .get(&DEPLOYMENT, &case.ns, "there")
        .await
        .expect("the deployment is there");
    case.suite.stop_plane("hub").await;
    let scaled = json!({"spec": {"scaleSettings": {"minReplicas": 4}}});
    let same = |state: Option<&Value>| {
        state.is_some_and(|o| o["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"])
    };
    let outage = seconds(rest_seconds());
    let held = async {
        case.merge(&DEPLOYMENT, "web", scaled).await;
        case.project
            .holds(&DEPLOYMENT, &case.ns, "there", "is not written to", outage, same)
            .await;
        assert!(
            case.suite.gateway.is_running().await,
            "the gateway lives through the outage"
        );
    };
    with_cleanup(held, case.suite.start_plane("hub")).await;
    let returned = tokio::time::Instant::now();
    case.copy_sees("web", "follows after the outage", |o| {
        o["spec"]["scaleSettings"]["minReplicas"] == 4
    })
    .await;
    assert!(
        returned.elapsed() < seconds(10),
        "converged {:?} after the hub's return",
        returned.elapsed()
    );
    case.condition("web", "Federated", "True", "Delivered").await;
}

async fn a80_failing_lists_and_the_brake(case: Case) {
    let case = furnished(&case).await;
    let gateway = &case.suite.gateway;
    // A plane that answers while one of its lists is refused.
    gateway.stop().await;
    case.suite.revoke_list().await;
    let refused = async {
        gateway.spawn().await;
        gateway.leads().await;
        wait_for("the refusal of the list is shown", seconds(20), || async {
            let watches = gateway.project(ALPHA_KEY).await?["watches"].clone();
            let refused = |watch: &Value| {
                let kind = watch["kind"].as_str().unwrap_or_default();
                let error = watch["error"].as_str().unwrap_or_default();
                kind.starts_with(DEPLOYMENT.plural) && watch["synced"] == false && error.contains("forbidden")
            };
            watches.as_array()?.iter().any(refused).then_some(())
        })
        .await;
        gateway.engaged(BETA_KEY).await;
        nothing_is_deleted(&case).await;
        gateway.stop().await;
    };
    with_cleanup(refused, case.suite.restore_list()).await;
    // A plane that does not answer at all.
    case.suite.stop_plane("alpha").await;
    let silent = async {
        gateway.spawn().await;
        gateway.leads().await;
        nothing_is_deleted(&case).await;
    };
    with_cleanup(silent, case.suite.start_plane("alpha")).await;
    gateway.engaged(ALPHA_KEY).await;
    with_cleanup(brake(&case), async {
        for name in orphans() {
            case.hub.delete(&DEPLOYMENT, &case.hub_ns, &name).await;
        }
    })
    .await;
    wait_for("the brake is off", seconds(30), || async {
        (gateway.metric("fedgate_garbage_brake", &[]).await < 0.5).then_some(())
    })
    .await;
    // From here nobody needs rest: the shared namespace goes while other tests run, and sweeps would help these.
    case.suite.keep_no_longer().await;
    gateway.sweep_every(SELDOM).await;
}

/// Asserts that for as long as garbage takes nothing of the test's namespace goes from hub or project.
async fn nothing_is_deleted(case: &Case) {
    let start = marks(case);
    let time = seconds(ORPHAN + 2 * SWEEP + 2);
    let here = |state: Option<&Value>| state.is_some_and(|o| o["metadata"]["deletionTimestamp"].is_null());
    let (hub, ns) = (&case.hub, case.hub_ns.as_str());
    tokio::join!(
        hub.holds(&DEPLOYMENT, ns, "web", "is untouched", time, here),
        hub.holds(&DEPLOYMENT, ns, "there", "is untouched", time, here),
        hub.holds(&CONFIG_MAP, ns, "settings", "is untouched", time, here),
        hub.holds(&POLICY, ns, "city-dfw", "is untouched", time, here),
        hub.holds(&NAMESPACE, "", ns, "is untouched", time, here),
    );
    let deleted: Vec<String> = asked(case, start)
        .into_iter()
        .filter(|request| request.starts_with("delete"))
        .collect();
    assert!(
        deleted.is_empty(),
        "without proof nothing goes, yet there were {deleted:#?}"
    );
}

/// More copies without an origin than a sweep may delete.
fn orphans() -> impl Iterator<Item = String> {
    (0..14).map(|number| format!("orphan-{number}"))
}

/// Makes the orphans and asserts that none of them goes.
async fn brake(case: &Case) {
    let start = marks(case);
    for (number, name) in orphans().enumerate() {
        let mut orphan = deployment(&name, "DFW");
        orphan["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW", keys::UPSTREAM_NAMESPACE: case.ns});
        orphan["metadata"]["annotations"] = json!({
            keys::SOURCE_UID: format!("00000000-0000-4000-8000-0000000000{number:02}"), keys::SOURCE_GENERATION: "1",
        });
        case.hub.create(&DEPLOYMENT, &case.hub_ns, orphan).await;
    }
    let gateway = &case.suite.gateway;
    wait_for("the brake is on", seconds(SWEEP + ORPHAN + 30), || async {
        (gateway.metric("fedgate_garbage_brake", &[]).await > 0.5).then_some(())
    })
    .await;
    tokio::time::sleep(seconds(2 * SWEEP + 1)).await;
    let left = case.hub.list(&DEPLOYMENT, &case.hub_ns, "").await;
    let orphaned = |o: &&Value| orphans().any(|name| o["metadata"]["name"] == name);
    assert_eq!(
        left.iter().filter(orphaned).count(),
        orphans().count(),
        "a sweep over the brake deletes nothing"
    );
    let deleted: Vec<String> = asked(case, start)
        .into_iter()
        .filter(|request| request.starts_with("delete"))
        .collect();
    assert!(deleted.is_empty(), "nor does it try: there were {deleted:#?}");
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
    let rival = wait_for(
        "Karmada's webhook has seen that ours is away",
        seconds(20),
        || async { case.hub.try_create(&INTERPRETER, "", rival.clone()).await.ok() },
    )
    .await;
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

/// Who holds the gateway's Lease.
async fn holder(case: &Case) -> Value {
    let leases = case.hub.list(&LEASE, SYSTEM, "").await;
    let lease = leases
        .iter()
        .find(|lease| lease["metadata"]["name"] == "fedgate-gateway")
        .expect("a gateway that leads has a Lease");
    lease["spec"]["holderIdentity"].clone()
}

async fn a83_two_replicas(case: Case) {
    let twin = credentials::Twin::new(&case.hub, "default", &format!("twin-{}", case.ns)).await;
    let second = case.suite.second_gateway(&twin).await;
    let mark = case.suite.hub_log.mark();
    let create = async |name: &str| {
        case.create(&DEPLOYMENT, deployment(name, "DFW")).await;
        case.copy(name).await;
    };
    create("first-leads").await;
    second.start().await;
    let held = holder(&case).await;
    create("first-still-leads").await;
    assert_eq!(holder(&case).await, held, "a second replica takes no Lease");
    case.suite.gateway.kill().await;
    let killed = tokio::time::Instant::now();
    create("second-leads").await;
    assert!(
        killed.elapsed() < seconds(30),
        "taken over {:?} after the crash",
        killed.elapsed()
    );
    case.suite.gateway.start().await;
    let held = holder(&case).await;
    create("second-still-leads").await;
    assert_eq!(holder(&case).await, held, "the one that returns takes no Lease");
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
