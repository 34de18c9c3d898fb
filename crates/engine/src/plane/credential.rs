//! Credential files that are read again when they change: the kubeconfig of the hub, of a cell or of projects, and the files that it
//! refers to. A new version that cannot be used is logged, and the last good credential stays in use.

use super::{
    client::{Clients, Connection},
    files::FileWatch,
    kubeconfig::{Credential, KubeconfigError, Rules},
};
use crate::metrics::PlaneKind;
use std::{
    collections::BTreeSet,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Source of a credential, which is read again when it changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialSource {
    /// The kubeconfig; `None` is the service account of the Pod.
    pub kubeconfig: Option<PathBuf>,
    /// Path to append to the server address in the kubeconfig.
    pub below: Option<String>,
}

impl CredentialSource {
    /// A kubeconfig file, without an appended path.
    pub fn file(path: &Path) -> Self {
        Self {
            kubeconfig: Some(path.to_owned()),
            below: None,
        }
    }

    pub(super) fn read(&self, rules: Rules) -> Result<Credential, KubeconfigError> {
        let credential = match &self.kubeconfig {
            Some(path) => Credential::from_file(path, rules)?,
            None => Credential::in_cluster()?,
        };
        Ok(match &self.below {
            Some(path) => credential.below(path),
            None => credential,
        })
    }
}

/// A credential whose files are watched, and read again when one of them changes.
pub(super) struct FollowedCredential {
    source: CredentialSource,
    rules: Rules,
    watch: FileWatch,
    /// The files that decided the last result.
    files: BTreeSet<PathBuf>,
    last: Option<Result<Credential, KubeconfigError>>,
}

impl FollowedCredential {
    /// Begins to watch the files of a source.
    pub(super) fn new(source: CredentialSource, rules: Rules) -> Self {
        let files: BTreeSet<PathBuf> = source.kubeconfig.iter().cloned().collect();
        let mut watch = FileWatch::default();
        watch.follow(files.iter().map(PathBuf::as_path));
        Self {
            source,
            rules,
            watch,
            files,
            last: None,
        }
    }

    /// Reads the credential, and again if it refers to files that were not followed during the read.
    pub(super) fn read(&mut self) -> Result<Credential, KubeconfigError> {
        let mut found = self.source.read(self.rules);
        for _ in 0..3 {
            match &found {
                Ok(credential) => self.files = credential.files().iter().cloned().collect(),
                Err(error) => self.files.extend(error.unreadable().map(Path::to_owned)),
            }
            if !self.watch.follow(self.files.iter().map(PathBuf::as_path)) {
                break;
            }
            found = self.source.read(self.rules);
        }
        self.last = Some(found.clone());
        found
    }

    /// The credential that was not read before, and then each one that differs from the last, or is rejected for another reason; may
    /// be cancelled. Changes of other files in the folder also trigger a read.
    pub(super) async fn next(&mut self) -> Result<Credential, KubeconfigError> {
        if self.last.is_none() {
            return self.read();
        }
        loop {
            self.watch.changed().await;
            let last = self.last.take();
            let found = self.read();
            if last.as_ref() != Some(&found) {
                return found;
            }
        }
    }
}

/// Connects by a kubeconfig (the hub's, a cell's); the returned future reads the kubeconfig again when it changes. A
/// broken new version is logged, and the last good credential stays in use.
pub fn connect(
    plane: PlaneKind,
    login: CredentialSource,
    clients: &Clients,
    rules: Rules,
) -> Result<(Connection, impl Future<Output = ()> + Send + use<>), KubeconfigError> {
    let mut login = FollowedCredential::new(login, rules);
    let mut credential = login.read()?;
    warn_if_open(credential.files());
    let connection = Connection::new(clients.plane(plane, &credential));
    let (handle, clients) = (connection.clone(), clients.clone());
    let work = async move {
        loop {
            match login.next().await {
                Ok(new) if new == credential => {}
                Ok(new) => {
                    tracing::info!(plane = plane.as_str(), file = ?login.source.kubeconfig, "credential read again");
                    handle.replace(clients.plane(plane, &new));
                    credential = new;
                }
                Err(error) => {
                    tracing::warn!(plane = plane.as_str(), %error, "the new kubeconfig is rejected; the last good one is kept");
                }
            }
        }
    };
    Ok((connection, work))
}

/// Logs a warning for credentials that every user of this machine can read.
pub(super) fn warn_if_open(files: &[PathBuf]) {
    for file in files {
        let open = std::fs::metadata(file).is_ok_and(|m| m.permissions().mode() & 0o004 != 0);
        // The mounted service account is readable for all users of its own Pod.
        if open && !file.starts_with("/var/run/secrets") {
            tracing::warn!(file = %file.display(), "this credential is readable for every user of the machine; chmod 600 it");
        }
    }
}
