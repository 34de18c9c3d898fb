//! The description of a running sandbox for other processes: a JSON file in its folder.

use super::{PlaneRole, Sandbox, certs::write, layout::Layout};
use crate::error::cannot;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A sandbox as `fedgate-sandbox status` shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    /// Process id of the owner.
    pub(super) owner: u32,
    /// The hub's controllers and the stand-ins, for people.
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
}

/// A plane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PlaneState {
    pub(super) name: String,
    pub(super) role: PlaneRole,
    pub(super) url: String,
}

/// A process; `pid` is that of its holder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProcessState {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) log: PathBuf,
}

impl State {
    /// Reads the file; `None` if there is none.
    pub(super) fn read(layout: &Layout) -> anyhow::Result<Option<Self>> {
        let path = layout.state();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(cannot("read", &path)),
        };
        let dir = layout.dir.display();
        serde_json::from_str(&text)
            .with_context(|| format!("run `fedgate-sandbox down --dir {dir}`: its state is not readable"))
    }
}

impl Sandbox {
    /// Writes the file anew.
    pub(super) async fn write_state(&self) -> anyhow::Result<()> {
        let mut processes = Vec::new();
        self.visit(|process| {
            processes.push(ProcessState {
                name: process.name.clone(),
                pid: process.pid,
                log: process.log.clone(),
            });
        })
        .await;
        let plane = |plane: &super::plane::Plane| PlaneState {
            name: plane.name.clone(),
            role: plane.role,
            url: plane.url.clone(),
        };
        let state = State {
            owner: std::process::id(),
            played: self.played.clone(),
            planes: self.planes.iter().map(plane).collect(),
            processes,
            kubeconfig: self.merged_kubeconfig(),
            hub_kubeconfig: self.kubeconfig("hub", super::User::Gateway),
            project_kubeconfigs: self.project_kubeconfigs(),
            platform_kubeconfig: self
                .platform
                .as_ref()
                .map(|_| self.platform_kubeconfig(super::User::Gateway)),
        };
        let text = serde_json::to_string_pretty(&state).context("the state cannot be written as JSON")?;
        write(&self.layout.state(), &text)
    }
}
