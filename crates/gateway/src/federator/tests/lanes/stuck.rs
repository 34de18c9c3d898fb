//! A Work of an earlier copy that does not end.

use super::*;
use crate::federator::memory::GRACE_PERIOD;

const WORK: &str = "karmada-es-dfw-1/gold-1";
const LOOK: [&str; 1] = ["look for a stuck work at dfw-1"];

/// True if the next decision is to look for the Work; nothing else but the status is written.
fn looks(world: &mut World) -> bool {
    let decided = world.decides();
    if decided == LOOK {
        return true;
    }
    assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
    false
}

/// A copy that was made again, at its member, of which the member says nothing.
fn silent() -> World {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
    world.at(Stage::TakeOver, &json!([]));
    assert!(!looks(&mut world));
    world
}

/// A silent member after the grace period.
fn late() -> World {
    let mut world = silent();
    world.now = later(world.now, GRACE_PERIOD);
    world
}

#[test]
fn a_member_that_says_nothing_is_asked_for_its_work_after_a_while() {
    let mut world = silent();
    world.passes(4);
    assert!(!looks(&mut world), "it may still be applied");
    world.passes(1);
    assert!(looks(&mut world));
    for pause in [1, 2, 4] {
        world.memory.member.probing.observation = Some(Observation::WorksGoOn);
        assert!(!looks(&mut world), "no Work is in the way");
        world.passes(pause - 1);
        assert!(!looks(&mut world), "each pause is longer");
        world.passes(1);
        assert!(looks(&mut world));
    }
}

#[test]
fn the_tenant_is_told_the_work_until_it_has_ended() {
    let mut world = late();
    assert!(looks(&mut world));
    world.memory.member.probing.observation = Some(Observation::WorkStuck(WORK.to_owned()));
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    let snapshot = observe(&world.index, &key, &shop()).unwrap();
    let decision = decision(&snapshot, &world.memory, &SETTINGS, Permit::Granted, world.now);
    let (Action::Apply(plan) | Action::Confirm(plan)) = decision.action else {
        panic!("its conditions are written");
    };
    let [effect] = plan.effects.as_slice() else {
        panic!("one write and no other: {:?}", plan.effects);
    };
    let Write::Apply { body, .. } = &effect.write else {
        panic!("of the status");
    };
    let conditions = body["status"]["conditions"].as_array().unwrap();
    for kind in ["Federated", "Applied"] {
        let said = conditions.iter().find(|c| c["type"] == kind).unwrap();
        assert_eq!(
            (&said["status"], &said["reason"]),
            (&json!("False"), &json!("WorkStuck"))
        );
        assert!(text(&said["message"]).contains(WORK), "{said}");
    }
    world.memory = decision.memory.applied;
    // Its end is an event, and so every pass asks again.
    assert!(looks(&mut world));
    world.memory.member.probing.observation = Some(Observation::WorksGoOn);
    assert!(!looks(&mut world));
    assert_eq!(world.memory.member.stuck_work, None);
}

#[test]
fn nobody_asks_for_a_work_of_a_member_that_has_spoken_or_cannot() {
    for (case, change) in [
        (
            "it has refused",
            (|world| {
                let refused = json!([{"clusterName": "dfw-1", "applied": false, "appliedMessage": "denied"}]);
                world.at(Stage::TakeOver, &refused);
            }) as fn(&mut World),
        ),
        ("it is applied", |world| world.at(Stage::TakeOver, &applied())),
        ("nothing is dispatched", |world| {
            world.source(&json!({"metadata": {"annotations": {"example.fedgate.dev/suspended": "true"}}}));
        }),
        ("the member is not ready", |world| {
            let mut cluster = fixture::object("", "dfw-1", "m-dfw-1");
            cluster["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW"});
            cluster["status"] = json!({"conditions": [{"type": "Ready", "status": "False"}]});
            let cluster = world.next(cluster);
            world.index.hub_has(TableId::Clusters, &cluster);
        }),
    ] {
        let mut world = late();
        change(&mut world);
        let decided = world.decides();
        assert!(!decided.contains(&LOOK[0].to_owned()), "{case}: {decided:?}");
    }
}

/// A deleted object whose copy was made again, and which its member has not taken over.
fn refused() -> World {
    let mut world = deleted(&json!({}));
    world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
    let words = json!([{"clusterName": "dfw-1", "applied": false, "appliedMessage": "no vaults here"}]);
    world.at(Stage::TakeOver, &words);
    world
}

#[test]
fn a_deletion_takes_nothing_over_that_its_member_does_not_have() {
    let mut world = refused();
    assert_eq!(world.decides(), [""; 0], "Karmada may still take it over");
    world.now = later(world.now, GRACE_PERIOD);
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.memory.member.probing.observation = Some(Observation::There {
        deleting: false,
        finalizers: Vec::new(),
        generation: None,
        guarded: false,
    });
    assert_eq!(world.decides(), ["return_status"], "it must be taken over first");
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.memory.member.probing.observation = Some(Observation::Unknown("forbidden".to_owned()));
    assert_eq!(world.decides(), ["return_status"], "no answer proves nothing");
    world.memory.member.probing.observation = Some(Observation::Absent);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
}

#[test]
fn where_no_member_is_asked_a_deletion_waits_until_it_is_taken_over() {
    let mut world = World::with(|kind| kind.deletion.finished_when = FinishedWhen::Released);
    world.policies();
    world.source(&json!({"metadata": {"deletionTimestamp": "2026-05-04T09:00:00Z"}}));
    world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
    let words = json!([{"clusterName": "dfw-1", "applied": false, "appliedMessage": "no vaults here"}]);
    world.at(Stage::TakeOver, &words);
    world.decides();
    world.now = later(world.now, GRACE_PERIOD);
    assert_eq!(world.says(), ["Federated WaitingForMember"]);
    world.at(Stage::TakeOver, &applied());
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
}
