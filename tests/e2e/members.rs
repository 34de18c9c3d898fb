//! A vault (tests/kinds) whose member changes, or the hub's word of it: its Cluster leaves and joins again, a hand edits its
//! binding.

use crate::{
    lanes::{delivered, has_size, is, pin, preserved, vault, works_at},
    support::{
        Case, annotation, condition,
        kinds::{BINDING, CLUSTER, SECRET, VAULT, WORK},
        label, lone_trials, seconds, trials, uid, wait_for, with_cleanup,
    },
    vault_status::shows,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::time::Duration;

trials![v20_of_two_members_that_a_hand_gives_to_a_vault_its_own_stays];
lone_trials![v21_a_member_that_joined_anew_gets_nothing_until_it_is_called_the_same];

const NAME: &str = "gold";

async fn lane(case: &Case, lane: &str) {
    let lane = format!("vault-{lane}-{}", case.dfw.name);
    let what = format!("is in lane {lane}");
    case.hub
        .sees(&VAULT, &case.hub_ns, NAME, &what, seconds(90), |o| {
            label(o, keys::LANE) == Some(&*lane)
        })
        .await;
}

/// A hand gives the binding to two members and to a scheduler.
async fn two_members(case: &Case, scheduler: &str) {
    let clusters = json!([{"name": case.dfw.name}, {"name": case.lhr.name}]);
    let spec = json!({"clusters": clusters, "schedulerName": scheduler});
    let patch = json!({"spec": spec});
    case.hub.merge(&BINDING, &case.hub_ns, "gold-vault", patch).await;
}

async fn members(case: &Case, names: &[&str], limit: Duration) {
    let what = format!("is at {names:?}");
    case.hub
        .sees(&BINDING, &case.hub_ns, "gold-vault", &what, limit, |o| {
            let clusters = o["spec"]["clusters"].as_array().cloned().unwrap_or_default();
            clusters
                .iter()
                .map(|c| c["name"].as_str().unwrap_or_default())
                .eq(names.iter().copied())
        })
        .await;
}

/// Waits until Karmada has given the binding to the policy of delivery at the member, and its scheduler is done with the binding:
/// either would undo what the hand writes next.
async fn scheduled(case: &Case) {
    case.hub
        .sees(
            &BINDING,
            &case.hub_ns,
            "gold-vault",
            "is scheduled",
            seconds(60),
            |o| {
                annotation(o, keys::CLAIM_NAME) == Some(&*format!("vault-pin-{}", case.dfw.name))
                    && o["status"]["schedulerObservedGeneration"] == o["metadata"]["generation"]
            },
        )
        .await;
}

/// G12: Karmada's scheduler takes a second member away; where none does, the vault is held and nothing moves.
async fn v20_of_two_members_that_a_hand_gives_to_a_vault_its_own_stays(case: Case) {
    // What a hand builds at the other member needs its namespace there, or its Work would never end.
    case.deploy("elsewhere", &case.lhr.city).await;
    case.lhr.deployment(&case.hub_ns, "elsewhere").await;
    delivered(&case).await;
    let there = case
        .dfw
        .plane
        .exists(&VAULT, &case.hub_ns, NAME, seconds(5))
        .await;
    let own = [&*case.dfw.name];
    two_members(&case, "default-scheduler").await;
    members(&case, &own, seconds(60)).await;
    // The gateway may have held the vault meanwhile. Karmada writes the binding at each change of its lane, and would undo there
    // what the hand writes next.
    case.quiet().await;
    lane(&case, "pin").await;
    scheduled(&case).await;
    two_members(&case, "nobody").await;
    let strayed = shows(&case, "strays", |o| is(o, "Scheduled", "Strayed")).await;
    let words = condition(&strayed, "Scheduled")
        .map(|c| c["message"].to_string())
        .unwrap_or_default();
    assert!(words.contains(&case.lhr.name), "it says where: {words}");
    case.event(NAME, "Strayed").await;
    assert_eq!(pin(&case).await.expect("it is pinned")["member"], case.dfw.name);
    // The lane is written, so Karmada gives the binding to its scheduler again.
    members(&case, &own, seconds(60)).await;
    shows(&case, "is at its member again", |o| {
        is(o, "Scheduled", "Pinned") && is(o, "Applied", "Applied")
    })
    .await;
    preserved(&case).await;
    case.merge(&VAULT, NAME, json!({"spec": {"size": 5}})).await;
    let now = has_size(&case, 5, seconds(60)).await;
    assert_eq!(uid(&now), uid(&there), "it is the same object");
    let status = json!({"phase": "Ready"});
    case.dfw
        .plane
        .merge_status(&VAULT, &case.hub_ns, NAME, status)
        .await;
    shows(&case, "has its status", |o| o["status"]["phase"] == "Ready").await;
    // What a hand has built elsewhere is nobody's, and its Work never ends if it was taken away before it was applied.
    wait_for("the other member has no Work", seconds(60), || async {
        let left = works_at(&case, &case.lhr.name, &VAULT, NAME).await;
        for work in left
            .iter()
            .filter(|work| !work["metadata"]["deletionTimestamp"].is_null())
        {
            let name = work["metadata"]["name"].as_str().unwrap_or_default();
            let free = json!({"metadata": {"finalizers": null}});
            let space = format!("karmada-es-{}", case.lhr.name);
            drop(case.hub.try_merge(&WORK, &space, name, &free).await);
        }
        left.is_empty().then_some(())
    })
    .await;
    case.lhr.plane.delete(&VAULT, &case.hub_ns, NAME).await;
}

/// The Secrets by which the hub reaches a member. Karmada deletes them with its Cluster.
async fn credentials(case: &Case, cluster: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for reference in ["secretRef", "impersonatorSecretRef"] {
        let reference = &cluster["spec"][reference];
        if let (Some(namespace), Some(name)) = (reference["namespace"].as_str(), reference["name"].as_str()) {
            found.extend(case.hub.get(&SECRET, namespace, name).await);
        }
    }
    found
}

async fn leaves(case: &Case) {
    case.hub.delete(&CLUSTER, "", &case.dfw.name).await;
    case.hub.gone(&CLUSTER, "", &case.dfw.name, seconds(120)).await;
    shows(case, "has no member", |o| is(o, "Scheduled", "Strayed")).await;
    lane(case, "none").await;
    let nowhere = |o: &Value| label(o, keys::LANE) == Some("with-none");
    case.hub
        .sees(
            &SECRET,
            &case.hub_ns,
            "token",
            "goes nowhere",
            seconds(60),
            nowhere,
        )
        .await;
}

/// The Secret of the vault at its member.
fn token(secret: &Value) -> Option<&str> {
    secret["data"]["token"].as_str()
}

/// The member joins under its name, as `karmadactl join` would have it.
async fn joins(case: &Case, cluster: &Value, credentials: &[Value]) {
    let of = |field: &str| &cluster["metadata"][field];
    let metadata = json!({"name": of("name"), "labels": of("labels"), "annotations": of("annotations")});
    let again = json!({"metadata": metadata, "spec": cluster["spec"]});
    for secret in credentials {
        let at = |field: &str| secret["metadata"][field].as_str().unwrap_or_default();
        if case.hub.get(&SECRET, at("namespace"), at("name")).await.is_none() {
            let again =
                json!({"metadata": {"name": at("name")}, "type": secret["type"], "data": secret["data"]});
            case.hub.create(&SECRET, at("namespace"), again).await;
        }
    }
    case.hub.create(&CLUSTER, "", again).await;
}

/// G13: an object that is not its own may be at a member of the same name.
async fn v21_a_member_that_joined_anew_gets_nothing_until_it_is_called_the_same(case: Case) {
    delivered(&case).await;
    let mut iron = vault(&case.dfw.city);
    iron["metadata"]["name"] = json!("iron");
    case.create(&VAULT, iron).await;
    case.project
        .sees(&VAULT, &case.ns, "iron", "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
    case.quiet().await;
    let there = case
        .dfw
        .plane
        .exists(&VAULT, &case.hub_ns, NAME, seconds(5))
        .await;
    let name = &case.dfw.name;
    let cluster = case.hub.get(&CLUSTER, "", name).await.expect("it is joined");
    let credentials = credentials(&case, &cluster).await;
    with_cleanup(leaves(&case), joins(&case, &cluster, &credentials)).await;
    let refused = shows(&case, "has another member", |o| {
        is(o, "Applied", "MemberReplaced")
    })
    .await;
    let words = condition(&refused, "Applied")
        .map(|c| c["message"].to_string())
        .unwrap_or_default();
    assert!(words.contains(uid(&cluster)), "it says which is missing: {words}");
    case.event(NAME, "MemberReplaced").await;
    let ready = |o: &Value| condition(o, "Ready").is_some_and(|c| c["status"] == "True");
    case.hub
        .sees(&CLUSTER, "", name, "is ready", seconds(120), ready)
        .await;
    case.merge(&VAULT, NAME, json!({"spec": {"size": 5}})).await;
    let (before, after) = ("dA==", "dGhlIG5leHQ=");
    case.merge(&SECRET, "token", json!({"data": {"token": after}}))
        .await;
    // Karmada lets go of what its members have when their Clusters leave; the stand-in does not.
    let released = json!({"metadata": {"labels": {keys::KARMADA_MANAGED: null}}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, "iron", released).await;
    // A deletion cannot know whether it is gone.
    case.delete(&VAULT, "iron").await;
    case.project
        .sees(&VAULT, &case.ns, "iron", "cannot end", seconds(120), |o| {
            is(o, "Federated", "MemberReplaced")
        })
        .await;
    case.quiet_for(seconds(5)).await;
    case.dfw
        .plane
        .exists(&VAULT, &case.hub_ns, "iron", seconds(5))
        .await;
    let delivers = |work: &Value| annotation(work, keys::BINDING_NAMESPACE) == Some(&case.hub_ns);
    let space = format!("karmada-es-{name}");
    let mut dispatched = case.hub.list(&WORK, &space, "").await;
    dispatched.retain(delivers);
    assert_eq!(
        dispatched,
        [Value::Null; 0],
        "no Work is made, of its Secret neither"
    );
    // Karmada may have taken it along with the Cluster that has left.
    let secret = case.dfw.plane.get(&SECRET, &case.hub_ns, "token").await;
    assert!(
        secret.is_none_or(|secret| token(&secret) == Some(before)),
        "no Secret is sent"
    );
    let stays = case
        .dfw
        .plane
        .get(&VAULT, &case.hub_ns, NAME)
        .await
        .expect("it stays");
    assert_eq!((uid(&stays), &stays["spec"]["size"]), (uid(&there), &json!(1)));
    let same = json!({"metadata": {"annotations": {keys::SAME_AS: uid(&cluster)}}});
    case.hub.merge(&CLUSTER, "", name, same).await;
    let now = has_size(&case, 5, seconds(120)).await;
    assert_eq!(uid(&now), uid(&there), "it is the same object");
    case.dfw
        .plane
        .sees(
            &SECRET,
            &case.hub_ns,
            "token",
            "has the next value",
            seconds(60),
            |o| token(o) == Some(after),
        )
        .await;
    shows(&case, "is delivered", |o| {
        is(o, "Federated", "Delivered") && is(o, "Applied", "Applied")
    })
    .await;
    preserved(&case).await;
    case.project.gone(&VAULT, &case.ns, "iron", seconds(200)).await;
    assert_eq!(case.dfw.plane.get(&VAULT, &case.hub_ns, "iron").await, None);
}
