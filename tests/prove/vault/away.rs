//! A member that does not answer for long: its object keeps its last status (G24), and no deletion ends (G39).

use super::{
    end::wrong,
    invariants::Guard,
    ops::Act::{Create, Delete, Lock, Ready, Secret},
    rig::Scene,
};
use crate::{
    invariants::restless,
    rig::{HUB, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_simulator::Down;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than the ten minutes of G39, and than each wait of the gateway for a member.
const LONG: Duration = Duration::from_mins(11);
/// The gateway learns from Karmada that a Cluster is not ready, and then says so.
const SOON: Duration = Duration::from_secs(30);

/// A vault that is at `dfw-1`.
pub(super) async fn delivered() -> Scene {
    delivered_in(Scene::new(1, &["p"])).await
}

/// Delivers a vault to `dfw-1` in this scene.
pub(super) async fn delivered_in(mut scene: Scene) -> Scene {
    Ready("dfw-2", false).apply(&scene.rig);
    Secret("p", "default", "b25l").apply(&scene.rig);
    Create("p", "default", "gold", "DFW").apply(&scene.rig);
    scene.rig.start();
    rest(SETTLED).await;
    assert_eq!(wrong(&scene.rig), Vec::<String>::new());
    scene
}

/// The member goes, and Karmada says that it is not ready; or it is back.
fn member_is_down(scene: &Scene, down: Option<Down>) {
    scene.rig.simulator.plane("dfw-1").unwrap().set_down(down);
    Ready("dfw-1", down.is_none()).apply(&scene.rig);
}

fn gold(scene: &Scene) -> Value {
    let gold = scene.rig.projects["p"].get("Vault", "default", "gold");
    Value::clone(&gold.expect("the vault is there"))
}

/// A condition's reason and time.
fn condition(vault: &Value, name: &str) -> (Value, Value) {
    let all = vault["status"]["conditions"].as_array().unwrap();
    let one = all.iter().find(|condition| condition["type"] == name).unwrap();
    (one["reason"].clone(), one["lastTransitionTime"].clone())
}

async fn keeps_its_status(down: Down) {
    let mut scene = delivered().await;
    member_is_down(&scene, Some(down));
    rest(SOON).await;
    let first = gold(&scene);
    assert_eq!(condition(&first, "StatusCurrent").0, "MemberNotReady");
    scene.rig.simulator.log().clear();
    rest(LONG).await;
    assert_eq!(
        restless(&scene.rig.simulator.log().entries()),
        Vec::<String>::new()
    );
    scene.rig.kill().await;
    scene.rig.start();
    rest(SETTLED).await;
    assert_eq!(gold(&scene)["status"], first["status"], "{down:?}");
    member_is_down(&scene, None);
    rest(SETTLED).await;
    assert_eq!(condition(&gold(&scene), "StatusCurrent").0, "Current");
}

async fn keeps_its_deletion(down: Down) {
    let mut scene = delivered().await;
    member_is_down(&scene, Some(down));
    rest(SOON).await;
    Delete("p", "default", "gold").apply(&scene.rig);
    for restarts in [false, true] {
        if restarts {
            scene.rig.kill().await;
            scene.rig.start();
        }
        rest(LONG).await;
        let held = gold(&scene);
        assert!(!held["metadata"]["deletionTimestamp"].is_null(), "{down:?}");
        assert_ne!(held["metadata"]["finalizers"], json!(null), "{down:?}");
    }
    member_is_down(&scene, None);
    rest(SETTLED).await;
    assert_eq!(wrong(&scene.rig), Vec::<String>::new());
    let gold = scene.rig.projects["p"].get("Vault", "default", "gold");
    assert_eq!(gold, None, "{down:?}");
}

#[test]
fn a_status_outlives_minutes_without_its_member() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(keeps_its_status(down));
    }
}

#[test]
fn a_deletion_outlives_minutes_without_its_member() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(keeps_its_deletion(down));
    }
}

/// A vault is guarded, deleted, and no longer guarded while its member, or its hub, does not answer, and the gateway starts anew.
async fn gets_the_end_of_its_guard(away: &str) {
    let mut scene = delivered().await;
    Lock("p", "default", "gold", true).apply(&scene.rig);
    rest(SETTLED).await;
    Delete("p", "default", "gold").apply(&scene.rig);
    rest(SOON).await;
    let plane = scene.rig.simulator.plane(away).unwrap();
    plane.set_down(Some(Down::Refused));
    Lock("p", "default", "gold", false).apply(&scene.rig);
    rest(LONG).await;
    scene.rig.kill().await;
    scene.rig.start();
    rest(SOON).await;
    plane.set_down(None);
    rest(SETTLED).await;
    let changes = scene.rig.simulator.take_changes();
    assert_eq!(
        Guard::default().violations(&changes),
        Vec::<String>::new(),
        "{away}"
    );
    assert_eq!(wrong(&scene.rig), Vec::<String>::new(), "{away}");
    assert_eq!(
        scene.rig.projects["p"].get("Vault", "default", "gold"),
        None,
        "{away}"
    );
}

#[test]
fn a_member_gets_the_end_of_a_guard_before_its_object_is_deleted() {
    for away in ["dfw-1", HUB] {
        simulate(gets_the_end_of_its_guard(away));
    }
}
