//! Files of one sandbox, and the locks that tell whether it lives.

use crate::error::{cannot, in_use};
use anyhow::{Context, bail};
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
    /// The files in a folder; the path is made absolute, because processes run elsewhere.
    pub(super) fn at(dir: &Path) -> anyhow::Result<Self> {
        let dir = std::path::absolute(dir).with_context(cannot("resolve", dir))?;
        Ok(Self { dir })
    }

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

    /// Makes the folder and takes its ownership; an error if somebody else has it.
    pub(super) fn own(&self) -> anyhow::Result<File> {
        std::fs::create_dir_all(&self.dir).with_context(cannot("create folder", &self.dir))?;
        let path = self.owner_lock();
        let file = open(&path)?;
        match file.try_lock() {
            Ok(()) => {
                std::fs::write(&path, std::process::id().to_string()).with_context(cannot("write", &path))?;
                Ok(file)
            }
            Err(TryLockError::WouldBlock) => Err(in_use(&self.dir)),
            Err(TryLockError::Error(error)) => Err(error).with_context(cannot("lock", &path)),
        }
    }

    /// Process id of the owner, if there is one that lives.
    pub(super) async fn owner(&self) -> anyhow::Result<Option<i32>> {
        let path = self.owner_lock();
        while path.exists() {
            match open(&path)?.try_lock() {
                Ok(()) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error).with_context(cannot("lock", &path)),
                Err(TryLockError::WouldBlock) => {}
            }
            let text = std::fs::read_to_string(&path).with_context(cannot("read", &path))?;
            if let Ok(pid) = text.trim().parse() {
                return Ok(Some(pid));
            }
            // It has the lock and is about to write.
            tokio::time::sleep(POLL).await;
        }
        Ok(None)
    }

    /// Waits until no process of this folder's sandbox is left.
    pub(super) async fn processes_gone(&self) -> anyhow::Result<()> {
        let path = self.processes_lock();
        let file = open(&path)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                // Dropping the file gives the lock back.
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(error).with_context(cannot("lock", &path)),
                Err(TryLockError::WouldBlock) if started.elapsed() > GONE_WITHIN => {
                    let (dir, seconds) = (self.dir.display(), GONE_WITHIN.as_secs());
                    bail!(
                        "processes of the sandbox in {dir} have not ended after {seconds} s; find them with `ps ax | grep \
                         {dir}` and end them"
                    );
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Removes what a sandbox left here, logs too if `logs`; the lock files stay.
    pub(super) fn wipe(&self, logs: bool) -> anyhow::Result<()> {
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

fn open(path: &Path) -> anyhow::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .with_context(cannot("open", path))
}

/// Passes on an error of a removal, unless there was nothing to remove.
pub(super) fn remove(path: &Path, result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(cannot("remove", path))
        }
        _ => Ok(()),
    }
}
