//! A member whose own controller deletes a vault each time that Karmada makes it does not get it for ever (G55).

use super::{
    away::{delivered, delivered_in},
    end::wrong,
    ops::Act::{Create, Delete, Edit},
    rig::{EXPIRED, LAPSED, Scene},
};
use crate::{
    invariants::restless,
    rig::{rest, simulate},
    scenarios::SETTLED,
};
use fedgate_kinds::ByMember;
use fedgate_simulator::karmada::KARMADA;
use std::time::Duration;

/// Longer than many rounds take, and shorter than the hour in which two are counted.
const ROUNDS: Duration = Duration::from_mins(10);

/// How often Karmada has made a vault at the member since this was last asked.
fn made(scene: &Scene) -> usize {
    let changes = scene.rig.simulator.take_changes();
    let made = changes.iter().filter(|change| {
        let after = change.after.as_ref();
        let is_vault = after.is_some_and(|after| after["kind"] == "Vault");
        &*change.plane == "dfw-1" && &*change.user == KARMADA && change.before.is_none() && is_vault
    });
    made.count()
}

/// Reasons of the conditions of the vault that say why it is not at its member.
fn reasons(scene: &Scene) -> Vec<String> {
    let gold = scene.rig.projects["p"].get("Vault", "default", "gold").unwrap();
    let conditions = gold["status"]["conditions"].as_array().unwrap();
    let of = |kind: &str| {
        let one = conditions.iter().find(|condition| condition["type"] == kind);
        one.unwrap()["reason"].as_str().unwrap().to_owned()
    };
    ["Federated", "Applied"].map(of).to_vec()
}

async fn a_restart_writes_nothing(scene: &mut Scene) {
    scene.rig.simulator.log().clear();
    scene.rig.kill().await;
    scene.rig.start();
    rest(ROUNDS).await;
    assert_eq!(
        restless(&scene.rig.simulator.log().entries()),
        Vec::<String>::new()
    );
}

async fn is_withheld_after_two_rounds(size: u32) {
    let mut scene = delivered().await;
    assert_eq!(made(&scene), 1);
    Edit("p", "default", "gold", size).apply(&scene.rig);
    rest(ROUNDS).await;
    assert_eq!(made(&scene), 2, "after each of two ends, and not after the third");
    assert_eq!(reasons(&scene), ["EndedByMember", "EndedByMember"]);
    a_restart_writes_nothing(&mut scene).await;
    assert_eq!(made(&scene), 0, "over a restart, too");
    Edit("p", "default", "gold", 2).apply(&scene.rig);
    rest(SETTLED).await;
    assert_eq!((made(&scene), wrong(&scene.rig)), (1, Vec::new()), "edited");
    Edit("p", "default", "gold", size).apply(&scene.rig);
    rest(ROUNDS).await;
    assert_eq!(reasons(&scene), ["EndedByMember", "EndedByMember"]);
    Delete("p", "default", "gold").apply(&scene.rig);
    rest(SETTLED).await;
    assert_eq!(
        wrong(&scene.rig),
        Vec::<String>::new(),
        "withheld, it can be deleted"
    );
    assert_eq!(scene.rig.projects["p"].get("Vault", "default", "gold"), None);
}

/// With `byMember: ends` a vault that its member deletes is withdrawn, with its adopted companions. Neither a restart nor an edit
/// creates the vault again.
async fn is_withdrawn_after_one_end(away: bool) {
    let mut scene = delivered_in(Scene::with(1, &["p"], ByMember::Ends)).await;
    assert_eq!(made(&scene), 1);
    Edit("p", "default", "gold", EXPIRED).apply(&scene.rig);
    if away {
        // The gateway has delivered the edit, and learns of the end when all is over.
        rest(Duration::from_secs(2)).await;
        scene.rig.kill().await;
        rest(ROUNDS).await;
        scene.rig.start();
    }
    rest(ROUNDS).await;
    let again = made(&scene);
    assert!(if away { again > 0 } else { again == 0 }, "made {again} times");
    let ended = ["EndedByMember", "EndedByMember"];
    assert_eq!(reasons(&scene), ended);
    assert_eq!(wrong(&scene.rig), Vec::<String>::new());
    a_restart_writes_nothing(&mut scene).await;
    Edit("p", "default", "gold", 2).apply(&scene.rig);
    rest(SETTLED).await;
    assert_eq!((made(&scene), wrong(&scene.rig)), (0, Vec::new()));
    assert_eq!(reasons(&scene), ended);
    Delete("p", "default", "gold").apply(&scene.rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&scene.rig), Vec::<String>::new());
    assert_eq!(scene.rig.projects["p"].get("Vault", "default", "gold"), None);
    Create("p", "default", "gold", "DFW").apply(&scene.rig);
    rest(SETTLED).await;
    assert_eq!((made(&scene), wrong(&scene.rig)), (1, Vec::new()), "created anew");
}

#[test]
fn with_by_member_ends_a_vault_is_not_created_again() {
    for away in [false, true] {
        simulate(is_withdrawn_after_one_end(away));
    }
}

#[test]
fn a_vault_that_its_member_ends_each_time_is_withheld_after_two_rounds() {
    for size in [EXPIRED, LAPSED] {
        simulate(is_withheld_after_two_rounds(size));
    }
}
