//! A made-up kind whose objects live at exactly one member (tests/kinds, `Vault`): chosen by Karmada, pinned before anything
//! is delivered, and gone only when the member says so.

use crate::support::{
    Case, annotation, condition, has_finalizer,
    kinds::{CONFIG_MAP, SECRET, VAULT},
    label, seconds, trials, uid,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    v01_a_vault_is_pinned_and_delivered_with_its_secret,
    v02_a_held_vault_gets_its_edit_when_it_is_resumed,
    v03_a_deleted_vault_stays_until_its_member_has_let_it_go,
];

const NAME: &str = "gold";

fn vault(city: &str) -> Value {
    json!({"metadata": {"name": NAME, "labels": {keys::CITY_CODE: city}},
        "spec": {"size": 1, "credentials": {"secretName": "token"}}})
}

/// A vault that its member has applied.
async fn delivered(case: &Case) -> Value {
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    let made = case.create(&VAULT, vault(&case.dfw.city)).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
    made
}

fn is(object: &Value, kind: &str, reason: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["reason"] == reason)
}

/// The hub's record of the vault's member.
async fn pin(case: &Case) -> Option<Value> {
    let record = case.hub_ns.replacen("ns-", "fedgate-pins-", 1);
    let record = case.hub.get(&CONFIG_MAP, keys::SYSTEM_NAMESPACE, &record).await?;
    let text = record["data"][format!("vaults.example.fedgate.dev_{NAME}")]
        .as_str()?
        .to_owned();
    serde_json::from_str(&text).ok()
}

async fn v01_a_vault_is_pinned_and_delivered_with_its_secret(case: Case) {
    let made = delivered(&case).await;
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!(copy["spec"], made["spec"]);
    let lane = format!("vault-pin-{}", case.dfw.name);
    assert_eq!(label(&copy, keys::LANE), Some(&*lane));
    let pin = pin(&case).await.expect("it is pinned");
    assert_eq!(pin["member"], case.dfw.name);
    assert_eq!(pin["sourceUid"], uid(&made));
    assert_eq!(pin["copyUids"], json!([uid(&copy)]));
    assert_eq!(pin["delivered"], true);
    case.dfw
        .plane
        .exists(&VAULT, &case.hub_ns, NAME, seconds(5))
        .await;
    let secret = case
        .dfw
        .plane
        .exists(&SECRET, &case.hub_ns, "token", seconds(5))
        .await;
    assert_eq!(
        label(&secret, keys::LANE),
        Some(&*format!("with-{}", case.dfw.name))
    );
    case.dfw
        .plane
        .merge_status(
            &VAULT,
            &case.hub_ns,
            NAME,
            json!({"phase": "Ready", "ready": 1, "nodes": {"a": "up", "b": "up"}}),
        )
        .await;
    let seen = case
        .project
        .sees(&VAULT, &case.ns, NAME, "has its status", seconds(60), |o| {
            o["status"]["nodes"]["b"] == "up"
        })
        .await;
    for (kind, reason) in [
        ("Federated", "Delivered"),
        ("Scheduled", "Pinned"),
        ("Applied", "Applied"),
        ("StatusCurrent", "Current"),
    ] {
        assert!(is(&seen, kind, reason), "{kind} {reason}: {seen}");
    }
    case.dfw
        .plane
        .merge_status(&VAULT, &case.hub_ns, NAME, json!({"nodes": {"b": null}}))
        .await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "has lost a node", seconds(60), |o| {
            o["status"]["nodes"] == json!({"a": "up"})
        })
        .await;
}

async fn v02_a_held_vault_gets_its_edit_when_it_is_resumed(case: Case) {
    const MARK: &str = "example.fedgate.dev/suspended";
    delivered(&case).await;
    let mark = |value: Value| json!({"metadata": {"annotations": {MARK: value}}});
    case.merge(&VAULT, NAME, mark(json!("true"))).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is held", seconds(60), |o| {
            is(o, "Applied", "DispatchSuspended")
        })
        .await;
    case.merge(&VAULT, NAME, json!({"spec": {"size": 7}})).await;
    let held = case
        .hub
        .get(&VAULT, &case.hub_ns, NAME)
        .await
        .expect("the copy is there");
    assert_eq!(
        label(&held, keys::LANE),
        Some(&*format!("vault-hold-{}", case.dfw.name))
    );
    assert_eq!(held["spec"]["size"], 1, "an edit waits in the project");
    case.merge(&VAULT, NAME, mark(Value::Null)).await;
    let there = case
        .dfw
        .plane
        .sees(&VAULT, &case.hub_ns, NAME, "has the edit", seconds(60), |o| {
            o["spec"]["size"] == 7
        })
        .await;
    assert_eq!(annotation(&there, keys::SOURCE_GENERATION), Some("2"));
}

async fn v03_a_deleted_vault_stays_until_its_member_has_let_it_go(case: Case) {
    delivered(&case).await;
    let held = json!({"metadata": {"finalizers": ["example.fedgate.dev/drain"]}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, held).await;
    case.merge(&VAULT, NAME, json!({"spec": {"locked": true}})).await;
    case.delete(&VAULT, NAME).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is guarded", seconds(60), |o| {
            is(o, "Federated", "DeletionHeld")
        })
        .await;
    assert!(case.hub.get(&VAULT, &case.hub_ns, NAME).await.is_some());
    case.merge(&VAULT, NAME, json!({"spec": {"locked": false}})).await;
    let waits = case
        .project
        .sees(&VAULT, &case.ns, NAME, "waits for its member", seconds(90), |o| {
            condition(o, "Federated").is_some_and(|c| {
                c["reason"] == "WaitingForMember"
                    && c["message"]
                        .as_str()
                        .unwrap_or_default()
                        .contains("example.fedgate.dev/drain")
            })
        })
        .await;
    assert!(has_finalizer(&waits, keys::FEDERATOR_FINALIZER));
    assert!(pin(&case).await.is_some(), "the pin stays");
    case.dfw
        .plane
        .exists(&SECRET, &case.hub_ns, "token", seconds(5))
        .await;
    let free = json!({"metadata": {"finalizers": null}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, free).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
    assert_eq!(pin(&case).await, None);
    case.dfw
        .plane
        .gone(&SECRET, &case.hub_ns, "token", seconds(60))
        .await;
}
