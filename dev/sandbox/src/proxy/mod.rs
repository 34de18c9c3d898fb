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

pub(super) use command::play;

use super::{
    Options,
    child::StandInArgs,
    layout::Layout,
    ports::free_port,
    process::{Launcher, Service},
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
        options: &Options,
    ) -> anyhow::Result<Self> {
        let port = free_port()?;
        let line = StandInArgs::line("hub-proxy", layout, options, port);
        Ok(Self {
            server,
            port,
            process: Service::new(launcher.own("hub proxy stand-in", line)),
        })
    }

    /// The address for clients.
    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}
