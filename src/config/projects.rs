//! The flags that say where the projects are.

use anyhow::ensure;
use clap::{Args, ValueEnum};
use fedgate_engine::plane::{
    client::Connection,
    credential::CredentialSource,
    discovery::{MiloForm, MiloSource, ProjectSource},
};
use std::path::{Path, PathBuf};

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

/// The flags of all project modes.
#[derive(Debug, Clone, Args)]
pub struct ProjectArgs {
    /// Source of the projects.
    #[arg(long, env = "FEDGATE_PROJECT_MODE", value_enum, default_value = "single")]
    pub project_mode: ProjectMode,
    /// Mode single: kubeconfig of the project. Mode milo: kubeconfig for all projects, whose server each project replaces by
    /// its own path or host. Default: the service account of the Pod.
    #[arg(long, env = "FEDGATE_PROJECT_KUBECONFIG", value_name = "PATH")]
    pub project_kubeconfig: Option<PathBuf>,
    /// Mode milo: kubeconfig of the API server that has the Projects, or with --internal-service-discovery their
    /// control planes. Default: that of --project-kubeconfig.
    #[arg(long, env = "FEDGATE_DISCOVERY_KUBECONFIG", value_name = "PATH")]
    pub discovery_kubeconfig: Option<PathBuf>,
    /// Mode milo: find projects by projectcontrolplanes.infrastructure.miloapis.com of an infrastructure cluster, and
    /// reach each at its Service there.
    #[arg(long, env = "FEDGATE_INTERNAL_SERVICE_DISCOVERY", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub internal_service_discovery: bool,
    /// Mode milo: label selector of the Projects that this gateway serves. Default: all.
    #[arg(long, env = "FEDGATE_PROJECT_SELECTOR", value_name = "SELECTOR")]
    pub project_selector: Option<String>,
    /// Mode directory: folder of kubeconfig files; a file's name without extension is the project's key.
    #[arg(long, env = "FEDGATE_PROJECT_DIRECTORY", value_name = "DIR")]
    pub project_directory: Option<PathBuf>,
    /// Mode secrets: namespace of the Secrets with label fedgate.dev/project=true.
    #[arg(long, env = "FEDGATE_PROJECT_SECRETS_NAMESPACE", value_name = "NS")]
    pub project_secrets_namespace: Option<String>,
    /// Mode secrets: kubeconfig of the plane that holds the Secrets. Default: the hub.
    #[arg(long, env = "FEDGATE_PROJECT_SECRETS_KUBECONFIG", value_name = "PATH")]
    pub project_secrets_kubeconfig: Option<PathBuf>,
}

impl ProjectArgs {
    /// An error if a flag is missing that the mode needs, or one is given that it does not read.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let mode = self.project_mode.to_possible_value();
        let mode = mode.as_ref().map_or("", |mode| mode.get_name());
        let flags: [(_, &[&str], _); 7] = [
            (
                "--project-kubeconfig",
                &["single", "milo"],
                self.project_kubeconfig.is_some(),
            ),
            (
                "--discovery-kubeconfig",
                &["milo"],
                self.discovery_kubeconfig.is_some(),
            ),
            (
                "--internal-service-discovery",
                &["milo"],
                self.internal_service_discovery,
            ),
            ("--project-selector", &["milo"], self.project_selector.is_some()),
            (
                "--project-directory",
                &["directory"],
                self.project_directory.is_some(),
            ),
            (
                "--project-secrets-namespace",
                &["secrets"],
                self.project_secrets_namespace.is_some(),
            ),
            (
                "--project-secrets-kubeconfig",
                &["secrets"],
                self.project_secrets_kubeconfig.is_some(),
            ),
        ];
        for (flag, modes, is_given) in flags {
            ensure!(
                !is_given || modes.contains(&mode),
                "{flag} has no meaning with --project-mode {mode}; leave it out or choose --project-mode {}",
                modes[0]
            );
        }
        ensure!(
            mode != "directory" || self.project_directory.is_some(),
            "--project-mode {mode} needs --project-directory (or FEDGATE_PROJECT_DIRECTORY); name the folder of the projects' kubeconfigs"
        );
        ensure!(
            mode != "secrets" || self.project_secrets_namespace.is_some(),
            "--project-mode {mode} needs --project-secrets-namespace (or FEDGATE_PROJECT_SECRETS_NAMESPACE); name the namespace of the Secrets with label fedgate.dev/project=true"
        );
        Ok(())
    }

    /// The flag and the kubeconfig of the plane that has the Secrets or Projects; `None` for the hub. Without a path it is the
    /// service account of the Pod.
    pub fn plane(&self) -> Option<(&'static str, Option<&Path>)> {
        match self.project_mode {
            ProjectMode::Single | ProjectMode::Directory => None,
            ProjectMode::Secrets => {
                let path = self.project_secrets_kubeconfig.as_deref()?;
                Some(("--project-secrets-kubeconfig", Some(path)))
            }
            ProjectMode::Milo => {
                let path = self.discovery_kubeconfig.as_deref();
                let path = path.or(self.project_kubeconfig.as_deref());
                Some(("--discovery-kubeconfig", path))
            }
        }
    }

    /// The source of the projects; `plane` has the Secrets or Projects. The mode has the flags that it needs
    /// ([`Self::check`]).
    pub fn source(&self, plane: Connection) -> ProjectSource {
        match self.project_mode {
            ProjectMode::Single => ProjectSource::Single {
                kubeconfig: self.project_kubeconfig.clone(),
            },
            ProjectMode::Directory => ProjectSource::Directory {
                path: self.project_directory.clone().unwrap_or_default(),
            },
            ProjectMode::Secrets => ProjectSource::Secrets {
                plane,
                namespace: self.project_secrets_namespace.clone().unwrap_or_default(),
            },
            ProjectMode::Milo => ProjectSource::Milo(MiloSource {
                plane,
                form: self.form(),
                selector: self.project_selector.clone().unwrap_or_default(),
                template: CredentialSource {
                    kubeconfig: self.project_kubeconfig.clone(),
                    below: None,
                },
            }),
        }
    }

    /// The objects that tell Milo's projects.
    pub(super) fn form(&self) -> MiloForm {
        if self.internal_service_discovery {
            MiloForm::ControlPlanes
        } else {
            MiloForm::Projects
        }
    }
}
