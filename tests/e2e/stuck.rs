//! A Work that preserves an object that is not there: Karmada never ends it, and nothing of its name is delivered (V4).

use crate::{
    lanes::{delivered, is, pin, preserved, vault},
    support::{
        Case, annotation, condition,
        kinds::{VAULT, WORK},
        policies::{Closed, Refusal},
        seconds, trials, wait_for,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![v14_a_work_that_does_not_end_is_named_until_an_operator_ends_it];

const NAME: &str = "gold";

/// Lets nobody make vaults at the member.
async fn close(case: &Case) -> Closed<'_> {
    let refusal = Refusal {
        kind: &VAULT,
        operations: &["CREATE"],
        admits: "false",
        words: "no vaults here",
        probe: json!({"metadata": {"name": "probe"}, "spec": {"size": 1}}),
    };
    Closed::close(case, refusal).await
}

/// The vault's Work, which ends as long as it is seen.
async fn ending(case: &Case) -> Option<Value> {
    let works = case.hub.list(&WORK, &space(case), "").await;
    works.into_iter().find(|work| {
        annotation(work, keys::BINDING_NAMESPACE) == Some(&case.hub_ns)
            && annotation(work, keys::BINDING_NAME) == Some("gold-vault")
            && !work["metadata"]["deletionTimestamp"].is_null()
    })
}

fn space(case: &Case) -> String {
    format!("karmada-es-{}", case.dfw.name)
}

/// Its member has lost the vault and makes no other, and then its copy is deleted: its Work preserves what is not there.
async fn lost(case: &Case) -> String {
    case.dfw.plane.delete(&VAULT, &case.hub_ns, NAME).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "cannot be made", seconds(90), |o| {
            is(o, "Applied", "ApplyFailed")
        })
        .await;
    case.hub.delete(&VAULT, &case.hub_ns, NAME).await;
    let work = wait_for("its Work is to end", seconds(60), || ending(case)).await;
    let name = work["metadata"]["name"].as_str().unwrap_or_default();
    format!("{}/{name}", space(case))
}

/// What an operator of the hub does, as the message says.
async fn freed(case: &Case, work: &str) {
    let (space, name) = work.split_once('/').expect("a namespace and a name");
    let free = json!({"metadata": {"finalizers": null}});
    case.hub.merge(&WORK, space, name, free).await;
}

/// Waits until a condition names the Work.
async fn named(case: &Case, kind: &str, work: &str) {
    case.project
        .sees(&VAULT, &case.ns, NAME, "names the Work", seconds(120), |o| {
            is(o, kind, "WorkStuck")
                && condition(o, kind)
                    .and_then(|c| c["message"].as_str())
                    .is_some_and(|message| message.contains(work))
        })
        .await;
}

async fn v14_a_work_that_does_not_end_is_named_until_an_operator_ends_it(case: Case) {
    let made = delivered(&case).await;
    let closed = close(&case).await;
    let work = lost(&case).await;
    named(&case, "Applied", &work).await;
    case.event(NAME, "WorkStuck").await;
    freed(&case, &work).await;
    closed.open().await;
    let again = case
        .dfw
        .plane
        .exists(&VAULT, &case.hub_ns, NAME, seconds(120))
        .await;
    assert_eq!(again["spec"], made["spec"]);
    carried(&case).await;
    in_a_deletion(&case).await;
}

/// A deletion waits for it, too: it would keep its Cluster from leaving, and the next vault of the name from its member.
async fn in_a_deletion(case: &Case) {
    preserved(case).await;
    let closed = close(case).await;
    let work = lost(case).await;
    named(case, "Applied", &work).await;
    case.delete(&VAULT, NAME).await;
    // Its member has none, so that nothing need be taken over.
    named(case, "Federated", &work).await;
    freed(case, &work).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
    assert_eq!(pin(case).await, None);
    assert_eq!(ending(case).await, None, "no Work is left");
    closed.open().await;
    case.create(&VAULT, vault(&case.dfw.city)).await;
    carried(case).await;
}

async fn carried(case: &Case) {
    case.project
        .sees(&VAULT, &case.ns, NAME, "is delivered", seconds(120), |o| {
            is(o, "Applied", "Applied") && is(o, "Federated", "Delivered")
        })
        .await;
}
