//! The dashboard shows each metric of fedgate, and none that does not exist.

use crate::{
    data::{DASHBOARD, PANELS},
    promql, promtool,
};
use fedgate_engine::metrics::{Metrics, Row};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path};

/// Metrics that the dashboard shows in any case, where they are registered.
const SHOWN: &[&str] = &[
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_reconcile_panics_total",
    "fedgate_build_info",
    "fedgate_cells",
    "fedgate_credential_expiry_timestamp_seconds",
    "fedgate_credentials",
    "fedgate_failures",
    "fedgate_failures_dropped_total",
    "fedgate_federated_objects",
    "fedgate_index_lock_seconds",
    "fedgate_keys_in_backoff",
    "fedgate_memory_limit_bytes",
    "fedgate_oldest_pending_deletion_seconds",
    "fedgate_oldest_stuck_key_seconds",
    "fedgate_oldest_undelivered_seconds",
    "fedgate_operations_request_duration_seconds",
    "fedgate_operations_requests_total",
    "fedgate_operations_streams",
    "fedgate_plane_last_event_age_seconds",
    "fedgate_plane_rewinds_total",
    "fedgate_planes",
    "fedgate_projects",
    "fedgate_reconcile_errors_total",
    "fedgate_reported_instances",
    "fedgate_stuck_keys",
    "fedgate_undelivered_objects",
    "fedgate_watch_events_total",
];

/// Matchers of the dashboard's variables.
const SELECTED: &str = "job=~\"$job\",namespace=~\"$namespace\"";

fn expressions() -> impl Iterator<Item = &'static String> {
    PANELS.iter().flat_map(|panel| &panel.expressions)
}

/// The metrics of all panels, by the names of their rows.
pub(crate) fn metrics(rows: &[Row]) -> BTreeSet<&str> {
    let names = expressions().flat_map(|expression| promql::names(expression).metrics);
    names
        .map(|name| promql::row(name, rows).map_or(name, |row| &*row.name))
        .collect()
}

#[test]
fn each_metric_is_on_a_panel() {
    let rows = Metrics::new().unwrap().rows();
    let shown = metrics(&rows);
    let is_registered = |name: &&&str| rows.iter().any(|row| row.name == ***name);
    let missing: Vec<&&str> = SHOWN
        .iter()
        .filter(is_registered)
        .filter(|name| !shown.contains(**name))
        .collect();
    assert!(
        missing.is_empty(),
        "add panels to manifests/monitoring/dashboard.json: none shows {missing:?}"
    );
    let registered = SHOWN.iter().filter(is_registered).count();
    assert!(registered >= 24, "{registered} of these metrics exist");
}

#[test]
fn the_rows_are_those_that_a_person_looks_for() {
    let wanted = [
        "Now",
        "Delivery",
        "Stuck",
        "Planes and credentials",
        "Cells",
        "Controllers and queue",
        "Process",
    ];
    let panels = DASHBOARD["panels"].as_array().unwrap();
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let titles: Vec<&str> = rows.map(|row| row["title"].as_str().unwrap()).collect();
    assert_eq!(titles, wanted);
    let variables = DASHBOARD["templating"]["list"].as_array().unwrap();
    let variables: Vec<&str> = variables
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "job", "namespace"]);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    for panel in panels {
        let place = &panel["gridPos"];
        assert!(
            place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24,
            "{panel}"
        );
    }
}

/// The expressions of the file, as recording rules that promtool parses.
fn parsed(expressions: &[String]) -> Result<String, String> {
    let rule = |(number, expression): (usize, &String)| {
        let expression = expression.replace("$__rate_interval", "5m");
        json!({"record": format!("panel:{number}"), "expr": expression})
    };
    let rules: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("alerts-panels-{}.yaml", rules.len()));
    fs::write(
        &path,
        json!({"groups": [{"name": "panels", "rules": rules}]}).to_string(),
    )
    .unwrap();
    promtool::run(&["check", "rules", path.to_str().unwrap()], "")
}

/// The description of a panel is the meaning of its metrics, in the words of the reference.
#[test]
fn each_panel_says_the_meaning_of_its_metrics() {
    let rows = Metrics::new().unwrap().rows();
    for panel in PANELS.iter().filter(|panel| !panel.expressions.is_empty()) {
        let mut meanings = Vec::new();
        for expression in &panel.expressions {
            for name in promql::names(expression).metrics {
                let row = promql::row(name, &rows).unwrap();
                let meaning = format!("`{}`: {}", row.name, row.help);
                if !meanings.contains(&meaning) {
                    meanings.push(meaning);
                }
            }
        }
        let title = &panel.title;
        assert_eq!(
            panel.whole["description"],
            meanings.join("\n\n"),
            "panel {title:?} of manifests/monitoring/dashboard.json describes its metrics otherwise than their help does"
        );
    }
}

#[test]
fn each_selector_of_the_dashboard_has_its_variables() {
    for expression in expressions() {
        let selectors = promql::names(expression).metrics.len();
        assert_eq!(expression.matches(SELECTED).count(), selectors, "{expression}");
    }
}

#[test]
#[ignore = "verify: promtool judges"]
fn promtool_parses_each_expression_of_the_dashboard() {
    let all: Vec<String> = expressions().cloned().collect();
    assert!(all.len() > 40, "{} expressions", all.len());
    parsed(&all).unwrap_or_else(|said| panic!("{said}"));
    assert!(parsed(&["sum by (job (fedgate_planes)".to_owned()]).is_err());
}
