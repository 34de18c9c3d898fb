//! `fedgate-sandbox platform`: runs the stand-in as a process of its own.

use super::{
    controller::control,
    handle::{Connection, Handler},
    switches::Switches,
    upstreams::Upstreams,
};
use crate::{
    SandboxError, child,
    front::{
        serve::{Caller, serve},
        upstream::{FRONT_PROXY, Pki, Upstream, forwarder},
    },
};
use clap::Args;
use std::{path::PathBuf, sync::Arc};

/// The API servers that the stand-in of Milo has behind its address.
#[derive(Debug, Clone, Args)]
pub struct PlatformArgs {
    /// Port of 127.0.0.1 to serve.
    #[arg(long)]
    port: u16,
    /// Folder with the sandbox's certificates.
    #[arg(long, value_name = "DIR")]
    pki: PathBuf,
    /// Kubeconfig of the core API server, with all rights.
    #[arg(long, value_name = "FILE")]
    core: PathBuf,
    /// Kubeconfig of the API server behind all names that have none of their own. Without it the core is Milo's own API
    /// server, and takes all paths as they are.
    #[arg(long, value_name = "FILE")]
    spare: Option<PathBuf>,
    /// A project and the kubeconfig of its API server; may be repeated.
    #[arg(long = "project", value_name = "NAME=FILE", value_parser = child::named_file)]
    projects: Vec<(String, PathBuf)>,
}

impl PlatformArgs {
    /// Runs until the process receives a shutdown signal.
    pub async fn run(self) -> Result<(), SandboxError> {
        child::begin_log();
        let played = if self.spare.is_some() {
            "this is fedgate's STAND-IN for Milo, for the sandbox only"
        } else {
            "this plays Milo's controllers and faults before Milo's own API server, for the sandbox only"
        };
        tracing::info!(projects = self.projects.len(), "{played}");
        let spare = match &self.spare {
            Some(file) => Some(Upstream::of(file).await?),
            None => None,
        };
        let upstreams = Arc::new(Upstreams {
            core: Upstream::of(&self.core).await?,
            spare,
            projects: Upstream::all(&self.projects).await?,
        });
        let pki = Pki { dir: self.pki };
        let switches = Arc::new(Switches::new());
        let handler = Arc::new(Handler {
            upstreams: Arc::clone(&upstreams),
            switches: Arc::clone(&switches),
            forwarder: forwarder(&pki.connector(Some(FRONT_PROXY))?),
        });
        let connection = move |caller: Caller| Connection {
            handler: Arc::clone(&handler),
            caller,
        };
        let mut control = tokio::spawn(control(upstreams, switches));
        tokio::select! {
            () = child::shutdown_signal() => Ok(()),
            never = serve(self.port, pki.server()?, connection) => never,
            _ = &mut control => Err(SandboxError::Options(
                "the project controller of the stand-in broke off; read its log".to_owned(),
            )),
        }
    }
}
