//! Ending a sandbox from outside: whether its owner lives, has crashed, or is still starting.

use super::{SandboxError, layout::Layout};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    path::Path,
    time::{Duration, Instant},
};

const ORDERLY_WITHIN: Duration = Duration::from_secs(20);
/// Holders need milliseconds.
const ORPHANS_AFTER: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(50);

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A sandbox with an owner; it has ended.
    Running,
    /// Nothing that runs.
    Nothing,
}

/// Ends the owner and every process, waits until they are gone, removes data and credentials. The logs stay.
pub(super) async fn down(layout: &Layout) -> Result<Found, SandboxError> {
    if !layout.dir.exists() {
        return Ok(Found::Nothing);
    }
    let mut found = Found::Nothing;
    if let Some(owner) = layout.owner().await? {
        found = Found::Running;
        signal(owner, Signal::TERM);
        if !owner_ends(layout).await? {
            signal(owner, Signal::KILL);
            owner_ends(layout).await?;
        }
    }
    // Whoever still has the lock lost its holder to `kill -9`; with the owner gone nobody else would end it.
    match layout.processes_gone_within(ORPHANS_AFTER).await {
        Err(SandboxError::StillRunning { .. }) => {
            for pid in orphans(&layout.processes_lock()) {
                signal(pid, Signal::KILL);
            }
            layout.processes_gone().await?;
        }
        other => other?,
    }
    layout.wipe(false)?;
    Ok(found)
}

async fn owner_ends(layout: &Layout) -> Result<bool, SandboxError> {
    let started = Instant::now();
    while layout.owner().await?.is_some() {
        if started.elapsed() > ORDERLY_WITHIN {
            return Ok(false);
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(true)
}

// It may have ended a moment ago.
fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Processes whose standard input is the lock file; none where there is no `/proc`.
fn orphans(lock: &Path) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter(|process| std::fs::read_link(process.path().join("fd/0")).is_ok_and(|target| target == lock))
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}
