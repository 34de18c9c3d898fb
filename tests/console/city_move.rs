//! The trace of a deployment that changes its city: each plane is held where it is until the page has shown it.

use super::{
    acts,
    browser::{Browser, VIEWS},
    fleet::Fleet,
    objects,
    planes::{DEPLOYMENTS, GATEWAY, NAMESPACE},
};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};

/// The fifth deployment of [`Fleet::full`], of its second project.
const NAME: &str = "web-4";

/// Waits until a hop is in this state, and shows this and no other figure.
async fn hop(browser: &Browser, city: &str, hop: &str, state: &str, figures: &str) {
    let node = browser
        .wait(&format!(
            "main .hop[data-row='main/{city}/{hop}'][data-state={state}]"
        ))
        .await;
    let shown = node.text().await.unwrap();
    assert!(shown.contains(figures), "{city} {hop}: {shown}, not {figures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_city_move_shows_wanted_and_present_generation_at_each_hop() {
    let fleet = Fleet::full("city-move").await;
    let (hub, project) = (&fleet.planes.hub, &fleet.planes.projects[1]);
    let mut cluster = objects::cluster();
    cluster["apiVersion"] = json!("cluster.karmada.io/v1alpha1");
    cluster["kind"] = json!("Cluster");
    cluster["metadata"]["name"] = json!("lhr-1");
    cluster["metadata"]["labels"] = json!({keys::CITY_CODE: "LHR"});
    hub.create(cluster).unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady",
        "lastTransitionTime": "2026-05-04T10:00:00Z"}]}});
    hub.merge_status("clusters", "", "lhr-1", ready).unwrap();
    let copies = hub.list(DEPLOYMENTS);
    let copy = copies
        .iter()
        .find(|copy| acts::text(copy, "name") == NAME)
        .unwrap();
    let namespace = acts::text(copy, "namespace");
    let report = |generation: i64| {
        let mut report = objects::report(1);
        report["observedGeneration"] = json!(generation);
        report["conditions"][0]["observedGeneration"] = json!(generation);
        hub.merge_status(DEPLOYMENTS, namespace, NAME, json!({"status": report}))
            .unwrap();
    };
    report(1);
    let browser = Browser::start().await;
    let address = VIEWS[3].1.replace("p-00000", "p-00001").replace("web-0", NAME);
    browser.open(&fleet.url(), &address).await;
    for at in ["project", "hub", "cell"] {
        hop(&browser, "DFW", at, "ok", "gen 1").await;
    }

    // The write to the hub hangs.
    let hangs = Rule::new(When::Always, Fault::Hang).plane("hub").user(GATEWAY);
    let hangs = hangs.verb(Verb::Patch).kind(DEPLOYMENTS);
    let hangs = fleet.planes.simulator.faults().add(hangs);
    project
        .merge(DEPLOYMENTS, NAMESPACE, NAME, json!({"spec": {"cityCode": "LHR"}}))
        .unwrap();
    hop(&browser, "LHR", "project", "ok", "gen 2").await;
    hop(&browser, "LHR", "hub", "waiting", "gen 1 wants 2").await;
    hop(&browser, "LHR", "cell", "waiting", "gen 1 wants 2").await;
    browser.gone("main .hop[data-row^='main/DFW/']").await;
    let verdict = browser.wait("main .verdict [data-state=moving]").await;
    assert!(verdict.text().await.unwrap().starts_with("Moving"));

    // The copy is there. Karmada has taken it from the old cell, and no new one has it.
    let bound = objects::binding_name(NAME);
    let schedule = |clusters: Value, scheduled: &str, status: Value| {
        hub.merge(
            "resourcebindings",
            namespace,
            &bound,
            json!({"spec": {"clusters": clusters}}),
        )
        .unwrap();
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": "Moved", "message": "moved",
                "lastTransitionTime": "2026-05-04T10:00:00Z"})
        };
        let status = json!({"status": {"aggregatedStatus": status,
            "conditions": [condition("Scheduled", scheduled), condition("FullyApplied", scheduled)]}});
        hub.merge_status("resourcebindings", namespace, &bound, status)
            .unwrap();
    };
    schedule(json!([]), "False", json!([]));
    fleet.planes.simulator.faults().remove(hangs);
    hop(&browser, "LHR", "hub", "ok", "gen 2").await;
    hop(&browser, "LHR", "binding", "waiting", "waiting").await;
    hop(&browser, "LHR", "cell", "waiting", "gen 1 wants 2").await;

    // The new cell has it, and has not reported.
    let applied = json!([{"clusterName": "lhr-1", "applied": true, "health": "Healthy"}]);
    schedule(json!([{"name": "lhr-1"}]), "True", applied);
    hop(&browser, "LHR", "binding", "ok", "ok").await;
    hop(&browser, "LHR", "cell", "waiting", "gen 1 wants 2").await;
    hop(&browser, "LHR", "cell", "waiting", "lhr-1").await;

    report(2);
    hop(&browser, "LHR", "cell", "ok", "gen 2").await;
    browser.wait("main .verdict [data-state=whole]").await;
    browser.gone("main .hop[data-state=waiting]").await;
    browser.quit().await;
}
