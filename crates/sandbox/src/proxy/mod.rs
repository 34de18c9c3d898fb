//! The proxy of Clusters where the hub's controllers are the stand-in: a front before the hub's kube-apiserver.
//!
//! Real Karmada serves `cluster.karmada.io` by an aggregated API server, whose Clusters have a subresource `proxy`. The
//! stand-in's Clusters are a CRD's, which can have none, so the paths of that subresource are answered here ([`member`]), and
//! all other requests are passed on as they are, with the user of their certificate ([`connection`]). To its clients the hub is
//! where the front is; processes of the sandbox's own go to the kube-apiserver itself.

mod command;
mod connection;
mod hub;
mod member;
mod path;

pub(super) use command::HubProxyArgs;

use super::{
    CellSpec, SandboxError,
    layout::Layout,
    ports::free_port,
    process::{Launcher, Process, Spec},
    users::{Own, own_path},
};
use std::path::Path;
use tokio::sync::Mutex;

/// The front of a plane.
pub(super) struct Front {
    /// Address of the API server behind it.
    pub(super) server: String,
    port: u16,
    spec: Spec,
    pub(super) process: Mutex<Option<Process>>,
}

impl Front {
    /// The front of the hub, whose API server is at `server`; not started.
    pub(super) fn new(
        layout: &Layout,
        holder: &Path,
        plane: &str,
        server: String,
        cells: &[CellSpec],
    ) -> Result<Self, SandboxError> {
        let port = free_port()?;
        let file = |plane: &str| own_path(layout, Own::HubControllers, plane).display().to_string();
        let mut args = vec![
            "hub-proxy".to_owned(),
            format!("--port={port}"),
            format!("--pki={}", layout.pki().display()),
            format!("--hub-kubeconfig={}", file(plane)),
        ];
        let members = cells.iter();
        args.extend(members.map(|cell| format!("--member={}={}", cell.name, file(&cell.name))));
        let spec = Spec {
            name: format!("{plane} proxy stand-in"),
            program: holder.to_owned(),
            args,
        };
        Ok(Self {
            server,
            port,
            spec,
            process: Mutex::default(),
        })
    }

    /// Where clients find it.
    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Starts it beside its API server and waits until both answer `admin`, a client of its own address.
    pub(super) async fn start(&self, launcher: &Launcher, admin: &kube::Client) -> Result<(), SandboxError> {
        let process = launcher.start(&self.spec)?;
        process.ready(admin, "/readyz").await?;
        *self.process.lock().await = Some(process);
        Ok(())
    }

    /// Ends it.
    pub(super) async fn stop(&self) {
        if let Some(process) = self.process.lock().await.take() {
            process.stop().await;
        }
    }
}
