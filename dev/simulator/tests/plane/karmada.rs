//! Karmada's part of a hub.

use crate::client::{Client, named, plane};
use fedgate_simulator::{
    Plane, Simulator,
    karmada::{Cluster, Karmada, KarmadaOptions},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const CITY: &str = "city";

fn hub(delay: Duration) -> (Simulator, Plane, Client, Karmada) {
    let (simulator, plane, client) = plane();
    let options = KarmadaOptions {
        delay,
        clusters: vec![
            Cluster::new("dfw-1", CITY, "DFW"),
            Cluster::new("lhr-1", CITY, "LHR"),
        ],
        ..KarmadaOptions::default()
    };
    let karmada = Karmada::attach(&plane, options);
    (simulator, plane, client, karmada)
}

fn policy(name: &str, city: &str) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
    "metadata": {"name": name, "namespace": "default"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "g.dev/v1", "kind": "Gadget",
            "labelSelector": {"matchLabels": {CITY: city}}}],
        "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {CITY: city}}}},
    }})
}

fn gadget(name: &str, city: &str) -> Value {
    let mut gadget = named(name, &json!({"size": 1}));
    gadget["metadata"]["namespace"] = json!("default");
    gadget["metadata"]["labels"] = json!({CITY: city});
    gadget
}

fn binding(plane: &Plane) -> Option<Arc<Value>> {
    plane.get("ResourceBinding", "default", "a-gadget")
}

#[tokio::test]
async fn a_policy_is_completed_once() {
    let (_, plane, client, _) = hub(Duration::ZERO);
    let path = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies/city-dfw";
    let (code, made) = client
        .apply(path, "gateway", true, &policy("city-dfw", "DFW"))
        .await;
    assert_eq!(code, 201);
    assert!(made["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].is_string());
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["karmada.io/propagation-policy-controller"])
    );
    assert_eq!(made["spec"]["resourceSelectors"][0]["namespace"], "default");
    assert_eq!(
        (&made["spec"]["priority"], &made["spec"]["conflictResolution"]),
        (&json!(0), &json!("Abort"))
    );
    let revision = plane.revision();
    plane
        .merge(
            "PropagationPolicy",
            "default",
            "city-dfw",
            json!({"spec": {"priority": 0}}),
        )
        .unwrap();
    assert_eq!(plane.revision(), revision);
}

#[tokio::test]
async fn a_template_is_claimed_and_bound() {
    let (_, plane, _, _) = hub(Duration::ZERO);
    plane.create(gadget("a", "DFW")).unwrap();
    assert!(binding(&plane).is_none());
    plane.create(policy("city-dfw", "DFW")).unwrap();
    let template = plane.get("Gadget", "default", "a").unwrap();
    assert_eq!(
        template["metadata"]["annotations"]["propagationpolicy.karmada.io/name"],
        "city-dfw"
    );
    assert_eq!(template["metadata"]["generation"], 1);
    let bound = binding(&plane).unwrap();
    assert_eq!(
        bound["metadata"]["ownerReferences"][0]["uid"],
        template["metadata"]["uid"]
    );
    assert_eq!(bound["spec"]["clusters"], json!([{"name": "dfw-1"}]));
    assert_eq!(bound["status"]["aggregatedStatus"][0]["clusterName"], "dfw-1");
    for condition in bound["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition["status"], "True", "{condition}");
    }
}

#[tokio::test]
async fn a_city_move_is_a_new_claim() {
    let (_, plane, _, _) = hub(Duration::ZERO);
    plane.create(policy("city-dfw", "DFW")).unwrap();
    plane.create(policy("city-lhr", "LHR")).unwrap();
    plane.create(gadget("a", "DFW")).unwrap();
    // A label alone moves nothing: the claim stands.
    plane
        .merge(
            "Gadget",
            "default",
            "a",
            json!({"metadata": {"labels": {CITY: "LHR"}}}),
        )
        .unwrap();
    assert_eq!(
        binding(&plane).unwrap()["spec"]["clusters"],
        json!([{"name": "dfw-1"}])
    );
    let release = json!({"metadata": {
        "labels": {"propagationpolicy.karmada.io/permanent-id": null},
        "annotations": {"propagationpolicy.karmada.io/name": null, "propagationpolicy.karmada.io/namespace": null},
    }});
    plane.merge("Gadget", "default", "a", release).unwrap();
    let bound = binding(&plane).unwrap();
    assert_eq!(bound["spec"]["clusters"], json!([{"name": "lhr-1"}]));
    assert_eq!(
        bound["metadata"]["annotations"]["propagationpolicy.karmada.io/name"],
        "city-lhr"
    );
    plane.delete("PropagationPolicy", "default", "city-lhr").unwrap();
    assert!(plane.get("PropagationPolicy", "default", "city-lhr").is_none());
    let template = plane.get("Gadget", "default", "a").unwrap();
    assert_eq!(template["metadata"].get("annotations"), None);
    assert_eq!(
        binding(&plane).unwrap()["spec"]["clusters"],
        json!([{"name": "lhr-1"}]),
        "nothing is withdrawn"
    );
}

#[tokio::test]
async fn clusters_come_and_go() {
    let (_, plane, _, karmada) = hub(Duration::ZERO);
    plane.create(policy("city-ams", "AMS")).unwrap();
    plane.create(gadget("a", "AMS")).unwrap();
    let bound = binding(&plane).unwrap();
    assert_eq!(bound["status"]["conditions"][0]["reason"], "NoClusterFit");
    karmada.join(&Cluster::new("ams-1", CITY, "AMS"));
    assert_eq!(
        binding(&plane).unwrap()["spec"]["clusters"],
        json!([{"name": "ams-1"}])
    );
    karmada.ready("ams-1", false);
    let kept = binding(&plane).unwrap();
    assert_eq!(kept["spec"]["clusters"], json!([{"name": "ams-1"}]));
    assert_eq!(kept["status"]["conditions"][0]["status"], "True");
    plane.create(gadget("b", "AMS")).unwrap();
    let new = plane.get("ResourceBinding", "default", "b-gadget").unwrap();
    assert_eq!(new["spec"].get("clusters"), None);
    assert_eq!(
        new["status"]["conditions"][0]["reason"], "NoClusterFit",
        "a cluster that is not ready keeps what it has and gets nothing new"
    );
}

#[tokio::test]
async fn a_binding_goes_with_its_template_or_is_held() {
    let (_, plane, _, karmada) = hub(Duration::ZERO);
    plane.create(policy("city-dfw", "DFW")).unwrap();
    plane.create(gadget("a", "DFW")).unwrap();
    plane.delete("Gadget", "default", "a").unwrap();
    assert!(binding(&plane).is_none());
    karmada.hold_bindings(true);
    plane.create(gadget("a", "DFW")).unwrap();
    plane.delete("Gadget", "default", "a").unwrap();
    let held = binding(&plane).unwrap();
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let again = plane.create(gadget("a", "DFW")).unwrap();
    assert_eq!(
        binding(&plane).unwrap()["metadata"]["uid"],
        held["metadata"]["uid"]
    );
    karmada.release("default", "a-gadget");
    let bound = binding(&plane).unwrap();
    assert_eq!(
        bound["metadata"]["ownerReferences"][0]["uid"],
        again["metadata"]["uid"]
    );
}

#[tokio::test]
async fn a_namespace_is_claimed_by_a_cluster_policy() {
    let (_, plane, _, _) = hub(Duration::ZERO);
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
    "metadata": {"name": "cities-dfw"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace",
            "labelSelector": {"matchLabels": {"cities": "dfw"}}}],
        "placement": {"clusterAffinity": {"labelSelector": {"matchExpressions":
            [{"key": CITY, "operator": "In", "values": ["DFW", "AMS"]}]}}},
    }});
    plane.create(policy).unwrap();
    let space = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "ns-1", "labels": {"cities": "dfw"}}});
    plane.create(space).unwrap();
    let bound = plane.get("ClusterResourceBinding", "", "ns-1-namespace").unwrap();
    assert_eq!(bound["spec"]["clusters"], json!([{"name": "dfw-1"}]));
    plane.delete("Namespace", "", "ns-1").unwrap();
    assert!(plane.list("ClusterResourceBinding").is_empty());
}

#[tokio::test(start_paused = true)]
async fn karmada_takes_its_time() {
    let (_, plane, _, _) = hub(Duration::from_millis(100));
    plane.create(policy("city-dfw", "DFW")).unwrap();
    plane.create(gadget("a", "DFW")).unwrap();
    let begun = tokio::time::Instant::now();
    let mut changed = plane.changed();
    while binding(&plane).is_none_or(|binding| binding["status"]["aggregatedStatus"].is_null()) {
        changed.changed().await.unwrap();
    }
    let steps = begun.elapsed().as_millis() / 100;
    assert!(
        (3..=5).contains(&steps),
        "claim, binding, schedule and status, each after the delay: {steps}"
    );
}
