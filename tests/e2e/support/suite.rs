//! What all tests share: one sandbox, one gateway, one runtime that outlives each test.

use super::{
    audit::AuditLog,
    gateway::{Gateway, Setup},
    plane::Plane,
};
use anyhow::{Context, Result};
use fedgate::sandbox::{CellSpec, HubControllers, Options, Sandbox, User};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};
use tokio::{
    runtime::Runtime,
    sync::{Mutex, OnceCell},
};

/// The runtime of the planes' tasks and of every test.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("start the runtime"));
static SUITE: OnceCell<Result<Arc<Suite>, String>> = OnceCell::const_new();

/// File name, hence project key, of the project plane `alpha`.
pub(crate) const ALPHA_KEY: &str = "single";
/// File name, hence project key, of the project plane `beta`.
pub(crate) const BETA_KEY: &str = "beta";

/// The sandbox, its gateway, and connections as administrator.
pub(crate) struct Suite {
    sandbox: Mutex<Option<Sandbox>>,
    pub(crate) gateway: Gateway,
    pub(crate) alpha: Plane,
    pub(crate) beta: Plane,
    pub(crate) hub: Plane,
    pub(crate) dfw: CellAccess,
    pub(crate) lhr: CellAccess,
    pub(crate) hub_log: AuditLog,
    pub(crate) alpha_log: AuditLog,
    pub(crate) beta_log: AuditLog,
    /// Where this run keeps its files.
    pub(crate) dir: PathBuf,
    /// Whether the hub's controllers are Karmada's own.
    pub(crate) real_karmada: bool,
}

/// The suite's two connections for one cell.
#[derive(Clone)]
pub(crate) struct CellAccess {
    pub(crate) name: String,
    pub(crate) city: String,
    /// The cell's API server, as administrator.
    pub(crate) plane: Plane,
    /// The hub, under the cell's own certificate.
    pub(crate) hub: Plane,
}

impl Suite {
    /// The one suite of this process; panics if it cannot be had, in every test that asks.
    pub(crate) async fn get() -> Arc<Suite> {
        let suite = SUITE
            .get_or_init(|| async { Suite::up().await.map(Arc::new).map_err(|e| format!("{e:#}")) })
            .await;
        match suite {
            Ok(suite) => Arc::clone(suite),
            Err(error) => panic!("the sandbox cannot be had, so this test fails: {error}"),
        }
    }

    /// The suite if some test brought it up.
    pub(crate) fn present() -> Option<Arc<Suite>> {
        SUITE.get().and_then(|suite| suite.as_ref().ok()).map(Arc::clone)
    }

    async fn up() -> Result<Suite> {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        let projects = dir.join("projects");
        std::fs::create_dir_all(&projects).with_context(|| format!("create {}", projects.display()))?;
        let hub_controllers = match (
            std::env::var_os("KARMADA_BIN_DIR"),
            std::env::var_os("KARMADA_MANIFESTS_DIR"),
        ) {
            (Some(bin), Some(manifests)) => HubControllers::Karmada {
                bin_dir: bin.into(),
                manifests_dir: manifests.into(),
            },
            _ => HubControllers::StandIn,
        };
        let real_karmada = matches!(hub_controllers, HubControllers::Karmada { .. });
        let cell = |name: &str, city: &str| CellSpec {
            name: name.to_owned(),
            city: city.to_owned(),
        };
        let sandbox = Sandbox::up(Options {
            dir: dir.join("sandbox"),
            projects: vec!["alpha".to_owned(), "beta".to_owned()],
            cells: vec![cell("dfw-1", "DFW"), cell("lhr-1", "LHR")],
            hub_controllers,
            fsync: false,
        })
        .await
        .context("bring the sandbox up")?;
        for (plane, key) in [("alpha", ALPHA_KEY), ("beta", BETA_KEY)] {
            std::fs::copy(
                sandbox.kubeconfig(plane, User::Gateway),
                projects.join(format!("{key}.yaml")),
            )
            .with_context(|| format!("copy the kubeconfig of {plane}"))?;
        }
        let gateway = Gateway::new(Setup {
            hub: sandbox.kubeconfig("hub", User::Gateway),
            projects,
            kinds: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds"),
            log: dir.join("gateway.log"),
        });
        gateway.start().await;
        let admin = |plane: &str| -> Result<Plane> {
            let client = sandbox
                .client(plane, User::Admin)
                .with_context(|| format!("connect to {plane}"))?;
            Ok(Plane::new(plane, client))
        };
        let access = |name: &str, city: &str| -> Result<CellAccess> {
            let hub = sandbox
                .client("hub", User::Cell)
                .with_context(|| format!("connect {name} to the hub"))?;
            let (name, city) = (name.to_owned(), city.to_owned());
            Ok(CellAccess {
                plane: admin(&name)?,
                hub: Plane::new("hub", hub),
                name,
                city,
            })
        };
        Ok(Suite {
            gateway,
            alpha: admin("alpha")?,
            beta: admin("beta")?,
            hub: admin("hub")?,
            dfw: access("dfw-1", "DFW")?,
            lhr: access("lhr-1", "LHR")?,
            hub_log: AuditLog::new(&sandbox.audit_log("hub")),
            alpha_log: AuditLog::new(&sandbox.audit_log("alpha")),
            beta_log: AuditLog::new(&sandbox.audit_log("beta")),
            sandbox: Mutex::new(Some(sandbox)),
            dir,
            real_karmada,
        })
    }

    /// A second gateway on the same planes, with its own hub credential and log; not started.
    pub(crate) fn second_gateway(&self, hub: PathBuf) -> Gateway {
        Gateway::new(Setup {
            hub,
            projects: self.gateway.projects().to_owned(),
            kinds: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds"),
            log: self.dir.join("gateway-2.log"),
        })
    }

    pub(crate) async fn stop_plane(&self, plane: &str) {
        let sandbox = self.sandbox.lock().await;
        sandbox
            .as_ref()
            .expect("the sandbox is up")
            .stop_plane(plane)
            .await
            .expect("stop the plane");
    }

    pub(crate) async fn start_plane(&self, plane: &str) {
        let sandbox = self.sandbox.lock().await;
        sandbox
            .as_ref()
            .expect("the sandbox is up")
            .start_plane(plane)
            .await
            .expect("start the plane");
    }

    /// Ends the gateway and all planes.
    pub(crate) async fn down(&self) {
        self.gateway.stop().await;
        if let Some(sandbox) = self.sandbox.lock().await.take() {
            sandbox.down().await;
        }
    }
}
