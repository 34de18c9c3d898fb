//! Ends: in their order, over leftovers, and of what nobody ended.

use crate::support::{
    Case, Wish,
    case::{is_true, name},
    cell::CellRole,
    kinds::{CLAIM, DEPLOYMENT, INSTANCE, POD, WORKLOAD},
    label, seconds, trials, uid, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    w25_finalizers_taken_by_hand,
    w06_claim_and_copy_stay_until_the_pod_is_gone,
    #[core]
    w05_what_another_cell_has_written_is_taken_over,
    w11_a_deployment_delivered_anew_adopts_nothing,
    w28_a_workload_made_again_at_once_adopts_nothing,
];

/// Makes a Pod take so many seconds to stop.
async fn slow_to_stop(cell: &CellRole, case: &Case, pod: &str, seconds: u32) {
    let slow = json!({"metadata": {"annotations": {"sandbox.fedgate.dev/stop-after": seconds.to_string()}}});
    cell.plane.merge(&POD, &case.hub_ns, pod, slow).await;
}

fn scaled(wish: &Wish, count: u64) -> Wish {
    let mut wish = wish.clone();
    wish.places[0].2 = count;
    wish
}

async fn w06_claim_and_copy_stay_until_the_pod_is_gone(case: Case) {
    let wish = Wish::new("web", 2);
    case.run(&wish).await;
    let (instance, claim) = ("web-us-dfw-1", "instance-web-us-dfw-1");
    slow_to_stop(case.dfw(), &case, instance, 8).await;
    let mark = case.mark();
    case.update(&scaled(&wish, 1)).await;
    case.project_says(&INSTANCE, instance, ["Ready", "False", "Stopping"])
        .await;
    case.runs(&scaled(&wish, 1)).await;
    case.dfw()
        .plane
        .gone(&INSTANCE, &case.hub_ns, instance, seconds(60))
        .await;
    let asked = case.asked(&mark);
    let when = |plane: &str, action: &str, object: &str, user: &str| -> String {
        let found = asked.iter().rfind(|(on, e)| {
            on == plane
                && e.succeeded()
                && e.action() == action
                && e.object_ref.name == object
                && e.user.username.contains(user)
        });
        let (_, entry) =
            found.unwrap_or_else(|| panic!("{user} did not ask {plane} to {action} {object}: {asked:#?}"));
        entry.request_received_timestamp.clone()
    };
    let steps = [
        when("dfw-1", "delete pods", instance, "fedgate-cell"),
        when("dfw-1", "delete pods", instance, "kwok"),
        when("alpha", "delete resourceclaims", claim, "fedgate-quota"),
        when("hub", "delete instances", instance, "fedgate-cell"),
        when("dfw-1", "patch instances", instance, "fedgate-cell"),
    ];
    assert!(
        steps.is_sorted(),
        "Pod asked to stop, Pod gone, claim, copy, finalizers: {steps:#?}"
    );
}

/// The hub holds the name of an Instance for another cell, to which the deployment was not given: the gateway names the cell that has
/// it, and that takes the write-back over in place (serving.md §1).
async fn w05_what_another_cell_has_written_is_taken_over(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let instance = "web-us-dfw-1";
    let mut other = case
        .hub
        .get(&INSTANCE, &case.hub_ns, "web-us-dfw-0")
        .await
        .expect("there is a copy");
    let metadata = json!({
        "name": instance, "labels": other["metadata"]["labels"], "ownerReferences": other["metadata"]["ownerReferences"],
        "annotations": {keys::INSTANCE_UID: "0b1c2d3e-0000-4000-8000-000000000002"},
    });
    other = json!({"metadata": metadata, "spec": other["spec"]});
    other["metadata"]["labels"][keys::CELL] = json!("dfw-2");
    other["metadata"]["labels"][keys::INSTANCE_INDEX] = json!("1");
    let other = case.hub.create(&INSTANCE, &case.hub_ns, other).await;
    let names = |copy: &Value| copy["metadata"]["annotations"][keys::CELL] == "dfw-1";
    case.hub
        .sees(
            &DEPLOYMENT,
            &case.hub_ns,
            "web-us-dfw",
            "names the cell",
            seconds(60),
            names,
        )
        .await;
    let shown = case.project.get(&INSTANCE, &case.ns, instance).await;
    assert_eq!(shown, None, "what the other cell wrote is not projected");
    case.update(&scaled(&wish, 2)).await;
    case.runs(&scaled(&wish, 2)).await;
    let taken = case
        .hub
        .get(&INSTANCE, &case.hub_ns, instance)
        .await
        .expect("it stays");
    assert_eq!(
        (uid(&taken), label(&taken, keys::CELL)),
        (uid(&other), Some("dfw-1"))
    );
}

async fn w11_a_deployment_delivered_anew_adopts_nothing(case: Case) {
    let wish = Wish::new("web", 2);
    case.run(&wish).await;
    let before: Vec<String> = case
        .at(case.dfw(), &INSTANCE)
        .await
        .iter()
        .map(|i| uid(i).to_owned())
        .collect();
    let deployment = case.sees(&DEPLOYMENT, "web-us-dfw", "is there", |_| true).await;
    let mark = case.mark();
    case.dfw()
        .plane
        .delete(&DEPLOYMENT, &case.hub_ns, "web-us-dfw")
        .await;
    let anew = case
        .sees(&DEPLOYMENT, "web-us-dfw", "was delivered anew", |d| {
            uid(d) != uid(&deployment)
        })
        .await;
    wait_for("both Instances are new, and Ready", seconds(90), || async {
        let all = case.at(case.dfw(), &INSTANCE).await;
        let new = |i: &Value| {
            is_true(i, "Ready")
                && !before.iter().any(|old| old == uid(i))
                && i["metadata"]["ownerReferences"][0]["uid"] == uid(&anew)
        };
        (all.len() == 2 && all.iter().all(new)).then_some(())
    })
    .await;
    case.runs(&wish).await;
    let again = case.asked_by(case.dfw(), &mark);
    let refused: Vec<_> = again
        .iter()
        .filter(|(_, e)| e.verb == "create" && e.response_status.code == 409)
        .collect();
    assert!(
        refused.len() <= 2,
        "names that are taken are waited for: {refused:#?}"
    );
}

async fn w28_a_workload_made_again_at_once_adopts_nothing(case: Case) {
    let wish = Wish::new("web", 2).parallel();
    case.run(&wish).await;
    let before: Vec<String> = case
        .at(case.dfw(), &INSTANCE)
        .await
        .iter()
        .map(|i| uid(i).to_owned())
        .collect();
    slow_to_stop(case.dfw(), &case, "web-us-dfw-0", 6).await;
    case.delete(&wish).await;
    case.project.gone(&WORKLOAD, &case.ns, "web", seconds(90)).await;
    let old = case.at(case.dfw(), &POD).await;
    assert!(
        old.iter().any(|pod| name(pod) == "web-us-dfw-0"),
        "the old one still stops"
    );
    let mark = case.mark();
    let anew = wish.image("shop/web:2");
    case.run(&anew).await;
    for instance in case.at(case.dfw(), &INSTANCE).await {
        assert!(!before.iter().any(|old| old == uid(&instance)), "{instance}");
    }
    let pods = case.asked(&mark);
    let made = pods
        .iter()
        .find(|(_, e)| e.action() == "create pods" && e.object_ref.name == "web-us-dfw-0");
    let gone = pods.iter().find(|(_, e)| {
        e.action() == "delete pods" && e.object_ref.name == "web-us-dfw-0" && e.user.username.contains("kwok")
    });
    let (made, gone) = (made.expect("a new Pod"), gone.expect("the old Pod's end"));
    assert!(
        gone.1.request_received_timestamp < made.1.request_received_timestamp,
        "one at a time"
    );
}

async fn w25_finalizers_taken_by_hand(case: Case) {
    // In LHR: the cell in DFW is killed later on, which would begin its five minutes anew.
    let mut wish = Wish::new("web", 2);
    "LHR".clone_into(&mut wish.places[0].1);
    case.run(&wish).await;
    let (lhr, instance) = (&case.suite.lhr.plane, "web-us-lhr-1");
    let claim = case.project.get(&CLAIM, &case.ns, "instance-web-us-lhr-1").await;
    let claim = claim.expect("it has a claim");
    slow_to_stop(&case.suite.lhr, &case, instance, 120).await;
    case.update(&scaled(&wish, 1)).await;
    let going = |i: &Value| !i["metadata"]["deletionTimestamp"].is_null();
    lhr.sees(
        &INSTANCE,
        &case.hub_ns,
        instance,
        "is being deleted",
        seconds(60),
        going,
    )
    .await;
    let stripped = json!({"metadata": {"finalizers": null}});
    lhr.merge(&INSTANCE, &case.hub_ns, instance, stripped).await;
    lhr.gone(&INSTANCE, &case.hub_ns, instance, seconds(10)).await;
    let one = |d: &Value| d["status"]["replicas"] == 1 && d["status"]["readyReplicas"] == 1;
    lhr.sees(
        &DEPLOYMENT,
        &case.hub_ns,
        "web-us-lhr",
        "has one left",
        seconds(60),
        one,
    )
    .await;
    let left = case.project.get(&CLAIM, &case.ns, name(&claim)).await;
    let left = left.expect("nobody was there to release it");
    assert_eq!(
        (uid(&left), label(&left, keys::SOURCE_CLUSTER)),
        (uid(&claim), Some("lhr-1"))
    );
    let word = json!({"namespace": case.ns, "claim": name(&claim), "hub": case.hub_ns, "copy": instance});
    case.suite.begun("w25", word, "alpha", &case.ns).await;
}
