//! Which projects are engaged, and when.

use crate::support::{
    Case, hub_namespace,
    kinds::{DEPLOYMENT, NAMESPACE, WORKLOAD},
    lone_trials,
    objects::workload,
    plane::Plane,
    seconds,
    suite::{FIRST, LATE, PROJECT},
    uid, wait_for,
};
use fedgate_api::keys;
use fedgate_sandbox::{Sandbox, User};
use serde_json::{Value, json};

lone_trials![
    #[core]
    a_project_that_comes_later_is_engaged,
    #[core]
    projects_of_the_first_list_have_their_own_uid,
    #[core]
    a_path_without_a_project_is_never_engaged,
    ready_turns_false_and_true_and_false,
    a_silent_project_delays_no_other,
    a_project_whose_storage_initializes_is_tried_again,
];

async fn a_project_that_comes_later_is_engaged(case: Case) {
    let suite = &case.suite;
    if suite.core.get(&PROJECT, "", LATE).await.is_none() {
        assert!(suite.gateway.project(LATE).await.is_none(), "nobody has made it");
    }
    suite.ensure(LATE).await;
    suite.gateway.engaged(LATE).await;
    let hub_ns = case.namespace(LATE).await;
    case.deploy(LATE, "web").await;
    case.lives(LATE, &case.ns, &hub_ns, "web").await;
}

async fn projects_of_the_first_list_have_their_own_uid(case: Case) {
    let suite = &case.suite;
    for name in FIRST {
        let project = suite.core.get(&PROJECT, "", name).await.expect("it was made");
        let plane = suite.project(name);
        let system = plane.get(&NAMESPACE, "", "kube-system").await;
        assert!(system.is_none(), "projects of Milo have no kube-system");
        let default = plane.get(&NAMESPACE, "", "default").await.expect("it has one");
        let hub_ns = hub_namespace(&default);
        plane
            .create(&WORKLOAD, "default", workload("shop", &["DFW"]))
            .await;
        case.lives(name, "default", &hub_ns, "shop-main-dfw").await;
        let namespace = suite
            .hub
            .get(&NAMESPACE, "", &hub_ns)
            .await
            .expect("it is on the hub");
        assert_eq!(
            namespace["metadata"]["labels"][keys::PROJECT_UID],
            uid(&project),
            "the hub Namespace names the Project's life: {namespace}"
        );
        plane.delete(&WORKLOAD, "default", "shop").await;
        plane.gone(&WORKLOAD, "default", "shop", seconds(90)).await;
    }
}

/// The path answers, and has a namespace; no Project proves that there is such a project.
async fn a_path_without_a_project_is_never_engaged(case: Case) {
    let path = "/projects/ghost/control-plane";
    let ghost = async |sandbox: &Sandbox| {
        [User::Admin, User::Gateway].map(|user| sandbox.platform_client(path, user).expect("a client"))
    };
    let [admin, gateway] = case.suite.with_sandbox(ghost).await;
    let (admin, gateway) = (Plane::new("ghost", admin), Plane::new("ghost", gateway));
    let object = json!({"metadata": {"name": case.ns}});
    let hub_ns = hub_namespace(&admin.create(&NAMESPACE, "", object).await);
    let seen = gateway.get(&NAMESPACE, "", &case.ns).await;
    assert_eq!(hub_namespace(&seen.expect("the path answers")), hub_ns);
    // What is seen later than all that the gateway was told of by now.
    let own = case.namespace("alpha").await;
    case.deploy("alpha", "web").await;
    case.copy(&own, "web").await;
    case.suite.gateway.restart().await;
    case.suite.gateway.engaged("alpha").await;
    assert!(case.suite.gateway.project("ghost").await.is_none());
    assert!(case.suite.gateway.project("spare").await.is_none());
    assert!(case.suite.hub.get(&NAMESPACE, "", &hub_ns).await.is_none());
    admin.delete(&NAMESPACE, "", &case.ns).await;
}

async fn ready_turns_false_and_true_and_false(case: Case) {
    let suite = &case.suite;
    let (hub_ns, other) = (case.namespace("beta").await, case.namespace("alpha").await);
    case.deploy("beta", "web").await;
    case.deploy("alpha", "web").await;
    case.copy(&other, "web").await;
    let mut copy = case.copy(&hub_ns, "web").await;
    for round in 2..4 {
        suite.switch("beta", json!({"not-ready": "true"})).await;
        suite.is("beta", "Ready", "False").await;
        suite.gateway.left("beta").await;
        case.scale("beta", "web", round).await;
        case.scale("alpha", "web", round).await;
        case.copy_scaled(&other, "web", round).await;
        let same =
            |state: Option<&Value>| state.is_some_and(|o| uid(o) == uid(&copy) && o["spec"] == copy["spec"]);
        let what = "is left as it is";
        suite
            .hub
            .holds(&DEPLOYMENT, &hub_ns, "web", what, seconds(3), same)
            .await;
        suite.switch("beta", json!({"not-ready": null})).await;
        suite.gateway.engaged("beta").await;
        let now = case.copy_scaled(&hub_ns, "web", round).await;
        assert_eq!(uid(&now), uid(&copy), "the copy is the same object");
        copy = now;
    }
}

async fn a_silent_project_delays_no_other(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite
        .switch(LATE, json!({"hang": "true", "not-ready": "true"}))
        .await;
    suite.gateway.left(LATE).await;
    suite.switch(LATE, json!({"not-ready": null})).await;
    wait_for("the silent project is engaged", seconds(30), || async {
        suite.gateway.project(LATE).await
    })
    .await;
    let hub_ns = case.namespace("alpha").await;
    case.deploy("alpha", "beside").await;
    case.lives("alpha", &case.ns, &hub_ns, "beside").await;
    // It does not keep the process from being ready, either.
    suite.gateway.restart().await;
    case.deploy("alpha", "after-restart").await;
    case.lives("alpha", &case.ns, &hub_ns, "after-restart").await;
    let silent = suite.gateway.project(LATE).await.expect("it is engaged");
    assert_eq!(silent["ready"], false, "it has never answered: {silent}");
    suite.switch(LATE, json!({"hang": null})).await;
    suite.gateway.engaged(LATE).await;
}

async fn a_project_whose_storage_initializes_is_tried_again(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    let (mark, was) = (suite.gateway.log_mark(), uid_of_late(&case).await);
    let switches = json!({"initializing": "4", "not-ready": "true"});
    suite.switch(LATE, switches).await;
    suite.gateway.left(LATE).await;
    suite.switch(LATE, json!({"not-ready": null})).await;
    // Its first requests are refused; nobody else's are.
    let beside = case.namespace("alpha").await;
    case.deploy("alpha", "beside").await;
    case.copy(&beside, "beside").await;
    suite.gateway.engaged(LATE).await;
    let hub_ns = case.namespace(LATE).await;
    case.deploy(LATE, "web").await;
    case.lives(LATE, &case.ns, &hub_ns, "web").await;
    assert_eq!(uid_of_late(&case).await, was, "it is the same life");
    let refused = suite.gateway.log_since(mark);
    let refused = refused
        .iter()
        .filter(|line| line.contains("(re)initializing"))
        .count();
    assert!(
        (1..=4).contains(&refused),
        "said once per watch at most, not at each try: {refused}"
    );
    suite.switch(LATE, json!({"initializing": null})).await;
}

async fn uid_of_late(case: &Case) -> String {
    let project = case.suite.core.get(&PROJECT, "", LATE).await;
    uid(&project.expect("it was made")).to_owned()
}
