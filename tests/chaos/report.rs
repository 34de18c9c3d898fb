//! What a run leaves behind: a summary for people, and one in JSON.

use crate::{compare::Difference, memory::Memory, replicas::HandOver};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// One run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) hub_controllers: String,
    pub(crate) load_seconds: u64,
    /// What tenants did, and how often.
    pub(crate) operations: BTreeMap<String, u64>,
    /// What the cells did.
    pub(crate) cells: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) hand_overs: Vec<HandOver>,
    pub(crate) objects: usize,
    pub(crate) converged_after_seconds: Option<f64>,
    pub(crate) memory_kib: Memory,
    /// What was not as it should be, each in words.
    pub(crate) failures: Vec<String>,
    pub(crate) differences: Vec<Difference>,
}

impl Report {
    pub(crate) fn holds(&self) -> bool {
        self.failures.is_empty() && self.differences.is_empty()
    }

    /// Adds a failure for each of `found`, a few of many.
    pub(crate) fn fail(&mut self, what: &str, found: &[String]) {
        const SHOWN: usize = 15;
        self.failures
            .extend(found.iter().take(SHOWN).map(|one| format!("{what}: {one}")));
        if found.len() > SHOWN {
            self.failures
                .push(format!("{what}: and {} more", found.len() - SHOWN));
        }
    }

    pub(crate) fn print(&self) {
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        println!("seed {}, hub controllers: {}", self.seed, self.hub_controllers);
        println!(
            "{} operations of tenants: {:?}",
            sum(&self.operations),
            self.operations
        );
        println!("{} actions of cells: {:?}", sum(&self.cells), self.cells);
        println!("{} faults: {:?}", sum(&self.faults), self.faults);
        for over in &self.hand_overs {
            let seconds = over.seconds.map_or("never".to_owned(), |s| format!("{s:.2} s"));
            let verdict = if over.holds { "holds" } else { "does not hold" };
            println!(
                "{} of the leader: {seconds} (figure {} s, {verdict})",
                over.blow, over.figure
            );
        }
        let memory = &self.memory_kib;
        println!(
            "memory: {:.1} MiB at first, {:.1} at its highest, {:.1} at the end, {} objects on all planes",
            mib(memory.first),
            mib(memory.peak),
            mib(memory.last),
            self.objects
        );
        match self.converged_after_seconds {
            Some(seconds) => println!("converged {seconds:.1} s after load and faults had ended"),
            None => println!("NOT converged"),
        }
        println!(
            "{} differences, {} failures",
            self.differences.len(),
            self.failures.len()
        );
    }

    /// Writes the JSON file and answers where it is.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let hub = if self.hub_controllers.contains("STAND-IN") {
            "stand-in"
        } else {
            "karmada"
        };
        let file = folder.join(format!("{hub}-{}.json", self.seed));
        let text = serde_json::to_string_pretty(self).context("print the report")?;
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        Ok(file)
    }
}

/// Copies the logs of the gateways into a folder beside the file of a run that failed, because the next run begins them
/// anew, and answers where it is.
pub(crate) fn keep_logs(from: &Path, beside: &Path) -> Result<PathBuf> {
    let folder = beside.with_extension("logs");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let found = std::fs::read_dir(from).with_context(|| format!("read {}", from.display()))?;
    for entry in found {
        let path = entry.with_context(|| format!("read {}", from.display()))?.path();
        if path.extension().is_some_and(|ending| ending == "log")
            && let Some(name) = path.file_name()
        {
            std::fs::copy(&path, folder.join(name)).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(folder)
}

#[allow(clippy::cast_precision_loss, reason = "a process has fewer than 2^52 KiB")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
