//! Cells of provider `clusterAPI`. No Cluster API runs here: the test writes the values and conditions that its webhooks and controllers would
//! write.

use super::{Provisioner, one_says, says, start_program};
use crate::support::{
    Case, Wish, condition,
    kinds::{CELL, CLUSTER, DEFINITION, Kind, NAMESPACE, ROLE_BINDING, SECRET, kind},
    lone_trials,
    plane::Plane,
    seconds,
    suite::{NEW, NewCell},
    with_cleanup,
};
use fedgate_manifests::PROVISIONER;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

lone_trials![
    p11_a_cluster_is_created_used_changed_and_deleted_with_its_cell,
    p12_a_cluster_that_exists_is_used_and_left,
];

const CLUSTER_API_CLUSTER: Kind = kind("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", true);
/// Namespace of the Clusters of Cluster API.
const CLUSTERS: &str = "capi";
const ROLE: &str = "fedgate-provisioner-cluster-api";

/// A running provisioner whose home cluster serves kind Cluster of Cluster API.
struct World {
    case: Case,
    new: NewCell,
    provisioner: Provisioner,
}

impl World {
    async fn new(case: Case) -> Self {
        let new = case.suite.new_cell().await;
        let flags = [
            "--providers",
            "existing,clusterAPI",
            "--cluster-api-namespaces",
            CLUSTERS,
        ];
        let provisioner = Provisioner::with(&case, &new, &flags).await;
        let world = Self {
            case,
            new,
            provisioner,
        };
        let home = world.home();
        home.create(&DEFINITION, "", definition()).await;
        let served = json!({"metadata": {"name": "probe"}, "spec": {}});
        home.create(&NAMESPACE, "", json!({"metadata": {"name": CLUSTERS}}))
            .await;
        let binding = json!({"metadata": {"name": PROVISIONER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": PROVISIONER, "namespace": PROVISIONER}]});
        home.create(&ROLE_BINDING, CLUSTERS, binding).await;
        let is_served = async || {
            home.would_create(&CLUSTER_API_CLUSTER, CLUSTERS, served.clone())
                .await
                .then_some(())
        };
        crate::support::wait_for("Clusters are served", seconds(30), is_served).await;
        world.provisioner.start().await;
        world
    }

    fn home(&self) -> &Plane {
        &self.provisioner.home
    }

    async fn says(&self, of: &str, status: &str, reason: &str) -> Value {
        says(&self.case.hub, of, status, reason).await
    }

    /// Changes annotation fedgate.dev/retry, because the provisioner does not watch Clusters of Cluster API.
    async fn retry(&self, word: &str) {
        let patch = json!({"metadata": {"annotations": {"fedgate.dev/retry": word}}});
        self.case.hub.merge(&CELL, "", NEW.0, patch).await;
    }

    /// Writes these conditions to the Cluster, and lets the steps run.
    async fn set_conditions(&self, cluster: &str, conditions: &[(&str, &str)]) {
        let one = |(of, status): &(&str, &str)| json!({"type": of, "status": status, "reason": "Test", "message": "* of the test"});
        let all: Vec<Value> = conditions.iter().map(one).collect();
        let status = json!({"conditions": all});
        self.home()
            .merge_status(&CLUSTER_API_CLUSTER, CLUSTERS, cluster, status)
            .await;
        self.retry(&format!("{conditions:?}")).await;
    }

    /// The kubeconfig that Cluster API keeps for administrators.
    async fn create_kubeconfig(&self, cluster: &str) {
        let text = std::fs::read(&self.new.cell).expect("read the administrator's kubeconfig");
        let name = format!("{cluster}-kubeconfig");
        let labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        let secret =
            json!({"metadata": {"name": name, "labels": labels}, "data": {"value": ByteString(text)}});
        self.home().create(&SECRET, CLUSTERS, secret).await;
    }

    async fn clean_up(&self) {
        self.new.role.stop().await;
        self.provisioner.role.stop().await;
        let home = self.home();
        home.delete(&DEFINITION, "", "clusters.cluster.x-k8s.io").await;
        home.delete(&NAMESPACE, "", CLUSTERS).await;
        home.gone(&NAMESPACE, "", CLUSTERS, seconds(60)).await;
    }
}

fn definition() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let named = |item: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item});
    let mut entry = any.clone();
    entry["properties"] = json!({"name": {"type": "string"}});
    entry["required"] = json!(["name"]);
    let mut topology = any.clone();
    let mut workers = any.clone();
    workers["properties"] = json!({"machineDeployments": named(entry.clone())});
    topology["properties"] = json!({"variables": named(entry), "workers": workers});
    let mut spec = any.clone();
    spec["properties"] = json!({"topology": topology});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": any}});
    json!({"metadata": {"name": "clusters.cluster.x-k8s.io"}, "spec": {
        "group": "cluster.x-k8s.io", "scope": "Namespaced", "names": {"kind": "Cluster", "plural": "clusters"},
        "versions": [{"name": "v1beta2", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}}]}})
}

/// A Cell without agent.image.
fn cell(name: &str, of: &Value) -> Value {
    let mut provider = of.clone();
    provider["namespace"] = json!(CLUSTERS);
    json!({"metadata": {"name": name}, "spec": {"city": NEW.1, "provider": {"clusterAPI": provider}}})
}

fn topology(workers: u8) -> Value {
    json!({"variables": [{"name": "image", "value": "edge"}],
        "classRef": {"name": "edge"}, "version": "v1.36.3",
        "workers": {"machineDeployments": [{"class": "default", "name": "a", "replicas": workers}]}})
}

const UP: [(&str, &str); 4] = [
    ("InfrastructureReady", "True"),
    ("ControlPlaneInitialized", "True"),
    ("ControlPlaneAvailable", "True"),
    ("WorkersAvailable", "True"),
];

async fn p11_a_cluster_is_created_used_changed_and_deleted_with_its_cell(case: Case) {
    let world = World::new(case).await;
    let test = async {
        let (hub, home, name) = (&world.case.hub, world.home(), NEW.0);
        let network = json!({"pods": {"cidrBlocks": ["192.168.0.0/16"]}});
        let of = json!({"topology": topology(1), "clusterNetwork": network});
        let mut cell = cell(name, &of);
        cell["spec"]["agent"] = json!({"image": "registry.example.com/fedgate:1"});
        hub.create(&CELL, "", cell).await;
        world.says("InfrastructureReady", "False", "Waiting").await;
        let cluster = home
            .get(&CLUSTER_API_CLUSTER, CLUSTERS, name)
            .await
            .expect("it is created");
        let uid = hub.get(&CELL, "", name).await.expect("it is there")["metadata"]["uid"].clone();
        let mark = format!("cell-{}", uid.as_str().expect("a UID"));
        assert_eq!(cluster["spec"], of);
        assert_eq!(cluster["metadata"]["annotations"]["fedgate.dev/cell-uid"], mark);

        // The webhook of Cluster API adds a variable that has a default, and an autoscaler sets a field of an entry.
        let grown = json!({"spec": {"topology": {
            "variables": [{"name": "image", "value": "edge"}, {"name": "size", "value": "small"}],
            "workers": {"machineDeployments": [{"class": "default", "name": "a", "replicas": 1, "minReadySeconds": 5}]}}}});
        home.merge(&CLUSTER_API_CLUSTER, CLUSTERS, name, grown).await;

        // The Secret exists before the control plane runs. The provisioner does not use the Secret yet.
        world.create_kubeconfig(name).await;
        world.set_conditions(name, &UP[..1]).await;
        let waits = world.says("ControlPlaneInitialized", "False", "Waiting").await;
        assert!(condition(&waits, "Registered").is_none(), "{waits:#}");
        world.set_conditions(name, &UP[..3]).await;
        world.says("AgentReady", "False", "AgentNotAvailable").await;
        start_program(&world.new).await;
        let ready = world.says("Ready", "True", "Ready").await;
        let workers = condition(&ready, "WorkersJoined").expect("it is told");
        assert_eq!(workers["reason"], "Waiting", "{ready:#}");
        world.set_conditions(name, &UP).await;
        world.says("WorkersJoined", "True", "WorkersJoined").await;
        let wish = Wish {
            places: vec![("us".to_owned(), NEW.1.to_owned(), 1)],
            ..Wish::new("web", 1)
        };
        world.case.run(&wish).await;

        // A change of topology is applied beside the values of others. The cell stays Ready while WorkersAvailable is False.
        let mut conditions = UP;
        conditions[3].1 = "False";
        world.set_conditions(name, &conditions).await;
        let wider = json!({"spec": {"provider": {"clusterAPI": {"topology": topology(2)}}}});
        hub.merge(&CELL, "", name, wider).await;
        let cell = world.says("WorkersJoined", "False", "ClusterApiNotReady").await;
        let ready = condition(&cell, "Ready").expect("it says whether it is ready");
        assert_eq!(ready["status"], "True", "{cell:#}");
        let cluster = home
            .get(&CLUSTER_API_CLUSTER, CLUSTERS, name)
            .await
            .expect("it is there");
        let topology = &cluster["spec"]["topology"];
        let entry = json!({"class": "default", "name": "a", "replicas": 2, "minReadySeconds": 5});
        assert_eq!(topology["workers"]["machineDeployments"], json!([entry]));
        assert_eq!(
            topology["variables"].as_array().map(Vec::len),
            Some(2),
            "{topology:#}"
        );

        world.case.delete(&wish).await;
        end(&world).await;
    };
    with_cleanup(test, world.clean_up()).await;
}

/// The Cluster is deleted after the cell has left the hub. The Cell waits until the Cluster is gone.
async fn end(world: &World) {
    let (hub, home, name) = (&world.case.hub, world.home(), NEW.0);
    let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    home.merge(
        &CLUSTER_API_CLUSTER,
        CLUSTERS,
        name,
        held(json!(["test.fedgate.dev/machines"])),
    )
    .await;
    let outage = json!({"metadata": {"annotations": {"fedgate.dev/allow-outage": name}}});
    hub.merge(&CELL, "", name, outage).await;
    hub.delete(&CELL, "", name).await;
    let is_deleted = |cluster: &Value| !cluster["metadata"]["deletionTimestamp"].is_null();
    home.sees(
        &CLUSTER_API_CLUSTER,
        CLUSTERS,
        name,
        "is being deleted",
        seconds(120),
        is_deleted,
    )
    .await;
    assert!(hub.get(&CLUSTER, "", name).await.is_none());
    let cell = world.says("Drained", "False", "Leaving").await;
    assert_eq!(cell["status"]["phase"], "Deleting");
    home.merge(&CLUSTER_API_CLUSTER, CLUSTERS, name, held(json!([])))
        .await;
    world.retry("gone").await;
    hub.gone(&CELL, "", name, seconds(90)).await;
    assert!(home.get(&CLUSTER_API_CLUSTER, CLUSTERS, name).await.is_none());
}

async fn p12_a_cluster_that_exists_is_used_and_left(case: Case) {
    let world = World::new(case).await;
    let test = async {
        let (hub, home, name) = (&world.case.hub, world.home(), NEW.0);
        let named = json!({"cluster": "shared"});
        hub.create(&CELL, "", cell(name, &named)).await;
        world.says("InfrastructureReady", "False", "ClusterMissing").await;
        let shared = home
            .create(
                &CLUSTER_API_CLUSTER,
                CLUSTERS,
                json!({"metadata": {"name": "shared"}, "spec": {"topology": topology(3)}}),
            )
            .await;
        world.create_kubeconfig("shared").await;
        world.set_conditions("shared", &UP).await;
        // A Cell cannot use a Cluster whose annotation does not list the Cell.
        let test = |cell: &Value| {
            let of = condition(cell, "InfrastructureReady");
            of.is_some_and(|of| of.to_string().contains("does not list the Cell"))
        };
        hub.sees(&CELL, "", name, "is not listed", seconds(30), test)
            .await;
        world.retry("not listed").await;
        let test = |cell: &Value| {
            let of = condition(cell, "WorkersJoined");
            of.is_some_and(|of| of["reason"] == "ClusterMissing")
        };
        let waits = hub
            .sees(&CELL, "", name, "knows no workers", seconds(30), test)
            .await;
        assert!(condition(&waits, "Registered").is_none(), "{waits:#}");
        assert!(hub.get(&CLUSTER, "", name).await.is_none());
        let listed = json!({"metadata": {"annotations": {"fedgate.dev/cells": name}}});
        home.merge(&CLUSTER_API_CLUSTER, CLUSTERS, "shared", listed).await;
        world.retry("listed").await;
        world.says("Ready", "True", "Ready").await;

        // A Cell with the name of an existing Cluster does not take the Cluster over. A Namespace that --cluster-api-namespaces lacks gets no
        // request.
        hub.create(&CELL, "", cell("shared", &json!({"topology": topology(1)})))
            .await;
        let taken = one_says(hub, "shared", ["InfrastructureReady", "False", "NameTaken"]).await;
        assert!(condition(&taken, "Registered").is_none(), "{taken:#}");
        let mut elsewhere = cell("elsewhere", &named);
        elsewhere["spec"]["provider"]["clusterAPI"]["namespace"] = json!("kube-system");
        hub.create(&CELL, "", elsewhere).await;
        one_says(hub, "elsewhere", ["Validated", "False", "ProviderOff"]).await;
        for cell in ["shared", "elsewhere", name] {
            hub.delete(&CELL, "", cell).await;
            hub.gone(&CELL, "", cell, seconds(90)).await;
        }
        assert!(hub.get(&CLUSTER, "", name).await.is_none());
        let left = home
            .get(&CLUSTER_API_CLUSTER, CLUSTERS, "shared")
            .await
            .expect("it is there");
        assert_eq!(left["metadata"]["uid"], shared["metadata"]["uid"]);
        assert_eq!(left["spec"], shared["spec"]);
        assert!(left["metadata"]["deletionTimestamp"].is_null());
    };
    with_cleanup(test, world.clean_up()).await;
}
