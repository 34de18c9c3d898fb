//! The process around a role: connections, checks at the start, the Lease, the administrative address, the shutdown.

mod cell;
mod provisioner;
mod returns;

pub use self::{cell::run_cell, provisioner::run_provisioner, returns::run_returns};

use crate::config::{self, AdminAuth, GatewayArgs, ProcessArgs};
use anyhow::anyhow;
use fedgate_admin::{AdminSource, Token};
use fedgate_engine::{
    backoff::Backoff,
    clock::Clock,
    metrics::{Build, Family, Gauges, Metrics, PlaneKind},
    plane::{
        client::{Clients, Connection},
        credential::{self, CredentialSource},
        discovery::{self, ProjectEvent},
        kubeconfig::Rules,
        lease::{Lease, LeaseHandle},
    },
    runtime::{Runtime, Setup, role::Role},
};
use fedgate_kinds::Kinds;
use fedgate_operations::{
    OperationsSource, Time,
    views::{header::Process, starting::Starting},
};
use fedgate_operator::doctor::{PreflightError, preflight};
use futures::stream::BoxStream;
use jiff::Timestamp;
use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// How long a hub that lacks a required kind is retried before the start fails: it may be starting itself.
const HUB_PATIENCE: Duration = Duration::from_secs(15);
const HUB_RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
/// How long requests to the administrative address may take during the shutdown.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Version, revision and compiler of this executable.
const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    revision: env!("FEDGATE_BUILD_REVISION"),
    rustc: env!("FEDGATE_BUILD_RUSTC"),
};

/// Completes when the process receives SIGTERM or SIGINT. A second signal ends the process at once.
pub fn shutdown() -> anyhow::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |e: std::io::Error| anyhow!("cannot listen for signals: {e}");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (asked, mut told) = watch::channel(false);
    tokio::spawn(async move {
        for times in 0.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if times > 0 {
                std::process::exit(1);
            }
            asked.send_replace(true);
        }
    });
    Ok(async move {
        // The task above runs as long as the process.
        let _ = told.wait_for(|asked| *asked).await;
    })
}

/// Runs the gateway until `shutdown`, then waits for its writes in flight and releases the Lease.
pub async fn run(args: GatewayArgs, shutdown: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
    let mut start = Start::new("gateway", "hub", args.process.clone())?;
    let kinds = Kinds::load(&args.kinds.builtin_kinds, args.kinds.interpreters.as_deref())?;
    let kubeconfig = Some(args.hub_kubeconfig.as_path());
    let hub = start.follow("--hub-kubeconfig", kubeconfig, PlaneKind::Hub)?;
    // Lease renewals must not queue behind the workers' calls, so the Lease has its own client.
    let election = start.follow("--hub-kubeconfig", kubeconfig, PlaneKind::Hub)?;
    let projects = match args.projects.plane() {
        Some((flag, path)) => start.follow(flag, path, PlaneKind::Project)?,
        None => hub.clone(),
    };
    let reviewer = (args.admin_auth == AdminAuth::Hub).then(|| hub.clone());
    let admin = start.open_admin(reviewer).await?;
    let mut shutdown = std::pin::pin!(shutdown);
    tokio::select! {
        () = &mut shutdown => return Ok(()),
        checked = check(&hub, &kinds, &start.status.starting) => checked?,
    }
    let setup = start.setup(args.lease(), &election, args.sweep_interval);
    let gateway = fedgate_gateway::new(hub, kinds, args.settings(), setup);
    let operations = fedgate_views::Operations::new(gateway.clone(), start.status.process.clone());
    tracing::info!(
        identity = start.identity,
        version = BUILD.version,
        "the gateway has started"
    );
    let events = discovery::discover(&args.projects.source(projects), &start.clients, start.rules);
    start
        .run(admin, gateway, Arc::new(operations), events, shutdown)
        .await;
    tracing::info!("the gateway has ended");
    Ok(())
}

/// The parts of a process that do not depend on its role.
struct Start<R: Role> {
    process: ProcessArgs,
    metrics: Arc<Metrics>,
    clients: Clients,
    rules: Rules,
    identity: String,
    status: Arc<RoleStatus<R>>,
    /// Tasks that keep credentials up to date, and the metric of the Lease.
    background: JoinSet<()>,
    lease: LeaseHandle,
}

impl<R: Role> Start<R> {
    /// `queue` is the name of the queue in the workqueue metrics. Until the role runs, a plane of kind `awaited` is awaited.
    fn new(queue: &'static str, awaited: &'static str, process: ProcessArgs) -> anyhow::Result<Self> {
        let metrics = Metrics::of(queue).map_err(|e| anyhow!("metrics: {e}"))?;
        metrics.built(BUILD);
        let identity = identity();
        Ok(Self {
            clients: config::clients(&metrics),
            rules: process.rules(),
            status: RoleStatus::new(&metrics, &identity, awaited),
            background: JoinSet::new(),
            lease: LeaseHandle::always(),
            process,
            metrics,
            identity,
        })
    }

    /// Connects to a plane, and keeps its credential up to date. Without a path it is the service account of the Pod.
    fn follow(
        &mut self,
        flag: &'static str,
        kubeconfig: Option<&Path>,
        plane: PlaneKind,
    ) -> anyhow::Result<Connection> {
        let login = CredentialSource {
            kubeconfig: kubeconfig.map(Path::to_owned),
            below: None,
        };
        let connected = credential::connect(plane, login, &self.clients, self.rules);
        let (connection, work) = connected.map_err(|error| anyhow!("{flag}: {error}"))?;
        self.background.spawn(work);
        Ok(connection)
    }

    /// Opens the administrative address; `reviewer` is the hub that reviews tokens which are not the file's.
    async fn open_admin(&self, reviewer: Option<Connection>) -> anyhow::Result<AdminServer> {
        let bound = fedgate_admin::bind(fedgate_admin::Settings {
            address: self.process.admin_address,
            token: self.process.admin_token_file.clone().map(Token::of),
            reviewer,
            tls: self.process.admin_tls_directory.clone(),
            probes: self.process.probe_address,
        });
        let bound = bound.await?;
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(bound.serve(self.status.clone(), self.metrics.clone(), stopped));
        Ok(AdminServer { stop, served })
    }

    /// Takes part in the election of this Lease, if there is one; what the runtime needs for it.
    fn setup(
        &mut self,
        lease: Option<(String, String)>,
        plane: &Connection,
        sweep_interval: Duration,
    ) -> Setup {
        if let Some((namespace, name)) = lease {
            self.lease = Lease::run(plane, &namespace, &name, &self.identity);
            let (mut changes, metrics) = (self.lease.changes(), self.metrics.clone());
            self.background.spawn(async move {
                loop {
                    metrics.set(Family::Leader, &[&name], changes.borrow_and_update());
                    changes.changed().await;
                }
            });
        } else {
            self.metrics.set(Family::Leader, &["(no election)"], true);
        }
        Setup {
            lease: self.lease.clone(),
            identity: self.identity.clone(),
            workers: self.process.workers.into(),
            sweep_interval,
            metrics: self.metrics.clone(),
            clock: Clock::system(),
        }
    }

    /// Runs the role until `shutdown`.
    async fn run(
        self,
        admin: AdminServer,
        role: Arc<Runtime<R>>,
        operations: Arc<dyn OperationsSource>,
        projects: BoxStream<'static, ProjectEvent>,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let _ = self.status.role.set((role.clone(), operations));
        role.run(projects, shutdown).await;
        self.lease.release().await;
        admin.close().await;
    }
}

/// Checks the hub. A failure that may end by itself is waited for without limit; a refused credential and a hub that is no Karmada end
/// the start.
async fn check(hub: &Connection, kinds: &Kinds, starting: &Starting) -> Result<(), PreflightError> {
    let end = tokio::time::Instant::now() + HUB_PATIENCE;
    let mut failures = 0;
    loop {
        let error = match preflight(&hub.current(), kinds).await {
            Ok(()) => return Ok(()),
            Err(error) if error.may_pass() => error,
            Err(error) => return Err(error),
        };
        let is_missing = matches!(error, PreflightError::NotFound(_));
        if is_missing && tokio::time::Instant::now() >= end {
            return Err(error);
        }
        if starting.failed(&error.to_string()) {
            tracing::warn!(%error, "the hub is not ready yet; the start waits for it");
        }
        tokio::time::sleep(HUB_RETRY.delay(failures, "hub")).await;
        failures += 1;
    }
}

/// A name that no other process has: the host name of the Pod or machine, and a random suffix of this start.
fn identity() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let host = std::env::var("HOSTNAME").ok().filter(|h| !h.is_empty());
    let host = host.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host
        .as_deref()
        .map(str::trim)
        .filter(|h| !h.is_empty())
        .unwrap_or("fedgate");
    format!(
        "{host}_{:08x}",
        RandomState::new().build_hasher().finish() & 0xffff_ffff
    )
}

/// The administrative address while it is open.
struct AdminServer {
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
}

impl AdminServer {
    async fn close(self) {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(LAST_ANSWERS, self.served).await;
    }
}

/// A role that runs, and the source of its operations documents.
type Running<R> = (Arc<Runtime<R>>, Arc<dyn OperationsSource>);

/// Data of the administrative address, available before the role runs.
struct RoleStatus<R: Role> {
    metrics: Arc<Metrics>,
    process: Process,
    starting: Arc<Starting>,
    role: OnceLock<Running<R>>,
}

impl<R: Role> RoleStatus<R> {
    /// Until the role runs, a plane of this kind is awaited.
    fn new(metrics: &Arc<Metrics>, identity: &str, awaited: &'static str) -> Arc<Self> {
        let process = Process {
            identity: identity.to_owned(),
            build: BUILD,
            started: Time(Timestamp::now()),
        };
        Arc::new(Self {
            metrics: metrics.clone(),
            starting: Arc::new(Starting::new(process.clone(), Clock::system(), awaited)),
            process,
            role: OnceLock::new(),
        })
    }

    fn role(&self) -> Option<&Runtime<R>> {
        self.role.get().map(|(role, _)| &**role)
    }
}

impl<R: Role> AdminSource for RoleStatus<R> {
    fn live(&self) -> Result<(), String> {
        self.role().map_or(Ok(()), Runtime::live)
    }

    fn ready(&self) -> Result<(), String> {
        self.role()
            .map_or_else(|| Err(self.starting.reason()), Runtime::ready)
    }

    fn metrics(&self) -> Result<String, String> {
        let figures = self.role().map_or_else(Gauges::default, Runtime::gauges);
        self.metrics.render(&figures).map_err(|e| e.to_string())
    }

    fn operations(&self) -> Arc<dyn OperationsSource> {
        let role = self.role.get();
        role.map_or_else(
            || self.starting.clone() as Arc<dyn OperationsSource>,
            |(_, operations)| operations.clone(),
        )
    }

    fn planes(&self) -> serde_json::Value {
        self.role()
            .map_or_else(|| serde_json::json!({}), Runtime::describe)
    }
}
