//! The kinds that the executable ships beside the built-in one (`interpreters/`): a Kubernetes cluster of Azimuth with its
//! templates, and a `PostgreSQL` cluster of `CloudNativePG` (`postgres`). The operators at the member are the test.

use crate::{
    lanes::{is, keeps, pin_of},
    returns::{at_member, in_project, member},
    support::{
        Case,
        case::unique,
        condition, has_finalizer,
        kinds::{AZIMUTH_CLUSTER, AZIMUTH_LEASE, CLUSTER_TEMPLATE, Kind, POSTGRES, REALM, SECRET},
        label,
        plane::Plane,
        seconds, trials, uid,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    x01_a_cluster_of_azimuth_is_built_with_all_it_names_and_goes_with_it,
    x03_of_two_kinds_called_cluster_the_second_waits_for_the_name,
    x04_a_template_of_the_hub_is_in_every_project,
];

pub(crate) const LAB: &str = "lab";
pub(crate) const LAB_PIN: &str = "clusters.azimuth.stackhpc.com_lab";
/// The `policyPrefix` of each kind.
pub(crate) const AZIMUTH: &str = "azc-";
pub(crate) const PG: &str = "pg-";

/// A Cluster of Azimuth that names a Secret and nothing else.
fn plain(city: &str) -> Value {
    json!({"metadata": {"name": LAB, "labels": {keys::CITY_CODE: city}}, "spec": {
        "label": "Lab", "templateName": "kube-1-33", "cloudCredentialsSecretName": "lab-cloud",
        "controlPlaneMachineSize": "small", "nodeGroups": [{"name": "md-0", "machineSize": "large", "count": 2}],
    }})
}

fn lab(city: &str) -> Value {
    let mut lab = plain(city);
    lab["spec"]["leaseName"] = json!(LAB);
    lab["spec"]["zenithIdentityRealmName"] = json!("people");
    lab
}

fn lease() -> Value {
    json!({"metadata": {"name": LAB, "labels": {"tenant": "x"}}, "spec": {
        "cloudCredentialsSecretName": "lab-cloud", "endsAt": "2030-12-31T00:00:00Z",
        "resources": {"machines": [{"sizeId": "large", "count": 2}]},
    }})
}

/// Waits until the member has the object and keeps it whatever becomes of its copy.
pub(crate) async fn delivered(case: &Case, kind: &Kind, prefix: &str, name: &str) -> Value {
    case.project
        .sees(kind, &case.ns, name, "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
    keeps(case, kind, prefix, name).await;
    case.dfw.plane.exists(kind, &case.hub_ns, name, seconds(5)).await
}

/// The version of the member at which an object came there.
pub(crate) async fn came(case: &Case, kind: &Kind, name: &str, since: &str) -> u64 {
    let changes = case.dfw.plane.history(kind, &case.hub_ns, since).await;
    let first = changes.iter().find(|(_, o, _)| o["metadata"]["name"] == name);
    first.unwrap_or_else(|| panic!("{} {name} came", kind.name)).0
}

async fn x01_a_cluster_of_azimuth_is_built_with_all_it_names_and_goes_with_it(case: Case) {
    member(&case).await;
    built(&case).await;
    reports(&case).await;
    kubeconfig_comes_back(&case).await;
    ends(&case).await;
}

/// G14, G16: what it names is at the member before it, and nothing of it is made up there.
async fn built(case: &Case) {
    let at = &case.dfw.plane;
    let since = at.version(&AZIMUTH_CLUSTER, &case.hub_ns).await;
    case.secret("lab-cloud", "Opaque", &json!({"clouds.yaml": "c"}))
        .await;
    let made = case.create(&AZIMUTH_CLUSTER, lab(&case.dfw.city)).await;
    // The Secret may be seen a little later than the Cluster.
    let missing = "Lease.scheduling.azimuth.stackhpc.com lab";
    case.project
        .sees(
            &AZIMUTH_CLUSTER,
            &case.ns,
            LAB,
            "lacks its Lease",
            seconds(60),
            |o| is(o, "Federated", "SourceNotFound") && o["status"].to_string().contains(missing),
        )
        .await;
    assert_eq!(case.hub.get(&AZIMUTH_CLUSTER, &case.hub_ns, LAB).await, None);
    // Only what is there goes along; the Realm may be missing.
    let realm =
        json!({"metadata": {"name": "people", "labels": {"tenant": "x"}}, "spec": {"tenancyId": "t"}});
    case.create(&REALM, realm).await;
    case.create(&AZIMUTH_LEASE, lease()).await;
    let there = delivered(case, &AZIMUTH_CLUSTER, AZIMUTH, LAB).await;
    assert_eq!(there["spec"], made["spec"]);
    let pin = pin_of(case, LAB_PIN).await.expect("it is pinned");
    assert_eq!(
        (&pin["member"], &pin["delivered"]),
        (&json!(case.dfw.name), &json!(true))
    );
    let began = came(case, &AZIMUTH_CLUSTER, LAB, &since).await;
    for (kind, name) in [(&SECRET, "lab-cloud"), (&AZIMUTH_LEASE, LAB), (&REALM, "people")] {
        let companion = came(case, kind, name, &since).await;
        assert!(
            companion < began,
            "{} {name} was there before its cluster",
            kind.name
        );
        let source = case
            .project
            .get(kind, &case.ns, name)
            .await
            .expect("the source stays");
        let companion = at.exists(kind, &case.hub_ns, name, seconds(5)).await;
        for field in ["spec", "data"] {
            assert_eq!(companion[field], source[field], "{} {name}: {field}", kind.name);
        }
        assert_eq!(companion["status"], Value::Null);
        assert_eq!(companion["metadata"]["ownerReferences"], Value::Null);
        assert_eq!(
            label(&companion, "tenant"),
            None,
            "labels of its tenant stay in the project"
        );
    }
    let moved = json!({"spec": {"tenancyId": "u"}});
    case.merge(&REALM, "people", moved).await;
    at.sees(&REALM, &case.hub_ns, "people", "has the edit", seconds(60), |o| {
        o["spec"]["tenancyId"] == "u"
    })
    .await;
    let lane = format!("keep-{}", case.dfw.name);
    case.hub
        .sees(&AZIMUTH_LEASE, &case.hub_ns, LAB, "is kept", seconds(60), |o| {
            label(o, keys::LANE) == Some(&*lane)
        })
        .await;
}

/// G22: the status is the member's, and loses what it loses there.
async fn reports(case: &Case) {
    let status = json!({
        "phase": "Ready", "kubernetesVersion": "1.33.4", "nodeCount": 2, "leasePhase": "Active",
        "nodes": {"md-0-a": {"role": "worker", "phase": "Ready", "ips": ["10.0.0.5"]},
            "md-0-b": {"role": "worker", "phase": "Unhealthy"}},
        "addons": {"cni": {"phase": "Deployed", "revision": 1}},
        "unnamed": {"by": ["the schema"]},
    });
    let plane = &case.dfw.plane;
    plane
        .merge_status(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, status.clone())
        .await;
    let seen = case
        .project
        .sees(
            &AZIMUTH_CLUSTER,
            &case.ns,
            LAB,
            "has its status",
            seconds(60),
            |o| o["status"]["nodes"]["md-0-b"]["phase"] == "Unhealthy",
        )
        .await;
    for (field, value) in status.as_object().into_iter().flatten() {
        assert_eq!(seen["status"][field], *value, "{field}");
    }
    for (kind, reason) in [
        ("Federated", "Delivered"),
        ("Scheduled", "Pinned"),
        ("Applied", "Applied"),
        ("StatusCurrent", "Current"),
    ] {
        assert!(is(&seen, kind, reason), "{kind} {reason}: {seen}");
    }
    let lost = json!({"nodes": {"md-0-b": null}, "addons": null, "nodeCount": 1});
    plane
        .merge_status(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, lost)
        .await;
    let seen = case
        .project
        .sees(
            &AZIMUTH_CLUSTER,
            &case.ns,
            LAB,
            "has lost a node",
            seconds(60),
            |o| o["status"]["nodeCount"] == 1,
        )
        .await;
    assert_eq!(
        seen["status"]["nodes"],
        json!({"md-0-a": status["nodes"]["md-0-a"]})
    );
    assert_eq!(seen["status"]["addons"], Value::Null);
}

/// G42: the user's kubeconfig comes back while the status names it, the administrator's never.
async fn kubeconfig_comes_back(case: &Case) {
    let made = case.project.get(&AZIMUTH_CLUSTER, &case.ns, LAB).await;
    let made = made.expect("it is there");
    at_member(case, "lab-kubeconfig", "never").await;
    at_member(case, "lab-kubeconfig-user", "user").await;
    let names = async |secret: &str| {
        let status = json!({"kubeconfigSecretName": secret});
        case.dfw
            .plane
            .merge_status(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, status)
            .await
    };
    names("lab-kubeconfig-user").await;
    let returned = in_project(case, "lab-kubeconfig-user", "user").await;
    assert_eq!(returned["metadata"]["ownerReferences"][0]["uid"], uid(&made));
    names("lab-kubeconfig").await;
    // `StatusCurrent` says that the Secret does not return.
    let told = case
        .project
        .sees(&AZIMUTH_CLUSTER, &case.ns, LAB, "is told", seconds(60), |o| {
            is(o, "StatusCurrent", "ReturnRejected")
        })
        .await;
    assert!(told.to_string().contains("*-kubeconfig-user"), "{told}");
    case.event(LAB, "ReturnRejected").await;
    case.project
        .gone(&SECRET, &case.ns, "lab-kubeconfig-user", seconds(60))
        .await;
    names("lab-kubeconfig-user").await;
    in_project(case, "lab-kubeconfig-user", "user").await;
    for (plane, namespace) in [(&case.hub, &case.hub_ns), (&case.project, &case.ns)] {
        let left = plane.get(&SECRET, namespace, "lab-kubeconfig").await;
        assert_eq!(left, None, "it never leaves the member");
    }
}

/// Pauses the Cluster, and waits until its member has that.
pub(crate) async fn pause(case: &Case) {
    case.merge(&AZIMUTH_CLUSTER, LAB, json!({"spec": {"paused": true}}))
        .await;
    let is_paused = |o: &Value| o["spec"]["paused"] == true;
    let at = &case.dfw.plane;
    at.sees(
        &AZIMUTH_CLUSTER,
        &case.hub_ns,
        LAB,
        "is paused",
        seconds(60),
        is_paused,
    )
    .await;
}

/// Waits until a guard holds the deletion of the Cluster.
pub(crate) async fn deletion_held(case: &Case) -> Value {
    let is_held = |o: &Value| is(o, "Federated", "DeletionHeld");
    case.project
        .sees(
            &AZIMUTH_CLUSTER,
            &case.ns,
            LAB,
            "is guarded",
            seconds(60),
            is_held,
        )
        .await
}

/// G38, G37: while paused nothing is uninstalled; then its Lease goes with it, and all is gone in the end.
async fn ends(case: &Case) {
    const DRAIN: &str = "azimuth.stackhpc.com/provider";
    let at = &case.dfw.plane;
    let there = at.exists(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, seconds(5)).await;
    let cluster = json!([{"apiVersion": AZIMUTH_CLUSTER.api_version(), "kind": "Cluster", "name": LAB, "uid": uid(&there)}]);
    let owned = json!({"metadata": {"ownerReferences": cluster}});
    let lease = at.merge(&AZIMUTH_LEASE, &case.hub_ns, LAB, owned).await;
    let begin = at.version(&AZIMUTH_LEASE, &case.hub_ns).await;
    pause(case).await;
    case.quiet().await;
    let count = case.count();
    case.delete(&AZIMUTH_CLUSTER, LAB).await;
    let said = deletion_held(case).await;
    assert!(said.to_string().contains("spec.paused is true"), "{said}");
    assert_eq!(case.event(LAB, "DeletionHeld").await["type"], "Warning");
    assert_eq!(case.events(LAB, "DeletionHeld").await.len(), 1);
    let writes = case.writes(&count);
    assert!(
        writes.iter().all(|write| !write.starts_with("hub: ")),
        "nothing is asked of the hub: {writes:?}"
    );
    let kept = case.hub.get(&AZIMUTH_CLUSTER, &case.hub_ns, LAB).await;
    let kept = kept.expect("it stays on the hub");
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    let held = json!({"metadata": {"finalizers": [DRAIN]}});
    at.merge(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, held).await;
    case.merge(&AZIMUTH_CLUSTER, LAB, json!({"spec": {"paused": false}}))
        .await;
    waits_for_its_member(case, &AZIMUTH_CLUSTER, LAB, DRAIN).await;
    at.exists(&AZIMUTH_LEASE, &case.hub_ns, LAB, seconds(5)).await;
    at.exists(&SECRET, &case.hub_ns, "lab-cloud", seconds(5)).await;
    release(case, &AZIMUTH_CLUSTER, LAB).await;
    case.project
        .gone(&AZIMUTH_CLUSTER, &case.ns, LAB, seconds(200))
        .await;
    assert_eq!(pin_of(case, LAB_PIN).await, None);
    for (kind, name) in [
        (&AZIMUTH_CLUSTER, LAB),
        (&AZIMUTH_LEASE, LAB),
        (&REALM, "people"),
        (&SECRET, "lab-cloud"),
    ] {
        at.gone(kind, &case.hub_ns, name, seconds(60)).await;
        case.hub.gone(kind, &case.hub_ns, name, seconds(60)).await;
    }
    for (plane, namespace) in [(&case.hub, &case.hub_ns), (&case.project, &case.ns)] {
        plane
            .gone(&SECRET, namespace, "lab-kubeconfig-user", seconds(60))
            .await;
    }
    // Karmada made it again as long as it was given to the member.
    let changes = at.history(&AZIMUTH_LEASE, &case.hub_ns, &begin).await;
    assert!(
        changes.iter().all(|(_, o, _)| uid(o) == uid(&lease)),
        "the Lease is not made again: {changes:#?}"
    );
    for (kind, name) in [(&AZIMUTH_LEASE, LAB), (&REALM, "people"), (&SECRET, "lab-cloud")] {
        let source = case.project.get(kind, &case.ns, name).await;
        assert!(source.is_some(), "the source {} {name} stays", kind.name);
    }
}

/// Waits until the project says that only the member's object, which has this finalizer, is in the way.
pub(crate) async fn waits_for_its_member(case: &Case, kind: &Kind, name: &str, finalizer: &str) {
    let waits = case
        .project
        .sees(kind, &case.ns, name, "waits for its member", seconds(90), |o| {
            condition(o, "Federated").is_some_and(|c| {
                let message = c["message"].as_str().unwrap_or_default();
                c["reason"] == "WaitingForMember" && message.contains(finalizer)
            })
        })
        .await;
    assert!(has_finalizer(&waits, keys::FEDERATOR_FINALIZER));
}

/// The member's operator has cleaned up.
pub(crate) async fn release(case: &Case, kind: &Kind, name: &str) {
    let free = json!({"metadata": {"finalizers": null}});
    case.dfw.plane.merge(kind, &case.hub_ns, name, free).await;
}

/// The first holds the name until its member has let it go: till then the Work of the second would be its own.
async fn ends_first(case: &Case) {
    let at = &case.dfw.plane;
    let finalizers = |of: Value| json!({"metadata": {"finalizers": of}});
    let held = finalizers(json!(["example.fedgate.dev/drain"]));
    at.merge(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, held).await;
    case.delete(&AZIMUTH_CLUSTER, LAB).await;
    let waits = |o: &Value| is(o, "Federated", "WaitingForMember") && o.to_string().contains("drain");
    case.project
        .sees(
            &AZIMUTH_CLUSTER,
            &case.ns,
            LAB,
            "waits for its member",
            seconds(90),
            waits,
        )
        .await;
    case.quiet().await;
    let second = case.project.get(&POSTGRES, &case.ns, LAB).await;
    assert!(second.is_some_and(|o| is(&o, "Federated", "HubNameTaken")));
    assert_eq!(case.hub.get(&POSTGRES, &case.hub_ns, LAB).await, None);
    let free = finalizers(Value::Null);
    at.merge(&AZIMUTH_CLUSTER, &case.hub_ns, LAB, free).await;
    case.project
        .gone(&AZIMUTH_CLUSTER, &case.ns, LAB, seconds(200))
        .await;
}

/// G3: Karmada names what it keeps of an object by kind and name, without the group.
async fn x03_of_two_kinds_called_cluster_the_second_waits_for_the_name(case: Case) {
    let at = &case.dfw.plane;
    case.secret("lab-cloud", "Opaque", &json!({"clouds.yaml": "c"}))
        .await;
    case.create(&AZIMUTH_CLUSTER, plain(&case.dfw.city)).await;
    let first = delivered(&case, &AZIMUTH_CLUSTER, AZIMUTH, LAB).await;
    let second = json!({"metadata": {"name": LAB, "labels": {keys::CITY_CODE: case.dfw.city}},
        "spec": {"instances": 1}});
    case.create(&POSTGRES, second).await;
    let said = case
        .project
        .sees(&POSTGRES, &case.ns, LAB, "waits for the name", seconds(60), |o| {
            is(o, "Federated", "HubNameTaken")
        })
        .await;
    let holder = "another object of kind Cluster of azimuth.stackhpc.com";
    assert!(said.to_string().contains(holder), "the holder is named: {said}");
    case.event(LAB, "HubNameTaken").await;
    // The first is as it was, and goes on being carried.
    let edit = json!({"spec": {"label": "Laboratory"}});
    case.merge(&AZIMUTH_CLUSTER, LAB, edit).await;
    let now = at
        .sees(
            &AZIMUTH_CLUSTER,
            &case.hub_ns,
            LAB,
            "has the edit",
            seconds(60),
            |o| o["spec"]["label"] == "Laboratory",
        )
        .await;
    assert_eq!(uid(&now), uid(&first));
    for plane in [at, &case.hub] {
        assert_eq!(plane.get(&POSTGRES, &case.hub_ns, LAB).await, None);
    }
    ends_first(&case).await;
    delivered(&case, &POSTGRES, PG, LAB).await;
    case.delete(&POSTGRES, LAB).await;
    case.project.gone(&POSTGRES, &case.ns, LAB, seconds(200)).await;
    at.gone(&POSTGRES, &case.hub_ns, LAB, seconds(60)).await;
}

/// G45; tests/e2e/platform.rs has the rest, with a made-up kind.
async fn x04_a_template_of_the_hub_is_in_every_project(case: Case) {
    let name = format!("kube-{}", unique());
    let values = json!({"kubernetesVersion": "1.33.4", "machineImageId": "i", "cni": {"type": "cilium"}});
    let template = json!({"metadata": {"name": name},
        "spec": {"label": "Kubernetes 1.33", "description": "d", "tags": ["new"], "values": values}});
    let made = case.hub.create(&CLUSTER_TEMPLATE, "", template).await;
    let shows = async |plane: &Plane, label: &str| {
        plane
            .sees(&CLUSTER_TEMPLATE, "", &name, "is projected", seconds(60), |o| {
                o["spec"]["label"] == label
            })
            .await
    };
    let there = shows(&case.project, "Kubernetes 1.33").await;
    assert_eq!(there["spec"], made["spec"]);
    assert_eq!(label(&there, keys::PROJECTED), Some("true"));
    shows(&case.suite.beta, "Kubernetes 1.33").await;
    let deprecated = json!({"spec": {"label": "old", "deprecated": true}});
    let own = case
        .project
        .try_merge(&CLUSTER_TEMPLATE, "", &name, &deprecated)
        .await;
    let words = own.expect_err("it is the platform's").to_string();
    assert!(words.contains("it is changed on the hub alone"), "{words}");
    case.hub.merge(&CLUSTER_TEMPLATE, "", &name, deprecated).await;
    shows(&case.project, "old").await;
    case.hub.delete(&CLUSTER_TEMPLATE, "", &name).await;
    for plane in [&case.project, &case.suite.beta] {
        plane.gone(&CLUSTER_TEMPLATE, "", &name, seconds(60)).await;
    }
}
