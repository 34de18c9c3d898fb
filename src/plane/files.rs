//! Tells when files may have changed: by the system's notification of their folders, so that atomic replacement (also of
//! a symbolic link, as Kubernetes mounts Secrets) is seen; by polling where the system cannot notify.

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::sync::mpsc;

/// Changes that come together are told once.
const SETTLE: Duration = Duration::from_millis(100);
/// How often files are looked at where the system does not notify.
const POLL_EVERY: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub struct FileWatch {
    watcher: Option<RecommendedWatcher>,
    events: mpsc::Receiver<()>,
    folders: BTreeMap<PathBuf, Identity>,
    blind: BTreeSet<PathBuf>,
}

/// Which folder it was that is watched under a path: device, number, and when it was made. Numbers are given again.
type Identity = Option<(u64, u64, Option<SystemTime>)>;

fn identity(folder: &Path) -> Identity {
    let meta = std::fs::metadata(folder).ok()?;
    Some((meta.dev(), meta.ino(), meta.created().ok()))
}

impl Default for FileWatch {
    fn default() -> Self {
        let (sender, events) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.map_or(true, |e| is_change(e.kind)) {
                // A full channel already says that something changed.
                let _ = sender.try_send(());
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files are polled every 30 s: the system gives no notification of changes");
        }
        Self {
            watcher: watcher.ok(),
            events,
            folders: BTreeMap::new(),
            blind: BTreeSet::new(),
        }
    }
}

/// Reading a file is no change; our own reads must not wake us.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

impl FileWatch {
    /// Watches exactly these files from now on. True if something is watched that was not before: look again.
    pub fn follow<'a>(&mut self, files: impl IntoIterator<Item = &'a Path>) -> bool {
        let mut wanted = BTreeSet::new();
        for file in files {
            let folder = match file.parent() {
                Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                Some(parent) => parent,
                None => continue,
            };
            // Both ends of a symbolic link: where it can be replaced and where its target can be written.
            wanted.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
            if let Some(target) = file.canonicalize().ok().as_deref().and_then(Path::parent) {
                wanted.insert(target.to_owned());
            }
        }
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        // One that was deleted and made again is another, and its watch ended with the first.
        let stays = |folder: &PathBuf, had: &Identity| wanted.contains(folder) && identity(folder) == *had;
        for (gone, _) in self.folders.iter().filter(|(folder, had)| !stays(folder, had)) {
            // A folder that was deleted is no longer watched anyway.
            let _ = watcher.unwatch(gone);
        }
        self.folders.retain(|folder, had| stays(folder, had));
        let mut grown = false;
        let mut blind = BTreeSet::new();
        for folder in wanted {
            if self.folders.contains_key(&folder) {
                continue;
            }
            // Asked before: what is made in between is another, and found the next time.
            let identity = identity(&folder);
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    grown = true;
                    self.folders.insert(folder, identity);
                }
                Err(error) => {
                    if !self.blind.contains(&folder) {
                        tracing::warn!(folder = %folder.display(), %error, "this folder is polled every 30 s");
                    }
                    blind.insert(folder);
                }
            }
        }
        self.blind = blind;
        grown
    }

    /// Returns when a file that is followed may have changed. Cancel-safe.
    pub async fn changed(&mut self) {
        let poll = async {
            if self.watcher.is_none() || !self.blind.is_empty() {
                tokio::time::sleep(POLL_EVERY).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            Some(()) = self.events.recv() => {}
            () = poll => return,
        }
        tokio::time::sleep(SETTLE).await;
        while self.events.try_recv().is_ok() {}
    }
}
