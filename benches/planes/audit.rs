//! What the API servers say that the gateway asked of them.

use super::rig::Rig;
use anyhow::{Context, Result, ensure};
use fedgate_manifests::GATEWAY;
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep};

const LOOK_EVERY: Duration = Duration::from_millis(200);
const QUIET_WITHIN: Duration = Duration::from_secs(90);

/// The audit logs of the hub and of the served projects.
pub(crate) struct Audit {
    hub: PathBuf,
    projects: Vec<PathBuf>,
}

/// Ends of all logs at one moment.
pub(crate) struct Mark(Vec<u64>);

/// The gateway's requests between two moments, Events and Leases left out.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Writes to projects and to the hub; conflicts are left out, since they add their retry.
    pub(crate) project: Vec<String>,
    pub(crate) hub: Vec<String>,
    /// Gets of single objects.
    pub(crate) gets: Vec<String>,
}

impl Audit {
    pub(crate) fn new(rig: &Rig) -> Self {
        let (hub, projects) = rig.audit_logs();
        Self { hub, projects }
    }

    fn logs(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.hub).chain(&self.projects)
    }

    /// The present end.
    pub(crate) fn mark(&self) -> Mark {
        Mark(
            self.logs()
                .map(|log| std::fs::metadata(log).map_or(0, |meta| meta.len()))
                .collect(),
        )
    }

    /// The gateway's requests since the mark.
    pub(crate) fn since(&self, mark: &Mark) -> Result<Requests> {
        let mut requests = Requests::default();
        for (number, (log, from)) in self.logs().zip(&mark.0).enumerate() {
            for entry in entries(log, *from)? {
                let verb = entry["verb"].as_str().unwrap_or_default();
                let object = |field: &str| entry["objectRef"][field].as_str().unwrap_or_default();
                // What is served is asked without a resource, and is no object.
                if matches!(object("resource"), "" | "events" | "leases") {
                    continue;
                }
                let code = entry["responseStatus"]["code"].as_u64().unwrap_or_default();
                let what = format!(
                    "{verb} {} {} ({code})",
                    [object("resource"), object("subresource")].join(" ").trim_end(),
                    object("name")
                );
                match verb {
                    "get" => requests.gets.push(what),
                    "create" | "update" | "patch" | "delete" | "deletecollection" if code != 409 => {
                        if number == 0 {
                            &mut requests.hub
                        } else {
                            &mut requests.project
                        }
                        .push(what);
                    }
                    _ => {}
                }
            }
        }
        Ok(requests)
    }

    /// Waits until the gateway has written nothing for `time`.
    pub(crate) async fn quiet(&self, time: Duration) -> Result<()> {
        let started = Instant::now();
        let (mut mark, mut since) = (self.mark(), Instant::now());
        while since.elapsed() < time {
            ensure!(
                started.elapsed() < QUIET_WITHIN,
                "the gateway does not come to rest within {QUIET_WITHIN:?}"
            );
            sleep(LOOK_EVERY).await;
            let now = self.mark();
            let requests = self.since(&mark)?;
            if !requests.project.is_empty() || !requests.hub.is_empty() {
                since = Instant::now();
            }
            mark = now;
        }
        Ok(())
    }
}

/// The gateway's completed requests in a log from a place on. A line that is still being written is left out.
fn entries(log: &Path, from: u64) -> Result<Vec<Value>> {
    let read = || -> std::io::Result<Vec<Value>> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(from))?;
        let lines = BufReader::new(file).lines().map_while(std::io::Result::ok);
        Ok(lines
            .filter(|line| line.contains(GATEWAY))
            .filter_map(|line| serde_json::from_str(&line).ok())
            .collect())
    };
    let mut entries = read().with_context(|| format!("read the audit log {}", log.display()))?;
    entries.retain(|entry| entry["user"]["username"] == GATEWAY);
    Ok(entries)
}
