//! Loads kinds: those in the executable, the content of each (`content`, `sections`), and the checks between them
//! (`together`).

mod content;
mod describe;
mod sections;
mod together;

use super::{FederatedKind, PlatformKind};
use crate::folder::{self, Folder, last_name};
use content::Kind;
use include_dir::{Dir, include_dir};
use kube::core::ApiResource;
use std::{collections::BTreeSet, io, path::Path};

/// An error of loading kinds, with the file, and the line if there is one.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A folder or file cannot be read.
    #[error("cannot read {path}: {error}; give a folder of the form <group>/<version>/<Kind>/kind.yaml")]
    Folder {
        /// Path of the folder or file.
        path: String,
        /// The I/O error; no source of this error, since the message has its text.
        error: io::Error,
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
    /// No kind in the executable has this name.
    #[error("no kind in the executable is called {name:?}; there are {}", known.join(", "))]
    Unknown {
        /// The name, which should be of the form `<plural>.<group>`.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
}

impl LoadError {
    /// The flag of the command line that has the fault.
    pub fn flag(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "--builtin-kinds",
            Self::Folder { .. } | Self::Invalid { .. } => "--interpreters",
        }
    }

    fn at(file: &str, line: u64, message: impl Into<String>) -> Self {
        Self::Invalid {
            file: file.to_owned(),
            line: line.max(1),
            message: message.into(),
        }
    }
}

/// Kinds that were loaded together and do not conflict.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    /// The kinds that the gateway syncs between projects and hub.
    pub federated: Vec<FederatedKind>,
    /// The kinds that the gateway projects from the hub into the projects.
    pub platform: Vec<PlatformKind>,
}

impl FederatedKind {
    /// Loads the kinds in the executable that are federated by default.
    pub fn builtin() -> Result<Vec<Self>, LoadError> {
        Ok(Kinds::load(&[], None)?.federated)
    }
}

impl From<Vec<FederatedKind>> for Kinds {
    fn from(federated: Vec<FederatedKind>) -> Self {
        Self {
            federated,
            platform: Vec::new(),
        }
    }
}

impl Kinds {
    /// Loads the kinds that are federated by default, which come first, those in the executable that are named `<plural>.<group>`, and
    /// those of a folder, and checks that they do not conflict.
    pub fn load(named: &[String], dir: Option<&Path>) -> Result<Self, LoadError> {
        let mut kinds = Self::read(&built_in())?;
        let known: BTreeSet<String> = kinds.resources().map(name_of).collect();
        if let Some(name) = named.iter().find(|name| !known.contains(*name)) {
            return Err(LoadError::Unknown {
                name: name.clone(),
                known: known.into_iter().collect(),
            });
        }
        // A hub need not have the CRDs of other groups than ours.
        let is_default = |resource: &ApiResource| resource.group == fedgate_api::GROUP;
        let is_wanted = |resource: &ApiResource| is_default(resource) || named.contains(&name_of(resource));
        kinds.federated.retain(|kind| is_wanted(&kind.resource));
        kinds.federated.sort_by_key(|kind| !is_default(&kind.resource));
        kinds.platform.retain(|kind| is_wanted(&kind.resource));
        if let Some(dir) = dir {
            let own = Self::load_dir(dir)?;
            kinds.federated.extend(own.federated);
            kinds.platform.extend(own.platform);
        }
        together::check(&kinds)?;
        Ok(kinds)
    }

    /// Loads the kinds at or below a folder: one kind's own, or one with the layout of `interpreters/` or of a part of it.
    pub fn load_dir(dir: &Path) -> Result<Self, LoadError> {
        Self::read(&folder::find(dir)?)
    }

    fn read(folders: &[Folder]) -> Result<Self, LoadError> {
        let mut kinds = Self::default();
        for folder in folders {
            match content::read(folder)? {
                Kind::Federated(kind) => kinds.federated.push(*kind),
                Kind::Platform(kind) => kinds.platform.push(kind),
            }
        }
        together::check(&kinds)?;
        Ok(kinds)
    }

    /// The faults of the kinds of these folders: of each by itself, and of all together if there are none.
    #[cfg(feature = "checks")]
    pub(crate) fn faults(folders: &[Folder]) -> Vec<LoadError> {
        let faults: Vec<LoadError> = folders
            .iter()
            .filter_map(|folder| content::read(folder).err())
            .collect();
        if faults.is_empty() {
            Self::read(folders).err().into_iter().collect()
        } else {
            faults
        }
    }

    /// The resources of all kinds.
    fn resources(&self) -> impl Iterator<Item = &ApiResource> {
        let federated = self.federated.iter().map(|kind| &kind.resource);
        federated.chain(self.platform.iter().map(|kind| &kind.resource))
    }
}

fn name_of(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// The kinds that are built into the executable.
static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../interpreters");

/// The folders in the executable.
fn built_in() -> Vec<Folder> {
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
    folders
}
