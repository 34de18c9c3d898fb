//! Tests of the conclusions from the answer of a member.

use super::{
    Observation,
    ask::{Subject, observe},
};
use crate::index::{resource, single_member::Pin};
use fedgate_api::keys;
use fedgate_engine::executor::Answer;
use serde_json::{Value, json};

/// Words for what an answer of the proxy proves of object `lab`, which was delivered.
fn proves(answer: &Answer) -> &'static str {
    let pin =
        r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-1","c-2"],"sourceUid":"u","delivered":true}"#;
    proves_of(&Pin::parse(pin).unwrap(), answer)
}

fn proves_of(pin: &Pin, answer: &Answer) -> &'static str {
    let resource = resource("k8s.example.dev", "v1", "Cluster");
    let subject = Subject {
        resource: &resource,
        namespace: "ns-a1",
        name: "lab",
        binding: "lab-cluster",
        guards: &[],
    };
    match observe(subject, pin, answer) {
        Observation::Absent => "absent",
        Observation::There { deleting: true, .. } => "ends",
        Observation::There { .. } => "there",
        Observation::Unknown(_) => "nothing",
        Observation::WorksStopped
        | Observation::WorksGoOn
        | Observation::WorkStuck(_)
        | Observation::HubUser => "works",
    }
}

fn refused(code: u16, reason: &str, details: &Value) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": "no", "details": details});
    Answer::Refused(serde_json::from_value(status).unwrap())
}

#[test]
fn only_the_members_own_word_about_this_object_proves_that_it_is_gone() {
    let own = json!({"name": "lab", "group": "k8s.example.dev", "kind": "clusters"});
    assert_eq!(proves(&refused(404, "NotFound", &own)), "absent");
    for (code, reason, details) in [
        // The hub has no Cluster of the member's name, which may be that of the object.
        (
            404,
            "NotFound",
            json!({"name": "lab", "group": "cluster.karmada.io", "kind": "clusters"}),
        ),
        (
            404,
            "NotFound",
            json!({"name": "lab", "group": "k8s.example.dev", "kind": "machines"}),
        ),
        (
            404,
            "NotFound",
            json!({"name": "other", "group": "k8s.example.dev", "kind": "clusters"}),
        ),
        (404, "NotFound", json!({})),
        (403, "Forbidden", own.clone()),
        (401, "Unauthorized", own.clone()),
        (500, "", own.clone()),
        (503, "ServiceUnavailable", own),
    ] {
        assert_eq!(
            proves(&refused(code, reason, &details)),
            "nothing",
            "{code} {details}"
        );
    }
}

#[test]
fn an_object_of_another_template_is_not_ours() {
    let found = |annotations: &Value, deleted: &Value| {
        let object =
            json!({"metadata": {"name": "lab", "annotations": annotations, "deletionTimestamp": deleted}});
        Answer::Found(serde_json::from_value(object).unwrap())
    };
    let of = |uid: &str| json!({keys::TEMPLATE_UID: uid});
    assert_eq!(proves(&found(&of("c-2"), &Value::Null)), "there");
    assert_eq!(proves(&found(&of("c-1"), &json!("2026-05-04T10:00:00Z"))), "ends");
    assert_eq!(proves(&found(&of("another"), &Value::Null)), "absent");
    assert_eq!(
        proves(&found(&json!({}), &Value::Null)),
        "there",
        "Karmada may have let go of it"
    );
    let pin = r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-1"],"sourceUid":"u"}"#;
    let mut pin = Pin::parse(pin).unwrap();
    let untold = found(&json!({}), &Value::Null);
    assert_eq!(
        proves_of(&pin, &untold),
        "absent",
        "nothing of ours was delivered"
    );
    assert_eq!(
        proves_of(&pin, &found(&of("c-1"), &Value::Null)),
        "there",
        "the record was to follow"
    );
    assert_eq!(proves_of(&pin, &found(&of("c-0"), &Value::Null)), "absent");
    for number in 2..=65 {
        pin.add_copy(format!("c-{number}").into());
    }
    assert_eq!(pin.copy_uids.len(), 64);
    assert_eq!(
        proves_of(&pin, &found(&of("c-1"), &Value::Null)),
        "nothing",
        "not all copies are known any more: it may be another hub's"
    );
    assert_eq!(proves_of(&pin, &found(&of("c-65"), &Value::Null)), "there");
}
