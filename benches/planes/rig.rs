//! The planes, the folders and the gateway of one run.

use super::{
    gateway::{Gateway, Place},
    objects::{Kind, bare_namespace, bare_policy, cluster, marked_policy},
    plane::{Plane, text},
};
use anyhow::{Context, Result, ensure};
use fedgate_api::names::ProjectKey;
use fedgate_sandbox::{HubControllers, Manifest, Options, Progress, Sandbox, User};
use serde_json::json;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};
use tokio::process::Command;

/// Project planes of the bare client, which no other program knows.
const BARE: [&str; 2] = ["bare-a", "bare-b"];

/// A program that carries objects between projects and hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Gateway,
    /// `benches/peer`.
    Peer,
}

impl Program {
    /// Project planes that it serves.
    const fn projects(self) -> [&'static str; 2] {
        match self {
            Self::Gateway => ["alpha", "beta"],
            Self::Peer => ["peer-a", "peer-b"],
        }
    }

    /// Before the names of its figures, and of its namespaces.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Gateway => "",
            Self::Peer => "peer ",
        }
    }

    /// The name of a namespace of its own, also among those of the bare client.
    pub(crate) fn namespace(self, name: &str) -> String {
        format!("{}{name}", self.prefix().replace(' ', "-"))
    }
}

/// Everything one run works with.
pub(crate) struct Rig {
    sandbox: Sandbox,
    dir: PathBuf,
    /// Who plays Karmada on the hub, in words.
    pub(crate) controllers: String,
    pub(crate) hub: Plane,
    served: [Plane; 2],
    peers: [Plane; 2],
    pub(crate) bare: [Plane; 2],
}

/// A namespace of a project and its namespace on the hub.
pub(crate) struct Home<'a> {
    pub(crate) hub: &'a Plane,
    pub(crate) project: &'a Plane,
    pub(crate) key: ProjectKey,
    pub(crate) namespace: String,
    pub(crate) hub_namespace: String,
}

impl Rig {
    /// Brings hub and projects up in `dir`, fsync on, nobody acting on the hub.
    pub(crate) async fn up(dir: &Path) -> Result<Self> {
        let controllers = HubControllers::Nobody;
        let (served, peers) = (Program::Gateway.projects(), Program::Peer.projects());
        let sandbox = Sandbox::up(Options {
            projects: [served, peers, BARE]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            cells: Vec::new(),
            hub_controllers: controllers.clone(),
            manifests: Manifest::builtin()?,
            fsync: true,
            progress: Progress::new(|line| eprintln!("sandbox: {line}")),
            ..Options::new(dir.join("sandbox"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
        })
        .await
        .context("bring the sandbox up")?;
        for (folder, projects) in [
            ("no-projects", &[][..]),
            ("projects", &served[..]),
            ("projects-of-the-peer", &peers[..]),
        ] {
            let folder = dir.join(folder);
            if folder.exists() {
                std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
            }
            std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
            for project in projects {
                let file = format!("{project}.yaml");
                std::fs::copy(sandbox.kubeconfig(project, User::Gateway), folder.join(&file))
                    .with_context(|| format!("copy the kubeconfig {file}"))?;
            }
        }
        let planes = async {
            let plane = async |name: &str| Plane::new(name, sandbox.client(name, User::Admin)?).await;
            let pair = async |names: [&str; 2]| {
                Ok::<_, anyhow::Error>([plane(names[0]).await?, plane(names[1]).await?])
            };
            Ok::<_, anyhow::Error>((
                plane("hub").await?,
                [pair(served).await?, pair(peers).await?, pair(BARE).await?],
            ))
        };
        match planes.await {
            Ok((hub, [served, peers, bare])) => {
                hub.create(Kind::ClusterPolicy, "", marked_policy()).await?;
                hub.create(Kind::Cluster, "", cluster()).await?;
                let controllers = controllers.to_string();
                Ok(Self {
                    dir: dir.to_owned(),
                    controllers,
                    hub,
                    served,
                    peers,
                    bare,
                    sandbox,
                })
            }
            Err(error) => {
                sandbox.down().await?;
                Err(error)
            }
        }
    }

    /// Starts a gateway for both served projects, or for none.
    pub(crate) async fn gateway(&self, projects: bool) -> Result<Gateway> {
        let folder = self.dir.join(if projects { "projects" } else { "no-projects" });
        let hub = self.sandbox.kubeconfig("hub", User::Gateway);
        Gateway::start(&Place {
            hub,
            projects: &[
                "--project-mode=directory".as_ref(),
                "--project-directory".as_ref(),
                folder.as_os_str(),
            ],
            dir: &self.dir,
            flags: &[],
        })
        .await
    }

    /// Builds the comparison program, and starts it for its projects.
    pub(crate) async fn peer(&self) -> Result<Gateway> {
        let (source, program) = (
            concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peer"),
            self.dir.join("peer"),
        );
        let mut build = Command::new("go");
        build.args(["build", "-C", source, "-o"]).arg(&program).arg(".");
        let status = build.status().await.context("run go")?;
        ensure!(status.success(), "go build of {source} ended with {status}");
        let hub = self.sandbox.kubeconfig("hub", User::Gateway);
        let projects = self.dir.join("projects-of-the-peer");
        let arguments: [&OsStr; 4] = [
            "--hub-kubeconfig".as_ref(),
            hub.as_ref(),
            "--project-directory".as_ref(),
            projects.as_ref(),
        ];
        Gateway::program(&program, "peer-process", &arguments, "--ready-address", &self.dir).await
    }

    /// The audit logs: hub, then the served projects.
    pub(crate) fn audit_logs(&self) -> (PathBuf, Vec<PathBuf>) {
        let projects = Program::Gateway.projects();
        let projects = projects.iter().map(|name| self.sandbox.audit_log(name)).collect();
        (self.sandbox.audit_log("hub"), projects)
    }

    /// Ends everything.
    pub(crate) async fn down(self) -> Result<()> {
        self.sandbox.down().await.context("take the sandbox down")
    }

    /// A new namespace in a project that a program serves.
    pub(crate) async fn home(&self, program: Program, number: usize, namespace: &str) -> Result<Home<'_>> {
        let planes = match program {
            Program::Gateway => &self.served,
            Program::Peer => &self.peers,
        };
        let project = &planes[number];
        let object = project
            .create(Kind::Namespace, "", json!({"metadata": {"name": namespace}}))
            .await?;
        Ok(Home {
            hub: &self.hub,
            project,
            key: ProjectKey::parse(program.projects()[number])?,
            namespace: namespace.to_owned(),
            hub_namespace: format!("ns-{}", text(&object, "/metadata/uid")),
        })
    }

    /// A new namespace in a project of the bare client; its hub namespace is not made yet.
    pub(crate) async fn bare_home(&self, bare: usize, namespace: &str) -> Result<Home<'_>> {
        let project = &self.bare[bare];
        let object = project
            .create(Kind::Namespace, "", json!({"metadata": {"name": namespace}}))
            .await?;
        Ok(Home {
            hub: &self.hub,
            project,
            key: ProjectKey::parse(BARE[bare])?,
            namespace: namespace.to_owned(),
            hub_namespace: format!("bare-{}", text(&object, "/metadata/uid")),
        })
    }
}

impl Home<'_> {
    /// What the bare client writes to the hub for a new namespace.
    pub(crate) async fn furnish(&self) -> Result<()> {
        let name = &self.hub_namespace;
        self.hub
            .create(Kind::Namespace, "", bare_namespace(name, &self.namespace))
            .await?;
        self.hub.create(Kind::Policy, name, bare_policy(name)).await?;
        Ok(())
    }
}
