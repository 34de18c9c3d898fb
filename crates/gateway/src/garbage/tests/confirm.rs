//! Tests that a suspected object is deleted only after a read from the plane of its origin.

use super::{
    Garbage, PATIENCE, UNUSED, copies, engage, hub, key, later, list_hub, now, reconcile_once, shop,
};
use crate::{
    garbage::{CitySets, Copies},
    index::TableId,
    policy_spec,
    testing::{Rig, refusal},
};
use fedgate_api::{keys, names::CityCode};
use fedgate_engine::runtime::driver::reconcile;
use fedgate_engine::{key::Plane, plan::Requeue, plane::watch::WatchEvent};
use fedgate_kinds::KindId;
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn origin(uid: &str) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "c-0", "namespace": "default", "uid": uid,
        "resourceVersion": "9"}})
}

/// A copy that appears to have no origin; its project gives this answer.
fn rig(answer: (u16, Value)) -> Rig {
    let mut index = hub(&copies(1));
    engage(&mut index, true, &[]);
    Rig::new(index, move |method, _| match *method {
        Method::GET => answer.clone(),
        _ => (
            200,
            json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}),
        ),
    })
}

#[tokio::test(start_paused = true)]
async fn a_copy_goes_only_when_its_project_says_that_its_origin_is_gone() {
    let kept: &[&str] = &["GET c-0"];
    let gone: &[&str] = &["GET c-0", "DELETE c-0"];
    for (answer, expected) in [
        ((200, origin("u-source")), kept),
        ((200, origin("u-later")), gone),
        (refusal(404, "NotFound", &json!({})), gone),
        (refusal(500, "InternalError", &json!({})), kept),
        (refusal(403, "Forbidden", &json!({})), kept),
    ] {
        let (rig, garbage) = (rig(answer.clone()), Garbage::default());
        let copy = key(&rig.context.index.lock(), KindId::FIRST, "c-0");
        assert_eq!(
            reconcile(&Copies(&garbage), &rig.reconcile_once(), &copy)
                .await
                .unwrap(),
            Requeue::After(PATIENCE)
        );
        assert!(rig.asked().is_empty(), "it has patience");
        tokio::time::advance(PATIENCE).await;
        let failed = reconcile(&Copies(&garbage), &rig.reconcile_once(), &copy)
            .await
            .is_err();
        assert_eq!(rig.asked(), expected, "{answer:?}");
        assert_eq!(failed, answer.0 >= 403 && answer.0 != 404);
    }
}

#[tokio::test]
async fn while_a_watch_fails_nothing_is_an_orphan_and_its_recovery_wakes_what_waited() {
    let (rig, garbage) = (rig(refusal(404, "NotFound", &json!({}))), Garbage::default());
    let copy = key(&rig.context.index.lock(), KindId::FIRST, "c-0");
    let plane = Plane::Project(shop());
    let tell = |event| {
        let mut index = rig.context.index.lock();
        index.project_event(&shop(), TableId::DEPLOYMENTS, event);
    };
    tell(WatchEvent::Failed);
    assert_eq!(
        reconcile(&Copies(&garbage), &rig.reconcile_once(), &copy)
            .await
            .unwrap(),
        Requeue::AwaitChange
    );
    assert_eq!(garbage.waiting(), 0);
    assert!(
        rig.context.index.lock().take_unproven(&plane).is_empty(),
        "it fails still"
    );
    tell(WatchEvent::Resumed);
    assert_eq!(
        rig.context.index.lock().take_unproven(&plane),
        std::slice::from_ref(&copy)
    );
    reconcile(&Copies(&garbage), &rig.reconcile_once(), &copy)
        .await
        .unwrap();
    assert_eq!(garbage.waiting(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_city_set_goes_only_when_the_hub_lists_no_namespace_that_carries_it() {
    let cities = BTreeSet::from([CityCode::parse("LHR").unwrap()]);
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "cities-lhr", "uid": "u", "resourceVersion": "7"},
        "spec": policy_spec::city_set_spec("lhr", &cities, keys::CITY_CODE)});
    let list = |items: Value| {
        (
            200,
            json!({"apiVersion": "v1", "kind": "NamespaceList", "metadata": {"resourceVersion": "9"}, "items": items}),
        )
    };
    let carrier = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-a", "uid": "n"}});
    let kept: &[&str] = &["GET namespaces"];
    let gone: &[&str] = &["GET namespaces", "DELETE cities-lhr"];
    let mut leaving = carrier.clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    for (answer, expected) in [
        (list(json!([leaving, carrier])), kept),
        (list(json!([leaving])), gone),
        (list(json!([])), gone),
        (refusal(500, "InternalError", &json!({})), kept),
        (refusal(403, "Forbidden", &json!({})), kept),
    ] {
        let mut index = hub(&[]);
        list_hub(&mut index, TableId::CitySets, std::slice::from_ref(&policy));
        let key = index.hub_key(TableId::CitySets, "", "cities-lhr");
        let (status, garbage) = (answer.0, Garbage::default());
        let rig = Rig::new(index, move |method, _| match *method {
            Method::GET => answer.clone(),
            _ => (
                200,
                json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}),
            ),
        });
        reconcile(&CitySets(&garbage), &rig.reconcile_once(), &key)
            .await
            .unwrap();
        assert!(rig.asked().is_empty(), "it has patience");
        tokio::time::advance(UNUSED).await;
        let failed = reconcile(&CitySets(&garbage), &rig.reconcile_once(), &key)
            .await
            .is_err();
        assert_eq!(rig.asked(), expected, "{status}");
        assert_eq!(failed, status != 200);
        assert!(rig.context.index.lock().intents.ending_sets.is_empty());
    }
}

#[tokio::test]
async fn suspicion_begins_anew_with_the_leadership() {
    let (garbage, now) = (Garbage::default(), now());
    let mut index = hub(&copies(1));
    engage(&mut index, true, &[]);
    let due = later(now, PATIENCE);
    reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now);
    garbage.reset();
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due),
        (vec![], Requeue::After(PATIENCE))
    );
}
