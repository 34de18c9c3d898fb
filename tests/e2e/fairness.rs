//! One tenant's many changes beside what another one does.

use crate::support::{
    Case,
    audit::{Entry, GATEWAY},
    deployment, hub_namespace,
    kinds::{DEPLOYMENT, NAMESPACE},
    lone_trials, seconds,
};
use fedgate_api::keys;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, interval, sleep};

lone_trials![a_tenant_that_changes_all_the_time_delays_no_other];

const DEPLOYMENTS: usize = 300;
/// Requests that the restless tenant has under way at once.
const AT_ONCE: usize = 16;
/// What the other tenant makes meanwhile.
const FRESH: usize = 5;
/// Karmada as it is delivered takes five or six deployments a second.
const DELIVERED: Duration = seconds(240);
/// Writes for the restless tenant between the creation of another's deployment and that of its copy: those under way, and what
/// its bucket gives until a watch brings the news to a busy machine. Without fairness all that wait would come first.
const BEFORE: usize = 30;
/// `--hub-update-burst` and `--hub-write-rate` by default: changes at once, and a second after that.
const BURST: f64 = 8.0;
const RATE: f64 = 5.0;

fn name(n: usize) -> String {
    format!("restless-{n}")
}

/// Every deployment of the restless tenant is changed once.
async fn change_all(case: &Case, suspended: bool) {
    let value = if suspended { json!("true") } else { Value::Null };
    let patch = json!({"metadata": {"annotations": {keys::SUSPENDED: value}}});
    stream::iter(0..DEPLOYMENTS)
        .for_each_concurrent(AT_ONCE, |n| {
            let patch = patch.clone();
            async move { drop(case.merge(&DEPLOYMENT, &name(n), patch).await) }
        })
        .await;
}

async fn a_tenant_that_changes_all_the_time_delays_no_other(case: Case) {
    let beta = &case.suite.beta;
    let namespace = json!({"metadata": {"name": case.ns}});
    let hub_ns = hub_namespace(&beta.create(&NAMESPACE, "", namespace).await);
    // Namespace and city of both are delivered before it begins.
    beta.create(&DEPLOYMENT, &case.ns, deployment("first", "DFW"))
        .await;
    case.dfw.deployment(&hub_ns, "first").await;
    let tenant = &case;
    stream::iter(0..DEPLOYMENTS)
        .for_each_concurrent(AT_ONCE, |n| async move {
            tenant.create(&DEPLOYMENT, deployment(&name(n), "DFW")).await;
        })
        .await;
    for n in 0..DEPLOYMENTS {
        case.dfw
            .plane
            .exists(&DEPLOYMENT, &case.hub_ns, &name(n), DELIVERED)
            .await;
    }
    // Statuses of what is new are still on their way.
    case.quiet().await;
    let (hub_mark, beta_mark) = (case.suite.hub_log.mark(), case.suite.beta_log.mark());
    let began = Instant::now();
    let restless = async {
        let mut ticks = interval(seconds(1));
        for round in 0_u64.. {
            ticks.tick().await;
            change_all(&case, round.is_multiple_of(2)).await;
        }
    };
    let another = async {
        sleep(seconds(5)).await;
        let mut took = Vec::new();
        for n in 0..FRESH {
            let fresh = format!("fresh-{n}");
            let began = Instant::now();
            beta.create(&DEPLOYMENT, &case.ns, deployment(&fresh, "DFW"))
                .await;
            case.dfw.deployment(&hub_ns, &fresh).await;
            took.push(began.elapsed());
            sleep(seconds(2)).await;
        }
        took
    };
    let took = tokio::select! {
        took = another => took,
        () = restless => panic!("it never rests"),
    };
    println!("create in one project → at the cell, beside {DEPLOYMENTS} that change every second: {took:?}");
    let written = case.suite.hub_log.since(hub_mark, GATEWAY);
    let seconds_passed = began.elapsed().as_secs_f64();
    let deployments =
        |e: &&Entry| e.is_write() && e.succeeded() && e.object_ref.resource == "workloaddeployments";
    let spec = |e: &&Entry| deployments(e) && e.object_ref.subresource.is_empty();
    let of_restless: Vec<&Entry> = written
        .iter()
        .filter(|e| spec(e) && e.object_ref.namespace == case.hub_ns)
        .collect();
    let most = BURST + RATE * seconds_passed;
    assert!(
        !of_restless.is_empty() && f64::from(u32::try_from(of_restless.len()).unwrap()) <= most + 1.0,
        "{} writes for the restless tenant in {seconds_passed:.1} s",
        of_restless.len()
    );
    let created = case.suite.beta_log.since(beta_mark, "fresh-");
    for n in 0..FRESH {
        let fresh = format!("fresh-{n}");
        let first = |entries: &[Entry], namespace: &str| {
            let mut of = entries.iter().filter(spec);
            let found = of.find(|e| e.object_ref.name == fresh && e.object_ref.namespace == namespace);
            found.map_or_else(
                || panic!("no request created {fresh}"),
                |e| e.request_received_timestamp.clone(),
            )
        };
        let (asked, copied) = (first(&created, &case.ns), first(&written, &hub_ns));
        let before = of_restless
            .iter()
            .filter(|e| asked < e.request_received_timestamp && e.request_received_timestamp < copied);
        let before = before.count();
        println!("{fresh}: {before} writes for the restless tenant came before its copy");
        assert!(
            before <= BEFORE,
            "{fresh}: {before} writes for the restless tenant came first"
        );
    }
    change_all(&case, true).await;
    let suspended = |o: &Value| o["metadata"]["annotations"][keys::SUSPENDED] == "true";
    for n in 0..DEPLOYMENTS {
        let what = "has the last value";
        case.hub
            .sees(&DEPLOYMENT, &case.hub_ns, &name(n), what, DELIVERED, suspended)
            .await;
    }
    beta.delete(&NAMESPACE, "", &case.ns).await;
    beta.gone(&NAMESPACE, "", &case.ns, seconds(90)).await;
}
