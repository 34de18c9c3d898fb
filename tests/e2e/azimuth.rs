//! A Cluster of Azimuth whose member has an operator that acts as the real ones do: it replays the statuses that the real
//! azimuth-capi-operator wrote (tests/kinds/azimuth-statuses.json), and it has the five behaviours that federation must bear.
//!
//! | behaviour | of the real operators |
//! |---|---|
//! | finalizer | it holds a Cluster until all that it has built is gone |
//! | label | it writes the template's name as a label on the Cluster |
//! | paused | it releases a paused Cluster that is deleted, and cleans up nothing |
//! | Lease | the Cluster owns its Lease, and the Lease ends its Cluster, within a grace period before it expires, which is none here |
//! | pruning | nodes and addons that it no longer knows vanish from the status |

use crate::{
    lanes::{is, pin_of},
    returns::{in_project, member},
    shipped::{AZIMUTH, LAB, LAB_PIN, deletion_held, delivered, pause},
    support::{
        Case,
        case::unique,
        condition, has_finalizer,
        kinds::{AZIMUTH_CLUSTER, AZIMUTH_LEASE, CLUSTER_POLICY, CLUSTER_TEMPLATE, REALM, SECRET},
        label,
        plane::Plane,
        seconds, trials, uid,
    },
};
use fedgate_api::keys;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::task::JoinSet;

trials![
    x05_a_cluster_ends_with_its_lease_and_is_not_built_again,
    x06_the_operator_cleans_up_a_cluster_that_was_paused_when_it_was_deleted,
    x07_the_hubs_templates_reach_the_members,
];

const FINALIZER: &str = "azimuth.stackhpc.com/finalizer";
const TEMPLATE_LABEL: &str = "azimuth.stackhpc.com/cluster-template";
/// The finalizer that the operator sets on the Lease of a Cluster.
const LEASE_FINALIZER: &str = "azimuth.stackhpc.com";
const KUBECONFIG: &str = "lab-kubeconfig-user";
/// How often the operator looks at its Cluster.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// How long it takes to clean up.
const CLEANUP_TIME: Duration = Duration::from_secs(3);

/// The operators of a member, for one Cluster.
struct Operator {
    plane: Plane,
    namespace: String,
    /// The statuses that it writes, in order.
    statuses: Vec<Value>,
    cleaned: AtomicUsize,
    abandoned: AtomicUsize,
}

impl Operator {
    /// Starts to act until the tasks are dropped.
    fn start(case: &Case) -> (Arc<Self>, JoinSet<()>) {
        let recorded: Value = serde_json::from_str(include_str!("../kinds/azimuth-statuses.json")).unwrap();
        let operator = Arc::new(Self {
            plane: case.dfw.plane.clone(),
            namespace: case.hub_ns.clone(),
            statuses: recorded["statuses"].as_array().unwrap().clone(),
            cleaned: AtomicUsize::new(0),
            abandoned: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        let acting = operator.clone();
        tasks.spawn(async move {
            let mut looks = tokio::time::interval(POLL_INTERVAL);
            let mut next = 0;
            loop {
                looks.tick().await;
                let cluster = acting.plane.get(&AZIMUTH_CLUSTER, &acting.namespace, LAB).await;
                match cluster {
                    None => next = 0,
                    Some(cluster) if cluster["metadata"]["deletionTimestamp"].is_null() => {
                        acting.build(&cluster, &mut next).await;
                    }
                    Some(cluster) => acting.delete(&cluster).await,
                }
            }
        });
        (operator, tasks)
    }

    /// Patches the Cluster, and ignores errors, because it may have changed or be gone since it was read.
    async fn merge(&self, patch: Value) {
        let (plane, namespace) = (&self.plane, &self.namespace);
        let _ = plane.try_merge(&AZIMUTH_CLUSTER, namespace, LAB, &patch).await;
    }

    async fn build(&self, cluster: &Value, next: &mut usize) {
        if !has_finalizer(cluster, FINALIZER) {
            return self.merge(json!({"metadata": {"finalizers": [FINALIZER]}})).await;
        }
        if cluster["spec"]["paused"] == true {
            return;
        }
        if label(cluster, TEMPLATE_LABEL).is_none() {
            let template = json!({TEMPLATE_LABEL: cluster["spec"]["templateName"]});
            self.merge(json!({"metadata": {"labels": template}})).await;
        }
        let (plane, namespace) = (&self.plane, &self.namespace);
        let lease = plane.get(&AZIMUTH_LEASE, namespace, LAB).await;
        if let Some(lease) = lease.filter(|_| cluster["spec"]["leaseName"] == LAB) {
            let owner = json!([{"apiVersion": AZIMUTH_CLUSTER.api_version(), "kind": "Cluster", "name": LAB,
                "uid": uid(cluster), "blockOwnerDeletion": true}]);
            if lease["metadata"]["ownerReferences"] != owner {
                let adopted =
                    json!({"metadata": {"ownerReferences": owner, "finalizers": [LEASE_FINALIZER]}});
                let _ = plane.try_merge(&AZIMUTH_LEASE, namespace, LAB, &adopted).await;
            }
            let ends: Timestamp = lease["spec"]["endsAt"].as_str().unwrap().parse().unwrap();
            if ends < Timestamp::now() {
                let _ = plane.try_delete(&AZIMUTH_CLUSTER, namespace, LAB, None).await;
                return;
            }
        }
        let Some(status) = self.statuses.get(*next) else {
            return;
        };
        if status["kubeconfigSecretName"] == KUBECONFIG
            && plane.get(&SECRET, namespace, KUBECONFIG).await.is_none()
        {
            let secret = json!({"metadata": {"name": KUBECONFIG}, "stringData": {"token": "user"}});
            let _ = plane.try_create(&SECRET, namespace, secret).await;
        }
        let patch = json!({"status": difference(&cluster["status"], status)});
        let written = plane
            .try_merge_status(&AZIMUTH_CLUSTER, namespace, LAB, &patch)
            .await;
        *next += usize::from(written.is_ok());
    }

    async fn delete(&self, cluster: &Value) {
        if !has_finalizer(cluster, FINALIZER) {
            return;
        }
        if cluster["spec"]["paused"] == true {
            self.abandoned.fetch_add(1, SeqCst);
        } else {
            let (plane, namespace) = (&self.plane, &self.namespace);
            let deleting = json!({"status": {"phase": "Deleting"}});
            let _ = plane
                .try_merge_status(&AZIMUTH_CLUSTER, namespace, LAB, &deleting)
                .await;
            tokio::time::sleep(CLEANUP_TIME).await;
            plane.delete(&SECRET, namespace, KUBECONFIG).await;
            let free = json!({"metadata": {"finalizers": null}});
            let _ = plane.try_merge(&AZIMUTH_LEASE, namespace, LAB, &free).await;
            self.cleaned.fetch_add(1, SeqCst);
        }
        self.merge(json!({"metadata": {"finalizers": null}})).await;
    }

    /// How often it has cleaned up, and how often it has released a Cluster without that.
    fn ended(&self) -> (usize, usize) {
        (self.cleaned.load(SeqCst), self.abandoned.load(SeqCst))
    }
}

/// The merge patch that makes a value of another.
fn difference(from: &Value, to: &Value) -> Value {
    let (Some(had), Some(has)) = (from.as_object(), to.as_object()) else {
        return to.clone();
    };
    let gone = had.keys().filter(|key| !has.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    patch.extend(
        has.iter()
            .map(|(key, value)| (key.clone(), difference(&from[key], value))),
    );
    Value::Object(patch)
}

/// The objects that a tenant creates, by docs/azimuth.md.
const TENANT_EXAMPLE: &str = include_str!("../../examples/azimuth/cluster.yaml");
/// The example of the kind's folder.
const KIND_EXAMPLE: &str =
    include_str!("../../interpreters/azimuth.stackhpc.com/v1alpha1/Cluster/example.yaml");
/// The hub's policy of docs/azimuth.md.
const POLICY: &str = include_str!("../../examples/azimuth/templates-to-members.yaml");

/// The objects of a file.
fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

/// Creates the objects of a file, and waits until the operator has built the Cluster.
async fn built(case: &Case, file: &str) {
    for mut object in documents(file) {
        let kinds = [&SECRET, &AZIMUTH_LEASE, &REALM, &AZIMUTH_CLUSTER];
        let kind = kinds
            .into_iter()
            .find(|kind| object["kind"] == kind.name)
            .unwrap();
        if kind.name == AZIMUTH_CLUSTER.name {
            object["metadata"]["labels"][keys::CITY_CODE] = json!(case.dfw.city);
        }
        case.create(kind, object).await;
    }
    delivered(case, &AZIMUTH_CLUSTER, AZIMUTH, LAB).await;
    let ready = |o: &Value| o["status"]["phase"] == "Ready" && o["status"]["nodeCount"] == 2;
    let seen = case
        .project
        .sees(&AZIMUTH_CLUSTER, &case.ns, LAB, "is built", seconds(120), ready)
        .await;
    assert!(is(&seen, "StatusCurrent", "Current"), "{seen}");
    in_project(case, KUBECONFIG, "user").await;
}

async fn x05_a_cluster_ends_with_its_lease_and_is_not_built_again(case: Case) {
    member(&case).await;
    let (operator, _acts) = Operator::start(&case);
    built(&case, TENANT_EXAMPLE).await;
    let at = &case.dfw.plane;
    let there = at.exists(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, seconds(5)).await;
    let since = at.version(&AZIMUTH_CLUSTER, &case.hub_ns).await;
    // The Lease ends: for the member's operators that is the end of the Cluster. Nobody takes a deletion for one of an earlier
    // copy's object that begins later than 10 s after the copy was created.
    let copy = case
        .hub
        .exists(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, seconds(5))
        .await;
    let created: Timestamp = copy["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let over = json!({"spec": {"endsAt": created + seconds(12)}});
    case.merge(&AZIMUTH_LEASE, LAB, over).await;
    let seen = case
        .project
        .sees(&AZIMUTH_CLUSTER, &case.ns, LAB, "has ended", seconds(120), |o| {
            let of = condition(o, "Federated").unwrap_or(&Value::Null);
            of["reason"] == "EndedByMember" && of.to_string().contains("nothing of the object is left")
        })
        .await;
    for kind in ["Applied", "StatusCurrent"] {
        assert!(is(&seen, kind, "EndedByMember"), "{kind}: {seen}");
    }
    assert_eq!(seen["status"]["nodeCount"], 2, "the last status stays: {seen}");
    assert_eq!(operator.ended(), (1, 0));
    for (kind, name) in [
        (&AZIMUTH_CLUSTER, LAB),
        (&AZIMUTH_LEASE, LAB),
        (&SECRET, "lab-cloud"),
        (&REALM, "people"),
    ] {
        at.gone(kind, &case.hub_ns, name, seconds(60)).await;
        case.hub.gone(kind, &case.hub_ns, name, seconds(60)).await;
        let source = case.project.get(kind, &case.ns, name).await;
        assert!(source.is_some(), "the source {} {name} stays", kind.name);
    }
    case.project
        .gone(&SECRET, &case.ns, KUBECONFIG, seconds(60))
        .await;
    // An edit brings nothing back.
    case.merge(&AZIMUTH_CLUSTER, LAB, json!({"spec": {"label": "Again"}}))
        .await;
    case.quiet().await;
    let changes = at.history(&AZIMUTH_CLUSTER, &case.hub_ns, &since).await;
    assert!(
        changes.iter().all(|(_, o, _)| uid(o) == uid(&there)),
        "the Cluster is not built again: {changes:#?}"
    );
    assert_eq!(case.hub.get(&AZIMUTH_CLUSTER, &case.hub_ns, LAB).await, None);
    let pin = pin_of(&case, LAB_PIN).await.expect("the record of its end stays");
    assert_eq!(pin["ended"]["gone"], true, "{pin}");
    case.delete(&AZIMUTH_CLUSTER, LAB).await;
    case.project
        .gone(&AZIMUTH_CLUSTER, &case.ns, LAB, seconds(60))
        .await;
    assert_eq!(pin_of(&case, LAB_PIN).await, None);
}

async fn x06_the_operator_cleans_up_a_cluster_that_was_paused_when_it_was_deleted(case: Case) {
    member(&case).await;
    let (operator, _acts) = Operator::start(&case);
    built(&case, KIND_EXAMPLE).await;
    let at = &case.dfw.plane;
    pause(&case).await;
    case.delete(&AZIMUTH_CLUSTER, LAB).await;
    let held = deletion_held(&case).await;
    assert!(
        is(&held, "StatusCurrent", "Deleting"),
        "its status is not returned: {held}"
    );
    let since = at.version(&AZIMUTH_CLUSTER, &case.hub_ns).await;
    case.merge(&AZIMUTH_CLUSTER, LAB, json!({"spec": {"paused": false}}))
        .await;
    case.project
        .gone(&AZIMUTH_CLUSTER, &case.ns, LAB, seconds(200))
        .await;
    assert_eq!(
        operator.ended(),
        (1, 0),
        "the member's operator has read the last spec"
    );
    let changes = at.history(&AZIMUTH_CLUSTER, &case.hub_ns, &since).await;
    let mut ending = changes
        .iter()
        .filter(|(_, o, _)| !o["metadata"]["deletionTimestamp"].is_null());
    assert!(
        ending.all(|(_, o, _)| o["spec"]["paused"] == false),
        "it is deleted with the spec in which no guard holds: {changes:#?}"
    );
    for (kind, name) in [(&AZIMUTH_LEASE, LAB), (&SECRET, "lab-cloud")] {
        at.gone(kind, &case.hub_ns, name, seconds(60)).await;
    }
}

async fn x07_the_hubs_templates_reach_the_members(case: Case) {
    let mut policy = documents(POLICY).remove(0);
    // Other tests have templates of their own.
    let name = format!("kube-{}", unique());
    policy["metadata"]["name"] = json!(name);
    policy["spec"]["resourceSelectors"][0]["name"] = json!(name);
    case.hub.create(&CLUSTER_POLICY, "", policy).await;
    let template = json!({"metadata": {"name": name}, "spec": {"label": "Kubernetes", "description": "d",
        "values": {"kubernetesVersion": "1.33.4", "machineImageId": "i"}}});
    case.hub.create(&CLUSTER_TEMPLATE, "", template).await;
    for plane in [&case.dfw.plane, &case.lhr.plane, &case.project] {
        plane.exists(&CLUSTER_TEMPLATE, "", &name, seconds(60)).await;
    }
    case.hub.delete(&CLUSTER_TEMPLATE, "", &name).await;
    case.hub.delete(&CLUSTER_POLICY, "", &name).await;
    case.project.gone(&CLUSTER_TEMPLATE, "", &name, seconds(60)).await;
}
