//! Karmada as the judge: its recorded answers always, its executable (`KARMADA_BIN_DIR`) where there is one.

use crate::{Scratch, roots};
use fedgate_api::keys;
use fedgate_kinds::{
    FederatedKind, Kinds,
    lua::{
        Host, LuaError, Operation,
        checks::{
            self, Report,
            cases::{Case, Expectation, NOW},
        },
    },
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The executable that has the last word, if the environment names it.
pub(crate) fn judge() -> Option<PathBuf> {
    let bin = std::env::var_os("KARMADA_BIN_DIR").filter(|bin| !bin.is_empty())?;
    Some(Path::new(&bin).join("karmadactl"))
}

/// Karmada's own word on a case: what `karmadactl interpret` prints, reduced to the part that Karmada uses.
fn ask_karmada(karmadactl: &Path, kind: &FederatedKind, case: &Case, dir: &Path) -> Result<Value, LuaError> {
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let operation = match case.operation {
        Operation::DependencyInterpretation => "interpretDependency",
        Operation::HealthInterpretation => "interpretHealth",
        Operation::ReplicaResource => "interpretReplica",
        Operation::Retention => "retain",
        Operation::StatusAggregation => "aggregateStatus",
        Operation::StatusReflection => "interpretStatus",
    };
    let mut command = Command::new(karmadactl);
    command.arg("interpret").arg("--operation").arg(operation);
    command
        .arg("-f")
        .arg(write("interpreter.json", kind.interpreter_object().to_string()));
    let object = write("object.json", case.object.to_string());
    match &case.observed {
        None => command.arg("--observed-file").arg(object),
        Some(observed) => {
            let observed = write("observed.json", observed.to_string());
            command
                .arg("--desired-file")
                .arg(object)
                .arg("--observed-file")
                .arg(observed)
        }
    };
    if !case.items.is_empty() {
        let items: Vec<String> = case.items.iter().map(Value::to_string).collect();
        command
            .arg("--status-file")
            .arg(write("items.yaml", items.join("\n---\n")));
    }
    let output = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if !stderr.is_empty() {
        return Err(LuaError::Raised(stderr.into_owned()));
    }
    let mut results: Vec<Value> = serde_saphyr::from_multiple(&stdout).unwrap();
    Ok(match case.operation {
        Operation::StatusAggregation => results[0]["status"].take(),
        // Go prints a list without items as null.
        Operation::DependencyInterpretation if results[0].is_null() => json!([]),
        _ => results[0].take(),
    })
}

/// The version of Karmada that gave the recorded answers, and when.
#[derive(serde::Serialize, serde::Deserialize)]
struct Record {
    karmada: String,
    recorded: String,
    cases: Vec<Recorded>,
}

/// Karmada's answer to one case.
#[derive(serde::Serialize, serde::Deserialize)]
struct Recorded {
    kind: String,
    operation: String,
    name: String,
    /// SHA-256 of script and arguments: an answer counts for what Karmada was asked alone.
    input: String,
    /// Absent where Karmada reports an error; an object without a status has the answer null.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    answer: Option<Value>,
}

fn present<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    serde::Deserialize::deserialize(input).map(Some)
}

const RECORD: &str = "tests/lua/karmada-cases.json";

fn input(case: &Case) -> String {
    let Case {
        file: _,
        line: _,
        name: _,
        operation: _,
        script,
        object,
        observed,
        items,
        expectation: _,
    } = case;
    // Karmada was asked for 0 replicas.
    let text = json!([script, object, observed, items, 0]).to_string();
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// All cases of all kinds.
fn cases() -> Vec<(FederatedKind, Case)> {
    let mut report = Report::default();
    let mut all = Vec::new();
    for root in roots() {
        let kinds = Kinds::load_dir(&root).unwrap().federated;
        for case in checks::cases::load(&root, &mut report) {
            let of = |kind: &&FederatedKind| {
                case.object["kind"] == kind.resource.kind
                    && case.object["apiVersion"] == kind.resource.api_version
            };
            all.push((kinds.iter().find(of).unwrap().clone(), case));
        }
    }
    assert!(report.is_ok(), "\n{report}");
    all
}

fn recorded(kind: &FederatedKind, case: &Case, answer: Option<Value>) -> Recorded {
    Recorded {
        kind: kind.resource.kind.clone(),
        operation: case.operation.key().to_owned(),
        name: case.name.clone(),
        input: input(case),
        answer,
    }
}

pub(crate) fn karmada_agreed_on_every_case() {
    let record: Record = serde_json::from_str(include_str!("../lua/karmada-cases.json")).unwrap();
    let mut wrong = Vec::new();
    let cases = cases();
    for (kind, case) in &cases {
        let asked = recorded(kind, case, None);
        let same =
            |r: &&Recorded| r.input == asked.input && r.operation == asked.operation && r.kind == asked.kind;
        let at = format!("{}:{}: {}", case.file.display(), case.line, case.name);
        let Some(found) = record.cases.iter().find(same) else {
            wrong.push(format!(
                "{at}: Karmada was never asked; set KARMADA_BIN_DIR and FEDGATE_RECORD_KARMADA=<its version> and run this test"
            ));
            continue;
        };
        let theirs = found
            .answer
            .clone()
            .ok_or_else(|| LuaError::Raised("an error".to_owned()));
        wrong.extend(difference(case, &theirs).map(|text| format!("{at}: {text}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(
        record.cases.len(),
        cases.len(),
        "answers to cases that are no more: record anew"
    );
}

/// The difference of Karmada's answer from what a case demands; errors say the same in other words.
fn difference(case: &Case, theirs: &Result<Value, LuaError>) -> Option<String> {
    match (&case.expectation, theirs) {
        (Expectation::Error(_), Err(_)) => None,
        _ => case.difference(theirs),
    }
}

/// The answer with the word for the present in place of the time at which it was given.
fn timeless(expected: &Value, answer: Value) -> Value {
    match (expected, answer) {
        (Value::String(text), Value::String(_)) if text == NOW => expected.clone(),
        (Value::Array(expected), Value::Array(answer)) => {
            expected.iter().zip(answer).map(|(e, a)| timeless(e, a)).collect()
        }
        (Value::Object(expected), Value::Object(answer)) => answer
            .into_iter()
            .map(|(key, value)| {
                let value = expected.get(&key).map_or(value.clone(), |e| timeless(e, value));
                (key, value)
            })
            .collect(),
        (_, answer) => answer,
    }
}

/// With `FEDGATE_RECORD_KARMADA`, the version of the executables, the record is written anew.
pub(crate) fn karmada_agrees_on_every_case() {
    let (karmadactl, dir) = (judge().unwrap(), Scratch::new());
    let mut record = Record {
        karmada: std::env::var("FEDGATE_RECORD_KARMADA").unwrap_or_default(),
        recorded: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        cases: Vec::new(),
    };
    takes_the_uid_of_a_members_object_along(&karmadactl, &dir.0);
    let mut wrong = Vec::new();
    for (kind, case) in cases() {
        let theirs = ask_karmada(&karmadactl, &kind, &case, &dir.0);
        let at = format!("{}:{}", case.file.display(), case.line);
        wrong.extend(difference(&case, &theirs).map(|text| format!("{at}: {text}")));
        let answer = match &case.expectation {
            Expectation::Result(expected) => theirs.ok().map(|answer| timeless(expected, answer)),
            Expectation::Error(_) => theirs.ok(),
        };
        record.cases.push(recorded(&kind, &case, answer));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    if !record.karmada.is_empty() {
        let text = serde_json::to_string_pretty(&record).unwrap() + "\n";
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORD), text).unwrap();
    }
}

/// One expression, and what Karmada's Lua makes of it.
#[derive(serde::Deserialize)]
struct Answer {
    lua: String,
    answer: String,
}

/// Scripts that evaluate the expressions, forty at a time: the status has one field per expression, by its number.
fn probes() -> Vec<(String, Vec<Answer>)> {
    let mut answers: Vec<Answer> = serde_json::from_str(include_str!("../lua/karmada-answers.json")).unwrap();
    let mut scripts = Vec::new();
    while !answers.is_empty() {
        let rest = answers.split_off(answers.len().min(40));
        let mut script = include_str!("../lua/probe.lua").to_owned();
        script.push_str("function ReflectStatus(observed)\nlocal answers = {}\n");
        for (number, Answer { lua, .. }) in answers.iter().enumerate() {
            writeln!(
                script,
                "answers.e{number} = probe(pcall(function() return {lua} end))"
            )
            .unwrap();
        }
        script.push_str("return answers\nend\n");
        scripts.push((script, answers));
        answers = rest;
    }
    scripts
}

/// The expressions to which a status gives another answer.
fn differences(expected: &[Answer], status: &Value) -> Vec<String> {
    let differs = |(number, expected): (usize, &Answer)| {
        let got = &status[format!("e{number}")];
        let (lua, answer) = (&expected.lua, &expected.answer);
        (got != answer).then(|| format!("{lua}\n  recorded: {answer:?}\n  got:      {got}"))
    };
    expected.iter().enumerate().filter_map(differs).collect()
}

pub(crate) fn the_host_answers_as_karmada_did() {
    let mut wrong = Vec::new();
    for (script, expected) in probes() {
        let status = Host::new().reflect_status(&script, &json!({})).unwrap();
        wrong.extend(differences(&expected, &status));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Bodies of `ReflectStatus` with the status that Karmada makes of what they return, or that it refuses it.
#[derive(serde::Deserialize)]
struct Results {
    observed: Value,
    results: Vec<ResultOf>,
}

#[derive(serde::Deserialize)]
struct ResultOf {
    body: String,
    status: Option<Value>,
    #[serde(default)]
    error: bool,
}

impl Results {
    fn recorded() -> Self {
        serde_json::from_str(include_str!("../lua/karmada-results.json")).unwrap()
    }

    /// Those to which `evaluate` gives something else.
    fn differences(&self, evaluate: impl Fn(Case) -> Result<Value, LuaError>) -> Vec<String> {
        let differs = |ResultOf { body, status, error }: &ResultOf| {
            let script = format!("function ReflectStatus(o)\n{body}\nend\n");
            let got = evaluate(reflection(script, self.observed.clone()));
            let right = if *error {
                got.is_err()
            } else {
                got.as_ref().ok() == status.as_ref()
            };
            (!right).then(|| format!("{body}\n  recorded: {status:?}\n  got:      {got:?}"))
        };
        self.results.iter().filter_map(differs).collect()
    }
}

/// A case that only runs a script.
fn reflection(script: String, object: Value) -> Case {
    Case {
        file: PathBuf::new(),
        line: 1,
        name: String::new(),
        operation: Operation::StatusReflection,
        script,
        object,
        observed: None,
        items: Vec::new(),
        expectation: Expectation::Result(Value::Null),
    }
}

pub(crate) fn the_host_encodes_results_as_karmada_did() {
    let wrong = Results::recorded().differences(|case| case.evaluate(&Host::new()));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Karmada's answers are recorded; with `KARMADA_BIN_DIR` the record itself is checked.
pub(crate) fn the_recorded_answers_are_karmadas() {
    let karmadactl = judge().unwrap();
    let results = Results::recorded();
    let kinds = Kinds::load_dir(&roots()[1]).unwrap().federated;
    // Karmada runs no script of another kind than the object's.
    let is_of = |kind: &&FederatedKind| results.observed["kind"] == kind.resource.kind;
    let kind = kinds.iter().find(is_of).unwrap();
    let dir = Scratch::new();
    let ask = |case: Case| {
        let mut kind = kind.clone();
        kind.interpreter.scripts = vec![("statusReflection".to_owned(), case.script.as_str().into())];
        ask_karmada(&karmadactl, &kind, &case, &dir.0)
    };
    let mut wrong = results.differences(ask);
    for (script, expected) in probes() {
        let status = ask(reflection(script, results.observed.clone())).unwrap();
        wrong.extend(differences(&expected, &status));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The lines that the gateway adds to the scripts of a kind whose objects live at one member have the same effect in Karmada.
fn takes_the_uid_of_a_members_object_along(karmadactl: &Path, dir: &Path) {
    let (key, deleted) = (keys::UID_AT_MEMBER, keys::DELETED_AT_MEMBER);
    let time = "2026-01-01T00:00:00Z";
    let mut asked = 0;
    let kinds = roots().map(|root| Kinds::load_dir(&root).unwrap().federated);
    for kind in kinds.iter().flatten().filter(|kind| kind.is_exactly_one()) {
        let (resource, scripts) = (&kind.resource, &kind.interpreter.scripts);
        let object = json!({"apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": "example", "namespace": "default", "uid": "m-1", "deletionTimestamp": time}, "status": {"phase": "Ready"}});
        for (operation, wanted) in [
            (Operation::StatusReflection, [json!("m-1"), json!(time)]),
            (Operation::StatusAggregation, [Value::Null, Value::Null]),
        ] {
            let Some((_, script)) = scripts.iter().find(|(of, _)| of == operation.key()) else {
                continue;
            };
            let mut case = reflection(script.to_string(), object.clone());
            if operation == Operation::StatusAggregation {
                let reported = json!({"phase": "Ready", key: "m-1", deleted: time});
                case.items = vec![json!({"clusterName": "dfw-1", "applied": true, "status": reported})];
            }
            case.operation = operation;
            let ours = case.evaluate(&Host::new()).unwrap();
            let theirs = ask_karmada(karmadactl, kind, &case, dir).unwrap();
            assert_eq!(ours, theirs, "{} {operation:?}", resource.api_version);
            let added = [key, deleted].map(|key| theirs[key].clone());
            assert_eq!(added, wanted, "{} {operation:?}", resource.api_version);
            asked += 1;
        }
    }
    assert!(asked > 4, "{asked}");
}
