//! 50–55 and 85: nothing stays behind, in the stated order.

use crate::support::{
    Case, Entry, deployment,
    gateway::{ORPHAN, RETENTION},
    kinds::{BINDING, DEPLOYMENT, INSTANCE, NAMESPACE, POLICY},
    label, lone_trials,
    plane::BY_EVENT,
    seconds, trials, uid,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use tokio::time::Instant;

trials![
    #[core]
    a50_deletion_in_order,
    #[core]
    a51_deletion_without_a_cell_program,
    a52_project_namespace_deleted,
    a54_copy_deleted_by_hand,
    a85_binding_left_by_the_garbage_collector,
];

lone_trials![a53_cell_api_down, a55_finalizer_stripped_by_hand];

fn first<'a>(entries: &'a [Entry], action: &str, name: &str) -> &'a Entry {
    entries
        .iter()
        .find(|e| e.action() == action && e.object_ref.name == name && e.succeeded())
        .unwrap_or_else(|| panic!("the audit log has no `{action} {name}`"))
}

async fn a50_deletion_in_order(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.quiet().await;
    let binding = case
        .hub
        .exists(&BINDING, &case.hub_ns, "web-workloaddeployment", seconds(10))
        .await;
    case.delete(&DEPLOYMENT, "web").await;
    case.hub.gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(30)).await;
    case.project.gone(&DEPLOYMENT, &case.ns, "web", seconds(60)).await;
    case.dfw.gone(&case.hub_ns, "web").await;
    let hub = case.hub_requests_of_all();
    let copy = first(&hub, "delete workloaddeployments", "web");
    let policy = first(&hub, "delete propagationpolicies", "city-dfw");
    let bound = hub
        .iter()
        .rfind(|e| {
            e.object_ref.resource == "resourcebindings"
                && e.object_ref.name == binding["metadata"]["name"]
                && e.is_write()
                && e.succeeded()
        })
        .expect("the binding was written");
    let requests = case.project_requests();
    let finalizer = requests
        .iter()
        .rfind(|e| e.action() == "patch workloaddeployments")
        .expect("the finalizer was taken off");
    let order = [copy, bound, policy, finalizer].map(|e| (e.request_received_timestamp.clone(), e.action()));
    let mut sorted = order.clone();
    sorted.sort();
    assert_eq!(order, sorted, "copy, binding, policy, finalizer");
}

async fn a51_deletion_without_a_cell_program(case: Case) {
    case.deploy("web", "DFW").await;
    for ordinal in [0, 1] {
        case.dfw.run(&case.hub_ns, "web", ordinal).await;
    }
    case.project
        .exists(&INSTANCE, &case.ns, "web-1", seconds(30))
        .await;
    // From here the cell does nothing more: no finalizer of its holds the deployment.
    case.delete(&DEPLOYMENT, "web").await;
    case.project
        .gone(&DEPLOYMENT, &case.ns, "web", seconds(180))
        .await;
    case.hub
        .gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(240))
        .await;
    for name in ["web-0", "web-1"] {
        case.hub.gone(&INSTANCE, &case.hub_ns, name, seconds(300)).await;
        case.project.gone(&INSTANCE, &case.ns, name, seconds(60)).await;
    }
}

async fn a52_project_namespace_deleted(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.project.delete(&NAMESPACE, "", &case.ns).await;
    case.project
        .gone(&DEPLOYMENT, &case.ns, "web", seconds(300))
        .await;
    case.hub.gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(10)).await;
    let labelled = format!("{}={}", keys::UPSTREAM_NAMESPACE, case.ns);
    let left = case.hub.list(&NAMESPACE, "", &labelled).await;
    assert_eq!(left.len(), 1, "HUB is still found by its label");
    assert_eq!(left[0]["metadata"]["name"], case.hub_ns);
    case.project.gone(&NAMESPACE, "", &case.ns, seconds(120)).await;
    // The hub's namespace controller ends those of all trials, one after the other.
    case.hub
        .gone(&NAMESPACE, "", &case.hub_ns, seconds(RETENTION + 240))
        .await;
    case.kept_for_its_retention();
}

async fn a53_cell_api_down(case: Case) {
    // Karmada lets go of a binding once it has asked for the deletion of its Works, whether or not a cell answers:
    // what keeps a deployment waiting is a binding that stays, here by a finalizer.
    case.deploy("held", "DFW").await;
    case.dfw.report(&case.hub_ns, "held", 1, 1).await;
    case.condition("held", "Federated", "True", "Delivered").await;
    let name = "held-workloaddeployment";
    let binding = case.hub.exists(&BINDING, &case.hub_ns, name, seconds(10)).await;
    let mut finalizers = binding["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    finalizers.push(json!("example.com/kept-by-the-test"));
    let held = json!({"metadata": {"finalizers": finalizers}});
    case.hub.merge(&BINDING, &case.hub_ns, name, held).await;
    case.delete(&DEPLOYMENT, "held").await;
    let waiting = case
        .condition("held", "Federated", "False", "WaitingForCells")
        .await;
    let message = waiting["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("dfw-1") && !message.contains("lhr-1"),
        "the message names the cell and no other: {message:?}"
    );
    let released = json!({"metadata": {"finalizers": null}});
    case.hub.merge(&BINDING, &case.hub_ns, name, released).await;
    case.project.gone(&DEPLOYMENT, &case.ns, "held", BY_EVENT).await;
    // With the cell's API away the deletion is carried out when it returns.
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.suite.stop_plane(&case.dfw.name).await;
    case.delete(&DEPLOYMENT, "web").await;
    case.hub.gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(30)).await;
    case.suite.start_plane(&case.dfw.name).await;
    case.project
        .gone(&DEPLOYMENT, &case.ns, "web", seconds(180))
        .await;
    case.dfw
        .plane
        .gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(180))
        .await;
    // The cell serves again.
    case.deploy("after", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "after").await;
}

async fn a54_copy_deleted_by_hand(case: Case) {
    let copy = case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.quiet().await;
    let count = case.count();
    case.hub.delete(&DEPLOYMENT, &case.hub_ns, "web").await;
    let another = |o: &Value| uid(o) != uid(&copy);
    let again = case
        .hub
        .sees(
            &DEPLOYMENT,
            &case.hub_ns,
            "web",
            "is there again",
            BY_EVENT,
            another,
        )
        .await;
    assert_eq!(again["spec"], copy["spec"]);
    case.dfw
        .sees(&case.hub_ns, "web", "is delivered", |o| {
            o["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    case.quiet().await;
    let written: Vec<String> = case
        .writes(&count)
        .into_iter()
        .filter(|w| w.starts_with("hub: ") && w.ends_with("workloaddeployments"))
        .collect();
    assert_eq!(
        written,
        ["hub: create workloaddeployments"],
        "one request restores it"
    );
    // Edited by hand: restored as well, exactly.
    let edit = json!({"spec": {"cityCode": "LHR", "scaleSettings": {"minReplicas": 9}}});
    case.hub.merge(&DEPLOYMENT, &case.hub_ns, "web", edit).await;
    let whole = |o: &Value| o["spec"] == copy["spec"];
    case.hub
        .sees(
            &DEPLOYMENT,
            &case.hub_ns,
            "web",
            "has its spec again",
            BY_EVENT,
            whole,
        )
        .await;
}

async fn a85_binding_left_by_the_garbage_collector(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    // The garbage collector passes over an object without an owner, as over one whose owner's end it missed.
    let name = "web-workloaddeployment";
    let orphan = json!({"metadata": {"ownerReferences": null}});
    case.hub.exists(&BINDING, &case.hub_ns, name, seconds(10)).await;
    // Karmada writes the owner again with each change of the copy: no report may be on its way.
    case.quiet_for(seconds(3)).await;
    case.hub.merge(&BINDING, &case.hub_ns, name, orphan).await;
    case.delete(&DEPLOYMENT, "web").await;
    case.hub.gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(30)).await;
    case.hub.gone(&BINDING, &case.hub_ns, name, seconds(60)).await;
    case.project.gone(&DEPLOYMENT, &case.ns, "web", seconds(60)).await;
    case.dfw.gone(&case.hub_ns, "web").await;
    let deletes = case.hub_requests_of_all();
    let delete = first(&deletes, "delete resourcebindings", name);
    assert!(delete.user.username.contains("fedgate-gateway"), "{delete:?}");
}

async fn a55_finalizer_stripped_by_hand(case: Case) {
    case.deploy("web", "DFW").await;
    case.create(&DEPLOYMENT, deployment("stays", "DFW")).await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    let stays = case.copy("stays").await;
    case.quiet().await;
    // Nobody takes the finalizer off but the test: the gateway never sees the deployment go.
    case.suite.gateway.stop().await;
    case.delete(&DEPLOYMENT, "web").await;
    case.merge(&DEPLOYMENT, "web", json!({"metadata": {"finalizers": null}}))
        .await;
    case.project.gone(&DEPLOYMENT, &case.ns, "web", seconds(10)).await;
    let count = case.count();
    let started = Instant::now();
    case.suite.gateway.start().await;
    case.hub.gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(60)).await;
    assert!(
        started.elapsed() >= seconds(ORPHAN),
        "the copy went {:?} after the start: only garbage that has been one for {ORPHAN} s is collected",
        started.elapsed()
    );
    case.dfw.gone(&case.hub_ns, "web").await;
    case.quiet().await;
    // The other deployment's status may change meanwhile.
    let mut writes = case.writes(&count);
    writes.retain(|write| !write.ends_with("/status"));
    assert_eq!(
        writes,
        ["hub: delete workloaddeployments"],
        "garbage removes the copy, and nothing else is written"
    );
    let left: Option<Value> = case.hub.get(&DEPLOYMENT, &case.hub_ns, "stays").await;
    assert_eq!(
        left.as_ref().map(uid),
        Some(uid(&stays)),
        "the other's copy stays"
    );
    assert!(case.hub.get(&POLICY, &case.hub_ns, "city-dfw").await.is_some());
    let namespace = case.hub.exists(&NAMESPACE, "", &case.hub_ns, seconds(5)).await;
    assert_eq!(
        label(&namespace, keys::UPSTREAM_NAMESPACE),
        Some(case.ns.as_str())
    );
}
