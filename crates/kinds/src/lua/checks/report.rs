//! The report of a check of interpreter folders.

use crate::folder::{Folder, find};
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// A fault in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path of the file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The fault and its repair; further lines may hold a diff.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Number of cases that ran, or of files that were checked.
    pub checked: usize,
    /// All faults, sorted by file and line.
    pub findings: Vec<Finding>,
}

impl Report {
    /// True if the check found no fault.
    pub fn is_ok(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn add(&mut self, file: &Path, line: usize, message: impl Into<String>) {
        self.findings.push(Finding {
            file: file.display().to_string(),
            line: line.max(1),
            message: message.into(),
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings
            .iter()
            .try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

/// Finds the folders of kinds at or below `dir`, as a load does; none, and a file that cannot be read, become findings.
pub(super) fn folders(dir: &Path, report: &mut Report) -> Vec<Folder> {
    match find(dir) {
        Ok(found) if found.is_empty() => {
            let why = "holds no kind; a kind is a folder <group>/<version>/<Kind> with a kind.yaml";
            report.add(dir, 1, why);
            found
        }
        Ok(found) => found,
        Err(error) => {
            report.add(dir, 1, error.to_string());
            Vec::new()
        }
    }
}

/// The case files of a kind's folder: path to text. What cannot be read becomes a finding.
pub(super) fn case_files(folder: &Folder, report: &mut Report) -> BTreeMap<PathBuf, String> {
    let testdata = Path::new(&folder.path).join("testdata");
    if !testdata.is_dir() {
        return BTreeMap::new();
    }
    files(&testdata, "yaml").unwrap_or_else(|error| {
        report.add(&testdata, 1, format!("cannot be read: {error}"));
        BTreeMap::new()
    })
}

fn files(dir: &Path, extension: &str) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            let text = fs::read_to_string(&path)?;
            found.insert(path, text);
        }
    }
    Ok(found)
}
