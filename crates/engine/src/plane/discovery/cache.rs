//! Cache of kubeconfig files as last read, so that only changed files are read again: a change of one project among
//! thousands costs one read.

use crate::plane::kubeconfig::{Credential, KubeconfigError, Rules};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// A file that was written this shortly before it was read may be written again without a change of its stamp, because
/// clocks of file systems are coarse. Such a file is read again the next time.
const UNSETTLED: Duration = Duration::from_secs(2);

/// Metadata that changes with the content of a file, so that the file need not be read. Symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        let meta = std::fs::metadata(file).ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let (seconds, nanos) = self.changed;
        let seconds = u64::try_from(seconds).unwrap_or_default();
        let changed = Duration::new(seconds, u32::try_from(nanos).unwrap_or_default());
        now.duration_since(SystemTime::UNIX_EPOCH)
            .is_ok_and(|now| changed.saturating_add(age) <= now)
    }
}

/// A kubeconfig as last read.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) found: Result<Credential, KubeconfigError>,
    /// Every file that the result depends on, also those of the last good read, each with its stamp from before the
    /// read.
    files: BTreeMap<PathBuf, Option<Stamp>>,
    settled: bool,
}

impl Known {
    /// The files whose change may change the result.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    fn holds(&self) -> bool {
        self.settled && self.files.iter().all(|(file, stamp)| Stamp::of(file) == *stamp)
    }
}

/// Cache of kubeconfigs; see the module.
#[derive(Debug)]
pub(super) struct Cache {
    known: BTreeMap<PathBuf, Known>,
    unsettled: Duration,
    #[cfg(test)]
    readings: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(UNSETTLED)
    }
}

impl Cache {
    /// A cache that reads files again if they were written within `unsettled` before they were read.
    pub(super) fn new(unsettled: Duration) -> Self {
        Self {
            known: BTreeMap::new(),
            unsettled,
            #[cfg(test)]
            readings: 0,
        }
    }

    /// The current state of the kubeconfig at `path`.
    pub(super) fn read(&mut self, path: &Path, rules: Rules) -> &Known {
        let holds = self.known.get(path).is_some_and(Known::holds);
        if !holds {
            let before = self.known.remove(path);
            let files = before.map_or_else(BTreeSet::new, |known| known.files.into_keys().collect());
            let new = self.read_anew(path, rules, files);
            self.known.insert(path.to_owned(), new);
        }
        &self.known[path]
    }

    fn read_anew(&mut self, path: &Path, rules: Rules, mut files: BTreeSet<PathBuf>) -> Known {
        files.insert(path.to_owned());
        let now = SystemTime::now();
        let stamps: BTreeMap<_, _> = files.iter().map(|file| (file.clone(), Stamp::of(file))).collect();
        let found = Credential::from_file(path, rules);
        #[cfg(test)]
        {
            self.readings += 1;
        }
        let needed: BTreeSet<PathBuf> = match &found {
            Ok(credential) => credential.files().iter().cloned().collect(),
            Err(error) => files
                .into_iter()
                .chain(error.unreadable().map(Path::to_owned))
                .collect(),
        };
        let old = |stamp: &Option<Stamp>| stamp.is_none_or(|stamp| stamp.is_older_than(self.unsettled, now));
        // A file that was not known before the read may have changed during it.
        let settled = needed.iter().all(|file| stamps.get(file).is_some_and(old));
        let files = needed.into_iter().map(|file| {
            let stamp = stamps.get(&file).copied().flatten();
            (file, stamp)
        });
        Known {
            found,
            files: files.collect(),
            settled,
        }
    }

    /// Drops all files that are not `present`.
    pub(super) fn retain(&mut self, present: impl Fn(&Path) -> bool) {
        self.known.retain(|path, _| present(path));
    }

    /// Number of kubeconfig reads.
    #[cfg(test)]
    pub(super) fn readings(&self) -> usize {
        self.readings
    }
}
