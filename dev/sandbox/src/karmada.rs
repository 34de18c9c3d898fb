//! Real Karmada, as plain processes beside the hub's kube-apiserver.

use super::{
    CellSpec, Sandbox, User,
    apply::Objects,
    certs::Files,
    etcd::Etcd,
    hub::{await_ready, clusters},
    karmada_manifests::{Manifests, aggregated_api},
    kubeconfig::client,
    ports::free_port,
    process::{Process, Spec, flag, pair_flags},
    users::{Own, own_path},
};
use crate::error::{cannot, on};
use anyhow::{Context, bail};
use fedgate_api::keys::CITY_CODE;
use futures::future::try_join_all;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

const JOIN_WITHIN: Duration = Duration::from_mins(2);
/// Write-backs are templates to Karmada too; nothing may propagate them.
const NOT_PROPAGATED: &str = "--skipped-propagating-apis=compute.datumapis.com/v1alpha/Instance";
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
}

impl Karmada {
    /// Finds the executables and takes ports.
    pub(super) fn new(bin_dir: &Path, manifests_dir: &Path) -> anyhow::Result<Self> {
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
        })
    }

    /// CRDs and the aggregated API's registration.
    pub(super) fn objects(&self, ca_base64: &str, objects: &mut Objects) -> anyhow::Result<()> {
        self.manifests.crds(ca_base64, self.webhook_port, objects)?;
        aggregated_api(ca_base64, self.aggregated_port, objects)
    }

    /// Starts the processes in the order in which they need each other, joins the cells and waits for them.
    pub(super) async fn start(
        &self,
        sandbox: &Sandbox,
        cells: &[CellSpec],
        files: &Files,
    ) -> anyhow::Result<Vec<Process>> {
        let admin = sandbox.client("hub", User::Admin)?;
        let ca_base64 = sandbox.users.authority_base64();
        let kubeconfig = own_path(&sandbox.layout, Own::HubControllers, "hub");
        let launcher = &sandbox.launcher;

        let webhook = launcher.start(&self.webhook(&kubeconfig, files)?)?;
        let aggregated = launcher.start(&self.aggregated(&kubeconfig, &sandbox.etcd, files))?;
        let url = format!("https://127.0.0.1:{}", self.webhook_port);
        let authority = Some(sandbox.users.authority_der());
        let nobody = client("karmada-webhook", &url, authority, None)?;
        webhook.ready(&nobody, "/readyz").await?;
        self.manifests
            .webhooks(&ca_base64, self.webhook_port)?
            .apply("hub", &admin)
            .await?;
        // The hub passes this on to it.
        aggregated
            .ready(&admin, "/apis/cluster.karmada.io/v1alpha1/clusters")
            .await?;

        let (controllers, health) = Self::controllers(
            "karmada-controller-manager",
            &self.controller_manager,
            &kubeconfig,
            &[
                "--cluster-status-update-frequency=10s",
                // Pinned off by Karmada's Helm chart; companions need it.
                "--feature-gates=PropagateDeps=true",
                NOT_PROPAGATED,
            ],
        )?;
        let controllers = launcher.start(&controllers)?;
        let own = ["--enable-scheduler-estimator=false"];
        let (scheduler, _) = Self::controllers("karmada-scheduler", &self.scheduler, &kubeconfig, &own)?;
        let scheduler = launcher.start(&scheduler)?;
        let nobody = client("karmada-controller-manager", &health, None, None)?;
        controllers.ready(&nobody, "/healthz").await?;
        try_join_all(cells.iter().map(|cell| self.join(sandbox, &admin, cell))).await?;
        Ok(vec![webhook, aggregated, controllers, scheduler])
    }

    fn webhook(&self, kubeconfig: &Path, files: &Files) -> anyhow::Result<Spec> {
        let args = vec![
            flag("--kubeconfig", kubeconfig),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.webhook_port),
            flag("--cert-dir", &files.server),
            "--metrics-bind-address=0".to_owned(),
            format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
        ];
        Ok(Spec::new("karmada-webhook", &self.webhook, args))
    }

    fn aggregated(&self, kubeconfig: &Path, etcd: &Etcd, files: &Files) -> Spec {
        let mut args = vec![
            flag("--kubeconfig", kubeconfig),
            flag("--authentication-kubeconfig", kubeconfig),
            flag("--authorization-kubeconfig", kubeconfig),
            format!("--etcd-servers={}", etcd.url),
            "--etcd-prefix=/karmada-aggregated".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.aggregated_port),
        ];
        args.extend(pair_flags(
            "--tls-cert-file",
            "--tls-private-key-file",
            &files.server,
        ));
        Spec::new("karmada-aggregated-apiserver", &self.aggregated_apiserver, args)
    }

    /// A process that serves nothing but its health, and the address of that.
    fn controllers(
        name: &str,
        program: &Path,
        kubeconfig: &Path,
        own: &[&str],
    ) -> anyhow::Result<(Spec, String)> {
        let health = format!("127.0.0.1:{}", free_port()?);
        let mut args = vec![
            flag("--kubeconfig", kubeconfig),
            "--leader-elect=false".to_owned(),
            RETRY_DELAY.to_owned(),
            format!("--metrics-bind-address=127.0.0.1:{}", free_port()?),
            format!("--health-probe-bind-address={health}"),
        ];
        args.extend(own.iter().map(|arg| (*arg).to_owned()));
        Ok((Spec::new(name, program, args), format!("http://{health}")))
    }

    /// Registers a cell, labels it with its city and waits until Karmada calls it ready.
    async fn join(&self, sandbox: &Sandbox, hub: &Client, cell: &CellSpec) -> anyhow::Result<()> {
        let kubeconfig = |plane: &str| own_path(&sandbox.layout, Own::HubControllers, plane);
        let joining = tokio::process::Command::new(&self.karmadactl)
            .args(["join", &cell.name, "--karmada-context=hub"])
            .arg(flag("--kubeconfig", &kubeconfig("hub")))
            .arg(flag("--cluster-kubeconfig", &kubeconfig(&cell.name)))
            .arg(format!("--cluster-context={}", cell.name))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let why = match tokio::time::timeout(JOIN_WITHIN, joining).await {
            Ok(Ok(output)) if output.status.success() => None,
            Ok(Ok(output)) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("it did not end in {} s", JOIN_WITHIN.as_secs())),
        };
        if let Some(why) = why {
            bail!(
                "karmadactl join {} failed: {why}\nnext: read the logs in {}: the cell's plane-controllers make the \
                 token that it waits for",
                cell.name,
                sandbox.logs().display()
            );
        }
        let api: Api<DynamicObject> = Api::all_with(hub.clone(), &clusters());
        let label = json!({"metadata": {"labels": {CITY_CODE: cell.city}}});
        api.patch(&cell.name, &PatchParams::default(), &Patch::Merge(&label))
            .await
            .with_context(on("hub", format!("label Cluster {}", cell.name)))?;
        await_ready(sandbox, &cell.name).await
    }
}

fn find(dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let dir = absolute(dir)?;
    [name.to_owned(), format!("karmada-{name}")]
        .iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file())
        .with_context(|| {
            format!(
                "cannot get Karmada's {name}: it is not in KARMADA_BIN_DIR ({}); build it from Karmada's sources with `go \
                 build ./cmd/…`, or unset KARMADA_BIN_DIR for the stand-in",
                dir.display()
            )
        })
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(cannot("resolve", path))
}
