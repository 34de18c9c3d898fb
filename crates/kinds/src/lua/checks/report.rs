//! The report of a check of interpreter folders.

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

/// The folder of a kind: `<group>/<version>/<Kind>` with a `kind.yaml`.
pub(super) struct KindFolder {
    pub(super) path: PathBuf,
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The Lua files: name to text.
    pub(super) scripts: BTreeMap<String, String>,
    /// The case files below `testdata`: path to text.
    pub(super) cases: BTreeMap<PathBuf, String>,
}

/// Finds the folders of kinds at or below `dir`; a file that cannot be read becomes a finding.
pub(super) fn kind_folders(dir: &Path, report: &mut Report) -> Vec<KindFolder> {
    let mut found = Vec::new();
    if let Err(error) = search(dir, &mut found) {
        let why = format!("cannot be read: {error}; give a folder of kinds or the folder of one kind");
        report.add(dir, 1, why);
    } else if found.is_empty() {
        report.add(
            dir,
            1,
            "holds no kind; a kind is a folder <group>/<version>/<Kind> with a kind.yaml",
        );
    }
    found
}

fn search(dir: &Path, found: &mut Vec<KindFolder>) -> io::Result<()> {
    if dir.join("kind.yaml").is_file() {
        found.push(open(dir)?);
        return Ok(());
    }
    let mut below = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            below.push(path);
        }
    }
    below.sort();
    below.iter().try_for_each(|path| search(path, found))
}

fn open(dir: &Path) -> io::Result<KindFolder> {
    let [group, version, kind] = crate::folder_names(dir)?;
    let scripts = files(dir, "lua")?.into_iter().map(|(path, text)| {
        (
            path.file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            text,
        )
    });
    let testdata = dir.join("testdata");
    Ok(KindFolder {
        api_version: format!("{group}/{version}"),
        kind,
        scripts: scripts.collect(),
        cases: if testdata.is_dir() {
            files(&testdata, "yaml")?
        } else {
            BTreeMap::new()
        },
        path: dir.to_owned(),
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
