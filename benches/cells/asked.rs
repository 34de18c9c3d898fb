//! What the API servers say that the cell asked of them.

use super::rig::{CELL, Rig};
use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::PathBuf,
    time::Duration,
};
use tokio::time::{Instant, sleep};

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The audit logs of cell, hub and project.
pub(crate) struct Asked([PathBuf; 3]);

/// Ends of all logs at one moment.
pub(crate) struct Mark([u64; 3]);

/// Requests of the cell on its own plane, on the hub and in the project.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) writes: [usize; 3],
    pub(crate) gets: usize,
}

impl Requests {
    pub(crate) fn all(&self) -> usize {
        self.writes.iter().sum::<usize>() + self.gets
    }
}

impl Asked {
    pub(crate) fn new(rig: &Rig) -> Self {
        Self(rig.audit_logs())
    }

    /// The present end.
    pub(crate) fn mark(&self) -> Mark {
        let end = |log: &PathBuf| std::fs::metadata(log).map_or(0, |meta| meta.len());
        Mark([end(&self.0[0]), end(&self.0[1]), end(&self.0[2])])
    }

    /// The cell's requests since the mark; Events and Leases are left out, and so are lists and watches.
    pub(crate) fn since(&self, mark: &Mark) -> Result<Requests> {
        let users = [format!("fedgate-cell-{CELL}"), format!("fedgate-quota:{CELL}")];
        let mut requests = Requests::default();
        for (number, (log, from)) in self.0.iter().zip(mark.0).enumerate() {
            let mut file = File::open(log).with_context(|| format!("open {}", log.display()))?;
            file.seek(SeekFrom::Start(from))?;
            for line in BufReader::new(file).lines() {
                // The last line may be half written; it is read whole next time.
                let Ok(entry) = serde_json::from_str::<Value>(&line?) else {
                    continue;
                };
                let user = entry["user"]["username"].as_str().unwrap_or_default();
                let resource = entry["objectRef"]["resource"].as_str().unwrap_or_default();
                if !users.iter().any(|known| known == user) || matches!(resource, "" | "events" | "leases") {
                    continue;
                }
                match entry["verb"].as_str() {
                    Some("create" | "update" | "patch" | "delete") => requests.writes[number] += 1,
                    Some("get") => requests.gets += 1,
                    _ => {}
                }
            }
        }
        Ok(requests)
    }

    /// Waits until the cell has asked for nothing for `time`.
    pub(crate) async fn quiet(&self, time: Duration) -> Result<()> {
        let (mut mark, mut since) = (self.mark(), Instant::now());
        while since.elapsed() < time {
            sleep(LOOK_EVERY).await;
            let now = self.mark();
            if self.since(&mark)?.all() > 0 {
                since = Instant::now();
            }
            mark = now;
        }
        Ok(())
    }
}
