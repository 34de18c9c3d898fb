//! What all tests share: one sandbox, one gateway, three cells, one runtime that outlives each test.

use super::{
    audit::AuditLog,
    cell::CellRole,
    gateway::{Gateway, Projects, Setup},
    kinds::{NAMESPACE, SERVING_LOCATION},
    outages::Outages,
    plane::Plane,
    platform::Platform,
    text,
};
use crate::operator;
use anyhow::{Context, Result};
use fedgate_sandbox::{CellSpec, HubControllers, Manifest, Options, Progress, Sandbox, User};
use futures::FutureExt;
use serde_json::Value;
use std::{collections::BTreeMap, panic::AssertUnwindSafe, path::PathBuf, sync::Arc};
use tokio::sync::{Mutex, OnceCell};

static SUITE: OnceCell<Result<Arc<Suite>, String>> = OnceCell::const_new();

/// The project of most tests.
pub(crate) const ALPHA: &str = "alpha";
/// The project whose budgets are set.
pub(crate) const BETA: &str = "beta";
/// The cell without a hub, and its city.
pub(crate) const LAB: (&str, &str) = ("lab-1", "LAB");
/// The cell that joins by a command, and its city.
pub(crate) const NEW: (&str, &str) = ("iad-1", "IAD");
/// The hub's members, and their cities.
const MEMBERS: [(&str, &str); 2] = [("dfw-1", "DFW"), ("lhr-1", "LHR")];

/// The sandbox, the roles, and connections as administrator.
pub(crate) struct Suite {
    sandbox: Mutex<Option<Sandbox>>,
    pub(crate) gateway: Gateway,
    pub(crate) dfw: CellRole,
    pub(crate) lhr: CellRole,
    pub(crate) lab: CellRole,
    pub(crate) alpha: Plane,
    pub(crate) beta: Plane,
    pub(crate) hub: Plane,
    pub(crate) hub_log: AuditLog,
    pub(crate) alpha_log: AuditLog,
    pub(crate) beta_log: AuditLog,
    /// What a test began, for one of the closing ones that looks at what came of it minutes later.
    begun: Mutex<BTreeMap<&'static str, Value>>,
    /// Namespaces that stay until the end, by project.
    kept: Mutex<Vec<(String, String)>>,
    /// When planes were stopped.
    pub(crate) outages: Outages,
    /// The administrator's kubeconfig, with a context for each plane.
    pub(crate) kubeconfig: PathBuf,
    /// Where this run keeps its files.
    pub(crate) dir: PathBuf,
}

/// The cell that joins by a command, and kubeconfigs of administrators.
pub(crate) struct NewCell {
    pub(crate) role: CellRole,
    pub(crate) hub: PathBuf,
    pub(crate) cell: PathBuf,
    pub(crate) project: PathBuf,
    /// The file for its credential on the hub.
    pub(crate) credential: PathBuf,
}

impl Suite {
    /// The one suite of this process; panics if it cannot be had, in every test that asks.
    pub(crate) async fn get() -> Arc<Suite> {
        let suite = SUITE
            .get_or_init(|| async {
                // A panic is kept like an error: the second test must not try for another minute.
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
        let dir = super::dir("cells");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let hub_controllers = HubControllers::from_env().context("choose the hub's controllers")?;
        eprintln!("sandbox in {}, hub controllers: {hub_controllers}", dir.display());
        let cell = |(name, city): (&str, &str)| CellSpec {
            name: name.to_owned(),
            city: city.to_owned(),
        };
        let sandbox = Sandbox::up(Options {
            projects: vec![ALPHA.to_owned(), BETA.to_owned()],
            cells: MEMBERS.into_iter().chain([LAB, NEW]).map(cell).collect(),
            hub_controllers,
            manifests: Manifest::builtin()?,
            unregistered: vec![NEW.0.to_owned()],
            pods: true,
            forwards: operator::PODS.map(str::to_owned).into(),
            backends: true,
            progress: Progress::new(|line| eprintln!("sandbox: {line}")),
            ..Options::new(dir.join("sandbox"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
        })
        .await
        .context("bring the sandbox up")?;
        let suite = Self::of(sandbox, dir).await?;
        let (dfw, lhr, lab) = (suite.dfw.start(), suite.lhr.start(), suite.lab.start());
        futures::future::join4(suite.gateway.start(), dfw, lhr, lab).await;
        Ok(suite)
    }

    async fn of(sandbox: Sandbox, dir: PathBuf) -> Result<Suite> {
        let gateway = Gateway::new(Setup {
            hub: sandbox.kubeconfig("hub", User::Gateway),
            projects: Projects::Folder(sandbox.project_kubeconfigs()),
            kinds: None,
            log: dir.join("gateway.log"),
            further: Vec::new(),
        });
        let admin = |plane: &str| -> Result<Plane> {
            let client = sandbox
                .client(plane, User::Admin)
                .with_context(|| format!("connect to {plane}"))?;
            Ok(Plane::new(plane, client))
        };
        let log = |plane: &str| AuditLog::new(&sandbox.audit_log(plane));
        let projects = [ALPHA, BETA];
        Ok(Suite {
            gateway,
            dfw: CellRole::member(&sandbox, MEMBERS[0].0, &dir, &projects).await?,
            lhr: CellRole::member(&sandbox, MEMBERS[1].0, &dir, &projects).await?,
            lab: CellRole::standalone(&sandbox, LAB.0, &dir, LAB.1)?,
            alpha: admin(ALPHA)?,
            beta: admin(BETA)?,
            hub: admin("hub")?,
            hub_log: log("hub"),
            alpha_log: log(ALPHA),
            beta_log: log(BETA),
            begun: Mutex::default(),
            kept: Mutex::default(),
            outages: Outages::default(),
            kubeconfig: sandbox.merged_kubeconfig(),
            sandbox: Mutex::new(Some(sandbox)),
            dir,
        })
    }

    /// The platform's API server as the cell in DFW sees it, and the flags with which that asks it for quota.
    pub(crate) async fn platform(&self) -> (Platform, [String; 3]) {
        let sandbox = self.sandbox.lock().await;
        let sandbox = sandbox.as_ref().expect("it is up until all tests have ended");
        let platform = Platform::of(sandbox, &self.dfw.name, &[ALPHA, BETA])
            .await
            .expect("connect to the projects");
        let path = self.dir.join("platform.yaml");
        platform.kubeconfig(&path);
        let path = path.display().to_string();
        let flags = [
            "--quota-kubeconfig".to_owned(),
            path,
            "--development-allow-http".to_owned(),
        ];
        (platform, flags)
    }

    /// The port of this machine to which the ports of a Pod in DFW lead.
    pub(crate) async fn forward_target(&self, pod: &str) -> u16 {
        let sandbox = self.sandbox.lock().await;
        let sandbox = sandbox.as_ref().expect("it is up until all tests have ended");
        let port = sandbox.forward_target(&self.dfw.name, pod);
        port.expect("the sandbox forwards to it")
    }

    /// Uses the sandbox itself.
    pub(crate) async fn with_sandbox<T>(&self, use_it: impl AsyncFnOnce(&Sandbox) -> T) -> T {
        let sandbox = self.sandbox.lock().await;
        use_it(sandbox.as_ref().expect("it is up until all tests have ended")).await
    }

    /// Stops a plane's API server.
    pub(crate) async fn stop_plane(&self, plane: &str) {
        self.outages.begin(plane);
        let stopped = async |sandbox: &Sandbox| sandbox.stop_plane(plane).await;
        self.with_sandbox(stopped).await.expect("stop the plane");
    }

    /// Starts it again and waits until it is ready. Nothing happens if it runs.
    pub(crate) async fn start_plane(&self, plane: &str) {
        let started = async |sandbox: &Sandbox| sandbox.start_plane(plane).await;
        self.with_sandbox(started).await.expect("start the plane");
        self.outages.end(plane);
    }

    /// The cell that joins by a command, with a file for its credential on the hub, and the administrators' kubeconfigs of
    /// hub and cell.
    pub(crate) async fn new_cell(&self) -> NewCell {
        let sandbox = self.sandbox.lock().await;
        let sandbox = sandbox.as_ref().expect("it is up until all tests have ended");
        let credential = self.dir.join(format!("{}-on-hub.yaml", NEW.0));
        let admin = |plane: &str| sandbox.kubeconfig(plane, User::Admin);
        NewCell {
            role: CellRole::joined(sandbox, NEW.0, &self.dir, &credential, NEW.1)
                .expect("connect to the new cell"),
            hub: admin("hub"),
            cell: admin(NEW.0),
            project: admin(ALPHA),
            credential,
        }
    }

    /// All cells.
    pub(crate) fn cells(&self) -> [&CellRole; 3] {
        [&self.dfw, &self.lhr, &self.lab]
    }

    /// The audit logs of all planes, with their names.
    pub(crate) fn logs(&self) -> [(&str, &AuditLog); 6] {
        [
            (ALPHA, &self.alpha_log),
            (BETA, &self.beta_log),
            ("hub", &self.hub_log),
            ("dfw-1", &self.dfw.log),
            ("lhr-1", &self.lhr.log),
            (LAB.0, &self.lab.log),
        ]
    }

    /// Puts everything back to work after a test that failed halfway.
    pub(crate) async fn recover(&self) {
        for location in self.dfw.plane.list(&SERVING_LOCATION, "", "").await {
            let name = location["metadata"]["name"].as_str().unwrap_or_default();
            if name.starts_with("second") {
                self.dfw.plane.delete(&SERVING_LOCATION, "", name).await;
            }
        }
        for cell in self.cells() {
            cell.restore();
            cell.restart_with(&[]).await;
        }
        self.gateway.restart_with(&[]).await;
    }

    /// Leaves a word for a closing test; the namespace stays until then.
    pub(crate) async fn begun(&self, what: &'static str, word: Value, project: &str, namespace: &str) {
        self.begun.lock().await.insert(what, word);
        let kept = (project.to_owned(), namespace.to_owned());
        self.kept.lock().await.push(kept);
    }

    /// What a test has left under this name.
    pub(crate) async fn was_begun(&self, what: &'static str) -> Option<Value> {
        self.begun.lock().await.get(what).cloned()
    }

    pub(crate) async fn keeps(&self, namespace: &str) -> bool {
        self.kept.lock().await.iter().any(|(_, kept)| kept == namespace)
    }

    /// Lets go of what was kept.
    pub(crate) async fn keep_no_longer(&self) {
        for (project, namespace) in self.kept.lock().await.drain(..) {
            let plane = if project == BETA { &self.beta } else { &self.alpha };
            plane.delete(&NAMESPACE, "", &namespace).await;
        }
    }

    /// Ends the roles and all planes.
    pub(crate) async fn down(&self) {
        for cell in self.cells() {
            cell.stop().await;
        }
        self.gateway.stop().await;
        if let Some(sandbox) = self.sandbox.lock().await.take()
            && let Err(error) = sandbox.down().await
        {
            eprintln!("the sandbox did not end in order: {error}");
        }
    }
}
