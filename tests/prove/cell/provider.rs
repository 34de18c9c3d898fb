//! Pods between a cell and a node: a provider that is switched off, labels that someone takes off, and objects that the cell
//! refuses.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    ops::Op::*,
    planes::{CELL, NS},
    rig::{Rig, USER},
};
use crate::rig::{rest, simulate};
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn pod_uid(rig: &Rig, name: &str) -> Option<String> {
    rig.cell.get("Pod", NS, name).map(|pod| uid(&pod))
}

/// A cell with a deployment that runs.
async fn running(replicas: u32) -> Rig {
    let mut rig = Rig::new(1, false);
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
        let mut rig = running(2).await;
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
fn a_label_that_is_taken_off_a_pod_or_service_is_put_back() {
    simulate(async {
        let rig = running(1).await;
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
