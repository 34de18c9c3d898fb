//! Views that lag, events that run together, deletions that nobody told of.

use crate::{
    end::wrong,
    invariants::Watchman,
    objects::{COMPUTE, template},
    ops::Op::{self, *},
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::{SETTLED, STEP},
};
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};

async fn sound(rig: &mut Rig) {
    rest(SETTLED).await;
    let violated = Watchman::default().violations(&rig.simulator.take_changes());
    assert_eq!(violated, Vec::<String>::new());
    assert_eq!(wrong(rig), Vec::<String>::new());
    rig.simulator.log().clear();
    rest(Duration::from_mins(5)).await;
    assert_eq!(rig.writes(), Vec::<String>::new());
}

/// After a restart some kinds, each of its plane, are served from before `meanwhile` for a while.
async fn restarted_on_a_stale_view(stale: &[(&str, &str)], meanwhile: &[Op]) {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    Config("p", "default", "settings", "one").apply(&mut rig);
    CreateWith("p", "default", "api", "DFW", "settings").apply(&mut rig);
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rest(STEP).await;
    let handles: Vec<_> = stale
        .iter()
        .map(|(plane, kind)| (rig.simulator.plane(plane).unwrap(), *kind))
        .collect();
    let old: Vec<u64> = handles.iter().map(|(plane, _)| plane.revision()).collect();
    for op in meanwhile {
        op.apply(&mut rig);
        rest(STEP).await;
    }
    rig.kill().await;
    for ((plane, kind), old) in handles.iter().zip(old) {
        plane.serve_stale(kind, old);
    }
    rig.start();
    rest(Duration::from_secs(40)).await;
    for (plane, kind) in handles {
        plane.serve_fresh(kind);
    }
    sound(&mut rig).await;
}

const KINDS: [(&str, &str); 9] = [
    ("p", "WorkloadDeployment"),
    ("p", "Instance"),
    ("p", "Namespace"),
    ("p", "ConfigMap"),
    (HUB, "WorkloadDeployment"),
    (HUB, "Instance"),
    (HUB, "Namespace"),
    (HUB, "PropagationPolicy"),
    (HUB, "ResourceBinding"),
];

fn after_each(meanwhile: &[Op]) {
    for (plane, kind) in KINDS {
        println!("{plane} {kind}");
        simulate(restarted_on_a_stale_view(&[(plane, kind)], meanwhile));
    }
}

#[test]
fn a_restart_that_sees_an_older_spec() {
    after_each(&[
        Scale("p", "default", "web", 2),
        Image("p", "default", "web", "shop/web:2"),
    ]);
}

#[test]
fn a_restart_that_sees_an_earlier_life_of_the_name() {
    after_each(&[
        Delete("p", "default", "web"),
        Create("p", "default", "web", "DFW", 1),
    ]);
}

#[test]
fn a_restart_that_sees_another_city() {
    after_each(&[Move("p", "default", "web", "LHR")]);
}

#[test]
fn a_restart_that_sees_two_kinds_as_they_were() {
    for (at, one) in KINDS.iter().enumerate() {
        let other = KINDS[(at + 4) % KINDS.len()];
        println!("{one:?} {other:?}");
        let meanwhile = [
            Scale("p", "default", "web", 2),
            Create("p", "default", "new", "LHR", 1),
            Delete("p", "default", "api"),
        ];
        simulate(restarted_on_a_stale_view(&[*one, other], &meanwhile));
    }
}

#[test]
fn a_restart_that_sees_what_is_gone() {
    after_each(&[Delete("p", "default", "web"), Mount("p", "default", "api", None)]);
}

/// What happens while no watch of a kind tells anything.
async fn unobserved(plane: &str, kind: &str, meanwhile: &[Op], forgotten: bool) {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rest(STEP).await;
    let handle = rig.simulator.plane(plane).unwrap();
    handle.pause_watches(kind);
    for op in meanwhile {
        op.apply(&mut rig);
        rest(Duration::from_millis(300)).await;
    }
    if forgotten {
        handle.compact();
        handle.close_watches(Some(kind));
    }
    handle.resume_watches(kind);
    sound(&mut rig).await;
}

fn in_each_way(meanwhile: &[Op]) {
    for (plane, kind) in KINDS {
        for forgotten in [false, true] {
            println!("{plane} {kind}, forgotten: {forgotten}");
            simulate(unobserved(plane, kind, meanwhile, forgotten));
        }
    }
}

#[test]
fn created_deleted_and_created_unobserved() {
    in_each_way(&[
        Delete("p", "default", "web"),
        Create("p", "default", "web", "DFW", 1),
        Create("p", "default", "api", "LHR", 1),
        Delete("p", "default", "api"),
        Create("p", "default", "api", "LHR", 1),
    ]);
}

#[test]
fn there_and_back_unobserved() {
    in_each_way(&[
        Scale("p", "default", "web", 2),
        Scale("p", "default", "web", 1),
        Move("p", "default", "web", "LHR"),
        Move("p", "default", "web", "DFW"),
        Report("web-0", false),
        Report("web-0", true),
    ]);
}

#[test]
fn deleted_unobserved() {
    in_each_way(&[Delete("p", "default", "web")]);
}

/// The answer, or each line of a watch, takes its time.
fn slowly(plane: &str, verb: Verb, resource: &str) -> Rule {
    let drips = Fault::SlowDrip {
        bytes: 16,
        every: Duration::from_millis(20),
    };
    let slow = Rule::new(When::Always, drips).plane(plane).user(GATEWAY);
    slow.verb(verb).kind(resource)
}

/// Whether the gateway has asked for this since the log was cleared.
fn asked(rig: &Rig, verb: Verb, resource: &str) -> bool {
    let entries = rig.simulator.log().entries();
    let mut own = entries.iter().filter(|e| &*e.user == GATEWAY);
    own.any(|e| e.verb == verb && &*e.resource == resource)
}

/// After a restart an object has to be read again for a write, and changes while the answer is on its way.
async fn overtaken(plane: &str, resource: &str, before: Op, meanwhile: &[Op]) {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rest(STEP).await;
    rig.kill().await;
    before.apply(&mut rig);
    rig.simulator.faults().add(slowly(plane, Verb::Get, resource));
    rig.simulator.log().clear();
    rig.start();
    rest(Duration::from_millis(100)).await;
    assert!(asked(&rig, Verb::Get, resource), "{resource} is read again");
    for op in meanwhile {
        op.apply(&mut rig);
        rest(Duration::from_millis(50)).await;
    }
    rig.simulator.faults().clear();
    sound(&mut rig).await;
}

#[test]
fn what_is_read_while_it_changes_is_not_written() {
    simulate(async {
        let scale = |n| Scale("p", "default", "web", n);
        overtaken("p", "workloaddeployments", scale(2), &[scale(3)]).await;
        overtaken("p", "workloaddeployments", scale(2), &[scale(3), scale(2)]).await;
        let report = |ready| Report("web-0", ready);
        overtaken(HUB, "instances", report(false), &[report(true)]).await;
        overtaken(HUB, "instances", report(false), &[report(true), report(false)]).await;
    });
}

#[test]
fn an_edit_that_overtakes_the_answer_to_a_write_is_not_taken_for_the_servers_own() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(STEP).await;
        rig.simulator
            .faults()
            .add(slowly(HUB, Verb::Patch, "workloaddeployments"));
        rig.simulator.log().clear();
        Scale("p", "default", "web", 2).apply(&mut rig);
        rest(Duration::from_millis(50)).await;
        assert!(asked(&rig, Verb::Patch, "workloaddeployments"));
        EditCopy("web").apply(&mut rig);
        rest(Duration::from_millis(50)).await;
        rig.simulator.faults().clear();
        sound(&mut rig).await;
    });
}

/// A Workload in these cities.
fn workload(cities: &[&str]) -> Value {
    json!({
        "apiVersion": COMPUTE, "kind": "Workload",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "placements": [{"name": "us", "cityCodes": cities, "scaleSettings": {"minReplicas": 1}}],
            "template": template(None),
        },
    })
}

/// After a restart Workloads are served from before an edit for a while. Nothing that the edit has added is taken away
/// meanwhile, and nothing that it has removed comes back.
async fn restarted_on_a_stale_workload(before: &[&str], after: &[&str]) {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    rig.projects["p"].create(workload(before)).unwrap();
    rest(SETTLED).await;
    let old = rig.projects["p"].revision();
    let edit = json!({"spec": {"placements": workload(after)["spec"]["placements"]}});
    rig.projects["p"]
        .merge("Workload", "default", "shop", edit)
        .unwrap();
    rest(SETTLED).await;
    rig.kill().await;
    rig.projects["p"].serve_stale("Workload", old);
    rig.simulator.log().clear();
    rig.start();
    rest(Duration::from_secs(40)).await;
    let changed: Vec<String> = rig.writes();
    assert!(
        !changed.iter().any(|line| line.contains("workloaddeployments")),
        "{before:?} -> {after:?}: {changed:#?}"
    );
    rig.projects["p"].serve_fresh("Workload");
    sound(&mut rig).await;
    assert_eq!(rig.projects["p"].list("WorkloadDeployment").len(), after.len());
}

#[test]
fn a_restart_that_sees_a_workload_before_its_cities_were_edited() {
    let cities: [(&[&str], &[&str]); 3] = [
        (&["DFW"], &["DFW", "LHR"]),
        (&["DFW", "LHR"], &["DFW"]),
        (&["DFW", "LHR"], &["DFW", "FRA"]),
    ];
    for (before, after) in cities {
        simulate(restarted_on_a_stale_workload(before, after));
    }
}

#[test]
fn events_that_come_twice_write_nothing_more() {
    let course = [
        Create("p", "default", "web", "DFW", 1),
        Scale("p", "default", "web", 2),
        Move("p", "default", "web", "LHR"),
        Workload("p", "default", "shop", &["DFW"]),
        DropWorkload("p", "default", "shop"),
        Delete("p", "default", "web"),
    ];
    let writes = |repeat: bool| {
        simulate(async {
            let mut rig = Rig::new(1, &["p"]);
            for plane in [HUB, "p"] {
                rig.simulator.plane(plane).unwrap().repeat_events(repeat);
            }
            rig.start();
            for op in &course {
                op.apply(&mut rig);
                rest(STEP).await;
            }
            let writes = rig.writes();
            sound(&mut rig).await;
            writes.len()
        })
    };
    assert_eq!(writes(true), writes(false));
}

#[test]
fn wall_clocks_that_jump_change_nothing_that_is_done() {
    for seconds in [-86_400, 86_400] {
        simulate(async {
            let mut rig = Rig::new(1, &["p"]);
            rig.start();
            Create("p", "default", "web", "DFW", 1).apply(&mut rig);
            rest(STEP).await;
            rig.simulator.log().clear();
            rig.off.fetch_add(seconds, Ordering::Relaxed);
            for plane in [HUB, "p"] {
                let plane = rig.simulator.plane(plane).unwrap();
                plane.jump(Duration::from_secs(3_600), seconds < 0);
            }
            rest(SETTLED).await;
            assert_eq!(rig.writes(), Vec::<String>::new(), "{seconds} s");
            Scale("p", "default", "web", 2).apply(&mut rig);
            rest(STEP).await;
            Delete("p", "default", "web").apply(&mut rig);
            sound(&mut rig).await;
        });
    }
}
