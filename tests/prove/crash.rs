//! A crash at every request: before it is sent, and after it was applied without the answer being heard.
//!
//! Each course is run once without disturbance and its requests are counted; then once for each of them and both kinds of
//! crash. The gateway must have died exactly once, nothing may be violated on the way, the state in the end must be that of
//! the undisturbed run, and one more restart must write nothing. One course is run by a gateway that stands for election.
//! `FEDGATE_PROVE_STRIDE=1` crashes at every request.

use crate::{
    end::{left_over, unused},
    invariants::{Watchman, restless},
    rig::{GATEWAY, Rig, rest, simulate, stride},
    scenarios::{SCENARIOS, SETTLED, STEP, Scenario},
    state::{State, differences, state},
};
use fedgate_simulator::{Faults, Verb};
use std::time::Duration;

/// A process that died is there again after this time.
const RESTART: Duration = Duration::from_secs(1);

/// The gateway dies at every second request, unless the environment says otherwise.
const STRIDE: u64 = 2;

/// What a run ends in.
struct End {
    state: State,
    requests: u64,
    crashes: u64,
    wrong: Vec<String>,
}

/// How the gateways of a run may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// There is one of them.
    Sole,
    /// By a Lease.
    Elected,
}

/// Where a life ends: at its n-th request, before or after it is applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crash {
    pub(crate) at: u64,
    pub(crate) after: bool,
}

/// What is killed and started anew.
pub(crate) trait Mortal {
    fn faults(&self) -> Faults;
    async fn kill(&mut self);
    fn start(&mut self);
}

impl Mortal for Rig {
    fn faults(&self) -> Faults {
        self.simulator.faults()
    }

    async fn kill(&mut self) {
        Rig::kill(self).await;
    }

    fn start(&mut self) {
        Rig::start(self);
    }
}

async fn run(scenario: &Scenario, right: Right, crash: Option<Crash>) -> End {
    // Up to the crash all of a course's runs are alike.
    let mut rig = Rig::unhurried(1, &["p", "q"]);
    rig.elected = right == Right::Elected;
    if let Some(Crash { at, after }) = crash {
        rig.simulator.faults().stop_at(GATEWAY, at, after);
    }
    rig.start();
    let mut crashes = 0;
    for step in scenario.steps {
        for op in *step {
            op.apply(&mut rig);
        }
        crashes += until_or_crash(&mut rig, STEP).await;
    }
    crashes += until_or_crash(&mut rig, SETTLED).await;
    let entries = rig.simulator.log().entries();
    let asked = entries
        .iter()
        .filter(|e| &*e.user == GATEWAY && e.verb != Verb::Watch);
    // A leader at rest does nothing but renew its Lease, once in a while and for ever.
    let last = entries
        .iter()
        .rposition(|e| &*e.resource != "leases" && e.verb != Verb::Watch);
    let last = last.map(|at| entries[at].n).unwrap_or_default();
    let requests = asked.filter(|e| e.n <= last).count() as u64;
    rig.simulator.log().clear();
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    let mut wrong = restless(&rig.simulator.log().entries());
    wrong.extend(Watchman::default().violations(&rig.simulator.take_changes()));
    wrong.extend(left_over(&rig));
    wrong.extend(unused(&rig));
    End {
        state: state(&rig),
        requests,
        crashes,
        wrong,
    }
}

/// Lets time pass; what stops within it is killed and started anew. Says how often that was so.
pub(crate) async fn until_or_crash(rig: &mut impl Mortal, time: Duration) -> u64 {
    let end = tokio::time::Instant::now() + time;
    let faults = rig.faults();
    tokio::select! {
        biased;
        () = faults.stopped() => {
            rig.kill().await;
            faults.clear();
            rest(RESTART).await;
            rig.start();
            tokio::time::sleep_until(end).await;
            1
        }
        () = tokio::time::sleep_until(end) => 0,
    }
}

/// Crashes at every `stride`-th of so many requests, before and after each; `run` says what is wrong in the end.
pub(crate) fn at_requests(name: &str, requests: u64, stride: u64, run: impl Fn(Crash) -> Vec<String>) {
    let mut wrong = Vec::new();
    let mut runs = 0;
    for at in (1..=requests).step_by(usize::try_from(stride).unwrap()) {
        for after in [false, true] {
            let crash = Crash { at, after };
            let lines = run(crash);
            runs += 1;
            if !lines.is_empty() {
                wrong.push(format!("{crash:?}:\n{}", lines.join("\n")));
            }
        }
    }
    println!("{name}: {requests} requests, {runs} crashes");
    assert!(
        wrong.is_empty(),
        "{name}, {} of {runs} crashes:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn every_request_with(name: &str, right: Right) {
    let scenario = SCENARIOS.iter().find(|s| s.name == name).unwrap();
    let calm = simulate(run(scenario, right, None));
    assert!(calm.requests > 0, "{name}: nothing was asked for");
    assert_eq!(calm.wrong, Vec::<String>::new(), "{name}, undisturbed");
    let stride = stride("FEDGATE_PROVE_STRIDE", STRIDE);
    at_requests(name, calm.requests, stride, |crash| {
        let end = simulate(run(scenario, right, Some(crash)));
        let mut lines = differences(&calm.state, &end.state);
        lines.extend(end.wrong);
        if end.crashes != 1 {
            lines.push(format!("the gateway died {} times", end.crashes));
        }
        lines
    });
}

fn every_request(name: &str) {
    every_request_with(name, Right::Sole);
}

#[test]
fn a_leader_at_every_request() {
    every_request_with("city_move", Right::Elected);
}

/// A test of each entry of the list, and one that none has been left out.
macro_rules! every_request_of {
    ($all:ident, $whole:ident: $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            every_request(stringify!($name));
        })*

        #[test]
        fn $whole() {
            let tested = [$(stringify!($name)),*];
            let there: Vec<&str> = $all.iter().map(|s| s.name).collect();
            assert_eq!(tested.to_vec(), there);
        }
    };
}
pub(crate) use every_request_of;

every_request_of!(
    SCENARIOS,
    each_scenario_has_its_test:
    create,
    first_of_namespace,
    first_of_city,
    spec_change,
    status_return,
    projection,
    scale_down,
    city_move,
    drain,
    location_label,
    change_of_form,
    companion,
    deletion,
    deletion_with_companion,
    namespace_gone,
    project_gone,
    suspension,
    secret,
    shared_companion,
    workload,
    workload_deletion,
);
