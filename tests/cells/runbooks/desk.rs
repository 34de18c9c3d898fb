//! The operator's desk: kubeconfigs and executables, a gateway in Pods of the host, and the way into each state.

use super::{load::Load, planted::Planted, shows::State, usage};
use crate::{
    operator::{PODS, pod},
    support::{
        Case, Wish,
        audit::GATEWAY,
        cell::through_a_line,
        credentials,
        gateway::{Gateway, Projects, Setup},
        http,
        kinds::{CLUSTER_ROLE, DEPLOYMENT, Kind, NAMESPACE, POD, SECRET, WORKLOAD, kind},
        line::Line,
        plane::Plane,
        seconds,
        suite::{ALPHA, LAB},
        wait_for,
    },
};
use fedgate_api::keys;
use fedgate_kinds::FederatedKind;
use fedgate_manifests::{ADMIN_SECRET, KindManifests, NAMESPACE as SYSTEM};
use fedgate_sandbox::{Progress, Sandbox, User};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinHandle,
};

pub(super) const TOKEN: &str = "token-of-the-runbooks";
/// The city that no cell serves.
const NOWHERE: &str = "NOWHERE";
/// The kubeconfigs of the hub: the operator's, and the gateway's, whose way may be cut.
const HUB: [&str; 2] = ["hub.yaml", "hub-of-the-gateway.yaml"];
const GATEWAY_DEPLOYMENT: Kind = kind("apps", "v1", "Deployment", "deployments", true);

/// See the module.
pub(super) struct Desk {
    pub(super) case: Case,
    pub(super) folder: PathBuf,
    pub(super) kubectl: PathBuf,
    pub(super) host: Plane,
    pub(super) gateway: Gateway,
    /// The other replica, which runs where it matters.
    second: Gateway,
    /// The gateways' way to the hub.
    pub(super) line: Line,
    pub(super) planted: Planted,
    pub(super) load: Load,
    /// Where the ports of the Pods lead on this machine.
    targets: [u16; 2],
    /// From there to the gateway, while it runs.
    forwards: Mutex<Vec<JoinHandle<()>>>,
    /// The rules of the gateway's role, while a verb is taken from it.
    rules: Mutex<Option<Value>>,
    /// Wished Instances of `web`.
    wished: AtomicU64,
}

/// Waits until the operations API of a replica says a word.
async fn answers(gateway: &Gateway, path: &str, word: &str) {
    wait_for(&format!("/{path} says {word}"), seconds(120), || async {
        let (_, text) = gateway.answer_to(TOKEN, &format!("/api/v1/{path}")).await?;
        text.contains(word).then_some(())
    })
    .await;
}

/// Leads a port of this machine to an address.
async fn forward(port: u16, address: String) -> JoinHandle<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let address = address.clone();
            tokio::spawn(async move {
                if let Ok(mut to) = TcpStream::connect(address).await {
                    // Either end may hang up.
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                }
            });
        }
    })
}

/// The administrator's kubeconfig with a context `host` beside those of the planes.
fn kubeconfig(merged: &Path) -> String {
    credentials::changed(merged, |config| {
        let contexts = config["contexts"].as_array_mut().expect("contexts");
        let lab = contexts.iter().find(|context| context["name"] == LAB.0);
        let mut host = lab.expect("a context of the host").clone();
        host["name"] = json!("host");
        contexts.push(host);
    })
}

/// The gateway's Deployment as manifests/deploy has it.
fn deployment() -> Value {
    let kinds = FederatedKind::builtin().expect("the kinds are right");
    let kinds: Vec<_> = kinds.iter().map(|kind| KindManifests::of(kind, None)).collect();
    let objects = fedgate_manifests::objects(fedgate_manifests::Plane::Host, &kinds).expect("the manifests");
    let mut objects = objects.into_iter();
    let is_gateway = |o: &Value| o["kind"] == "Deployment" && o["metadata"]["name"] == GATEWAY;
    objects.find(is_gateway).expect("the gateway is deployed")
}

impl Desk {
    /// A gateway in Pods of the host, beside `hub.yaml` and `alpha.yaml`, and a Workload `web` that runs.
    pub(super) async fn open(case: &Case) -> Self {
        let suite = &case.suite;
        let folder = suite.dir.join("desk");
        std::fs::create_dir_all(&folder).expect("make a folder");
        let host = suite.lab.plane.clone();
        suite.gateway.stop().await;
        let (targets, kubectl) = suite
            .with_sandbox(async |sandbox: &Sandbox| {
                furnish(&folder, sandbox);
                let port = |pod| sandbox.forward_target(LAB.0, pod).expect("the Pod has forwards");
                let progress = Progress::new(|line| eprintln!("kubectl: {line}"));
                let kubectl = fedgate_sandbox::program("kubectl", &progress).await;
                (PODS.map(port), kubectl.expect("kubectl can be had"))
            })
            .await;
        let [operator, own] = HUB.map(|file| folder.join(file));
        let line = through_a_line(&operator, &own).await;
        let gateway = |log: &str| {
            Gateway::new(Setup {
                hub: own.clone(),
                projects: Projects::Secrets(SYSTEM),
                kinds: None,
                log: suite.dir.join(log),
                further: vec!["--admin-token-file".into(), folder.join("token").into()],
            })
        };
        let desk = Self {
            case: case.clone(),
            kubectl,
            host,
            gateway: gateway("gateway-desk.log"),
            second: gateway("gateway-desk-second.log"),
            line: line.expect("a line to the hub"),
            folder,
            planted: Planted::default(),
            load: Load::default(),
            targets,
            forwards: Mutex::default(),
            rules: Mutex::default(),
            wished: AtomicU64::new(1),
        };
        desk.begin().await;
        desk
    }

    async fn begin(&self) {
        usage::serve(&self.host).await;
        let alpha = std::fs::read_to_string(self.folder.join("alpha.yaml")).expect("read it");
        self.publish(ALPHA, &alpha).await;
        let namespace = json!({"metadata": {"name": SYSTEM}});
        // The standalone cell may have it already.
        let _ = self.host.try_create(&NAMESPACE, "", namespace).await;
        let secret = json!({"metadata": {"name": ADMIN_SECRET}, "stringData": {"token": TOKEN}});
        self.host.create(&SECRET, SYSTEM, secret).await;
        self.host.create(&GATEWAY_DEPLOYMENT, SYSTEM, deployment()).await;
        self.rolled_out(2).await;
        for name in PODS {
            self.host.create(&POD, SYSTEM, pod(name)).await;
        }
        for name in PODS {
            let runs = |pod: &Value| pod["status"]["phase"] == "Running";
            self.host
                .sees(&POD, SYSTEM, name, "runs", seconds(60), runs)
                .await;
        }
        self.start_gateway().await;
        let wish = Wish::new("web", 1);
        self.case.create(&wish).await;
        self.case.runs(&wish).await;
    }

    /// The work that the state before has left is done. A trace is whole as soon as all Instances that the cell has made
    /// are in the project; those that it has yet to make are waited for, too.
    async fn is_whole(&self) {
        self.case.runs(&Wish::new("web", self.wished())).await;
        let path = format!("trace/{ALPHA}/{}/workloads/web", self.case.ns);
        self.says(&path, r#""verdict":"whole""#).await;
    }

    /// A project's kubeconfig as a Secret of the hub.
    async fn publish(&self, name: &str, kubeconfig: &str) {
        let secret = json!({
            "metadata": {"name": name, "labels": {keys::PROJECT_SECRET: "true"}},
            "stringData": {"kubeconfig": kubeconfig},
        });
        self.case.hub.create(&SECRET, SYSTEM, secret).await;
    }

    /// Plays the controller of Deployments.
    async fn rolled_out(&self, updated: u64) {
        let status = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": updated,
            "readyReplicas": 2, "availableReplicas": 2});
        self.host
            .merge_status(&GATEWAY_DEPLOYMENT, SYSTEM, GATEWAY, status)
            .await;
    }

    async fn start_gateway(&self) {
        self.gateway.start().await;
        let mut forwards = self.forwards.lock().await;
        for port in self.targets {
            forwards.push(forward(port, self.gateway.address().to_owned()).await);
        }
    }

    /// Starts the other replica, which stands by, in the second Pod.
    async fn start_second(&self) {
        self.second.start().await;
        self.lead_second_to(&self.second).await;
    }

    async fn stop_second(&self) {
        if self.second.is_running().await {
            self.second.stop().await;
            self.lead_second_to(&self.gateway).await;
        }
    }

    /// Leads the port of the second Pod to a replica.
    async fn lead_second_to(&self, gateway: &Gateway) {
        let mut forwards = self.forwards.lock().await;
        if let Some(before) = forwards.pop() {
            before.abort();
            // The port is free once the task has ended.
            let _ = before.await;
        }
        forwards.push(forward(self.targets[1], gateway.address().to_owned()).await);
    }

    /// Waits until both replicas say that the hub is down.
    async fn both_say_that_the_hub_is_down(&self) {
        for gateway in [&self.gateway, &self.second] {
            answers(gateway, "overview", r#""plane":"hub""#).await;
        }
    }

    async fn stop_gateway(&self) {
        for forward in self.forwards.lock().await.drain(..) {
            forward.abort();
        }
        self.gateway.stop().await;
    }

    /// Takes the planes back and ends the gateway.
    pub(super) async fn close(&self) {
        for state in State::ALL.iter().chain(State::LOADED) {
            self.leave(*state).await;
        }
        self.stop_gateway().await;
        usage::end(&self.host).await;
        for name in PODS {
            self.host.delete(&POD, SYSTEM, name).await;
        }
        self.host.delete(&SECRET, SYSTEM, ADMIN_SECRET).await;
        self.host.delete(&GATEWAY_DEPLOYMENT, SYSTEM, GATEWAY).await;
        self.case.hub.delete(&SECRET, SYSTEM, ALPHA).await;
        self.case.suite.gateway.start().await;
    }

    /// Brings gateway and planes into a state.
    pub(super) async fn enter(&self, state: State) {
        self.is_whole().await;
        match state {
            State::Well => {}
            State::HubCut => {
                self.start_second().await;
                self.line.cut();
                self.both_say_that_the_hub_is_down().await;
            }
            State::HubDown => {
                self.start_second().await;
                self.case.suite.stop_plane("hub").await;
                self.edit(2).await;
                // Without a leader nobody carries the edit of the Workload into its deployment.
                let scaled = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
                let (project, ns) = (&self.case.project, &self.case.ns);
                project.merge(&DEPLOYMENT, ns, "web-us-dfw", scaled).await;
                self.both_say_that_the_hub_is_down().await;
                // An object is undelivered once it has waited for a minute.
                self.says("stuck?class=undelivered", "web-us-dfw").await;
            }
            State::ProjectDown => {
                self.case.suite.stop_plane(ALPHA).await;
                self.says("stuck?class=plane", ALPHA).await;
            }
            State::CellDown => {
                self.case.suite.stop_plane("dfw-1").await;
                self.says("cells", r#""state":"not_ready""#).await;
            }
            State::NoCell => {
                let mut wish = Wish::new("lost", 1);
                NOWHERE.clone_into(&mut wish.places[0].1);
                self.case.create(&wish).await;
                self.says("stuck?class=refused", "NoCellForCity").await;
            }
            State::Refused => {
                let plugin = credentials::with_plugin(&self.folder.join("alpha.yaml"));
                self.publish("plugin", &plugin).await;
                self.says("stuck?class=plane", "plugin").await;
            }
            State::Expiring => {
                let account = credentials::Twin::shipped(&self.case.hub).await;
                let (token, mark) = (account.token().await, self.gateway.log_mark());
                for file in HUB.map(|file| self.folder.join(file)) {
                    credentials::replace(&file, &credentials::with_token(&file, &token));
                }
                self.logs(mark, "the credential expires within a day").await;
            }
            State::MissingRight => {
                self.take_right().await;
                self.edit(3).await;
                self.says("stuck?class=right", "patch workloaddeployments").await;
            }
            State::HalfRolledOut => self.rolled_out(1).await,
            State::GatewayDown => self.stop_gateway().await,
            loaded if State::LOADED.contains(&loaded) => self.burden(loaded).await,
            planted => self.plant(planted).await,
        }
    }

    /// Takes a state back; one that was not entered stays as it is.
    pub(super) async fn leave(&self, state: State) {
        match state {
            State::Well | State::Expiring => {}
            State::HubCut => {
                self.stop_second().await;
                self.line.restore();
            }
            State::HubDown => {
                self.stop_second().await;
                self.case.suite.start_plane("hub").await;
            }
            State::ProjectDown => self.case.suite.start_plane(ALPHA).await,
            State::CellDown => self.case.suite.start_plane("dfw-1").await,
            State::NoCell => {
                let (project, ns) = (&self.case.project, &self.case.ns);
                project.delete(&WORKLOAD, ns, "lost").await;
            }
            State::Refused => self.case.hub.delete(&SECRET, SYSTEM, "plugin").await,
            State::MissingRight => {
                if let Some(rules) = self.rules.lock().await.take() {
                    self.set_rules(&rules).await;
                }
            }
            State::HalfRolledOut => self.rolled_out(2).await,
            State::GatewayDown => {
                if !self.gateway.is_running().await {
                    self.start_gateway().await;
                }
            }
            loaded if State::LOADED.contains(&loaded) => self.relieve(loaded).await,
            planted => self.uproot(planted).await,
        }
    }

    /// Wished Instances of `web`.
    pub(super) fn wished(&self) -> u64 {
        self.wished.load(Ordering::Relaxed)
    }

    pub(super) async fn edit(&self, count: u64) {
        self.wished.store(count, Ordering::Relaxed);
        self.case.update(&Wish::new("web", count)).await;
    }

    fn role() -> String {
        format!("{GATEWAY}-{}.compute.datumapis.com", DEPLOYMENT.plural)
    }

    /// Takes the right to patch copies from the gateway.
    async fn take_right(&self) {
        let role = self.case.hub.get(&CLUSTER_ROLE, "", &Self::role()).await;
        let mut rules = role.expect("the gateway has a role for copies")["rules"].clone();
        let whole = rules.clone();
        for rule in rules.as_array_mut().into_iter().flatten() {
            if rule["resources"]
                .as_array()
                .is_some_and(|names| names.iter().any(|name| name == DEPLOYMENT.plural))
                && let Some(verbs) = rule["verbs"].as_array_mut()
            {
                verbs.retain(|verb| verb != "patch");
            }
        }
        assert_ne!(rules, whole, "the role had the right");
        *self.rules.lock().await = Some(whole);
        self.set_rules(&rules).await;
    }

    async fn set_rules(&self, rules: &Value) {
        let hub = &self.case.hub;
        hub.merge(&CLUSTER_ROLE, "", &Self::role(), json!({"rules": rules}))
            .await;
    }

    /// Waits until the operations API says a word.
    pub(super) async fn says(&self, path: &str, word: &str) {
        answers(&self.gateway, path, word).await;
    }

    /// Sum of a metric's samples whose labels contain all of `labels`.
    pub(super) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let page = self.gateway.answer_to(TOKEN, "/metrics").await;
        http::metric(&page.unwrap_or_default().1, name, labels)
    }

    /// Waits until the gateway's log says a word.
    pub(super) async fn logs(&self, mark: usize, word: &str) {
        wait_for(&format!("the log says {word}"), seconds(30), || async {
            let lines = self.gateway.log_since(mark);
            lines.iter().any(|line| line.contains(word)).then_some(())
        })
        .await;
    }
}

/// Writes the files that the commands name.
fn furnish(folder: &Path, sandbox: &Sandbox) {
    for (file, plane, user) in [
        (HUB[0], "hub", User::Gateway),
        ("hub-admin.yaml", "hub", User::Admin),
        ("alpha.yaml", ALPHA, User::Gateway),
    ] {
        let text = std::fs::read_to_string(sandbox.kubeconfig(plane, user));
        std::fs::write(folder.join(file), text.expect("a kubeconfig")).expect("write it");
    }
    std::fs::write(folder.join("token"), TOKEN).expect("write the token");
    let kubeconfig = kubeconfig(&sandbox.merged_kubeconfig());
    std::fs::write(folder.join("kubeconfig"), kubeconfig).expect("write a kubeconfig");
}
