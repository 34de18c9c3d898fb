//! Finds project planes: one kubeconfig, a folder of kubeconfigs, labelled Secrets, or Milo's Projects (contract:
//! federation.md §3.2).
//!
//! Deletion and failure are distinct: a deleted file or Secret ends its project. A file or Secret that is unreadable or
//! rejected keeps an engaged project on its last good credential, and never affects other projects.

mod cache;
mod local;
mod milo;
mod objects;
mod secrets;

pub use milo::{Answer, Beginning, Inquiry, MiloForm, MiloSource, Questions};

use super::{
    client::{Clients, Connection},
    credential::{CredentialSource, FollowedCredential, warn_if_open},
    kubeconfig::{Credential, Rules},
};
use crate::metrics::PlaneKind;
use fedgate_api::names::ProjectKey;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

/// Source of projects.
#[derive(Debug, Clone)]
pub enum ProjectSource {
    /// One project with the key `single`.
    Single {
        /// Kubeconfig of the project; `None` is the service account of the Pod.
        kubeconfig: Option<PathBuf>,
    },
    /// Each kubeconfig file of a folder; the key is the file's name without extension.
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// Each Secret with label `fedgate.dev/project=true` and key `kubeconfig`; the key is the Secret's name.
    Secrets {
        /// The plane that holds the Secrets.
        plane: Connection,
        /// Namespace of the Secrets.
        namespace: String,
    },
    /// Each Project of Milo that is ready; the key is its name.
    Milo(MiloSource),
}

/// Change of a project.
#[derive(Debug)]
pub enum ProjectEvent {
    /// The credential of the project is usable. The receiver of the event connects to the API server, and retries.
    Engaged {
        /// Key of the project.
        key: ProjectKey,
        /// Connection to its plane. A changed credential increments the connection's generation and sends no further
        /// event.
        connection: Connection,
        /// UID that the platform gives the project; `None` if the project's own objects identify it.
        uid: Option<Arc<str>>,
    },
    /// The file or Secret of the project is deleted: disengage the project, leave the hub unchanged.
    Removed {
        /// Key of the project.
        key: ProjectKey,
    },
    /// The platform suspends the project, or ends that: its API server refuses changes meanwhile. It follows the event that
    /// engages the project.
    Suspension {
        /// Key of the project.
        key: ProjectKey,
        /// True if it is suspended now.
        suspended: bool,
    },
    /// The file or Secret of the project cannot be used. An engaged project stays engaged with its last good credential.
    Rejected {
        /// Name of the file or Secret.
        name: String,
        /// The reason, with field and next step.
        error: String,
    },
    /// A rejected file or Secret is accepted again, or deleted.
    RejectionCleared {
        /// Name of the project.
        name: String,
    },
    /// A list of the platform's Projects is complete that is the first of its kind: it can be asked which Projects exist.
    Listed {
        /// Where it is asked.
        inquiry: Inquiry,
        /// Why it is a first list.
        begins: Beginning,
    },
    /// A Project of the platform may be deleted: to be asked for before anything follows from it. It comes after the end
    /// of its engagement.
    Gone {
        /// UID of the project.
        uid: Arc<str>,
    },
    /// The platform has answered.
    Answered(Answer),
}

/// Finds the projects of `source`, now and as they change. The stream never ends.
pub fn discover(source: &ProjectSource, clients: &Clients, rules: Rules) -> BoxStream<'static, ProjectEvent> {
    let projects = Projects {
        clients: clients.clone(),
        known: BTreeMap::new(),
        events: VecDeque::new(),
    };
    match source.clone() {
        ProjectSource::Single { kubeconfig } => {
            let below = None;
            single(CredentialSource { kubeconfig, below }, projects, rules)
        }
        ProjectSource::Directory { path } => local::stream(path, projects, rules).boxed(),
        ProjectSource::Secrets { plane, namespace } => {
            secrets::stream(plane, namespace, projects, rules).boxed()
        }
        ProjectSource::Milo(source) => milo::stream(source, projects, rules).boxed(),
    }
}

/// The one project of a kubeconfig.
fn single(login: CredentialSource, projects: Projects, rules: Rules) -> BoxStream<'static, ProjectEvent> {
    let name = login.kubeconfig.as_ref().map(|path| path.display().to_string());
    let name = name.unwrap_or_default();
    let state = (FollowedCredential::new(login, rules), projects, Vec::new());
    stream::unfold(state, move |(mut login, mut projects, mut warned)| {
        let name = name.clone();
        async move {
            loop {
                if let Some(event) = projects.events.pop_front() {
                    return Some((event, (login, projects, warned)));
                }
                let found = login.next().await;
                let files = found.as_ref().map(|found| found.files().to_vec());
                let files = files.unwrap_or_default();
                if warned != files {
                    warn_if_open(&files);
                }
                warned = files;
                projects.put("single", || name.clone(), None, found.map_err(|e| e.to_string()));
            }
        }
    })
    .boxed()
}

/// The projects as last reported, and the events not reported yet.
struct Projects {
    clients: Clients,
    known: BTreeMap<String, Known>,
    events: VecDeque<ProjectEvent>,
}

#[derive(Default)]
struct Known {
    engaged: Option<Engaged>,
    refused: Option<String>,
}

struct Engaged {
    key: ProjectKey,
    uid: Option<Arc<str>>,
    credential: Credential,
    connection: Connection,
    suspended: bool,
}

impl Projects {
    /// Records the current state of the file, Secret or Project `name`; `uid` is that of a platform.
    fn put(
        &mut self,
        name: &str,
        origin: impl FnOnce() -> String,
        uid: Option<Arc<str>>,
        found: Result<Credential, String>,
    ) {
        let found = found.and_then(|credential| {
            let key = ProjectKey::parse(name);
            let key = key.map_err(|error| format!("{}: {error}", origin()))?;
            Ok((key, credential))
        });
        let known = self.known.entry(name.to_owned()).or_default();
        let (key, credential) = match found {
            Ok(found) => found,
            Err(error) => {
                if known.refused.as_ref() != Some(&error) {
                    known.refused = Some(error.clone());
                    self.events.push_back(ProjectEvent::Rejected {
                        name: name.to_owned(),
                        error,
                    });
                }
                return;
            }
        };
        if known.refused.take().is_some() {
            self.events.push_back(ProjectEvent::RejectionCleared {
                name: name.to_owned(),
            });
        }
        match &mut known.engaged {
            Some(engaged) if engaged.uid == uid && engaged.credential == credential => return,
            Some(engaged) if engaged.uid == uid && credential.server == engaged.credential.server => {
                // Projects of a platform share a credential, whose change is logged once.
                if uid.is_none() {
                    tracing::info!(project = %key, "credential read again");
                }
                engaged
                    .connection
                    .replace(self.clients.plane(PlaneKind::Project, &credential));
                engaged.credential = credential;
                return;
            }
            // Another address may be another API server with unrelated resourceVersions, and another UID is another
            // project: disengage and engage again.
            Some(engaged) => self.events.push_back(ProjectEvent::Removed {
                key: engaged.key.clone(),
            }),
            None => {}
        }
        let connection = Connection::new(self.clients.plane(PlaneKind::Project, &credential));
        self.events.push_back(ProjectEvent::Engaged {
            key: key.clone(),
            connection: connection.clone(),
            uid: uid.clone(),
        });
        known.engaged = Some(Engaged {
            key,
            uid,
            credential,
            connection,
            suspended: false,
        });
    }

    /// Records whether the platform suspends the project, if it is engaged.
    fn suspend(&mut self, name: &str, suspended: bool) {
        let engaged = self.known.get_mut(name).and_then(|known| known.engaged.as_mut());
        let Some(engaged) = engaged.filter(|engaged| engaged.suspended != suspended) else {
            return;
        };
        engaged.suspended = suspended;
        self.events.push_back(ProjectEvent::Suspension {
            key: engaged.key.clone(),
            suspended,
        });
    }

    /// Drops `name`, whose file or Secret is deleted for certain.
    fn remove(&mut self, name: &str) {
        let Some(known) = self.known.remove(name) else {
            return;
        };
        if known.refused.is_some() {
            self.events.push_back(ProjectEvent::RejectionCleared {
                name: name.to_owned(),
            });
        }
        let removed = known
            .engaged
            .map(|engaged| ProjectEvent::Removed { key: engaged.key });
        self.events.extend(removed);
    }

    /// Drops all names that are not in `present`, after a complete list.
    fn retain(&mut self, present: &BTreeSet<String>) {
        let gone: Vec<String> = self
            .known
            .keys()
            .filter(|name| !present.contains(*name))
            .cloned()
            .collect();
        for name in &gone {
            self.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
