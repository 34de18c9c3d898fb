//! Moves of deployments from cell to cell of their city (docs/contract/serving.md §2).

use crate::{
    end::wrong,
    ops::Op::*,
    rig::{HUB, Rig, SECOND, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::sync::Arc;

const CLUSTER: &str = "Cluster.cluster.karmada.io";

/// The cells that have written back, and those to which Karmada schedules the deployments or which keep them by a task.
fn homes(rig: &Rig) -> (Vec<String>, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let written = rig.hub.list("Instance").into_iter();
    let mut written: Vec<String> = written
        .map(|i| text(&i["metadata"]["labels"][keys::CELL]))
        .collect();
    let bindings = rig.hub.list("ResourceBinding").into_iter();
    let cells = |binding: Arc<Value>| {
        let list = |of: &str, field: &str| {
            let items = binding["spec"][of].as_array().into_iter().flatten();
            items
                .map(|item| format!("{of} {}", text(&item[field])))
                .collect::<Vec<_>>()
        };
        let all = [
            list("clusters", "name"),
            list("gracefulEvictionTasks", "fromCluster"),
        ];
        all.concat()
    };
    let mut placed: Vec<String> = bindings.flat_map(cells).collect();
    for all in [&mut written, &mut placed] {
        all.sort();
        all.dedup();
    }
    (written, placed)
}

/// A rig with a deployment of two Instances at the first cell of DFW.
async fn served() -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    Create("p", "default", "web", "DFW", 2).apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(
        homes(&rig),
        (vec!["dfw-1".to_owned()], vec!["clusters dfw-1".to_owned()])
    );
    rig
}

fn uids(rig: &Rig) -> Vec<Value> {
    let all = rig.projects["p"].list("Instance").into_iter();
    all.map(|instance| instance["metadata"]["uid"].clone()).collect()
}

#[test]
fn a_drain_waits_for_another_cell_and_goes_on_by_its_event_and_nothing_moves_back() {
    simulate(async {
        let mut rig = served().await;
        let before = uids(&rig);
        Drain("dfw-1", true).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(homes(&rig).1, ["clusters dfw-1"], "there is no other cell");
        Join.apply(&mut rig);
        rest(SETTLED).await;
        let moved = (vec![SECOND.to_owned()], vec![format!("clusters {SECOND}")]);
        assert_eq!(homes(&rig), moved);
        Drain("dfw-1", false).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(homes(&rig), moved);
        assert_eq!(uids(&rig), before);
        let copy = &rig.hub.list("WorkloadDeployment")[0]["metadata"]["annotations"];
        assert_eq!(
            (&copy[keys::CELL], &copy[keys::MOVING_TO]),
            (&json!(SECOND), &Value::Null)
        );
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_binding_that_may_not_be_changed_keeps_no_edit_and_no_status_back() {
    simulate(async {
        let mut rig = served().await;
        Join.apply(&mut rig);
        rest(SETTLED).await;
        let refuse = Rule::new(When::Always, Fault::Forbidden)
            .plane(HUB)
            .verb(Verb::Patch)
            .kind("resourcebindings");
        let refuse = rig.simulator.faults().add(refuse);
        Drain("dfw-1", true).apply(&mut rig);
        rest(SETTLED).await;
        Scale("p", "default", "web", 1).apply(&mut rig);
        rest(SETTLED).await;
        let deployment = &rig.projects["p"].list("WorkloadDeployment")[0];
        assert_eq!(deployment["status"]["readyReplicas"], 1, "{deployment}");
        assert_eq!(homes(&rig).1, ["clusters dfw-1"]);
        rig.simulator.faults().remove(refuse);
        rest(SETTLED * 4).await;
        assert_eq!(homes(&rig).1, [format!("clusters {SECOND}")]);
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_move_whose_new_cell_has_left_the_city_is_cancelled() {
    simulate(async {
        let mut rig = served().await;
        Join.apply(&mut rig);
        rest(SETTLED).await;
        // A move of the gateway that began before, to a cell that leaves DFW.
        let binding = &rig.hub.list("ResourceBinding")[0];
        let [namespace, name] =
            ["namespace", "name"].map(|key| binding["metadata"][key].as_str().unwrap().to_owned());
        let elsewhere = json!({"metadata": {"labels": {keys::CITY_CODE: "OTHER"}}});
        rig.hub.merge(CLUSTER, "", SECOND, elsewhere).unwrap();
        let task = json!({"fromCluster": "dfw-1", "purgeMode": "Gracefully", "suppressDeletion": true, "producer": "fedgate",
            "reason": "Draining", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let moved = json!({"spec": {"clusters": [{"name": SECOND}], "gracefulEvictionTasks": [task]}});
        rig.hub
            .merge("ResourceBinding", &namespace, &name, moved)
            .unwrap();
        rest(SETTLED).await;
        assert_eq!(
            homes(&rig),
            (vec!["dfw-1".to_owned()], vec!["clusters dfw-1".to_owned()])
        );
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}
