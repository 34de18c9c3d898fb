//! Events of a suspension: what is paused, what goes on, and a pause that fails.

use crate::{
    end::wrong,
    ops::Op::*,
    rig::{HUB, Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::Value;
use std::time::Duration;

/// The Events of a suspension, as `<reason> <action> <type> <count>`.
fn events(rig: &Rig) -> Vec<String> {
    let all = rig.projects["p"].list("Event.events.k8s.io");
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let of_pause = |event: &&std::sync::Arc<Value>| {
        text(event, "reason").contains("Pause") || text(event, "reason").contains("Resume")
    };
    let mut lines: Vec<String> = all
        .iter()
        .filter(of_pause)
        .map(|event| {
            let count = event["series"]["count"].as_u64().unwrap_or(1);
            format!(
                "{} {} {} {count}",
                text(event, "reason"),
                text(event, "action"),
                text(event, "type")
            )
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn a_deployment_that_is_paused_and_goes_on_says_so_once() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(events(&rig), Vec::<String>::new());
        Suspend("p", "default", "web", true).apply(&mut rig);
        rest(SETTLED).await;
        let paused = "ProjectPaused Suspending Normal 1";
        assert_eq!(events(&rig), [paused]);
        Scale("p", "default", "web", 2).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(events(&rig), [paused]);
        Suspend("p", "default", "web", false).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(events(&rig), [paused, "ProjectResumed Resuming Normal 1"]);
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_pause_that_the_hub_refuses_is_said_once_and_tried_again() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(SETTLED).await;
        let rule = Rule::new(When::Always, Fault::Internal)
            .plane(HUB)
            .verb(Verb::Patch)
            .kind("workloaddeployments");
        let rule = rig.simulator.faults().add(rule);
        Suspend("p", "default", "web", true).apply(&mut rig);
        rest(Duration::from_mins(5)).await;
        let failed = "PauseFailed Suspending Warning 1";
        assert_eq!(events(&rig), [failed]);
        rig.simulator.faults().remove(rule);
        rest(SETTLED).await;
        assert_eq!(events(&rig), [failed, "ProjectPaused Suspending Normal 1"]);
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}
