//! 62 of operations.md: every command in `Check` of a runbook runs, in the state that the alert is for where a sandbox can be
//! brought into it.

mod checks;
mod desk;
mod load;
mod memory;
mod planted;
mod run;
mod shows;
mod slow;
mod usage;

use crate::support::{Case, lone_trials, text, with_cleanup};
use checks::checks;
use desk::Desk;
use futures::FutureExt;
use shows::{ALERTS, State};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
};

lone_trials![
    each_check_of_a_runbook_runs_in_the_state_of_its_alert,
    each_check_for_load_runs_under_load,
];

async fn each_check_of_a_runbook_runs_in_the_state_of_its_alert(case: Case) {
    let checks = checks();
    let named: BTreeSet<&str> = ALERTS.iter().map(|(alert, _)| *alert).collect();
    let written: BTreeSet<&str> = checks.keys().map(String::as_str).collect();
    assert_eq!(named, written, "alerts of this test (left) and runbooks (right)");
    run(&case, State::ALL, &checks).await;
}

async fn each_check_for_load_runs_under_load(case: Case) {
    run(&case, State::LOADED, &checks()).await;
}

/// Enters each state once, and runs all commands of its alerts there.
async fn run(case: &Case, states: &[State], checks: &BTreeMap<String, Vec<String>>) {
    let desk = Desk::open(case).await;
    let run = async {
        let mut faults = Vec::new();
        for state in states {
            let commands: BTreeSet<&String> = ALERTS
                .iter()
                .filter(|(_, of)| of == state)
                .flat_map(|(alert, _)| &checks[*alert])
                .collect();
            let shown = async {
                desk.enter(*state).await;
                for command in commands {
                    faults.extend(desk.fault(*state, command).await);
                }
                desk.leave(*state).await;
            };
            // A state that cannot be entered hides no other one.
            if let Err(panic) = AssertUnwindSafe(shown).catch_unwind().await {
                faults.push(format!("{state:?}: {}", text(&*panic)));
                desk.leave(*state).await;
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    };
    with_cleanup(run, desk.close()).await;
}
