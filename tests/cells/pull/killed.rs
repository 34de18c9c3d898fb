//! A join and a leave in pieces: each run is killed in the middle of its second change, and the next goes on.

use super::{
    DRAIN, JOIN,
    agent::{is_karmada, stopped},
    is_gone, may_do_no_more, operator,
};
use crate::{
    membership::fedgate,
    support::{
        Case,
        kinds::CLUSTER,
        lone_trials,
        suite::{NEW, NewCell},
        with_cleanup,
    },
};
use std::{path::Path, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

lone_trials![m05_a_join_and_a_leave_are_killed_at_each_change];

/// As many changes as no command makes.
const TOO_MANY: usize = 200;

async fn m05_a_join_and_a_leave_are_killed_at_each_change(case: Case) {
    let new = case.suite.new_cell().await;
    with_cleanup(in_pieces(&case, &new), new.role.stop()).await;
}

/// True if the line says a change that is sent next.
fn is_change(line: &str) -> bool {
    let said = line.split_once(": ").map_or("", |(_, said)| said);
    ["create ", "apply ", "patch ", "delete "]
        .iter()
        .any(|verb| said.starts_with(verb))
}

/// Runs a command until it says its second change, and kills it; the first was answered then. True if it ended before.
async fn one_piece(words: &[&str], files: &[(&str, &Path)]) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
    command
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for (flag, file) in files {
        command.arg(flag).arg(file);
    }
    let mut child = command.spawn().expect("run fedgate");
    let mut lines = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await.expect("read what it says") {
        said.push(line);
        if said.iter().filter(|line| is_change(line)).count() == 2 {
            child.kill().await.expect("kill fedgate");
            return false;
        }
    }
    let ended = child.wait().await.expect("wait for fedgate");
    assert!(ended.success(), "{words:?} {ended}: {said:#?}");
    true
}

/// Runs a command in pieces until it ends; says how many there were.
async fn pieces(words: &[&str], files: &[(&str, &Path)]) -> usize {
    for count in 1..TOO_MANY {
        if one_piece(words, files).await {
            return count;
        }
    }
    panic!("{words:?} does not come to its end in {TOO_MANY} pieces");
}

async fn in_pieces(case: &Case, new: &NewCell) {
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--cell-kubeconfig", new.cell.as_path()),
    ];
    let leave = ["cells", "leave", NEW.0];
    // By push.
    let push = &JOIN[..5];
    let joined = pieces(push, &both).await;
    fedgate(push, &both).await.exits(0, "nothing to change");
    fedgate(&DRAIN, &both).await.exits(0, "is drained");
    let left = pieces(&leave, &both).await;
    eprintln!("    push: {joined} pieces of a join, {left} of a leave");
    is_gone(case, new).await;
    // By pull.
    let (joined, agent) = tokio::join!(pieces(&JOIN, &both), operator(case, new));
    fedgate(&JOIN, &both).await.exits(0, "nothing to change");
    let cluster = case.hub.get(&CLUSTER, "", NEW.0).await.expect("it has joined");
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    may_do_no_more(new).await;
    assert_eq!(agent.is_some(), is_karmada());
    fedgate(&DRAIN, &both).await.exits(0, "is drained");
    let (left, ()) = tokio::join!(pieces(&leave, &both), stopped(new, agent));
    eprintln!("    pull: {joined} pieces of a join, {left} of a leave");
    is_gone(case, new).await;
}
