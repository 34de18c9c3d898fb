//! The process around the returns of a member.

use super::{AdminServer, BUILD, RoleStatus, StartError, elect, follow, identity};
use crate::config::{self, ReturnsConfig};
use fedgate_engine::{
    clock::Clock,
    metrics::{Metrics, PlaneKind},
    plane::discovery::CredentialSource,
    runtime,
};
use fedgate_kinds::Kinds;
use futures::StreamExt;
use std::{path::PathBuf, sync::Arc};
use tokio::task::JoinSet;

/// Name of the queue in the workqueue metrics.
const QUEUE: &str = "returns";

/// Runs the returns of a member until `shutdown`, then waits for the writes in flight and releases the Lease.
pub async fn run_returns(
    config: ReturnsConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), StartError> {
    let metrics = Metrics::of(QUEUE).map_err(|e| StartError::System(format!("metrics: {e}")))?;
    metrics.built(BUILD);
    let kinds = Kinds::load(&config.kinds.builtin_kinds, config.kinds.interpreters.as_deref())?;
    let kinds = kinds.federated;
    if kinds.iter().all(|kind| kind.returns.is_empty()) {
        return Err(StartError::NoReturns);
    }
    let clients = config::clients(&metrics);
    let rules = config.process.rules;
    let mut background = JoinSet::new();
    let mut follow = |flag, kubeconfig: Option<&PathBuf>, plane| {
        let login = CredentialSource {
            kubeconfig: kubeconfig.cloned(),
            below: None,
        };
        follow(&clients, rules, &mut background, flag, login, plane)
    };
    let own = config.member_kubeconfig.as_ref();
    let member = follow("--member-kubeconfig", own, PlaneKind::Cell)?;
    // Lease renewals must not queue behind the workers' calls, so the Lease has its own client.
    let election = follow("--member-kubeconfig", own, PlaneKind::Cell)?;
    let hub = follow("--hub-kubeconfig", Some(&config.hub_kubeconfig), PlaneKind::Hub)?;
    let identity = identity();
    let subject = RoleStatus::new(&metrics, &identity, "cell");
    let desk = AdminServer::open(&config.process, &subject, None).await?;
    let lease = elect(
        config.lease.as_ref(),
        &election,
        &identity,
        &metrics,
        &mut background,
    );
    let planes = fedgate_returns::Setup {
        member,
        hub,
        name: config.name.clone(),
        kinds,
    };
    let setup = runtime::Setup {
        lease: lease.clone(),
        identity: identity.clone(),
        workers: config.process.workers,
        sweep_interval: fedgate_returns::SWEEP_INTERVAL,
        metrics: metrics.clone(),
        clock: Clock::system(),
    };
    let role = fedgate_returns::new(planes, setup);
    let operations = fedgate_returns::operations::Operations::new(role.clone(), subject.process.clone());
    subject.runs(role.clone(), Arc::new(operations));
    tracing::info!(
        identity,
        member = &*config.name,
        version = env!("CARGO_PKG_VERSION"),
        "the returns of the member have started"
    );
    role.run(futures::stream::pending().boxed(), shutdown).await;
    lease.release().await;
    desk.close().await;
    tracing::info!("the returns of the member have ended");
    Ok(())
}
