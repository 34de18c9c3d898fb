//! An object that lives at one member (a `PostgreSQL` cluster of `CloudNativePG`) while its project is suspended.

use crate::support::{
    Case,
    kinds::{NAMESPACE, POSTGRES},
    lone_trials, seconds,
    suite::LATE,
    uid,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::time::Duration;

lone_trials![v51_a_suspended_project_holds_what_lives_at_one_member];

const NAME: &str = "orders";
const LIMIT: Duration = seconds(90);

fn is(object: &Value, kind: &str, reason: &str) -> bool {
    let all = object["status"]["conditions"].as_array();
    all.is_some_and(|all| all.iter().any(|c| c["type"] == kind && c["reason"] == reason))
}

/// Waits until the copy is in a lane of the member.
async fn in_lane(case: &Case, hub_ns: &str, lane: &str) -> Value {
    let lane = format!("pg-{lane}-dfw-1");
    let what = format!("is in lane {lane}");
    case.suite
        .hub
        .sees(&POSTGRES, hub_ns, NAME, &what, LIMIT, |copy| {
            copy["metadata"]["labels"][keys::LANE] == *lane
        })
        .await
}

/// G32: the member gets nothing and loses nothing, nothing is written to the project, and what was edited meanwhile goes with
/// the lane that delivers it.
async fn v51_a_suspended_project_holds_what_lives_at_one_member(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite.gateway.engaged(LATE).await;
    let (hub_ns, plane) = (case.namespace(LATE).await, suite.project(LATE));
    let object = json!({"metadata": {"name": NAME, "labels": {keys::CITY_CODE: "DFW"}},
        "spec": {"instances": 3, "storage": {"size": "10Gi"}}});
    if suite.is_milo {
        // The kind's policies are its core's, which looks for the Namespace there (docs/sandbox.md).
        let same = json!({"metadata": {"name": case.ns}});
        suite.core.create(&NAMESPACE, "", same).await;
    }
    plane.create(&POSTGRES, &case.ns, object).await;
    let told = |o: &Value| {
        is(o, "Federated", "Delivered")
            && is(o, "Applied", "Applied")
            && is(o, "StatusCurrent", "NotReported")
    };
    plane
        .sees(&POSTGRES, &case.ns, NAME, "is delivered", LIMIT, told)
        .await;
    in_lane(&case, &hub_ns, "pin").await;
    let there = suite.dfw.exists(&POSTGRES, &hub_ns, NAME, LIMIT).await;
    let refused = async || {
        let labels = [r#"plane="project""#, r#"code="403""#];
        suite.gateway.metric("fedgate_api_requests_total", &labels).await
    };
    suite.switch(LATE, json!({"suspend": "Billing"})).await;
    suite.is(LATE, "Suspended", "True").await;
    in_lane(&case, &hub_ns, "hold").await;
    // A write that was on its way is refused; from now on the gateway knows.
    let none = refused().await;
    let edited = plane
        .merge(&POSTGRES, &case.ns, NAME, json!({"spec": {"instances": 5}}))
        .await;
    let version = &edited["metadata"]["resourceVersion"];
    let same = |now: Option<&Value>| now.is_some_and(|now| now["metadata"]["resourceVersion"] == *version);
    plane
        .holds(&POSTGRES, &case.ns, NAME, "is not written", seconds(8), same)
        .await;
    let copy = in_lane(&case, &hub_ns, "hold").await;
    assert_eq!(copy["spec"]["instances"], 3, "an edit waits in the project");
    let held = suite.dfw.exists(&POSTGRES, &hub_ns, NAME, seconds(5)).await;
    assert_eq!((uid(&held), &held["spec"]), (uid(&there), &there["spec"]));
    assert!((refused().await - none).abs() < 0.5, "a write was tried");

    suite.switch(LATE, json!({"suspend": null})).await;
    let copy = in_lane(&case, &hub_ns, "pin").await;
    assert_eq!(copy["spec"]["instances"], 5, "with the lane");
    let what = "has the edit";
    let now = suite
        .dfw
        .sees(&POSTGRES, &hub_ns, NAME, what, LIMIT, |o| {
            o["spec"]["instances"] == 5
        })
        .await;
    assert_eq!(uid(&now), uid(&there));
    plane.delete(&POSTGRES, &case.ns, NAME).await;
    plane.gone(&POSTGRES, &case.ns, NAME, LIMIT).await;
    assert_eq!(suite.dfw.get(&POSTGRES, &hub_ns, NAME).await, None);
    if suite.is_milo {
        suite.core.delete(&NAMESPACE, "", &case.ns).await;
    }
}
