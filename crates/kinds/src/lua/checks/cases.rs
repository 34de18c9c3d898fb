//! Runs the test cases of interpreter scripts. Their format: docs/interpreters.md.

use super::report::{Report, case_files, folders};
use crate::{
    folder::{Folder, KIND_FILE, NO_KIND_FILE},
    lua::{Host, LuaError, Operation},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use serde_saphyr::Spanned;
use similar::TextDiff;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// In an expected result: any RFC 3339 time within 60 s of the current time.
pub const NOW: &str = "<now>";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CaseFile {
    operation: Spanned<Operation>,
    cases: Vec<CaseEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CaseEntry {
    name: Spanned<String>,
    observed: Option<Value>,
    desired: Option<Value>,
    items: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "present")]
    expect: Option<Value>,
    error: Option<String>,
}

/// Distinguishes `expect: null` from a missing `expect`.
fn present<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

/// The expected outcome of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// The call returns this result: a status, an object, a boolean or a list.
    Result(Value),
    /// The call fails with an error whose text contains this string.
    Error(String),
}

/// A complete case.
#[derive(Debug, Clone)]
pub struct Case {
    /// The file of the case.
    pub file: PathBuf,
    /// The line of its name.
    pub line: usize,
    /// The name of the case.
    pub name: String,
    /// The operation that the case runs.
    pub operation: Operation,
    /// The text of the script.
    pub script: String,
    /// The first argument, with defaults for apiVersion, kind, namespace and name.
    pub object: Value,
    /// The second argument of `Retain`, with the same defaults.
    pub observed: Option<Value>,
    /// The second argument of `AggregateStatus`.
    pub items: Vec<Value>,
    /// The expected outcome.
    pub expectation: Expectation,
}

impl Case {
    /// Runs the case and returns the part of the result that Karmada uses.
    pub fn evaluate(&self, host: &Host) -> Result<Value, LuaError> {
        let (script, object) = (self.script.as_str(), &self.object);
        match self.operation {
            Operation::StatusReflection => host.reflect_status(script, object),
            Operation::StatusAggregation => host
                .aggregate_status(script, object, &self.items)
                .map(|mut object| object["status"].take()),
            Operation::HealthInterpretation => host.interpret_health(script, object).map(Value::Bool),
            Operation::DependencyInterpretation => Ok(json!(host.get_dependencies(script, object)?)),
            Operation::ReplicaResource => host.get_replicas(script, object).map(Value::from),
            Operation::Retention => {
                host.retain(script, object, self.observed.as_ref().unwrap_or(&Value::Null))
            }
        }
    }

    /// The case with less status, and what it lacks: an object that was just created has none, and one that starts has a part of
    /// it. None for operations that read no status, and for cases that expect an error.
    fn with_less_status(&self) -> Vec<(String, Self)> {
        let mut whole = self.clone();
        let holders = whole.status_holders();
        if holders.is_empty() || matches!(self.expectation, Expectation::Error(_)) {
            return Vec::new();
        }
        let statuses = holders.iter().filter_map(|holder| holder["status"].as_object());
        let fields: BTreeSet<String> = statuses.flat_map(Map::keys).cloned().collect();
        let lacks = |field: Option<String>| {
            let mut less = self.clone();
            for fields in less.status_holders().into_iter().filter_map(Value::as_object_mut) {
                match (&field, fields.get_mut("status")) {
                    (Some(field), Some(Value::Object(status))) => drop(status.remove(field)),
                    (Some(_), _) => {}
                    (None, _) => drop(fields.remove("status")),
                }
            }
            let of = field.map_or_else(|| "a status".to_owned(), |field| format!("status.{field}"));
            (format!("without {of}"), less)
        };
        fields.into_iter().map(Some).chain([None]).map(lacks).collect()
    }

    /// The errors of the script for the case with less status, each with what that case lacks.
    pub fn failures_with_less_status(&self) -> Vec<(String, LuaError)> {
        let run = |(lacks, less): (String, Self)| Some((lacks, less.evaluate(&Host::new()).err()?));
        self.with_less_status().into_iter().filter_map(run).collect()
    }

    /// Reports the errors of the script for the case with less status.
    pub(super) fn run_with_less_status(&self, report: &mut Report) {
        for (lacks, error) in self.failures_with_less_status() {
            report.add(&self.file, self.line, format!("{} ({lacks}): {error}", self.name));
        }
    }

    /// The objects whose status the operation reads.
    fn status_holders(&mut self) -> Vec<&mut Value> {
        match self.operation {
            Operation::StatusReflection | Operation::HealthInterpretation => vec![&mut self.object],
            Operation::StatusAggregation => self.items.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    /// Compares a result with the expectation; `None` if they match, else a text with a diff.
    pub fn difference(&self, result: &Result<Value, LuaError>) -> Option<String> {
        match (&self.expectation, result) {
            (Expectation::Result(expected), Ok(actual)) => {
                let expected = with_present_times(expected, actual);
                (expected != *actual).then(|| {
                    format!(
                        "the result differs (- expected, + actual)\n{}",
                        diff(&expected, actual)
                    )
                })
            }
            (Expectation::Result(_), Err(error)) => Some(error.to_string()),
            (Expectation::Error(part), Err(error)) if error.to_string().contains(part.as_str()) => None,
            (Expectation::Error(part), Err(error)) => {
                Some(format!("expected an error with {part:?}, got: {error}"))
            }
            (Expectation::Error(part), Ok(actual)) => Some(format!(
                "expected an error with {part:?}, got a result\n{}",
                yaml(actual)
            )),
        }
    }
}

/// Runs every case at or below `dir` three times: in a new state, in a state that all cases share as in Karmada's pool,
/// and in a state with another order of `pairs`.
pub fn run(dir: &Path) -> Report {
    let mut report = Report::default();
    let shared = Host::new();
    for case in load(dir, &mut report) {
        report.checked += 1;
        let (fresh, reversed) = (Host::new(), Host::reversed());
        for (host, state) in [
            (&fresh, "in a fresh state"),
            (&shared, "in a re-used state"),
            (&reversed, "with another order of pairs"),
        ] {
            if let Some(difference) = case.difference(&case.evaluate(host)) {
                report.add(
                    &case.file,
                    case.line,
                    format!("{} ({state}): {difference}", case.name),
                );
                break;
            }
        }
        case.run_with_less_status(&mut report);
    }
    report.findings.sort();
    report
}

/// Reads every case at or below `dir`; faults of the case files and scripts without cases become findings in the
/// report.
pub fn load(dir: &Path, report: &mut Report) -> Vec<Case> {
    let mut cases = Vec::new();
    for folder in folders(dir, report) {
        let path = Path::new(&folder.path);
        if !folder.files.contains_key(KIND_FILE) {
            report.add(&path.join(KIND_FILE), 1, NO_KIND_FILE);
            continue;
        }
        let mut covered = BTreeSet::new();
        for (file, text) in &case_files(&folder, report) {
            match fedgate_api::yaml::read::<CaseFile>(text) {
                Ok(content) => {
                    covered.insert(content.operation.value.file());
                    complete(&folder, file, content, &mut cases, report);
                }
                Err(error) => {
                    let line = error.location().map_or(1, |location| line(location.line()));
                    let error = error.without_snippet();
                    report.add(
                        file,
                        line,
                        format!("{error}; the format is in docs/interpreters.md"),
                    );
                }
            }
        }
        for (name, _) in folder
            .scripts()
            .filter(|(name, _)| !covered.contains(name.as_str()))
        {
            report.add(&path.join(name), 1, "has no cases; write some into testdata/");
        }
    }
    cases
}

fn line(number: u64) -> usize {
    usize::try_from(number).unwrap_or(1)
}

fn complete(folder: &Folder, file: &Path, content: CaseFile, cases: &mut Vec<Case>, report: &mut Report) {
    let operation = content.operation.value;
    let Some(script) = folder.files.get(operation.file()) else {
        let (name, key) = (operation.file(), operation.key());
        let at = line(content.operation.referenced.line());
        report.add(file, at, format!("there is no {name} for operation {key}"));
        return;
    };
    for entry in content.cases {
        let (at, name) = (line(entry.name.referenced.line()), entry.name.value.clone());
        match case(folder, file, operation, script, entry) {
            Ok(case) => cases.push(case),
            Err(why) => report.add(file, at, format!("{name}: {why}")),
        }
    }
}

/// The complete case, or what it lacks.
fn case(
    folder: &Folder,
    file: &Path,
    operation: Operation,
    script: &str,
    entry: CaseEntry,
) -> Result<Case, &'static str> {
    use Operation::{HealthInterpretation, Retention, StatusAggregation, StatusReflection};
    let (object, second, needed) = match operation {
        StatusReflection | HealthInterpretation => {
            (entry.observed, entry.desired, "needs the field observed")
        }
        _ => (entry.desired, entry.observed, "needs the field desired"),
    };
    let object = object.ok_or(needed)?;
    if second.is_some() != (operation == Retention) {
        return Err("observed and desired go together in retention, and nowhere else");
    }
    if entry.items.is_some() != (operation == StatusAggregation) {
        return Err("items belong to statusAggregation, which needs them");
    }
    Ok(Case {
        file: file.to_owned(),
        line: line(entry.name.referenced.line()),
        name: entry.name.value,
        operation,
        script: script.to_owned(),
        object: filled(folder, object),
        observed: second.map(|object| filled(folder, object)),
        items: entry.items.unwrap_or_default(),
        expectation: match (entry.expect, entry.error) {
            (Some(result), None) => Expectation::Result(result),
            (None, Some(part)) => Expectation::Error(part),
            _ => return Err("needs either expect or error"),
        },
    })
}

/// Adds apiVersion, kind, namespace and name if they are missing, so that cases need not repeat them.
fn filled(folder: &Folder, mut object: Value) -> Value {
    let Value::Object(fields) = &mut object else {
        return object;
    };
    let default = |fields: &mut Map<String, Value>, key: &str, value: &str| {
        fields.entry(key).or_insert_with(|| Value::from(value));
    };
    default(
        fields,
        "apiVersion",
        &format!("{}/{}", folder.group, folder.version),
    );
    default(fields, "kind", &folder.kind);
    if let Value::Object(metadata) = fields.entry("metadata").or_insert_with(|| json!({})) {
        default(metadata, "namespace", "default");
        default(metadata, "name", "example");
    }
    object
}

/// The expectation, with each [`NOW`] replaced by the result's time at that place if that is the current time.
fn with_present_times(expected: &Value, actual: &Value) -> Value {
    match (expected, actual) {
        (Value::String(text), Value::String(time)) if text == NOW && is_present(time) => actual.clone(),
        (Value::Array(a), Value::Array(b)) => {
            let all = a.iter().enumerate();
            all.map(|(at, a)| with_present_times(a, b.get(at).unwrap_or(&Value::Null)))
                .collect()
        }
        (Value::Object(a), Value::Object(b)) => {
            let all = a.iter().map(|(key, a)| {
                let actual = b.get(key).unwrap_or(&Value::Null);
                (key.clone(), with_present_times(a, actual))
            });
            all.collect()
        }
        _ => expected.clone(),
    }
}

fn is_present(time: &str) -> bool {
    let now = jiff::Timestamp::now().as_second();
    time.parse::<jiff::Timestamp>()
        .is_ok_and(|time| (time.as_second() - now).abs() <= 60)
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string())
}

fn diff(expected: &Value, actual: &Value) -> String {
    let (expected, actual) = (yaml(expected), yaml(actual));
    TextDiff::from_lines(&expected, &actual)
        .unified_diff()
        .context_radius(2)
        .to_string()
}
