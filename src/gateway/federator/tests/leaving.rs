//! A deployment that is being deleted.

use super::*;

fn leaving() -> Value {
    let mut d = deployment();
    d["metadata"]["deletionTimestamp"] = json!("2026-05-04T09:59:59Z");
    d
}

#[tokio::test]
async fn deletion_goes_copy_binding_companions_policy_finalizer() {
    let mut memory = Memory::default();
    let mut s = snapshot(&leaving(), Some(&hub_copy()));
    s.binding = Some(binding());
    let effect = one(decide(&s, &mut memory, &SETTINGS, now()));
    assert_eq!(effect.reason, "delete_copy");
    s.copy = None;
    idle(decide(&s, &mut memory, &SETTINGS, now()));
    s.binding = None;
    s.companions_hold = true;
    idle(decide(&s, &mut memory, &SETTINGS, now()));
    s.companions_hold = false;
    s.policy_leaving = true;
    idle(decide(&s, &mut memory, &SETTINGS, now()));
    s.policy_leaving = false;
    let effect = one(decide(&s, &mut memory, &SETTINGS, now()));
    assert_eq!(
        patch(&effect),
        &json!({"metadata": {"uid": "u-source", "resourceVersion": "70", "finalizers": ["other/one"]}})
    );
}

#[tokio::test]
async fn a_cell_that_does_not_answer_is_named() {
    let mut s = snapshot(&leaving(), None);
    s.binding = Some(binding());
    let (mut memory, start) = (Memory::default(), now());
    idle(decide(&s, &mut memory, &SETTINGS, start));
    let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, PATIENCE)));
    let condition = &patch(&effect)["status"]["conditions"][0];
    assert_eq!(condition["reason"], "WaitingForCells");
    assert!(condition["message"].as_str().unwrap().contains("dfw-1"));
}

#[tokio::test]
async fn a_leaving_deployment_without_our_finalizer_is_left_alone() {
    let mut d = leaving();
    d["metadata"]["finalizers"] = json!(["other/one"]);
    idle(decide(
        &snapshot(&d, Some(&hub_copy())),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
}
