//! The folders of kinds on disk: their places, their names and their files.

use crate::LoadError;
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

impl Folder {
    /// The Lua files: name and text.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = (&String, &String)> {
        let is_script = |name: &str| Path::new(name).extension().is_some_and(|end| end == "lua");
        self.files.iter().filter(move |(name, _)| is_script(name))
    }
}

/// Levels of the layout `<group>/<version>/<Kind>`.
const LEVELS: usize = 3;

/// The folders of kinds at or below a folder, which is one kind's own, or holds the groups or a part of the layout below them.
/// A folder at the place of a kind without a `kind.yaml` is among them: its content is refused.
///
/// # Errors
///
/// If a folder or file cannot be read.
pub(crate) fn find(dir: &Path) -> Result<Vec<Folder>, LoadError> {
    let mut found = Vec::new();
    search(dir, 0, &mut found)?;
    found.iter().map(|(level, kind)| open(*level, kind)).collect()
}

fn search(dir: &Path, level: usize, found: &mut Vec<(usize, PathBuf)>) -> Result<(), LoadError> {
    // A gateway does not search a whole disk because of a wrong flag.
    if level == LEVELS || dir.join(KIND_FILE).is_file() {
        found.push((level, dir.to_owned()));
        return Ok(());
    }
    subfolders(dir)?
        .iter()
        .try_for_each(|below| search(below, level + 1, found))
}

fn open(level: usize, dir: &Path) -> Result<Folder, LoadError> {
    // The full path has all three names, and the layout has its own: a folder of it may be a link to one with another name.
    let full = if level < LEVELS {
        dir.canonicalize().map_err(unreadable(dir))?
    } else {
        dir.to_owned()
    };
    let mut names = full.ancestors().map(last_name);
    let mut name = || names.next().unwrap_or_default();
    let (kind, version, group) = (name(), name(), name());
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

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> LoadError {
    let path = path.display().to_string();
    move |error| LoadError::Folder { path, error }
}

/// The subfolders of a folder, sorted; hidden subfolders are skipped.
fn subfolders(dir: &Path) -> Result<Vec<PathBuf>, LoadError> {
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
