//! Loads the folders of kinds, from the executable or from disk.

use super::{
    CompanionKind, Companions, FederatedKind, Interpreter, Origin, Placement, Query, Reference, StatusRules,
    WriteBack,
    file::{self, CompanionsFile, KindFile, KindName, WriteBackFile},
};
use crate::lua::{self, Operation};
use fedgate_api::names;
use include_dir::{Dir, include_dir};
use kube::core::{ApiResource, GroupVersionKind};
use serde_saphyr::Spanned;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    sync::Arc,
};

/// The kinds that are built into the executable.
static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../interpreters");

/// An error of loading kinds, with the file, and the line if there is one.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A folder or file cannot be read.
    #[error("cannot read {path}: {source}; give a folder of the form <group>/<version>/<Kind>/kind.yaml")]
    Read {
        /// Path of the folder or file.
        path: String,
        /// The I/O error.
        source: io::Error,
    },
    /// The content is invalid.
    #[error("{file}:{line}: {message}")]
    Invalid {
        /// Path of the file; below `(built in)` for kinds in the executable.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The fault and its repair.
        message: String,
    },
}

impl LoadError {
    fn at(file: &str, line: u64, message: impl Into<String>) -> Self {
        Self::Invalid {
            file: file.to_owned(),
            line: line.max(1),
            message: message.into(),
        }
    }
}

/// The files in the folder of a kind, by name, without those in its subfolders.
struct Folder {
    /// Path of the folder, for messages.
    path: String,
    /// Names of the folder and of its two parents.
    kind: String,
    version: String,
    group: String,
    files: BTreeMap<String, String>,
}

impl FederatedKind {
    /// Loads the kinds in the executable.
    pub fn builtin() -> Result<Vec<Self>, LoadError> {
        let mut folders = Vec::new();
        for group in BUILT_IN.dirs() {
            for version in group.dirs() {
                for kind in version.dirs() {
                    let files = kind.files().filter_map(|file| {
                        Some((
                            file.path().file_name()?.to_str()?.to_owned(),
                            file.contents_utf8()?.to_owned(),
                        ))
                    });
                    folders.push(Folder {
                        path: format!("(built in)/{}", kind.path().display()),
                        kind: last_name(kind.path()),
                        version: last_name(version.path()),
                        group: last_name(group.path()),
                        files: files.collect(),
                    });
                }
            }
        }
        read_all(&folders)
    }

    /// Loads the kinds of a folder with the layout of `interpreters/`.
    pub fn load_dir(dir: &Path) -> Result<Vec<Self>, LoadError> {
        let mut folders = Vec::new();
        for group in subfolders(dir)? {
            for version in subfolders(&group)? {
                for kind in subfolders(&version)? {
                    folders.push(Folder {
                        path: kind.display().to_string(),
                        kind: last_name(&kind),
                        version: last_name(&version),
                        group: last_name(&group),
                        files: texts(&kind)?,
                    });
                }
            }
        }
        read_all(&folders)
    }

    /// Loads the built-in kinds and, if a folder is given, its kinds, and checks that they do not conflict.
    pub fn load(more: Option<&Path>) -> Result<Vec<Self>, LoadError> {
        let mut kinds = Self::builtin()?;
        if let Some(dir) = more {
            kinds.extend(Self::load_dir(dir)?);
        }
        check_together(&kinds)?;
        Ok(kinds)
    }
}

fn last_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> LoadError {
    let path = path.display().to_string();
    move |source| LoadError::Read { path, source }
}

/// The subfolders of a folder, sorted; hidden subfolders are skipped.
fn subfolders(dir: &Path) -> Result<Vec<std::path::PathBuf>, LoadError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable(dir))? {
        let path = entry.map_err(unreadable(dir))?.path();
        if path.is_dir() && !last_name(&path).starts_with('.') {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn texts(dir: &Path) -> Result<BTreeMap<String, String>, LoadError> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(unreadable(dir))? {
        let path = entry.map_err(unreadable(dir))?.path();
        let name = last_name(&path);
        if path.is_file() && !name.starts_with('.') {
            files.insert(name, fs::read_to_string(&path).map_err(unreadable(&path))?);
        }
    }
    Ok(files)
}

fn read_all(folders: &[Folder]) -> Result<Vec<FederatedKind>, LoadError> {
    let kinds = folders.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    check_together(&kinds)?;
    Ok(kinds)
}

/// Checks that kinds do not conflict: policies differ by prefix and interpreters by name, and all kinds use the same
/// label to select cells.
fn check_together(kinds: &[FederatedKind]) -> Result<(), LoadError> {
    for (i, kind) in kinds.iter().enumerate() {
        for other in &kinds[..i] {
            let fail = |line, message: String| Err(LoadError::at(&kind.origin.file, line, message));
            let there = &other.origin.file;
            if kind.resource.api_version == other.resource.api_version
                && kind.resource.kind == other.resource.kind
            {
                return fail(
                    1,
                    format!("{there} describes this kind already; remove one of the folders"),
                );
            }
            let (prefix, taken) = (&kind.placement.policy_prefix, &other.placement.policy_prefix);
            if prefix.starts_with(taken.as_str()) || taken.starts_with(prefix.as_str()) {
                let message = format!(
                    "policyPrefix {prefix:?} cannot be told from {taken:?} of {there}; choose one that neither begins \
                     with the other"
                );
                return fail(kind.origin.prefix_line, message);
            }
            if kind.placement.label != other.placement.label {
                let message = format!(
                    "label {:?} differs from {:?} of {there}; Karmada Clusters carry one label for their city, use the same",
                    kind.placement.label, other.placement.label
                );
                return fail(kind.origin.label_line, message);
            }
            if kind.interpreter.name == other.interpreter.name {
                let name = &kind.interpreter.name;
                return fail(
                    1,
                    format!("the interpreter's name {name:?} is taken by {there}; set interpreter.name"),
                );
            }
        }
    }
    Ok(())
}

fn read(folder: &Folder) -> Result<FederatedKind, LoadError> {
    let file = format!("{}/kind.yaml", folder.path);
    let Some(text) = folder.files.get("kind.yaml") else {
        let message = "there is no such file; a kind's folder needs it (docs/kinds.md)";
        return Err(LoadError::at(&file, 1, message));
    };
    let content: KindFile = serde_saphyr::from_str(text).map_err(|error| describe(&file, &error))?;
    let parts = Parts { file: &file };

    for (what, name) in [
        ("the group's folder", &folder.group),
        ("plural", &content.plural.value),
    ] {
        if !names::is_object_name(name) {
            let line = if what == "plural" {
                content.plural.referenced.line()
            } else {
                1
            };
            return Err(LoadError::at(
                &file,
                line,
                format!("{what} {name:?} is no lower-case DNS name"),
            ));
        }
    }
    let own = GroupVersionKind::gvk(&folder.group, &folder.version, &folder.kind);
    let name = match &content.interpreter {
        Some(interpreter) => parts.object_name("interpreter.name", &interpreter.name)?,
        None => folder.kind.to_lowercase(),
    };
    let placement = &content.placement;
    if !names::is_object_name(&format!("{}x", placement.policy_prefix.value)) {
        let message =
            "policyPrefix must begin an object name: lower-case letters, digits, '-' and '.', e.g. city-";
        return Err(LoadError::at(
            &file,
            placement.policy_prefix.referenced.line(),
            message,
        ));
    }
    if placement.label.value.is_empty() {
        let message = "label is empty; name the label of Karmada Clusters that holds the city code";
        return Err(LoadError::at(&file, placement.label.referenced.line(), message));
    }
    Ok(FederatedKind {
        resource: ApiResource::from_gvk_with_plural(&own, &content.plural.value),
        placement: Placement {
            path: parts.query(&placement.path)?,
            label: placement.label.value.clone(),
            policy_prefix: placement.policy_prefix.value.clone(),
        },
        origin: Origin {
            label_line: placement.label.referenced.line(),
            prefix_line: placement.policy_prefix.referenced.line(),
            file: file.clone(),
        },
        carried_annotations: content.carried_annotations,
        suspend_annotation: content.suspend_annotation,
        status: StatusRules {
            counters: content.status.counters,
            own_conditions: content.status.own_conditions,
        },
        companions: content
            .companions
            .map(|section| parts.companions(section))
            .transpose()?,
        write_back: content
            .write_back
            .map(|section| parts.write_back(section))
            .transpose()?,
        interpreter: Interpreter {
            name,
            scripts: scripts(folder)?,
        },
    })
}

/// Converts the sections of a file to the public types.
struct Parts<'a> {
    file: &'a str,
}

impl Parts<'_> {
    fn query(&self, text: &Spanned<String>) -> Result<Query, LoadError> {
        Query::parse(&text.value)
            .map_err(|error| LoadError::at(self.file, text.referenced.line(), error.to_string()))
    }

    fn object_name(&self, field: &str, text: &Spanned<String>) -> Result<String, LoadError> {
        if names::is_object_name(&text.value) {
            return Ok(text.value.clone());
        }
        let message = format!(
            "{field} {:?} is no object name: lower-case letters, digits, '-' and '.'",
            text.value
        );
        Err(LoadError::at(self.file, text.referenced.line(), message))
    }

    fn companions(&self, section: CompanionsFile) -> Result<Companions, LoadError> {
        let references = section.references.into_iter().map(|reference| {
            Ok(Reference {
                kind: match reference.kind {
                    KindName::ConfigMap => CompanionKind::ConfigMap,
                    KindName::Secret => CompanionKind::Secret,
                },
                path: self.query(&reference.path)?,
                name_field: reference.name_field,
                may_be_optional: reference.may_be_optional,
            })
        });
        Ok(Companions {
            references: references.collect::<Result<_, LoadError>>()?,
            expected_annotation: section.expected_annotation,
            error_annotation: section.error_annotation,
        })
    }

    fn write_back(&self, section: WriteBackFile) -> Result<WriteBack, LoadError> {
        let Some((group, version)) = section.api_version.value.split_once('/') else {
            let message =
                "apiVersion must be <group>/<version>: kinds of the core group are not written back";
            return Err(LoadError::at(
                self.file,
                section.api_version.referenced.line(),
                message,
            ));
        };
        let gvk = GroupVersionKind::gvk(group, version, &section.kind.value);
        let plural = self.object_name("writeBack.plural", &section.plural)?;
        Ok(WriteBack {
            resource: ApiResource::from_gvk_with_plural(&gvk, &plural),
            owner_label: section.owner_label,
            city_label: section.city_label,
            linking_labels: section.linking_labels,
            scale_paths: section
                .scale_paths
                .iter()
                .map(|path| self.query(path))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Describes serde's error and lists the allowed fields.
fn describe(file: &str, error: &serde_saphyr::Error) -> LoadError {
    let error = error.without_snippet();
    let line = error.location().map_or(1, |location| location.line());
    let message = match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown field {field:?}; allowed are {}", expected.join(", "))
        }
        serde_saphyr::Error::SerdeMissingField { field, .. } => {
            let sections: Vec<String> = file::sections()
                .iter()
                .filter(|(_, fields)| fields.contains(field))
                .map(|(section, fields)| format!("{section} has the fields {}", fields.join(", ")))
                .collect();
            format!("missing field {field:?}; {}", sections.join("; "))
        }
        other => {
            let sections: BTreeSet<&str> = file::sections()[0].1.iter().copied().collect();
            let top: Vec<&str> = sections.into_iter().collect();
            format!(
                "{other}; the file has the fields {} (docs/kinds.md)",
                top.join(", ")
            )
        }
    };
    LoadError::at(file, line, message)
}

/// The kind's scripts, sorted by key; each is parsed and must define its entry point.
fn scripts(folder: &Folder) -> Result<Vec<(String, Arc<str>)>, LoadError> {
    let mut scripts = Vec::new();
    for (name, text) in &folder.files {
        if Path::new(name)
            .extension()
            .is_none_or(|extension| extension != "lua")
        {
            continue;
        }
        let file = format!("{}/{name}", folder.path);
        let Some(operation) = Operation::of_file(name) else {
            let allowed: Vec<&str> = Operation::ALL.iter().map(|operation| operation.file()).collect();
            let message = format!(
                "no operation of Karmada has this file name; allowed are {}",
                allowed.join(", ")
            );
            return Err(LoadError::at(&file, 1, message));
        };
        lua::check_entry_point(text, operation)
            .map_err(|error| LoadError::at(&file, error.line().unwrap_or(1) as u64, error.to_string()))?;
        scripts.push((operation.key().to_owned(), text.as_str().into()));
    }
    scripts.sort();
    Ok(scripts)
}
