//! Tests of bindings whose template is deleted.

use super::*;
use crate::{
    garbage::Bindings,
    testing::{Rig, refusal},
};
use fedgate_engine::runtime::driver::reconcile;
use http::Method;

const GRACE: Duration = Duration::from_secs(30);

fn binding(kind: &str, owner: Option<&str>) -> Value {
    let owners: Vec<Value> = owner
        .iter()
        .map(|uid| json!({"apiVersion": "x/v1", "kind": kind, "name": "c-0", "uid": uid}))
        .collect();
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": format!("c-0-{}", kind.to_lowercase()), "namespace": HUB, "uid": "u-binding",
            "resourceVersion": "7", "ownerReferences": owners},
        "spec": {"resource": {"apiVersion": version_of(kind), "kind": kind, "namespace": HUB, "name": "c-0"}}})
}

pub(super) fn version_of(kind: &str) -> &'static str {
    match kind {
        "WorkloadDeployment" => "compute.datumapis.com/v1alpha",
        "Gadget" => "example.dev/v1",
        "ConfigMap" | "Secret" => "v1",
        _ => "x/v1",
    }
}

fn companion(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-0", "namespace": HUB, "uid": uid,
        "resourceVersion": "5", "labels": {keys::REFERENCED_DATA: "true"}}})
}

fn key_of(index: &GatewayIndex, kind: &str) -> Key {
    index.hub_key(TableId::Bindings, HUB, &format!("c-0-{}", kind.to_lowercase()))
}

/// The hub's own object of the template's name.
fn template(uid: &str) -> (u16, Value) {
    let metadata = json!({"name": "c-0", "namespace": HUB, "uid": uid, "resourceVersion": "9"});
    (
        200,
        json!({"apiVersion": "x/v1", "kind": "X", "metadata": metadata}),
    )
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_binding_goes_after_its_grace_period_and_the_hubs_own_answer() {
    for kind in ["WorkloadDeployment", "ConfigMap"] {
        let name = format!("c-0-{}", kind.to_lowercase());
        let kept = vec!["GET c-0".to_owned()];
        let gone = vec!["GET c-0".to_owned(), format!("DELETE {name}")];
        for (answer, expected) in [
            (template("u-0"), &kept),
            (template("u-1"), &gone),
            (refusal(404, "NotFound", &json!({})), &gone),
            (refusal(500, "InternalError", &json!({})), &kept),
        ] {
            let mut index = hub(&[]);
            list_hub(&mut index, TableId::Bindings, &[binding(kind, Some("u-0"))]);
            let (key, status, garbage) = (key_of(&index, kind), answer.0, Garbage::default());
            let rig = Rig::new(index, move |method, _| match *method {
                Method::GET => answer.clone(),
                _ => (
                    200,
                    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}),
                ),
            });
            let waits = reconcile(&Bindings(&garbage), &rig.reconcile_once(), &key).await;
            assert_eq!(waits.unwrap(), Requeue::After(GRACE));
            assert!(rig.asked().is_empty(), "it has patience");
            tokio::time::advance(GRACE).await;
            let due = reconcile(&Bindings(&garbage), &rig.reconcile_once(), &key).await;
            assert_eq!(rig.asked(), *expected, "{status}");
            assert_eq!(due.is_err(), status == 500);
            // A binding that has its template is forgotten: its grace period starts again.
            let again = garbage.decide_binding(&rig.context.index.lock(), &key, rig.context.now());
            let waits = again.0.next == Requeue::After(GRACE);
            assert_eq!(waits, status != 500);
        }
    }
}

#[tokio::test]
async fn a_binding_with_its_template_or_of_a_foreign_kind_or_place_is_kept() {
    let (garbage, now) = (Garbage::default(), later(now(), GRACE * 2));
    let keeps = |index: &GatewayIndex, kind: &str| {
        let (plan, orphan) = garbage.decide_binding(index, &key_of(index, kind), now);
        assert!(plan.is_idle() && orphan.is_none(), "{kind}");
    };
    let mut index = hub(&copies(1));
    list_hub(
        &mut index,
        TableId::Bindings,
        &[binding("WorkloadDeployment", Some("u-0"))],
    );
    keeps(&index, "WorkloadDeployment");
    list_hub(
        &mut index,
        TableId::Bindings,
        &[binding("WorkloadDeployment", None)],
    );
    keeps(&index, "WorkloadDeployment");
    list_hub(&mut index, TableId::CONFIG_MAPS, &[companion("u-0")]);
    list_hub(
        &mut index,
        TableId::Bindings,
        &[binding("ConfigMap", Some("u-0"))],
    );
    keeps(&index, "ConfigMap");
    list_hub(
        &mut index,
        TableId::Bindings,
        &[binding("Deployment", Some("u-0"))],
    );
    keeps(&index, "Deployment");
    let mut of_another_group = binding("WorkloadDeployment", Some("u-0"));
    of_another_group["spec"]["resource"]["apiVersion"] = json!("x/v1");
    list_hub(&mut index, TableId::Bindings, &[of_another_group]);
    list_hub(&mut index, TableId::DEPLOYMENTS, &[]);
    keeps(&index, "WorkloadDeployment");
    let mut ending = binding("Secret", Some("u-0"));
    ending["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    list_hub(&mut index, TableId::Bindings, &[ending]);
    keeps(&index, "Secret");
    let mut elsewhere = binding("Secret", Some("u-0"));
    elsewhere["metadata"]["namespace"] = json!("members");
    list_hub(&mut index, TableId::Bindings, &[elsewhere]);
    let key = index.hub_key(TableId::Bindings, "members", "c-0-secret");
    assert!(garbage.decide_binding(&index, &key, now).1.is_none());
}

#[tokio::test]
async fn a_binding_is_enqueued_when_it_loses_its_template_and_not_while_lists_are_read() {
    let mut index = hub(&copies(1));
    let key = key_of(&index, "WorkloadDeployment");
    let bound = binding("WorkloadDeployment", Some("u-0"));
    assert!(
        !index
            .hub_event(TableId::Bindings, WatchEvent::Apply(object(&bound)))
            .keys(&index)
            .contains(&key)
    );
    let gone = WatchEvent::Delete(object(&copy_object("c-0", "u-0")));
    assert!(
        index
            .hub_event(TableId::DEPLOYMENTS, gone)
            .keys(&index)
            .contains(&key)
    );
    let again = WatchEvent::Apply(object(&copy_object("c-0", "u-later")));
    index.hub_event(TableId::DEPLOYMENTS, again);
    assert!(index.ready_keys().contains(&key), "it is the first copy's");
    let mut index = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
    list_hub(&mut index, TableId::Bindings, std::slice::from_ref(&bound));
    let enqueued = index.hub_event(TableId::Bindings, WatchEvent::Apply(object(&bound)));
    assert!(!index.hub_ready() && !enqueued.keys(&index).contains(&key));
}
