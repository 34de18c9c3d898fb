//! Moves of deployments from cell to cell of their city (docs/contract/serving.md §2).

use crate::{
    backwards,
    disasters::{GATEWAYS, SERVERS},
    end::wrong,
    objects::deployment,
    ops::{
        Op::{self, *},
        serve_all,
    },
    random::{Moment, disturbance, op, pause, play_at, seeded, share, unhurried},
    rig::{HUB, Rig, SECOND, count, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Verb, When};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

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
fn a_deployment_that_names_an_unserved_city_moves_within_its_city() {
    simulate(async {
        let mut rig = served().await;
        Join.apply(&mut rig);
        Move("p", "default", "web", "dfw").apply(&mut rig);
        rest(SETTLED).await;
        Drain("dfw-1", true).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(
            homes(&rig),
            (vec![SECOND.to_owned()], vec![format!("clusters {SECOND}")])
        );
    });
}

#[test]
fn a_deployment_that_could_not_move_is_tried_again_without_an_event_of_the_hub() {
    simulate(async {
        let mut rig = served().await;
        Join.apply(&mut rig);
        rest(SETTLED).await;
        let refuse = Rule::new(When::Always, Fault::Forbidden)
            .plane(HUB)
            .verb(Verb::Patch)
            .kind("workloaddeployments");
        let refuse = rig.simulator.faults().add(refuse);
        Move("p", "default", "web", "LHR").apply(&mut rig);
        rest(SETTLED).await;
        Drain("dfw-1", true).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(homes(&rig).1, ["clusters dfw-1"]);
        rig.simulator.faults().remove(refuse);
        Move("p", "default", "web", "DFW").apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(homes(&rig).1, [format!("clusters {SECOND}")]);
    });
}

#[test]
fn nothing_is_written_at_rest_after_a_drain_of_one_of_four_cells() {
    let number = 3 * count("FEDGATE_PROVE_RESTING", 60);
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        for n in 0..number {
            let city = ["DFW", "LHR", "FRA"][usize::try_from(n % 3).unwrap()];
            let object = deployment("default", &format!("web{n}"), city, 1, None);
            rig.projects["p"].create(object).unwrap();
        }
        Join.apply(&mut rig);
        rest(SETTLED).await;
        assert!(homes(&rig).1.contains(&"clusters dfw-1".to_owned()));
        Drain("dfw-1", true).apply(&mut rig);
        // A third of the deployments move, and each has six seconds.
        rest(SETTLED.max(Duration::from_secs(2 * number))).await;
        let placed = [SECOND, "fra-1", "lhr-1"].map(|cell| format!("clusters {cell}"));
        assert_eq!(homes(&rig).1, placed);
        assert_eq!(wrong(&rig), Vec::<String>::new());
        rig.simulator.log().clear();
        rest(Duration::from_mins(10)).await;
        assert_eq!(rig.writes(), Vec::<String>::new());
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

/// How many seeds are drawn without being asked for more.
const SEEDS: u64 = 60;

/// The acts of courses in which deployments move from cell to cell of DFW.
fn cell_op() -> impl Strategy<Value = Op> {
    let cell = || prop::sample::select(vec!["dfw-1", SECOND]);
    let name = || prop::sample::select(vec!["web", "api"]);
    let place = (
        prop::sample::select(vec!["p", "q"]),
        prop::sample::select(vec!["default", "shop"]),
        name(),
    );
    prop_oneof![
        6 => op(),
        3 => (place, 1..3u32).prop_map(|((p, ns, n), r)| Op::Create(p, ns, n, "DFW", r)),
        6 => (cell(), prop::bool::weighted(0.6)).prop_map(|(cell, on)| Op::Drain(cell, on)),
        4 => (cell(), any::<bool>()).prop_map(|(cell, on)| Op::Ready(cell, on)),
        4 => (name(), cell()).prop_map(|(name, cell)| Op::MoveTo(name, cell)),
    ]
}

/// A pause in which a move often comes to its next step, or to its end.
fn long_pause() -> impl Strategy<Value = u64> {
    prop_oneof![1 => pause(), 2 => 200..12_000u64]
}

/// Sets up dfw-2 beside dfw-1, a deployment in each project, and short times for lost cells and overdue moves.
fn two_cells(mut rig: Rig) -> Rig {
    Join.apply(&mut rig);
    serve_all(&rig, "dfw-1");
    rig.settings.cell_lost_after = Duration::from_secs(5);
    rig.settings.move_timeout = Duration::from_secs(20);
    // The gateway's wall clock shows the API servers' time, because the gateway measures both times from moments that API servers set.
    rig.off.store(SERVERS - GATEWAYS, Ordering::Relaxed);
    for project in ["p", "q"] {
        Create(project, "default", "web", "DFW", 2).apply(&mut rig);
    }
    rig
}

/// Lists what is wrong: also deployments that are not at exactly one cell, and Instances that another cell wrote.
fn misplaced(rig: &Rig) -> Vec<String> {
    let mut lines = wrong(rig);
    let is_drained = |cell: &Value| {
        let cluster = rig.hub.get(CLUSTER, "", cell.as_str().unwrap_or_default());
        cluster.is_some_and(|cluster| cluster["spec"]["taints"][0]["key"] == keys::DRAINING)
    };
    for copy in rig.hub.list("WorkloadDeployment") {
        let metadata = &copy["metadata"];
        let [namespace, name] = ["namespace", "name"].map(|key| metadata[key].as_str().unwrap());
        // Only DFW has two cells.
        if metadata["labels"][keys::CITY_CODE] != "DFW" {
            continue;
        }
        let mut bindings = rig.hub.list("ResourceBinding").into_iter();
        let is_its =
            |binding: &Arc<Value>| binding["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"];
        let Some(binding) = bindings.find(is_its) else {
            lines.push(format!("{namespace}/{name}: no binding"));
            continue;
        };
        let spec = &binding["spec"];
        let of_uid =
            |source: &Arc<Value>| source["metadata"]["uid"] == metadata["annotations"][keys::SOURCE_UID];
        let sources = rig
            .projects
            .values()
            .flat_map(|plane| plane.list("WorkloadDeployment"));
        let source = sources.into_iter().find(of_uid);
        let said = source.map(|source| source["status"]["conditions"].to_string());
        let mut say = |what: String| {
            let annotations = &metadata["annotations"];
            lines.push(format!(
                "{namespace}/{name}: {what}: {spec}, {annotations}, {said:?}"
            ));
        };
        let cells = spec["clusters"].as_array().map_or(&[][..], Vec::as_slice);
        let [cell] = cells else {
            say("not at one cell".to_owned());
            continue;
        };
        let cell = &cell["name"];
        if spec["gracefulEvictionTasks"]
            .as_array()
            .is_some_and(|tasks| !tasks.is_empty())
        {
            say("a move that does not end".to_owned());
        }
        let annotations = &metadata["annotations"];
        if !annotations[keys::CELL].is_null() && annotations[keys::CELL] != *cell {
            say("the copy names another cell".to_owned());
        }
        if !annotations[keys::MOVING_TO].is_null() {
            say("the copy moves still".to_owned());
        }
        if is_drained(cell) {
            say("at a drained cell".to_owned());
        }
        for instance in rig.hub.list("Instance") {
            let (of, labels) = (&instance["metadata"], &instance["metadata"]["labels"]);
            if of["namespace"] == namespace
                && labels[keys::WORKLOAD_DEPLOYMENT_NAME] == name
                && labels[keys::CELL] != *cell
            {
                say(format!("{} is written by {}", of["name"], labels[keys::CELL]));
            }
        }
    }
    lines
}

/// The last acts of each course: both cells become ready, and dfw-1 is opened.
const LAST: [Op; 3] = [
    Op::Ready("dfw-1", true),
    Op::Ready(SECOND, true),
    Op::Drain("dfw-1", false),
];

#[test]
fn random_courses_of_moves_end_at_one_cell() {
    let course = (
        any::<u64>(),
        prop::collection::vec((cell_op(), disturbance(), long_pause()), 4..24),
    );
    share(0, 1, "FEDGATE_PROVE_SEEDS", SEEDS, |seed| {
        seeded(seed, 300, &course, |(seed, moments): (u64, Vec<Moment>)| {
            simulate(async { play_at(two_cells(unhurried(seed)), &moments, &LAST, misplaced).await })
        });
    });
}

/// The hub loses its last versions, or a plane serves one or two kinds in an older state, while deployments move.
#[test]
fn setbacks_during_moves_leave_each_deployment_at_one_cell() {
    let setback = prop_oneof![backwards::stale(), backwards::lost(&[HUB])];
    let course = backwards::course(cell_op(), setback, long_pause());
    share(0, 1, "FEDGATE_PROVE_SEEDS", SEEDS, |seed| {
        seeded(seed, 30, &course, |(seed, moments)| {
            simulate(async {
                let rig = two_cells(unhurried(seed));
                backwards::play_at(rig, &moments, &LAST, misplaced).await
            })
        });
    });
}
