//! `machine.sh` in a folder that is the root of a machine.

use super::{
    answer::{Claim, MachineState},
    ssh::{Job, PROGRAM},
};
use serde_json::json;
use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

struct Machine {
    folder: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fedgate-machine-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let machine = Self { folder };
        machine.program("id", "echo 0");
        machine.program("kubeadm", "echo \"$*\" >>\"$FEDGATE_ROOT/calls\"");
        machine
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.folder.join("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The exit status of a command, and its answer.
    fn run(&self, line: &str, content: &str) -> (Option<i32>, MachineState) {
        let mut child = Command::new("sh")
            .args(["-c", PROGRAM])
            .env("FEDGATE_ROOT", &self.folder)
            .env("PATH", format!("{}/bin:/usr/bin:/bin", self.folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = format!("{line}\n{content}");
        // A command that is refused reads no content.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let state = MachineState::parse(&String::from_utf8_lossy(&output.stdout));
        (output.status.code(), state)
    }

    fn claim(&self, uid: &str) -> Option<Claim> {
        let claim = json!({"cell": format!("cell-{uid}"), "machine": "w1", "uid": uid}).to_string();
        self.run(&format!("claim {uid} w1"), &claim).1.claim
    }

    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.join("etc/fedgate"))
            .into_iter()
            .flatten();
        let mut files: Vec<String> = files
            .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        files
    }

    fn calls(&self) -> usize {
        let calls = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        calls.lines().filter(|call| call.starts_with("init")).count()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn of_two_cells_one_gets_the_machine() {
    let machine = Machine::new("claim");
    assert_eq!(
        machine.run("claim u-1 w1", "").1.claim,
        None,
        "a claim without content"
    );
    assert_eq!(machine.files(), [""; 0]);
    let first = machine.claim("u-1").unwrap();
    assert_eq!(
        (&*first.cell, &*first.machine, &*first.uid),
        ("cell-u-1", "w1", "u-1")
    );
    assert_eq!(machine.claim("u-2"), Some(first.clone()));
    assert_eq!(machine.run("look u-2 w1", "").1.claim, Some(first));
    assert_eq!(machine.files(), ["claim.json"]);
}

/// A command that was delayed may arrive when another Cell has the machine.
#[test]
fn a_command_without_the_claim_does_nothing() {
    let machine = Machine::new("without");
    let refused = |machine: &Machine| {
        for line in [
            "put {} init.yaml 1",
            "start {} init 1",
            "admin {}",
            "stop {}",
            "forget {}",
        ] {
            for whose in ["u-1 w1", "u-2 w2"] {
                assert_eq!(
                    machine.run(&line.replace("{}", whose), "x").0,
                    Some(78),
                    "{line} {whose}"
                );
            }
        }
    };
    refused(&machine);
    assert_eq!((machine.files(), machine.calls()), (vec![], 0));
    machine.claim("u-2").unwrap();
    refused(&machine);
    assert_eq!(
        (machine.files(), machine.calls()),
        (vec!["claim.json".to_owned()], 0)
    );
}

#[test]
fn a_file_whose_content_is_cut_off_is_not_written() {
    let machine = Machine::new("put");
    machine.claim("u-1").unwrap();
    assert_eq!(machine.run("put u-1 w1 init.yaml 10", "short").0, Some(74));
    assert_eq!(machine.run("put u-1 w1 ../x 5", "short").0, Some(64));
    assert_eq!(machine.files(), ["claim.json"]);
    assert_eq!(machine.run("put u-1 w1 init.yaml 5", "short").0, Some(0));
    let path = machine.folder.join("etc/fedgate/init.yaml");
    assert_eq!(fs::read_to_string(&path).unwrap(), "short");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_job_is_started_once_for_each_number() {
    let machine = Machine::new("job");
    machine.claim("u-1").unwrap();
    for (number, calls) in [(1, 1), (1, 1), (2, 2)] {
        let (status, state) = machine.run(&format!("start u-1 w1 init {number}"), "");
        assert_eq!(status, Some(0));
        assert!(state.is_done(Job::Init), "{state:?}");
        assert_eq!(machine.calls(), calls);
    }
    machine.program("kubeadm", "printf '%s\\n' 'a \\n line \\c of klog' >&2; exit 3");
    let (_, state) = machine.run("start u-1 w1 init 3", "");
    let said = state.job(Job::Init).unwrap().describe();
    assert_eq!(
        said,
        "job init-3 ended with exit status 3: a \\n line \\c of klog"
    );
}

#[test]
fn a_machine_is_left_without_our_files_and_with_those_of_others() {
    let machine = Machine::new("forget");
    machine.claim("u-1").unwrap();
    machine.run("put u-1 w1 join.yaml 1", "x");
    machine.run("start u-1 w1 init 1", "");
    for name in ["others.yaml", "join.yaml.new-7"] {
        fs::write(machine.folder.join("etc/fedgate").join(name), "").unwrap();
    }
    assert_eq!(machine.run("forget u-1 w1", "").0, Some(0));
    assert_eq!(machine.files(), ["others.yaml"]);
}
