//! The process around the returns of a member.

use super::{BUILD, Start};
use crate::config::ReturnsArgs;
use fedgate_engine::metrics::PlaneKind;
use fedgate_kinds::Kinds;
use fedgate_operations::views::role::Operations;
use fedgate_returns::{SWEEP_INTERVAL, Setup};
use futures::StreamExt;
use std::sync::Arc;

/// Runs the returns of a member until `shutdown`, then waits for the writes in flight and releases the Lease.
pub async fn run_returns(args: ReturnsArgs, shutdown: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
    let lease = args.process.lease(&args.namespace, &args.lease_name);
    let mut start = Start::new("returns", "cell", args.process)?;
    let kinds = Kinds::load(&args.kinds.builtin_kinds, args.kinds.interpreters.as_deref())?;
    let kinds = kinds.federated;
    anyhow::ensure!(
        kinds.iter().any(|kind| !kind.returns.is_empty()),
        "no kind has returns, so nothing is to be done here; name those of the gateway with --builtin-kinds and --interpreters"
    );
    let own = args.member_kubeconfig.as_deref();
    let member = start.follow("--member-kubeconfig", own, PlaneKind::Cell)?;
    // Lease renewals must not queue behind the workers' calls, so the Lease has its own client.
    let election = start.follow("--member-kubeconfig", own, PlaneKind::Cell)?;
    let hub = start.follow("--hub-kubeconfig", Some(&args.hub_kubeconfig), PlaneKind::Hub)?;
    let admin = start.open_admin(None).await?;
    let setup = start.setup(lease, &election, SWEEP_INTERVAL);
    let planes = Setup {
        member,
        hub,
        name: args.name.as_str().into(),
        kinds,
    };
    let role = fedgate_returns::new(planes, setup);
    let operations = Operations::new(role.clone(), start.status.process.clone());
    tracing::info!(
        identity = start.identity,
        member = args.name,
        version = BUILD.version,
        "the returns of the member have started"
    );
    let none = futures::stream::pending().boxed();
    start.run(admin, role, Arc::new(operations), none, shutdown).await;
    tracing::info!("the returns of the member have ended");
    Ok(())
}
