//! Interpreter scripts: every case in our host, the linter, and, where there is one, Karmada itself as the judge.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use fedgate::{
    kinds::FederatedKind,
    lua::{
        self, Host, LuaError, Operation, Report,
        cases::{Case, Expectation},
    },
};
use serde_json::{Value, json};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// The folders with kinds: those in the executable and the made-up one.
fn roots() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    [root.join("interpreters"), root.join("tests/kinds")]
}

fn assert_ok(report: &Report) {
    assert!(report.is_ok(), "\n{report}");
    assert!(report.checked > 0);
}

#[test]
fn every_case_holds_in_a_fresh_and_in_a_re_used_state() {
    for root in roots() {
        assert_ok(&lua::cases::run(&root));
    }
}

#[test]
fn a_case_that_fails_shows_its_line_and_a_diff() {
    let dir = Scratch::new();
    let kind = dir.0.join("example.com/v1/Gizmo");
    fs::create_dir_all(kind.join("testdata")).unwrap();
    fs::write(kind.join("kind.yaml"), "").unwrap();
    let script = "function ReflectStatus(o)
        local keys = {} for key in pairs(o.status) do keys[#keys + 1] = key end
        return {size = o.spec.size + 1, keys = keys} end";
    fs::write(kind.join("status-reflection.lua"), script).unwrap();
    fs::write(kind.join("retention.lua"), "function Retain(d) return d end").unwrap();
    let cases = "operation: statusReflection
cases:
- {name: grows, observed: {spec: {size: 1}, status: {}}, expect: {size: 3}}
- {name: one key, observed: {spec: {size: 1}, status: {a: 1}}, expect: {size: 2, keys: [a]}}
- {name: refused, observed: {spec: {}, status: {}}, error: arithmetic}
- {name: order, observed: {spec: {size: 1}, status: {a: 1, b: 2}}, expect: {size: 2, keys: [a, b]}}
";
    fs::write(kind.join("testdata/a.yaml"), cases).unwrap();
    fs::write(
        kind.join("testdata/b.yaml"),
        "operation: retention\ncases:\n- nome: x\n",
    )
    .unwrap();
    let report = lua::cases::run(&dir.0);
    let text = report
        .to_string()
        .replace(&format!("{}/example.com/v1/Gizmo/", dir.0.display()), "");
    assert_eq!((report.checked, report.findings.len()), (4, 4), "{text}");
    for part in [
        "retention.lua:1: has no cases",
        "testdata/a.yaml:3: grows (in a fresh state): the result differs",
        "-size: 3\n+size: 2",
        "testdata/a.yaml:6: order (",
        "testdata/b.yaml:3: unknown field",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn every_script_passes_the_linter() {
    for root in roots() {
        assert_ok(&lua::lint(&root));
    }
}

#[test]
fn the_made_up_kind_loads_beside_the_built_in_ones() {
    let kinds = FederatedKind::load(Some(&roots()[1])).unwrap();
    let gadget = kinds.iter().find(|kind| kind.resource.kind == "Gadget").unwrap();
    assert_eq!(gadget.placement.path.text(), "$.spec.where.city");
    let companions = gadget.companions.as_ref().unwrap();
    assert_eq!(companions.expected_annotation, None);
    let object = serde_json::json!({"spec": {"credentials": {"secretName": "panel"}}});
    let reference = &companions.references[0];
    assert_eq!(
        reference.path.first(&object).unwrap()[&reference.name_field],
        "panel"
    );
    assert!(gadget.write_back.is_none());
    assert_eq!(gadget.interpreter.scripts.len(), 4);
}

/// The executable that has the last word, if the environment names it.
fn judge() -> Option<PathBuf> {
    let bin = std::env::var_os("KARMADA_BIN_DIR");
    if bin.is_none() {
        println!(
            "NOT RUN: the comparison with karmadactl interpret; set KARMADA_BIN_DIR to the folder that holds it"
        );
    }
    bin.map(|bin| Path::new(&bin).join("karmadactl"))
}

/// A folder of its own for each test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("fedgate-interpret-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Karmada's own word on a case: what `karmadactl interpret` prints, reduced to the part that Karmada uses.
fn ask_karmada(karmadactl: &Path, kind: &FederatedKind, case: &Case, dir: &Path) -> Result<Value, LuaError> {
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let operation = match case.operation {
        Operation::ComponentResource => "interpretComponent",
        Operation::DependencyInterpretation => "interpretDependency",
        Operation::HealthInterpretation => "interpretHealth",
        Operation::ReplicaResource => "interpretReplica",
        Operation::ReplicaRevision => "reviseReplica",
        Operation::Retention => "retain",
        Operation::StatusAggregation => "aggregateStatus",
        Operation::StatusReflection => "interpretStatus",
    };
    let mut command = Command::new(karmadactl);
    command.arg("interpret").arg("--operation").arg(operation);
    command
        .arg("-f")
        .arg(write("interpreter.json", kind.interpreter_object().to_string()));
    command.arg("--desired-replica").arg(case.replicas.to_string());
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
        Operation::ReplicaResource | Operation::ComponentResource => Value::Array(results),
        // Go prints a list without items as null.
        Operation::DependencyInterpretation if results[0].is_null() => json!([]),
        _ => results[0].take(),
    })
}

/// The judge is optional: with `KARMADA_BIN_DIR`, `karmadactl interpret` has to agree on every case.
#[test]
fn karmada_agrees_on_every_case() {
    let Some(karmadactl) = judge() else { return };
    let dir = Scratch::new();
    let mut report = Report::default();
    let mut disagreements = Vec::new();
    for root in roots() {
        let kinds = FederatedKind::load_dir(&root).unwrap();
        for case in lua::cases::load(&root, &mut report) {
            let kind = kinds
                .iter()
                .find(|kind| case.object["kind"] == kind.resource.kind)
                .unwrap();
            let theirs = ask_karmada(&karmadactl, kind, &case, &dir.0);
            let difference = match (&case.expectation, &theirs) {
                // The two say the same in other words.
                (Expectation::Error(_), Err(_)) => None,
                _ => case.difference(&theirs),
            };
            let verdict = if difference.is_none() { "agrees" } else { "DIFFERS" };
            println!(
                "| {} | {} | {} | {verdict} |",
                kind.resource.kind,
                case.operation.key(),
                case.name
            );
            disagreements
                .extend(difference.map(|text| format!("{}:{}: {text}", case.file.display(), case.line)));
        }
    }
    assert!(report.is_ok(), "\n{report}");
    assert!(disagreements.is_empty(), "\n{}", disagreements.join("\n"));
}

/// One expression, and what Karmada's Lua makes of it.
#[derive(serde::Deserialize)]
struct Answer {
    lua: String,
    answer: String,
}

/// Scripts that evaluate the expressions, forty at a time: the status has one field per expression, by its number.
fn probes() -> Vec<(String, Vec<Answer>)> {
    let mut answers: Vec<Answer> = serde_json::from_str(include_str!("lua/karmada-answers.json")).unwrap();
    let mut scripts = Vec::new();
    while !answers.is_empty() {
        let rest = answers.split_off(answers.len().min(40));
        let mut script = include_str!("lua/probe.lua").to_owned();
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

#[test]
fn the_host_answers_as_karmada_did() {
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
        serde_json::from_str(include_str!("lua/karmada-results.json")).unwrap()
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
        replicas: 0,
        expectation: Expectation::Result(Value::Null),
    }
}

#[test]
fn the_host_encodes_results_as_karmada_did() {
    let wrong = Results::recorded().differences(|case| case.evaluate(&Host::new()));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Karmada's answers are recorded; with `KARMADA_BIN_DIR` the record itself is checked.
#[test]
fn the_recorded_answers_are_karmadas() {
    let Some(karmadactl) = judge() else { return };
    let kind = FederatedKind::load_dir(&roots()[1]).unwrap().remove(0);
    let dir = Scratch::new();
    let ask = |case: Case| {
        let mut kind = kind.clone();
        kind.interpreter.scripts = vec![("statusReflection".to_owned(), case.script.as_str().into())];
        ask_karmada(&karmadactl, &kind, &case, &dir.0)
    };
    let results = Results::recorded();
    let mut wrong = results.differences(ask);
    for (script, expected) in probes() {
        let status = ask(reflection(script, results.observed.clone())).unwrap();
        wrong.extend(differences(&expected, &status));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn an_aggregated_message_fits_the_schema_and_cuts_no_character() {
    let script = roots()[0].join("compute.datumapis.com/v1alpha/WorkloadDeployment/status-aggregation.lua");
    let script = fs::read_to_string(script).unwrap();
    let item = |cluster: &str, message: &str| {
        let available = json!({"type": "Available", "status": "False", "reason": "R", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        json!({"clusterName": cluster, "applied": true, "status": {"replicas": 1, "conditions": [available]}})
    };
    for (letter, count) in [("x", 32_768), ("é", 16_384), ("x", 10)] {
        let items = [item("a", &letter.repeat(count)), item("b", "short")];
        let desired = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
            "metadata": {"name": "web"}, "spec": {}});
        let result = Host::new().aggregate_status(&script, &desired, &items).unwrap();
        let message = result["status"]["conditions"][0]["message"].as_str().unwrap();
        let kept = message.strip_prefix("a: ").unwrap();
        assert!(message.len() <= 32_768 && message.len() >= 13.min(count));
        assert_eq!(kept, letter.repeat(kept.chars().count()));
    }
}
