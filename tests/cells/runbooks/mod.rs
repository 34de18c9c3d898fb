//! 62 of operations.md: every command in `Check` of a runbook runs, in the state that the alert is for where a sandbox can be
//! brought into it.

mod desk;
mod planted;
mod shows;

use crate::support::{Case, lone_trials, with_cleanup};
use desk::Desk;
use regex::Regex;
use shows::{ALERTS, State};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

lone_trials![each_check_of_a_runbook_runs_in_the_state_of_its_alert];

/// The commands in `Check` of each runbook, by the alert.
fn checks() -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
    let files = std::fs::read_dir(folder).expect("there are runbooks");
    let span = Regex::new("`((?:fedgate|kubectl|examples/)[^`]*)`").expect("an expression");
    let read = |path: std::path::PathBuf| {
        let alert = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("read a runbook");
        let (_, steps) = text.split_once("## Check").expect("a heading");
        let (steps, _) = steps.split_once("## Act").expect("a heading");
        let words = |command: &str| command.split_whitespace().collect::<Vec<_>>().join(" ");
        let commands = span.captures_iter(steps).map(|found| words(&found[1]));
        (alert, commands.filter(|command| command.contains(' ')).collect())
    };
    files.map(|file| read(file.expect("a file").path())).collect()
}

/// Each alert's state is entered once, and all its commands are run there.
async fn each_check_of_a_runbook_runs_in_the_state_of_its_alert(case: Case) {
    let checks = checks();
    let named: BTreeSet<&str> = ALERTS.iter().map(|(alert, _)| *alert).collect();
    let written: BTreeSet<&str> = checks.keys().map(String::as_str).collect();
    assert_eq!(named, written, "alerts of this test (left) and runbooks (right)");

    let desk = Desk::open(&case).await;
    let run = async {
        let mut faults = Vec::new();
        for state in State::ALL {
            let commands: BTreeSet<&String> = ALERTS
                .iter()
                .filter(|(_, of)| of == state)
                .flat_map(|(alert, _)| &checks[*alert])
                .collect();
            desk.enter(*state).await;
            for command in commands {
                faults.extend(desk.fault(*state, command).await);
            }
            desk.leave(*state).await;
        }
        assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    };
    with_cleanup(run, desk.close()).await;
}
