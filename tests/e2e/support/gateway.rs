//! The gateway as a separate process under its own certificate, with short times.

use super::{
    plane::{seconds, wait_for},
    role::Role,
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    ffi::OsString,
    ops::Deref,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// How long a city that was left stays in its namespace's city set.
pub(crate) const LINGER: u64 = 5;
/// How long an empty hub namespace outlives its project namespace.
pub(crate) const RETENTION: u64 = 8;
/// How long a city set's policy outlives its last namespace.
pub(crate) const UNUSED_SET: u64 = 12;
/// Pause between two sweeps where a test asks for them.
pub(crate) const SWEEP: u64 = 3;
/// Pause between two sweeps otherwise: longer than any test, so that nothing but an event can have done what is awaited.
pub(crate) const SELDOM: u64 = 3600;
/// How long a hub object must lack its origin before it is garbage.
pub(crate) const ORPHAN: u64 = 5;

/// Where a gateway finds the kubeconfigs of projects.
pub(crate) enum Projects {
    /// Files of this folder.
    Folder(PathBuf),
    /// Labelled Secrets of this namespace of the hub.
    Secrets(&'static str),
    /// Projects of Milo, found and reached with this one kubeconfig.
    #[allow(dead_code, reason = "the platform's suite has it")]
    Milo(PathBuf),
    /// The same of control planes, whose hosts this other file names.
    #[allow(dead_code, reason = "the platform's suite has it")]
    ControlPlanes(PathBuf, PathBuf),
}

/// Where a gateway finds its planes.
pub(crate) struct Setup {
    /// Kubeconfig of the hub.
    pub(crate) hub: PathBuf,
    /// Where the projects' kubeconfigs are.
    pub(crate) projects: Projects,
    /// The flags for kinds beside the built-in one.
    pub(crate) kinds: Option<[OsString; 4]>,
    /// File to which the process writes.
    pub(crate) log: PathBuf,
    /// Further options of the gateway.
    pub(crate) further: Vec<OsString>,
}

impl Projects {
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Folder(folder) => vec![
                "--project-mode=directory".into(),
                "--project-directory".into(),
                folder.into(),
            ],
            Self::Secrets(namespace) => vec![
                "--project-mode=secrets".into(),
                "--project-secrets-namespace".into(),
                (*namespace).into(),
            ],
            Self::Milo(kubeconfig) | Self::ControlPlanes(kubeconfig, _) => {
                let internal = matches!(self, Self::ControlPlanes(..));
                let mut all = vec![
                    "--project-mode=milo".into(),
                    "--discovery-kubeconfig".into(),
                    kubeconfig.into(),
                    "--project-kubeconfig".into(),
                    kubeconfig.into(),
                ];
                all.extend(internal.then(|| "--internal-service-discovery".into()));
                all
            }
        }
    }
}

/// One gateway process, which tests may stop and start again.
pub(crate) struct Gateway {
    setup: Setup,
    sweep: AtomicU64,
    /// Given beside the usual flags, by a test that runs it in another way.
    more: Mutex<Vec<OsString>>,
    role: Role,
}

impl Deref for Gateway {
    type Target = Role;

    fn deref(&self) -> &Role {
        &self.role
    }
}

impl Gateway {
    pub(crate) fn new(setup: Setup) -> Self {
        let role = Role::new("gateway", setup.log.clone());
        let role = match &setup.projects {
            Projects::ControlPlanes(_, hosts) => role.resolving(hosts.clone()),
            _ => role,
        };
        Self {
            role,
            setup,
            sweep: AtomicU64::new(SELDOM),
            more: Mutex::default(),
        }
    }

    fn arguments(&self) -> Vec<OsString> {
        let Setup {
            hub,
            projects,
            kinds,
            log: _,
            further,
        } = &self.setup;
        let mut all: Vec<OsString> = vec!["gateway".into(), "--hub-kubeconfig".into(), hub.into()];
        all.extend(projects.arguments());
        all.extend(kinds.iter().flatten().cloned());
        let times = [
            ("--city-linger", LINGER),
            ("--hub-namespace-retention", RETENTION),
            ("--unused-city-set-after", UNUSED_SET),
            ("--sweep-interval", self.sweep.load(Ordering::Relaxed)),
            ("--orphan-after", ORPHAN),
        ];
        for (flag, time) in times {
            all.extend([flag.into(), format!("{time}s").into()]);
        }
        all.extend(further.iter().cloned());
        all.extend(self.more.lock().iter().cloned());
        all
    }

    /// Starts the process without waiting for anything.
    pub(crate) async fn spawn(&self) {
        self.role.spawn(&self.arguments()).await;
    }

    /// Starts the process and waits until it says that it is ready.
    pub(crate) async fn start(&self) {
        self.spawn().await;
        self.ready().await;
    }

    pub(crate) async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Starts it anew with these flags beside its own.
    #[allow(dead_code, reason = "the suite of the cells has it")]
    pub(crate) async fn restart_with(&self, flags: &[&str]) {
        *self.more.lock() = flags.iter().map(Into::into).collect();
        self.restart().await;
    }

    /// Sweeps with this pause from now on, for which a running process is started anew.
    pub(crate) async fn sweep_every(&self, pause: u64) {
        if self.sweep.swap(pause, Ordering::Relaxed) != pause && self.is_running().await {
            self.restart().await;
        }
    }

    /// What `/debug/planes` says of a project, if it is engaged.
    pub(crate) async fn project(&self, key: &str) -> Option<Value> {
        let (name, document) = (format!("project {key}"), self.planes().await);
        let planes = document["planes"].as_array()?;
        planes.iter().find(|plane| plane["plane"] == name).cloned()
    }

    /// Waits until the project is engaged and its first lists are complete.
    pub(crate) async fn engaged(&self, key: &str) {
        wait_for(&format!("project {key} is engaged"), seconds(60), || async {
            self.project(key).await.filter(|project| project["ready"] == true)
        })
        .await;
    }

    /// Waits until the project is left.
    pub(crate) async fn left(&self, key: &str) {
        wait_for(&format!("project {key} is left"), seconds(30), || async {
            let planes = self.planes().await["planes"].is_array();
            (planes && self.project(key).await.is_none()).then_some(())
        })
        .await;
    }

    /// Waits until the process may write and has read all of the hub.
    pub(crate) async fn leads(&self) {
        wait_for("the gateway leads", seconds(60), || async {
            let document = self.planes().await;
            let planes = document["planes"].as_array()?;
            let hub = planes.iter().find(|plane| plane["plane"] == "hub")?;
            (document["leading"] == true && hub["ready"] == true).then_some(())
        })
        .await;
    }

    /// The folder of the projects' kubeconfigs.
    pub(crate) fn projects(&self) -> &Path {
        match &self.setup.projects {
            Projects::Folder(folder) => folder,
            _ => panic!("this gateway reads no folder"),
        }
    }

    /// The kubeconfig of its hub.
    pub(crate) fn hub_kubeconfig(&self) -> &Path {
        &self.setup.hub
    }
}
