//! Projects from the kubeconfig files of a folder.

use super::{ProjectEvent, Projects, cache::Cache};
use crate::plane::{credential::warn_if_open, files::FileWatch, kubeconfig::Rules};
use futures::{Stream, stream};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// Extensions of files that are stored beside kubeconfigs and are not kubeconfigs.
const OTHER_FILES: [&str; 7] = ["crt", "pem", "key", "token", "tmp", "swp", "bak"];

struct State {
    folder: PathBuf,
    projects: Projects,
    rules: Rules,
    watch: FileWatch,
    started: bool,
    warned: BTreeSet<PathBuf>,
    cache: Cache,
}

pub(super) fn stream(
    folder: PathBuf,
    projects: Projects,
    rules: Rules,
) -> impl Stream<Item = ProjectEvent> + Send {
    let state = State {
        watch: FileWatch::whole(folder.clone(), may_be_kubeconfig),
        folder,
        projects,
        rules,
        started: false,
        warned: BTreeSet::new(),
        cache: Cache::default(),
    };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(event) = state.projects.events.pop_front() {
                return Some((event, state));
            }
            if state.started {
                state.watch.changed().await;
            }
            state.started = true;
            state = poll_once(state).await?;
        }
    })
}

/// Reads on a blocking thread, because the files may be many and their file system slow. `None` if the process ends
/// meanwhile.
async fn poll_once(mut state: State) -> Option<State> {
    let looking = tokio::task::spawn_blocking(move || {
        state.look();
        state
    });
    match looking.await {
        Ok(state) => Some(state),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

impl State {
    /// Reads all files, and again if they refer to files that were not watched during the read.
    fn look(&mut self) {
        let mut files = self.read();
        for _ in 0..3 {
            if !self.watch.follow(files.iter().map(PathBuf::as_path)) {
                break;
            }
            files = self.read();
        }
        for file in files.iter().filter(|f| f.is_file()) {
            if self.warned.insert(file.clone()) {
                warn_if_open(std::slice::from_ref(file));
            }
        }
        self.warned.retain(|f| files.contains(f));
    }

    /// Reads the files; returns the files to watch.
    fn read(&mut self) -> Vec<PathBuf> {
        let folder = &self.folder;
        let mut files = Vec::new();
        let candidates = match list(folder) {
            Ok(candidates) => candidates,
            Err(error) => {
                let folder = folder.display().to_string();
                let error = format!(
                    "project directory {folder}: {error}; create it or make it readable for this process"
                );
                self.projects.put(&folder, String::new, None, Err(error));
                return files;
            }
        };
        let mut found = BTreeMap::new();
        for (path, name) in candidates {
            let known = self.cache.read(&path, self.rules);
            files.extend(known.files().map(Path::to_owned));
            found.insert(path, (name, known.found.clone()));
        }
        self.cache.retain(|path| found.contains_key(path));
        // A file that another kubeconfig refers to is a token or certificate, not a project.
        let named: BTreeSet<PathBuf> = found
            .values()
            .flat_map(|(_, c)| c.iter().flat_map(|c| c.files().iter().skip(1).cloned()))
            .collect();
        let mut owners: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut present = BTreeSet::new();
        for (path, (name, credential)) in found.into_iter().filter(|(path, _)| !named.contains(path)) {
            if let Some(other) = owners.get(&name) {
                let label = path.display().to_string();
                let error = format!(
                    "{label}: project key {name} is already taken by {}; rename one of the files",
                    other.display()
                );
                present.insert(label.clone());
                self.projects.put(&label, String::new, None, Err(error));
                continue;
            }
            self.projects.put(
                &name,
                || path.display().to_string(),
                None,
                credential.map_err(|error| error.to_string()),
            );
            present.insert(name.clone());
            owners.insert(name, path);
        }
        self.projects.retain(&present);
        files
    }
}

/// The files that may be kubeconfigs, with their names without extension, in the order of their paths.
fn list(folder: &Path) -> std::io::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if may_be_kubeconfig(&path) && path.is_file() {
            let stem = text(path.file_stem());
            files.push((path, stem));
        }
    }
    files.sort();
    Ok(files)
}

/// True if a file of this name may be a kubeconfig.
fn may_be_kubeconfig(path: &Path) -> bool {
    let (name, extension) = (text(path.file_name()), text(path.extension()));
    let hidden = name.starts_with('.') || name.ends_with('~');
    !hidden && !OTHER_FILES.contains(&extension.as_str())
}

fn text(part: Option<&OsStr>) -> String {
    part.map(|t| t.to_string_lossy().into_owned()).unwrap_or_default()
}
