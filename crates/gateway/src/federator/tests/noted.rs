//! Conditions of the gateway in an annotation, for kinds whose schema has none.

use super::{
    Action, decision,
    lanes::{MEMBER, World, applied, merge},
};
use crate::{
    federator::observe::observe,
    index::{fixture::shop, single_member::Stage},
    rate_limit::Permit,
};
use fedgate_api::keys;
use fedgate_engine::{
    plan::{Effect, Endpoint, Plan, Prepared, Write},
    reconcile::throttle::RETRY_AFTER,
};
use fedgate_kinds::ConditionsIn;
use serde_json::{Value, json};
use std::time::Duration;

/// A delivered object whose member has reported.
fn reported(mut world: World) -> World {
    world.policies();
    world.pin(&json!({"delivered": true}));
    let lane = world.name(&world.lane(Stage::Preserve));
    world.copy(&lane, &json!({"status": {"phase": "Ready", "ready": 1}}));
    world.binding(&lane, &[MEMBER], &applied());
    world
}

/// The next write.
fn next(world: &mut World) -> Option<Plan<Prepared>> {
    for _ in 0..4 {
        let key = world.index.source_key(world.kind, &shop(), "default", world.name);
        let snapshot = observe(&world.index, &key, &shop()).unwrap();
        let decision = decision(
            &snapshot,
            &world.memory,
            &super::SETTINGS,
            Permit::Granted,
            world.now,
        );
        world.memory = decision.memory.observed;
        match decision.action {
            Action::Apply(plan) | Action::Confirm(plan) if !plan.effects.is_empty() => return Some(plan),
            _ => world.now = super::later(world.now, Duration::from_secs(10)),
        }
    }
    None
}

fn body(effect: &Effect) -> &Value {
    match &effect.write {
        Write::Apply { body, .. }
        | Write::Update { body, .. }
        | Write::Create { body, .. }
        | Write::Merge { patch: body } => body,
        Write::Replace { .. } | Write::Delete { .. } | Write::DeleteNamed => {
            panic!("{effect:?}")
        }
    }
}

/// Types and reasons in the annotation that a write sets.
fn noted(plan: &Plan<Prepared>) -> Vec<(String, String)> {
    let [effect] = plan.effects.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(effect.endpoint, Endpoint::Main);
    let text = body(effect)["metadata"]["annotations"][keys::CONDITIONS]
        .as_str()
        .unwrap();
    let conditions: Vec<Value> = serde_json::from_str(text).unwrap();
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap().to_owned();
    conditions
        .iter()
        .map(|of| (text(of, "type"), text(of, "reason")))
        .collect()
}

/// The project's object as the writes left it.
fn store(world: &mut World, status: &Value, annotation: Option<&str>) {
    let mut object = json!({"status": status});
    if let Some(annotation) = annotation {
        merge(
            &mut object,
            &json!({"metadata": {"annotations": {keys::CONDITIONS: annotation}}}),
        );
    }
    world.source(&object);
}

fn annotation_of(plan: &Plan<Prepared>) -> String {
    body(&plan.effects[0])["metadata"]["annotations"][keys::CONDITIONS]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn the_status_stays_the_members_and_the_conditions_are_noted_beside_it() {
    let mut world = reported(World::with(|kind| {
        kind.status.conditions_in = ConditionsIn::Annotation;
    }));
    let first = next(&mut world).unwrap();
    assert_eq!(
        body(&first.effects[0])["status"],
        json!({"phase": "Ready", "ready": 1})
    );
    store(&mut world, &json!({"phase": "Ready", "ready": 1}), None);
    let second = next(&mut world).unwrap();
    let all = [
        "Federated Delivered",
        "Scheduled Pinned",
        "Applied Applied",
        "StatusCurrent Current",
    ];
    let found: Vec<String> = noted(&second)
        .iter()
        .map(|(kind, reason)| format!("{kind} {reason}"))
        .collect();
    assert_eq!(found, all);
    assert_eq!(second.notes, []);
    let annotation = annotation_of(&second);
    store(
        &mut world,
        &json!({"phase": "Ready", "ready": 1}),
        Some(&annotation),
    );
    assert_eq!(next(&mut world), None, "nothing is left to write");
    // A tenant's words there are no conditions of the gateway, and what is missing is written again.
    let forged =
        json!([{"type": "Federated", "status": "True", "reason": "Mine"}, {"type": "Other"}]).to_string();
    store(&mut world, &json!({"phase": "Ready", "ready": 1}), Some(&forged));
    let again = next(&mut world).unwrap();
    assert_eq!(noted(&again).len(), 4, "no more than the gateway's own");
    store(
        &mut world,
        &json!({"phase": "Ready", "ready": 1}),
        Some("no JSON"),
    );
    assert_eq!(noted(&next(&mut world).unwrap()).len(), 4);
}

#[test]
fn a_foreign_condition_of_the_member_is_returned_as_it_is() {
    let mut world = reported(World::with(|kind| {
        kind.status.conditions_in = ConditionsIn::Annotation;
    }));
    let lane = world.name(&world.lane(Stage::Preserve));
    let odd = json!({"conditions": [{"type": "Built", "status": "True", "stage": 3}]});
    world.copy(&lane, &json!({"status": odd}));
    let first = next(&mut world).unwrap();
    assert_eq!(body(&first.effects[0])["status"]["conditions"], odd["conditions"]);
}

/// Types of the conditions that a status has.
fn kinds(status: &Value) -> Vec<&str> {
    let all = status["conditions"].as_array().into_iter().flatten();
    all.filter_map(|condition| condition["type"].as_str()).collect()
}

const OWN: [&str; 4] = ["Federated", "Scheduled", "Applied", "StatusCurrent"];

/// An object whose conditions are noted, since its server drops them.
fn dropped() -> (World, String) {
    let mut world = reported(World::new());
    let first = next(&mut world).unwrap();
    assert_eq!(kinds(&body(&first.effects[0])["status"]), OWN);
    store(&mut world, &json!({"phase": "Ready", "ready": 1}), None);
    world.memory.pruned = Some(world.now.instant);
    let second = next(&mut world).unwrap();
    assert_eq!(noted(&second).len(), 4);
    let told: Vec<&str> = second.notes.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(told, ["ConditionsPruned"]);
    let annotation = annotation_of(&second);
    store(
        &mut world,
        &json!({"phase": "Ready", "ready": 1}),
        Some(&annotation),
    );
    (world, annotation)
}

#[test]
fn a_server_that_drops_them_is_noticed_and_the_tenant_told_once() {
    let (mut world, _) = dropped();
    assert_eq!(next(&mut world), None);
    world.memory.pruned = None;
    assert_eq!(next(&mut world), None, "after a restart the annotation tells");
}

/// A later schema may have conditions: the next status tries them, not sooner than after a while.
#[test]
fn a_server_that_keeps_them_again_has_them_in_the_status() {
    let (mut world, annotation) = dropped();
    let lane = world.name(&world.lane(Stage::Preserve));
    world.copy(&lane, &json!({"status": {"phase": "Ready", "ready": 2}}));
    let soon = next(&mut world).unwrap();
    assert_eq!(kinds(&body(&soon.effects[0])["status"]), [""; 0]);
    store(
        &mut world,
        &json!({"phase": "Ready", "ready": 2}),
        Some(&annotation),
    );
    assert_eq!(next(&mut world), None, "nothing is tried for its own sake");
    world.now = super::later(world.now, RETRY_AFTER);
    world.copy(&lane, &json!({"status": {"phase": "Ready", "ready": 3}}));
    let tried = next(&mut world).unwrap();
    let status = body(&tried.effects[0])["status"].clone();
    assert_eq!(kinds(&status), OWN);
    assert_eq!(tried.notes, []);
    store(&mut world, &status, Some(&annotation));
    world.memory.pruned = Some(world.now.instant);
    let ended = next(&mut world).unwrap();
    assert_eq!(ended.effects.len(), 1);
    assert_eq!(
        body(&ended.effects[0])["metadata"]["annotations"],
        json!({keys::CONDITIONS: null})
    );
    store(&mut world, &status, None);
    world.memory.pruned = None;
    assert_eq!(next(&mut world), None);
}

/// A change of the gateway's own conditions does not go to the annotation while the status has them.
#[test]
fn conditions_that_the_status_has_are_written_there() {
    let (mut world, annotation) = dropped();
    world.memory.pruned = None;
    let lane = world.name(&world.lane(Stage::Preserve));
    world.copy(&lane, &json!({"status": {"phase": "Ready", "ready": 2}}));
    let status = body(&next(&mut world).unwrap().effects[0])["status"].clone();
    store(&mut world, &status, Some(&annotation));
    world.memory.pruned = Some(world.now.instant);
    world.binding(
        &lane,
        &[MEMBER],
        &json!([{"clusterName": MEMBER, "appliedMessage": "no room"}]),
    );
    let changed = next(&mut world).unwrap();
    assert_eq!(changed.effects[0].endpoint, Endpoint::Status);
    assert_eq!(kinds(&body(&changed.effects[0])["status"]), OWN);
}
