//! Processes of the sandbox from outside.

use super::suite::Suite;
use serde_json::Value;
use std::{path::Path, process::Stdio};
use tokio::process::{Child, Command};

/// The hub's controllers: Karmada's controller manager, or the stand-in.
const HUB_CONTROLLERS: [&str; 2] = ["karmada-controller-manager", "hub stand-in"];

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

/// The hub's controllers as a process of the test's own, so that it can be killed and started again.
pub(crate) struct Controllers {
    program: Vec<String>,
    child: Option<Child>,
}

impl Controllers {
    /// Kills the sandbox's; [`Self::start`] starts the same program in its place.
    async fn take(suite: &Suite) -> Self {
        let pid = HUB_CONTROLLERS.iter().find_map(|name| pid(&suite.dir, name));
        let pid = pid.expect("the sandbox has the hub's controllers");
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("read its command line");
        let program: Vec<String> = line.split_terminator('\0').map(str::to_owned).collect();
        let killed = Command::new("kill").args(["-9", &pid]).status().await;
        assert!(killed.is_ok_and(|status| status.success()), "kill process {pid}");
        Self { program, child: None }
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
        let mut command = Command::new(&self.program[0]);
        command
            .args(&self.program[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(
            command
                .kill_on_drop(true)
                .spawn()
                .expect("start the hub's controllers"),
        );
    }

    /// Starts them unless they run, after a test that failed half-way.
    pub(crate) fn ensure(&mut self) {
        let runs = self
            .child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        if !runs {
            self.start();
        }
    }

    /// Kills them, without time to finish anything.
    pub(crate) async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.expect("kill the hub's controllers");
        }
    }
}
