//! Companions of a kind of their own (tests/kinds, `Seal` and `Charter`): they are at the member before their vault, and a seal
//! goes there together with it.

use crate::{
    lanes::{is, pin, preserved, vault},
    support::{
        Case, condition,
        kinds::{CHARTER, SEAL, SECRET, VAULT},
        label, seconds, trials, uid, wait_for,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};
use tokio::time::Instant;

trials![
    v11_a_seal_is_there_before_its_vault_and_goes_with_it,
    v12_a_seal_outlives_hands_on_the_hub_and_belongs_to_one_vault,
    v13_a_new_companion_is_there_before_the_spec_that_names_it,
];

const NAME: &str = "gold";

/// A vault with a seal, which is made part of it, and a charter, which need not be there.
pub(crate) fn sealed(city: &str) -> Value {
    let mut vault = vault(city);
    vault["spec"]["sealName"] = json!("wax");
    vault["spec"]["charterName"] = json!("deed");
    vault
}

pub(crate) fn seal() -> Value {
    json!({"metadata": {"name": "wax", "labels": {"tenant": "x"}}, "spec": {"motto": "m"}})
}

/// A vault that its member has applied, with the seal that an operator there has made part of it.
pub(crate) async fn delivered(case: &Case) -> Value {
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    case.create(&VAULT, sealed(&case.dfw.city)).await;
    sealed_vault(case).await
}

/// Makes the seal, and waits until the member has the vault that waits for it.
async fn sealed_vault(case: &Case) -> Value {
    case.create(&SEAL, seal()).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
    preserved(case).await;
    kept(case).await;
    adopt(case).await
}

/// Waits until the seal is given to its member to keep.
pub(crate) async fn kept(case: &Case) {
    let lane = format!("keep-{}", case.dfw.name);
    case.hub
        .sees(&SEAL, &case.hub_ns, "wax", "is kept", seconds(60), |o| {
            label(o, keys::LANE) == Some(&*lane)
        })
        .await;
}

/// The member's operator makes the vault the owner of its seal.
async fn adopt(case: &Case) -> Value {
    let member = &case.dfw.plane;
    let vault = member.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    let owner =
        json!([{"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": NAME, "uid": uid(&vault)}]);
    let patch = json!({"metadata": {"ownerReferences": owner}});
    member.merge(&SEAL, &case.hub_ns, "wax", patch).await;
    member.exists(&SEAL, &case.hub_ns, "wax", seconds(5)).await
}

async fn v11_a_seal_is_there_before_its_vault_and_goes_with_it(case: Case) {
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    case.create(&VAULT, sealed(&case.dfw.city)).await;
    // The Secret may be seen a little later than the vault.
    case.project
        .sees(&VAULT, &case.ns, NAME, "lacks its seal", seconds(60), |o| {
            is(o, "Federated", "SourceNotFound")
                && condition(o, "Federated")
                    .is_some_and(|c| c["message"].to_string().contains("Seal.example.fedgate.dev wax"))
        })
        .await;
    assert_eq!(case.hub.get(&VAULT, &case.hub_ns, NAME).await, None);
    let there = sealed_vault(&case).await;
    assert_eq!(there["spec"], json!({"motto": "m", "rings": 1}));
    assert_eq!(
        label(&there, "tenant"),
        None,
        "labels of its tenant stay in the project"
    );
    assert_eq!(
        case.dfw.plane.get(&CHARTER, &case.hub_ns, "deed").await,
        None,
        "an optional one that is not there is done without"
    );
    let member = &case.dfw.plane;
    member
        .merge_status(&SEAL, &case.hub_ns, "wax", json!({"phase": "Broken"}))
        .await;
    let begin = member.version(&SEAL, &case.hub_ns).await;
    case.delete(&VAULT, NAME).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(200)).await;
    assert_eq!(pin(&case).await, None);
    member.gone(&SEAL, &case.hub_ns, "wax", seconds(60)).await;
    case.hub.gone(&SEAL, &case.hub_ns, "wax", seconds(60)).await;
    // Karmada made it again as long as it was given to the member.
    let changes = member.history(&SEAL, &case.hub_ns, &begin).await;
    let uids: std::collections::BTreeSet<&str> = changes.iter().map(|(_, seal, _)| uid(seal)).collect();
    assert_eq!(uids, [uid(&there)].into(), "{changes:#?}");
    let source = case
        .project
        .get(&SEAL, &case.ns, "wax")
        .await
        .expect("its source stays");
    assert_eq!(source["status"], Value::Null, "no status comes back");
}

async fn v12_a_seal_outlives_hands_on_the_hub_and_belongs_to_one_vault(case: Case) {
    let deed = json!({"metadata": {"name": "deed"}, "spec": {"free": {"of": ["form"]}}});
    case.create(&CHARTER, deed.clone()).await;
    let there = delivered(&case).await;
    let charter = case
        .dfw
        .plane
        .exists(&CHARTER, &case.hub_ns, "deed", seconds(5))
        .await;
    assert_eq!(charter["spec"], deed["spec"]);
    case.hub.delete(&SEAL, &case.hub_ns, "wax").await;
    wait_for("it is made again", seconds(60), || async {
        let seal = case.hub.get(&SEAL, &case.hub_ns, "wax").await?;
        seal["metadata"]["deletionTimestamp"].is_null().then_some(())
    })
    .await;
    kept(&case).await;
    let edit = json!({"spec": {"motto": "another"}});
    case.project.merge(&SEAL, &case.ns, "wax", edit).await;
    let now = case
        .dfw
        .plane
        .sees(&SEAL, &case.hub_ns, "wax", "has the edit", seconds(60), |o| {
            o["spec"]["motto"] == "another"
        })
        .await;
    assert_eq!(uid(&now), uid(&there), "it is the same seal");
    assert_eq!(
        now["metadata"]["ownerReferences"],
        there["metadata"]["ownerReferences"]
    );
    let mut second = sealed(&case.dfw.city);
    second["metadata"]["name"] = json!("iron");
    case.create(&VAULT, second).await;
    case.project
        .sees(&VAULT, &case.ns, "iron", "waits", seconds(60), |o| {
            is(o, "Federated", "CompanionShared")
        })
        .await;
    assert_eq!(case.hub.get(&VAULT, &case.hub_ns, "iron").await, None);
    case.delete(&VAULT, NAME).await;
    case.project
        .sees(&VAULT, &case.ns, "iron", "is delivered", seconds(200), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
    case.delete(&VAULT, "iron").await;
    case.project.gone(&VAULT, &case.ns, "iron", seconds(200)).await;
    case.hub.gone(&CHARTER, &case.hub_ns, "deed", seconds(60)).await;
}

async fn v13_a_new_companion_is_there_before_the_spec_that_names_it(case: Case) {
    delivered(&case).await;
    let other = json!({"spec": {"credentials": {"secretName": "other"}}});
    case.merge(&VAULT, NAME, other).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "lacks the Secret", seconds(60), |o| {
            is(o, "Federated", "SourceNotFound")
        })
        .await;
    let member = &case.dfw.plane;
    let held = member.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!(held["spec"]["credentials"]["secretName"], "token");
    case.secret("other", "Opaque", &json!({"token": "u"})).await;
    let now = member
        .sees(&VAULT, &case.hub_ns, NAME, "has the spec", seconds(60), |o| {
            o["spec"]["credentials"]["secretName"] == "other"
        })
        .await;
    let other = member.get(&SECRET, &case.hub_ns, "other").await;
    let version = |o: &Value| o["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
    assert!(
        version(&other.expect("it is there")) < version(&now),
        "it was there before the spec"
    );
    let since = Instant::now();
    member.exists(&SECRET, &case.hub_ns, "token", seconds(5)).await;
    // A minute after the hub knows that the member has applied the new spec.
    member.gone(&SECRET, &case.hub_ns, "token", seconds(120)).await;
    let stayed = since.elapsed();
    assert!(stayed >= seconds(55), "it has gone after {stayed:?}");
}
