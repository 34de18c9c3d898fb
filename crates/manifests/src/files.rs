//! Files of manifests and chart: written, and compared with those that are there.

use super::{GENERATED, ManifestError};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// A file with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path under the folder of all of them.
    pub path: String,
    /// Text of the file.
    pub text: String,
}

/// Writes every file under `dir`. Other files that exist there stay.
pub fn write(dir: &Path, files: &[File]) -> Result<(), ManifestError> {
    for file in files {
        let path = dir.join(&file.path);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(ManifestError::at(parent))?;
        fs::write(&path, &file.text).map_err(ManifestError::at(&path))?;
    }
    Ok(())
}

/// The paths, under `dir`, of files that differ from the generated files: changed, missing or no longer generated.
pub fn compare(dir: &Path, files: &[File]) -> Result<Vec<PathBuf>, ManifestError> {
    let mut wanted = BTreeMap::new();
    for file in files {
        wanted.insert(PathBuf::from(&file.path), &file.text);
    }
    let mut found = Vec::new();
    list(dir, &mut found).map_err(ManifestError::at(dir))?;
    let mut differing = Vec::new();
    for path in found {
        let text = fs::read_to_string(&path).map_err(ManifestError::at(&path))?;
        let relative = path.strip_prefix(dir).unwrap_or(&path).to_owned();
        let same = match wanted.remove(&relative) {
            Some(wanted) => *wanted == text,
            None => !text.starts_with(GENERATED),
        };
        if !same {
            differing.push(relative);
        }
    }
    differing.extend(wanted.into_keys());
    differing.sort();
    Ok(differing)
}

fn list(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}
