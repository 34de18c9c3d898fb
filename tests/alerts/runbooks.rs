//! Each alert has a runbook, whose commands can be run as they stand.

use crate::{
    data::{ALERTS, PANELS},
    root,
};
use clap::CommandFactory;
use fedgate::commands::Command;
use regex::Regex;
use std::{collections::BTreeSet, fs};

/// The forms of kubectl that runbooks may use; after these come resources, names, selectors and formats.
const KUBECTL: &[&str] = &[
    r"kubectl --context (hub|alpha) get --raw /readyz(\?verbose)?",
    r"kubectl --context (hub|alpha|dfw-1) get --raw /readyz",
    r"kubectl --context (hub|alpha|dfw-1) (-n fedgate-system )?get [a-z,]+( [a-z-]+)?( -A)?( -l [a-z./-]+)?( -L [a-z./,-]+)?( -o yaml)?( --show-managed-fields)?",
    r"kubectl --context hub describe clusters.cluster.karmada.io dfw-1",
    r"kubectl --context hub (get|describe) cells.fedgate.dev( dfw-2)?",
    r"kubectl --context hub annotate cells.fedgate.dev dfw-2 (--overwrite fedgate\.dev/retry=\$\(date -u \+%FT%TZ\)|fedgate\.dev/abandon=dfw-2)",
    r"kubectl --context hub label clusters.cluster.karmada.io dfw-1 topology\.datum\.net/city-code=DFW",
    r"kubectl --context hub annotate namespace -l meta\.datumapis\.com/upstream-cluster-name=cluster-alpha --overwrite fedgate\.dev/garbage-confirmed=\$\(date -u \+%FT%TZ\)",
    r"kubectl --context hub -n ns-5d4c edit resourcebinding settings-configmap",
    r"kubectl --context hub delete namespaces -l meta\.datumapis\.com/upstream-cluster-name=cluster-alpha",
    r"kubectl --context alpha annotate workloaddeployments\.compute\.datumapis\.com --all -A fedgate\.dev/hub-",
    r"kubectl --context (host|hub|dfw-1) apply --server-side( --force-conflicts)?( -f (-|manifests/[a-z./]+))+",
    r"kubectl --context host -n fedgate-system (get|describe|top) pods -l app\.kubernetes\.io/name=fedgate-gateway( -o (wide|yaml)| --containers)?",
    r"kubectl --context host -n fedgate-system get (deployment fedgate-gateway|secret fedgate-admin)",
    r"kubectl --context host -n fedgate-system logs -l app\.kubernetes\.io/name=fedgate-gateway --prefix --tail=\d+( --previous)?",
    r"kubectl --context host -n fedgate-system rollout (undo|restart) deployment/fedgate-gateway",
    r"kubectl --context host -n fedgate-system rollout status deployment/fedgate-gateway --timeout=10s",
    r"kubectl --context host -n fedgate-system scale deployment/fedgate-gateway --replicas=2",
    r"kubectl --context host -n fedgate-system create secret generic fedgate-hub --from-file=kubeconfig=hub\.yaml --dry-run=client -o yaml",
    r"kubectl compute trace",
];

fn runbooks() -> Vec<(String, String)> {
    let folder = root().join("docs/runbooks");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    files.map(read).collect()
}

#[test]
fn alerts_and_runbooks_are_one_to_one() {
    let alerts: BTreeSet<&str> = ALERTS.iter().map(|alert| &*alert.name).collect();
    let runbooks = runbooks();
    let runbooks: BTreeSet<&str> = runbooks.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(alerts, runbooks, "alerts (left) and docs/runbooks (right)");
}

#[test]
fn a_runbook_is_short_and_has_four_headings() {
    for (name, text) in runbooks() {
        let lines = text.lines().count();
        assert!(lines <= 60, "{name} has {lines} lines");
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let title = format!("# {name}");
        let wanted = [&title, "## Meaning", "## Impact", "## Check", "## Act"];
        assert_eq!(headings, wanted, "{name}");
        assert!(!commands(&text).is_empty(), "{name} has no command");
    }
}

/// The commands of `Check` and `Act`.
fn commands(text: &str) -> Vec<String> {
    let span = Regex::new("`((?:fedgate|kubectl|examples/)[^`]*)`").unwrap();
    let (_, steps) = text.split_once("## Check").unwrap();
    let found = span.captures_iter(steps);
    let commands = found.map(|found| found[1].split_whitespace().collect::<Vec<_>>().join(" "));
    // Names of objects are no commands.
    commands.filter(|command| command.contains(' ')).collect()
}

/// Why a command cannot be run, if it cannot.
fn fault(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split(' ').collect();
    match words[0] {
        "fedgate" => {
            let parsed = Command::command().try_get_matches_from(&words);
            parsed.err().map(|error| error.to_string())
        }
        "kubectl" => {
            let is_allowed = |form: &&str| Regex::new(&format!("^{form}$")).unwrap().is_match(command);
            let allowed = KUBECTL.iter().any(is_allowed);
            (!allowed).then(|| "no allowed form of kubectl".to_owned())
        }
        script => (!root().join(script).is_file()).then(|| "there is no such script".to_owned()),
    }
}

#[test]
fn each_command_can_be_run_as_it_stands() {
    let mut wrong = Vec::new();
    for (name, text) in runbooks() {
        for command in commands(&text) {
            wrong.extend(fault(&command).map(|fault| format!("{name}: {command}: {fault}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows and panels of the dashboard that a runbook sends a person to.
fn views(text: &str) -> Vec<String> {
    let step = Regex::new(r"(?m)^\d+\. ").unwrap();
    let title = Regex::new("`([A-Z][^`]*)`").unwrap();
    let steps = step
        .split(text)
        .filter(|step| step.contains("dashboard") || step.contains("panel"));
    let titles = steps.flat_map(|step| title.captures_iter(step).map(|found| found[1].to_owned()));
    titles.collect()
}

#[test]
fn each_panel_that_a_runbook_names_is_on_the_dashboard() {
    let titles: BTreeSet<&str> = PANELS.iter().map(|panel| &*panel.title).collect();
    let mut seen = 0;
    for (name, text) in runbooks() {
        for view in views(&text) {
            assert!(
                titles.contains(&*view),
                "{name}: {view:?} is not among {titles:?}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} names were found");
}

#[test]
fn a_command_that_cannot_be_run_is_found() {
    for command in [
        "fedgate doctor --hub-kubeconfg hub.yaml",
        "fedgate dctor --hub-kubeconfig hub.yaml",
        "kubectl --context hub delete cluster dfw-1",
        "kubectl --context hub get clusters; rm -r /",
        "examples/gone.sh hub > hub.yaml",
    ] {
        assert!(fault(command).is_some(), "{command}");
    }
    let text =
        "## Meaning\n`kubectl no`\n## Check\n1. `kubectl\n   get x` and `fedgate-hub`, `fedgate status`\n";
    assert_eq!(commands(text), ["kubectl get x", "fedgate status"]);
}
