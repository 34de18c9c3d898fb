//! `fedgate-sandbox hub-proxy`: runs the front as a process of its own.

use super::{connection::Connection, hub::Hub};
use crate::{
    SandboxError, child,
    front::{
        serve::{Caller, serve},
        upstream::{FRONT_PROXY, Pki, Upstream, forwarder},
    },
};
use clap::Args;
use std::{path::PathBuf, sync::Arc};

/// The API servers behind the front.
#[derive(Debug, Clone, Args)]
pub struct HubProxyArgs {
    /// Port of 127.0.0.1 to serve.
    #[arg(long)]
    port: u16,
    /// Folder with the sandbox's certificates.
    #[arg(long, value_name = "DIR")]
    pki: PathBuf,
    /// Kubeconfig of the hub's API server, with all rights there.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: PathBuf,
    /// A member: name of its Cluster object and kubeconfig with all rights there; may be repeated.
    #[arg(long = "member", value_name = "NAME=FILE", value_parser = child::named_file)]
    members: Vec<(String, PathBuf)>,
}

impl HubProxyArgs {
    /// Runs until the process receives a shutdown signal.
    pub async fn run(self) -> Result<(), SandboxError> {
        child::begin_log();
        tracing::info!(
            members = self.members.len(),
            "this is fedgate's STAND-IN for Karmada's proxy of Clusters, for the sandbox only"
        );
        let hub = Arc::new(Hub {
            server: Upstream::of(&self.hub_kubeconfig).await?,
            members: Upstream::all(&self.members).await?,
        });
        let pki = Pki { dir: self.pki };
        let as_front_proxy = pki.connector(Some(FRONT_PROXY))?;
        let as_nobody = pki.connector(None)?;
        let connection = move |caller: Caller| {
            let connector = match &caller {
                Caller::User(_) => &as_front_proxy,
                Caller::Nobody | Caller::Unproven => &as_nobody,
            };
            Connection {
                hub: Arc::clone(&hub),
                forwarder: forwarder(connector),
                caller,
            }
        };
        tokio::select! {
            () = child::shutdown_signal() => Ok(()),
            never = serve(self.port, pki.server()?, connection) => never,
        }
    }
}
