//! Sizes and reasons at which a decision changes, just below and just above.

use super::*;

/// The maximum number of projected conditions.
const CONDITION_LIMIT: u32 = 32;

#[test]
fn a_controller_of_another_kind_or_name_is_no_owner_whatever_its_uid() {
    for (field, value) in [("kind", "Workload"), ("name", "other")] {
        let mut w = write_back();
        w["metadata"]["ownerReferences"][0][field] = json!(value);
        let decision = decide(&snapshot(Some(&w), None), &LENIENT);
        assert_eq!(quarantined(&decision), "owner_mismatch", "{field}");
    }
}

#[test]
fn a_write_back_without_a_label_is_of_the_deployment_that_its_name_tells() {
    let labelled = effects(decide(&snapshot(Some(&write_back()), None), &LENIENT));
    for label in [Value::Null, json!("")] {
        let mut w = write_back();
        w["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME] = label;
        if w["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME].is_null() {
            let labels = w["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove(keys::WORKLOAD_DEPLOYMENT_NAME);
        }
        let s = snapshot(Some(&w), None);
        assert!(!s.write_back.as_ref().unwrap().digest.is_labelled);
        assert_eq!(
            effects(decide(&s, &LENIENT)),
            labelled,
            "the projection gets the label"
        );
        let at_rest = decide(&snapshot(Some(&w), Some(&projection("u-source"))), &LENIENT);
        assert_eq!(at_rest, Decision::Do(Plan::default()));
        // Another deployment's controller reference, or no such deployment: as with a label.
        w["metadata"]["ownerReferences"][0]["name"] = json!("other");
        assert_eq!(
            quarantined(&decide(&snapshot(Some(&w), None), &LENIENT)),
            "owner_mismatch"
        );
        let mut s = snapshot(Some(&w), None);
        s.copy = None;
        assert_eq!(decide(&s, &LENIENT), Decision::Wait);
        for name in ["web", "-0", "web-", "web-00", "web-x", "web-1x"] {
            w["metadata"]["name"] = json!(name);
            let decision = decide(&snapshot(Some(&w), None), &LENIENT);
            assert_eq!(quarantined(&decision), "missing_deployment_name", "{name}");
        }
    }
}

#[test]
fn as_many_conditions_as_are_allowed_are_projected() {
    let of = |count: u32| {
        let mut s = snapshot(Some(&write_back()), None);
        s.write_back.as_mut().unwrap().digest.conditions = count;
        decide(&s, &LENIENT)
    };
    assert_eq!(effects(of(CONDITION_LIMIT)).len(), 1);
    assert_eq!(quarantined(&of(CONDITION_LIMIT + 1)), "too_large");
}

#[test]
fn what_is_too_large_says_its_size_if_that_is_known() {
    let said = |size| {
        let mut s = snapshot(Some(&write_back()), None);
        s.write_back.as_mut().unwrap().digest.size = size;
        match decide(&s, &LENIENT) {
            Decision::Quarantine(verdict) => verdict.message,
            other => panic!("{other:?}"),
        }
    };
    assert!(said(u32::MAX).starts_with("Instance web-0 has more than can be read and "));
    assert!(said(SIZE_LIMIT + 1).starts_with(&format!("Instance web-0 has {} bytes and ", SIZE_LIMIT + 1)));
}

#[test]
fn a_spec_is_updated_and_labels_are_mended() {
    let mut w = write_back();
    w["spec"]["more"] = json!(1);
    let p = projection("u-source");
    let made = effects(decide(&snapshot(Some(&w), Some(&p)), &LENIENT));
    let body = |effect: &Effect| match &effect.write {
        Write::Update { body, strict: false } => body.clone(),
        other => panic!("{other:?}"),
    };
    let spec = body(&made[0]);
    assert_eq!(
        (&spec["spec"]["more"], &spec["metadata"]["resourceVersion"]),
        (&json!(1), &Value::Null)
    );
    let mut edited = p;
    edited["metadata"]["labels"][keys::INSTANCE_CITY_CODE] = json!("LHR");
    edited["metadata"]["labels"][keys::WORKLOAD_NAME] = json!("theirs");
    let made = effects(decide(&snapshot(Some(&write_back()), Some(&edited)), &LENIENT));
    let mended = body(&made[0]);
    let labels = &mended["metadata"]["labels"];
    assert_eq!(
        (&labels[keys::INSTANCE_CITY_CODE], labels.get(keys::WORKLOAD_NAME)),
        (&json!("DFW"), Some(&Value::Null))
    );
    assert_eq!(
        (&mended["spec"], &mended["metadata"]["resourceVersion"]),
        (&write_back()["spec"], &json!("8"))
    );
}

#[test]
fn the_deployment_is_the_one_that_the_write_back_names() {
    assert_eq!(snapshot(Some(&write_back()), None).deployment(), Some("web"));
    assert_eq!(snapshot(None, None).deployment(), None);
}
