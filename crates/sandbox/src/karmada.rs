//! Real Karmada, as plain processes beside the hub's kube-apiserver.

use super::{
    CellSpec, Sandbox, SandboxError, User,
    apply::Objects,
    certs::Files,
    clusters::{self, await_ready},
    etcd::Etcd,
    karmada_manifests::{Manifests, aggregated_api},
    kubeconfig::{plain_client, server_client},
    ports::free_port,
    process::{Process, Spec},
    users,
};
use fedgate_api::keys::CITY_CODE;
use futures::future::try_join_all;
use http::Request;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

const API_WITHIN: Duration = Duration::from_mins(1);
const JOIN_WITHIN: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(100);
/// Write-backs are templates to Karmada too; nothing may propagate them.
const NOT_PROPAGATED: &str = "compute.datumapis.com/v1alpha/Instance";
/// Bounds the time to the next attempt, because a test would wait up to 1,000 s for one.
const RETRY_DELAY: &str = "--rate-limiter-max-delay=30s";

/// Karmada's executables, manifests and ports.
pub(super) struct Karmada {
    controller_manager: PathBuf,
    scheduler: PathBuf,
    webhook: PathBuf,
    aggregated_apiserver: PathBuf,
    karmadactl: PathBuf,
    manifests: Manifests,
    webhook_port: u16,
    aggregated_port: u16,
    cells: Vec<CellSpec>,
}

impl Karmada {
    /// Finds the executables and takes ports.
    pub(super) fn new(
        bin_dir: &Path,
        manifests_dir: &Path,
        cells: &[CellSpec],
    ) -> Result<Self, SandboxError> {
        let find = |name: &str| find(bin_dir, name);
        Ok(Self {
            controller_manager: find("controller-manager")?,
            scheduler: find("scheduler")?,
            webhook: find("webhook")?,
            aggregated_apiserver: find("aggregated-apiserver")?,
            karmadactl: find("karmadactl")?,
            manifests: Manifests {
                dir: absolute(manifests_dir)?,
            },
            webhook_port: free_port()?,
            aggregated_port: free_port()?,
            cells: cells.to_vec(),
        })
    }

    /// CRDs and the aggregated API's registration.
    pub(super) fn objects(&self, ca_base64: &str, objects: &mut Objects) -> Result<(), SandboxError> {
        self.manifests.crds(ca_base64, self.webhook_port, objects)?;
        aggregated_api(ca_base64, self.aggregated_port, objects)
    }

    /// Starts the processes in the order in which they need each other, joins the cells and waits for them.
    pub(super) async fn start(&self, sandbox: &Sandbox, files: &Files) -> Result<Vec<Process>, SandboxError> {
        let admin = sandbox.client("hub", User::Admin)?;
        let ca_base64 = sandbox.users.authority_base64();
        let kubeconfig = users::own_path(&sandbox.layout, users::Own::HubControllers, "hub")
            .display()
            .to_string();

        let webhook = sandbox.launcher.start(&self.webhook_spec(&kubeconfig, files)?)?;
        let aggregated = sandbox
            .launcher
            .start(&self.aggregated_spec(&kubeconfig, &sandbox.etcd, files))?;
        let url = format!("https://127.0.0.1:{}", self.webhook_port);
        webhook
            .ready(
                &server_client("karmada-webhook", &url, &sandbox.users)?,
                "/readyz",
            )
            .await?;
        self.manifests
            .webhooks(&ca_base64, self.webhook_port)?
            .apply("hub", &admin, &sandbox.launcher.logs)
            .await?;
        clusters_api(&admin, &aggregated).await?;

        let (spec, health) = self.controller_manager_spec(&kubeconfig)?;
        let controller_manager = sandbox.launcher.start(&spec)?;
        let (spec, _) = self.scheduler_spec(&kubeconfig)?;
        let scheduler = sandbox.launcher.start(&spec)?;
        controller_manager
            .ready(&plain_client("karmada-controller-manager", &health)?, "/healthz")
            .await?;
        try_join_all(self.cells.iter().map(|cell| self.join(sandbox, &admin, cell))).await?;
        Ok(vec![webhook, aggregated, controller_manager, scheduler])
    }

    fn webhook_spec(&self, kubeconfig: &str, files: &Files) -> Result<Spec, SandboxError> {
        Ok(Spec {
            name: "karmada-webhook".to_owned(),
            program: self.webhook.clone(),
            args: vec![
                format!("--kubeconfig={kubeconfig}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", self.webhook_port),
                format!("--cert-dir={}", files.server.display()),
                "--metrics-bind-address=0".to_owned(),
                format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
            ],
        })
    }

    fn aggregated_spec(&self, kubeconfig: &str, etcd: &Etcd, files: &Files) -> Spec {
        let args = vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--etcd-servers={}", etcd.url),
            "--etcd-prefix=/karmada-aggregated".to_owned(),
            format!("--tls-cert-file={}", files.server.join("tls.crt").display()),
            format!(
                "--tls-private-key-file={}",
                files.server.join("tls.key").display()
            ),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.aggregated_port),
        ];
        let name = "karmada-aggregated-apiserver".to_owned();
        Spec {
            name,
            program: self.aggregated_apiserver.clone(),
            args,
        }
    }

    fn controller_manager_spec(&self, kubeconfig: &str) -> Result<(Spec, String), SandboxError> {
        let health = format!("127.0.0.1:{}", free_port()?);
        let args = vec![
            format!("--kubeconfig={kubeconfig}"),
            "--leader-elect=false".to_owned(),
            "--cluster-status-update-frequency=10s".to_owned(),
            // Pinned off by Karmada's Helm chart; companions need it.
            "--feature-gates=PropagateDeps=true".to_owned(),
            RETRY_DELAY.to_owned(),
            format!("--skipped-propagating-apis={NOT_PROPAGATED}"),
            format!("--metrics-bind-address=127.0.0.1:{}", free_port()?),
            format!("--health-probe-bind-address={health}"),
        ];
        let name = "karmada-controller-manager".to_owned();
        Ok((
            Spec {
                name,
                program: self.controller_manager.clone(),
                args,
            },
            format!("http://{health}"),
        ))
    }

    fn scheduler_spec(&self, kubeconfig: &str) -> Result<(Spec, String), SandboxError> {
        let health = format!("127.0.0.1:{}", free_port()?);
        let args = vec![
            format!("--kubeconfig={kubeconfig}"),
            "--leader-elect=false".to_owned(),
            "--enable-scheduler-estimator=false".to_owned(),
            RETRY_DELAY.to_owned(),
            format!("--metrics-bind-address=127.0.0.1:{}", free_port()?),
            format!("--health-probe-bind-address={health}"),
        ];
        let name = "karmada-scheduler".to_owned();
        Ok((
            Spec {
                name,
                program: self.scheduler.clone(),
                args,
            },
            format!("http://{health}"),
        ))
    }

    /// Registers a cell, labels it with its city and waits until Karmada calls it ready.
    async fn join(&self, sandbox: &Sandbox, hub: &Client, cell: &CellSpec) -> Result<(), SandboxError> {
        let kubeconfig = |plane: &str| users::own_path(&sandbox.layout, users::Own::HubControllers, plane);
        let log = sandbox.launcher.log_of(&format!("karmadactl join {}", cell.name));
        let out = std::fs::File::create(&log).map_err(SandboxError::io("create", &log))?;
        let err = out.try_clone().map_err(SandboxError::io("open", &log))?;
        let failed = |what: String| SandboxError::Process {
            process: format!("karmadactl join {}", cell.name),
            what,
            tail: super::process::tail(&log),
            log: log.clone(),
            next: "read the logs beside it: the cell's plane-controllers make the token that it waits for"
                .to_owned(),
        };
        let mut joining = tokio::process::Command::new(&self.karmadactl)
            .args(["join", &cell.name, "--karmada-context=hub"])
            .arg(format!("--kubeconfig={}", kubeconfig("hub").display()))
            .arg(format!(
                "--cluster-kubeconfig={}",
                kubeconfig(&cell.name).display()
            ))
            .arg(format!("--cluster-context={}", cell.name))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .kill_on_drop(true)
            .spawn()
            .map_err(SandboxError::io("start", &self.karmadactl))?;
        match tokio::time::timeout(JOIN_WITHIN, joining.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => return Err(failed(format!("failed ({status})"))),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("did not end in {} s", JOIN_WITHIN.as_secs()))),
        }
        let api: Api<DynamicObject> = Api::all_with(hub.clone(), &clusters::resource());
        let label = json!({"metadata": {"labels": {CITY_CODE: cell.city}}});
        api.patch(&cell.name, &PatchParams::default(), &Patch::Merge(&label))
            .await
            .map_err(SandboxError::api("hub", format!("label Cluster {}", cell.name)))?;
        await_ready(sandbox, &cell.name).await
    }
}

/// Waits until the hub serves Clusters from the aggregated API server.
async fn clusters_api(hub: &Client, aggregated: &Process) -> Result<(), SandboxError> {
    let started = Instant::now();
    loop {
        let request = Request::get("/apis/cluster.karmada.io/v1alpha1/clusters").body(Vec::new());
        let error = match request {
            Ok(request) => match hub.request_text(request).await {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        let next = "read the whole log, and the hub's kube-apiserver's: it must reach this process";
        if let Some(how) = aggregated.ended() {
            return Err(aggregated.failure(format!("ended while starting ({how})"), next));
        }
        if started.elapsed() > API_WITHIN {
            let seconds = API_WITHIN.as_secs();
            return Err(aggregated.failure(
                format!("serves no Clusters through the hub after {seconds} s: {error}"),
                next,
            ));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn find(dir: &Path, name: &str) -> Result<PathBuf, SandboxError> {
    let dir = absolute(dir)?;
    [name.to_owned(), format!("karmada-{name}")]
        .iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| SandboxError::Binary {
            program: format!("Karmada's {name}"),
            reason: format!("it is not in KARMADA_BIN_DIR ({})", dir.display()),
            next: "build it from Karmada's sources with `go build ./cmd/…`, or unset KARMADA_BIN_DIR for the stand-in"
                .to_owned(),
        })
}

fn absolute(path: &Path) -> Result<PathBuf, SandboxError> {
    std::path::absolute(path).map_err(SandboxError::io("resolve", path))
}
