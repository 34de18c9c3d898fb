//! A Project that is deleted, made again under its name, and suspended.

use crate::support::{
    Case,
    kinds::{DEPLOYMENT, EVENT, NAMESPACE},
    lone_trials, seconds,
    suite::{LATE, PROJECT},
    uid, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![
    #[core]
    a67_a_suspended_project_is_not_written_to,
    a70_of_a_project_that_was_deleted_meanwhile_nothing_is_left_once_it_is_confirmed,
    a71_a_project_made_again_adopts_nothing,
    a_project_that_is_not_purged_by_force_ends,
];

/// Its deployments are suspended on the hub; what its cells say meanwhile reaches it once it is resumed.
async fn a67_a_suspended_project_is_not_written_to(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite.gateway.engaged(LATE).await;
    let (hub_ns, beside) = (case.namespace(LATE).await, case.namespace("alpha").await);
    case.deploy(LATE, "web").await;
    case.lives(LATE, &case.ns, &hub_ns, "web").await;
    let plane = suite.project(LATE);
    let before = plane
        .get(&DEPLOYMENT, &case.ns, "web")
        .await
        .expect("it is there");
    let refused = async || {
        let labels = [r#"plane="project""#, r#"code="403""#];
        suite.gateway.metric("fedgate_api_requests_total", &labels).await
    };
    let none = refused().await;

    suite.switch(LATE, json!({"suspend": "Billing"})).await;
    suite.is(LATE, "Suspended", "True").await;
    let marked = |copy: &Value| copy["metadata"]["annotations"][keys::SUSPENDED] == "true";
    let limit = seconds(60);
    suite
        .hub
        .sees(&DEPLOYMENT, &hub_ns, "web", "is suspended", limit, marked)
        .await;
    let news = json!({"readyReplicas": 0});
    suite.dfw.merge_status(&DEPLOYMENT, &hub_ns, "web", news).await;
    let told = |copy: &Value| copy["status"]["readyReplicas"] == 0;
    suite
        .hub
        .sees(&DEPLOYMENT, &hub_ns, "web", "has the cell's news", limit, told)
        .await;
    // A status of a cell is returned at intervals.
    let version = &before["metadata"]["resourceVersion"];
    let same = |now: Option<&Value>| now.is_some_and(|now| now["metadata"]["resourceVersion"] == *version);
    plane
        .holds(&DEPLOYMENT, &case.ns, "web", "is not written", seconds(8), same)
        .await;
    case.deploy("alpha", "beside").await;
    case.lives("alpha", &case.ns, &beside, "beside").await;
    assert!((refused().await - none).abs() < 0.5, "no write was tried");
    let state = suite.gateway.project(LATE).await.expect("it stays engaged");
    assert_eq!(state["suspended"], "declared", "{state}");

    suite.switch(LATE, json!({"suspend": null})).await;
    let what = "has the cell's news";
    plane.sees(&DEPLOYMENT, &case.ns, "web", what, limit, told).await;
    let resumed = |copy: &Value| !marked(copy);
    suite
        .hub
        .sees(&DEPLOYMENT, &hub_ns, "web", "goes on", limit, resumed)
        .await;
    // A suspended project admits no Event: its end is said, and its beginning stands in its condition alone.
    wait_for("Event ProjectResumed", limit, || async {
        let events = plane.list(&EVENT, &case.ns, "").await;
        let has = |reason: &str| events.iter().any(|event| event["reason"] == reason);
        assert!(!has("ProjectPaused"), "{events:?}");
        has("ProjectResumed").then_some(())
    })
    .await;
}

/// Deletes the Project and waits until Milo has forgotten it.
async fn delete(case: &Case) {
    case.suite.core.delete(&PROJECT, "", LATE).await;
    case.suite.core.gone(&PROJECT, "", LATE, seconds(120)).await;
}

/// Says on its hub Namespaces that this life of a Project is deleted, as an operator does.
async fn confirm(case: &Case, life: &str) {
    let suite = &case.suite;
    wait_for("the brake ends", seconds(60), || async {
        let of_it = format!("{}={life}", keys::PROJECT_UID);
        let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for namespace in suite.hub.list(&NAMESPACE, "", &of_it).await {
            let name = namespace["metadata"]["name"].as_str().expect("it has a name");
            let patch = json!({"metadata": {"annotations": {(keys::GARBAGE_CONFIRMED): at}}});
            suite.hub.merge(&NAMESPACE, "", name, patch).await;
        }
        let held = suite.gateway.metric("fedgate_garbage_brake", &[]).await;
        (held < 1.0).then_some(())
    })
    .await;
}

/// Waits until no hub Namespace names this life of a Project.
async fn is_emptied(case: &Case, life: &str) {
    let what = format!("the hub has nothing of Project {life}");
    let of_it = format!("{}={life}", keys::PROJECT_UID);
    wait_for(&what, seconds(150), || async {
        let left = case.suite.hub.list(&NAMESPACE, "", &of_it).await;
        left.is_empty().then_some(())
    })
    .await;
}

async fn a70_of_a_project_that_was_deleted_meanwhile_nothing_is_left_once_it_is_confirmed(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite.gateway.engaged(LATE).await;
    let project = suite.core.get(&PROJECT, "", LATE).await.expect("it was made");
    let (hub_ns, beside) = (case.namespace(LATE).await, case.namespace("alpha").await);
    case.deploy(LATE, "web").await;
    case.lives(LATE, &case.ns, &hub_ns, "web").await;
    case.deploy("alpha", "beside").await;
    let other = case.copy(&beside, "beside").await;
    suite.gateway.stop().await;
    delete(&case).await;
    suite.gateway.start().await;
    // Nobody saw it go: the platform might have been restored to an older state.
    wait_for("the brake holds", seconds(60), || async {
        let held = suite.gateway.metric("fedgate_garbage_brake", &[]).await;
        (held > 0.0).then_some(())
    })
    .await;
    let kept = case.copy(&hub_ns, "web").await;
    assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
    confirm(&case, uid(&project)).await;
    is_emptied(&case, uid(&project)).await;
    suite.dfw.gone(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
    let same = case.copy(&beside, "beside").await;
    assert_eq!(uid(&same), uid(&other), "another project keeps what it has");
}

/// Its namespace `default` may have the UID that it had.
async fn a71_a_project_made_again_adopts_nothing(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite.gateway.engaged(LATE).await;
    let project = suite.core.get(&PROJECT, "", LATE).await.expect("it was made");
    let hub_ns = case.namespace(LATE).await;
    case.deploy(LATE, "web").await;
    let first = case.copy(&hub_ns, "web").await;
    delete(&case).await;
    let again = suite.make(LATE, json!({})).await;
    assert_ne!(uid(&again), uid(&project), "it is another life");
    suite.gateway.engaged(LATE).await;
    let hub_ns = case.namespace(LATE).await;
    // What the purge left of the earlier life under the old name may be there still.
    case.deploy(LATE, "again").await;
    let copy = case.copy(&hub_ns, "again").await;
    assert_ne!(
        uid(&copy),
        uid(&first),
        "nothing of the earlier life is taken over"
    );
    is_emptied(&case, uid(&project)).await;
    case.lives(LATE, &case.ns, &hub_ns, "again").await;
}

/// Later versions of Milo empty a project and wait: whatever has a finalizer holds the Project.
async fn a_project_that_is_not_purged_by_force_ends(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite.gateway.engaged(LATE).await;
    suite.switch(LATE, json!({"drain": "true"})).await;
    let project = suite.core.get(&PROJECT, "", LATE).await.expect("it was made");
    let hub_ns = case.namespace(LATE).await;
    case.deploy(LATE, "web").await;
    case.lives(LATE, &case.ns, &hub_ns, "web").await;
    delete(&case).await;
    is_emptied(&case, uid(&project)).await;
    suite.dfw.gone(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
}
