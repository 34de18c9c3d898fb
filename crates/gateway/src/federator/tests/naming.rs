//! The hub that a deployment names.

use super::*;

const OWN: &str = "hub-a";

/// A deployment that is announced, and names a hub so.
fn naming(named: NamedHub, hub_copy: Option<&Value>) -> Snapshot {
    let mut s = snapshot(&deployment(), hub_copy);
    s.hub_reference.own = Some(OWN.into());
    s.hub_reference.named = named;
    s.binding = hub_copy.map(|_| binding());
    s
}

fn decided(s: &Snapshot) -> Action {
    decide(s, &mut Memory::default(), &SETTINGS, now())
}

#[tokio::test]
async fn the_hub_is_named_in_the_first_patch_under_a_precondition() {
    let mut d = deployment();
    d["metadata"]["annotations"] = json!({});
    let mut s = snapshot(&d, None);
    s.hub_reference.own = Some(OWN.into());
    // The finalizer is there, so that nothing else needs the precondition.
    assert_eq!(
        patch(&one(decided(&s))),
        &json!({"metadata": {"uid": "u-source", "resourceVersion": "70",
            "annotations": {keys::FEDERATION_NAMESPACE: HUB, keys::HUB: OWN}}})
    );
}

#[tokio::test]
async fn a_deployment_without_a_copy_names_the_hub_before_it_gets_one() {
    for named in [NamedHub::None, NamedHub::Replaced] {
        let effect = one(decided(&naming(named, None)));
        assert_eq!(
            patch(&effect),
            &json!({"metadata": {"uid": "u-source", "resourceVersion": "70", "annotations": {keys::HUB: OWN}}})
        );
    }
    let effect = one(decided(&naming(NamedHub::Ours, None)));
    assert_eq!(effect.reason.label(), "create_copy");
    let mut unknown = naming(NamedHub::None, None);
    unknown.hub_reference.own = None;
    assert_eq!(one(decided(&unknown)).reason.label(), "create_copy");
}

#[tokio::test]
async fn a_deployment_with_a_copy_names_the_hub_if_the_name_is_gone_or_that_of_a_replaced_hub() {
    let copy = hub_copy();
    let names_it = |s: &Snapshot| {
        let (effects, _) = plan(decided(s));
        effects
            .iter()
            .any(|effect| patch(effect)["metadata"]["annotations"][keys::HUB] == OWN)
    };
    let mut s = naming(NamedHub::None, Some(&copy));
    assert!(names_it(&s));
    assert!(names_it(&naming(NamedHub::Replaced, Some(&copy))));
    assert!(!names_it(&naming(NamedHub::Ours, Some(&copy))));
    s.suspended = true;
    assert!(!names_it(&s), "a suspended project admits no patch");
}

#[tokio::test]
async fn nothing_is_written_for_a_deployment_that_names_another_hub() {
    let copy = hub_copy();
    let mut leaving = deployment();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    let mut edited = deployment();
    edited["spec"]["cityCode"] = json!("LHR");
    for d in [deployment(), leaving, edited] {
        for copy in [None, Some(&copy)] {
            let mut s = naming(NamedHub::Other, copy);
            s.source = Some(source(&d));
            idle(decided(&s));
        }
    }
}

/// A tenant may write the name of any hub on its deployments.
#[tokio::test]
async fn the_name_of_another_hub_keeps_no_copy_running_in_a_suspended_project() {
    let mut d = deployment();
    d["metadata"]["annotations"][keys::SUSPENDED] = json!("true");
    let copy = hub_copy();
    let mut s = naming(NamedHub::Other, Some(&copy));
    s.source = Some(source(&d));
    idle(decided(&s));
    s.suspended = true;
    let marked = json!({"metadata": {"uid": "u-copy", "annotations": {keys::SUSPENDED: "true"}}});
    assert_eq!(patch(&one(decided(&s))), &marked);
    s.copy = None;
    idle(decided(&s));
}
