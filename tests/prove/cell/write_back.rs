//! Write-backs and the copies that own them.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    ops::Op::*,
    planes::{CELL, NS, PROJECT},
    rig::{Rig, USER},
};
use crate::rig::{HUB, rest, simulate};
use fedgate_api::keys;
use fedgate_simulator::{Down, Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long no write-back may come back while the Instance lives on at the cell.
const ALONE: Duration = Duration::from_secs(100);
const ROUNDS: usize = 100;

/// Acceptance 47 of federation.md. The copy goes and Karmada, which is away, takes nothing from the cell.
#[test]
fn a_write_back_whose_copy_is_gone_is_not_made_again_while_its_instance_lives() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Create("web", 1).apply(&rig);
        rest(SETTLED).await;
        for round in 0..ROUNDS {
            assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "{round}");
            let lives = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert!(rig.hub.get("Instance", NS, "web-0").is_some(), "{round}");
            rig.script.delivers.send_replace(false);
            Delete("web").apply(&rig);
            rest(Duration::from_secs(1)).await;
            assert_eq!(rig.hub.count("Instance"), 0, "the hub collects it");
            rig.simulator.log().clear();
            rest(ALONE).await;
            assert_eq!(rig.hub.count("Instance"), 0, "{round}: it came back");
            let creations = rig.simulator.log().entries();
            let tried = |e: &&fedgate_simulator::Entry| {
                &*e.plane == HUB
                    && &*e.user == USER
                    && matches!(e.verb, Verb::Create | Verb::Apply | Verb::Patch)
            };
            assert_eq!(creations.iter().filter(tried).count(), 0, "{round}");
            let still = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert_eq!(still["metadata"]["uid"], lives["metadata"]["uid"], "{round}");
            Create("web", 1).apply(&rig);
            rig.script.delivers.send_replace(true);
            rest(SETTLED).await;
        }
    });
}

/// Fails every write of the cell to a kind on a plane, to its status or to all but that.
fn unwritable(rig: &Rig, (plane, kind, status): (&str, &str, bool)) {
    for verb in Verb::ALL.into_iter().filter(|verb| verb.writes()) {
        let rule = Rule::new(When::Always, Fault::Internal)
            .plane(plane)
            .user(USER)
            .verb(verb)
            .kind(kind);
        rig.simulator.faults().add(rule.status(status));
    }
}

/// Instances whose copies on the hub say something else, or are not there.
fn outdated(rig: &Rig) -> Vec<String> {
    let instances = rig.cell.list("Instance");
    assert!(!instances.is_empty());
    let differs = |instance: &&Arc<Value>| {
        let copy = rig
            .hub
            .get("Instance", NS, instance["metadata"]["name"].as_str().unwrap());
        copy.is_none_or(|copy| copy["spec"] != instance["spec"] || copy["status"] != instance["status"])
    };
    let names = instances
        .iter()
        .filter(differs)
        .map(|i| i["metadata"]["name"].to_string());
    names.collect()
}

/// Someone empties the status of the copy and takes a container of its spec, and it is as the Instance again.
async fn edited_on_the_hub(rig: &Rig, what: &str) {
    for edit in [
        json!({"status": {"conditions": []}}),
        json!({"status": {"conditions": null}}),
    ] {
        rig.hub.merge_status("Instance", NS, "web-0", edit).unwrap();
        let image = json!({"spec": {"runtime": {"sandbox": {"containers": []}}}});
        rig.hub.merge("Instance", NS, "web-0", image).unwrap();
        assert_eq!(outdated(rig), ["\"web-0\""], "{what}: the edit");
        rest(Duration::from_mins(1)).await;
        assert_eq!(outdated(rig), Vec::<String>::new(), "{what}");
    }
}

/// How many writes of the cell a fault has met since the log was cleared.
fn failed(rig: &Rig) -> usize {
    let entries = rig.simulator.log().entries();
    entries
        .iter()
        .filter(|e| &*e.user == USER && e.fault.is_some())
        .count()
}

/// Case W2: the project gives no answer, and the pass over the Instance has nothing to write to it.
#[test]
fn a_copy_is_brought_up_to_date_by_a_pass_that_ends_in_an_error_of_quota() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(async {
            let mut rig = Rig::new(1, false);
            rig.start();
            rig.project.set_down(Some(down));
            Create("web", 1).apply(&rig);
            rest(SETTLED).await;
            let waits = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert!(
                waits["status"].to_string().contains("QuotaBackendUnavailable"),
                "{waits}"
            );
            assert_eq!(outdated(&rig), Vec::<String>::new(), "{down:?}");
            edited_on_the_hub(&rig, &format!("{down:?}")).await;
            let still = rig.cell.get("Instance", NS, "web-0").unwrap();
            let version = "resourceVersion";
            assert_eq!(
                still["metadata"][version], waits["metadata"][version],
                "the passes change nothing"
            );
        });
    }
}

/// Case W2: each step of a pass fails for as long as it lasts.
#[test]
fn a_copy_is_brought_up_to_date_whichever_step_fails() {
    let steps = [
        (CELL, "instances", false),
        (CELL, "instances", true),
        (PROJECT, "resourceclaims", false),
    ];
    for step in steps {
        simulate(async {
            let mut rig = Rig::new(1, false);
            rig.start();
            // It is made, and what is to be written to it then cannot be.
            if step == (CELL, "instances", false) {
                Create("web", 1).apply(&rig);
                rest(Duration::from_millis(150)).await;
            }
            unwritable(&rig, step);
            Create("web", 1).apply(&rig);
            rest(Duration::from_mins(1)).await;
            assert_eq!(
                outdated(&rig),
                Vec::<String>::new(),
                "{step:?}, from its creation"
            );
            // Something is to be done in each pass.
            let bare = json!({"metadata": {"finalizers": [keys::CLAIM_FINALIZER]}});
            rig.cell.merge("Instance", NS, "web-0", bare).unwrap();
            let wordless = json!({"status": {"conditions": []}});
            rig.cell.merge_status("Instance", NS, "web-0", wordless).unwrap();
            rest(Duration::from_mins(1)).await;
            assert_eq!(
                outdated(&rig),
                Vec::<String>::new(),
                "{step:?}, of an Instance that was edited"
            );
            edited_on_the_hub(&rig, &format!("{step:?}")).await;
            assert!(failed(&rig) > 0, "{step:?} was never met");
        });
    }
}

/// Case W2: quota was switched off, and what was claimed cannot be recorded.
#[test]
fn a_copy_is_brought_up_to_date_while_releases_cannot_be_recorded() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Create("web", 1).apply(&rig);
        rest(SETTLED).await;
        rig.kill().await;
        rig.options.quota = false;
        unwritable(&rig, (CELL, "configmaps", false));
        rig.simulator.log().clear();
        rig.start();
        rest(Duration::from_mins(1)).await;
        edited_on_the_hub(&rig, "no ConfigMap can be written").await;
        assert!(failed(&rig) > 0, "nothing was to be recorded");
        assert_eq!(
            rig.project.count("ResourceClaim"),
            1,
            "the claim is not forgotten"
        );
    });
}

/// A copy that another cell has written, under the name of one of ours.
fn of_another_cell(rig: &Rig, ours: &Value, name: &str, cell: &str) -> Value {
    let mut labels = ours["metadata"]["labels"].clone();
    labels[keys::CELL] = json!(cell);
    let metadata = json!({
        "name": name, "namespace": NS, "labels": labels, "ownerReferences": ours["metadata"]["ownerReferences"],
        "annotations": {keys::INSTANCE_UID: "0b1c2d3e-0000-4000-8000-000000000002"},
    });
    let copy = json!({"apiVersion": ours["apiVersion"], "kind": "Instance", "metadata": metadata, "spec": ours["spec"]});
    rig.hub.create(copy).unwrap()
}

/// What the cell has written to Instances of the hub since the log was cleared, and what was answered.
fn written(rig: &Rig) -> Vec<(Verb, u16)> {
    let entries = rig.simulator.log().entries();
    let written = entries
        .iter()
        .filter(|e| &*e.plane == HUB && &*e.user == USER && &*e.resource == "instances" && e.verb.writes());
    written.map(|e| (e.verb, e.code)).collect()
}

/// Case W5: the deployment has moved, and the other cell has written before this one has finished.
#[test]
fn an_old_cell_that_finalizes_leaves_the_new_cells_copy() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Create("web", 1).apply(&rig);
        rest(SETTLED).await;
        rig.script.delivers.send_replace(false);
        let moved = json!({"metadata": {"labels": {keys::CITY_CODE: "LHR"}}, "spec": {"cityCode": "LHR"}});
        rig.hub.merge("WorkloadDeployment", NS, "web", moved).unwrap();
        rest(Duration::from_secs(1)).await;
        let mut ours = (*rig.hub.get("Instance", NS, "web-0").unwrap()).clone();
        ours["metadata"]["labels"][keys::INSTANCE_CITY_CODE] = json!("LHR");
        rig.hub.delete("Instance", NS, "web-0").unwrap();
        let theirs = of_another_cell(&rig, &ours, "web-0", "lhr-1");
        rest(Duration::from_mins(1)).await;
        rig.simulator.log().clear();
        // Karmada withdraws it from the old cell.
        rig.cell.delete("WorkloadDeployment", NS, "web").unwrap();
        rest(SETTLED).await;
        for (plane, kind) in [
            (&rig.cell, "Instance"),
            (&rig.cell, "Pod"),
            (&rig.project, "ResourceClaim"),
        ] {
            assert_eq!(plane.count(kind), 0, "{kind}");
        }
        assert_eq!(rig.records(), 0);
        assert_eq!(
            *rig.hub.get("Instance", NS, "web-0").unwrap(),
            theirs,
            "the new copy stays as it is"
        );
        assert_eq!(written(&rig), [], "nothing was asked of it");
    });
}
