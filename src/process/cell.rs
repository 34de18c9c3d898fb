//! The process around a cell.

use super::{AdminServer, BUILD, RoleStatus, StartError, elect, follow, identity};
use crate::config::{self, CellConfig, Quota};
use fedgate_api::names::ProjectKey;
use fedgate_cell::projects::Projects;
use fedgate_engine::{
    clock::Clock,
    metrics::{Metrics, PlaneKind},
    plane::{
        client::Clients,
        discovery::{self, CredentialSource, ProjectEvent, ProjectSource},
        kubeconfig::Rules,
    },
    runtime,
};
use futures::{FutureExt, StreamExt, stream::BoxStream};
use std::{path::PathBuf, sync::Arc};
use tokio::task::JoinSet;

/// Name of a cell's queue in the workqueue metrics.
const QUEUE: &str = "cell";

/// Runs a cell until `shutdown`, then waits for its writes in flight and releases the Lease.
pub async fn run_cell(
    config: CellConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), StartError> {
    let metrics = Metrics::of(QUEUE).map_err(|e| StartError::System(format!("metrics: {e}")))?;
    metrics.built(BUILD);
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
    let own = config.cell_kubeconfig.as_ref();
    let cell = follow("--cell-kubeconfig", own, PlaneKind::Cell)?;
    // Lease renewals must not queue behind the workers' calls, so the Lease has its own client.
    let election = follow("--cell-kubeconfig", own, PlaneKind::Cell)?;
    let hub = match &config.hub_kubeconfig {
        Some(path) => Some(follow("--hub-kubeconfig", Some(path), PlaneKind::Hub)?),
        None => None,
    };
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
    let planes = fedgate_cell::Setup {
        cell,
        hub,
        projects: projects(&config, &clients),
        reading: config.reading.clone(),
        settings: config.settings.clone(),
    };
    let setup = runtime::Setup {
        lease: lease.clone(),
        identity: identity.clone(),
        workers: config.process.workers,
        sweep_interval: fedgate_cell::SWEEP_INTERVAL,
        metrics: metrics.clone(),
        clock: Clock::system(),
    };
    let role = fedgate_cell::new(planes, setup);
    let operations = fedgate_cell::operations::Operations::new(role.clone(), subject.process.clone());
    subject.runs(role.clone(), Arc::new(operations));
    tracing::info!(
        identity,
        cell = &*config.reading.cell,
        version = env!("CARGO_PKG_VERSION"),
        "the cell has started"
    );
    role.run(found(&config.quota, &clients, rules), shutdown).await;
    lease.release().await;
    desk.close().await;
    tracing::info!("the cell has ended");
    Ok(())
}

/// Events of the projects that a directory of kubeconfigs defines.
fn found(quota: &Quota, clients: &Clients, rules: Rules) -> BoxStream<'static, ProjectEvent> {
    match quota {
        Quota::Directory(path) => {
            let source = ProjectSource::Directory { path: path.clone() };
            discovery::discover(&source, clients, rules)
        }
        Quota::Off | Quota::Below(_) | Quota::Own(_) => futures::stream::pending().boxed(),
    }
}

/// The method of connecting to projects.
fn projects(config: &CellConfig, clients: &Clients) -> Projects {
    let (kubeconfig, is_below) = match &config.quota {
        Quota::Off | Quota::Directory(_) => return Projects::Discovered,
        Quota::Below(path) => (Some(path.clone()), true),
        Quota::Own(_) => (config.cell_kubeconfig.clone(), false),
    };
    let (clients, rules) = (clients.clone(), config.process.rules);
    Projects::OnDemand(Box::new(move |project| {
        let login = CredentialSource {
            kubeconfig: kubeconfig.clone(),
            below: is_below.then(|| path_of(project)),
        };
        let (connection, work) =
            discovery::connect(PlaneKind::Project, login, &clients, rules).map_err(|e| e.to_string())?;
        Ok((connection, work.boxed()))
    }))
}

/// Path under which the platform serves a project's control plane (contract: cell.md §5).
fn path_of(project: &ProjectKey) -> String {
    format!("apis/resourcemanager.miloapis.com/v1alpha1/projects/{project}/control-plane")
}
