//! Checks of the hub's Karmada, and of what surrounds it: its webhook, its definitions, the Deployment that runs it, and
//! the clocks and versions of the planes.

use super::{
    DEFINITION,
    clinic::Clinic,
    front::{Front, Lie},
};
use crate::support::{
    Case,
    kinds::{BINDING, CLUSTER_POLICY, Kind, NAMESPACE, kind},
    label,
    plane::Plane,
    seconds,
    suite::{ALPHA_KEY, BETA_KEY},
    with_cleanup,
};
use fedgate_api::keys::CLUSTER_CLAIM_ID;
use fedgate_sandbox::{HubControllers, User};
use serde_json::{Value, json};

const HOOKS: Kind = kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    false,
);
const DEPLOYED: Kind = kind("apps", "v1", "Deployment", "deployments", true);
/// Karmada's configuration of its webhook.
const MUTATING: &str = "mutating-config";
const MANAGER: &str = "karmada-controller-manager";
/// Where Karmada's installers put it.
const HOME: &str = "karmada-system";
/// The file by which the clinic knows Karmada's host.
pub(super) const HOST: &str = "karmada-host.yaml";

/// Clock, version, webhook, definitions, arguments and image: each is broken on the suite's planes, found with its
/// plane, and well again after its next step.
pub(super) async fn karmada_and_what_surrounds_it_are_mended_by_the_step_that_doctor_names(case: Case) {
    case.suite.gateway.stop().await;
    let clinic = Clinic::open(&case).await;
    let run = Box::pin(async {
        clinic.is_well_with_reviews().await;
        clocks(&clinic).await;
        versions(&clinic).await;
        Box::pin(webhook(&clinic)).await;
        fields(&clinic).await;
        propagated(&clinic).await;
        with_cleanup(host(&clinic), leave_host(&clinic)).await;
        clinic.is_well().await;
    });
    with_cleanup(run, case.suite.gateway.start()).await;
}

async fn clocks(clinic: &Clinic) {
    let project = format!("project {ALPHA_KEY}");
    let project_file = format!("{ALPHA_KEY}.yaml");
    for (file, plane, late, verdict, words) in [
        ("hub.yaml", "hub", 90, "fail", "its clock differs by 8"),
        ("dfw-1.yaml", "cell dfw-1", -90, "fail", "its clock differs by 8"),
        (&project_file, &project, 20, "open", "its clock differs by "),
    ] {
        let front = Front::before(clinic, file).await;
        clinic.is_mended((plane, "clock")).await;
        front.says(Lie {
            late,
            ..Lie::default()
        });
        let next = clinic.finds((plane, "clock"), verdict, words).await;
        assert!(next.contains("synchronize the clocks"), "{next}");
        front.says(Lie::default());
        clinic.is_mended((plane, "clock")).await;
    }
}

async fn versions(clinic: &Clinic) {
    let beta = format!("project {BETA_KEY}");
    let beta_file = format!("{BETA_KEY}.yaml");
    for (file, plane, version, verdict, words, step) in [
        (
            "hub.yaml",
            "hub",
            "v1.29.15",
            "fail",
            "v1.29.15 has no ValidatingAdmissionPolicy v1",
            "upgrade the API server to 1.30",
        ),
        (
            &beta_file,
            &beta,
            "v1.99.0",
            "open",
            "v1.99.0 is newer than",
            "look for a newer fedgate",
        ),
        (
            "dfw-1-on-hub.yaml",
            "hub as cell dfw-1",
            "unknown",
            "open",
            "is no version of Kubernetes",
            "compare it with the versions",
        ),
    ] {
        let front = Front::before(clinic, file).await;
        let lie = Lie {
            version: Some(version),
            ..Lie::default()
        };
        front.says(lie);
        let next = clinic.finds((plane, "version"), verdict, words).await;
        assert!(next.contains(step), "{next}");
        front.says(Lie::default());
        clinic.is_mended((plane, "version")).await;
    }
}

/// The hub has a policy with Karmada's label all the while: it does not say that a new one gets it.
async fn webhook(clinic: &Clinic) {
    let (hub, name) = (&clinic.case.hub, clinic.case.ns.as_str());
    let of_nothing = json!({"metadata": {"name": name}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": format!("{name}-absent")}],
        "placement": {"clusterAffinity": {"clusterNames": ["dfw-1"]}}}});
    hub.create(&CLUSTER_POLICY, "", of_nothing).await;
    let identified = |policy: &Value| label(policy, CLUSTER_CLAIM_ID).is_some();
    hub.sees(&CLUSTER_POLICY, "", name, "has its id", seconds(30), identified)
        .await;
    let dead = Box::pin(dead_webhook(clinic));
    with_cleanup(dead, hub.delete(&CLUSTER_POLICY, "", name)).await;
}

async fn dead_webhook(clinic: &Clinic) {
    let (hub, of) = (&clinic.case.hub, ("hub", "webhook"));
    clinic.is_mended(of).await;
    let ours = |hook: &Value| {
        let rules = hook["rules"].as_array();
        let mut names = rules
            .into_iter()
            .flatten()
            .filter_map(|rule| rule["resources"].as_array());
        names.any(|names| names.iter().any(|name| name == "clusterpropagationpolicies"))
    };
    let dead = "https://127.0.0.1:1/mutate";
    let karmada = hub.get(&HOOKS, "", MUTATING).await;
    let Some(karmada) = karmada else {
        assert!(!on_karmada(), "Karmada has its webhook");
        // The stand-in has none, so that one which does not answer is all that can be wrong.
        let hook = json!({"name": "dead.fedgate.dev", "clientConfig": {"url": dead}, "failurePolicy": "Fail",
            "rules": [{"apiGroups": ["policy.karmada.io"], "apiVersions": ["*"], "operations": ["CREATE"],
                "resources": ["clusterpropagationpolicies"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 3});
        let config = json!({"metadata": {"name": MUTATING}, "webhooks": [hook]});
        hub.create(&HOOKS, "", config).await;
        let found = clinic.finds(of, "fail", "karmada-webhook does not answer");
        let next = with_cleanup(found, hub.delete(&HOOKS, "", MUTATING)).await;
        assert!(next.contains(MUTATING), "{next}");
        clinic.is_mended(of).await;
        return;
    };
    let whole = karmada["webhooks"].clone();
    let mut cut = whole.clone();
    for hook in cut.as_array_mut().expect("webhooks") {
        if ours(hook) {
            hook["clientConfig"]["url"] = json!(dead);
        }
    }
    let mut without = whole.clone();
    without
        .as_array_mut()
        .expect("webhooks")
        .retain(|hook| !ours(hook));
    assert!(cut != whole && without != whole, "{whole}");
    for (broken, words, step) in [
        (
            cut,
            "karmada-webhook does not answer",
            "check url and caBundle in MutatingWebhookConfiguration mutating-config",
        ),
        (
            without,
            "mutating-config does not act",
            "install karmada-webhook and its configuration",
        ),
    ] {
        let set = async |webhooks: &Value| {
            hub.merge(&HOOKS, "", MUTATING, json!({"webhooks": webhooks}))
                .await;
        };
        set(&broken).await;
        let next = with_cleanup(clinic.finds(of, "fail", words), set(&whole)).await;
        assert!(next.contains(step), "{next}");
        clinic.is_mended(of).await;
    }
}

fn on_karmada() -> bool {
    let controllers = HubControllers::from_env().expect("the hub's controllers");
    matches!(controllers, HubControllers::Karmada { .. })
}

/// A definition of Karmada's that lacks a field which the gateway writes. Stored objects keep it.
async fn fields(clinic: &Clinic) {
    let (hub, of) = (&clinic.case.hub, ("hub", "karmada"));
    let name = "propagationpolicies.policy.karmada.io";
    let definition = hub.get(&DEFINITION, "", name).await;
    let whole = definition.expect("Karmada's definition")["spec"]["versions"].clone();
    let mut broken = whole.clone();
    let spec = broken[0].pointer_mut("/schema/openAPIV3Schema/properties/spec");
    let spec = spec.expect("a policy has a spec");
    let known = spec["properties"].as_object_mut().expect("fields");
    known.remove("propagateDeps").expect("the field is there");
    spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
    let set = async |versions: &Value| {
        let spec = json!({"spec": {"versions": versions}});
        hub.merge(&DEFINITION, "", name, spec).await;
    };
    clinic.is_mended(of).await;
    set(&broken).await;
    let words = "PropagationPolicy has no spec.propagateDeps, which fedgate writes";
    let next = with_cleanup(clinic.finds(of, "fail", words), set(&whole)).await;
    assert!(
        next.contains("install a version of Karmada that was tested, with its CRDs"),
        "{next}"
    );
    clinic.is_mended(of).await;
}

/// A binding of an Instance: what Karmada makes of those that it is not told to skip.
async fn propagated(clinic: &Clinic) {
    let (hub, check) = (&clinic.case.hub, "skipped-propagating-apis");
    let name = format!("{}-instance", clinic.case.ns);
    let resource = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
        "namespace": "default", "name": "web-0"});
    let binding = json!({"metadata": {"name": name}, "spec": {"resource": resource}});
    hub.create(&BINDING, "default", binding).await;
    let words = format!("Karmada propagates Instances, which cells write: ResourceBinding {name}");
    let found = clinic.finds(("hub", check), "fail", &words);
    let next = with_cleanup(found, hub.delete(&BINDING, "default", &name)).await;
    assert!(
        next.contains("--skipped-propagating-apis=compute.datumapis.com/v1alpha/Instance"),
        "{next}"
    );
    // An effect that is not there proves nothing.
    let next = clinic
        .finds(("hub", check), "open", "cannot be seen from here")
        .await;
    assert!(next.contains("or give --karmada-host-kubeconfig"), "{next}");
}

/// Sets image and arguments of karmada-controller-manager.
async fn deploy(host: &Plane, image: &str, arguments: &[&str]) {
    let containers = json!([{"name": MANAGER, "image": image, "command": ["/bin/karmada-controller-manager"],
        "args": arguments}]);
    let labels = json!({"app": MANAGER});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}});
    let deployment = json!({"metadata": {"name": MANAGER, "labels": labels}, "spec": spec});
    if host.get(&DEPLOYED, HOME, MANAGER).await.is_some() {
        host.merge(&DEPLOYED, HOME, MANAGER, deployment).await;
    } else {
        host.create(&DEPLOYED, HOME, deployment).await;
    }
}

/// The cluster that runs Karmada's Pods: `beta`, where a Deployment is an object as it is anywhere.
async fn host(clinic: &Clinic) {
    let beta = &clinic.case.suite.beta;
    let (plane, tag) = ("karmada host", |tag: &str| {
        format!("docker.io/karmada/karmada-controller-manager:{tag}")
    });
    let admin = clinic
        .case
        .suite
        .with_sandbox(async |sandbox| sandbox.kubeconfig(BETA_KEY, User::Admin));
    std::fs::copy(admin.await, clinic.file(HOST)).expect("copy a kubeconfig");
    beta.create(&NAMESPACE, "", json!({"metadata": {"name": HOME}}))
        .await;

    let skipped = (plane, "skipped-propagating-apis");
    let words = "no Deployment is labelled app=karmada-controller-manager";
    let next = clinic.finds(skipped, "open", words).await;
    let skip = next.split_whitespace().find(|word| word.starts_with("--skipped"));
    let skip = skip.expect("the argument is named").to_owned();
    deploy(beta, &tag("v1.19.0"), &["--feature-gates=Failover=true"]).await;

    let next = clinic.finds(skipped, "fail", "may propagate Instances").await;
    assert_eq!(next, format!("run it with {skip}"));
    deploy(beta, &tag("v1.19.0"), &[&skip]).await;
    clinic.is_mended(skipped).await;

    let gates = (plane, "propagate-deps");
    let off = "--feature-gates=Failover=true,PropagateDeps=false";
    deploy(beta, &tag("v1.19.0"), &[&skip, off]).await;
    let next = clinic.finds(gates, "fail", "runs with PropagateDeps=false").await;
    assert_eq!(next, "remove PropagateDeps=false from its --feature-gates");
    deploy(
        beta,
        &tag("v1.19.0"),
        &[&skip, &off.replace(",PropagateDeps=false", "")],
    )
    .await;
    clinic.is_mended(gates).await;

    let version = (plane, "karmada");
    for other in ["v1.9.3", "v1.99.0", "latest"] {
        deploy(beta, &tag(other), &[&skip]).await;
        let words = format!("{MANAGER}:{other}");
        let next = clinic.finds(version, "open", &words).await;
        assert!(next.starts_with("run a version from v1.10 to v1.19"), "{next}");
        let named = next.split(' ').find(|word| word.starts_with("v1."));
        deploy(beta, &tag(&format!("{}.4", named.expect("a version"))), &[&skip]).await;
        clinic.is_mended(version).await;
    }
}

async fn leave_host(clinic: &Clinic) {
    let beta = &clinic.case.suite.beta;
    // The clinic of the next trial has no such host.
    let _ = std::fs::remove_file(clinic.file(HOST));
    beta.delete(&DEPLOYED, HOME, MANAGER).await;
    beta.delete(&NAMESPACE, "", HOME).await;
}
