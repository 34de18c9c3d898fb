//! Writes that were acknowledged and are lost: an etcd that fails over, or is restored, without the last of what it had said
//! yes to. Its versions go back and are given again.

use crate::{
    end::{left_over, unused, wrong},
    invariants::restless,
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::{SCENARIOS, SETTLED, STEP, Scenario},
};
use fedgate_simulator::{Down, Fault, Rule, Verb, When};
use serde_json::json;
use std::time::Duration;

/// How long an answer or an event takes.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(10);

/// So long the API server is away meanwhile.
const FAIL_OVER: Duration = Duration::from_secs(5);

/// The plane comes back after a while with what it had at a revision.
async fn fails_over(rig: &Rig, plane: &str, revision: u64) {
    let plane = rig.simulator.plane(plane).unwrap();
    plane.set_down(Some(Down::Refused));
    plane.restore(revision);
    rest(FAIL_OVER).await;
    plane.set_down(None);
}

/// Plays a course; whatever came of one of its steps is lost on a plane. Says what is wrong in the end.
async fn run(scenario: &Scenario, plane: &str, lost: usize) -> Vec<String> {
    let mut rig = Rig::new(1, &["p", "q"]);
    rig.simulator.latency(Some(SHORTEST..=LONGEST));
    rig.start();
    for (n, step) in scenario.steps.iter().enumerate() {
        let before = rig.simulator.plane(plane).unwrap().revision();
        for op in *step {
            op.apply(&mut rig);
        }
        rest(STEP).await;
        if n == lost {
            fails_over(&rig, plane, before).await;
        }
    }
    rest(SETTLED).await;
    let mut lines = wrong(&rig);
    rig.simulator.log().clear();
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    lines.extend(restless(&rig.simulator.log().entries()));
    lines.extend(left_over(&rig));
    lines.extend(unused(&rig));
    lines
}

#[test]
fn what_came_of_each_step_on_the_hub_may_be_lost() {
    let mut lines = Vec::new();
    for scenario in &SCENARIOS {
        for step in 0..scenario.steps.len() {
            let wrong = simulate(run(scenario, HUB, step)).into_iter();
            lines.extend(wrong.map(|line| format!("{}, step {step}: {line}", scenario.name)));
        }
    }
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// The versions of what was lost are given again to something else before the gateway looks, so that no version tells of the
/// loss. Nothing is taken away for that, and a restart, which lists anew, puts it right.
async fn versions_are_given_again(plane: &str) {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rest(SETTLED).await;
    let handle = rig.simulator.plane(plane).unwrap();
    let then = handle.revision();
    Scale("p", "default", "web", 2).apply(&mut rig);
    Create("p", "default", "new", "LHR", 1).apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    let lost = handle.revision();
    let away = Rule::new(When::Always, Fault::DropBefore)
        .plane(plane)
        .user(GATEWAY);
    let away = rig.simulator.faults().add(away);
    rig.simulator.log().clear();
    handle.restore(then);
    let mut n = 0;
    while handle.revision() <= lost {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": format!("other-{n}")}});
        handle.create(object).unwrap();
        n += 1;
    }
    rest(Duration::from_secs(30)).await;
    rig.simulator.faults().remove(away);
    rest(SETTLED).await;
    let entries = rig.simulator.log().entries();
    let deleted: Vec<String> = entries
        .iter()
        .filter(|e| &*e.user == GATEWAY && e.verb == Verb::Delete && e.changed)
        .map(ToString::to_string)
        .collect();
    assert_eq!(deleted, Vec::<String>::new(), "{plane}");
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new(), "{plane}");
    assert_eq!(unused(&rig), Vec::<String>::new(), "{plane}");
}

#[test]
fn versions_that_are_given_again_unseen_take_nothing_away_and_are_put_right_by_a_restart() {
    simulate(versions_are_given_again(HUB));
    simulate(versions_are_given_again("p"));
}
