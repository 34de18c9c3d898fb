//! Gates that two controllers take off at the same time.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    invariants::Watchman,
    ops::Op::*,
    planes::NS,
    rig::{Rig, USER},
};
use crate::rig::{rest, simulate};
use serde_json::json;
use std::time::Duration;

const SEEDS: u64 = 5;
const INSTANCES: u32 = 20;

/// Brings Instances up that all wait for quota, network and a companion, which come at the same moment, and says how often
/// one controller took a gate off while another did.
async fn collisions(seed: u64) -> usize {
    let mut rig = Rig::new(seed, true);
    rig.simulator
        .latency(Some(Duration::from_millis(1)..=Duration::from_millis(40)));
    rig.start();
    CreateWith("web", 0).apply(&rig);
    let scale = json!({"minReplicas": INSTANCES, "instanceManagementPolicy": "Parallel"});
    rig.hub
        .merge(
            "WorkloadDeployment",
            NS,
            "web",
            json!({"spec": {"scaleSettings": scale}}),
        )
        .unwrap();
    rest(Duration::from_millis(200)).await;
    Companion.apply(&rig);
    rest(SETTLED).await;
    assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "seed {seed}");
    assert_eq!(rig.cell.count("Instance"), INSTANCES as usize);
    for instance in rig.cell.list("Instance") {
        let gates = &instance["spec"]["controller"]["schedulingGates"];
        assert!(gates.as_array().is_none_or(Vec::is_empty), "seed {seed}: {gates}");
    }
    let violated = Watchman::default().violations(&rig.simulator.take_changes());
    assert_eq!(violated, Vec::<String>::new(), "seed {seed}");
    let entries = rig.simulator.log().entries();
    let refused = entries
        .iter()
        .filter(|e| &*e.user == USER && &*e.resource == "instances" && &*e.plane == "cell" && e.code == 409);
    refused.count()
}

/// Case W13: no gate returns, and Ready comes behind none; both are C6.
#[test]
fn gates_that_two_controllers_take_off_at_once_stay_off() {
    let collisions: usize = (1..=SEEDS).map(|seed| simulate(collisions(seed))).sum();
    println!("{collisions} collisions");
    assert!(collisions > 0, "nobody was in anybody's way");
}
