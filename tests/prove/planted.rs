//! A violation of each of I1–I8, planted and seen: what no rule would catch, no run proves.
//!
//! Two tenants come to rest, the gateway is killed, and its user does to the planes what it must never do.

use crate::{
    end::left_over,
    invariants::{Watchman, restless},
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::STEP,
};
use bytes::Bytes;
use fedgate_api::keys;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "apis/compute.datumapis.com/v1alpha/namespaces";
const POLICIES: &str = "apis/policy.karmada.io/v1alpha1/namespaces";

/// Two tenants at rest: `p` has `web` in Dallas and `api` in London, `q` has `shop` in Dallas.
struct Scene {
    rig: Rig,
    /// The hub namespace of `p`.
    hub: String,
}

impl Scene {
    /// What the gateway's user asks of a plane; it must be done.
    async fn ask(&self, method: Method, plane: &str, path: &str, body: &Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/{path}"))
            .header("content-type", "application/merge-patch+json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let mut gateway = self.rig.simulator.service(plane, GATEWAY);
        let answer = tower::Service::call(&mut gateway, request).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }

    async fn patch(&self, plane: &str, path: &str, body: Value) {
        self.ask(Method::PATCH, plane, path, &body).await;
    }

    async fn delete(&self, plane: &str, path: &str) {
        self.ask(Method::DELETE, plane, path, &json!({})).await;
    }

    async fn create(&self, plane: &str, path: &str, mut body: Value) {
        let metadata = body["metadata"].as_object_mut().unwrap();
        for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(key);
        }
        self.ask(Method::POST, plane, path, &body).await;
    }

    fn copy(&self, name: &str) -> Value {
        let copy = self.rig.hub.get("WorkloadDeployment", &self.hub, name).unwrap();
        Value::clone(&copy)
    }

    /// The path of a deployment's copy, or of an Instance.
    fn on_hub(&self, plural: &str, name: &str) -> String {
        format!("{DEPLOYMENTS}/{}/{plural}/{name}", self.hub)
    }

    /// The path of a city policy.
    fn policy(&self, name: &str) -> String {
        format!("{POLICIES}/{}/propagationpolicies/{name}", self.hub)
    }
}

/// The path of a deployment or an Instance of a project.
fn own(plural: &str, name: &str) -> String {
    format!("{DEPLOYMENTS}/default/{plural}/{name}")
}

/// The rules that are violated by what is planted, each once.
fn violated(plant: impl AsyncFnOnce(&Scene)) -> Vec<String> {
    simulate(async {
        let mut rig = Rig::new(1, &["p", "q"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        Create("p", "default", "api", "LHR", 1).apply(&mut rig);
        Create("q", "default", "shop", "DFW", 1).apply(&mut rig);
        rest(STEP).await;
        rig.kill().await;
        let mut watchman = Watchman::default();
        let mut lines = watchman.violations(&rig.simulator.take_changes());
        lines.extend(watchman.crossings(&rig.simulator.log().entries()));
        lines.extend(left_over(&rig));
        assert_eq!(lines, Vec::<String>::new(), "before anything is planted");
        rig.simulator.log().clear();
        let namespace = rig.projects["p"].get("Namespace", "", "default").unwrap();
        let hub = format!("ns-{}", namespace["metadata"]["uid"].as_str().unwrap());
        let scene = Scene { rig, hub };
        plant(&scene).await;
        let lines = watchman.violations(&scene.rig.simulator.take_changes());
        let crossings = watchman.crossings(&scene.rig.simulator.log().entries());
        let left_over = left_over(&scene.rig);
        let mut rules: Vec<String> = lines
            .iter()
            .chain(&crossings)
            .chain(&left_over)
            .map(|line| rule(line).unwrap_or_else(|| panic!("no rule is named: {line}")))
            .collect();
        rules.sort();
        rules.dedup();
        rules
    })
}

/// The rule that a line names.
pub(crate) fn rule(line: &str) -> Option<String> {
    let mut words = line.split(": ");
    let is_rule = |word: &&str| word.len() == 2 && (word.starts_with('I') || word.starts_with('C'));
    words.find(is_rule).map(str::to_owned)
}

#[test]
fn i1_a_projection_without_its_owner() {
    let found = violated(async |scene| {
        let patch = json!({"metadata": {"ownerReferences": null}});
        scene.patch("p", &own("instances", "web-0"), patch).await;
    });
    assert_eq!(found, ["I1"]);
}

#[test]
fn i1_a_projection_of_a_dead_deployment() {
    let found = violated(async |scene| {
        let instance = scene.rig.projects["p"]
            .get("Instance", "default", "web-0")
            .unwrap();
        let mut owners = instance["metadata"]["ownerReferences"].clone();
        owners[0]["uid"] = json!("of-an-earlier-life");
        let patch = json!({"metadata": {"ownerReferences": owners}});
        scene.patch("p", &own("instances", "web-0"), patch).await;
    });
    assert_eq!(found, ["I1"]);
}

#[test]
fn i2_a_copy_that_outlives_its_origin() {
    let found = violated(async |scene| {
        // By hand, so that nothing but what is left over is wrong.
        let plane = &scene.rig.projects["p"];
        let free = json!({"metadata": {"finalizers": null}});
        plane.merge("WorkloadDeployment", "default", "web", free).unwrap();
        plane.delete("WorkloadDeployment", "default", "web").unwrap();
    });
    assert_eq!(found, ["I2"]);
}

#[test]
fn i2_a_binding_that_outlives_its_copy() {
    let found = violated(async |scene| {
        scene.rig.karmada.hold_bindings(true);
        let plane = &scene.rig.projects["p"];
        let free = json!({"metadata": {"finalizers": null}});
        plane.merge("WorkloadDeployment", "default", "web", free).unwrap();
        plane.delete("WorkloadDeployment", "default", "web").unwrap();
        scene
            .rig
            .hub
            .delete("WorkloadDeployment", &scene.hub, "web")
            .unwrap();
    });
    assert_eq!(found, ["I2"]);
}

#[test]
fn i3_a_finalizer_that_goes_before_the_copy() {
    let found = violated(async |scene| {
        let free = json!({"metadata": {"finalizers": null}});
        scene.patch("p", &own("workloaddeployments", "web"), free).await;
    });
    assert_eq!(found, ["I3"]);
}

#[test]
fn i3_a_finalizer_that_goes_before_the_binding() {
    let found = violated(async |scene| {
        scene.rig.karmada.hold_bindings(true);
        scene
            .delete(HUB, &scene.on_hub("workloaddeployments", "web"))
            .await;
        let bindings = scene.rig.hub.list("ResourceBinding");
        assert_eq!(bindings.len(), 3, "the binding waits for its cell");
        let free = json!({"metadata": {"finalizers": null}});
        scene.patch("p", &own("workloaddeployments", "web"), free).await;
    });
    // The binding is of no copy, and will be left over.
    assert_eq!(found, ["I2", "I3"]);
}

#[test]
fn i4_a_projection_out_of_anothers_hub_namespace() {
    let found = violated(async |scene| {
        let relabel = json!({"metadata": {"labels": {keys::UPSTREAM_CLUSTER: "cluster-q"}}});
        scene.rig.hub.merge("Namespace", "", &scene.hub, relabel).unwrap();
        let patch = json!({"metadata": {"labels": {"touched": "yes"}}});
        scene.patch("p", &own("instances", "web-0"), patch).await;
    });
    assert_eq!(found, ["I4"]);
}

#[test]
fn i5_a_copy_of_an_older_generation() {
    let found = violated(async |scene| {
        let patch = json!({"metadata": {"annotations": {keys::SOURCE_GENERATION: "0"}}});
        let web = scene.on_hub("workloaddeployments", "web");
        scene.patch(HUB, &web, patch).await;
    });
    assert_eq!(found, ["I5"]);
}

#[test]
fn i6_a_policy_that_goes_under_its_copy() {
    let found = violated(async |scene| scene.delete(HUB, &scene.policy("city-dfw")).await);
    assert_eq!(found, ["I6"]);
}

#[test]
fn i6_a_policy_that_lingers_serves_nobody() {
    let found = violated(async |scene| {
        // Nobody uses it, so it may go; someone's finalizer holds it.
        let api = scene.copy("api");
        scene
            .delete(HUB, &scene.on_hub("workloaddeployments", "api"))
            .await;
        let hold = json!({"metadata": {"finalizers": ["example.com/held"]}});
        let hub = &scene.rig.hub;
        hub.merge("PropagationPolicy", &scene.hub, "city-lhr", hold)
            .unwrap();
        scene.delete(HUB, &scene.policy("city-lhr")).await;
        let lingers = hub.get("PropagationPolicy", &scene.hub, "city-lhr").unwrap();
        assert!(!lingers["metadata"]["deletionTimestamp"].is_null());
        let copies = scene.on_hub("workloaddeployments", "");
        scene.create(HUB, copies.trim_end_matches('/'), api).await;
    });
    assert_eq!(found, ["I6"]);
}

#[test]
fn i6_what_controllers_remove_is_of_who_asked_for_it() {
    let found = violated(async |scene| {
        let namespace = format!("api/v1/namespaces/{}", scene.hub);
        scene.delete(HUB, &namespace).await;
    });
    assert!(found.contains(&"I6".to_owned()), "{found:?}");
}

#[test]
fn i6_a_city_that_leaves_the_set_before_its_write_backs() {
    let found = violated(async |scene| {
        // The write-back lost its owner, so that it outlives the copy.
        let hub = &scene.rig.hub;
        let orphan = json!({"metadata": {"ownerReferences": null}});
        hub.merge("Instance", &scene.hub, "api-0", orphan).unwrap();
        scene
            .delete(HUB, &scene.on_hub("workloaddeployments", "api"))
            .await;
        let only = hub.list("ClusterPropagationPolicy");
        assert!(only.iter().any(|p| p["metadata"]["name"] == "cities-dfw"));
        let narrow = json!({"metadata": {"labels": {keys::CITIES: "dfw"}}});
        let namespace = format!("api/v1/namespaces/{}", scene.hub);
        scene.patch(HUB, &namespace, narrow).await;
    });
    assert_eq!(found, ["I6"]);
}

#[test]
fn i6_a_hands_edit_excuses_its_own_city_alone() {
    let found = violated(async |scene| {
        let hub = &scene.rig.hub;
        hub.delete("PropagationPolicy", &scene.hub, "city-dfw").unwrap();
        let edit = json!({"metadata": {"annotations": {keys::SUSPENDED: "true"}}});
        let web = scene.on_hub("workloaddeployments", "web");
        scene.patch(HUB, &web, edit).await;
    });
    assert_eq!(found, [""; 0], "nobody could know");
    let found = violated(async |scene| {
        let hub = &scene.rig.hub;
        hub.delete("PropagationPolicy", &scene.hub, "city-dfw").unwrap();
        scene.delete(HUB, &scene.policy("city-lhr")).await;
    });
    assert_eq!(found, ["I6"]);
}

#[test]
fn i7_a_project_that_gets_what_no_cell_wrote_for_it() {
    let found = violated(async |scene| {
        let (p, q) = (&scene.rig.projects["p"], &scene.rig.projects["q"]);
        let shop = q.get("WorkloadDeployment", "default", "shop").unwrap();
        let mut forged = Value::clone(&p.get("Instance", "default", "web-0").unwrap());
        forged["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME] = json!("shop");
        let owner = &mut forged["metadata"]["ownerReferences"][0];
        owner["name"] = json!("shop");
        owner["uid"] = shop["metadata"]["uid"].clone();
        scene
            .create("q", &format!("{DEPLOYMENTS}/default/instances"), forged)
            .await;
    });
    assert_eq!(found, ["I7"]);
}

#[test]
fn i7_a_copy_in_anothers_hub_namespace() {
    let found = violated(async |scene| {
        let q = &scene.rig.projects["q"];
        let shop = q.get("WorkloadDeployment", "default", "shop").unwrap();
        let web = scene.on_hub("workloaddeployments", "web");
        let patch = json!({"metadata": {"annotations": {keys::SOURCE_UID: shop["metadata"]["uid"]}}});
        scene.patch(HUB, &web, patch).await;
    });
    // Neither tenant's deployment stands behind it then.
    assert!(found.contains(&"I7".to_owned()), "{found:?}");
}

#[test]
fn i7_a_project_that_is_asked_for_anothers_object() {
    let found = violated(async |scene| {
        let request = Request::get(format!("/{}", own("workloaddeployments", "web")))
            .body(Full::new(Bytes::new()))
            .unwrap();
        let mut gateway = scene.rig.simulator.service("q", GATEWAY);
        let answer = tower::Service::call(&mut gateway, request).await.unwrap();
        assert_eq!(answer.status(), 404);
    });
    assert_eq!(found, ["I7"]);
}

#[test]
fn i8_a_write_at_rest() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(STEP).await;
        rig.kill().await;
        rig.simulator.log().clear();
        assert_eq!(restless(&rig.simulator.log().entries()), Vec::<String>::new());
        let hub = String::new();
        let scene = Scene { rig, hub };
        // It changes nothing, and is a write all the same.
        scene
            .patch("p", &own("instances", "web-0"), json!({"metadata": {}}))
            .await;
        let lines = restless(&scene.rig.simulator.log().entries());
        let rules: Vec<_> = lines.iter().filter_map(|line| rule(line)).collect();
        assert_eq!(rules, ["I8"]);
    });
}
