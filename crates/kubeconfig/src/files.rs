//! The files that kubectl reads, merged.

use crate::{
    LoadError,
    document::{LISTS, document, entries},
};
use serde_json::{Value, json};
use std::{
    io,
    path::{MAIN_SEPARATOR, Path, PathBuf},
};
use tokio::fs;

/// Names of the contexts that [`crate::load`] would choose from.
pub async fn contexts(path: Option<&Path>) -> Result<Vec<String>, LoadError> {
    let document = read(path).await?;
    let names = entries(&document, "contexts").filter_map(|item| item["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The content of a file that a kubeconfig names.
pub(crate) async fn bytes(path: &Path) -> Result<Vec<u8>, LoadError> {
    let path = path.to_owned();
    fs::read(&path)
        .await
        .map_err(|cause| LoadError::Unreadable { path, cause })
}

/// The kubeconfig of one file, or all of `KUBECONFIG`, or that of the home directory. Paths in it are absolute or relative to
/// the working directory.
pub(crate) async fn read(path: Option<&Path>) -> Result<Value, LoadError> {
    let path = path.filter(|path| !path.as_os_str().is_empty());
    let files = path.map_or_else(listed, |path| vec![path.to_owned()]);
    let mut merged = None;
    for file in &files {
        let text = match bytes(file).await {
            // A list may name files that do not exist yet.
            Err(LoadError::Unreadable { cause, .. })
                if path.is_none() && cause.kind() == io::ErrorKind::NotFound =>
            {
                continue;
            }
            read => read?,
        };
        let mut next = document(&text).map_err(|cause| LoadError::Malformed {
            file: file.display().to_string(),
            cause,
        })?;
        make_absolute(&mut next, file.parent().unwrap_or(Path::new("")));
        merge(merged.get_or_insert_with(|| json!({})), &next);
    }
    merged.ok_or(LoadError::NoFile)
}

fn listed() -> Vec<PathBuf> {
    let variable = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::env::split_paths(&variable).collect();
    files.retain(|file| !file.as_os_str().is_empty());
    if files.is_empty() {
        files.extend(std::env::home_dir().map(|home| home.join(".kube/config")));
    }
    files
}

fn make_absolute(document: &mut Value, folder: &Path) {
    let join = |value: Option<&mut Value>| {
        if let Some(Value::String(text)) = value
            && !text.is_empty()
        {
            *text = folder.join(&text).to_string_lossy().into_owned();
        }
    };
    for (list, field) in LISTS {
        for item in document[list].as_array_mut().into_iter().flatten() {
            let section = &mut item[field];
            for name in [
                "certificate-authority",
                "client-certificate",
                "client-key",
                "tokenFile",
            ] {
                join(section.get_mut(name));
            }
            // A command without a separator is looked for in PATH.
            let command = section.pointer_mut("/exec/command");
            join(
                command.filter(|command| command.as_str().is_some_and(|text| text.contains(MAIN_SEPARATOR))),
            );
        }
    }
}

/// Adds what `merged` does not have: the first file to name an entry counts.
fn merge(merged: &mut Value, next: &Value) {
    for (list, _) in LISTS {
        let known: Vec<Value> = entries(merged, list).map(|item| item["name"].clone()).collect();
        let new = entries(next, list).filter(|item| !known.contains(&item["name"]));
        let all: Vec<Value> = entries(merged, list).chain(new).cloned().collect();
        merged[list] = Value::Array(all);
    }
    if merged["current-context"].as_str().is_none_or(str::is_empty) {
        merged["current-context"] = next["current-context"].clone();
    }
}
