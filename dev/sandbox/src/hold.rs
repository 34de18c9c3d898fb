//! The holder of one process: `fedgate-sandbox hold -- <command…>`.
//!
//! Its parent keeps a pipe to its standard input and never writes. When the parent ends, however it ends, the kernel
//! closes the pipe, and the holder kills the command and all that the command has started. That is how a crash, or
//! `kill -9` of the owner of a sandbox, leaves nothing running.

use crate::error::cannot;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

/// Runs `command` until it ends or this process's standard input does; answers the command's exit code.
///
/// While the command lives it shares a lock on `lock`: whoever gets that file exclusively knows that nothing is left.
pub(super) fn hold(lock: &Path, command: &[OsString]) -> anyhow::Result<i32> {
    let Some((program, args)) = command.split_first() else {
        bail!("hold: a command is missing after `--`");
    };
    let shared = File::options()
        .read(true)
        .open(lock)
        .with_context(cannot("open", lock))?;
    shared.lock_shared().with_context(cannot("lock", lock))?;
    // The file is the command's standard input: an inherited descriptor shares the lock, so that the lock lasts as
    // long as the command even if this holder is killed.
    let stdin = shared.try_clone().with_context(cannot("open", lock))?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::from(stdin))
        .process_group(0)
        .spawn()
        .with_context(cannot("start", Path::new(program)))?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(read) if read > 0) {}
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    });
    let status = child
        .wait()
        .with_context(cannot("wait for", Path::new(program)))?;
    // What the command started goes with it.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    Ok(status.code().unwrap_or(128))
}
