//! Gates that two controllers take off at the same time, and templates that say the same in more words.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    invariants::Watchman,
    ops::Op::*,
    planes::NS,
    rig::{Rig, USER},
};
use crate::rig::{rest, simulate};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::time::Duration;

const SEEDS: u64 = 5;
const INSTANCES: u32 = 20;
const MINUTE: Duration = Duration::from_mins(1);

/// Brings Instances up that all wait for quota, network and a companion, which come at the same moment, and says how often
/// one controller took a gate off while another did.
async fn collisions(seed: u64) -> usize {
    let mut rig = Rig::new(seed, true);
    rig.simulator
        .latency(Some(Duration::from_millis(1)..=Duration::from_millis(40)));
    rig.start();
    CreateWith("web", 0).apply(&rig);
    rest(MINUTE).await;
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

fn uids(rig: &Rig, kind: &str) -> Vec<Value> {
    let all = rig.cell.list(kind);
    all.iter().map(|o| o["metadata"]["uid"].clone()).collect()
}

/// Case W9: a newer definition fills defaults in, and a newer fedgate starts.
#[test]
fn defaults_that_a_newer_version_fills_in_roll_nothing() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        CreateWith("web", 2).apply(&rig);
        Companion.apply(&rig);
        rest(SETTLED).await;
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "undisturbed");
        let before = [uids(&rig, "Instance"), uids(&rig, "Pod")];
        rig.kill().await;
        let wish = rig.hub.get("WorkloadDeployment", NS, "web").unwrap();
        let mut spec = wish["spec"]["template"]["spec"].clone();
        spec["volumes"][0]["configMap"]["defaultMode"] = json!(420);
        spec["volumes"][0]["configMap"]["optional"] = json!(false);
        spec["runtime"]["sandbox"]["imagePullSecrets"] = json!([]);
        let container = &mut spec["runtime"]["sandbox"]["containers"][0];
        container["ports"][0]["protocol"] = json!("TCP");
        container["env"] = json!([]);
        let fuller = json!({"spec": {"template": {"spec": spec}}});
        let fuller = rig.hub.merge("WorkloadDeployment", NS, "web", fuller).unwrap();
        assert_ne!(fuller["spec"], wish["spec"], "the server keeps what is filled in");
        rest(MINUTE).await;
        rig.simulator.log().clear();
        rig.start();
        rest(SETTLED).await;
        assert_eq!([uids(&rig, "Instance"), uids(&rig, "Pod")], before);
        let writes = rig.writes();
        let rolled: Vec<&String> = writes
            .iter()
            .filter(|w| !w.contains("workloaddeployments/status"))
            .collect();
        assert!(rolled.is_empty(), "{rolled:#?}");
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]));
    });
}

/// Case W27: someone takes from an Instance what only the cell writes.
#[test]
fn an_instance_without_controller_or_status_ends_no_cell_and_gets_its_word_again() {
    for (spec, status) in [(true, false), (false, true), (true, true)] {
        simulate(async {
            let mut rig = Rig::new(1, false);
            rig.start();
            Create("web", 1).apply(&rig);
            rest(SETTLED).await;
            let before = [uids(&rig, "Instance"), uids(&rig, "Pod")];
            if spec {
                let without = json!({"spec": {"controller": null}});
                rig.cell.merge("Instance", NS, "web-0", without).unwrap();
            }
            if status {
                rig.cell
                    .merge_status("Instance", NS, "web-0", json!({"status": null}))
                    .unwrap();
            }
            let bare = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert_eq!(bare["spec"]["controller"].is_null(), spec, "{bare}");
            rest(SETTLED).await;
            assert_eq!(
                (settled(&rig), unready(&rig)),
                (vec![], vec![]),
                "{spec} {status}"
            );
            assert_eq!(
                [uids(&rig, "Instance"), uids(&rig, "Pod")],
                before,
                "{spec} {status}"
            );
            let said = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert!(said["status"].to_string().contains("QuotaGranted"), "{said}");
            assert!(said["metadata"]["labels"][keys::INSTANCE_INDEX] == "0");
            rig.kill().await;
            rig.simulator.log().clear();
            rig.start();
            rest(SETTLED).await;
            assert_eq!(rig.writes(), Vec::<String>::new(), "{spec} {status}: a restart");
        });
    }
}
