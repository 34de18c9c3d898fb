//! The content of a kind's folder: its file, by the schema that it asks for, and its scripts.

use super::{
    LoadError,
    describe::{describe, describe_unread},
    sections::Parts,
};
use crate::{
    Cardinality, FederatedKind, Interpreter, Origin, PlatformKind,
    file::{Head, Schema, kind, platform},
    folder::{Folder, KIND_FILE, NO_KIND_FILE},
    lua::{self, Operation},
};
use fedgate_api::{names, yaml};
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_saphyr::Spanned;
use std::sync::Arc;

/// The content of a folder.
pub(super) enum Kind {
    Federated(Box<FederatedKind>),
    Platform(PlatformKind),
}

pub(super) fn read(folder: &Folder) -> Result<Kind, LoadError> {
    let file = format!("{}/{KIND_FILE}", folder.path);
    let Some(text) = folder.files.get(KIND_FILE) else {
        return Err(LoadError::at(&file, 1, NO_KIND_FILE));
    };
    match schema(&file, text)? {
        Schema::Federated => {
            let content = parse(&file, Schema::Federated, text)?;
            federated(folder, file, content)
        }
        Schema::Platform => {
            let content = parse(&file, Schema::Platform, text)?;
            of_platform(folder, file, content)
        }
    }
}

fn parse<T: DeserializeOwned>(file: &str, schema: Schema, text: &str) -> Result<T, LoadError> {
    yaml::read(text).map_err(|error| describe(file, schema, &error))
}

/// The schema that a file asks for by its scope.
fn schema(file: &str, text: &str) -> Result<Schema, LoadError> {
    let head: Head = yaml::read(text).map_err(|error| describe_unread(file, &error))?;
    let Some(scope) = head.scope else {
        return Ok(Schema::Federated);
    };
    match scope.value.as_str() {
        Some("Namespaced") => Ok(Schema::Federated),
        Some("Cluster") => Ok(Schema::Platform),
        _ => {
            let message = format!(
                "scope {} is unknown; allowed are Namespaced, Cluster",
                scope.value
            );
            Err(LoadError::at(file, scope.referenced.line(), message))
        }
    }
}

/// The kind that a folder names, with the plural of its file.
fn resource(file: &str, folder: &Folder, plural: &Spanned<String>) -> Result<ApiResource, LoadError> {
    for (what, name, line) in [
        ("the group's folder", &folder.group, 1),
        ("plural", &plural.value, plural.referenced.line()),
    ] {
        if !names::is_object_name(name) {
            let message = format!("{what} {name:?} is no lower-case DNS name");
            return Err(LoadError::at(file, line, message));
        }
    }
    // With a folder of the layout missing or too many, a group would be taken for a version.
    if !names::is_object_name(&folder.version) || folder.version.contains('.') {
        let message = format!(
            "the version's folder {:?} is no version of an API; a kind's folder is <group>/<version>/<Kind>",
            folder.version
        );
        return Err(LoadError::at(file, 1, message));
    }
    let own = GroupVersionKind::gvk(&folder.group, &folder.version, &folder.kind);
    Ok(ApiResource::from_gvk_with_plural(&own, &plural.value))
}

fn federated(folder: &Folder, file: String, content: kind::KindFile) -> Result<Kind, LoadError> {
    let resource = resource(&file, folder, &content.plural)?;
    let cardinality = content.placement.cardinality.unwrap_or_default();
    let parts = Parts {
        file: &file,
        cardinality,
    };
    let name = match &content.interpreter {
        Some(interpreter) => parts.object_name("interpreter.name", &interpreter.name)?,
        None => folder.kind.to_lowercase(),
    };
    let label_line = content.placement.label.referenced.line();
    let prefix_line = content.placement.policy_prefix.referenced.line();
    let returns = parts.returns(content.returns, &resource)?;
    let kind = FederatedKind {
        resource,
        placement: parts.placement(content.placement)?,
        carried_annotations: content.carried_annotations,
        suspend_annotation: content.suspend_annotation,
        suspension: parts.suspension(content.suspension.as_ref())?,
        status: parts.status(content.status)?,
        companions: content
            .companions
            .map(|section| parts.companions(section))
            .transpose()?,
        write_back: content
            .write_back
            .map(|section| parts.write_back(section))
            .transpose()?,
        deletion: parts.deletion(content.deletion)?,
        returns,
        interpreter: Interpreter {
            name,
            scripts: scripts(folder, cardinality)?,
        },
        origin: Origin {
            file,
            label_line,
            prefix_line,
        },
    };
    Ok(Kind::Federated(Box::new(kind)))
}

fn of_platform(folder: &Folder, file: String, content: platform::KindFile) -> Result<Kind, LoadError> {
    let resource = resource(&file, folder, &content.plural)?;
    if let Some((script, _)) = folder.scripts().next() {
        let message = "a kind with scope: Cluster has no scripts: it is not interpreted; remove the file";
        return Err(LoadError::at(&format!("{}/{script}", folder.path), 1, message));
    }
    let parts = Parts {
        file: &file,
        cardinality: Cardinality::All,
    };
    let selector = parts.selector(content.platform.selector)?;
    Ok(Kind::Platform(PlatformKind {
        resource,
        selector,
        origin: file,
    }))
}

/// A script as Karmada gets it. Of an object that lives at one member the binding has the UID of the member's object beside the
/// status, and the copy does not.
fn deployed(text: &str, operation: Operation, cardinality: Cardinality) -> Arc<str> {
    let more = match (operation, cardinality) {
        (Operation::StatusReflection, Cardinality::ExactlyOne) => include_str!("../lua/uid/reflection.lua"),
        (Operation::StatusAggregation, Cardinality::ExactlyOne) => include_str!("../lua/uid/aggregation.lua"),
        _ => return text.into(),
    };
    format!("{}\n\n{more}", text.trim_end()).into()
}

/// The kind's scripts, sorted by key; each is parsed and must define its entry point.
fn scripts(folder: &Folder, cardinality: Cardinality) -> Result<Vec<(String, Arc<str>)>, LoadError> {
    let mut scripts = Vec::new();
    for (name, text) in folder.scripts() {
        let file = format!("{}/{name}", folder.path);
        let refuse = |message: String| Err(LoadError::at(&file, 1, message));
        let allowed = |but: Option<Operation>| {
            let operations = Operation::ALL.iter().filter(|operation| Some(**operation) != but);
            let files: Vec<&str> = operations.map(|operation| operation.file()).collect();
            files.join(", ")
        };
        let Some(operation) = Operation::of_file(name) else {
            return refuse(format!(
                "no operation has this file name; allowed are {}",
                allowed(None)
            ));
        };
        if operation == Operation::DependencyInterpretation && cardinality == Cardinality::ExactlyOne {
            return refuse(format!(
                "with cardinality: exactlyOne the gateway delivers the companions itself, remove the file; allowed are {}",
                allowed(Some(operation))
            ));
        }
        let deployed = deployed(text, operation, cardinality);
        for script in [text, &*deployed] {
            lua::check_entry_point(script, operation)
                .map_err(|error| LoadError::at(&file, error.line().unwrap_or(1) as u64, error.to_string()))?;
        }
        scripts.push((operation.key().to_owned(), deployed));
    }
    scripts.sort();
    Ok(scripts)
}
