//! The pages of docs/reference are what the executable, the types and the metrics say, and docs/performance.md shows what the benches
//! measured. `make docs` writes them anew.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

mod performance;

use clap::CommandFactory;
use fedgate::commands::{self, DeveloperCommand};
use fedgate_api::conditions::{CONDITIONS, Reason};
use fedgate_engine::metrics::Metrics;
use fedgate_operations::{
    Answer, CellDetail, CellRow, ErrorAnswer, ErrorCode, Flows, Journal, Overview, Page, Planes,
    ProjectDetail, ProjectRow, Stuck, Trace,
    query::{LIMIT, MOST, SEARCH_LIMIT, TOP, TOP_MOST},
};
use regex::Regex;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder() -> PathBuf {
    root().join("docs/reference")
}

/// Compares a page, or writes it.
fn check(name: &str, text: &str) {
    let path = folder().join(name);
    if std::env::var_os("FEDGATE_WRITE_DOCS").is_some_and(|value| !value.is_empty()) {
        fs::write(path, text).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{} is out of date: run `make docs`",
        path.display()
    );
}

const SOURCES: &str = "Each flag may be given as an environment variable instead; a flag wins.";

#[test]
fn the_flags_are_those_of_the_executable() {
    for (name, role, about) in [
        (
            "gateway.md",
            "gateway",
            "Carries projects' objects to the hub and back.",
        ),
        ("cell.md", "cell", "Runs the deployments of a cell as Instances."),
        (
            "returns.md",
            "returns",
            "Sends the Secrets that objects at a member name back to the hub.",
        ),
        (
            "provisioner.md",
            "provisioner",
            "Makes clusters cells of a city, as the Cells of the hub say.",
        ),
    ] {
        let flags = commands::role_flags(role);
        check(
            name,
            &format!("# `fedgate {role}`\n\n{about} {SOURCES}\n\n{flags}"),
        );
    }
}

#[test]
fn the_commands_are_those_of_the_executables() {
    let table = commands::other_commands(&[DeveloperCommand::command()]);
    let text = format!(
        "# Commands of operators and developers\n\n\
         The roles have pages of their own: [`fedgate gateway`](gateway.md), [`fedgate cell`](cell.md), \
         [`fedgate returns`](returns.md) and [`fedgate provisioner`](provisioner.md). Tenants use \
         [`kubectl compute`](compute/README.md).\n\n{table}"
    );
    check("commands.md", &text);
    // Commands of the program itself, such as the stand-ins' processes, are hidden.
    for row in [
        "| **`fedgate-sandbox prepare`** | | | Get the executables",
        "| `--project` | – | `alpha`, `beta` | A project plane; may be repeated. |",
    ] {
        assert!(table.contains(row), "{row} is missing in {table}");
    }
    for hidden in ["supervise", "standin", "`fedgate-sandbox hold`"] {
        assert!(!table.contains(hidden), "{table}");
    }
}

#[test]
fn the_metrics_are_those_that_are_served() {
    let text = format!(
        "# Metrics\n\n\
         Gateway and cell serve them at `http://<admin address>/metrics`, with the token of `--admin-token-file` if there is \
         one. No label has the name of a tenant or of an object.\n\n{}",
        Metrics::new().unwrap().markdown()
    );
    check("metrics.md", &text);
}

#[test]
fn the_alerts_are_those_of_the_rules() {
    let mut text = String::from(
        "# Alerts\n\n\
         The rules of `manifests/monitoring/alerts.yaml`. Each name leads to its runbook; \
         [monitoring.md](../operations/monitoring.md) says how they are wired.\n\n\
         | alert | severity | for | expression |\n|---|---|---|---|\n",
    );
    let rules = fs::read_to_string(root().join("manifests/monitoring/alerts.yaml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&rules).unwrap();
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        let field = |field: &Value| field.as_str().unwrap().to_owned();
        let name = field(&rule["alert"]);
        let severity = field(&rule["labels"]["severity"]);
        let expression = field(&rule["expr"]).replace('|', "\\|");
        let keep = rule["keep_firing_for"].as_str();
        let keep = keep
            .map(|keep| format!(", goes on for {keep}"))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "| [{name}](../runbooks/{name}.md) | {severity} | {}{keep} | `{expression}` |",
            field(&rule["for"])
        );
    }
    check("alerts.md", &text);
}

#[test]
fn the_conditions_are_those_of_the_types() {
    let mut text = String::from(
        "# Conditions and reasons\n\n\
         A condition that sums others up has the worst reason below it: the one with the highest priority. `Federated` is of \
         the project's WorkloadDeployment. Further kinds are those of [kinds.md](../kinds.md); reasons that only they have do not \
         compete.\n\n\
         | condition | reasons of True | reasons of False and Unknown |\n|---|---|---|\n",
    );
    let words = |reasons: &str| {
        let words: Vec<String> = reasons
            .split_whitespace()
            .map(|word| format!("`{word}`"))
            .collect();
        if words.is_empty() {
            "–".to_owned()
        } else {
            words.join(", ")
        }
    };
    for [condition, good, bad] in CONDITIONS.iter() {
        let _ = writeln!(text, "| {condition} | {} | {} |", words(good), words(bad));
    }
    text.push_str("\n| reason | priority | meaning |\n|---|---|---|\n");
    let mut reasons: Vec<&Reason> = Reason::ALL.iter().collect();
    reasons.sort_by_key(|reason| reason.as_str());
    for reason in reasons {
        let priority = reason
            .priority()
            .map_or_else(|| "–".to_owned(), |priority| priority.to_string());
        let _ = writeln!(text, "| `{reason}` | {priority} | {} |", reason.meaning());
    }
    check("conditions.md", &text);
}

/// A schema that may be null as that of its value.
fn present(schema: &Value) -> &Value {
    let is_null = |part: &&Value| part["type"] == "null";
    match schema["anyOf"].as_array().map(Vec::as_slice) {
        Some([value, null]) if is_null(&null) => value,
        _ => schema,
    }
}

/// A text as code; one without letters between quotation marks.
fn shown(text: &str) -> String {
    let text = if text.is_empty() { "\"\"" } else { text };
    format!("`{text}`")
}

/// The type of a field, or its values.
fn kind_of(schema: &Value) -> String {
    let schema = present(schema);
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    let text = |value: &Value| value.as_str().map(shown);
    let constants = schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["const"]);
    let values = schema["enum"].as_array().into_iter().flatten().chain(constants);
    let values: Vec<String> = values.filter_map(text).collect();
    if !values.is_empty() {
        return values.join(", ");
    }
    let types = schema["type"].as_array().into_iter().flatten();
    let single = types.filter_map(Value::as_str).find(|kind| *kind != "null");
    single.or(schema["type"].as_str()).unwrap_or_default().to_owned()
}

/// The type of a field; for a type of Kubernetes its name, since its fields are not ours to explain.
fn shown_kind(schema: &Value) -> String {
    let title = |schema: &Value| {
        let definition = schema["$ref"].as_str()?.strip_prefix("#/definitions/");
        definition.map(str::to_owned)
    };
    match (title(schema), title(&schema["items"])) {
        (Some(name), _) => format!("{name} of Kubernetes"),
        (None, Some(name)) => format!("array of {name} of Kubernetes"),
        (None, None) => kind_of(schema),
    }
}

/// Rows of a schema: each field by its path, with type, default and meaning.
fn fields(path: &str, schema: &Value, required: bool, table: &mut String) {
    if !path.is_empty() {
        let text = |key: &str| schema[key].as_str().unwrap_or_default();
        let kind = shown_kind(schema);
        let default = match &schema["default"] {
            Value::Null if required => "required".to_owned(),
            Value::Null => String::new(),
            Value::String(text) => shown(text),
            other => format!("`{other}`"),
        };
        let meaning = text("description").replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(table, "| `{path}` | {kind} | {default} | {meaning} |");
        if kind.ends_with(" of Kubernetes") {
            return;
        }
    }
    let is_required = |name: &str| {
        let all = schema["required"].as_array();
        all.is_some_and(|all| all.iter().any(|required| required == name))
    };
    let schema = present(schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        fields(&format!("{path}{dot}{name}"), field, is_required(name), table);
    }
    if present(&schema["items"])["properties"].is_object() {
        let items = &schema["items"];
        let mut below = String::new();
        fields("", items, false, &mut below);
        for row in below.lines() {
            let _ = writeln!(table, "{}", row.replacen("| `", &format!("| `{path}[]."), 1));
        }
    }
}

#[test]
fn the_definitions_are_those_of_the_types() {
    let mut text = String::from(
        "# Definitions\n\n\
         The fields of our kinds in `compute.datumapis.com/v1alpha`. The API server checks more than types: the rules are in \
         the definitions under `manifests/crds` and in the [contract](../contract/api.md).\n",
    );
    for definition in fedgate_api::crd::all().unwrap() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let _ = write!(
            text,
            "\n## {kind}\n\n| field | type | default | meaning |\n|---|---|---|---|\n"
        );
        for part in ["spec", "status"] {
            fields(part, &schema["properties"][part], false, &mut text);
        }
    }
    check("crds.md", &text);
}

#[test]
fn the_values_are_those_of_the_chart() {
    let schema = fs::read_to_string(root().join("charts/fedgate/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut table = String::from("| value | type | default | meaning |\n|---|---|---|---|\n");
    fields("", &schema, false, &mut table);
    for row in table.lines() {
        assert!(!row.ends_with("|  |"), "no meaning: {row}");
    }
    for row in [
        "| `planes` | array | required | What this release is for",
        "| `image.tag` | string | `\"\"` | Tag.",
        "| `gateway.flags.workers` | integer | `32` | How many keys",
        "| `cell.extraVolumes[].source.configMap` | ConfigMapVolumeSource of Kubernetes | ",
        "| `operator.subjects` | array of Subject of Kubernetes | `[]` | ",
    ] {
        assert!(table.contains(row), "{row} is missing in {table}");
    }
    assert!(!table.contains("affinity."), "{table}");
    check(
        "values.md",
        &format!(
            "# Values of the chart\n\n\
             The values of `charts/fedgate`; any other is refused, by its path. The default of a flag is that of the program. \
             [install.md](../operations/install.md) says which values an installation needs.\n\n{table}"
        ),
    );
}

/// Name and kind of an answer with its schema, written to a file of its own.
fn schema<T: JsonSchema>(name: &str, kind: &str) -> (String, Value) {
    let written = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>();
    let mut written = serde_json::to_value(written).unwrap();
    written["title"] = kind.into();
    check(
        &format!("operations-api/{name}.schema.json"),
        &format!("{written:#}\n"),
    );
    let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let inline = inline.into_generator().into_root_schema_for::<T>();
    (kind.to_owned(), serde_json::to_value(inline).unwrap())
}

#[test]
fn the_operations_api_is_that_of_the_routes_and_types() {
    let page = fs::read_to_string(folder().join("operations-api.md")).unwrap();
    let (of_requests, _) = page.split_once("\n## Every answer\n").unwrap();
    for (code, status) in [
        (ErrorCode::Invalid, 400),
        (ErrorCode::Unauthorized, 401),
        (ErrorCode::Forbidden, 403),
        (ErrorCode::NotFound, 404),
        (ErrorCode::MethodNotAllowed, 405),
        (ErrorCode::Expired, 410),
        (ErrorCode::Misdirected, 421),
        (ErrorCode::Busy, 429),
        (ErrorCode::Unavailable, 503),
    ] {
        assert_eq!(fedgate_admin::api::Refusal::new(code, "", "").status(), status);
        assert!(
            of_requests.contains(&format!("| {status} | `{code:?}` | ")),
            "{code:?}"
        );
    }
    for bound in [
        format!("rows of a page, 1 to {MOST}; default {LIMIT} |"),
        format!("rows before the sums, 1 to {TOP_MOST}; default {TOP} |"),
        format!("part of a name, at most {SEARCH_LIMIT} characters |"),
    ] {
        assert!(of_requests.contains(&bound), "{bound}");
    }
    let mut text = of_requests.to_owned();
    let schemas = [
        schema::<Answer<Overview>>("overview", "Overview"),
        schema::<Answer<Planes>>("planes", "Planes"),
        schema::<Answer<Page<ProjectRow>>>("projects", "Projects"),
        schema::<Answer<ProjectDetail>>("project", "Project"),
        schema::<Answer<Page<CellRow>>>("cells", "Cells"),
        schema::<Answer<CellDetail>>("cell", "Cell"),
        schema::<Answer<Flows>>("flows", "Flows"),
        schema::<Answer<Stuck>>("stuck", "Stuck"),
        schema::<Answer<Trace>>("trace", "Trace"),
        schema::<Answer<Journal>>("journal", "Journal"),
        schema::<ErrorAnswer>("error", "Error"),
    ];
    let table = |title: &str, schema: &Value, text: &mut String| {
        let _ = write!(
            text,
            "\n## {title}\n\n| field | type | default | meaning |\n|---|---|---|---|\n"
        );
        fields("", schema, false, text);
    };
    let of_all = ["apiVersion", "kind", "asOf", "complete", "missing", "replica"];
    let only = |mut schema: Value, is_header: bool| {
        let all = schema["properties"].as_object_mut().unwrap();
        all.retain(|name, _| of_all.contains(&name.as_str()) == is_header);
        schema
    };
    table("Every answer", &only(schemas[0].1.clone(), true), &mut text);
    for (kind, schema) in schemas {
        let is_error = kind == "Error";
        let shown = if is_error { schema } else { only(schema, false) };
        table(&kind, &shown, &mut text);
    }
    check("operations-api.md", &text);
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "sh")
        {
            found.push(path);
        }
    }
}

/// The variables that the sources read by themselves; those of flags are in the tables of flags.
#[test]
fn the_page_of_variables_has_those_that_are_read_and_no_others() {
    let mut files = Vec::new();
    for dir in ["src", "crates", "dev", "tests", "benches"] {
        sources(&root().join(dir), &mut files);
    }
    // `set` and `from_env` are the sources' own short words for reading a variable; a script reads one with a default.
    let read =
        Regex::new(r#"(?:\b(?:var|var_os|set|from_env)\("|\$\{)([A-Z][A-Z0-9_]+)(?:"\)|:[-+])"#).unwrap();
    let mut wanted = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        wanted.extend(read.captures_iter(&text).map(|found| found[1].to_owned()));
    }
    let text = fs::read_to_string(folder().join("environment.md")).unwrap();
    let row = Regex::new(r"(?m)^\| ([^|]+) \|").unwrap();
    let name = Regex::new("`([A-Z][A-Z0-9_]+)`").unwrap();
    let documented: BTreeSet<String> = row
        .captures_iter(&text)
        .flat_map(|cell| name.captures_iter(cell.get(1).map_or("", |c| c.as_str())))
        .map(|found| found[1].to_owned())
        .collect();
    assert_eq!(
        documented, wanted,
        "docs/reference/environment.md (left) and sources (right)"
    );
}

#[test]
fn the_readme_is_short_and_has_no_reference() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = text.lines().count();
    assert!(lines <= 200, "README.md has {lines} lines");
    assert!(
        !text.contains("| metric |") && !text.contains("| environment |"),
        "tables belong to docs/reference"
    );
}
