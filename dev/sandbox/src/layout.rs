//! Files of one sandbox, and the locks that tell whether it lives.

use super::SandboxError;
use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A holder kills its process at once; the rest is for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// Paths of a sandbox's files.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) dir: PathBuf,
}

impl Layout {
    /// Data of all etcds.
    pub(super) fn etcds(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    /// Data of one of them.
    pub(super) fn etcd(&self, name: &str) -> PathBuf {
        self.etcds().join(name)
    }

    /// Certificates that the processes read.
    pub(super) fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    /// Kubeconfig by which Milo's own API server has tokens reviewed.
    pub(super) fn token_review(&self) -> PathBuf {
        self.pki().join("token-review.yaml")
    }

    /// Logs of processes and API servers; they outlive the sandbox until the next one starts.
    pub(super) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Audit log of a plane.
    pub(super) fn audit_log(&self, plane: &str) -> PathBuf {
        self.logs().join(format!("{plane}.audit.jsonl"))
    }

    /// Folder of kubeconfigs: a folder for each user, with a file for each plane.
    pub(super) fn kubeconfigs(&self) -> PathBuf {
        self.dir.join("kubeconfigs")
    }

    /// The administrator's kubeconfig with one context per plane.
    pub(super) fn merged_kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// The description of the sandbox that `fedgate-sandbox status` reads.
    pub(super) fn state(&self) -> PathBuf {
        self.dir.join("state.json")
    }

    /// Output of a detached owner.
    pub(super) fn supervisor_log(&self) -> PathBuf {
        self.dir.join("supervisor.log")
    }

    /// Every holder of a process shares this lock.
    pub(super) fn processes_lock(&self) -> PathBuf {
        self.dir.join("processes.lock")
    }

    /// The owner of the sandbox has this lock.
    fn owner_lock(&self) -> PathBuf {
        self.dir.join("owner.lock")
    }

    /// Makes the folder and takes its ownership; [`SandboxError::InUse`] if somebody else has it.
    pub(super) fn own(&self) -> Result<File, SandboxError> {
        std::fs::create_dir_all(&self.dir).map_err(SandboxError::io("create folder", &self.dir))?;
        let path = self.owner_lock();
        let file = open(&path)?;
        match file.try_lock() {
            Ok(()) => {
                std::fs::write(&path, std::process::id().to_string())
                    .map_err(SandboxError::io("write", &path))?;
                Ok(file)
            }
            Err(TryLockError::WouldBlock) => Err(SandboxError::InUse(self.dir.clone())),
            Err(TryLockError::Error(error)) => Err(SandboxError::io("lock", &path)(error)),
        }
    }

    /// Process id of the owner, if there is one that lives.
    pub(super) async fn owner(&self) -> Result<Option<i32>, SandboxError> {
        let path = self.owner_lock();
        while path.exists() {
            match open(&path)?.try_lock() {
                Ok(()) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(SandboxError::io("lock", &path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            let text = std::fs::read_to_string(&path).map_err(SandboxError::io("read", &path))?;
            if let Ok(pid) = text.trim().parse() {
                return Ok(Some(pid));
            }
            // It has the lock and is about to write.
            tokio::time::sleep(POLL).await;
        }
        Ok(None)
    }

    /// Waits until no process of this folder's sandbox is left.
    pub(super) async fn processes_gone(&self) -> Result<(), SandboxError> {
        let path = self.processes_lock();
        let file = open(&path)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                // Dropping the file gives the lock back.
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(SandboxError::io("lock", &path)(error)),
                Err(TryLockError::WouldBlock) if started.elapsed() > GONE_WITHIN => {
                    let seconds = GONE_WITHIN.as_secs();
                    return Err(SandboxError::StillRunning {
                        dir: self.dir.clone(),
                        seconds,
                    });
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Removes what a sandbox left here, logs too if `logs`; the lock files stay.
    pub(super) fn wipe(&self, logs: bool) -> Result<(), SandboxError> {
        let mut old = vec![self.etcds(), self.pki(), self.kubeconfigs()];
        if logs {
            old.push(self.logs());
        }
        for path in old {
            remove(&path, std::fs::remove_dir_all(&path))?;
        }
        for path in [self.merged_kubeconfig(), self.state()] {
            remove(&path, std::fs::remove_file(&path))?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<File, SandboxError> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(SandboxError::io("open", path))
}

/// Passes on an error of a removal, unless there was nothing to remove.
pub(super) fn remove(path: &Path, result: std::io::Result<()>) -> Result<(), SandboxError> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SandboxError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
