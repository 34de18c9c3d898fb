//! A cluster whose karmada-agent another program has registered.

use crate::world::{NAME, World, base64};
use serde_json::{Value, json};
use std::process::ExitCode;

const PULL: &[&str] = &[
    "join",
    NAME,
    "--city",
    "IAD",
    "--mode",
    "pull",
    "--agent-image",
    "registry.example.com/agent:1",
];
const ADOPT: &[&str] = &["join", NAME, "--city", "IAD", "--adopt"];

/// The objects of `karmadactl register` at the member.
fn agent() -> Vec<Value> {
    let account = "karmada-agent-sa";
    let rbac = "rbac.authorization.k8s.io";
    let within = |kind: &str, api: &str, name: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "karmada-system"}});
    let mut secret = within("Secret", "v1", "karmada-kubeconfig");
    secret["data"] = json!({"karmada-kubeconfig": base64("{}")});
    let mut deployment = within("Deployment", "apps/v1", "karmada-agent");
    deployment["spec"] = json!({"replicas": 1, "template": {"spec": {"serviceAccountName": account}}});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-system"}}),
        secret,
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "karmada-agent"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        within("ServiceAccount", "v1", account),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "karmada-agent"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "karmada-agent"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "karmada-system"}]}),
        deployment,
    ]
}

/// A world with that agent and, if it serves this hub, its Cluster and its Lease.
async fn registered(here: bool) -> World {
    let world = World::new().await;
    for object in agent() {
        world.member.create(object).unwrap();
    }
    if here {
        let system = world.member.get("Namespace", "", "kube-system").unwrap();
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": NAME},
            "spec": {"id": system["metadata"]["uid"], "syncMode": "Pull", "apiEndpoint": "https://192.0.2.1:6443"}});
        let namespace =
            |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        world.hub.create(namespace("karmada-system")).unwrap();
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("karmada-agent-{NAME}"), "namespace": "karmada-system"}});
        world.hub.create(lease).unwrap();
        world.hub.create(cluster).unwrap();
        world
            .sees(&world.hub, "Cluster", "", NAME, |cluster| {
                cluster.is_some_and(|c| !c["status"].is_null())
            })
            .await;
    }
    world
}

/// The command is refused, and nothing is written.
async fn is_refused(world: &World, words: &[&str]) {
    let begin = world.simulator.log().next();
    assert_eq!(world.run(words).await, ExitCode::from(4), "{words:?}");
    assert_eq!(world.written(begin), [""; 0], "{words:?}");
}

/// The agent's objects are there as they were, and no policy limits it.
fn is_untouched(world: &World) {
    for wanted in agent() {
        let metadata = &wanted["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let name = metadata["name"].as_str().unwrap();
        let live = world
            .member
            .get(wanted["kind"].as_str().unwrap(), namespace, name)
            .unwrap();
        for part in ["rules", "spec", "data", "subjects"] {
            if wanted["kind"] != "Namespace" {
                assert_eq!(live[part], wanted[part], "{live}");
            }
        }
        assert!(
            live["metadata"]["annotations"].is_null() && live["metadata"]["deletionTimestamp"].is_null(),
            "{live}"
        );
    }
    assert_eq!(world.member.count("ValidatingAdmissionPolicy"), 0);
}

#[tokio::test]
async fn a_cluster_of_another_programs_agent_is_refused_and_may_be_adopted_with_that_agent() {
    let world = registered(true).await;
    is_refused(&world, PULL).await;
    // Its agent is not ours to replace.
    is_refused(&world, &[PULL, &["--adopt"]].concat()).await;
    is_untouched(&world);

    world.done(ADOPT, true).await;
    let cluster = world.hub.get("Cluster", "", NAME).unwrap();
    assert_eq!(
        cluster["metadata"]["labels"]["topology.datum.net/city-code"],
        "IAD"
    );
    assert_eq!(cluster["metadata"]["annotations"]["fedgate.dev/adopt"], NAME);
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    is_untouched(&world);
    is_refused(&world, PULL).await;
    let again = world.simulator.log().next();
    world.done(ADOPT, true).await;
    assert_eq!(world.written(again), [""; 0]);

    is_refused(&world, &["leave", NAME]).await;
    world.done(&["leave", NAME, "--adopt"], true).await;
    assert!(world.hub.get("Cluster", "", NAME).is_none());
    is_untouched(&world);
    let lease = format!("karmada-agent-{NAME}");
    assert!(
        world.hub.get("Lease", "karmada-system", &lease).is_some(),
        "the agent holds it"
    );
}

#[tokio::test]
async fn an_agent_of_another_hub_keeps_its_rights() {
    let world = registered(false).await;
    is_refused(&world, PULL).await;
    is_untouched(&world);
    assert!(world.hub.get("Cluster", "", NAME).is_none());
    // Its credential alone would be overwritten.
    for (kind, namespace, name) in [
        ("Deployment", "karmada-system", "karmada-agent"),
        ("ClusterRoleBinding", "", "karmada-agent"),
        ("ClusterRole", "", "karmada-agent"),
        ("ServiceAccount", "karmada-system", "karmada-agent-sa"),
    ] {
        world.member.delete(kind, namespace, name).unwrap();
    }
    is_refused(&world, PULL).await;
    world
        .member
        .delete("Secret", "karmada-system", "karmada-kubeconfig")
        .unwrap();
    world.done(PULL, true).await;
}

/// Both hubs mark what they make by the member alone.
#[tokio::test]
async fn an_agent_that_join_has_made_for_another_hub_keeps_its_credential() {
    let world = World::new().await;
    world.done(PULL, true).await;
    let (calm, begin) = (world.state(), world.simulator.log().next());
    for words in [PULL, &["leave", NAME]] {
        assert_eq!(
            world.run_on_other_hub(words).await,
            ExitCode::from(4),
            "{words:?}"
        );
    }
    assert_eq!(world.written(begin), [""; 0]);
    assert_eq!(world.state(), calm);
    assert!(world.other_hub.get("Cluster", "", NAME).is_none());
    // The other hub takes the place of the first: the operator says so at the cell.
    let forget = json!({"metadata": {"annotations": {"fedgate.dev/hub": null}}});
    let (namespace, name) = ("karmada-system", "karmada-kubeconfig");
    world.member.merge("Secret", namespace, name, forget).unwrap();
    world.done(PULL, true).await;
    let secret = world.member.get("Secret", namespace, name).unwrap();
    let hub = world.hub.get("Namespace", "", "kube-system").unwrap();
    assert_eq!(
        secret["metadata"]["annotations"]["fedgate.dev/hub"], hub["metadata"]["uid"],
        "the next join says it again"
    );
}

const PUSH: &[&str] = &["join", NAME, "--city", "IAD"];
const ACCOUNTS: &str = "karmada-cluster";
const POLICY: &str = "ValidatingAdmissionPolicy";

/// In mode push as in mode pull: a member is a cell of one hub, whatever the other one calls it.
#[tokio::test]
async fn an_account_that_join_has_made_for_another_hub_keeps_its_limits() {
    let world = World::new().await;
    world.done(PUSH, true).await;
    let (calm, begin) = (world.state(), world.simulator.log().next());
    for words in [PUSH, PULL, &["join", "iad-9", "--city", "IAD"], &["leave", NAME]] {
        assert_eq!(
            world.run_on_other_hub(words).await,
            ExitCode::from(4),
            "{words:?}"
        );
    }
    assert_eq!(world.written(begin), [""; 0]);
    assert_eq!(world.state(), calm);
    // The other hub takes the place of the first: the operator says so at the cell.
    let forget = json!({"metadata": {"annotations": {"fedgate.dev/hub": null}}});
    let account = format!("karmada-{NAME}");
    world
        .member
        .merge("ServiceAccount", ACCOUNTS, &account, forget)
        .unwrap();
    world.done(PUSH, true).await;
    assert_eq!(world.state(), calm, "the next join says it again");
}

/// An account of another cell name that names no hub: an operator has taken the name of another hub off.
#[tokio::test]
async fn an_account_of_another_name_survives_a_join_and_a_leave() {
    let world = World::new().await;
    world.done(PUSH, true).await;
    let own = format!("fedgate-karmada-writes-{NAME}");
    let account = format!("karmada-{NAME}");
    let mut theirs: Value = (*world.member.get("ServiceAccount", ACCOUNTS, &account).unwrap()).clone();
    let (annotations, labels) = (&theirs["metadata"]["annotations"], &theirs["metadata"]["labels"]);
    theirs["metadata"] =
        json!({"name": "karmada-dfw-9", "namespace": ACCOUNTS, "annotations": annotations, "labels": labels});
    let annotations = theirs["metadata"]["annotations"].as_object_mut();
    annotations.unwrap().remove("fedgate.dev/hub");
    world.member.create(theirs).unwrap();
    let begin = world.simulator.log().next();
    world.done(PUSH, true).await;
    assert_eq!(world.written(begin), [""; 0]);

    world.done(&["leave", NAME], true).await;
    assert!(world.member.get(POLICY, "", &own).is_none());
    assert!(
        world
            .member
            .get("ServiceAccount", ACCOUNTS, &format!("karmada-{NAME}"))
            .is_none()
    );
    assert!(
        world
            .member
            .get("ServiceAccount", ACCOUNTS, "karmada-dfw-9")
            .is_some()
    );
    assert!(
        world.member.count("CustomResourceDefinition") > 0,
        "its definitions and roles are that hub's, too"
    );
}

#[tokio::test]
async fn a_kill_while_a_cluster_is_adopted_changes_nothing() {
    let calm = registered(true).await;
    let begin = calm.simulator.log().next();
    calm.done(ADOPT, true).await;
    let (writes, adopted) = (calm.writes(begin), calm.state());
    for n in writes {
        let world = registered(true).await;
        world.killed_at(ADOPT, true, n).await;
        world.done(ADOPT, true).await;
        world
            .becomes(&adopted, &format!("killed after request {n}"))
            .await;
    }
}
