//! For each alert: series that fire it, series just below, and series that are true for a shorter time than it waits.

use crate::{
    data::{ALERTS, Alert},
    live,
    series::CASES,
};
use Does::{Absent, Ahead, Grows, Is, Values};
use serde_json::{Value, json};

/// Seconds between two samples, and between two evaluations.
const STEP: u32 = 30;
/// Minutes until each window of a rate is filled.
const FILLED: u32 = 12;

/// The course of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Does {
    /// A gauge has this value.
    Is(f64),
    /// A counter grows by this in each step.
    Grows(f64),
    /// A time stays this number of seconds ahead.
    Ahead(f64),
    /// The values, in the notation of promtool.
    Values(&'static str),
    /// There is no such series.
    Absent,
}

pub(crate) type Series = &'static [(&'static str, Does)];

/// The series of an alert.
pub(crate) struct Case {
    pub(crate) alert: &'static str,
    /// Labels of the alert beside name, state and severity.
    pub(crate) labels: &'static [(&'static str, &'static str)],
    pub(crate) fires: Series,
    pub(crate) below: Series,
    /// For how many minutes counters grow as they do when it fires, in the case of a short time.
    pub(crate) short: u32,
}

/// The file with all cases, and with gateways at rest.
pub(crate) fn file() -> Value {
    let mut tests = Vec::new();
    for case in CASES {
        let alert = ALERTS.iter().find(|alert| alert.name == case.alert);
        let alert = alert.unwrap_or_else(|| panic!("there is no alert {}", case.alert));
        tests.extend(of_case(case, alert));
    }
    tests.push(rest());
    json!({"rule_files": ["alerts.yaml"], "evaluation_interval": format!("{STEP}s"), "tests": tests})
}

fn of_case(case: &Case, alert: &Alert) -> Vec<Value> {
    let waits = minutes(&alert.after);
    let end = waits + 3 * FILLED;
    let length = (end + FILLED) * 60 / STEP;
    let of = |series: Series| {
        samples(
            series
                .iter()
                .map(|(name, does)| (*name, all_along(*does, length))),
        )
    };
    let name = |what: &str| format!("{} {what}", case.alert);
    let fired = ever(alert, "firing");
    let mut tests = vec![
        test(
            &name("fires"),
            &of(case.fires),
            waits + FILLED,
            &firing(alert),
            Some(labels(case, alert)),
        ),
        test(
            &name("does not fire just below"),
            &of(case.below),
            end,
            &fired,
            None,
        ),
    ];
    if waits > 0 {
        let pairs = case.fires.iter().zip(case.below);
        let brief = pairs.map(|((name, fires), (_, below))| {
            (*name, Some(briefly(*fires, *below, waits, case.short, length)))
        });
        let series = samples(brief);
        let mut short = test(
            &name("does not fire after a shorter time than it waits"),
            &series,
            end,
            &fired,
            None,
        );
        // It was about to.
        let pending = test(
            "",
            &[],
            end,
            &format!("count({})", ever(alert, "pending")),
            Some("{}".to_owned()),
        );
        let expected = [&short, &pending].map(|test| test["promql_expr_test"][0].clone());
        short["promql_expr_test"] = json!(expected);
        tests.push(short);
    }
    tests
}

/// Two gateways at rest, as they were recorded: no alert fires.
fn rest() -> Value {
    let recording = live::recording();
    let series = recording.series.iter();
    // No Karmada was there: it would have a cell ready, and would have delivered.
    let is_of_karmada =
        |name: &str| name.contains("state=\"not_ready\"") || name.contains("stage=\"hub_to_cell\"");
    let series = samples(series.map(|(name, values)| {
        let values = if is_of_karmada(name) {
            format!("0x{}", recording.minutes * 60 / STEP)
        } else {
            values.clone()
        };
        (name.as_str(), Some(values))
    }));
    let name = format!(
        "two replicas at rest for {} minutes fire nothing",
        recording.minutes
    );
    let fired = "count_over_time(ALERTS{alertstate=\"firing\"}[3h])";
    test(&name, &series, recording.minutes, fired, None)
}

fn minutes(after: &str) -> u32 {
    match after.split_at(after.len() - 1) {
        (number, "m") => number.parse().unwrap(),
        (number, "h") => number.parse::<u32>().unwrap() * 60,
        _ => panic!("{after}: alerts wait for minutes or hours"),
    }
}

fn firing(alert: &Alert) -> String {
    format!("ALERTS{{alertname=\"{}\",alertstate=\"firing\"}}", alert.name)
}

fn ever(alert: &Alert, state: &str) -> String {
    format!(
        "count_over_time(ALERTS{{alertname=\"{}\",alertstate=\"{state}\"}}[3h])",
        alert.name
    )
}

fn labels(case: &Case, alert: &Alert) -> String {
    let own = [
        ("alertname", &*alert.name),
        ("alertstate", "firing"),
        ("severity", &alert.severity),
    ];
    let all: Vec<String> = own
        .iter()
        .chain(case.labels)
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    format!("ALERTS{{{}}}", all.join(","))
}

fn test(name: &str, series: &[Value], at: u32, expression: &str, expected: Option<String>) -> Value {
    let samples: Vec<Value> = expected
        .into_iter()
        .map(|labels| json!({"labels": labels, "value": 1}))
        .collect();
    json!({
        "name": name,
        "interval": format!("{STEP}s"),
        "input_series": series,
        "promql_expr_test": [{"expr": expression, "eval_time": format!("{at}m"), "exp_samples": samples}],
    })
}

fn samples<'a>(series: impl Iterator<Item = (&'a str, Option<String>)>) -> Vec<Value> {
    // promtool wants a series.
    let filler = ("up{job=\"other\"}", Some("1x10".to_owned()));
    let all = std::iter::once(filler).chain(series);
    all.filter_map(|(series, values)| Some(json!({"series": series, "values": values?})))
        .collect()
}

fn all_along(does: Does, length: u32) -> Option<String> {
    match does {
        Is(value) => Some(format!("{value}x{length}")),
        Grows(step) => Some(format!("0+{step}x{length}")),
        Ahead(seconds) => Some(format!("{seconds}+{STEP}x{length}")),
        Values(values) => Some(values.to_owned()),
        Absent => None,
    }
}

/// As when the alert fires, for less time than it waits; then as below.
fn briefly(fires: Does, below: Does, waits: u32, short: u32, length: u32) -> String {
    let steps = waits * 60 / STEP;
    let grown = short * 60 / STEP;
    match (fires, below) {
        (Is(one), Is(other)) => format!("{one}x{} {other}x{length}", steps - 1),
        (Absent, Is(other)) => format!("_x{steps} {other}x{length}"),
        (Is(one), Absent) => format!("{one}x{} stale", steps - 1),
        (Grows(one), Grows(other)) => {
            let top = one * f64::from(grown);
            format!("0+{one}x{grown} {}+{other}x{length}", top + other)
        }
        (Ahead(one), Ahead(other)) => {
            let then = other + f64::from(steps * STEP);
            format!("{one}+{STEP}x{} {then}+{STEP}x{length}", steps - 1)
        }
        _ => panic!("{fires:?} and {below:?} do not follow each other"),
    }
}
