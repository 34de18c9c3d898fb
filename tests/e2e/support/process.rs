//! Processes of the sandbox from outside.

use super::suite::Suite;
use serde_json::Value;
use std::{path::Path, process::Stdio};
use tokio::process::{Child, Command};

/// The hub's controllers: Karmada's controller manager and scheduler, or the stand-in.
const HUB_CONTROLLERS: [&str; 3] = ["karmada-controller-manager", "karmada-scheduler", "hub stand-in"];

/// Process id of a process of the sandbox in this folder: the only child of its holder.
pub(crate) fn pid(dir: &Path, name: &str) -> Option<String> {
    let file = dir.join("sandbox/state.json");
    let text = std::fs::read_to_string(&file).expect("read the sandbox's state");
    let state: Value = serde_json::from_str(&text).expect("the sandbox's state is JSON");
    let processes = state["processes"].as_array().expect("it lists processes");
    let process = processes.iter().find(|process| process["name"] == name);
    let holder = process.and_then(|process| process["pid"].as_u64())?;
    let children = std::fs::read_to_string(format!("/proc/{holder}/task/{holder}/children"));
    let children = children.unwrap_or_else(|error| panic!("{name} has ended: {error}"));
    let child = children.split_whitespace().next();
    Some(child.unwrap_or_else(|| panic!("{name} has ended")).to_owned())
}

/// The hub's controllers as processes of the test's own, so that they can be killed and started again.
pub(crate) struct Controllers {
    programs: Vec<Vec<String>>,
    children: Vec<Child>,
}

impl Controllers {
    /// Kills the sandbox's; [`Self::start`] starts the same programs in their place.
    async fn take(suite: &Suite) -> Self {
        let mut programs = Vec::new();
        for pid in HUB_CONTROLLERS.iter().filter_map(|name| pid(&suite.dir, name)) {
            let line =
                std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("read its command line");
            programs.push(line.split_terminator('\0').map(str::to_owned).collect());
            let killed = Command::new("kill").args(["-9", &pid]).status().await;
            assert!(killed.is_ok_and(|status| status.success()), "kill process {pid}");
        }
        assert!(!programs.is_empty(), "the sandbox has the hub's controllers");
        Self {
            programs,
            children: Vec::new(),
        }
    }

    /// The ones that a test has taken over before, or takes now; they run or not.
    pub(crate) async fn taken<'a>(suite: &Suite, held: &'a mut Option<Self>) -> &'a mut Self {
        if held.is_none() {
            *held = Some(Self::take(suite).await);
        }
        held.as_mut().expect("they were taken over")
    }

    /// Starts them; they end with the test's process.
    pub(crate) fn start(&mut self) {
        let started = self.programs.iter().map(|program| {
            let mut command = Command::new(&program[0]);
            command
                .args(&program[1..])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true);
            command.spawn().expect("start the hub's controllers")
        });
        self.children = started.collect();
    }

    /// Starts them unless they run, after a test that failed half-way.
    pub(crate) fn ensure(&mut self) {
        let mut children = self.children.iter_mut();
        let run = children.all(|child| matches!(child.try_wait(), Ok(None)));
        if self.children.is_empty() || !run {
            self.start();
        }
    }

    /// Kills them, without time to finish anything.
    pub(crate) async fn kill(&mut self) {
        for mut child in self.children.drain(..) {
            child.kill().await.expect("kill the hub's controllers");
        }
    }
}
