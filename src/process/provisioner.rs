//! The process around the provisioner.

use super::{BUILD, Start};
use crate::config::{ProviderArg, ProvisionerArgs};
use anyhow::Context;
use fedgate_engine::metrics::PlaneKind;
use fedgate_kinds::Kinds;
use fedgate_operations::views::role::Operations;
use fedgate_provisioner::{SWEEP_INTERVAL, Setup};
use futures::StreamExt;
use std::sync::Arc;

/// Runs the provisioner until `shutdown`, then waits for the writes in flight and releases the Lease.
pub async fn run_provisioner(
    args: ProvisionerArgs,
    shutdown: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    if args.providers.contains(&ProviderArg::Hosts) {
        let ssh = tokio::process::Command::new("ssh").arg("-V").output().await;
        ssh.context("provider hosts needs the program ssh; next: take an image with OpenSSH's client (docs/provisioning.md)")?;
    }
    let lease = args.process.lease(&args.namespace, &args.lease_name);
    let mut start = Start::new("provisioner", "hub", args.process)?;
    let kinds = Kinds::load(&args.kinds.builtin_kinds, args.kinds.interpreters.as_deref())?;
    let kubeconfig = Some(args.hub_kubeconfig.as_path());
    let hub = start.follow("--hub-kubeconfig", kubeconfig, PlaneKind::Hub)?;
    // Lease renewals must not queue behind the workers' calls, so the Lease has its own client.
    let election = start.follow("--hub-kubeconfig", kubeconfig, PlaneKind::Hub)?;
    let own = args.home_kubeconfig.as_deref();
    let home = start.follow("--home-kubeconfig", own, PlaneKind::Home)?;
    let admin = start.open_admin(None).await?;
    let setup = start.setup(lease, &election, SWEEP_INTERVAL);
    let planes = Setup {
        hub,
        hub_kubeconfig: args.hub_kubeconfig,
        home,
        namespace: args.secrets_namespace.as_str().into(),
        providers: args.providers.iter().map(|provider| provider.kind()).collect(),
        cluster_api_namespaces: args.cluster_api_namespaces,
        runtime_directory: args.runtime_directory,
        kinds: kinds.federated,
    };
    // The steps are those of commands, which say each change before it is made.
    fedgate_terminal::write::say_to(|line| tracing::info!(detail = line, "step of a Cell"));
    let role = fedgate_provisioner::new(planes, setup);
    let operations = Operations::new(role.clone(), start.status.process.clone());
    tracing::info!(
        identity = start.identity,
        version = BUILD.version,
        "the provisioner has started"
    );
    let none = futures::stream::pending().boxed();
    start.run(admin, role, Arc::new(operations), none, shutdown).await;
    tracing::info!("the provisioner has ended");
    Ok(())
}
