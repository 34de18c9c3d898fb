//! A crash at every request: before it is sent, and after it was applied without the answer being heard.
//!
//! Each course is run once without disturbance and its requests are counted; then once for each of them and both kinds of
//! crash. The state in the end must be that of the undisturbed run, and one more restart must write nothing.

use crate::{
    rig::{GATEWAY, Rig, rest, simulate},
    scenarios::{SCENARIOS, SETTLED, STEP, Scenario},
    state::{State, differences, state},
};
use fedgate_simulator::Verb;
use std::time::Duration;

/// A process that died is there again after this time.
const RESTART: Duration = Duration::from_secs(1);

/// What a run ends in.
struct End {
    state: State,
    requests: u64,
}

/// Where a gateway's life ends: at its n-th request, before or after it is applied.
#[derive(Debug, Clone, Copy)]
struct Crash {
    at: u64,
    after: bool,
}

async fn run(scenario: &Scenario, crash: Option<Crash>) -> End {
    let mut rig = Rig::new(1, &["p", "q"]);
    if let Some(Crash { at, after }) = crash {
        rig.simulator.faults().stop_at(GATEWAY, at, after);
    }
    rig.start();
    for step in scenario.steps {
        for op in *step {
            op.apply(&mut rig);
        }
        until_or_crash(&mut rig, STEP).await;
    }
    until_or_crash(&mut rig, SETTLED).await;
    let entries = rig.simulator.log().entries();
    let requests = entries
        .iter()
        .filter(|e| &*e.user == GATEWAY && e.verb != Verb::Watch)
        .count() as u64;
    rig.simulator.log().clear();
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    assert_eq!(
        rig.writes(),
        Vec::<String>::new(),
        "{} {crash:?}: a restart writes",
        scenario.name
    );
    End {
        state: state(&rig),
        requests,
    }
}

/// Lets time pass; a gateway that stops within it is killed and started anew.
async fn until_or_crash(rig: &mut Rig, time: Duration) {
    let end = tokio::time::Instant::now() + time;
    let faults = rig.simulator.faults();
    tokio::select! {
        biased;
        () = faults.stopped() => {
            rig.kill().await;
            faults.clear();
            rest(RESTART).await;
            rig.start();
            tokio::time::sleep_until(end).await;
        }
        () = tokio::time::sleep_until(end) => {}
    }
}

fn every_request(name: &str) {
    let scenario = SCENARIOS.iter().find(|s| s.name == name).unwrap();
    let calm = simulate(run(scenario, None));
    assert!(calm.requests > 0, "{name}: nothing was asked for");
    let mut wrong = Vec::new();
    let mut runs = 0;
    for at in 1..=calm.requests {
        for after in [false, true] {
            let crash = Crash { at, after };
            let end = simulate(run(scenario, Some(crash)));
            runs += 1;
            let lines = differences(&calm.state, &end.state);
            if !lines.is_empty() {
                wrong.push(format!("{crash:?}:\n{}", lines.join("\n")));
            }
        }
    }
    println!("{name}: {} requests, {runs} crashes", calm.requests);
    assert!(
        wrong.is_empty(),
        "{name}, {} of {runs} crashes:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

macro_rules! every_request_of {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            every_request(stringify!($name));
        })*

        #[test]
        fn each_scenario_has_its_test() {
            let tested = [$(stringify!($name)),*];
            let there: Vec<&str> = SCENARIOS.iter().map(|s| s.name).collect();
            assert_eq!(tested.to_vec(), there);
        }
    };
}

every_request_of!(
    create,
    first_of_namespace,
    first_of_city,
    spec_change,
    status_return,
    projection,
    scale_down,
    city_move,
    companion,
    deletion,
    deletion_with_companion,
    namespace_gone,
    project_gone,
    suspension,
);
