//! promtool judges the rules.

use crate::{
    cases::{Case, file},
    data::{ALERTS, DASHBOARD},
    monitoring, promtool, root,
    series::CASES,
};
use std::{collections::BTreeSet, fs, path::Path};

const HEADER: &str = "# Made by tests/alerts: change it there, then `make manifests`.\n";

fn names() -> BTreeSet<&'static str> {
    ALERTS.iter().map(|alert| &*alert.name).collect()
}

#[test]
fn each_alert_has_a_case() {
    let cases: BTreeSet<&str> = CASES.iter().map(|Case { alert, .. }| *alert).collect();
    assert_eq!(cases, names());
    assert_eq!((CASES.len(), ALERTS.len()), (cases.len(), cases.len()));
}

/// Each alert says how urgent it is, and leads to its runbook and to the dashboard.
#[test]
fn each_alert_has_a_severity_a_runbook_and_the_dashboard() {
    for alert in &*ALERTS {
        let name = &alert.name;
        assert!(
            ["critical", "warning", "info"].contains(&&*alert.severity),
            "{name}"
        );
        let annotations = &alert.rule["annotations"];
        let runbook = format!("{}/{name}.md", fedgate_manifests::RUNBOOKS);
        assert_eq!(annotations["runbook_url"], runbook);
        let dashboard = format!("/d/{}", DASHBOARD["uid"].as_str().unwrap());
        assert_eq!(annotations["dashboard_url"], dashboard, "{name}");
        for text in ["summary", "description"] {
            assert!(annotations[text].is_string(), "{name} has no {text}");
        }
    }
}

#[test]
#[ignore = "verify: promtool judges"]
fn promtool_finds_no_fault_in_the_rules() {
    let rules = monitoring("alerts.yaml");
    let said = promtool::succeeds(
        &[
            "check",
            "rules",
            "--lint=all",
            "--lint-fatal",
            rules.to_str().unwrap(),
        ],
        "",
    );
    assert!(said.contains(&format!("{} rules found", ALERTS.len())), "{said}");
}

#[test]
fn the_tests_of_alerts_are_those_of_the_cases() {
    let path = monitoring("alerts_test.yaml");
    let text = format!("{HEADER}{}", serde_saphyr::to_string(&file()).unwrap());
    if std::env::var_os("FEDGATE_WRITE_DOCS").is_some_and(|value| !value.is_empty()) {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{} is out of date: run `make manifests`",
        path.display()
    );
}

#[test]
#[ignore = "verify: promtool judges"]
fn each_alert_fires_when_it_has_to_and_never_at_rest() {
    let path = monitoring("alerts_test.yaml");
    promtool::succeeds(&["test", "rules", path.to_str().unwrap()], "");
}

/// Thresholds, labels and times that are wrong are noticed.
#[test]
#[ignore = "verify: promtool judges"]
fn broken_rules_are_noticed() {
    let mut rules = fs::read_to_string(monitoring("alerts.yaml")).unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alerts/broken");
    fs::create_dir_all(&dir).unwrap();
    let tests = dir.join("alerts_test.yaml");
    fs::copy(monitoring("alerts_test.yaml"), &tests).unwrap();
    let broken = [
        (
            "(leader_election_master_status) < 1",
            "(leader_election_master_status) < 2",
            "FedgateNoLeader",
        ),
        (
            "stage=\"hub_to_cell\"}) > 600",
            "stage=\"hub_to_cell\"}) > 700",
            "FedgateCellDelivery",
        ),
        (
            "max by (job) (fedgate_orphan_hub_objects) > 0",
            "max(fedgate_orphan_hub_objects) > 0",
            "FedgateOrphans",
        ),
        (
            "expr: absent(fedgate_projects)\n    for: 5m",
            "expr: absent(fedgate_projects)\n    for: 4m",
            "FedgateDown",
        ),
    ];
    for (right, wrong, _) in broken {
        assert!(rules.contains(right), "{right} is in the rules");
        rules = rules.replace(right, wrong);
    }
    fs::write(dir.join("alerts.yaml"), rules).unwrap();
    let said = promtool::run(&["test", "rules", tests.to_str().unwrap()], "").unwrap_err();
    for alert in &*ALERTS {
        let is_broken = broken.iter().any(|(_, _, name)| *name == alert.name);
        let quoted = format!("\"{}\"", alert.name);
        assert_eq!(
            said.replace('\\', "").contains(&quoted),
            is_broken,
            "{}: {said}",
            alert.name
        );
    }
}

#[test]
fn the_example_of_prometheus_loads_the_rules() {
    let example = fs::read_to_string(root().join("examples/prometheus.yaml")).unwrap();
    let line = example
        .split("rule_files:")
        .nth(1)
        .and_then(|rest| rest.lines().nth(1));
    assert!(
        line.is_some_and(|line| line.contains("manifests/monitoring/alerts.yaml")),
        "{example}"
    );
}
