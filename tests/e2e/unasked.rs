//! A vault that is deleted while its member cannot be asked whether it is gone (tests/kinds, `Vault`).

use crate::{
    lanes::{delivered, is, pin},
    support::{
        Case, condition,
        kinds::{CLUSTER, CLUSTER_ROLE, DEFINITION, NAMESPACE, VAULT},
        lone_trials, seconds,
        suite::is_real,
        wait_for, with_cleanup,
    },
};
use serde_json::{Value, json};

lone_trials![v43_a_deletion_waits_until_its_member_itself_says_that_it_is_gone];

const NAME: &str = "gold";
const VAULTS: &str = "vaults.example.fedgate.dev";

/// Waits until the deletion says these words; the pin stays.
async fn waits(case: &Case, words: &str) {
    case.project
        .sees(&VAULT, &case.ns, NAME, words, seconds(150), |o| {
            is(o, "Federated", "WaitingForMember")
                && condition(o, "Federated")
                    .and_then(|c| c["message"].as_str())
                    .is_some_and(|message| message.contains(words))
        })
        .await;
    assert!(pin(case).await.is_some(), "the pin stays");
}

/// G39: what the hub or the way to the member answers proves nothing; the member's own word does, also when the namespace has
/// gone with the object.
async fn v43_a_deletion_waits_until_its_member_itself_says_that_it_is_gone(case: Case) {
    const DRAIN: &str = "example.fedgate.dev/drain";
    let at = &case.dfw.plane;
    delivered(&case).await;
    let held = json!({"metadata": {"finalizers": [DRAIN]}});
    at.merge(&VAULT, &case.hub_ns, NAME, held).await;
    case.delete(&VAULT, NAME).await;
    waits(&case, DRAIN).await;
    let refused = Box::pin(async {
        without_the_proxy(&case).await;
        // Karmada gives the rights at its members back after those of the hub.
        waits(&case, DRAIN).await;
    });
    // What the proxy refuses is in the hub's log.
    case.suite.without_rights("hub", refused).await;
    if is_real() {
        without_impersonator(&case).await;
        waits(&case, DRAIN).await;
    } else {
        eprintln!("NOT RUN: the stand-in's members need no impersonator");
    }
    without_the_version(&case).await;
    waits(&case, DRAIN).await;
    at.delete(&NAMESPACE, "", &case.hub_ns).await;
    let free = json!({"metadata": {"finalizers": null}});
    at.merge(&VAULT, &case.hub_ns, NAME, free).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(180)).await;
    assert_eq!(pin(&case).await, None);
}

/// While no role of the hub lets the gateway use the proxy.
async fn without_the_proxy(case: &Case) {
    let is_proxy = |rule: &Value| rule["resources"] == json!(["clusters/proxy"]);
    let mut roles = case.hub.list(&CLUSTER_ROLE, "", "").await;
    roles.retain(|role| {
        let ours = role["metadata"]["name"].as_str().unwrap_or_default();
        let mut granted = role["rules"].as_array().into_iter().flatten();
        ours.starts_with("fedgate-gateway") && granted.any(is_proxy)
    });
    assert!(!roles.is_empty(), "the gateway has the right");
    let set = async |role: &Value, rules: &Value| {
        let name = role["metadata"]["name"].as_str().expect("a role has a name");
        case.hub
            .merge(&CLUSTER_ROLE, "", name, json!({"rules": rules}))
            .await;
    };
    let body = async {
        for role in &roles {
            let mut less = role["rules"].clone();
            less.as_array_mut().expect("rules").retain(|rule| !is_proxy(rule));
            set(role, &less).await;
        }
        waits(case, "cannot get resource \"clusters/proxy\"").await;
    };
    with_cleanup(body, async {
        for role in &roles {
            set(role, &role["rules"]).await;
        }
    })
    .await;
}

/// While the hub has no credential to act in the gateway's name at the member.
async fn without_impersonator(case: &Case) {
    let member = &case.dfw.name;
    let cluster = case.hub.get(&CLUSTER, "", member).await;
    let reference = cluster.expect("the Cluster is there")["spec"]["impersonatorSecretRef"].take();
    assert!(reference.is_object(), "it has joined with one");
    let set = async |reference: &Value| {
        let spec = json!({"spec": {"impersonatorSecretRef": reference}});
        case.hub.merge(&CLUSTER, "", member, spec).await;
    };
    let words = format!("the impersonatorSecretRef of cluster {member} is nil");
    let body = async {
        set(&Value::Null).await;
        waits(case, &words).await;
    };
    with_cleanup(body, set(&reference)).await;
}

/// While the member does not serve the version of the kind.
async fn without_the_version(case: &Case) {
    let at = &case.dfw.plane;
    let crd = at.get(&DEFINITION, "", VAULTS).await;
    let versions = crd.expect("the member has the kind")["spec"]["versions"].take();
    let mut unserved = versions.clone();
    unserved[0]["served"] = json!(false);
    let set = async |versions: &Value| {
        let spec = json!({"spec": {"versions": versions}});
        at.merge(&DEFINITION, "", VAULTS, spec).await;
    };
    let body = async {
        set(&unserved).await;
        waits(case, "404 page not found").await;
    };
    with_cleanup(body, set(&versions)).await;
    wait_for("the hub knows that the kind is served", seconds(90), || async {
        let cluster = case.hub.get(&CLUSTER, "", &case.dfw.name).await?;
        cluster["status"]["apiEnablements"]
            .to_string()
            .contains("\"Vault\"")
            .then_some(())
    })
    .await;
}
