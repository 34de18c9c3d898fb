//! The names in an expression of `PromQL`: the metrics that it asks for, and the labels. Everything that is no keyword,
//! function or label is a metric, so that a misspelt metric is found and not overlooked.

use crate::data::{ALERTS, PANELS};
use fedgate_engine::metrics::{Metrics, Row};
use std::collections::BTreeSet;

/// Operators that are words; the words in [`GROUPING`] are followed by labels.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const AGGREGATIONS: [&str; 6] = ["sum", "max", "min", "count", "avg", "topk"];
/// Labels that Prometheus gives to each target.
const OF_TARGETS: [&str; 4] = ["job", "namespace", "pod", "instance"];

/// Something that no metric has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The expression asks for a metric that does not exist.
    Metric(String),
    /// The expression selects or groups by a label that its metrics do not have.
    Label(String),
}

/// The names in an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    /// Each metric, as often as it is asked for.
    pub(crate) metrics: Vec<&'a str>,
    /// Labels that are selected or grouped by.
    pub(crate) labels: BTreeSet<&'a str>,
}

/// The names in an expression.
pub(crate) fn names(expression: &str) -> Names<'_> {
    let mut names = Names::default();
    // Depth of `{}`; `(` of a grouping, in which all words are labels.
    let (mut selecting, mut grouping) = (false, false);
    let mut before = "";
    let mut at = 0;
    while let Some(c) = expression[at..].chars().next() {
        let rest = &expression[at..];
        let length = match c {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            _ if is_of_word(c) => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            _ => c.len_utf8(),
        };
        match c {
            '{' => selecting = true,
            '}' => selecting = false,
            '(' => grouping = GROUPING.contains(&before),
            ')' => grouping = false,
            _ => {}
        }
        let token = &rest[..length];
        if c.is_ascii_alphabetic() || c == '_' {
            let next = rest[length..].trim_start();
            let is_known = [&OPERATORS[..], &GROUPING, &AGGREGATIONS]
                .iter()
                .any(|words| words.contains(&token));
            if selecting || grouping {
                names.labels.insert(token);
            } else if !is_known && !next.starts_with('(') {
                names.metrics.push(token);
            }
        }
        if !c.is_whitespace() {
            before = token;
        }
        at += length;
    }
    names
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Checks that each metric of an expression exists, and that one of them has each label.
pub(crate) fn check(expression: &str, rows: &[Row]) -> Result<(), Fault> {
    let names = names(expression);
    let mut labels: BTreeSet<&str> = OF_TARGETS.into();
    for name in &names.metrics {
        let row = row(name, rows).ok_or_else(|| Fault::Metric((*name).to_owned()))?;
        labels.extend(row.labels);
        if row.kind == "histogram" {
            labels.insert("le");
        }
    }
    match names.labels.difference(&labels).next() {
        Some(label) => Err(Fault::Label((*label).to_owned())),
        None => Ok(()),
    }
}

/// The row of a series: a histogram has three, with endings of their own.
pub(crate) fn row<'a>(series: &str, rows: &'a [Row]) -> Option<&'a Row> {
    let of_histogram = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|ending| series.strip_suffix(ending));
    rows.iter().find(|row| {
        if row.kind == "histogram" {
            of_histogram == Some(&*row.name)
        } else {
            row.name == series
        }
    })
}

const EXPRESSION: &str = "sum by (job, le) (rate(fedgate_federation_seconds_bucket{stage=\"a_b\"}[5m])) / \
                          max by(job)(process_start_time_seconds) > 1e3 and on (job) absent(fedgate_projects)";

#[test]
fn what_is_no_word_of_the_language_is_a_metric_or_a_label() {
    let names = names(EXPRESSION);
    let wanted = [
        "fedgate_federation_seconds_bucket",
        "process_start_time_seconds",
        "fedgate_projects",
    ];
    assert_eq!(names.metrics, wanted);
    assert_eq!(names.labels, BTreeSet::from(["job", "le", "stage"]));
}

#[test]
fn a_metric_or_label_that_is_not_there_is_a_fault() {
    let rows = Metrics::new().unwrap().rows();
    assert_eq!(check(EXPRESSION, &rows), Ok(()));
    for (expression, fault) in [
        ("max(fegdate_planes)", Fault::Metric("fegdate_planes".to_owned())),
        // A histogram has no series of its own name.
        (
            "fedgate_federation_seconds > 1",
            Fault::Metric("fedgate_federation_seconds".to_owned()),
        ),
        ("fedgate_planes{plan=\"hub\"}", Fault::Label("plan".to_owned())),
        (
            "sum by (stage) (fedgate_planes)",
            Fault::Label("stage".to_owned()),
        ),
    ] {
        assert_eq!(check(expression, &rows), Err(fault), "{expression}");
    }
}

#[test]
fn each_metric_and_label_of_alerts_and_panels_exists() {
    let rows = Metrics::new().unwrap().rows();
    let alerts = ALERTS.iter().map(|alert| (&alert.name, &alert.expression));
    let panels = PANELS.iter().flat_map(|panel| {
        let expressions = panel.expressions.iter();
        expressions.map(move |expression| (&panel.title, expression))
    });
    let mut checked = 0;
    for (name, expression) in alerts.chain(panels) {
        let result = check(expression, &rows);
        assert!(
            result.is_ok(),
            "{name}: {result:?}; correct the expression in manifests/monitoring, or register the metric in \
             crates/engine/src/metrics"
        );
        checked += 1;
    }
    assert!(checked > ALERTS.len() + 40, "{checked} expressions");
    for (metric, name) in [
        ("fedgate_interpreter_drift", "FedgateInterpreterDrift"),
        ("process_open_fds", "Open files"),
    ] {
        let rows: Vec<Row> = rows.iter().filter(|row| row.name != metric).cloned().collect();
        let alert = ALERTS.iter().find(|alert| alert.name == name);
        let panel = PANELS.iter().find(|panel| panel.title == name);
        let expression = alert.map_or_else(|| &panel.unwrap().expressions[0], |alert| &alert.expression);
        assert_eq!(check(expression, &rows), Err(Fault::Metric(metric.to_owned())));
    }
}
