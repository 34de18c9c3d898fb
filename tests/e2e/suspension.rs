//! 65, 66: suspension travels down as an annotation and comes back as status.

use crate::support::{
    Case, annotation,
    kinds::{DEPLOYMENT, EVENT, INSTANCE},
    seconds, trials, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    a65_suspended,
    a66_resumed,
];

/// Waits until the deployment's Event says this.
async fn says(case: &Case, reason: &str, action: &str) {
    let is_it = |event: &Value| {
        let about = &event["regarding"];
        event["reason"] == reason
            && event["action"] == action
            && event["type"] == "Normal"
            && (&about["kind"], &about["name"]) == (&json!("WorkloadDeployment"), &json!("web"))
    };
    wait_for(&format!("Event {reason}"), seconds(30), || async {
        let events = case.project.list(&EVENT, &case.ns, "").await;
        events.iter().any(is_it).then_some(())
    })
    .await;
}

async fn suspend(case: &Case) {
    case.deploy("web", "DFW").await;
    case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    case.dfw.run(&case.hub_ns, "web", 0).await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"metadata": {"annotations": {keys::SUSPENDED: "true"}}}),
    )
    .await;
    let suspended = |o: &Value| annotation(o, keys::SUSPENDED) == Some("true");
    case.hub
        .sees(
            &DEPLOYMENT,
            &case.hub_ns,
            "web",
            "is suspended",
            seconds(30),
            suspended,
        )
        .await;
    says(case, "ProjectPaused", "Suspending").await;
    case.dfw
        .sees(&case.hub_ns, "web", "is suspended", suspended)
        .await;
    // The cell does as it is told, and says so.
    case.dfw
        .plane
        .merge_status(&DEPLOYMENT, &case.hub_ns, "web", json!({"suspended": true}))
        .await;
    case.dfw
        .hub
        .merge_status(&INSTANCE, &case.hub_ns, "web-0", json!({"suspended": true}))
        .await;
    let says_so = |o: &Value| o["status"]["suspended"] == true;
    case.copy_sees("web", "has status.suspended", says_so).await;
    case.project_sees("web", "has status.suspended", says_so).await;
    case.project
        .sees(
            &INSTANCE,
            &case.ns,
            "web-0",
            "has status.suspended",
            seconds(30),
            says_so,
        )
        .await;
}

async fn a65_suspended(case: Case) {
    suspend(&case).await;
    // Any other value is no suspension.
    case.create(&DEPLOYMENT, {
        let mut object = crate::support::deployment("no", "DFW");
        object["metadata"]["annotations"] = json!({keys::SUSPENDED: "yes"});
        object
    })
    .await;
    let copy = case.copy("no").await;
    assert_eq!(annotation(&copy, keys::SUSPENDED), None);
}

async fn a66_resumed(case: Case) {
    suspend(&case).await;
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"metadata": {"annotations": {keys::SUSPENDED: null}}}),
    )
    .await;
    let running = |o: &Value| annotation(o, keys::SUSPENDED).is_none();
    case.hub
        .sees(&DEPLOYMENT, &case.hub_ns, "web", "runs", seconds(30), running)
        .await;
    says(&case, "ProjectResumed", "Resuming").await;
    case.dfw.sees(&case.hub_ns, "web", "runs", running).await;
    case.dfw
        .plane
        .merge_status(&DEPLOYMENT, &case.hub_ns, "web", json!({"suspended": null}))
        .await;
    case.dfw
        .hub
        .merge_status(&INSTANCE, &case.hub_ns, "web-0", json!({"suspended": null}))
        .await;
    let resumed = |o: &Value| o["status"]["suspended"] != true;
    case.copy_sees("web", "is no longer suspended", resumed).await;
    case.project_sees("web", "is no longer suspended", resumed).await;
    case.project
        .sees(
            &INSTANCE,
            &case.ns,
            "web-0",
            "is no longer suspended",
            seconds(30),
            resumed,
        )
        .await;
}
