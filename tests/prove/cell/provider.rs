//! Pods between a cell and a node: a provider that is switched off, wrong clocks, labels that someone takes off, a network
//! that changes.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    ops::{Op::*, SECOND},
    planes::{CELL, NS},
    rig::{Rig, USER},
};
use crate::rig::{rest, simulate};
use fedgate_api::keys;
use fedgate_simulator::{Change, Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn pod_uid(rig: &Rig, name: &str) -> Option<String> {
    rig.cell.get("Pod", NS, name).map(|pod| uid(&pod))
}

fn finalizers(rig: &Rig, name: &str) -> Vec<String> {
    let instance = rig.cell.get("Instance", NS, name).unwrap();
    serde_json::from_value(instance["metadata"]["finalizers"].clone()).unwrap_or_default()
}

/// A cell with a deployment that runs.
async fn running(replicas: u32, networking: bool) -> Rig {
    let mut rig = Rig::new(1, networking);
    rig.start();
    Create("web", replicas).apply(&rig);
    rest(MINUTE).await;
    assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "undisturbed");
    rig
}

/// The cell starts anew and leaves Instances to another provider.
async fn switched_off(rig: &mut Rig) {
    rig.kill().await;
    rig.options.provider = false;
    rig.start();
    rest(MINUTE).await;
}

#[test]
fn with_the_provider_off_what_it_runs_still_ends() {
    simulate(async {
        let mut rig = running(2, false).await;
        switched_off(&mut rig).await;
        assert_eq!(unready(&rig), Vec::<String>::new(), "what runs goes on");
        Delete("web").apply(&rig);
        rest(MINUTE).await;
        for kind in ["Instance", "Pod", "Service"] {
            assert_eq!(rig.cell.count(kind), 0, "{kind}");
        }
        assert_eq!(settled(&rig), Vec::<String>::new());
    });
}

#[test]
fn with_the_provider_off_an_instance_whose_pod_is_gone_is_handed_over() {
    simulate(async {
        let mut rig = running(1, false).await;
        switched_off(&mut rig).await;
        rig.cell.delete("Pod", NS, "web-0").unwrap();
        rest(MINUTE).await;
        assert_eq!(rig.cell.count("Pod"), 0, "no Pod is started");
        assert_eq!(rig.cell.count("Service"), 0);
        assert!(!finalizers(&rig, "web-0").contains(&keys::PROVIDER_FINALIZER.to_owned()));
        assert!(!unready(&rig).is_empty(), "nothing runs, and nothing is said to");
        rig.simulator.log().clear();
        rest(SETTLED).await;
        assert_eq!(rig.writes(), Vec::<String>::new());
    });
}

/// A container ends and its node starts it again five seconds later; the node's clock is off by so many seconds.
async fn restarted_by_a_node_whose_clock_is_off(seconds: i64) {
    let rig = running(1, false).await;
    let before = pod_uid(&rig, "web-0");
    let now = rig.wall();
    let finished = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    let status = |state: Value, ready: &str| {
        json!({"status": {
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": finished.to_string()}],
            "containerStatuses": [{"name": "web", "restartCount": 1, "state": state}],
        }})
    };
    let ended = json!({"terminated": {"exitCode": 1, "finishedAt": finished.to_string()}});
    rig.cell
        .merge_status("Pod", NS, "web-0", status(ended, "False"))
        .unwrap();
    rest(Duration::from_secs(5)).await;
    assert_eq!(
        pod_uid(&rig, "web-0"),
        before,
        "the node has its time, its clock {seconds} s off"
    );
    let runs = json!({"running": {}, "terminated": null});
    rig.cell
        .merge_status("Pod", NS, "web-0", status(runs, "True"))
        .unwrap();
    rest(MINUTE).await;
    assert_eq!(pod_uid(&rig, "web-0"), before, "its clock {seconds} s off");
    assert_eq!(unready(&rig), Vec::<String>::new());
}

#[test]
fn a_nodes_wrong_clock_replaces_no_pod() {
    for seconds in [0, 3600, -3600] {
        simulate(restarted_by_a_node_whose_clock_is_off(seconds));
    }
}

fn attempts(rig: &Rig) -> (u64, jiff::Timestamp) {
    let instance = rig.cell.get("Instance", NS, "web-0").unwrap();
    let text = instance["metadata"]["annotations"][keys::RECOVERY]
        .as_str()
        .unwrap();
    let recovery: Value = serde_json::from_str(text).unwrap();
    let not_before = recovery["notBefore"].as_str().unwrap().parse().unwrap();
    (recovery["attempts"].as_u64().unwrap(), not_before)
}

/// Case W22: the count of attempts and the end of the pause are the Instance's, not the process's.
#[test]
fn a_cell_that_restarts_amid_a_pause_keeps_it_and_counts_on() {
    simulate(async {
        let mut rig = running(1, false).await;
        let fail = |rig: &Rig| {
            let failed = json!({"status": {"phase": "Failed"}});
            rig.cell.merge_status("Pod", NS, "web-0", failed).unwrap();
        };
        fail(&rig);
        rest(Duration::from_secs(10)).await;
        let (count, not_before) = attempts(&rig);
        assert_eq!(count, 1, "the first is replaced at once");
        let second = pod_uid(&rig, "web-0");
        fail(&rig);
        rest(Duration::from_secs(2)).await;
        rig.kill().await;
        rig.start();
        let left = Duration::try_from(not_before.duration_since(rig.wall())).unwrap();
        rest(left.checked_sub(Duration::from_millis(500)).unwrap()).await;
        assert_eq!(pod_uid(&rig, "web-0"), second, "not before its time");
        assert_eq!(attempts(&rig), (1, not_before));
        rest(Duration::from_secs(10)).await;
        assert_ne!(pod_uid(&rig, "web-0"), second, "and then at once");
        assert_eq!(attempts(&rig).0, 2);
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "recovered");
    });
}

#[test]
fn a_label_that_is_taken_off_a_pod_or_service_is_put_back() {
    simulate(async {
        let rig = running(1, false).await;
        let before = pod_uid(&rig, "web-0");
        rig.simulator.log().clear();
        let strip = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
        for kind in ["Pod", "Service"] {
            rig.cell.merge(kind, NS, "web-0", strip.clone()).unwrap();
        }
        rest(MINUTE).await;
        for kind in ["Pod", "Service"] {
            let object = rig.cell.get(kind, NS, "web-0").unwrap();
            let label = &object["metadata"]["labels"]["app.kubernetes.io/managed-by"];
            assert_eq!(label, "fedgate", "{kind}");
        }
        assert_eq!(pod_uid(&rig, "web-0"), before);
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]));
        let tries = rig.writes();
        assert!(tries.len() <= 12, "{tries:#?}");
        rig.simulator.log().clear();
        rest(SETTLED).await;
        assert_eq!(rig.writes(), Vec::<String>::new());
    });
}

/// Whether an Instance was made for this network at this interface.
fn is_at(instance: &Value, interface: usize, network: &str) -> bool {
    instance["spec"]["networkInterfaces"][interface]["network"]["name"] == network
}

/// Bindings that were deleted while an Instance of theirs was still there.
fn taken_from_under(changes: &[Change]) -> Vec<String> {
    let mut instances = std::collections::BTreeMap::new();
    let mut lines = Vec::new();
    for change in changes.iter().filter(|change| &*change.plane == "cell") {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else {
            continue;
        };
        if object["kind"] == "Instance" {
            match &change.after {
                Some(instance) => drop(instances.insert(uid(object), instance.clone())),
                None => drop(instances.remove(&uid(object))),
            }
        }
        if object["kind"] == "NetworkBinding" && change.after.is_none() && &*change.user == USER {
            let network = object["spec"]["network"]["name"].as_str().unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            let (_, interface) = name.split_once("-net-").unwrap();
            let interface = interface.split('-').next().unwrap().parse().unwrap();
            let used = instances
                .values()
                .filter(|instance| is_at(instance, interface, network));
            lines
                .extend(used.map(|i| format!("{} of {}", object["metadata"]["name"], i["metadata"]["name"])));
        }
    }
    lines
}

fn networks(rig: &Rig) -> Vec<String> {
    let bindings = rig.cell.list("NetworkBinding");
    let names = bindings.iter().map(|b| b["spec"]["network"]["name"].as_str());
    names.map(|name| name.unwrap().to_owned()).collect()
}

fn interfaces(rig: &Rig, networks: &[&str]) {
    let wish = rig.hub.get("WorkloadDeployment", NS, "web").unwrap();
    let mut template = wish["spec"]["template"].clone();
    let all: Vec<Value> = networks
        .iter()
        .map(|name| json!({"network": {"name": name}}))
        .collect();
    template["spec"]["networkInterfaces"] = json!(all);
    let patch = json!({"spec": {"template": template}});
    rig.hub.merge("WorkloadDeployment", NS, "web", patch).unwrap();
}

#[test]
fn a_binding_goes_when_no_instance_uses_it_any_more_and_not_before() {
    simulate(async {
        let rig = running(2, true).await;
        assert_eq!(networks(&rig), ["default"]);
        interfaces(&rig, &["backend", "default"]);
        rest(2 * MINUTE).await;
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "changed");
        let mut now = networks(&rig);
        now.sort();
        assert_eq!(now, ["backend", "default"]);
        interfaces(&rig, &["backend"]);
        rest(2 * MINUTE).await;
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "removed");
        assert_eq!(networks(&rig), ["backend"]);
        Image("web", SECOND).apply(&rig);
        rest(2 * MINUTE).await;
        assert_eq!(
            taken_from_under(&rig.simulator.take_changes()),
            Vec::<String>::new()
        );
        rig.simulator.log().clear();
        rest(SETTLED).await;
        assert_eq!(rig.writes(), Vec::<String>::new());
    });
}

/// Status and reason of a condition, and its message.
fn told(object: &Value, kind: &str) -> (String, String) {
    let mut conditions = object["status"]["conditions"].as_array().unwrap().iter();
    let condition = conditions.find(|condition| condition["type"] == kind).unwrap();
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    (format!("{} {}", text("status"), text("reason")), text("message"))
}

/// Meets each creation of such objects by the cell with a fault.
fn uncreatable(kind: &str, fault: Fault) -> Rule {
    Rule::new(When::Always, fault)
        .plane(CELL)
        .user(USER)
        .verb(Verb::Create)
        .kind(kind)
}

#[test]
fn a_service_that_cannot_be_made_stops_no_report_of_a_pod_that_runs() {
    for (fault, programmed) in [
        (Fault::Internal, "Unknown ProgrammingInProgress"),
        (Fault::Forbidden, "False ConfigurationError"),
        (Fault::Denied, "False ConfigurationError"),
    ] {
        simulate(async {
            let mut rig = Rig::new(1, false);
            let rule = rig.simulator.faults().add(uncreatable("services", fault.clone()));
            rig.start();
            Create("web", 1).apply(&rig);
            rest(MINUTE).await;
            let instance = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert_eq!(told(&instance, "Available").0, "True Available", "{fault:?}");
            assert_eq!(told(&instance, "Programmed").0, programmed, "{fault:?}");
            rig.simulator.faults().remove(rule);
            rest(6 * MINUTE).await;
            assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "{fault:?}");
        });
    }
}

#[test]
fn an_instance_that_its_cell_refuses_is_told_on_the_deployment_in_the_cells_words() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        let rule = rig
            .simulator
            .faults()
            .add(uncreatable("instances", Fault::Denied));
        rig.start();
        Create("web", 1).apply(&rig);
        rest(MINUTE).await;
        let deployment = rig.cell.get("WorkloadDeployment", NS, "web").unwrap();
        for kind in ["Available", "ReplicasReady"] {
            let (reason, message) = told(&deployment, kind);
            assert_eq!(reason, "False ApplyFailed");
            let words = "the cell's API server refuses web-0: ";
            assert!(
                message.starts_with(words) && message.contains("cannot have this"),
                "{message}"
            );
        }
        rig.simulator.faults().remove(rule);
        rest(6 * MINUTE).await;
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]));
    });
}
