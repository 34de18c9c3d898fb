//! Disasters (operations.md §8.3) that no other proof has: a cell that is lost for good, and a gateway that was down for a
//! day. Restored and recreated planes are in `absence.rs`.

use crate::{
    absence::{filled, make_anew},
    end::wrong,
    objects::report,
    operations::{operations, traced},
    ops::Op::*,
    rig::{Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_operations::{Class, HopKind, OperationsSource, query::Query};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

const LOST: &str = "dfw-1";

/// When the clocks of the simulated API servers, and those of gateways, begin.
pub(crate) const SERVERS: i64 = 1_767_225_600;
pub(crate) const GATEWAYS: i64 = 1_800_000_000;

/// Reason and message of the deployment's condition of this type.
fn condition(rig: &Rig, name: &str, of: &str) -> (String, String) {
    let deployment = rig.projects["p"]
        .get("WorkloadDeployment", "default", name)
        .unwrap_or_else(|| panic!("the deployment {name} is there"));
    let conditions = deployment["status"]["conditions"].as_array();
    let condition = conditions.into_iter().flatten().find(|c| c["type"] == of);
    let text = |key: &str| {
        let value = condition.map_or(&Value::Null, |c| &c[key]);
        value.as_str().unwrap_or_default().to_owned()
    };
    (text("reason"), text("message"))
}

/// The names of the project's Instances.
fn projections(rig: &Rig) -> Vec<String> {
    let instances = rig.projects["p"].list("Instance");
    let name = |i: &Value| i["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut names: Vec<String> = instances.iter().map(|i| name(i)).collect();
    names.sort();
    names
}

/// Deployments in two cities, one of them at a cell that is lost then; `end` was deleted after that.
async fn with_a_lost_cell(release_after: Option<Duration>) -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    // The gateway compares its wall clock with the time of a deletion, which the project's API server sets.
    rig.off.store(SERVERS - GATEWAYS, Ordering::Relaxed);
    rig.settings.release_after = release_after;
    rig.start();
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    Create("p", "default", "end", "DFW", 1).apply(&mut rig);
    Create("p", "default", "api", "LHR", 1).apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig.lose(LOST);
    Delete("p", "default", "end").apply(&mut rig);
    rest(Duration::from_mins(20)).await;
    rig
}

#[test]
fn a_cell_that_is_lost_is_named_and_holds_up_nothing_else() {
    simulate(async {
        let mut rig = with_a_lost_cell(None).await;
        let (reason, message) = condition(&rig, "end", "Federated");
        assert_eq!(reason, "WaitingForCells");
        assert!(message.contains(LOST), "{message}");
        let stuck = operations(&rig).stuck(&Query::default());
        let deleting = stuck.items.iter().find(|group| group.class == Class::Deleting);
        assert_eq!(deleting.map(|group| group.count), Some(1), "{:#?}", stuck.items);
        // The last report of `web` stands: only the cell knows whether its Instance still runs.
        assert_eq!(projections(&rig), ["api-0", "web-0"]);
        Scale("p", "default", "api", 3).apply(&mut rig);
        Create("p", "default", "new", "LHR", 1).apply(&mut rig);
        Scale("p", "default", "web", 2).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(
            projections(&rig),
            ["api-0", "api-1", "api-2", "new-0", "web-0"],
            "the other city goes on"
        );
        let web = rig.hub.list("WorkloadDeployment");
        let web = web.iter().find(|copy| copy["metadata"]["name"] == "web").unwrap();
        assert_eq!(
            web["spec"]["scaleSettings"]["minReplicas"], 2,
            "the hub has the edit for the cell that may come back"
        );
        let trace = traced(&operations(&rig), "workloaddeployments", "web").unwrap();
        let broken = trace.first_broken.map(|broken| (broken.hop, broken.detail));
        let (hop, detail) = broken.expect("the trace of web is broken");
        assert_eq!(hop, HopKind::Hub, "{detail}");
        assert!(detail.contains(&format!("CellLost: cell {LOST} ")), "{detail}");
    });
}

#[test]
fn a_deletion_ends_without_a_lost_cell_after_the_time_that_the_operator_set() {
    simulate(async {
        let mut rig = with_a_lost_cell(Some(Duration::from_mins(30))).await;
        assert_eq!(condition(&rig, "end", "Federated").0, "WaitingForCells");
        rest(Duration::from_mins(11)).await;
        let deployments = rig.projects["p"].list("WorkloadDeployment");
        let mut left: Vec<_> = deployments
            .iter()
            .map(|d| d["metadata"]["name"].clone())
            .collect();
        left.sort_by_key(ToString::to_string);
        assert_eq!(left, ["api", "web"], "the deletion has ended");
        // The operator takes the Cluster away: Karmada withdraws what it had there, and other cities notice nothing.
        rig.hub.delete("Cluster.cluster.karmada.io", "", LOST).unwrap();
        rig.karmada.hold_bindings(false);
        rest(SETTLED).await;
        assert_eq!(condition(&rig, "web", "Federated").0, "NoCellForCity");
        assert_eq!(projections(&rig), ["api-0", "web-0"]);
        // The city gets another cell.
        rig.karmada.join(&fedgate_simulator::karmada::Cluster::new(
            "dfw-1",
            fedgate_api::keys::CITY_CODE,
            "DFW",
        ));
        rig.cells_act();
        Scale("p", "default", "web", 2).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

const MANY: [&str; 5] = ["a", "b", "c", "d", "e"];
const EACH: u32 = 3;

/// The UIDs of the project's Instances, by name.
fn uids(rig: &Rig) -> BTreeMap<String, String> {
    let instances = rig.projects["p"].list("Instance");
    let text = |i: &Value, key: &str| i["metadata"][key].as_str().unwrap_or_default().to_owned();
    instances
        .iter()
        .map(|i| (text(i, "name"), text(i, "uid")))
        .collect()
}

/// A hub that was made anew hears of the cells again in steps: Karmada aggregates what their deployments say before a
/// cell has written the first Instance back, and a cell writes one after the other.
async fn heard_again_in_steps(running: bool) {
    let (mut rig, empty) = filled(&MANY, EACH, Duration::from_hours(1)).await;
    let before = uids(&rig);
    assert_eq!(before.len(), 15);
    rig.cells_rest();
    make_anew(&mut rig, empty, running).await;
    for copy in rig.hub.list("WorkloadDeployment") {
        let place = |key: &str| copy["metadata"][key].as_str().unwrap().to_owned();
        let status = json!({"status": report(u64::from(EACH), Some(1))});
        rig.hub
            .merge_status("WorkloadDeployment", &place("namespace"), &place("name"), status)
            .unwrap();
    }
    rest(SETTLED).await;
    assert_eq!(
        uids(&rig),
        before,
        "Karmada has aggregated, no cell has written back"
    );
    rig.cells_write_back_only("-0");
    rest(SETTLED).await;
    assert_eq!(
        uids(&rig),
        before,
        "the cells have written one Instance of three back"
    );
    // The last of each is gone from its cell in truth.
    for name in MANY {
        Scale("p", "default", name, EACH - 1).apply(&mut rig);
    }
    rig.cells_act();
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    let kept: BTreeMap<_, _> = before
        .into_iter()
        .filter(|(name, _)| !name.ends_with("-2"))
        .collect();
    assert_eq!(uids(&rig), kept);
}

#[test]
fn projections_stay_until_the_cells_have_written_back_all_that_they_report() {
    simulate(heard_again_in_steps(true));
    simulate(heard_again_in_steps(false));
}

#[test]
fn a_write_back_that_went_unseen_takes_its_projection_along_whatever_the_status_says() {
    simulate(async {
        let (mut rig, _) = filled(&["web"], 2, Duration::from_hours(1)).await;
        // Its cell reports two Instances on, as cells of one city do.
        rig.cells_rest();
        rig.kill().await;
        let hub = rig.hub.list("Instance")[0]["metadata"]["namespace"].clone();
        rig.hub
            .delete("Instance", hub.as_str().unwrap(), "web-1")
            .unwrap();
        rig.start();
        rest(SETTLED).await;
        assert_eq!(projections(&rig), ["web-0"]);
    });
}

#[test]
fn a_day_without_a_gateway_costs_no_write_but_for_the_changes_of_that_day() {
    simulate(async {
        let mut rig = Rig::new(1, &["p", "q"]);
        rig.start();
        for name in ["web", "api", "db", "old"] {
            Create("p", "default", name, "DFW", 2).apply(&mut rig);
            Create("q", "default", name, "LHR", 1).apply(&mut rig);
        }
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        rig.kill().await;
        rest(Duration::from_hours(12)).await;
        Scale("p", "default", "web", 1).apply(&mut rig);
        Delete("p", "default", "old").apply(&mut rig);
        rest(Duration::from_hours(12)).await;
        rig.simulator.log().clear();
        rig.start();
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        let writes = rig.writes();
        let changed = |line: &String| line.contains("/web") || line.contains("/old");
        let others: Vec<_> = writes.iter().filter(|line| !changed(line)).collect();
        assert_eq!(others, Vec::<&String>::new());
        assert!(writes.iter().any(|line| line.contains("/web")), "{writes:?}");
        assert!(writes.iter().any(|line| line.contains("/old")), "{writes:?}");
    });
}
