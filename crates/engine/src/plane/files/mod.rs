//! Notifies when files may have changed: through the operating system's notifications for their folders, which cover
//! atomic replacement (also of a symbolic link, as Kubernetes mounts Secrets); by polling where the system cannot
//! notify.

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::mpsc;

/// Changes within this time are reported once.
const SETTLE: Duration = Duration::from_millis(100);
/// Poll interval where the system does not notify.
const POLL_EVERY: Duration = Duration::from_secs(30);
/// Maximum length of a chain of symbolic links, as on Linux.
const LINKS: usize = 40;

/// Watch of files; see the module.
#[derive(Debug)]
pub struct FileWatch {
    watcher: Option<RecommendedWatcher>,
    events: mpsc::Receiver<()>,
    /// A folder that is watched as a whole, and a filter on the names of its files.
    whole: Option<Whole>,
    followed: Arc<Mutex<Followed>>,
    folders: BTreeMap<PathBuf, Identity>,
    blind: BTreeSet<PathBuf>,
    /// A change was seen that is not reported yet.
    is_settling: bool,
}

/// Identity of the folder watched under a path: device, inode number, and creation time, because inode numbers are
/// reused.
type Identity = Option<(u64, u64, Option<SystemTime>)>;

fn identity(folder: &Path) -> Identity {
    let meta = std::fs::metadata(folder).ok()?;
    Some((meta.dev(), meta.ino(), meta.created().ok()))
}

type Whole = (PathBuf, fn(&Path) -> bool);

/// Filter for events: unrelated files in the same folders, such as logs, may change all the time.
#[derive(Debug, Default)]
struct Followed {
    /// The files and the targets of their links, each in a folder whose path has no links.
    places: BTreeSet<PathBuf>,
    whole: Option<Whole>,
}

impl Followed {
    fn is_relevant(&self, event: &Event) -> bool {
        is_change(event.kind)
            && (event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(|p| self.counts(p)))
    }

    fn counts(&self, path: &Path) -> bool {
        let inside = |(folder, counts): &Whole| path.parent() == Some(folder) && counts(path);
        // Folders and links may lead to a watched file, and so may a second hard link of the same file.
        let other = || std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.nlink() == 1);
        self.places.contains(path) || self.whole.as_ref().is_some_and(inside) || !other()
    }
}

/// Folders and their paths without links.
#[derive(Default)]
struct Real(BTreeMap<PathBuf, PathBuf>);

impl Real {
    fn of(&mut self, folder: &Path) -> &Path {
        let real = || folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        self.0.entry(folder.to_owned()).or_insert_with(real)
    }

    /// Both ends of a symbolic link and all links between: the places where it can be replaced or its target written.
    fn places(&mut self, file: &Path) -> Vec<PathBuf> {
        let mut places = Vec::new();
        let mut next = Some(file.to_owned());
        while let Some(path) = next.take().filter(|_| places.len() < LINKS) {
            let place = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
                    self.of(Path::new(".")).join(name)
                }
                (Some(parent), Some(name)) => self.of(parent).join(name),
                _ => self.of(&path).to_owned(),
            };
            if let (Ok(target), Some(folder)) = (place.read_link(), place.parent()) {
                next = Some(folder.join(target));
            }
            places.push(place);
        }
        places
    }
}

impl Default for FileWatch {
    fn default() -> Self {
        Self::new(None)
    }
}

/// Reading a file is no change; this process's own reads must not trigger an event.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

impl FileWatch {
    /// Also watches a folder: its entry in its parent, and the files in it whose names pass the filter `counts`.
    pub fn whole(folder: PathBuf, counts: fn(&Path) -> bool) -> Self {
        Self::new(Some((folder, counts)))
    }

    fn new(whole: Option<Whole>) -> Self {
        let followed = Arc::<Mutex<Followed>>::default();
        let heeded = followed.clone();
        let (sender, events) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.map_or(true, |e| heeded.lock().is_relevant(&e)) {
                // A full channel already signals a change.
                let _ = sender.try_send(());
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files are polled every 30 s: the system gives no notification of changes");
        }
        Self {
            watcher: watcher.ok(),
            events,
            whole,
            followed,
            folders: BTreeMap::new(),
            blind: BTreeSet::new(),
            is_settling: false,
        }
    }

    /// Watches exactly these files from now on. True if a file is watched that was not watched before: then read the
    /// files again.
    pub fn follow<'a>(&mut self, files: impl IntoIterator<Item = &'a Path>) -> bool {
        let mut grown = self.track(files);
        let wanted = self.wanted();
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        // A folder that was deleted and created again is another folder: the watch ended with the first.
        let stays = |folder: &PathBuf, had: &Identity| wanted.contains(folder) && identity(folder) == *had;
        for (gone, _) in self.folders.iter().filter(|(folder, had)| !stays(folder, had)) {
            // A deleted folder is no longer watched anyway.
            let _ = watcher.unwatch(gone);
        }
        self.folders.retain(|folder, had| stays(folder, had));
        let mut blind = BTreeSet::new();
        for folder in wanted {
            if self.folders.contains_key(&folder) {
                continue;
            }
            // Read before the watch starts: a folder created in between has another identity, and the next call finds
            // it.
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

    /// Records the files that events are filtered by. True if a file is new: it may have changed before.
    fn track<'a>(&mut self, files: impl IntoIterator<Item = &'a Path>) -> bool {
        let mut real = Real::default();
        let mut places: BTreeSet<PathBuf> = files.into_iter().flat_map(|file| real.places(file)).collect();
        let whole = self.whole.as_ref().map(|(folder, counts)| {
            places.extend(real.places(folder));
            (real.of(folder).to_owned(), *counts)
        });
        let mut followed = self.followed.lock();
        let grown = !places.is_subset(&followed.places);
        *followed = Followed { places, whole };
        grown
    }

    /// The folders to watch.
    fn wanted(&self) -> BTreeSet<PathBuf> {
        let followed = self.followed.lock();
        let whole = followed.whole.iter().map(|(folder, _)| folder.as_path());
        let parents = followed.places.iter().filter_map(|place| place.parent());
        parents.chain(whole).map(Path::to_owned).collect()
    }

    /// Returns when a watched file may have changed. Cancel-safe.
    pub async fn changed(&mut self) {
        let poll = async {
            if self.watcher.is_none() || !self.blind.is_empty() {
                tokio::time::sleep(POLL_EVERY).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        // A caller may drop this future while changes settle, as one does whose connection follows the same file.
        if !self.is_settling {
            tokio::select! {
                biased;
                Some(()) = self.events.recv() => self.is_settling = true,
                () = poll => return,
            }
        }
        tokio::time::sleep(SETTLE).await;
        while self.events.try_recv().is_ok() {}
        self.is_settling = false;
    }
}

#[cfg(test)]
mod tests;
