//! The names that the folder of a kind and its parents give it.

use std::{io, path::Path};

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
