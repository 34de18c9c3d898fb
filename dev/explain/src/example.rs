//! The object to explain: from a file, or from the cases beside the scripts.

use super::script_error;
use anyhow::{Context, anyhow};
use fedgate_api::yaml;
use fedgate_kinds::{
    FederatedKind,
    lua::{
        Operation,
        checks::{self, Report},
    },
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The namespace of the object in its project.
pub(super) const NAMESPACE: &str = "default";
/// The city of an object that names none.
const CITY: &str = "DFW";
/// The file with a kind's example.
const FILE: &str = "example.yaml";

/// An object, and what it refers to.
#[derive(Debug, Clone)]
pub(super) struct Example {
    pub(super) object: Value,
    /// The objects that it refers to.
    pub(super) sources: Vec<Value>,
    /// The status that a member reports; null without one.
    pub(super) status: Value,
    /// Its city.
    pub(super) city: String,
    /// Where it is from, and what was added to it.
    pub(super) origin: Vec<String>,
}

/// The example of a kind in its folder.
pub(super) fn find(kind: &FederatedKind, file: Option<&Path>) -> anyhow::Result<Example> {
    let folder = folder(kind);
    let beside = folder.join(FILE);
    let file = file
        .map(Path::to_owned)
        .or_else(|| beside.is_file().then_some(beside));
    let (documents, origin) = match &file {
        Some(file) => (read(file)?, format!("the object: {}", file.display())),
        None => of_cases(kind, &folder)?,
    };
    let is_it = |object: &&Value| is_of(kind, object);
    let object = documents.iter().find(is_it).cloned();
    let mut object = object.with_context(|| {
        let (resource, file) = (&kind.resource, file.unwrap_or(folder));
        let (file, kind, api_version) = (file.display(), &resource.kind, &resource.api_version);
        format!("{file} has no object of kind {kind} of {api_version}; give one as its first document")
    })?;
    let mut origin = vec![origin];
    object["metadata"]["namespace"] = json!(NAMESPACE);
    let status = object
        .as_object_mut()
        .and_then(|fields| fields.remove("status"))
        .unwrap_or_default();
    let city = place(kind, &mut object, &mut origin)?;
    let sources = sources(kind, &object, &documents, &mut origin);
    unnamed(kind, &documents, &sources, &mut origin);
    Ok(Example {
        object,
        sources,
        status,
        city,
        origin,
    })
}

/// Refuses scripts that fail for the object while it has less status than the example, as when it was just created.
pub(super) fn check_less_status(kind: &FederatedKind, example: &Example) -> anyhow::Result<()> {
    for mut case in checks::cases::load(&folder(kind), &mut Report::default()) {
        case.object.clone_from(&example.object);
        case.object["status"].clone_from(&example.status);
        let is_of_member =
            [Operation::StatusReflection, Operation::HealthInterpretation].contains(&case.operation);
        if let Some((lacks, error)) = case.failures_with_less_status().pop().filter(|_| is_of_member) {
            let lacks = format!(" ({lacks})");
            return Err(script_error(kind, case.operation, &error, &lacks));
        }
    }
    Ok(())
}

/// Reports the documents to which nothing refers.
fn unnamed(kind: &FederatedKind, given: &[Value], sources: &[Value], origin: &mut Vec<String>) {
    let own = given.iter().position(|object| is_of(kind, object));
    for (at, object) in given.iter().enumerate().filter(|(at, _)| Some(*at) != own) {
        let this = identity(object);
        let is_named = sources.iter().any(|source| identity(source) == this);
        let why = if !is_named {
            "nothing in the object names it"
        } else if given[..at].iter().any(|earlier| identity(earlier) == this) {
            "an earlier document is the same object"
        } else {
            continue;
        };
        let [api_version, of, name] = this.map(|value| value.as_str().unwrap_or("?"));
        origin.push(format!("not used: {of} {name} of {api_version}: {why}"));
    }
}

/// API version, kind and name.
fn identity(object: &Value) -> [&Value; 3] {
    [
        &object["apiVersion"],
        &object["kind"],
        &object["metadata"]["name"],
    ]
}

/// The folder of a kind that is on disk.
pub(super) fn folder(kind: &FederatedKind) -> PathBuf {
    let file = Path::new(&kind.origin.file);
    file.parent().unwrap_or(file).to_owned()
}

fn is_of(kind: &FederatedKind, object: &Value) -> bool {
    object["apiVersion"] == *kind.resource.api_version && object["kind"] == *kind.resource.kind
}

/// True if a file has an object of the kind.
pub(super) fn has_object_of(kind: &FederatedKind, file: &Path) -> anyhow::Result<bool> {
    Ok(read(file)?.iter().any(|object| is_of(kind, object)))
}

fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let unreadable = || format!("cannot read {}", file.display());
    let text = fs::read_to_string(file).with_context(unreadable)?;
    let documents = yaml::documents(&text).map_err(|error| anyhow!("{}", error.without_snippet()));
    let documents = documents.with_context(unreadable)?;
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

/// The first object of a case that has a spec.
fn of_cases(kind: &FederatedKind, folder: &Path) -> anyhow::Result<(Vec<Value>, String)> {
    let cases = checks::cases::load(folder, &mut Report::default());
    let mut fit = cases.into_iter().filter(|case| {
        let spec = case.object["spec"].as_object();
        is_of(kind, &case.object) && spec.is_some_and(|spec| !spec.is_empty())
    });
    let case = fit.next().with_context(|| {
        let (kind, file) = (&kind.resource.kind, folder.join(FILE));
        let file = file.display();
        format!("there is no object of kind {kind} to explain: write one into {file}, or give --object FILE")
    })?;
    let mut object = case.object;
    let name = object["metadata"]["name"].clone();
    object["metadata"] = json!({"name": name});
    let file = case.file.display();
    Ok((
        vec![object],
        format!("the object: that of case {:?} in {file}", case.name),
    ))
}

/// The city that the object names; one that names none gets one, if its path is that of a single field.
fn place(kind: &FederatedKind, object: &mut Value, origin: &mut Vec<String>) -> anyhow::Result<String> {
    let path = &kind.placement.path;
    let found = path.first(object).and_then(Value::as_str);
    if let Some(city) = found {
        return Ok(city.to_owned());
    }
    let fields = path.members().with_context(|| {
        let path = path.text();
        format!(
            "the object names no city at {path} (placement.path of kind.yaml); give --object FILE with one that does"
        )
    })?;
    let mut at = &mut *object;
    for field in fields {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[field];
    }
    *at = json!(CITY);
    origin.push(format!("added to it: {} = {CITY}", path.text()));
    Ok(CITY.to_owned())
}

/// The objects that the object names: those given, and for each other name one that is made up.
fn sources(kind: &FederatedKind, object: &Value, given: &[Value], origin: &mut Vec<String>) -> Vec<Value> {
    let references = kind.companions.iter().flat_map(|section| &section.references);
    let mut sources: Vec<Value> = Vec::new();
    for reference in references {
        let resource = &reference.resource;
        for found in reference.path.all(object) {
            let value = reference.name_field.as_ref().map_or(found, |field| &found[field]);
            let Some(name) = value.as_str() else { continue };
            let wanted = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}});
            let is_it = |one: &Value| identity(one) == identity(&wanted);
            if sources.iter().any(is_it) {
                continue;
            }
            let mut source = given.iter().find(|one| is_it(one)).cloned().unwrap_or_else(|| {
                origin.push(format!("made up: {} {name}", resource.kind));
                wanted.clone()
            });
            source["metadata"]["namespace"] = json!(NAMESPACE);
            sources.push(source);
        }
    }
    sources
}
