//! `trace`: each link of the way, broken in turn, with project access alone and with hub and cell (contract: cli.md §11, 62).

use crate::{
    cells,
    project::{NAMESPACE, Project, instance},
};
use fedgate_api::keys;
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::time::Duration;

/// The longest wait for a change; a run that hangs must end the test.
const LIMIT: Duration = Duration::from_secs(60);

const DEPLOYMENT: &str = "WorkloadDeployment";
const NAME: &str = "web-us-dfw";
const BINDING: &str = "web-us-dfw-workloaddeployment";

/// A Workload of one city that is whole on all planes.
struct Way {
    shop: Project,
    hub: Plane,
    cell: Plane,
    namespace: String,
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
        let (hub, cell) = (shop.beside("hub"), shop.beside("pop-dfw"));
        let own = shop.plane.get("Namespace", "", NAMESPACE).unwrap();
        let namespace = format!("ns-{}", own["metadata"]["uid"].as_str().unwrap());
        let way = Self {
            shop,
            hub,
            cell,
            namespace,
        };
        way.fill_hub();
        way.fill_cell();
        way
    }

    fn fill_hub(&self) {
        let (hub, namespace) = (&self.hub, &self.namespace);
        let deployment = self.deployment();
        let selector = json!({"matchLabels": {keys::CITY_CODE: "DFW"}});
        let expressions = json!([{"key": keys::CITY_CODE, "operator": "In", "values": ["DFW"]}]);
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {keys::CITIES: "dfw"}}}),
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
                "metadata": {"name": "cities-dfw"}, "spec": {"resourceSelectors": [], "placement":
                    {"clusterAffinity": {"labelSelector": {"matchExpressions": expressions}}}}}),
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": {"name": "city-dfw", "namespace": namespace},
                "spec": {"placement": {}, "resourceSelectors": [{"labelSelector": selector}]}}),
            json!({"apiVersion": fedgate_api::API_VERSION, "kind": DEPLOYMENT,
                "metadata": {"name": NAME, "namespace": namespace, "labels": {keys::CITY_CODE: "DFW"},
                    "annotations": {keys::SOURCE_UID: deployment["metadata"]["uid"],
                        keys::SOURCE_GENERATION: deployment["metadata"]["generation"].to_string(),
                        keys::CLAIM_NAME: "city-dfw"}},
                "spec": deployment["spec"]}),
            json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
                "metadata": {"name": BINDING, "namespace": namespace},
                "spec": {"clusters": [{"name": "pop-dfw"}]}}),
            json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "pop-dfw"}}),
        ] {
            hub.create(object).unwrap();
        }
        self.bind(
            &condition("Scheduled", "True", "Success", &json!(1)),
            &json!({"applied": true}),
        );
        self.cluster("True", "ClusterReady");
        self.copy_instances(hub);
    }

    fn fill_cell(&self) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.cell.create(namespace).unwrap();
        let copy = self.hub.get(DEPLOYMENT, &self.namespace, NAME).unwrap();
        let generation = copy["metadata"]["generation"].to_string();
        self.cell
            .create(json!({"apiVersion": fedgate_api::API_VERSION, "kind": DEPLOYMENT,
                "metadata": {"name": NAME, "namespace": self.namespace,
                    "annotations": {"resourcetemplate.karmada.io/generation": generation}},
                "spec": copy["spec"]}))
            .unwrap();
        self.copy_instances(&self.cell);
    }

    fn copy_instances(&self, plane: &Plane) {
        for ordinal in 0..2 {
            let name = format!("{NAME}-{ordinal}");
            let mut copy = instance(&name, &json!({keys::WORKLOAD_DEPLOYMENT_NAME: NAME}));
            copy["metadata"]["namespace"] = json!(self.namespace);
            plane.create(copy).unwrap();
            let ready = json!({"status": {"conditions": [condition("Ready", "True", "Ready", &json!(1))]}});
            plane
                .merge_status("Instance", &self.namespace, &name, ready)
                .unwrap();
        }
    }

    fn deployment(&self) -> Value {
        (*self.shop.plane.get(DEPLOYMENT, NAMESPACE, NAME).unwrap()).clone()
    }

    /// Writes the status of the binding; the item is the cluster's, and reports a status.
    fn bind(&self, scheduled: &Value, item: &Value) {
        let mut item = item.clone();
        item["clusterName"] = json!("pop-dfw");
        item["status"] = json!({"replicas": 2});
        let applied = if item["applied"] == true { "True" } else { "False" };
        let applied = condition("FullyApplied", applied, "FullyApplied", &json!(1));
        let status = json!({"status": {"conditions": [scheduled, applied], "aggregatedStatus": [item]}});
        self.hub
            .merge_status("ResourceBinding", &self.namespace, BINDING, status)
            .unwrap();
    }

    fn cluster(&self, ready: &str, reason: &str) {
        let status = json!({"status": {"conditions": [condition("Ready", ready, reason, &json!(1))]}});
        self.hub.merge_status("Cluster", "", "pop-dfw", status).unwrap();
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
        let carried = json!({"metadata": {"annotations": {keys::SOURCE_GENERATION: generation.to_string()}}});
        self.hub
            .merge(DEPLOYMENT, &self.namespace, NAME, carried)
            .unwrap();
    }

    /// The exit code, the states of the hops, and the line about the first broken link.
    async fn traced(&self, flags: &[&str]) -> (i32, Vec<String>, String) {
        let words = [&["trace", "web", "-o", "json"], flags].concat();
        let seen = self.shop.run(&words).await;
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

const ALL: [&str; 4] = ["--hub-context", "hub", "--cell", "DFW=pop-dfw"];

/// Breaks a link; the parts of the lines are those with project access alone and with hub and cell.
async fn broken(fault: impl Fn(&Way), states: [&str; 6], alone: &str, all: &str) {
    let way = Way::whole().await;
    fault(&way);
    let seen = way.traced(&[]).await;
    assert_eq!(
        (seen.0, seen.1),
        (9, states.map(str::to_owned).to_vec()),
        "{}",
        seen.2
    );
    assert!(
        seen.2
            .starts_with(&format!("First broken link (us/DFW): {alone}")),
        "{}",
        seen.2
    );
    let seen = way.traced(&ALL).await;
    assert_eq!(seen.0, 9, "{}", seen.2);
    assert!(
        seen.2.starts_with(&format!("First broken link (us/DFW): {all}")),
        "{}",
        seen.2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_that_is_whole_is_whole_with_every_access() {
    let way = Way::whole().await;
    let cases = [
        &[][..],
        &["--hub-context", "hub"],
        &["--cell", "DFW=pop-dfw"],
        &ALL,
        &["--hub-context", "hub", "--via-hub"],
    ];
    let before = (way.hub.writes(), way.cell.writes());
    for flags in cases {
        let (code, states, message) = way.traced(flags).await;
        assert_eq!((code, &*message), (0, "Whole."), "{flags:?}: {states:?}");
        assert_eq!(states, ["ok"; 6], "{flags:?}");
    }
    assert_eq!(
        (way.hub.writes(), way.cell.writes()),
        before,
        "they are only read"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_deployment_breaks_the_link_to_the_project() {
    let unseen = "unseen";
    broken(
        |way| way.shop.plane.delete(DEPLOYMENT, NAMESPACE, NAME).unwrap(),
        ["broken", unseen, unseen, unseen, unseen, unseen],
        "workload -> project: -: no deployment for the city",
        "workload -> project: -: no deployment for the city",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_copy_breaks_the_link_to_the_hub() {
    broken(
        |way| {
            way.lag();
            way.federated("False", "HubRefused");
            way.hub.delete(DEPLOYMENT, &way.namespace, NAME).unwrap();
        },
        ["ok", "broken", "unseen", "waiting", "waiting", "ok"],
        "project -> binding (binding unseen, see --hub-context): condition Federated: HubRefused",
        "project -> hub: ",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_is_not_scheduled_breaks_the_link_to_it() {
    broken(
        |way| {
            way.lag();
            way.federated("False", "NoCellForCity");
            way.bind(
                &condition("Scheduled", "False", "NoClusterFit", &json!(1)),
                &json!({"applied": true}),
            );
        },
        ["ok", "broken", "unseen", "waiting", "waiting", "ok"],
        "project -> binding (binding unseen, see --hub-context): condition Federated: NoCellForCity",
        "hub -> binding: web-us-dfw-workloaddeployment: NoClusterFit",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_was_not_applied_breaks_the_link_to_the_binding() {
    broken(
        |way| {
            way.lag();
            way.federated("False", "ApplyFailed");
            let item = json!({"applied": null, "appliedMessage": "refused by a webhook"});
            way.bind(&condition("Scheduled", "True", "Success", &json!(1)), &item);
        },
        ["ok", "broken", "unseen", "waiting", "waiting", "ok"],
        "project -> binding (binding unseen, see --hub-context): condition Federated: ApplyFailed",
        "hub -> binding: web-us-dfw-workloaddeployment: not applied to pop-dfw: refused by a webhook",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_ready_breaks_the_link_to_the_cell() {
    broken(
        |way| {
            way.lag();
            way.cluster("False", "ClusterNotReachable");
        },
        ["ok", "ok", "unseen", "broken", "waiting", "ok"],
        "hub -> cell (binding unseen, see --hub-context): web-us-dfw: still on generation 1",
        "binding -> cell: pop-dfw: cluster not Ready: ClusterNotReachable",
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
            let unready = json!({"status": {"conditions": [unready]}});
            for (plane, namespace) in [
                (&way.shop.plane, NAMESPACE),
                (&way.hub, &*way.namespace),
                (&way.cell, &*way.namespace),
            ] {
                let name = format!("{NAME}-1");
                plane
                    .merge_status("Instance", namespace, &name, unready.clone())
                    .unwrap();
            }
        },
        ["ok", "ok", "ok", "ok", "broken", "ok"],
        "cell -> instances: 1 of 2 ready: 2 updated, 2 exist; web-us-dfw-1: ImageUnavailable",
        "cell -> instances: 1 of 2 ready: web-us-dfw-1: ImageUnavailable",
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
        "instances -> projection: 1 of 2: 1 not in the project yet; quarantined",
    )
    .await;
    broken_on_the_hub().await;
}

/// Only the hub shows that an Instance of the project is not what a cell has written.
async fn broken_on_the_hub() {
    let way = Way::whole().await;
    way.hub
        .delete("Instance", &way.namespace, &format!("{NAME}-1"))
        .unwrap();
    assert_eq!(way.traced(&[]).await.0, 0);
    let (code, states, message) = way.traced(&ALL).await;
    assert_eq!((code, &*states[5]), (9, "broken"));
    assert!(
        message.contains("web-us-dfw-1 is in the project and not on the hub"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_shows_that_it_lacks_the_object_also_without_the_hub_and_through_it() {
    let way = Way::whole().await;
    way.lag();
    way.cell.delete(DEPLOYMENT, &way.namespace, NAME).unwrap();
    let alone = way.traced(&["--cell", "DFW=pop-dfw"]).await;
    assert_eq!(alone.0, 9);
    assert_eq!(
        alone.1,
        ["ok", "ok", "unseen", "broken", "waiting", "ok"],
        "the hub is not claimed to be well"
    );
    assert!(
        alone
            .2
            .contains("hub -> cell (binding unseen, see --hub-context): DFW/web-us-dfw: not in the cell"),
        "{}",
        alone.2
    );
    let through = way.traced(&["--hub-context", "hub", "--via-hub"]).await;
    assert_eq!(through.0, 9);
    assert!(
        through
            .2
            .contains("binding -> cell: pop-dfw/web-us-dfw: not in the cell"),
        "{}",
        through.2
    );
    let needs_hub = way.shop.run(&["trace", "web", "--via-hub"]).await;
    assert_eq!(needs_hub.code, 2, "{}", needs_hub.stderr);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_watches_follows_hub_and_cell_too() {
    let way = Way::whole().await;
    way.lag();
    way.cluster("False", "ClusterNotReachable");
    way.cell.delete(DEPLOYMENT, &way.namespace, NAME).unwrap();
    let words = [&["trace", "web", "-w", "-o", "json"][..], &ALL].concat();
    let mut watch = way.shop.start_run(&words);
    let mut until = async |detail: &str| {
        let found = async {
            loop {
                let seen = watch.json().await;
                if seen["cities"][0]["hops"][3]["detail"] == detail {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, found).await.unwrap();
    };
    until("cluster not Ready: ClusterNotReachable").await;
    way.cluster("True", "ClusterReady");
    until("not in the cell").await;
    let copy = way.hub.get(DEPLOYMENT, &way.namespace, NAME).unwrap();
    let generation = copy["metadata"]["generation"].to_string();
    let delivered = json!({"apiVersion": fedgate_api::API_VERSION, "kind": DEPLOYMENT,
        "metadata": {"name": NAME, "namespace": way.namespace,
            "annotations": {"resourcetemplate.karmada.io/generation": generation}},
        "spec": copy["spec"]});
    way.cell.create(delivered).unwrap();
    until("delivered; still on generation 1").await;
    let generation = way.deployment()["metadata"]["generation"].clone();
    let conditions = ["Available", "ReplicasReady", "Federated"];
    let conditions = conditions.map(|type_| condition(type_, "True", "Ready", &generation));
    way.shop
        .status(DEPLOYMENT, NAME, &json!({"conditions": conditions}));
    let end = tokio::time::timeout(LIMIT, watch.end()).await.unwrap().ok();
    let last: Value = serde_json::from_str(end.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["state"], "Whole");
}
