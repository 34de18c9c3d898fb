//! A vault (tests/kinds) that its member's own controllers delete, and that Karmada makes again each time.

use crate::{
    lanes::{delivered, has_size, is, pin, works},
    support::{
        Case,
        kinds::{BINDING, VAULT},
        seconds, trials, uid, wait_for,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![v54_a_vault_that_its_member_ends_twice_is_withheld_until_it_is_edited];

const NAME: &str = "gold";

/// Waits until the gateway has the UID of the member's vault, and the status that is reported with it.
async fn reported(case: &Case, uid: &str) {
    let has = |o: &Value| o["status"]["aggregatedStatus"][0]["status"][keys::UID_AT_MEMBER] == uid;
    case.hub
        .sees(
            &BINDING,
            &case.hub_ns,
            "gold-vault",
            "has its UID",
            seconds(60),
            has,
        )
        .await;
    let phase = json!({"phase": "Ready", "nodes": {"a": uid}});
    case.dfw
        .plane
        .merge_status(&VAULT, &case.hub_ns, NAME, phase)
        .await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "has its status", seconds(60), |o| {
            o["status"]["nodes"]["a"] == uid
        })
        .await;
}

async fn v54_a_vault_that_its_member_ends_twice_is_withheld_until_it_is_edited(case: Case) {
    delivered(&case).await;
    let member = &case.dfw.plane;
    let mut last = member.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    reported(&case, uid(&last)).await;
    for again in [false, true] {
        member.delete(&VAULT, &case.hub_ns, NAME).await;
        let is_another = |o: &Value| uid(o) != uid(&last);
        let made = member
            .sees(
                &VAULT,
                &case.hub_ns,
                NAME,
                "is made again",
                seconds(60),
                is_another,
            )
            .await;
        wait_for("the round is recorded", seconds(60), || async {
            let remade = pin(&case).await?["remade"].take();
            (remade["uid"] == uid(&made) && remade["again"] == again).then_some(())
        })
        .await;
        last = made;
    }
    let told = case
        .project
        .sees(&VAULT, &case.ns, NAME, "is withheld", seconds(60), |o| {
            is(o, "Federated", "EndedByMember") && is(o, "Applied", "EndedByMember")
        })
        .await;
    assert_eq!(told["status"][keys::UID_AT_MEMBER], Value::Null);
    wait_for("nothing is dispatched", seconds(60), || async {
        let works = works(&case, &VAULT, NAME).await;
        (works.first()?["spec"]["suspendDispatching"] == true).then_some(())
    })
    .await;
    member.delete(&VAULT, &case.hub_ns, NAME).await;
    member.gone(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    case.merge(&VAULT, NAME, json!({"spec": {"size": 7}})).await;
    let edited = has_size(&case, 7, seconds(90)).await;
    assert_eq!(
        edited["metadata"]["generation"], 1,
        "it was not made before the edit"
    );
    case.project
        .sees(&VAULT, &case.ns, NAME, "is delivered again", seconds(90), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
}
