//! The folders of kinds on disk: their places, their names and their files.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// The file that describes a kind.
pub(crate) const KIND_FILE: &str = "kind.yaml";

/// The fault of a kind's folder without it.
pub(crate) const NO_KIND_FILE: &str = "there is no such file; a kind's folder needs it (docs/kinds.md)";

/// The files in the folder of a kind, by name, without those in its subfolders.
pub(crate) struct Folder {
    /// Path of the folder, for messages.
    pub(crate) path: String,
    /// Names of the folder and of its two parents.
    pub(crate) kind: String,
    pub(crate) version: String,
    pub(crate) group: String,
    pub(crate) files: BTreeMap<String, String>,
}

/// An error of finding the folders of kinds.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A folder or file cannot be read.
    #[error("cannot read {path}: {error}; give a folder of the form <group>/<version>/<Kind>/kind.yaml")]
    Read {
        /// Path of the folder or file.
        path: String,
        /// The I/O error; no source of this error, since the message has its text.
        error: io::Error,
    },
    /// A kind is at a place that the layout does not have.
    #[error("{file} is not at <group>/<version>/<Kind>/kind.yaml below {dir}; give {wanted}")]
    Layout {
        /// Path of the kind's file.
        file: String,
        /// The folder that was given.
        dir: String,
        /// The folders that fit.
        wanted: &'static str,
    },
}

/// Group, version and kind that a kind's folder and its parents name; the full path has them even if `dir` is relative.
///
/// # Errors
///
/// If the folder is not there.
pub fn folder_names(dir: &Path) -> io::Result<[String; 3]> {
    let full = dir.canonicalize()?;
    let mut names = full.iter().rev().map(|name| name.to_string_lossy().into_owned());
    let mut name = || names.next().unwrap_or_default();
    let (kind, version, group) = (name(), name(), name());
    Ok([group, version, kind])
}

/// Levels of the layout `<group>/<version>/<Kind>`.
const LEVELS: usize = 3;

/// The places of kinds that a load accepts, relative to the folder that it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Kinds at `<group>/<version>/<Kind>`.
    Groups,
    /// The same, or the folder of one kind.
    GroupsOrKind,
    /// Kinds at any depth, or the folder of one kind.
    Any,
}

impl Layout {
    fn has(self, level: usize) -> bool {
        match self {
            Self::Groups => level == LEVELS,
            Self::GroupsOrKind => level == LEVELS || level == 0,
            Self::Any => true,
        }
    }

    /// The folders that fit, for messages.
    fn wanted(self) -> &'static str {
        match self {
            Self::Groups => "the folder that holds <group>",
            Self::GroupsOrKind | Self::Any => "the folder that holds <group>, or that of one kind",
        }
    }
}

/// The folders of kinds at or below a folder. A folder at the place of a kind without a `kind.yaml` is among them: its
/// content is refused.
///
/// # Errors
///
/// If a folder or file cannot be read, or if a kind is at a place that the layout does not have.
pub(crate) fn find(dir: &Path, layout: Layout) -> Result<Vec<Folder>, FolderError> {
    // A gateway does not search a whole disk because of a wrong flag.
    let deepest = if layout == Layout::Any { usize::MAX } else { LEVELS };
    let mut found = Vec::new();
    search(dir, 0, deepest, &mut found)?;
    if let Some((_, kind)) = found.iter().find(|(level, _)| !layout.has(*level)) {
        return Err(FolderError::Layout {
            file: kind.join(KIND_FILE).display().to_string(),
            dir: dir.display().to_string(),
            wanted: layout.wanted(),
        });
    }
    found.iter().map(|(level, kind)| open(*level, kind)).collect()
}

fn search(
    dir: &Path,
    level: usize,
    deepest: usize,
    found: &mut Vec<(usize, PathBuf)>,
) -> Result<(), FolderError> {
    if dir.join(KIND_FILE).is_file() {
        found.push((level, dir.to_owned()));
        return Ok(());
    }
    let before = found.len();
    if level < deepest {
        for below in subfolders(dir)? {
            search(&below, level + 1, deepest, found)?;
        }
    }
    if level == LEVELS && found.len() == before {
        found.push((level, dir.to_owned()));
    }
    Ok(())
}

fn open(level: usize, dir: &Path) -> Result<Folder, FolderError> {
    let [group, version, kind] = if level < LEVELS {
        folder_names(dir).map_err(unreadable(dir))?
    } else {
        // Not those of the full path: a folder of the layout may be a link to one with another name.
        let mut names = dir.ancestors().map(last_name);
        let mut name = || names.next().unwrap_or_default();
        let (kind, version, group) = (name(), name(), name());
        [group, version, kind]
    };
    Ok(Folder {
        path: dir.display().to_string(),
        kind,
        version,
        group,
        files: texts(dir)?,
    })
}

pub(crate) fn last_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.display().to_string();
    move |error| FolderError::Read { path, error }
}

/// The subfolders of a folder, sorted; hidden subfolders are skipped.
fn subfolders(dir: &Path) -> Result<Vec<PathBuf>, FolderError> {
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

fn texts(dir: &Path) -> Result<BTreeMap<String, String>, FolderError> {
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
