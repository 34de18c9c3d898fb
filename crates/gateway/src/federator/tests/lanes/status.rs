//! A status that the project refuses.

use super::*;
use fedgate_engine::reconcile::throttle::RETRY_AFTER;

/// A delivered object whose member reports a phase.
fn reporting(phase: &str) -> World {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    report(&mut world, phase);
    world
}

fn report(world: &mut World, phase: &str) {
    let lane = world.name(&world.lane(Stage::Preserve));
    world.copy(&lane, &json!({"status": {"phase": phase}}));
}

/// The status that the next decision writes.
fn written(world: &mut World) -> Value {
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    let snapshot = observe(&world.index, &key, &shop()).unwrap();
    let decision = decision(&snapshot, &world.memory, &SETTINGS, Permit::Granted, world.now);
    match decision.action {
        Action::Apply(plan) | Action::Confirm(plan) => {
            let [effect] = plan.effects.as_slice() else {
                panic!("one write: {:?}", plan.effects);
            };
            let Write::Apply { body, .. } = &effect.write else {
                panic!("of the status");
            };
            body["status"].clone()
        }
        other => panic!("{other:?}"),
    }
}

fn refuse(world: &mut World) {
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    let snapshot = observe(&world.index, &key, &shop()).unwrap();
    let (source, copy) = (snapshot.source.unwrap(), snapshot.copy.unwrap());
    world
        .memory
        .refuse_status(&source, &copy, "phase: Too long", world.now);
}

#[test]
fn a_status_that_the_project_refuses_is_said_and_not_written_again_until_it_changes() {
    let mut world = reporting("Provisioning");
    assert_eq!(written(&mut world)["phase"], "Provisioning");
    refuse(&mut world);
    let status = written(&mut world);
    let said = status["conditions"].as_array().unwrap();
    let said = said.iter().find(|c| c["type"] == "StatusCurrent").unwrap();
    assert_eq!(
        (&said["status"], &said["reason"]),
        (&json!("False"), &json!("StatusRefused"))
    );
    assert!(text(&said["message"]).ends_with("phase: Too long"), "{said}");
    assert_eq!(status["phase"], Value::Null, "the last status stays");
    report(&mut world, "Ready");
    let another = written(&mut world);
    assert_eq!(another["phase"], "Ready", "another status may be accepted");
}

#[test]
fn a_refused_status_is_tried_again_after_a_while() {
    let mut world = reporting("Provisioning");
    refuse(&mut world);
    world.now = later(world.now, RETRY_AFTER);
    assert_eq!(written(&mut world)["phase"], "Provisioning");
}

/// The reason that the next decision gives for `StatusCurrent`.
fn says_of_status(world: &mut World) -> String {
    let status = written(world);
    let said = status["conditions"].as_array().unwrap();
    let said = said.iter().find(|c| c["type"] == "StatusCurrent").unwrap();
    text(&said["reason"]).to_owned()
}

/// Karmada's item has no status then (W34), so nobody knows whether the last one still holds.
#[test]
fn a_status_is_not_current_while_the_member_refuses_an_edit() {
    let mut world = reporting("Ready");
    assert_eq!(says_of_status(&mut world), "Current");
    let refused = json!([{"clusterName": "dfw-1", "appliedMessage": "too large"}]);
    let lane = world.name(&world.lane(Stage::Preserve));
    world.binding(&lane, &[MEMBER], &refused);
    assert_eq!(says_of_status(&mut world), "NotReported");
    let suspended =
        |value: Value| json!({"metadata": {"annotations": {"example.fedgate.dev/suspended": value}}});
    world.source(&suspended(json!("true")));
    let held = world.name(&world.lane(Stage::Suspend));
    world.copy(&held, &json!({"status": {"phase": "Ready"}}));
    world.binding(&held, &[MEMBER], &refused);
    assert_eq!(says_of_status(&mut world), "NotReported", "it is held as it is");
    world.source(&suspended(json!("false")));
    world.copy(&lane, &json!({"status": {"phase": "Ready"}}));
    world.binding(&lane, &[MEMBER], &applied());
    assert_eq!(says_of_status(&mut world), "Current");
}
