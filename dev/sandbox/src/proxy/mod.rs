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
    process::{Launcher, Service, flag},
    users::{Own, kubeconfig_args, own_path},
};

/// The front of a plane.
pub(super) struct Front {
    /// Address of the API server behind it.
    pub(super) server: String,
    port: u16,
    pub(super) process: Service,
}

impl Front {
    /// The front of the hub, whose API server is at `server`; not started.
    pub(super) fn new(
        layout: &Layout,
        launcher: &Launcher,
        server: String,
        cells: &[CellSpec],
    ) -> Result<Self, SandboxError> {
        let port = free_port()?;
        let members = cells.iter().map(|cell| &cell.name);
        let mut args = vec![
            "hub-proxy".to_owned(),
            format!("--port={port}"),
            flag("--pki", &layout.pki()),
            flag("--hub-kubeconfig", &own_path(layout, Own::HubControllers, "hub")),
        ];
        args.extend(kubeconfig_args(layout, Own::HubControllers, "--member", members));
        Ok(Self {
            server,
            port,
            process: Service::new(launcher.own("hub proxy stand-in", args)),
        })
    }

    /// The address for clients.
    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}
