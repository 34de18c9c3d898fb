//! What all tests share: one sandbox with its platform, one gateway.

use super::{
    audit::AuditLog,
    gateway::{Gateway, Projects, Setup},
    kinds::{Kind, kind},
    plane::{Plane, seconds},
    text,
};
use anyhow::{Context, Result};
use fedgate_kinds::Kinds;
use fedgate_manifests::KindManifests;
use fedgate_sandbox::{CellSpec, HubControllers, Manifest, Options, PlaneRole, Progress, Sandbox, User};
use futures::FutureExt;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::{Mutex, OnceCell};

static SUITE: OnceCell<Result<Arc<Suite>, String>> = OnceCell::const_new();

pub(crate) const PROJECT: Kind = kind(
    "resourcemanager.miloapis.com",
    "v1alpha1",
    "Project",
    "projects",
    false,
);
pub(crate) const CONTROL_PLANE: Kind = kind(
    "infrastructure.miloapis.com",
    "v1alpha1",
    "ProjectControlPlane",
    "projectcontrolplanes",
    false,
);
/// The Projects that are there before the gateway.
pub(crate) const FIRST: [&str; 2] = ["alpha", "beta"];
/// The one that comes later.
pub(crate) const LATE: &str = "gamma";

/// The kind that the gateway carries beside the built-in one.
const POSTGRES: &str = "clusters.postgresql.cnpg.io";

/// What an administrator applies to each plane: what the gateway writes for its kinds, and the CRDs of the other one.
fn manifests() -> Result<Vec<Manifest>> {
    use fedgate_manifests::Plane::{Cell, Hub, Project};
    let kinds = Kinds::load(&[POSTGRES.to_owned()], None).context("load the kinds")?;
    let kinds = KindManifests::all(&kinds, false);
    let mut all = Vec::new();
    for (plane, role) in [
        (Project, PlaneRole::Project),
        (Hub, PlaneRole::Hub),
        (Cell, PlaneRole::Cell),
    ] {
        let yaml = include_str!("../../kinds/cnpg-crds.yaml").to_owned();
        all.push(Manifest { plane: role, yaml });
        for object in fedgate_manifests::objects(plane, &kinds).context("make the manifests")? {
            let yaml = serde_saphyr::to_string(&object).context("print a manifest")?;
            all.push(Manifest { plane: role, yaml });
        }
    }
    Ok(all)
}

/// The sandbox, its gateway, and connections as administrator.
pub(crate) struct Suite {
    sandbox: Mutex<Option<Sandbox>>,
    pub(crate) gateway: Gateway,
    /// Milo's core, through its address.
    pub(crate) core: Plane,
    pub(crate) hub: Plane,
    pub(crate) dfw: Plane,
    projects: BTreeMap<&'static str, Plane>,
    pub(crate) alpha_log: AuditLog,
    /// Whether Milo's own API server is the core and all projects.
    pub(crate) is_milo: bool,
    /// The kubeconfig with which the gateway finds and reaches projects.
    pub(crate) kubeconfig: PathBuf,
    /// Port of the platform's address.
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
}

impl Suite {
    /// The one suite of this process; panics if it cannot be had, in every test that asks.
    pub(crate) async fn get() -> Arc<Suite> {
        let suite = SUITE
            .get_or_init(|| async {
                match AssertUnwindSafe(Suite::up()).catch_unwind().await {
                    Ok(outcome) => outcome.map(Arc::new).map_err(|error| format!("{error:#}")),
                    Err(panic) => Err(text(&*panic)),
                }
            })
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
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("platform");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let hub_controllers = HubControllers::from_env().context("choose the hub's controllers")?;
        let milo = Options::milo_from_env();
        let names = || FIRST.into_iter().chain([LATE]);
        let sandbox = Sandbox::up(Options {
            projects: names().map(str::to_owned).collect(),
            cells: vec![CellSpec {
                name: "dfw-1".to_owned(),
                city: "DFW".to_owned(),
            }],
            hub_controllers,
            manifests: manifests()?,
            platform: true,
            milo: milo.clone(),
            progress: Progress::new(|line| eprintln!("sandbox: {line}")),
            ..Options::new(dir.join("sandbox"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
        })
        .await
        .context("bring the sandbox up")?;
        let kubeconfig = dir.join("projects.yaml");
        std::fs::copy(sandbox.platform_kubeconfig(User::Gateway), &kubeconfig)
            .context("copy the projects' kubeconfig")?;
        let admin =
            |plane: &str| -> Result<Plane> { Ok(Plane::new(plane, sandbox.client(plane, User::Admin)?)) };
        let address = sandbox
            .platform_address()
            .context("the platform has an address")?;
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        let mut projects = BTreeMap::new();
        for name in names() {
            let path = format!("/projects/{name}/control-plane");
            projects.insert(
                name,
                Plane::new(name, sandbox.platform_client(&path, User::Admin)?),
            );
        }
        let alpha_log = AuditLog::new(&sandbox.audit_log("alpha"));
        let suite = Suite {
            gateway: Gateway::new(Setup {
                hub: sandbox.kubeconfig("hub", User::Gateway),
                projects: Projects::Milo(kubeconfig.clone()),
                kinds: None,
                log: dir.join("gateway.log"),
                further: ["--builtin-kinds", POSTGRES].map(OsString::from).into(),
            }),
            core: Plane::new("milo", sandbox.platform_client("", User::Admin)?),
            hub: admin("hub")?,
            dfw: admin("dfw-1")?,
            projects,
            alpha_log: match milo {
                Some(_) => alpha_log.of_project("alpha"),
                None => alpha_log,
            },
            is_milo: milo.is_some(),
            kubeconfig,
            port: port.context("its address has a port")?,
            sandbox: Mutex::new(Some(sandbox)),
            dir,
        };
        for name in FIRST {
            suite.make(name, json!({})).await;
        }
        suite.gateway.start().await;
        Ok(suite)
    }

    /// Uses the sandbox itself.
    pub(crate) async fn with_sandbox<T>(&self, use_it: impl AsyncFnOnce(&Sandbox) -> T) -> T {
        let sandbox = self.sandbox.lock().await;
        use_it(sandbox.as_ref().expect("it is up until all tests have ended")).await
    }

    /// A project's API server, through its path.
    pub(crate) fn project(&self, name: &str) -> &Plane {
        self.projects.get(name).expect("the sandbox has this project")
    }

    /// The plane whose accounts may come to the platform: Milo's own API server has none, and asks the hub.
    pub(crate) fn accounts(&self) -> &Plane {
        if self.is_milo { &self.hub } else { &self.core }
    }

    /// The planes whose roles decide what the gateway may do: of Milo's own API server the core's, for all projects.
    pub(crate) fn with_rights(&self) -> Vec<&Plane> {
        let projects = self.projects.values().filter(|_| !self.is_milo);
        projects.chain([&self.core]).collect()
    }

    /// Makes a Project with these annotations, and waits until it is Ready.
    pub(crate) async fn make(&self, name: &str, annotations: Value) -> Value {
        let object = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"ownerRef": {"kind": "Organization", "name": "acme"}},
        });
        self.core.create(&PROJECT, "", object).await;
        self.is(name, "Ready", "True").await
    }

    /// Makes the Project unless it is there.
    pub(crate) async fn ensure(&self, name: &str) {
        if self.core.get(&PROJECT, "", name).await.is_none() {
            self.make(name, json!({})).await;
        }
    }

    /// Sets annotations of the sandbox on a Project, or takes those that are null.
    pub(crate) async fn switch(&self, name: &str, annotations: Value) {
        let keys = annotations.as_object().expect("annotations").iter();
        let all: serde_json::Map<_, _> = keys
            .map(|(key, value)| (format!("sandbox.fedgate.dev/{key}"), value.clone()))
            .collect();
        let patch = json!({"metadata": {"annotations": all}});
        self.core.merge(&PROJECT, "", name, patch).await;
    }

    /// Waits until the Project has the condition.
    pub(crate) async fn is(&self, name: &str, condition: &str, status: &str) -> Value {
        let what = format!("has condition {condition}={status}");
        self.core
            .sees(&PROJECT, "", name, &what, seconds(60), |project| {
                let all = project["status"]["conditions"].as_array();
                all.is_some_and(|all| {
                    all.iter()
                        .any(|c| c["type"] == condition && c["status"] == status)
                })
            })
            .await
    }

    /// Puts everything back to work after a test that failed halfway.
    pub(crate) async fn recover(&self) {
        let all = json!({"hang": null, "not-ready": null, "initializing": null, "suspend": null});
        for project in self.core.list(&PROJECT, "", "").await {
            let name = project["metadata"]["name"].as_str().unwrap_or_default();
            self.switch(name, all.clone()).await;
        }
        let text = self
            .with_sandbox(async |sandbox: &Sandbox| {
                std::fs::read_to_string(sandbox.platform_kubeconfig(User::Gateway))
            })
            .await;
        super::credentials::replace(&self.kubeconfig, &text.expect("the gateway has a kubeconfig"));
        if !self.gateway.is_running().await {
            self.gateway.start().await;
        }
    }

    /// Ends the gateway and all planes.
    pub(crate) async fn down(&self) {
        self.gateway.stop().await;
        if let Some(sandbox) = self.sandbox.lock().await.take()
            && let Err(error) = sandbox.down().await
        {
            eprintln!("the sandbox did not end in order: {error}");
        }
    }
}
