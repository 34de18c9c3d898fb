//! 1–7: a deployment reaches the hub.

use crate::support::{
    Case, Entry, annotation, condition, deployment, has_finalizer,
    kinds::{CLUSTER, DEPLOYMENT, NAMESPACE, POLICY},
    label, lone_trials,
    plane::BY_EVENT,
    seconds, trials, unique_city, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    a01_copy_with_its_city,
    #[core]
    a02_city_policy_is_exact,
    a03_codes_that_differ_in_case_have_a_policy_each,
    #[core]
    a04_project_is_patched_before_the_copy,
    #[core]
    a05_no_foreign_key_reaches_the_hub,
    a06_invalid_city_code_stays_in_the_project,
    #[core]
    too_long_name_stays_in_the_project,
];

lone_trials![a07_city_without_a_cell_until_one_joins];

async fn a01_copy_with_its_city(case: Case) {
    let made = case.create(&DEPLOYMENT, deployment("web", "DFW")).await;
    let copy = case
        .hub
        .exists(&DEPLOYMENT, &case.hub_ns, "web", seconds(30))
        .await;
    assert_eq!(label(&copy, keys::CITY_CODE), Some("DFW"));
    assert_eq!(label(&copy, keys::UPSTREAM_NAMESPACE), Some(case.ns.as_str()));
    assert_eq!(
        annotation(&copy, keys::SOURCE_UID),
        made["metadata"]["uid"].as_str()
    );
    assert_eq!(annotation(&copy, keys::SOURCE_GENERATION), Some("1"));
    assert_eq!(copy["spec"], made["spec"], "the spec travels whole and unchanged");
    assert!(
        copy["metadata"].get("ownerReferences").is_none() && copy["metadata"].get("finalizers").is_none()
    );
}

/// A policy's spec without what Karmada's webhook and CRD put in.
fn own_fields(policy: &Value) -> Value {
    let mut spec = policy["spec"].clone();
    let fields = spec.as_object_mut().expect("a policy has a spec");
    for (field, default) in [
        ("priority", json!(0)),
        ("preemption", json!("Never")),
        ("schedulerName", json!("default-scheduler")),
        ("conflictResolution", json!("Abort")),
    ] {
        if let Some(found) = fields.remove(field) {
            assert_eq!(found, default, "{field} is only ever Karmada's default");
        }
    }
    // Karmada writes tolerations for its two taints and an empty spread list into the placement of every policy.
    if let Some(placement) = fields.get_mut("placement").and_then(Value::as_object_mut) {
        placement.remove("clusterTolerations");
        placement.retain(|_, set| set.as_array().is_none_or(|list| !list.is_empty()));
    }
    spec
}

async fn a02_city_policy_is_exact(case: Case) {
    case.deploy("web", "DFW").await;
    let policy = case
        .hub
        .exists(&POLICY, &case.hub_ns, "city-dfw", seconds(30))
        .await;
    let expected = json!({
        "propagateDeps": true,
        "resourceSelectors": [{
            "apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "WorkloadDeployment",
            "namespace": case.hub_ns,
            "labelSelector": {"matchLabels": {keys::CITY_CODE: "DFW"}},
        }],
        "placement": {
            "clusterAffinity": {"labelSelector": {"matchLabels": {keys::CITY_CODE: "DFW"}}},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        },
    });
    assert_eq!(own_fields(&policy), expected);
    let metadata = &policy["metadata"];
    assert!(metadata.get("ownerReferences").is_none(), "it has no owner");
    let of = |field: &str| metadata[field].as_object().cloned().unwrap_or_default();
    let foreign: Vec<String> = of("labels")
        .into_iter()
        .chain(of("annotations"))
        .map(|(key, _)| key)
        .filter(|key| !key.contains("karmada.io/"))
        .collect();
    assert!(
        foreign.is_empty(),
        "labels and annotations are Karmada's alone: {foreign:?}"
    );
}

async fn a03_codes_that_differ_in_case_have_a_policy_each(case: Case) {
    case.deploy("upper", "DFW").await;
    case.join_unready("dfw").await;
    case.deploy("lower", "dfw").await;
    let policies = case.hub.list(&POLICY, &case.hub_ns, "").await;
    let mut codes: Vec<(&str, &str)> = policies
        .iter()
        .map(|policy| {
            let selector = &policy["spec"]["resourceSelectors"][0]["labelSelector"]["matchLabels"];
            let affinity = &policy["spec"]["placement"]["clusterAffinity"]["labelSelector"]["matchLabels"];
            (
                selector[keys::CITY_CODE].as_str().unwrap(),
                affinity[keys::CITY_CODE].as_str().unwrap(),
            )
        })
        .collect();
    codes.sort_unstable();
    assert_eq!(
        codes,
        [("DFW", "DFW"), ("dfw", "dfw")],
        "one policy for each code, each with its own"
    );
    case.dfw.deployment(&case.hub_ns, "upper").await;
    case.condition("lower", "Federated", "False", "NoCellForCity")
        .await;
}

async fn a04_project_is_patched_before_the_copy(case: Case) {
    case.deploy("web", "DFW").await;
    let made = case
        .project
        .get(&DEPLOYMENT, &case.ns, "web")
        .await
        .expect("the deployment is there");
    assert_eq!(
        annotation(&made, keys::FEDERATION_NAMESPACE),
        Some(case.hub_ns.as_str())
    );
    assert!(has_finalizer(&made, keys::FEDERATOR_FINALIZER));
    let of = |entries: Vec<Entry>, action: &str| -> Entry {
        let found = entries
            .into_iter()
            .find(|e| e.action() == action && e.succeeded());
        found.unwrap_or_else(|| panic!("the audit log has no `{action}`"))
    };
    let claimed = of(case.project_requests(), "patch workloaddeployments");
    // The log has a request once it is answered.
    let hub = wait_for("the log has the copy's write", seconds(10), || async {
        let all = case.hub_requests().into_iter();
        let hub: Vec<Entry> = all
            .filter(|e| e.is_write() && e.object_ref.name == "web")
            .collect();
        (!hub.is_empty()).then_some(hub)
    })
    .await;
    for write in hub {
        assert!(
            claimed.stage_timestamp <= write.request_received_timestamp,
            "the project was patched at {}, yet the hub was asked for `{}` at {}",
            claimed.stage_timestamp,
            write.action(),
            write.request_received_timestamp
        );
    }
}

async fn a05_no_foreign_key_reaches_the_hub(case: Case) {
    let mut object = deployment("web", "DFW");
    object["metadata"]["labels"] = json!({
        "team": "shop",
        "x.karmada.io/y": "z",
        "propagationpolicy.karmada.io/permanent-id": "00000000-0000-4000-8000-000000000000",
        "resourcetemplate.karmada.io/deletion-protected": "Always",
    });
    object["metadata"]["annotations"] = json!({
        "note": "mine",
        "x.karmada.io/y": "z",
        "work.karmada.io/conflict-resolution": "overwrite",
        "resourcetemplate.karmada.io/claimed-by": "someone",
        "propagationpolicy.karmada.io/name": "stolen",
    });
    case.create(&DEPLOYMENT, object).await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    let copy = case.copy("web").await;
    let keys_of = |field: &str| -> Vec<String> {
        copy["metadata"][field]
            .as_object()
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default()
    };
    for key in [
        "team",
        "x.karmada.io/y",
        "resourcetemplate.karmada.io/deletion-protected",
    ] {
        assert!(
            !keys_of("labels").contains(&key.to_owned()),
            "label {key} is on the copy"
        );
    }
    for key in [
        "note",
        "x.karmada.io/y",
        "work.karmada.io/conflict-resolution",
        "resourcetemplate.karmada.io/claimed-by",
    ] {
        assert!(
            !keys_of("annotations").contains(&key.to_owned()),
            "annotation {key} is on the copy"
        );
    }
    // The claim that is there by now is Karmada's own, not the tenant's.
    assert_ne!(
        label(&copy, keys::CLAIM_ID),
        Some("00000000-0000-4000-8000-000000000000")
    );
    assert_eq!(
        annotation(&copy, keys::CLAIM_NAME).unwrap_or("city-dfw"),
        "city-dfw"
    );
}

async fn a06_invalid_city_code_stays_in_the_project(case: Case) {
    let long = "X".repeat(64);
    for (name, code) in [("spaced", "a b"), ("long", long.as_str())] {
        case.create(&DEPLOYMENT, deployment(name, code)).await;
        let federated = case
            .condition(name, "Federated", "False", "InvalidCityCode")
            .await;
        assert!(
            federated["message"]
                .as_str()
                .is_some_and(|text| text.contains(code)),
            "the message names the code"
        );
        assert_eq!(federated["observedGeneration"], 1);
        let event = case.event(name, "InvalidCityCode").await;
        assert_eq!(event["type"], "Warning");
    }
    case.quiet().await;
    let asked: Vec<String> = case.hub_requests().iter().map(Entry::action).collect();
    assert!(asked.is_empty(), "no request to the hub, but there was {asked:?}");
    case.merge(&DEPLOYMENT, "spaced", json!({"spec": {"cityCode": "DFW"}}))
        .await;
    case.hub
        .exists(&DEPLOYMENT, &case.hub_ns, "spaced", BY_EVENT)
        .await;
}

async fn too_long_name_stays_in_the_project(case: Case) {
    let (fits, long) = ("n".repeat(63), "n".repeat(64));
    case.create(&DEPLOYMENT, deployment(&long, "DFW")).await;
    let federated = case.condition(&long, "Federated", "False", "InvalidName").await;
    let message = federated["message"].as_str().unwrap_or_default();
    for said in ["metadata.name", "64", "63", "create it under a shorter name"] {
        assert!(
            message.contains(said),
            "field, limit and next step are said: {message:?}"
        );
    }
    assert_eq!(federated["observedGeneration"], 1);
    let event = case.event(&long, "InvalidName").await;
    assert_eq!(
        (&event["type"], &event["regarding"]["kind"]),
        (&json!("Warning"), &json!("WorkloadDeployment"))
    );
    case.quiet().await;
    let asked: Vec<String> = case.hub_requests().iter().map(Entry::action).collect();
    assert!(asked.is_empty(), "no request to the hub, but there was {asked:?}");
    // Nothing holds it, and the longest name goes through.
    case.delete(&DEPLOYMENT, &long).await;
    case.project.gone(&DEPLOYMENT, &case.ns, &long, BY_EVENT).await;
    case.deploy(&fits, "DFW").await;
    case.dfw.deployment(&case.hub_ns, &fits).await;
}

async fn a07_city_without_a_cell_until_one_joins(case: Case) {
    let city = unique_city();
    case.create(&DEPLOYMENT, deployment("web", &city)).await;
    let federated = case.condition("web", "Federated", "False", "NoCellForCity").await;
    let message = federated["message"].as_str().unwrap_or_default();
    assert!(
        message.contains(&city) && message.contains(keys::CITY_CODE),
        "the message says {message:?}"
    );
    case.event("web", "NoCellForCity").await;
    let written = case.hub_writes();
    assert!(
        written.is_empty(),
        "nothing goes to the hub for it, but {written:?}"
    );
    // A Cluster that comes, with no API server behind it: what is the gateway's part is done by that event.
    case.join_unready(&city).await;
    case.hub.exists(&DEPLOYMENT, &case.hub_ns, "web", BY_EVENT).await;
    // A request is in the audit log only once it has been answered.
    case.quiet().await;
    let mut written = case.hub_writes();
    written.sort();
    assert_eq!(
        written,
        [
            "create namespaces",
            "create propagationpolicies",
            "create workloaddeployments"
        ],
        "exactly what a first deployment needs"
    );
    // One with an API server behind it. The sandbox knows the cells that it began with, so it changes its city.
    let relabel = |code: &str| json!({"metadata": {"labels": {keys::CITY_CODE: code}}});
    case.hub.merge(&CLUSTER, "", &case.lhr.name, relabel(&city)).await;
    let delivered = async {
        case.lhr.deployment(&case.hub_ns, "web").await;
        case.lhr.report(&case.hub_ns, "web", 1, 1).await;
        let counted = |o: &Value| o["status"]["replicas"] == 1;
        case.copy_sees("web", "has the cell's counters", counted).await;
        let said = |o: &Value| {
            counted(o)
                && condition(o, "Available").is_some()
                && condition(o, "Federated").is_some_and(|c| c["reason"] == "Delivered")
        };
        // What the hub says is in the project at once.
        case.project
            .sees(
                &DEPLOYMENT,
                &case.ns,
                "web",
                "is delivered and counted",
                seconds(2),
                said,
            )
            .await;
        case.remove("web").await;
    };
    let outcome = tokio::time::timeout(seconds(240), delivered).await;
    case.hub
        .merge(&CLUSTER, "", &case.lhr.name, relabel(&case.lhr.city))
        .await;
    outcome.expect("the joined cell gets the deployment within 240 s");
    // Back in its city, the cell serves it again.
    case.deploy("after", "LHR").await;
    case.lhr.deployment(&case.hub_ns, "after").await;
    assert!(case.lhr.plane.get(&NAMESPACE, "", &case.hub_ns).await.is_some());
}
