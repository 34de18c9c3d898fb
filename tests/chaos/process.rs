//! Processes from outside: signals, and what the kernel says of them.

use tokio::process::Command;

/// Sends a signal, e.g. `-STOP`.
pub(crate) async fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args([name, pid]).status().await;
    assert!(
        sent.is_ok_and(|status| status.success()),
        "send {name} to process {pid}"
    );
}

/// Resident memory now and at its highest, in KiB; `None` if the process is not there.
pub(crate) fn memory(pid: &str) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}
