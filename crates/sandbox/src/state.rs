//! What a sandbox tells other processes about itself: one JSON file in its folder.

use super::{PlaneRole, Sandbox, SandboxError, certs::write, layout::Layout, process::Process};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A sandbox as `fedgate-sandbox status` shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    /// Process id of the owner.
    pub(super) owner: u32,
    /// Who plays Karmada, in words.
    pub(super) hub_controllers: String,
    /// What else is played, in words.
    pub(super) played: Vec<String>,
    pub(super) planes: Vec<PlaneState>,
    pub(super) processes: Vec<ProcessState>,
    /// The administrator's kubeconfig with one context per plane.
    pub(super) kubeconfig: PathBuf,
    /// The gateway's kubeconfig of the hub.
    pub(super) hub_kubeconfig: PathBuf,
    /// Folder with the gateway's kubeconfigs of the projects.
    pub(super) project_kubeconfigs: PathBuf,
    /// The gateway's kubeconfig for the stand-in of Milo, if that has the projects.
    pub(super) platform_kubeconfig: Option<PathBuf>,
    pub(super) logs: PathBuf,
}

/// One plane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PlaneState {
    pub(super) name: String,
    pub(super) role: PlaneRole,
    pub(super) url: String,
}

/// One process; `pid` is its holder's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProcessState {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) log: PathBuf,
}

impl State {
    /// Reads the file; `None` if there is none.
    pub(super) fn read(layout: &Layout) -> Result<Option<Self>, SandboxError> {
        let path = layout.state();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SandboxError::io("read", &path)(error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|e| {
            SandboxError::Options(format!(
                "{} is not readable ({e}); run `fedgate-sandbox down --dir {}`",
                path.display(),
                layout.dir.display()
            ))
        })
    }
}

impl Sandbox {
    /// Writes the file anew.
    pub(super) async fn write_state(&self) -> Result<(), SandboxError> {
        let one = |process: &Process| ProcessState {
            name: process.name().to_owned(),
            pid: process.pid(),
            log: process.log().to_owned(),
        };
        let mut processes: Vec<_> = self.etcd.process.lock().await.iter().map(one).collect();
        for plane in &self.planes {
            if let Some(etcd) = &plane.etcd {
                processes.extend(etcd.process.lock().await.as_ref().map(one));
            }
            processes.extend(plane.server.lock().await.as_ref().map(one));
            if let Some(front) = &plane.front {
                processes.extend(front.process.lock().await.as_ref().map(one));
            }
            processes.extend(plane.controllers.lock().await.iter().map(one));
        }
        let platform = self.platform.as_ref().map(|platform| &platform.process);
        let others = self.hub_processes.iter().chain(&self.backends).chain(platform);
        processes.extend(others.map(one));
        let plane = |plane: &super::plane::Plane| PlaneState {
            name: plane.name.clone(),
            role: plane.role,
            url: plane.url.clone(),
        };
        let state = State {
            owner: std::process::id(),
            hub_controllers: self.hub_controllers.clone(),
            played: self.played.clone(),
            planes: self.planes.iter().map(plane).collect(),
            processes,
            kubeconfig: self.merged_kubeconfig(),
            hub_kubeconfig: self.kubeconfig("hub", super::User::Gateway),
            project_kubeconfigs: self.project_kubeconfigs(),
            platform_kubeconfig: platform.map(|_| self.platform_kubeconfig(super::User::Gateway)),
            logs: self.logs(),
        };
        let text = serde_json::to_string_pretty(&state)
            .map_err(|e| SandboxError::Options(format!("the state cannot be written as JSON: {e}")))?;
        write(&self.layout.state(), &text)
    }
}
