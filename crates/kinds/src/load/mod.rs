//! Loads kinds: those in the executable (`folders`), the content of each (`content`, `sections`), and the checks between them
//! (`together`).

mod content;
mod describe;
mod folders;
mod sections;
mod together;

use super::{FederatedKind, PlatformKind};
use crate::folder::{self, Folder, FolderError, Layout};
use content::Kind;
use kube::core::ApiResource;
use std::{collections::BTreeSet, path::Path};

/// An error of loading kinds, with the file, and the line if there is one.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folders of kinds cannot be found or read.
    #[error(transparent)]
    Folder(#[from] FolderError),
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
            Self::Folder(_) | Self::Invalid { .. } => "--interpreters",
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
        let kinds = Kinds::read(&folders::built_in(is_default))?;
        Ok(kinds.federated)
    }
}

/// Whether the kinds of a group are federated by default: a hub need not have the CRDs of other groups.
fn is_default(group: &str) -> bool {
    group == fedgate_api::GROUP
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
    /// Loads the kinds that are federated by default, those in the executable that are named `<plural>.<group>`, and
    /// those of a folder, and checks that they do not conflict.
    pub fn load(named: &[String], dir: Option<&Path>) -> Result<Self, LoadError> {
        let own = dir.map(Self::load_dir).transpose()?;
        Self::load_beside(named, own.unwrap_or_default())
    }

    /// The same with further kinds that are loaded already.
    pub fn load_beside(named: &[String], own: Self) -> Result<Self, LoadError> {
        let mut kinds = Self::read(&folders::built_in(is_default))?;
        let loaded: BTreeSet<String> = kinds.names().collect();
        let further: Vec<String> = named
            .iter()
            .filter(|name| !loaded.contains(*name))
            .cloned()
            .collect();
        kinds.extend(Self::builtin_named(&further)?);
        kinds.extend(own);
        together::check(&kinds)?;
        Ok(kinds)
    }

    /// Loads the kinds in the executable that are named `<plural>.<group>`.
    pub fn builtin_named(names: &[String]) -> Result<Self, LoadError> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        let mut kinds = Self::read(&folders::built_in(|_| true))?;
        let known: BTreeSet<String> = kinds.names().collect();
        if let Some(name) = names.iter().find(|name| !known.contains(*name)) {
            return Err(LoadError::Unknown {
                name: name.clone(),
                known: known.into_iter().collect(),
            });
        }
        let is_named = |resource: &ApiResource| names.contains(&name_of(resource));
        kinds.federated.retain(|kind| is_named(&kind.resource));
        kinds.platform.retain(|kind| is_named(&kind.resource));
        Ok(kinds)
    }

    /// Loads the kinds of a folder with the layout of `interpreters/`; a kind at another place is refused.
    pub fn load_dir(dir: &Path) -> Result<Self, LoadError> {
        Self::read(&folder::find(dir, Layout::Groups)?)
    }

    /// Loads the kind of a folder with a `kind.yaml`, else those below it as [`Kinds::load_dir`] does.
    pub fn load_dir_or_kind(dir: &Path) -> Result<Self, LoadError> {
        Self::read(&folder::find(dir, Layout::GroupsOrKind)?)
    }

    /// Loads the kinds at any depth at or below a folder; each is named by its folder and the two above.
    pub fn load_all_below(dir: &Path) -> Result<Self, LoadError> {
        Self::read(&folder::find(dir, Layout::Any)?)
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

    fn extend(&mut self, more: Self) {
        self.federated.extend(more.federated);
        self.platform.extend(more.platform);
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let federated = self.federated.iter().map(|kind| &kind.resource);
        federated
            .chain(self.platform.iter().map(|kind| &kind.resource))
            .map(name_of)
    }
}

fn name_of(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}
