//! Hub and project away from a cell: what it does by itself goes on, what it owes them is recorded and follows.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    invariants::Watchman,
    ops::{Op::*, SECOND},
    rig::{Rig, USER},
};
use crate::rig::{HUB, rest, simulate};
use fedgate_simulator::Down;
use serde_json::Value;
use std::time::Duration;

/// What needs no other plane is done in this time: three Pods stop one after another, and each plane is asked in vain once.
const LOCAL: Duration = Duration::from_secs(40);
/// The rest of the minute for which planes are away.
const LEFT: Duration = Duration::from_secs(19);
/// After a return all must be well in this time.
const CAUGHT_UP: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_mins(10);

/// The names of all objects of a kind.
fn names(objects: &[std::sync::Arc<Value>]) -> Vec<&str> {
    let names = objects.iter().map(|o| o["metadata"]["name"].as_str());
    names.map(Option::unwrap_or_default).collect()
}

/// The images of the Pods that run.
fn images(rig: &Rig) -> Vec<Value> {
    let pods = rig.cell.list("Pod");
    pods.iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].clone())
        .collect()
}

fn ready(rig: &Rig) -> usize {
    let instances = rig.cell.list("Instance");
    let is_ready = |i: &Value| {
        let conditions = i["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    instances.iter().filter(|i| is_ready(i)).count()
}

/// What the deployment says of its Instances.
fn replicas_ready(rig: &Rig) -> (String, String) {
    let deployments = rig.cell.list("WorkloadDeployment");
    let conditions = deployments[0]["status"]["conditions"].as_array().unwrap();
    let said = conditions.iter().find(|c| c["type"] == "ReplicasReady").unwrap();
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// Five Instances that run, and then planes are away.
async fn away(planes: &[&str], down: Down) -> Rig {
    let mut rig = Rig::new(1, false);
    rig.start();
    Create("web", 5).apply(&rig);
    rest(SETTLED).await;
    assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "undisturbed");
    for plane in planes {
        rig.simulator.plane(plane).unwrap().set_down(Some(down));
    }
    rig.simulator.log().clear();
    rest(Duration::from_secs(1)).await;
    rig
}

/// The planes are back: all is caught up with, nothing was violated on the way, and then nothing is written.
async fn back(mut rig: Rig, planes: &[&str]) {
    for plane in planes {
        let entries = rig.simulator.log().entries();
        let asked = entries
            .iter()
            .filter(|e| &*e.plane == *plane && &*e.user == USER)
            .count();
        println!("{plane} was asked {asked} times");
        rig.simulator.plane(plane).unwrap().set_down(None);
    }
    rest(CAUGHT_UP).await;
    assert_eq!(
        settled(&rig),
        Vec::<String>::new(),
        "{CAUGHT_UP:?} after the return"
    );
    assert_eq!(unready(&rig), Vec::<String>::new());
    assert_eq!(rig.records(), 0);
    rest(SETTLED).await;
    rig.simulator.log().clear();
    rest(QUIET).await;
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    assert_eq!(rig.writes(), Vec::<String>::new(), "at rest and after a restart");
    let violations = Watchman::default().violations(&rig.simulator.take_changes());
    assert_eq!(violations, Vec::<String>::new());
}

/// A hub that is away holds up neither scale-down nor rolls.
async fn without_hub(down: Down) {
    let rig = away(&[HUB], down).await;
    Scale("web", 2).apply(&rig);
    Image("web", SECOND).apply(&rig);
    rest(LOCAL).await;
    assert_eq!(names(&rig.cell.list("Instance")), ["web-0", "web-1"]);
    assert_eq!(images(&rig), [SECOND, SECOND]);
    assert_eq!(unready(&rig), Vec::<String>::new());
    let claims = rig.project.list("ResourceClaim");
    assert_eq!(names(&claims), ["instance-web-0", "instance-web-1"]);
    assert_eq!(rig.hub.count("Instance"), 5, "the hub knows nothing of it yet");
    assert!(rig.records() > 0, "what is left there is written down");
    rest(LEFT).await;
    back(rig, &[HUB]).await;
}

/// A project that is away holds up no scale-down; rolls are held, and what runs goes on running.
async fn without_project(down: Down) {
    let rig = away(&["shop"], down).await;
    Scale("web", 2).apply(&rig);
    rest(LOCAL).await;
    assert_eq!(names(&rig.cell.list("Instance")), ["web-0", "web-1"]);
    assert_eq!(rig.project.count("ResourceClaim"), 5);
    assert_eq!(rig.hub.count("Instance"), 2);
    assert_eq!(rig.records(), 3);
    Image("web", SECOND).apply(&rig);
    rest(LEFT).await;
    assert_eq!(ready(&rig), 2, "{:?}", replicas_ready(&rig));
    assert_eq!(replicas_ready(&rig).0, "QuotaBackendUnavailable");
    assert!(images(&rig).iter().all(|image| image != SECOND));
    back(rig, &["shop"]).await;
}

/// Case W7 of the contract. Of a project that falls silent nobody knows before it is asked for the first replacement: that
/// one waits, and the roll with it.
async fn without_both(down: Down) {
    let rig = away(&[HUB, "shop"], down).await;
    Scale("web", 2).apply(&rig);
    Image("web", SECOND).apply(&rig);
    rest(LOCAL).await;
    assert_eq!(names(&rig.cell.list("Instance")), ["web-0", "web-1"]);
    let left = match down {
        Down::Refused => 2,
        Down::BlackHole => 1,
    };
    assert_eq!(ready(&rig), left);
    assert_eq!(replicas_ready(&rig).0, "QuotaBackendUnavailable");
    assert!(images(&rig).iter().all(|image| image != SECOND));
    let elsewhere = (rig.hub.count("Instance"), rig.project.count("ResourceClaim"));
    assert_eq!(elsewhere, (5, 5), "nothing is known there yet");
    rest(LEFT).await;
    back(rig, &[HUB, "shop"]).await;
}

/// Planes that are away hold up no end.
async fn deleted_without_both(down: Down) {
    let rig = away(&[HUB, "shop"], down).await;
    Delete("web").apply(&rig);
    rest(LOCAL).await;
    for kind in ["WorkloadDeployment", "Instance", "Pod", "Service"] {
        assert_eq!(rig.cell.count(kind), 0, "{kind}");
    }
    assert_eq!(rig.project.count("ResourceClaim"), 5);
    assert_eq!(rig.records(), 5);
    rest(LEFT).await;
    back(rig, &[HUB, "shop"]).await;
}

#[test]
fn a_hub_that_is_away_holds_up_neither_scale_down_nor_rolls() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(without_hub(down));
    }
}

#[test]
fn a_project_that_is_away_holds_up_no_scale_down_and_holds_rolls() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(without_project(down));
    }
}

#[test]
fn both_away_and_the_cell_goes_on() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(without_both(down));
    }
}

#[test]
fn planes_that_are_away_hold_up_no_end() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(deleted_without_both(down));
    }
}
