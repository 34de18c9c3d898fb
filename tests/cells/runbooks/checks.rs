//! The commands of the runbooks.

use regex::Regex;
use std::{collections::BTreeMap, path::Path};

/// The commands in `Check` of each runbook, by the alert.
pub(crate) fn checks() -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
    let files = std::fs::read_dir(folder).expect("there are runbooks");
    let span = Regex::new("`((?:fedgate|kubectl|examples/)[^`]*)`").expect("an expression");
    let read = |path: std::path::PathBuf| {
        let alert = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("read a runbook");
        let (_, steps) = text.split_once("## Check").expect("a heading");
        let (steps, _) = steps.split_once("## Act").expect("a heading");
        let words = |command: &str| command.split_whitespace().collect::<Vec<_>>().join(" ");
        let commands = span.captures_iter(steps).map(|found| words(&found[1]));
        (alert, commands.filter(|command| command.contains(' ')).collect())
    };
    files.map(|file| read(file.expect("a file").path())).collect()
}
