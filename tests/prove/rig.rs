//! Planes, a Karmada, cells and a gateway in one process on one thread, on a paused clock.

use crate::{
    cells::{self, Part},
    wire::Wire,
};
use fedgate_api::{crd, keys, names::ProjectKey};
use fedgate_engine::{
    clock::Clock,
    metrics::{Metrics, PlaneKind},
    plane::{
        client::{Clients, Connection, Limits, PlaneClient},
        discovery::ProjectEvent,
        lease::{Lease, LeaseHandle},
    },
    random::Random,
    runtime::{Runtime, Setup},
    watch_channel::Sender,
};
use fedgate_gateway::{
    self, Gateway, rate_limit,
    settings::{LocationSource, Settings},
};
use fedgate_kinds::FederatedKind;
use fedgate_simulator::{
    Controllers, Definition, Plane, Simulator,
    karmada::{Cluster, Karmada, KarmadaOptions},
};
use futures::StreamExt;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep},
};

/// The user that a gateway is for the planes.
pub(crate) const GATEWAY: &str = "gateway";

/// The hub's name in the simulator.
pub(crate) const HUB: &str = "hub";

pub(crate) static COMPUTE: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(|| {
    let definitions = crd::all().unwrap();
    definitions
        .iter()
        .map(|d| Arc::new(Definition::parse(d)))
        .collect()
});

static KINDS: LazyLock<Vec<FederatedKind>> = LazyLock::new(|| FederatedKind::builtin().unwrap());

/// The longest that an unhurried controller takes to look at an object.
const LONGEST: Duration = Duration::from_secs(2);

/// The cells: Karmada's name of each, and its city.
pub(crate) const CELLS: [(&str, &str); 3] = [("dfw-1", "DFW"), ("lhr-1", "LHR"), ("fra-1", "FRA")];

/// The second cell in DFW, where a test has one.
pub(crate) const SECOND: &str = "dfw-2";

/// The user that a replica is.
pub(crate) fn user(replica: u32) -> String {
    if replica == 0 {
        GATEWAY.to_owned()
    } else {
        format!("{GATEWAY}-{replica}")
    }
}

/// One life of a gateway.
struct Life {
    user: String,
    connections: BTreeMap<String, Connection>,
    gateway: Arc<Runtime<Gateway>>,
    metrics: Arc<Metrics>,
    cut: Sender<bool>,
    stop: oneshot::Sender<()>,
    projects: mpsc::UnboundedSender<ProjectEvent>,
    clients: Clients,
    lease: LeaseHandle,
    end: JoinHandle<()>,
}

/// See the module.
pub(crate) struct Rig {
    pub(crate) simulator: Simulator,
    pub(crate) hub: Plane,
    pub(crate) karmada: Karmada,
    pub(crate) projects: BTreeMap<String, Plane>,
    pub(crate) settings: Settings,
    /// The kinds that gateways federate.
    pub(crate) kinds: Vec<FederatedKind>,
    /// Limits of the gateways' clients.
    pub(crate) limits: Limits,
    /// Whether gateways stand for election.
    pub(crate) elected: bool,
    unhurried: bool,
    /// By how many seconds the gateways' wall clock is off.
    pub(crate) off: Arc<AtomicI64>,
    began: Instant,
    started: u32,
    lives: BTreeMap<u32, Life>,
    cells: JoinHandle<()>,
}

/// Settings with short times, so that what is awaited comes within minutes.
pub(crate) fn settings() -> Settings {
    Settings {
        city_linger: Duration::from_secs(5),
        cell_lost_after: Duration::from_mins(5),
        moves_per_city: 8,
        move_timeout: Duration::from_mins(10),
        city_sets_per_project: 64,
        unused_city_set_after: Duration::from_secs(20),
        hub_namespace_retention: Duration::from_secs(20),
        projection_retention: Duration::from_secs(60),
        orphan_after: Duration::from_secs(10),
        sweep_interval: Duration::from_secs(60),
        release_after: None,
        require_owner: false,
        manage_interpreters: true,
        max_spec_size: 256 * 1024,
        instance_types: Vec::new(),
        cross_namespace_networks: false,
        status_interval: Duration::from_millis(250),
        hub_limits: rate_limit::Limits::default(),
        location_source: LocationSource::None,
        networking: false,
    }
}

/// Limits of clients as a gateway has them, but for the size of an answer: what is too large for a page stays small enough
/// for a test.
pub(crate) fn limits() -> Limits {
    Limits {
        answer_bytes: 1024 * 1024,
        ..Limits::default()
    }
}

impl Life {
    fn client(&self, simulator: &Simulator, kind: PlaneKind, name: &str) -> PlaneClient {
        client(simulator, &self.clients, &self.user, &self.cut, kind, name)
    }

    fn engage(&mut self, simulator: &Simulator, name: &str) {
        let connection = Connection::new(self.client(simulator, PlaneKind::Project, name));
        self.connections.insert(name.to_owned(), connection.clone());
        let key = ProjectKey::parse(name).unwrap();
        self.projects
            .send(ProjectEvent::Engaged {
                key,
                connection,
                uid: None,
            })
            .unwrap();
    }
}

fn client(
    simulator: &Simulator,
    clients: &Clients,
    user: &str,
    cut: &Sender<bool>,
    kind: PlaneKind,
    name: &str,
) -> PlaneClient {
    clients.plane_of(
        kind,
        None,
        Wire::new(simulator.service(name, user), cut.subscribe()),
    )
}

/// Karmada with the cells at a hub.
fn attach(hub: &Plane, longest: Duration) -> Karmada {
    let clusters = CELLS
        .iter()
        .map(|(name, city)| Cluster::new(name, keys::CITY_CODE, city));
    Karmada::attach(
        hub,
        KarmadaOptions {
            clusters: clusters.collect(),
            spread: longest,
            ..KarmadaOptions::default()
        },
    )
}

impl Rig {
    /// Planes without a gateway.
    pub(crate) fn new(seed: u64, projects: &[&str]) -> Self {
        Self::with(seed, projects, Duration::ZERO)
    }

    fn with(seed: u64, projects: &[&str], longest: Duration) -> Self {
        // The order of hash maps is another one with each seed.
        Random::seed(seed);
        let simulator = Simulator::new(seed);
        simulator.keep_changes();
        let hub = simulator.add(HUB);
        hub.define_all(&COMPUTE);
        let karmada = attach(&hub, longest);
        let mut rig = Self {
            karmada,
            cells: tokio::spawn(cells::act(hub.clone(), Part::Whole)),
            simulator,
            hub,
            projects: BTreeMap::new(),
            settings: settings(),
            kinds: KINDS.clone(),
            limits: limits(),
            elected: false,
            unhurried: false,
            off: Arc::default(),
            began: Instant::now(),
            started: 0,
            lives: BTreeMap::new(),
        };
        for project in projects {
            rig.engage(project);
        }
        rig
    }

    /// From now on garbage is collected, and namespaces are emptied, after a while that is drawn for each object.
    fn collectors_take_time(plane: &Plane) {
        plane.controllers(Controllers::Within(LONGEST));
    }

    /// Planes whose Karmada and collectors take a while, drawn from the seed, for each object.
    pub(crate) fn unhurried(seed: u64, projects: &[&str]) -> Self {
        let mut rig = Self::with(seed, &[], LONGEST);
        rig.unhurried = true;
        Self::collectors_take_time(&rig.hub);
        for project in projects {
            rig.engage(project);
        }
        rig
    }

    /// A new project, or one that comes back.
    pub(crate) fn engage(&mut self, name: &str) {
        let plane = self.simulator.plane(name).unwrap_or_else(|| {
            let plane = self.simulator.add(name);
            plane.define_all(&COMPUTE);
            if self.unhurried {
                Self::collectors_take_time(&plane);
            }
            plane
        });
        self.projects.insert(name.to_owned(), plane);
        let simulator = &self.simulator;
        for life in self.lives.values_mut() {
            life.engage(simulator, name);
        }
    }

    /// The credential of a project is replaced.
    pub(crate) fn rotate(&mut self, name: &str) {
        for life in self.lives.values() {
            let client = life.client(&self.simulator, PlaneKind::Project, name);
            life.connections[name].replace(client);
        }
    }

    /// The operator takes a project away; its plane and objects stay.
    pub(crate) fn leave(&mut self, name: &str) {
        self.projects.remove(name);
        let key = ProjectKey::parse(name).unwrap();
        for life in self.lives.values_mut() {
            life.connections.remove(name);
            life.projects
                .send(ProjectEvent::Removed { key: key.clone() })
                .unwrap();
        }
    }

    /// Starts a gateway.
    pub(crate) fn start(&mut self) {
        self.start_as(0);
    }

    /// Starts one of several replicas.
    pub(crate) fn start_as(&mut self, replica: u32) {
        self.start_at(replica, HUB);
    }

    /// Adds another hub, with a Karmada and cells of its own.
    pub(crate) fn add_hub(&self, name: &str) -> (Plane, Karmada, JoinHandle<()>) {
        let hub = self.simulator.add(name);
        hub.define_all(&COMPUTE);
        let karmada = attach(&hub, Duration::ZERO);
        let cells = tokio::spawn(cells::act(hub.clone(), Part::Whole));
        (hub, karmada, cells)
    }

    /// The hub is lost and made anew at its address, with nothing in it and another UID.
    pub(crate) fn renew_hub(&mut self) {
        self.cells.abort();
        (self.hub, self.karmada, self.cells) = self.add_hub(HUB);
    }

    /// Starts a gateway at one of several hubs.
    pub(crate) fn start_at(&mut self, replica: u32, hub: &str) {
        let metrics = Metrics::new().unwrap();
        let clients = Clients::new(self.limits, metrics.families.clone());
        let cut = Sender::new(false);
        let user = user(replica);
        let hub = Connection::new(client(
            &self.simulator,
            &clients,
            &user,
            &cut,
            PlaneKind::Hub,
            hub,
        ));
        // Each life is another holder, as each process is.
        self.started += 1;
        let identity = format!("{user}-{}", self.started);
        let lease = if self.elected {
            Lease::run(&hub, "default", "fedgate-gateway", &identity)
        } else {
            LeaseHandle::always()
        };
        let (began, off) = (self.began, self.off.clone());
        let setup = Setup {
            sweep_interval: self.settings.sweep_interval,
            lease: lease.clone(),
            identity,
            workers: 8,
            metrics: metrics.clone(),
            clock: Clock::of(move || wall(began, off.load(Ordering::Relaxed))),
        };
        let gateway = fedgate_gateway::new(hub, self.kinds.clone().into(), self.settings.clone(), setup);
        let (stop, stopped) = oneshot::channel();
        let (projects, events) = mpsc::unbounded_channel();
        let end = tokio::spawn({
            let gateway = gateway.clone();
            async move {
                let events = futures::stream::unfold(events, |mut events| async {
                    events.recv().await.map(|event| (event, events))
                });
                let events = events.chain(futures::stream::pending());
                let stopped = async {
                    let _ = stopped.await;
                };
                gateway.run(events, stopped).await;
            }
        });
        let mut life = Life {
            user,
            connections: BTreeMap::new(),
            gateway,
            metrics,
            cut,
            stop,
            projects,
            clients,
            lease,
            end,
        };
        for name in self.projects.keys() {
            life.engage(&self.simulator, name);
        }
        assert!(
            self.lives.insert(replica, life).is_none(),
            "replica {replica} runs already"
        );
    }

    /// Kills the gateway: from now on nothing of it reaches a plane.
    pub(crate) async fn kill(&mut self) {
        self.kill_replica(0).await;
    }

    /// Kills one of several replicas.
    pub(crate) async fn kill_replica(&mut self, replica: u32) {
        let life = self.lives.remove(&replica).unwrap();
        life.cut.send(true);
        let _ = life.stop.send(());
        life.end.await.unwrap();
        life.lease.release().await;
    }

    /// Ends one of several replicas as SIGTERM does.
    pub(crate) async fn stop_replica(&mut self, replica: u32) {
        let life = self.lives.remove(&replica).unwrap();
        let _ = life.stop.send(());
        life.end.await.unwrap();
        life.lease.release().await;
    }

    /// The cells do nothing more, until they act again.
    pub(crate) fn cells_rest(&self) {
        self.cells.abort();
    }

    /// The cells act again, all or a part of what they should.
    fn cells_do(&mut self, part: Part) {
        self.cells.abort();
        self.cells = tokio::spawn(cells::act(self.hub.clone(), part));
    }

    /// The cells act again.
    pub(crate) fn cells_act(&mut self) {
        self.cells_do(Part::Whole);
    }

    /// The cells act again; of each deployment they have only written back the Instance whose name ends so.
    pub(crate) fn cells_write_back_only(&mut self, end: &'static str) {
        self.cells_do(Part::Only(end));
    }

    /// From now on all cells act but this one, which is lost; it confirms no deletion either.
    pub(crate) fn lose(&mut self, cell: &'static str) {
        self.cells_do(Part::Without(cell));
        self.karmada.ready(cell, false);
        self.karmada.hold_bindings(true);
    }

    /// The gateway, for what it says of itself.
    pub(crate) fn gateway(&self) -> &Runtime<Gateway> {
        &self.lives[&0].gateway
    }

    /// The first replica, if it runs.
    pub(crate) fn running(&self) -> Option<Arc<Runtime<Gateway>>> {
        self.lives.get(&0).map(|life| life.gateway.clone())
    }

    /// One of several replicas.
    pub(crate) fn replica(&self, replica: u32) -> Arc<Runtime<Gateway>> {
        self.lives[&replica].gateway.clone()
    }

    /// What the gateway says in its metrics.
    pub(crate) fn metrics(&self) -> String {
        let life = &self.lives[&0];
        life.metrics.render(&life.gateway.gauges()).unwrap()
    }

    /// How many changing writes gateways have done.
    pub(crate) fn writes(&self) -> Vec<String> {
        let entries = self.simulator.log().entries();
        entries
            .iter()
            .filter(|e| {
                &*e.user == GATEWAY && e.verb.writes() && &*e.resource != "leases" && &*e.resource != "events"
            })
            .map(ToString::to_string)
            .collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.cells.abort();
        for life in self.lives.values() {
            life.cut.send(true);
            life.end.abort();
        }
    }
}

/// The wall clock of a run that began then, so many seconds off.
fn wall(began: Instant, off: i64) -> jiff::Timestamp {
    let start = jiff::Timestamp::from_second(1_800_000_000 + off).unwrap();
    start.checked_add(began.elapsed()).unwrap()
}

/// Lets virtual time pass.
pub(crate) async fn rest(time: Duration) {
    sleep(time).await;
}

/// Runs on one thread, on a paused clock.
pub(crate) fn simulate<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(run)
}

/// How many times fewer crashes and seeds `make test` plays than `make verify`.
const COARSER: u64 = 6;
/// The most seeds or interleavings of one test that `make test` plays.
const COARSE_MOST: u64 = 300;

/// Whether this run is whole, as `make verify` asks for, or coarse.
fn is_whole() -> bool {
    std::env::var_os("FEDGATE_PROVE_WHOLE").is_some()
}

/// Every how many requests there is a crash: `whole` in a whole run.
pub(crate) fn stride(variable: &str, whole: u64) -> u64 {
    number(variable).unwrap_or(if is_whole() { whole } else { whole * COARSER })
}

/// How many seeds or interleavings are played: `whole` in a whole run.
pub(crate) fn count(variable: &str, whole: u64) -> u64 {
    number(variable).unwrap_or(if is_whole() {
        whole
    } else {
        whole.div_ceil(COARSER).min(COARSE_MOST)
    })
}

/// A number that the environment may set.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is {text:?}, not a number")),
    )
}
