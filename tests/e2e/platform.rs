//! A made-up kind of which the platform owns every object (tests/kinds, `Flavor`): each that is offered on the hub is in every
//! project, and restored there (contract: clusters.md §8).

use crate::support::{
    Case, annotation,
    case::unique,
    kinds::{EVENT, FLAVOR},
    label,
    plane::Plane,
    policies::without_policy,
    seconds, trials, uid, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    p01_a_flavor_of_the_hub_is_in_every_project_and_restored_there,
    #[core]
    p02_a_flavor_of_the_project_itself_is_left_alone,
];

const POLICY: &str = "fedgate-platform-flavors.example.fedgate.dev";

fn flavor(name: &str, memory: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"example.fedgate.dev/offered": "true"}},
        "spec": {"memory": memory}})
}

async fn shows(plane: &Plane, name: &str, what: &str, memory: &str) -> Value {
    plane
        .sees(&FLAVOR, "", name, what, seconds(60), |o| {
            label(o, keys::PROJECTED) == Some("true") && o["spec"] == json!({"memory": memory})
        })
        .await
}

/// A flavor of the hub that stays until the suite ends, in every project.
pub(crate) async fn offered(case: &Case) {
    let name = format!("flavor-{}", unique());
    case.hub.create(&FLAVOR, "", flavor(&name, "4Gi")).await;
    shows(&case.project, &name, "is projected", "4Gi").await;
    shows(&case.suite.beta, &name, "is projected", "4Gi").await;
}

async fn p01_a_flavor_of_the_hub_is_in_every_project_and_restored_there(case: Case) {
    let name = format!("flavor-{}", unique());
    let made = case.hub.create(&FLAVOR, "", flavor(&name, "4Gi")).await;
    let there = shows(&case.project, &name, "is projected", "4Gi").await;
    shows(&case.suite.beta, &name, "is projected", "4Gi").await;
    assert_eq!(annotation(&there, keys::SOURCE_UID), Some(uid(&made)));
    assert_eq!(
        label(&there, "example.fedgate.dev/offered"),
        None,
        "metadata is not carried"
    );
    case.hub
        .merge(&FLAVOR, "", &name, json!({"spec": {"memory": "8Gi"}}))
        .await;
    let edited = shows(&case.project, &name, "follows the hub", "8Gi").await;
    assert_eq!(uid(&edited), uid(&there));
    refused(&case, &name).await;
    without_policy(&case.project, POLICY, restored(&case, &name)).await;
    case.hub
        .merge(
            &FLAVOR,
            "",
            &name,
            json!({"metadata": {"labels": {"example.fedgate.dev/offered": null}}}),
        )
        .await;
    case.project.gone(&FLAVOR, "", &name, seconds(60)).await;
    case.suite.beta.gone(&FLAVOR, "", &name, seconds(60)).await;
    case.hub
        .merge(
            &FLAVOR,
            "",
            &name,
            json!({"metadata": {"labels": {"example.fedgate.dev/offered": "true"}}}),
        )
        .await;
    shows(&case.suite.beta, &name, "is back", "8Gi").await;
    case.hub.delete(&FLAVOR, "", &name).await;
    case.project.gone(&FLAVOR, "", &name, seconds(60)).await;
    case.suite.beta.gone(&FLAVOR, "", &name, seconds(60)).await;
}

/// No tenant edits, unlabels or deletes it, or labels one of its own.
async fn refused(case: &Case, name: &str) {
    let tries = [
        json!({"spec": {"memory": "1Gi"}}),
        json!({"metadata": {"labels": {keys::PROJECTED: null}}}),
    ];
    for patch in &tries {
        let answer = case.project.try_merge(&FLAVOR, "", name, patch).await;
        let words = answer.expect_err("it is the platform's").to_string();
        assert!(words.contains("it is changed on the hub alone"), "{words}");
    }
    let deleted = case.project.try_delete(&FLAVOR, "", name, None).await;
    assert!(deleted.is_err(), "nor deleted");
    let mut own = flavor(&format!("own-{name}"), "1Gi");
    own["metadata"]["labels"][keys::PROJECTED] = json!("true");
    let answer = case.project.try_create(&FLAVOR, "", own).await;
    let words = answer.expect_err("the label is the gateway's").to_string();
    assert!(
        words.contains("only the gateway sets label fedgate.dev/projected"),
        "{words}"
    );
}

/// A tenant's change without the policy is undone.
async fn restored(case: &Case, name: &str) {
    let edit = json!({"spec": {"memory": "1Gi", "retired": true}});
    wait_for("the edit is let through", seconds(60), || async {
        case.project.try_merge(&FLAVOR, "", name, &edit).await.ok()
    })
    .await;
    let there = shows(&case.project, name, "is restored", "8Gi").await;
    let unlabelled = json!({"metadata": {"labels": {keys::PROJECTED: null}}});
    case.project.merge(&FLAVOR, "", name, unlabelled).await;
    shows(&case.project, name, "has its label again", "8Gi").await;
    case.project.delete(&FLAVOR, "", name).await;
    case.project
        .sees(&FLAVOR, "", name, "is made again", seconds(60), |o| {
            uid(o) != uid(&there)
        })
        .await;
}

async fn p02_a_flavor_of_the_project_itself_is_left_alone(case: Case) {
    let name = format!("taken-{}", unique());
    let own = case.project.create(&FLAVOR, "", flavor(&name, "1Gi")).await;
    case.hub.create(&FLAVOR, "", flavor(&name, "4Gi")).await;
    shows(&case.suite.beta, &name, "is projected elsewhere", "4Gi").await;
    let told = || async {
        let mut events = case.project.list(&EVENT, "default", "").await;
        events.retain(|event| {
            event["reason"] == "PlatformNameTaken" && event["regarding"]["name"] == name.as_str()
        });
        events.pop()
    };
    let event = wait_for("the project is told", seconds(60), told).await;
    assert_eq!(
        (&event["type"], event["regarding"]["uid"].as_str()),
        (&json!("Warning"), Some(uid(&own)))
    );
    case.hub
        .merge(&FLAVOR, "", &name, json!({"spec": {"memory": "8Gi"}}))
        .await;
    shows(&case.suite.beta, &name, "follows elsewhere", "8Gi").await;
    let left = case.project.get(&FLAVOR, "", &name).await.expect("it is there");
    assert_eq!(left["spec"], own["spec"]);
    let again = told().await.expect("the Event is kept");
    assert_eq!(again["series"], Value::Null, "it is told once");
    case.project.delete(&FLAVOR, "", &name).await;
    shows(&case.project, &name, "takes the name that is free", "8Gi").await;
    case.hub.delete(&FLAVOR, "", &name).await;
    case.project.gone(&FLAVOR, "", &name, seconds(60)).await;
}
