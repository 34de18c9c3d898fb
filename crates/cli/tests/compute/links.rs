//! `trace`: each link of the way, broken in turn (contract: cli.md §11, 62).

use crate::{
    cells,
    project::{NAMESPACE, Project},
};
use serde_json::{Value, json};
use std::time::Duration;

const DEPLOYMENT: &str = "WorkloadDeployment";
const NAME: &str = "web-us-dfw";

/// A project whose Workload of one city is whole.
struct Way {
    shop: Project,
}

fn condition(type_: &str, status: &str, reason: &str, generation: &Value) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

impl Way {
    async fn whole() -> Self {
        let shop = Project::start("shop").await;
        shop.workload("web", "nginx", &["DFW"]);
        cells::pass(&shop.plane);
        Self { shop }
    }

    fn deployment(&self) -> Value {
        (*self.shop.plane.get(DEPLOYMENT, NAMESPACE, NAME).unwrap()).clone()
    }

    /// Writes what the hub returns to the project: whether the deployment is delivered.
    fn federated(&self, status: &str, reason: &str) {
        let live = self.deployment();
        let generation = &live["metadata"]["generation"];
        let mut conditions = live["status"]["conditions"].clone();
        for found in conditions.as_array_mut().unwrap() {
            if found["type"] == "Federated" {
                *found = condition("Federated", status, reason, generation);
            }
        }
        self.shop
            .status(DEPLOYMENT, NAME, &json!({"conditions": conditions}));
    }

    /// Lets the cell lag behind the project's generation, which it will not act on.
    fn lag(&self) {
        let before = self.deployment()["metadata"]["generation"].clone();
        let change = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
        self.shop
            .plane
            .merge(DEPLOYMENT, NAMESPACE, NAME, change.clone())
            .unwrap();
        self.shop
            .plane
            .merge("Workload", NAMESPACE, "web", change)
            .unwrap();
        let generation = self.deployment()["metadata"]["generation"].clone();
        assert_ne!(before, generation);
        self.federated("True", "Delivered");
    }

    /// The exit code, the states of the hops, and the line about the first broken link.
    async fn traced(&self) -> (i32, Vec<String>, String) {
        let seen = self.shop.run(&["trace", "web", "-o", "json"]).await;
        assert_eq!(seen.stderr, "");
        let trace: Value = serde_json::from_str(&seen.stdout).unwrap();
        let hops = trace["cities"][0]["hops"].as_array().unwrap().iter();
        let states = hops.map(|hop| hop["state"].as_str().unwrap().to_owned());
        (
            seen.code,
            states.collect(),
            trace["message"].as_str().unwrap().to_owned(),
        )
    }
}

/// Breaks a link.
async fn broken(fault: impl Fn(&Way), states: [&str; 6], link: &str) {
    let way = Way::whole().await;
    fault(&way);
    let (code, seen, message) = way.traced().await;
    assert_eq!((code, seen), (9, states.map(str::to_owned).to_vec()), "{message}");
    assert!(
        message.starts_with(&format!("First broken link (us/DFW): {link}")),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_that_is_whole_is_whole() {
    let way = Way::whole().await;
    let (code, states, message) = way.traced().await;
    assert_eq!((code, &*message), (0, "Whole."), "{states:?}");
    assert_eq!(states, ["ok"; 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_deployment_breaks_the_link_to_the_project() {
    let unseen = "unseen";
    broken(
        |way| way.shop.plane.delete(DEPLOYMENT, NAMESPACE, NAME).unwrap(),
        ["broken", unseen, unseen, unseen, unseen, unseen],
        "workload -> project: -: no deployment for the city",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_is_not_delivered_breaks_the_link_to_hub_and_binding() {
    broken(
        |way| {
            way.lag();
            way.federated("False", "NoCellForCity");
        },
        ["ok", "broken", "unseen", "waiting", "waiting", "ok"],
        "project -> binding (binding unseen, the operator sees it): condition Federated: NoCellForCity",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_does_not_act_breaks_the_link_to_it() {
    broken(
        Way::lag,
        ["ok", "ok", "unseen", "broken", "waiting", "ok"],
        "hub -> cell (binding unseen, the operator sees it): web-us-dfw: still on generation 1",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_are_not_ready_break_the_link_to_them() {
    broken(
        |way| {
            let live = way.deployment();
            let mut status = live["status"].clone();
            status["readyReplicas"] = json!(1);
            way.shop.status(DEPLOYMENT, NAME, &status);
            let unready = condition("Ready", "False", "ImageUnavailable", &json!(1));
            way.shop.status(
                "Instance",
                &format!("{NAME}-1"),
                &json!({"conditions": [unready]}),
            );
        },
        ["ok", "ok", "ok", "ok", "broken", "ok"],
        "cell -> instances: 1 of 2 ready: 2 updated, 2 exist; web-us-dfw-1: ImageUnavailable",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_not_projected_breaks_the_link_to_the_projection() {
    broken(
        |way| {
            let name = format!("{NAME}-1");
            way.shop.plane.delete("Instance", NAMESPACE, &name).unwrap();
            way.shop.create(json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
                "metadata": {"name": "web.1", "namespace": NAMESPACE}, "action": "QuarantiningProjection",
                "eventTime": "2026-01-01T00:00:05.000000Z", "reason": "QuarantinedTooLarge", "note": "70000 bytes",
                "regarding": {"uid": way.deployment()["metadata"]["uid"]}}));
        },
        ["ok", "ok", "ok", "ok", "ok", "broken"],
        "instances -> projection: 1 of 2: 1 not in the project yet; quarantined at 2026-01-01T00:00:05Z: \
         QuarantinedTooLarge: 70000 bytes",
    )
    .await;
}

/// Lets the clock of the project's server show the present time, so that new objects are young.
fn in_the_present(shop: &Project) {
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let passed = jiff::Timestamp::now().duration_since(start);
    shop.plane.jump(Duration::try_from(passed).unwrap(), true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_deployment_is_moving_and_then_whole() {
    let shop = Project::start("shop").await;
    in_the_present(&shop);
    shop.workload("web", "nginx", &["DFW"]);
    let seen = shop.run(&["trace", "web"]).await;
    assert_eq!(seen.code, 7, "{}{}", seen.stdout, seen.stderr);
    assert!(
        seen.stdout.contains("Moving: us/DFW waits at project ("),
        "{}",
        seen.stdout
    );
    cells::pass(&shop.plane);
    let seen = shop.run(&["trace", "web"]).await.ok();
    assert!(seen.stdout.ends_with("Whole.\n"), "{}", seen.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_city_that_is_broken_beats_one_that_waits() {
    let shop = Project::start("shop").await;
    in_the_present(&shop);
    shop.workload("web", "nginx", &["LHR", "DFW"]);
    cells::pass(&shop.plane);
    shop.plane.delete(DEPLOYMENT, NAMESPACE, "web-us-lhr").unwrap();
    assert_eq!(shop.run(&["trace", "web"]).await.code, 7);
    let generation = shop.plane.get(DEPLOYMENT, NAMESPACE, NAME).unwrap()["metadata"]["generation"].clone();
    let refused = condition("Federated", "False", "NoCellForCity", &generation);
    shop.status(DEPLOYMENT, NAME, &json!({"conditions": [refused]}));
    let seen = shop.run(&["trace", "web"]).await;
    assert_eq!(seen.code, 9, "{}{}", seen.stdout, seen.stderr);
    assert!(
        seen.stdout
            .contains("First broken link (us/DFW): project -> binding"),
        "{}",
        seen.stdout
    );
}
