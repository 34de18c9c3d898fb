//! The flags that say where the projects are.

use super::ConfigError;
use clap::ValueEnum;
use fedgate_engine::plane::{
    client::Connection,
    discovery::{CredentialSource, MiloForm, MiloSource, ProjectSource},
};
use std::path::PathBuf;

/// Source of the projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProjectMode {
    /// One project, named `single`.
    Single,
    /// Each kubeconfig file of a folder.
    Directory,
    /// Each labelled Secret of a namespace.
    Secrets,
    /// Each Project of Milo that is ready.
    Milo,
}

/// Source of the projects, from the flags alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projects {
    /// One kubeconfig; `None` is the service account of the Pod.
    Single(Option<PathBuf>),
    /// A folder of kubeconfigs.
    Directory(PathBuf),
    /// Labelled Secrets.
    Secrets {
        /// Namespace of the Secrets.
        namespace: String,
        /// Kubeconfig of the plane that holds the Secrets; `None` is the hub.
        kubeconfig: Option<PathBuf>,
    },
    /// Milo's Projects.
    Milo {
        /// Kubeconfig for all projects; `None` is the service account of the Pod.
        template: Option<PathBuf>,
        /// Kubeconfig of the plane that has the Projects; `None` is the template.
        discovery: Option<PathBuf>,
        /// How they are found.
        form: MiloForm,
        /// Label selector of the Projects.
        selector: String,
    },
}

impl Projects {
    /// The source of the projects; `plane` holds the Secrets or Projects.
    pub fn source(&self, plane: &Connection) -> ProjectSource {
        match self {
            Self::Single(kubeconfig) => ProjectSource::Single {
                kubeconfig: kubeconfig.clone(),
            },
            Self::Directory(path) => ProjectSource::Directory { path: path.clone() },
            Self::Secrets { namespace, .. } => ProjectSource::Secrets {
                plane: plane.clone(),
                namespace: namespace.clone(),
            },
            Self::Milo {
                template,
                form,
                selector,
                discovery: _,
            } => ProjectSource::Milo(MiloSource {
                plane: plane.clone(),
                form: *form,
                selector: selector.clone(),
                template: CredentialSource {
                    kubeconfig: template.clone(),
                    below: None,
                },
            }),
        }
    }
}

/// The flags of all project modes.
pub(super) struct Given {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) discovery: Option<PathBuf>,
    pub(super) is_internal: bool,
    pub(super) selector: Option<String>,
    pub(super) directory: Option<PathBuf>,
    pub(super) secrets_namespace: Option<String>,
    pub(super) secrets_kubeconfig: Option<PathBuf>,
}

impl Given {
    /// Source of the projects in this mode; an error if a flag of another mode is given.
    pub(super) fn projects(self, mode: ProjectMode) -> Result<Projects, ConfigError> {
        let chosen = match mode {
            ProjectMode::Single => "single",
            ProjectMode::Directory => "directory",
            ProjectMode::Secrets => "secrets",
            ProjectMode::Milo => "milo",
        };
        self.belong_to(chosen)?;
        Ok(match mode {
            ProjectMode::Single => Projects::Single(self.kubeconfig),
            ProjectMode::Directory => Projects::Directory(self.directory.ok_or(ConfigError::Missing {
                mode: chosen,
                flag: "--project-directory",
                variable: "FEDGATE_PROJECT_DIRECTORY",
                meaning: "name the folder of the projects' kubeconfigs",
            })?),
            ProjectMode::Secrets => Projects::Secrets {
                namespace: self.secrets_namespace.ok_or(ConfigError::Missing {
                    mode: chosen,
                    flag: "--project-secrets-namespace",
                    variable: "FEDGATE_PROJECT_SECRETS_NAMESPACE",
                    meaning: "name the namespace of the Secrets with label fedgate.dev/project=true",
                })?,
                kubeconfig: self.secrets_kubeconfig,
            },
            ProjectMode::Milo => Projects::Milo {
                template: self.kubeconfig,
                discovery: self.discovery,
                form: if self.is_internal {
                    MiloForm::ControlPlanes
                } else {
                    MiloForm::Projects
                },
                selector: self.selector.unwrap_or_default(),
            },
        })
    }

    /// An error if a flag is given that the chosen mode does not read.
    fn belong_to(&self, chosen: &'static str) -> Result<(), ConfigError> {
        let flags: [(_, &[&'static str], _); 7] = [
            (
                "--project-kubeconfig",
                &["single", "milo"],
                self.kubeconfig.is_some(),
            ),
            ("--discovery-kubeconfig", &["milo"], self.discovery.is_some()),
            ("--internal-service-discovery", &["milo"], self.is_internal),
            ("--project-selector", &["milo"], self.selector.is_some()),
            ("--project-directory", &["directory"], self.directory.is_some()),
            (
                "--project-secrets-namespace",
                &["secrets"],
                self.secrets_namespace.is_some(),
            ),
            (
                "--project-secrets-kubeconfig",
                &["secrets"],
                self.secrets_kubeconfig.is_some(),
            ),
        ];
        let mut others = flags
            .into_iter()
            .filter(|(_, modes, given)| *given && !modes.contains(&chosen));
        match others.next() {
            Some((flag, modes, _)) => Err(ConfigError::OtherMode {
                flag,
                mode: chosen,
                wanted: modes[0],
            }),
            None => Ok(()),
        }
    }
}
