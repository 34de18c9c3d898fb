//! A deployment's city: moves, claims, and one city above the limit.

use super::*;

#[tokio::test]
async fn a_city_move_is_one_patch_that_takes_the_claim_off() {
    let mut d = deployment();
    d["spec"]["cityCode"] = json!("LHR");
    d["metadata"]["generation"] = json!(4);
    let mut c = hub_copy();
    c["metadata"]["annotations"][CLAIM] = json!("city-dfw");
    let decision = decide(&snapshot(&d, Some(&c)), &mut Memory::default(), &SETTINGS, now());
    let Action::Apply(plan) = &decision else {
        panic!("{decision:?}")
    };
    assert_eq!(plan.notes[0].reason, "CityMoved");
    let effect = one(decision);
    assert_eq!(
        patch(&effect),
        &json!({"metadata": {"uid": "u-copy", "resourceVersion": "900",
            "labels": {keys::CITY_CODE: "LHR", keys::LOCATION: null, keys::UPSTREAM_NAMESPACE: "shop",
                keys::CLAIM_ID: null},
            "annotations": {keys::SOURCE_UID: "u-source", keys::SOURCE_GENERATION: "4",
                keys::CLAIM_NAME: null, keys::CLAIM_NAMESPACE: null, keys::EXPECTED_REFERENCED_DATA: null,
                keys::REFERENCED_DATA_ERROR: null, keys::SUSPENDED: null}},
            "spec": {"cityCode": "LHR"}})
    );
}

#[tokio::test]
async fn a_wrong_claim_is_repaired_after_ten_seconds_and_then_at_most_every_thirty() {
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    s.is_claim_right = false;
    let (mut memory, start) = (Memory::default(), now());
    idle(decide(&s, &mut memory, &SETTINGS, start));
    let effect = one(decide(
        &s,
        &mut memory,
        &SETTINGS,
        later(start, Duration::from_secs(10)),
    ));
    assert_eq!(effect.reason.label(), "repair_claim");
    let (effects, _) = plan(decide(
        &s,
        &mut memory,
        &SETTINGS,
        later(start, Duration::from_secs(20)),
    ));
    assert!(effects.iter().all(|e| e.reason.label() != "repair_claim"));
    let effect = one(decide(
        &s,
        &mut memory,
        &SETTINGS,
        later(start, Duration::from_secs(40)),
    ));
    assert_eq!(effect.reason.label(), "repair_claim");
}

#[tokio::test]
async fn a_city_move_takes_along_that_a_root_field_is_gone() {
    let mut d = deployment();
    d["spec"]["cityCode"] = json!("LHR");
    let mut c = hub_copy();
    c["extra"] = json!({"a": 1});
    let effect = one(decide(
        &snapshot(&d, Some(&c)),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
    assert_eq!(patch(&effect)["extra"], Value::Null);
    assert!(patch(&effect).get("extra").is_some());
}

#[tokio::test]
async fn a_city_too_many_says_so_and_asks_the_hub_nothing() {
    let mut d = deployment();
    d["metadata"]["finalizers"] = json!([]);
    let mut s = snapshot(&d, None);
    s.readiness.is_over_city_limit = true;
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    let condition = &patch(&effect)["status"]["conditions"][0];
    assert_eq!(condition["reason"], "InvalidCityCode");
    assert!(condition["message"].as_str().unwrap().contains("64 cities"));
}

/// The tenant clears the city code while the write of the copy has no answer.
#[tokio::test]
async fn the_hub_is_asked_for_a_copy_whose_write_had_no_answer() {
    let mut d = deployment();
    d["spec"]["cityCode"] = json!("");
    let dfw = Some(CityRoute::to_city(
        fedgate_api::names::CityCode::parse("DFW").unwrap(),
    ));
    let mut s = snapshot(&d, None);
    s.arriving = dfw.clone();
    let memory = &mut Memory::default();
    let effect = one(decide(&s, memory, &SETTINGS, now()));
    d["status"] = patch(&effect)["status"].clone();
    let mut s = Snapshot {
        arriving: dfw.clone(),
        ..snapshot(&d, None)
    };
    assert_eq!(decide(&s, memory, &SETTINGS, now()), Action::ConfirmGone);
    s.arriving = None;
    assert_eq!(
        decide(&s, memory, &SETTINGS, now()),
        Action::Apply(Plan::wait(Requeue::AwaitChange))
    );
    let s = Snapshot {
        arriving: dfw,
        ..snapshot(&deployment(), None)
    };
    let step = decide(&s, memory, &SETTINGS, now());
    assert_ne!(step, Action::ConfirmGone, "the copy is sent to that city again");
}
