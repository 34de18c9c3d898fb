//! The folders of kinds, in the executable or on disk.

use super::LoadError;
use crate::folder_names;
use include_dir::{Dir, include_dir};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// The kinds that are built into the executable.
static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../interpreters");

/// The files in the folder of a kind, by name, without those in its subfolders.
pub(super) struct Folder {
    /// Path of the folder, for messages.
    pub(super) path: String,
    /// Names of the folder and of its two parents.
    pub(super) kind: String,
    pub(super) version: String,
    pub(super) group: String,
    pub(super) files: BTreeMap<String, String>,
}

/// The folders in the executable of the groups that `pick` wants.
pub(super) fn built_in(pick: impl Fn(&str) -> bool) -> Vec<Folder> {
    let mut folders = Vec::new();
    for group in BUILT_IN.dirs().filter(|group| pick(&last_name(group.path()))) {
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

/// The folders below a folder with the layout of `interpreters/`.
pub(super) fn below(dir: &Path) -> Result<Vec<Folder>, LoadError> {
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
    Ok(folders)
}

/// The folder itself if it is that of a kind, else those below it.
pub(super) fn at_or_below(dir: &Path) -> Result<Vec<Folder>, LoadError> {
    if !dir.join("kind.yaml").is_file() {
        return below(dir);
    }
    let [group, version, kind] = folder_names(dir).map_err(unreadable(dir))?;
    Ok(vec![Folder {
        path: dir.display().to_string(),
        kind,
        version,
        group,
        files: texts(dir)?,
    }])
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
