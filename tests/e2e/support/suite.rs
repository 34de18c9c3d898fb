//! What all tests share: one sandbox, one gateway, one runtime that outlives each test.

use super::{
    audit::{AuditLog, GATEWAY},
    case::hub_namespace,
    cell::controller,
    credentials::{self, Twin, with_token},
    federated::{kinds_flags, manifests},
    gateway::{Gateway, Projects, SELDOM, Setup},
    kinds::{ACCESS_REVIEW, CLUSTER, CLUSTER_ROLE, DEPLOYMENT, INSTANCE, NAMESPACE, SECRET},
    objects::template,
    plane::{Plane, seconds, wait_for},
    process::Controllers,
};
use anyhow::{Context, Result};
use fedgate_api::keys;
use fedgate_sandbox::{HubControllers, Options, Progress, Sandbox, User};
use futures::FutureExt;
use serde_json::{Value, json};
use std::{ffi::OsString, panic::AssertUnwindSafe, path::PathBuf, sync::Arc};
use tokio::sync::{Mutex, OnceCell};

static SUITE: OnceCell<Result<Arc<Suite>, String>> = OnceCell::const_new();

/// File name, hence project key, of the project plane `alpha`.
pub(crate) const ALPHA_KEY: &str = "single";
/// File name, hence project key, of the project plane `beta`.
pub(crate) const BETA_KEY: &str = "beta";

/// Namespace of the gateway's own things on the hub.
pub(crate) const SYSTEM: &str = "fedgate-system";
/// The copy of the hub from before the first test: Karmada, members and our manifests, and nothing else.
pub(crate) const AS_INSTALLED: &str = "installed";

/// The planes that tests put back to an older state.
const OWN_ETCD: [&str; 2] = ["hub", "alpha"];

/// Seconds at rest; the contract's ten minutes are `FEDGATE_E2E_REST_SECONDS=600`.
pub(crate) fn rest_seconds() -> u64 {
    std::env::var("FEDGATE_E2E_REST_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20)
}

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
    /// The kubeconfigs of the projects as they were at the start.
    kubeconfigs: Vec<(PathBuf, String)>,
    outages: Mutex<Vec<Outage>>,
    /// The gateway's role in `alpha`, while a verb is taken from it.
    role: Mutex<Option<Value>>,
    /// Project namespaces that stay until the end of the run.
    kept: Mutex<Vec<String>>,
    /// The one of them that the tests of rest share: its name and that of its hub namespace.
    shared: Mutex<Option<(String, String)>>,
    /// The hub's controllers, once a test has taken them over.
    pub(crate) controllers: Mutex<Option<Controllers>>,
    /// Where this run keeps its files.
    pub(crate) dir: PathBuf,
}

/// A time in which a plane's API server was stopped, or the gateway's rights there were cut, by a test, in the form of
/// the audit logs.
struct Outage {
    plane: String,
    from: String,
    until: Option<String>,
}

/// The gateway's role for deployments in a project: there is one for each federated kind.
fn deployments_role() -> String {
    format!("{GATEWAY}-{}.compute.datumapis.com", DEPLOYMENT.plural)
}

fn now() -> String {
    format!("{:.6}", jiff::Timestamp::now())
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

impl CellAccess {
    /// Waits until the hub refuses what this cell may not write, and admits what it may: an API server that does not know an
    /// admission policy yet admits all, and may take half a minute to find the kind of the policy's parameters.
    pub(crate) async fn is_admitted(&self, hub: &Plane) {
        let (home, deployment) = ("admission", "probe");
        let identity = json!({keys::UPSTREAM_CLUSTER: "cluster-probe", keys::UPSTREAM_NAMESPACE: "probe"});
        let mut namespace = json!({"metadata": {"name": home, "labels": identity}});
        namespace["metadata"]["labels"][keys::SKIP_AUTO_PROPAGATION] = json!("true");
        hub.create(&NAMESPACE, "", namespace).await;
        let mut instance = json!({
            "metadata": {
                "name": format!("{deployment}-0"), "labels": identity,
                "ownerReferences": [controller(&json!({"metadata": {"name": deployment, "uid": "u"}}))],
            },
            "spec": template()["spec"],
        });
        for (key, value) in [
            (keys::CELL, self.name.as_str()),
            (keys::WORKLOAD_DEPLOYMENT_NAME, deployment),
            (keys::INSTANCE_CITY_CODE, &self.city),
        ] {
            instance["metadata"]["labels"][key] = json!(value);
        }
        let mut elsewhere = instance.clone();
        elsewhere["metadata"]["labels"][keys::INSTANCE_CITY_CODE] = json!("NONE");
        wait_for("the hub admits what a cell may write", seconds(60), || async {
            let refused = !self.hub.would_create(&INSTANCE, home, elsewhere.clone()).await;
            let admitted = refused && self.hub.would_create(&INSTANCE, home, instance.clone()).await;
            admitted.then_some(())
        })
        .await;
        hub.delete(&NAMESPACE, "", home).await;
    }
}

impl Suite {
    /// The one suite of this process; panics if it cannot be had, in every test that asks.
    pub(crate) async fn get() -> Arc<Suite> {
        let suite = SUITE
            .get_or_init(|| async {
                // A panic is kept like an error: the second test must not try for another minute.
                let up = async {
                    let suite = Suite::up("e2e", false, &OWN_ETCD).await?;
                    // This starts the hub's API server anew.
                    suite.save_plane("hub", AS_INSTALLED).await;
                    suite.dfw.is_admitted(&suite.hub).await;
                    suite.gateway.start().await;
                    Ok(suite)
                };
                match AssertUnwindSafe(up).catch_unwind().await {
                    Ok(outcome) => outcome
                        .map(Arc::new)
                        .map_err(|error: anyhow::Error| format!("{error:#}")),
                    Err(panic) => Err(super::text(&*panic)),
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

    /// A sandbox in a folder of that name, whose etcd waits for the disk if `fsync`, and which these planes do not share.
    /// The gateway is not started.
    pub(crate) async fn up(name: &str, fsync: bool, own_etcd: &[&str]) -> Result<Suite> {
        let dir = super::dir(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        let projects = dir.join("projects");
        std::fs::create_dir_all(&projects).with_context(|| format!("create {}", projects.display()))?;
        let hub_controllers = HubControllers::from_env().context("choose the hub's controllers")?;
        eprintln!("sandbox in {}, hub controllers: {hub_controllers}", dir.display());
        let sandbox = Sandbox::up(Options {
            hub_controllers,
            fsync,
            own_etcd: own_etcd.iter().map(ToString::to_string).collect(),
            manifests: manifests()?,
            progress: Progress::new(|line| eprintln!("sandbox: {line}")),
            ..Options::new(dir.join("sandbox"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
        })
        .await
        .context("bring the sandbox up")?;
        let mut kubeconfigs = Vec::new();
        for (plane, key) in [("alpha", ALPHA_KEY), ("beta", BETA_KEY)] {
            let (from, to) = (
                sandbox.kubeconfig(plane, User::Gateway),
                projects.join(format!("{key}.yaml")),
            );
            let text = std::fs::read_to_string(from)
                .and_then(|text| std::fs::write(&to, &text).map(|()| text))
                .with_context(|| format!("copy the kubeconfig of {plane}"))?;
            kubeconfigs.push((to, text));
        }
        let gateway = Gateway::new(Setup {
            hub: sandbox.kubeconfig("hub", User::Gateway),
            projects: Projects::Folder(projects),
            kinds: Some(kinds_flags()),
            log: dir.join("gateway.log"),
            // Its projects serve none of the kinds, but where a test installs one.
            further: ["--location-source", "auto"].map(OsString::from).into(),
        });
        let admin = |plane: &str| -> Result<Plane> {
            let client = sandbox
                .client(plane, User::Admin)
                .with_context(|| format!("connect to {plane}"))?;
            Ok(Plane::new(plane, client))
        };
        let access = |name: &str, city: &str| -> Result<CellAccess> {
            let hub = sandbox
                .client("hub", User::Cell(name))
                .with_context(|| format!("connect {name} to the hub"))?;
            let (name, city) = (name.to_owned(), city.to_owned());
            Ok(CellAccess {
                plane: admin(&name)?,
                hub: Plane::new("hub", hub),
                name,
                city,
            })
        };
        let dfw = access("dfw-1", "DFW")?;
        Ok(Suite {
            gateway,
            alpha: admin("alpha")?,
            beta: admin("beta")?,
            hub: admin("hub")?,
            dfw,
            lhr: access("lhr-1", "LHR")?,
            hub_log: AuditLog::new(&sandbox.audit_log("hub")),
            alpha_log: AuditLog::new(&sandbox.audit_log("alpha")),
            beta_log: AuditLog::new(&sandbox.audit_log("beta")),
            sandbox: Mutex::new(Some(sandbox)),
            kubeconfigs,
            outages: Mutex::default(),
            role: Mutex::default(),
            kept: Mutex::default(),
            shared: Mutex::default(),
            controllers: Mutex::default(),
            dir,
        })
    }

    /// A second gateway on the same planes, with its own log, that comes to the hub as this account; not started.
    pub(crate) async fn second_gateway(&self, account: &Twin) -> Gateway {
        let hub = self.dir.join("second-gateway.yaml");
        let text = with_token(self.gateway.hub_kubeconfig(), &account.token().await);
        credentials::replace(&hub, &text);
        self.other_gateway(hub, Projects::Folder(self.gateway.projects().to_owned()))
    }

    /// A gateway of the same user that finds its projects elsewhere.
    pub(crate) fn other_gateway(&self, hub: PathBuf, projects: Projects) -> Gateway {
        Gateway::new(Setup {
            hub,
            projects,
            kinds: Some(kinds_flags()),
            log: self.dir.join("gateway-2.log"),
            further: Vec::new(),
        })
    }

    /// Uses the sandbox itself.
    pub(crate) async fn with_sandbox<T>(&self, use_it: impl AsyncFnOnce(&Sandbox) -> T) -> T {
        let sandbox = self.sandbox.lock().await;
        use_it(sandbox.as_ref().expect("the sandbox is up")).await
    }

    async fn outage_begins(&self, plane: &str) {
        self.outages.lock().await.push(Outage {
            plane: plane.to_owned(),
            from: now(),
            until: None,
        });
    }

    async fn outage_ends(&self, plane: &str) {
        for outage in self.outages.lock().await.iter_mut() {
            if outage.plane == plane {
                outage.until.get_or_insert_with(now);
            }
        }
    }

    /// Runs something that cuts the gateway's rights on a plane for a while.
    pub(crate) async fn without_rights<T>(&self, plane: &str, run: impl Future<Output = T>) -> T {
        self.outage_begins(plane).await;
        super::with_cleanup(run, self.outage_ends(plane)).await
    }

    /// Stops a plane's API server.
    pub(crate) async fn stop_plane(&self, plane: &str) {
        self.outage_begins(plane).await;
        let stopped = async |sandbox: &Sandbox| sandbox.stop_plane(plane).await;
        self.with_sandbox(stopped).await.expect("stop the plane");
    }

    /// Starts a plane's API server again and waits until it is ready.
    pub(crate) async fn start_plane(&self, plane: &str) {
        let started = async |sandbox: &Sandbox| sandbox.start_plane(plane).await;
        self.with_sandbox(started).await.expect("start the plane");
        self.outage_ends(plane).await;
    }

    /// Keeps a copy of what a plane's etcd holds, under a name.
    pub(crate) async fn save_plane(&self, plane: &str, name: &str) {
        self.outage_begins(plane).await;
        let saved = async |sandbox: &Sandbox| sandbox.save_plane(plane, name).await;
        self.with_sandbox(saved).await.expect("save the plane");
        self.outage_ends(plane).await;
    }

    /// Puts a stopped plane back to that copy and starts it.
    pub(crate) async fn restore_plane(&self, plane: &str, name: &str) {
        let restored = async |sandbox: &Sandbox| sandbox.restore_plane(plane, name).await;
        self.with_sandbox(restored).await.expect("restore the plane");
        self.outage_ends(plane).await;
    }

    /// Takes the right to list deployments in `alpha` from the gateway, and waits until the plane knows.
    pub(crate) async fn revoke_list(&self) {
        self.outage_begins("alpha").await;
        let role = self.alpha.get(&CLUSTER_ROLE, "", &deployments_role()).await;
        let role = role.expect("the gateway has a role for deployments in a project");
        let mut rules = role["rules"].clone();
        for rule in rules.as_array_mut().into_iter().flatten() {
            let covers = |list: &Value| {
                list.as_array()
                    .is_some_and(|names| names.iter().any(|name| name == DEPLOYMENT.plural))
            };
            if covers(&rule["resources"])
                && let Some(verbs) = rule["verbs"].as_array_mut()
            {
                verbs.retain(|verb| verb != "list");
            }
        }
        assert_ne!(rules, role["rules"], "the role had the right");
        *self.role.lock().await = Some(role["rules"].clone());
        self.set_rules(&rules, false).await;
    }

    /// Gives the gateway its right back, if it was taken.
    pub(crate) async fn restore_list(&self) {
        if let Some(rules) = self.role.lock().await.take() {
            self.set_rules(&rules, true).await;
            self.outage_ends("alpha").await;
        }
    }

    async fn set_rules(&self, rules: &Value, listing: bool) {
        self.alpha
            .merge(&CLUSTER_ROLE, "", &deployments_role(), json!({"rules": rules}))
            .await;
        let question = json!({"metadata": {}, "spec": {"user": GATEWAY, "resourceAttributes": {
            "verb": "list", "group": "compute.datumapis.com", "resource": DEPLOYMENT.plural}}});
        wait_for("the plane knows the changed role", seconds(20), || async {
            let answer = self
                .alpha
                .try_create(&ACCESS_REVIEW, "", question.clone())
                .await
                .ok()?;
            (answer["status"]["allowed"] == listing).then_some(())
        })
        .await;
    }

    /// Whether the plane was stopped or starting, or rights there were cut, at that time of an audit log.
    pub(crate) async fn was_out(&self, plane: &str, time: &str) -> bool {
        let outages = self.outages.lock().await;
        outages
            .iter()
            .filter(|outage| outage.plane == plane)
            .any(|outage| {
                outage.from.as_str() <= time && outage.until.as_deref().is_none_or(|until| time <= until)
            })
    }

    /// Puts everything back to work after a test that failed halfway.
    pub(crate) async fn recover(&self, namespace: &str) {
        for plane in ["hub", "alpha", "beta", "dfw-1", "lhr-1"] {
            self.start_plane(plane).await;
        }
        if let Some(controllers) = self.controllers.lock().await.as_mut() {
            controllers.ensure();
        }
        self.restore_list().await;
        for cell in [&self.dfw, &self.lhr] {
            let city = json!({"metadata": {"labels": {keys::CITY_CODE: cell.city}}});
            self.hub.merge(&CLUSTER, "", &cell.name, city).await;
        }
        self.restore_projects().await;
        self.beta.delete(&NAMESPACE, "", namespace).await;
        // What the test left in the shared namespace may be anything: the next one furnishes its own.
        *self.shared.lock().await = None;
        self.gateway.sweep_every(SELDOM).await;
        if !self.gateway.is_running().await {
            self.gateway.start().await;
        }
    }

    /// The projects' kubeconfigs and no others, in the folder and in Secrets.
    async fn restore_projects(&self) {
        let files = std::fs::read_dir(self.gateway.projects()).expect("list the projects' folder");
        for file in files.filter_map(Result::ok).map(|entry| entry.path()) {
            if self.kubeconfigs.iter().all(|(path, _)| *path != file) {
                std::fs::remove_file(&file).expect("remove a stray kubeconfig");
            }
        }
        for (path, text) in &self.kubeconfigs {
            credentials::replace(path, text);
        }
        let labelled = format!("{}=true", keys::PROJECT_SECRET);
        for secret in self.hub.list(&SECRET, SYSTEM, &labelled).await {
            if let Some(name) = secret["metadata"]["name"].as_str() {
                self.hub.delete(&SECRET, SYSTEM, name).await;
            }
        }
    }

    /// The namespaces that the tests of rest share; `None` until one has furnished them, or after one has failed.
    pub(crate) async fn shared(&self) -> Option<(String, String)> {
        self.shared.lock().await.clone()
    }

    /// Shares a test's namespaces, which stay until the end of the run: then the next test that needs rest everywhere
    /// waits neither for their end nor for others like them.
    pub(crate) async fn share(&self, namespace: &str, hub_namespace: &str) {
        self.keep(namespace).await;
        *self.shared.lock().await = Some((namespace.to_owned(), hub_namespace.to_owned()));
    }

    async fn keep(&self, namespace: &str) {
        self.kept.lock().await.push(namespace.to_owned());
    }

    pub(crate) async fn keeps(&self, namespace: &str) -> bool {
        self.kept.lock().await.iter().any(|kept| kept == namespace)
    }

    /// Lets go of what was kept.
    pub(crate) async fn keep_no_longer(&self) {
        *self.shared.lock().await = None;
        for namespace in self.kept.lock().await.drain(..) {
            self.alpha.delete(&NAMESPACE, "", &namespace).await;
        }
    }

    /// Waits until the hub has no namespace of ours but those of project namespaces that live on.
    pub(crate) async fn only_live_namespaces(&self) {
        wait_for(
            "every hub namespace without a project namespace is gone",
            seconds(150),
            || async {
                let mut live: Vec<String> = Vec::new();
                for plane in [&self.alpha, &self.beta] {
                    let all = plane.list(&NAMESPACE, "", "").await;
                    let stays = |ns: &&Value| ns["metadata"]["deletionTimestamp"].is_null();
                    live.extend(all.iter().filter(stays).map(hub_namespace));
                }
                let hub = self.hub.list(&NAMESPACE, "", keys::PROJECT_UID).await;
                hub.iter()
                    .all(|ns| live.iter().any(|name| ns["metadata"]["name"] == *name))
                    .then_some(())
            },
        )
        .await;
    }

    /// Ends the gateway and all planes.
    pub(crate) async fn down(&self) {
        self.gateway.stop().await;
        // They end with it.
        self.controllers.lock().await.take();
        if let Some(sandbox) = self.sandbox.lock().await.take()
            && let Err(error) = sandbox.down().await
        {
            eprintln!("the sandbox did not end in order: {error}");
        }
    }
}

/// True if real Karmada takes the place of the stand-in.
pub(crate) fn is_real() -> bool {
    std::env::var_os("KARMADA_BIN_DIR").is_some_and(|bin| !bin.is_empty())
}
