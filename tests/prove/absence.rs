//! Absence in a view that is not live proves nothing: a gateway that cannot see what is there keeps what came of it.

use crate::{
    end::wrong,
    operations::operations,
    ops::Op::{self, *},
    rig::{HUB, Rig, rest, simulate, user},
    scenarios::SETTLED,
};
use fedgate_operations::{Class, OperationsSource, query::Query};
use fedgate_simulator::{Down, Fault, Rule, Verb, When};
use std::time::Duration;

/// What is deleted at a plane while nobody asked for it, a line each.
fn deleted(rig: &Rig, plane: &str) -> Vec<String> {
    let entries = rig.simulator.log().entries();
    let deletes = entries
        .iter()
        .filter(|e| &*e.plane == plane && e.verb == Verb::Delete && e.changed);
    deletes.map(ToString::to_string).collect()
}

/// A standby that knows the project `p`, and a leader.
async fn led() -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.elected = true;
    rig.start_as(0);
    rest(Duration::from_secs(20)).await;
    rig.start_as(1);
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig
}

const NEW: [&str; 5] = ["one", "two", "three", "four", "five"];

/// The standby loses its way to `plane`, then the leader carries this, and 90 s later hands over.
async fn led_by_one_that_is_cut_off(plane: &str, meanwhile: &[Op]) {
    let mut rig = led().await;
    let rule = Rule::new(When::Always, Fault::DropBefore)
        .plane(plane)
        .user(&user(1));
    let rule = rig.simulator.faults().add(rule);
    rig.simulator.plane(plane).unwrap().close_watches(None);
    rest(Duration::from_secs(1)).await;
    for op in meanwhile {
        op.apply(&mut rig);
    }
    rest(Duration::from_secs(90)).await;
    rig.simulator.log().clear();
    rig.stop_replica(0).await;
    rest(Duration::from_mins(4)).await;
    assert_eq!(deleted(&rig, HUB), Vec::<String>::new());
    assert_eq!(deleted(&rig, "p"), Vec::<String>::new());
    rig.simulator.faults().remove(rule);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    assert_eq!(deleted(&rig, HUB), Vec::<String>::new());
}

#[test]
fn a_new_leader_that_is_cut_off_from_a_project_keeps_what_it_does_not_see() {
    simulate(async {
        let new = NEW.map(|name| Create("p", "default", name, "DFW", 1));
        led_by_one_that_is_cut_off("p", &new).await;
    });
}

#[test]
fn a_new_leader_that_is_cut_off_from_a_project_takes_no_earlier_life_for_the_present_one() {
    simulate(async {
        let again = [
            Delete("p", "default", "web"),
            Create("p", "default", "web", "DFW", 1),
        ];
        let mut rig = led().await;
        let rule = Rule::new(When::Always, Fault::DropBefore)
            .plane("p")
            .user(&user(1));
        let rule = rig.simulator.faults().add(rule);
        rig.simulator.plane("p").unwrap().close_watches(None);
        for op in again {
            op.apply(&mut rig);
            rest(Duration::from_secs(30)).await;
        }
        rig.simulator.log().clear();
        rig.stop_replica(0).await;
        rest(Duration::from_mins(2)).await;
        assert_eq!(deleted(&rig, HUB), Vec::<String>::new());
        rig.simulator.faults().remove(rule);
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

/// A gateway with some deployments that have settled.
async fn settled(names: &[&'static str]) -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    for name in names {
        Create("p", "default", name, "DFW", 1).apply(&mut rig);
    }
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig
}

#[test]
fn a_live_list_that_goes_backwards_takes_nothing_away() {
    for (plane, kind, plural) in [
        ("p", "WorkloadDeployment", "workloaddeployments"),
        ("p", "Namespace", "namespaces"),
        (HUB, "WorkloadDeployment", "workloaddeployments"),
        (HUB, "Instance", "instances"),
    ] {
        simulate(async {
            let mut rig = settled(&["web"]).await;
            let handle = rig.simulator.plane(plane).unwrap();
            let old = handle.revision();
            Namespace("p", "shop").apply(&mut rig);
            Create("p", "default", "new", "DFW", 1).apply(&mut rig);
            Create("p", "shop", "web", "LHR", 1).apply(&mut rig);
            rest(SETTLED).await;
            assert_eq!(wrong(&rig), Vec::<String>::new());
            rig.simulator.log().clear();
            handle.serve_stale(kind, old);
            let gone = Rule::new(When::Nth(1), Fault::Gone);
            let gone = gone.plane(plane).verb(Verb::Watch).kind(plural);
            rig.simulator.faults().add(gone);
            handle.close_watches(Some(kind));
            rest(Duration::from_mins(3)).await;
            let lost = |lines: Vec<String>| -> Vec<String> {
                let kept =
                    |line: &String| line.contains("workloaddeployments") || line.contains(" namespaces ");
                lines.into_iter().filter(kept).collect()
            };
            assert_eq!(lost(deleted(&rig, HUB)), Vec::<String>::new(), "{plane} {kind}");
            assert_eq!(deleted(&rig, "p"), Vec::<String>::new(), "{plane} {kind}");
            handle.serve_fresh(kind);
            rest(SETTLED).await;
            assert_eq!(wrong(&rig), Vec::<String>::new(), "{plane} {kind}");
        });
    }
}

/// The plane's API server stops, and starts again with what its etcd had at a revision.
async fn restore(rig: &Rig, plane: &str, revision: u64) {
    let plane = rig.simulator.plane(plane).unwrap();
    plane.set_down(Some(Down::Refused));
    rest(Duration::from_secs(5)).await;
    plane.restore(revision);
    plane.set_down(None);
}

fn rewinds(rig: &Rig, plane: &str) -> bool {
    let line = format!("fedgate_plane_rewinds_total{{plane=\"{plane}\"}} 1");
    rig.metrics().contains(&line)
}

#[test]
fn a_project_that_is_restored_to_an_older_state_is_followed() {
    simulate(async {
        let mut rig = settled(&["web", "api"]).await;
        let plane = rig.simulator.plane("p").unwrap();
        let then = plane.revision();
        for n in 2..6 {
            Scale("p", "default", "web", n).apply(&mut rig);
            rest(Duration::from_secs(10)).await;
        }
        Create("p", "default", "new", "DFW", 1).apply(&mut rig);
        Delete("p", "default", "api").apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        restore(&rig, "p", then).await;
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert!(rewinds(&rig, "project"), "{}", rig.metrics());
        Scale("p", "default", "web", 2).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

/// Nothing says so: no version is lower than one that was seen, but those of the objects.
#[test]
fn a_plane_that_is_restored_with_its_versions_bumped_is_read_as_it_is() {
    for restored in ["p", HUB] {
        simulate(async {
            let mut rig = settled(&["web", "api", "old"]).await;
            let plane = rig.simulator.plane(restored).unwrap();
            let then = plane.revision();
            Scale("p", "default", "web", 2).apply(&mut rig);
            Create("p", "default", "new", "LHR", 1).apply(&mut rig);
            Delete("p", "default", "api").apply(&mut rig);
            Delete("p", "default", "old").apply(&mut rig);
            rest(SETTLED).await;
            Create("p", "default", "old", "LHR", 1).apply(&mut rig);
            rest(SETTLED).await;
            assert_eq!(wrong(&rig), Vec::<String>::new());
            plane.set_down(Some(Down::Refused));
            rest(Duration::from_secs(5)).await;
            plane.restore_bumped(then);
            plane.set_down(None);
            rest(SETTLED).await;
            assert_eq!(wrong(&rig), Vec::<String>::new(), "{restored}");
            Scale("p", "default", "web", 3).apply(&mut rig);
            rest(SETTLED).await;
            assert_eq!(wrong(&rig), Vec::<String>::new(), "{restored}");
        });
    }
}

#[test]
fn a_project_that_was_restored_while_the_gateway_was_down_is_followed() {
    simulate(async {
        let mut rig = settled(&["web"]).await;
        let plane = rig.simulator.plane("p").unwrap();
        let then = plane.revision();
        for n in 2..6 {
            Scale("p", "default", "web", n).apply(&mut rig);
            rest(Duration::from_secs(10)).await;
        }
        rest(SETTLED).await;
        rig.kill().await;
        plane.restore(then);
        rig.start();
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert!(
            rig.projects["p"]
                .list("Event.events.k8s.io")
                .iter()
                .any(|e| e["reason"] == "GenerationRewound"),
            "it is said"
        );
    });
}

#[test]
fn a_hub_that_is_restored_to_an_older_state_is_brought_up_to_date() {
    simulate(async {
        let mut rig = settled(&["web", "api"]).await;
        let then = rig.hub.revision();
        Scale("p", "default", "web", 2).apply(&mut rig);
        Create("p", "default", "new", "LHR", 1).apply(&mut rig);
        Delete("p", "default", "api").apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        restore(&rig, HUB, then).await;
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
        assert!(rewinds(&rig, "hub"), "{}", rig.metrics());
    });
}

const MANY: [&str; 14] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
];

/// Deployments with so many Instances each, and the revision of their hub when it had nothing of them.
pub(crate) async fn filled(names: &[&'static str], each: u32, retention: Duration) -> (Rig, u64) {
    let mut rig = Rig::new(1, &["p"]);
    rig.settings.projection_retention = retention;
    let empty = rig.hub.revision();
    rig.hub.keep_history(100_000);
    rig.start();
    for name in names {
        Create("p", "default", name, "DFW", each).apply(&mut rig);
    }
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    (rig, empty)
}

/// The hub is made anew while the gateway runs, or while it is down.
pub(crate) async fn make_anew(rig: &mut Rig, empty: u64, running: bool) {
    if running {
        restore(rig, HUB, empty).await;
    } else {
        rig.kill().await;
        rig.hub.restore(empty);
        rig.start();
    }
    rest(SETTLED).await;
}

/// A hub that is made anew takes no projection away.
async fn recreated(running: bool) {
    let (mut rig, empty) = filled(&MANY, 1, Duration::from_hours(1)).await;
    rig.cells_rest();
    rig.simulator.log().clear();
    make_anew(&mut rig, empty, running).await;
    assert_eq!(rig.hub.count("WorkloadDeployment"), MANY.len(), "made again");
    assert_eq!(deleted(&rig, "p"), Vec::<String>::new());
    assert_eq!(rig.projects["p"].count("Instance"), MANY.len());
    if running {
        assert!(
            rig.metrics().contains("fedgate_garbage_brake 1"),
            "{}",
            rig.metrics()
        );
        let stuck = operations(&rig).stuck(&Query::default());
        let brakes: Vec<_> = stuck
            .items
            .iter()
            .filter(|group| group.class == Class::Brake)
            .map(|group| group.word.as_str())
            .collect();
        assert_eq!(brakes, ["projections"], "{:#?}", stuck.items);
    }
    rig.cells_act();
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    assert_eq!(deleted(&rig, "p"), Vec::<String>::new());
    assert!(
        rig.metrics().contains("fedgate_garbage_brake 0"),
        "{}",
        rig.metrics()
    );
}

#[test]
fn a_hub_that_is_made_anew_takes_no_projection_away() {
    simulate(recreated(true));
    simulate(recreated(false));
}

#[test]
fn projections_of_a_hub_that_stays_silent_go_after_their_retention() {
    simulate(async {
        let (rig, empty) = filled(&MANY, 1, Duration::from_mins(10)).await;
        rig.cells_rest();
        restore(&rig, HUB, empty).await;
        rest(Duration::from_mins(9)).await;
        assert_eq!(rig.projects["p"].count("Instance"), MANY.len());
        rest(Duration::from_mins(3)).await;
        assert_eq!(rig.projects["p"].count("Instance"), 0);
        assert!(
            rig.metrics().contains("fedgate_garbage_brake 0"),
            "{}",
            rig.metrics()
        );
    });
}
