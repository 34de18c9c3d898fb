//! Ending a sandbox from outside: whether its owner lives, has crashed, or is still starting.

use super::layout::Layout;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    path::Path,
    time::{Duration, Instant},
};

const ORDERLY_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// Ends the owner and every process, waits until they are gone, removes data and credentials. The logs stay. True if the sandbox
/// had an owner.
pub(super) async fn down(layout: &Layout) -> anyhow::Result<bool> {
    if !layout.dir.exists() {
        return Ok(false);
    }
    let owner = layout.owner().await?;
    if let Some(owner) = owner {
        signal(owner, Signal::TERM);
        if !owner_ends(layout).await? {
            signal(owner, Signal::KILL);
            owner_ends(layout).await?;
        }
    }
    // With the owner gone nobody else ends processes that have lost their holder to `kill -9`, and processes that others have
    // started beside the sandbox with its lock file as standard input, such as the demo's gateway.
    for pid in attached(&layout.processes_lock()) {
        signal(pid, Signal::KILL);
    }
    layout.processes_gone().await?;
    layout.wipe(false)?;
    Ok(owner.is_some())
}

async fn owner_ends(layout: &Layout) -> anyhow::Result<bool> {
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
fn attached(lock: &Path) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter(|process| std::fs::read_link(process.path().join("fd/0")).is_ok_and(|target| target == lock))
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}
