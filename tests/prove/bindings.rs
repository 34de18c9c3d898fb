//! Bindings whose template is gone: Karmada leaves them to the hub's garbage collector, which may have lost the event.

use crate::{
    end::wrong,
    ops::Op::*,
    rig::{GATEWAY, Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_api::keys;
use fedgate_simulator::{Controllers, Verb};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Longer than the grace period of an orphaned binding, and the times of the deletion that waits for it.
const COLLECTED: Duration = Duration::from_secs(45);

/// A hub whose garbage collector has stopped, with a deployment of one Instance that has a companion.
async fn without_collector() -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    Config("p", "default", "settings", "hello").apply(&mut rig);
    CreateWith("p", "default", "web", "DFW", "settings").apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig.hub.controllers(Controllers::Off);
    rig
}

fn owners(rig: &Rig) -> Vec<Value> {
    let bindings = rig.hub.list("ResourceBinding");
    let owner = |binding: &Arc<Value>| binding["metadata"]["ownerReferences"][0]["uid"].clone();
    bindings.iter().map(owner).collect()
}

/// Chaos on real Karmada, seed 4711: the copy was deleted by hand and made again, then the tenant deleted the deployment.
#[test]
fn a_deployment_ends_though_the_hubs_garbage_collector_forgot_its_binding() {
    simulate(async {
        let mut rig = without_collector().await;
        DropCopy("web").apply(&mut rig);
        rest(Duration::from_secs(5)).await;
        Delete("p", "default", "web").apply(&mut rig);
        rest(COLLECTED).await;
        assert_eq!(rig.projects["p"].count("WorkloadDeployment"), 0);
        assert_eq!(rig.hub.count("ResourceBinding"), 0, "{:?}", owners(&rig));
    });
}

#[test]
fn a_copy_made_again_is_bound_though_the_binding_of_the_first_was_forgotten() {
    simulate(async {
        let mut rig = without_collector().await;
        let before = owners(&rig);
        DropCopy("web").apply(&mut rig);
        rest(COLLECTED).await;
        let copy = rig.hub.list("WorkloadDeployment")[0]["metadata"]["uid"].clone();
        assert!(
            owners(&rig).contains(&copy),
            "{before:?}, then {:?}",
            owners(&rig)
        );
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_binding_in_a_namespace_that_is_torn_down_goes_and_the_namespace_after_it() {
    simulate(async {
        let mut rig = without_collector().await;
        Namespace("p", "shop").apply(&mut rig);
        Create("p", "shop", "web", "DFW", 0).apply(&mut rig);
        rest(SETTLED).await;
        DropNamespace("p", "shop").apply(&mut rig);
        rest(COLLECTED * 3).await;
        let hubs = rig.hub.list("Namespace");
        let shop = |hub: &Arc<Value>| hub["metadata"]["labels"][keys::UPSTREAM_NAMESPACE] == "shop";
        let left: Vec<&Arc<Value>> = hubs.iter().filter(|hub| shop(hub)).collect();
        // Its own end is the stopped controllers' work.
        assert!(
            left.iter()
                .all(|hub| !hub["metadata"]["deletionTimestamp"].is_null()),
            "{left:?}"
        );
        assert_eq!(rig.projects["p"].count("Namespace"), 2, "default and kube-system");
    });
}

/// Chaos on real Karmada, seed 11: the namespace around a deployment that was ending was made again.
async fn ends_in_a_namespace_made_again(is_restarted: bool, has_others: bool) {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    Namespace("p", "shop").apply(&mut rig);
    Create("p", "shop", "web", "DFW", 0).apply(&mut rig);
    rest(SETTLED).await;
    rig.karmada.hold_bindings(true);
    Delete("p", "shop", "web").apply(&mut rig);
    rest(Duration::from_secs(10)).await;
    rig.projects["p"].forget_namespace("shop");
    Namespace("p", "shop").apply(&mut rig);
    if has_others {
        Create("p", "shop", "api", "DFW", 1).apply(&mut rig);
    }
    rest(COLLECTED).await;
    if is_restarted {
        rig.kill().await;
        rig.start();
        rest(COLLECTED).await;
    }
    rig.karmada.hold_bindings(false);
    rest(COLLECTED).await;
    assert_eq!(rig.projects["p"].get("WorkloadDeployment", "shop", "web"), None);
    assert_eq!(wrong(&rig), Vec::<String>::new());
}

#[test]
fn a_deployment_ends_though_its_namespace_was_made_again_around_it() {
    for (is_restarted, has_others) in [(false, false), (false, true), (true, false), (true, true)] {
        println!("restarted: {is_restarted}, others: {has_others}");
        simulate(ends_in_a_namespace_made_again(is_restarted, has_others));
    }
}

#[test]
fn a_binding_whose_template_is_there_is_never_deleted() {
    simulate(async {
        let rig = without_collector().await;
        rig.simulator.log().clear();
        // The index no longer shows the copies and companions that the hub has.
        for kind in ["WorkloadDeployment", "ConfigMap"] {
            rig.hub.serve_stale(kind, 1);
            rig.hub.compact();
            rig.hub.close_watches(Some(kind));
        }
        rest(COLLECTED).await;
        let log = rig.simulator.log().entries();
        let deletes = log.iter().filter(|entry| {
            entry.user.starts_with(GATEWAY)
                && entry.verb == Verb::Delete
                && &*entry.resource == "resourcebindings"
        });
        assert_eq!(deletes.count(), 0);
    });
}

#[test]
fn a_config_map_of_somebody_else_that_a_binding_names_is_left_alone() {
    simulate(async {
        let rig = without_collector().await;
        let hub = rig.hub.list("WorkloadDeployment")[0]["metadata"]["namespace"].clone();
        let namespace = hub.as_str().unwrap();
        let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "foreign", "namespace": namespace}, "data": {"a": "b"}});
        rig.hub.create(foreign).unwrap();
        let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "foreign-configmap", "namespace": namespace},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "foreign"}}});
        rig.hub.create(binding).unwrap();
        rest(COLLECTED).await;
        assert!(rig.hub.get("ConfigMap", namespace, "foreign").is_some());
        assert!(
            rig.hub
                .get("ResourceBinding", namespace, "foreign-configmap")
                .is_some()
        );
    });
}
