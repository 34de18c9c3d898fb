//! The reference in docs/reference/compute and the man pages are what clap knows of the commands. `make docs` writes them anew.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

mod lines;
mod markdown;

use clap::Command;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Variable that makes the tests write the files instead of comparing them.
const WRITE: &str = "FEDGATE_WRITE_DOCS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All commands with their names, the deeper ones after their parents.
fn commands() -> Vec<(Vec<String>, Command)> {
    fn walk(path: &[String], command: &Command, into: &mut Vec<(Vec<String>, Command)>) {
        into.push((path.to_vec(), command.clone()));
        let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        for sub in subs.filter(|sub| sub.get_name() != "help") {
            walk(&[path, &[sub.get_name().to_owned()]].concat(), sub, into);
        }
    }
    // The revision differs with each build.
    let mut root = fedgate_cli::command()
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    root.build();
    let mut all = Vec::new();
    walk(&[], &root, &mut all);
    all
}

/// Compares files of a folder, or writes them; files that are not among them are faults.
fn check(folder: &Path, wanted: &BTreeMap<String, Vec<u8>>) {
    if std::env::var_os(WRITE).is_some_and(|value| !value.is_empty()) {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).unwrap();
        for (name, text) in wanted {
            fs::write(folder.join(name), text).unwrap();
        }
        return;
    }
    let found: BTreeMap<String, Vec<u8>> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    let differ = wanted
        .iter()
        .filter(|(name, text)| found.get(*name) != Some(*text));
    let differ: Vec<&String> = differ.map(|(name, _)| name).collect();
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert!(
        differ.is_empty() && names(&found) == names(wanted),
        "{}: {differ:?} out of date: run `make docs`",
        folder.display()
    );
}

#[test]
fn the_reference_is_what_the_commands_say() {
    let files = commands().into_iter().map(|(path, command)| {
        let name = if path.is_empty() {
            "README.md".to_owned()
        } else {
            format!("{}.md", path.join("-"))
        };
        (name, markdown::page(&path, &command).into_bytes())
    });
    check(&root().join("docs/reference/compute"), &files.collect());
}

#[test]
fn the_man_pages_are_what_the_commands_say() {
    let files = commands().into_iter().map(|(path, command)| {
        let name = [vec!["kubectl-compute".to_owned()], path].concat().join("-");
        let command = command.display_name(name.clone());
        let man = clap_mangen::Man::new(command)
            .date("")
            .source("fedgate")
            .manual("fedgate");
        let mut page = Vec::new();
        man.render(&mut page).unwrap();
        (format!("{name}.1"), page)
    });
    check(&root().join("packaging/man"), &files.collect());
}
