//! The process around a cell.

use super::{BUILD, Start};
use crate::config::{CellArgs, Quota};
use fedgate_api::names::ProjectKey;
use fedgate_cell::{Cell, SWEEP_INTERVAL, Setup, projects::Projects};
use fedgate_engine::{
    metrics::PlaneKind,
    plane::{
        credential::{self, CredentialSource},
        discovery::{self, ProjectSource},
    },
};
use fedgate_operations::views::role::Operations;
use futures::{FutureExt, StreamExt};
use std::{path::PathBuf, sync::Arc};

/// Runs a cell until `shutdown`, then waits for its writes in flight and releases the Lease.
pub async fn run_cell(args: CellArgs, shutdown: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
    let mut start = Start::new("cell", "cell", args.process.clone())?;
    let own = args.cell_kubeconfig.as_deref();
    let cell = start.follow("--cell-kubeconfig", own, PlaneKind::Cell)?;
    // Lease renewals must not queue behind the workers' calls, so the Lease has its own client.
    let election = start.follow("--cell-kubeconfig", own, PlaneKind::Cell)?;
    let hub = match args.hub_kubeconfig.as_deref() {
        Some(path) => Some(start.follow("--hub-kubeconfig", Some(path), PlaneKind::Hub)?),
        None => None,
    };
    let admin = start.open_admin(None).await?;
    let setup = start.setup(args.lease(), &election, SWEEP_INTERVAL);
    let quota = args.quota();
    let found = match &quota {
        Quota::Directory(path) => {
            let source = ProjectSource::Directory { path: path.clone() };
            discovery::discover(&source, &start.clients, start.rules)
        }
        Quota::Off | Quota::Below(_) | Quota::Own(_) => futures::stream::pending().boxed(),
    };
    let settings = args.settings();
    let name = settings.cell.clone();
    let planes = Setup {
        cell,
        hub,
        projects: match quota {
            Quota::Off | Quota::Directory(_) => Projects::Discovered,
            Quota::Below(path) => on_demand(&start, Some(path), |project| Some(path_of(project))),
            Quota::Own(_) => on_demand(&start, args.cell_kubeconfig, |_| None),
        },
        settings,
    };
    let role = fedgate_cell::new(planes, setup);
    let operations = Operations::new(role.clone(), start.status.process.clone());
    tracing::info!(
        identity = start.identity,
        cell = &*name,
        version = BUILD.version,
        "the cell has started"
    );
    start
        .run(admin, role, Arc::new(operations), found, shutdown)
        .await;
    tracing::info!("the cell has ended");
    Ok(())
}

/// Connects to each project when it is needed, with one kubeconfig for all; `below` is the path of a project's control plane.
fn on_demand(
    start: &Start<Cell>,
    kubeconfig: Option<PathBuf>,
    below: fn(&ProjectKey) -> Option<String>,
) -> Projects {
    let (clients, rules) = (start.clients.clone(), start.rules);
    Projects::OnDemand(Box::new(move |project| {
        let login = CredentialSource {
            kubeconfig: kubeconfig.clone(),
            below: below(project),
        };
        let (connection, work) =
            credential::connect(PlaneKind::Project, login, &clients, rules).map_err(|e| e.to_string())?;
        Ok((connection, work.boxed()))
    }))
}

/// Path under which the platform serves a project's control plane (contract: cell.md §5).
fn path_of(project: &ProjectKey) -> String {
    format!("apis/resourcemanager.miloapis.com/v1alpha1/projects/{project}/control-plane")
}
