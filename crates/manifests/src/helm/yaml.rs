//! `values.yaml`: the values of the chart with their defaults, for readers.

use super::{
    Flags,
    values::{self, Entry},
};
use crate::{GENERATED, ManifestError};
use serde_json::json;
use std::fmt::Write;

/// Width of a line of comment.
const WIDTH: usize = 110;

/// The file: each value with its meaning above it.
pub(super) fn of(flags: &Flags) -> Result<String, ManifestError> {
    let mut text = format!("{GENERATED}crates/manifests/src/helm/values.rs instead.\n");
    // A section's values are together, wherever they are made.
    let all = values::all(flags);
    let (inner, outer): (Vec<&Entry>, Vec<&Entry>) = all.iter().partition(|entry| entry.path.contains('.'));
    for entry in outer {
        text.push('\n');
        write_entry(entry, &mut text)?;
        let within = format!("{}.", entry.path);
        for entry in inner.iter().filter(|entry| entry.path.starts_with(&within)) {
            write_entry(entry, &mut text)?;
        }
    }
    Ok(text)
}

fn write_entry(entry: &Entry, text: &mut String) -> Result<(), ManifestError> {
    let depth = entry.path.matches('.').count() * 2;
    let name = entry.path.rsplit('.').next().unwrap_or(&entry.path);
    for line in wrapped(&entry.meaning) {
        let _ = writeln!(text, "{:depth$}# {line}", "");
    }
    match (&entry.default, &entry.schema) {
        (Some(default), _) => {
            let yaml = crate::to_yaml("values.yaml", &json!({name: default}))?;
            for line in yaml.lines() {
                let _ = writeln!(text, "{:depth$}{line}", "");
            }
        }
        (None, Some(_)) => {
            let _ = writeln!(text, "{:depth$}# {name}: []", "");
        }
        (None, None) => {
            let _ = writeln!(text, "{:depth$}{name}:", "");
        }
    }
    Ok(())
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
