//! Suspended vaults (tests/kinds): nothing reaches the member of one, nothing there is taken away, and a deletion proceeds.

use crate::{
    lanes::{delivered, is, pin, preserved, vault, works},
    support::{
        Case, annotation, condition,
        kinds::{SECRET, VAULT},
        label, seconds, trials, uid, wait_for,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    v51_a_held_vault_is_let_alone_until_it_is_resumed,
    v51_held_vaults_are_deleted_before_and_after_their_first_delivery,
    v51_a_vault_whose_spec_is_too_large_is_held_and_resumed_without_it,
];

const NAME: &str = "gold";
const MARK: &str = "example.fedgate.dev/suspended";

async fn mark(case: &Case, value: Value) {
    let patch = json!({"metadata": {"annotations": {MARK: value}}});
    case.merge(&VAULT, NAME, patch).await;
}

/// Waits until the vault's tenant is told that its present spec is held.
async fn held(case: &Case, name: &str) {
    case.project
        .sees(&VAULT, &case.ns, name, "is held", seconds(90), |o| {
            is(o, "Applied", "DispatchSuspended")
                && condition(o, "Applied")
                    .is_some_and(|c| c["observedGeneration"] == o["metadata"]["generation"])
        })
        .await;
}

fn lane(case: &Case, lane: &str) -> String {
    format!("vault-{lane}-{}", case.dfw.name)
}

/// The vault at its member.
async fn there(case: &Case) -> Value {
    case.dfw
        .plane
        .exists(&VAULT, &case.hub_ns, NAME, seconds(5))
        .await
}

/// An edit that waits in the project.
async fn waits(case: &Case, size: i64) {
    let before = there(case).await;
    // The policy of the lane that it left goes a little later.
    case.quiet().await;
    let count = case.count();
    case.merge(&VAULT, NAME, json!({"spec": {"size": size}})).await;
    held(case, NAME).await;
    let asked = case.writes(&count);
    assert!(
        asked.iter().all(|write| !write.starts_with("hub: ")),
        "an edit waits in the project: {asked:?}"
    );
    assert_eq!(there(case).await, before, "nothing reaches the member");
}

/// Resumes it: the edit arrives at the same object, and with the lane in one write.
async fn resumed(case: &Case, size: i64) {
    let before = there(case).await;
    let since = case.hub.version(&VAULT, &case.hub_ns).await;
    mark(case, Value::Null).await;
    let now = case
        .dfw
        .plane
        .sees(&VAULT, &case.hub_ns, NAME, "has the edit", seconds(90), |o| {
            o["spec"]["size"] == size
        })
        .await;
    assert_eq!(uid(&now), uid(&before));
    let own = case.project.get(&VAULT, &case.ns, NAME).await;
    let generation = own.expect("it is there")["metadata"]["generation"].to_string();
    let states = case.hub.history(&VAULT, &case.hub_ns, &since).await;
    let hold = lane(case, "hold");
    let left = states
        .iter()
        .map(|(_, copy, _)| copy)
        .find(|copy| label(copy, keys::LANE) != Some(&*hold))
        .expect("it has left the lane");
    assert_eq!(left["spec"]["size"], size, "in one write with the lane: {left}");
    assert_eq!(annotation(left, keys::SOURCE_GENERATION), Some(&*generation));
    preserved(case).await;
}

async fn hold(case: &Case) {
    mark(case, json!("true")).await;
    let hold = lane(case, "hold");
    case.hub
        .sees(&VAULT, &case.hub_ns, NAME, "is held", seconds(60), |o| {
            label(o, keys::LANE) == Some(&*hold)
        })
        .await;
    held(case, NAME).await;
    wait_for("its Work is suspended", seconds(60), || async {
        let works = works(case, &VAULT, NAME).await;
        (works.first()?["spec"]["suspendDispatching"] == true).then_some(())
    })
    .await;
}

/// G31: by its tenant's annotation.
async fn v51_a_held_vault_is_let_alone_until_it_is_resumed(case: Case) {
    delivered(&case).await;
    hold(&case).await;
    waits(&case, 7).await;
    resumed(&case, 7).await;
    hold(&case).await;
    waits(&case, 8).await;
    taken_meanwhile(&case).await;
    resumed(&case, 8).await;
}

/// A hand takes the copy while it is held: another is made, and the member's object is what it was.
async fn taken_meanwhile(case: &Case) {
    let (old, before) = (
        case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await,
        there(case).await,
    );
    let at = &case.dfw.plane;
    let since = at.version(&VAULT, &case.hub_ns).await;
    case.hub.delete(&VAULT, &case.hub_ns, NAME).await;
    let hold = lane(case, "hold");
    case.hub
        .sees(&VAULT, &case.hub_ns, NAME, "is held again", seconds(90), |o| {
            uid(o) != uid(&old) && label(o, keys::LANE) == Some(&*hold)
        })
        .await;
    held(case, NAME).await;
    wait_for("its new Work is suspended", seconds(60), || async {
        let works = works(case, &VAULT, NAME).await;
        (works.first()?["spec"]["suspendDispatching"] == true).then_some(())
    })
    .await;
    for (_, object, is_there) in at.history(&VAULT, &case.hub_ns, &since).await {
        assert!(is_there && object["metadata"]["deletionTimestamp"].is_null());
        assert_eq!((uid(&object), &object["spec"]), (uid(&before), &before["spec"]));
    }
}

/// G33: nothing of either is left, at the member or among the Works.
async fn v51_held_vaults_are_deleted_before_and_after_their_first_delivery(case: Case) {
    delivered(&case).await;
    hold(&case).await;
    let at = &case.dfw.plane;
    let since = at.version(&VAULT, &case.hub_ns).await;
    let mut iron = vault(&case.dfw.city);
    iron["metadata"]["name"] = json!("iron");
    iron["metadata"]["annotations"] = json!({MARK: "true"});
    case.create(&VAULT, iron).await;
    let drop = lane(&case, "drop");
    let stopped = |o: &Value| label(o, keys::LANE) == Some(&*drop);
    case.hub
        .sees(&VAULT, &case.hub_ns, "iron", "is stopped", seconds(90), stopped)
        .await;
    held(&case, "iron").await;
    let stays = |o: Option<&Value>| o.is_some_and(stopped);
    case.hub
        .holds(&VAULT, &case.hub_ns, "iron", "goes no further", seconds(5), stays)
        .await;
    for name in ["iron", NAME] {
        case.delete(&VAULT, name).await;
        case.project.gone(&VAULT, &case.ns, name, seconds(200)).await;
        assert_eq!(at.get(&VAULT, &case.hub_ns, name).await, None, "{name}");
        assert_eq!(works(&case, &VAULT, name).await, Vec::<Value>::new(), "{name}");
        assert_eq!(case.hub.get(&VAULT, &case.hub_ns, name).await, None, "{name}");
    }
    let states = at.history(&VAULT, &case.hub_ns, &since).await;
    let never = states.iter().all(|(_, o, _)| o["metadata"]["name"] == NAME);
    assert!(never, "one was never delivered: {states:#?}");
    assert_eq!(pin(&case).await, None);
    at.gone(&SECRET, &case.hub_ns, "token", seconds(60)).await;
}

/// The member keeps the last spec that was carried, whatever lane the vault goes to.
async fn v51_a_vault_whose_spec_is_too_large_is_held_and_resumed_without_it(case: Case) {
    const LARGE: usize = 300 * 1024;
    delivered(&case).await;
    let before = there(&case).await;
    let large = json!({"spec": {"size": 9, "settings": ["x".repeat(LARGE)]}});
    case.merge(&VAULT, NAME, large).await;
    let refused = |o: &Value| is(o, "Federated", "SpecTooLarge");
    case.project
        .sees(&VAULT, &case.ns, NAME, "is refused", seconds(60), refused)
        .await;
    hold(&case).await;
    mark(&case, Value::Null).await;
    let pin = lane(&case, "pin");
    case.hub
        .sees(&VAULT, &case.hub_ns, NAME, "is resumed", seconds(60), |o| {
            label(o, keys::LANE) == Some(&*pin)
        })
        .await;
    preserved(&case).await;
    let now = there(&case).await;
    assert_eq!((uid(&now), &now["spec"]), (uid(&before), &before["spec"]));
    case.project
        .sees(&VAULT, &case.ns, NAME, "is refused still", seconds(60), |o| {
            refused(o) && is(o, "Applied", "Applied")
        })
        .await;
    let small = json!({"spec": {"size": 9, "settings": null}});
    case.merge(&VAULT, NAME, small).await;
    case.dfw
        .plane
        .sees(&VAULT, &case.hub_ns, NAME, "has the edit", seconds(90), |o| {
            o["spec"]["size"] == 9
        })
        .await;
}
