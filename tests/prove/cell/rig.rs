//! A hub, a project and a cell's own plane, those who act there, and a cell in one process on one thread, on a paused
//! clock.

use super::{
    planes::{self, CELL, CITY, LOCATION, NAME, OWN, PROJECT},
    players::{self, Script},
};
use crate::{rig::HUB, wire::Wire};
use fedgate_api::names::ProjectKey;
use fedgate_cell::{self, Cell, projects::Projects, settings::Settings};
use fedgate_engine::{
    clock::Clock,
    metrics::{Metrics, PlaneKind},
    plane::{
        client::{Clients, Connection, Limits},
        discovery::ProjectEvent,
        lease::LeaseHandle,
    },
    random::Random,
    runtime::{Runtime, Setup},
    watch_channel::Sender,
};
use fedgate_simulator::{Plane, Simulator};
use futures::StreamExt;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::Instant,
};

/// The user that a cell is for the planes.
pub(super) const USER: &str = "cell";

/// One life of a cell.
struct Life {
    cell: Arc<Runtime<Cell>>,
    cut: Sender<bool>,
    stop: oneshot::Sender<()>,
    end: JoinHandle<()>,
}

/// See the module.
pub(super) struct Rig {
    pub(super) simulator: Simulator,
    pub(super) hub: Plane,
    pub(super) cell: Plane,
    pub(super) project: Plane,
    /// What those who act around the cell are told.
    pub(super) script: Script,
    networking: bool,
    /// With what the next life of the cell begins.
    pub(super) options: Options,
    /// Tells the cell of projects.
    pub(super) discovery: mpsc::UnboundedSender<ProjectEvent>,
    began: Instant,
    life: Option<Life>,
    players: Vec<JoinHandle<()>>,
}

/// What a cell is started with, as its flags would say it.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// Whether it runs Pods.
    pub(super) provider: bool,
    /// Whether it asks for quota.
    pub(super) quota: bool,
    /// How it reaches the project.
    pub(super) reach: Reach,
}

/// How the cell reaches the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// It is found at once.
    Found,
    /// Nobody finds it.
    Lost,
    /// A connection is made when it is needed; so many attempts fail first.
    Made(usize),
}

impl Rig {
    /// Planes and players without a cell.
    pub(super) fn new(seed: u64, networking: bool) -> Self {
        // The order of hash maps is another one with each seed.
        Random::seed(seed);
        let simulator = Simulator::new(seed);
        simulator.keep_changes();
        let hub = planes::of_hub(&simulator);
        let cell = planes::of_cell(&simulator, networking);
        let project = planes::of_project(&simulator);
        let script = Script::default();
        let players = players::all(&hub, &cell, &project, &script);
        Self {
            simulator,
            hub,
            cell,
            project,
            script,
            networking,
            options: Options {
                provider: true,
                quota: true,
                reach: Reach::Found,
            },
            discovery: mpsc::unbounded_channel().0,
            began: Instant::now(),
            life: None,
            players,
        }
    }

    /// Starts a cell.
    pub(super) fn start(&mut self) {
        assert!(self.life.is_none(), "a cell runs already");
        let metrics = Metrics::of("cell").unwrap();
        let clients = Clients::new(Limits::default(), metrics.families.clone());
        let cut = Sender::new(false);
        let connect = |kind: PlaneKind, name: &str| {
            let wire = Wire::new(self.simulator.service(name, USER), cut.subscribe());
            Connection::new(clients.plane_of(kind, None, wire))
        };
        let began = self.began;
        let (discovery, found) = mpsc::unbounded_channel();
        self.discovery = discovery;
        let projects = match self.options.reach {
            Reach::Found => {
                self.found(connect(PlaneKind::Project, PROJECT));
                Projects::Discovered
            }
            Reach::Lost => Projects::Discovered,
            Reach::Made(failures) => {
                let (project, left) = (connect(PlaneKind::Project, PROJECT), AtomicUsize::new(failures));
                Projects::OnDemand(Box::new(move |_| {
                    let one_less = |n: usize| n.checked_sub(1);
                    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
                        Ok(_) => Err("the kubeconfig cannot be read now".to_owned()),
                        Err(_) => Ok((project.clone(), Box::pin(std::future::pending()))),
                    }
                }))
            }
        };
        let planes = fedgate_cell::Setup {
            cell: connect(PlaneKind::Cell, CELL),
            hub: Some(connect(PlaneKind::Hub, HUB)),
            settings: self.settings(),
            projects,
        };
        let setup = Setup {
            sweep_interval: fedgate_cell::SWEEP_INTERVAL,
            lease: LeaseHandle::always(),
            identity: USER.to_owned(),
            workers: 8,
            metrics,
            clock: Clock::of(move || wall(began)),
        };
        let cell = fedgate_cell::new(planes, setup);
        let (stop, stopped) = oneshot::channel();
        let end = tokio::spawn({
            let cell = cell.clone();
            async move {
                let events = futures::stream::unfold(found, async |mut found| {
                    let event = found.recv().await?;
                    Some((event, found))
                });
                let events = events.chain(futures::stream::pending());
                let stopped = async {
                    let _ = stopped.await;
                };
                cell.run(events, stopped).await;
            }
        });
        self.life = Some(Life { cell, cut, stop, end });
    }

    /// The cell finds the project behind this connection.
    pub(super) fn found(&self, connection: Connection) {
        let key = ProjectKey::parse(PROJECT).unwrap();
        let engaged = ProjectEvent::Engaged {
            key,
            connection,
            uid: None,
        };
        self.discovery.send(engaged).unwrap();
    }

    /// A connection to a plane, as the running cell has it.
    pub(super) fn connection(&self, kind: PlaneKind, name: &str) -> Connection {
        let cut = self.life.as_ref().unwrap().cut.subscribe();
        let clients = Clients::new(Limits::default(), Metrics::of("cell").unwrap().families.clone());
        Connection::new(clients.plane_of(kind, None, Wire::new(self.simulator.service(name, USER), cut)))
    }

    fn settings(&self) -> Settings {
        Settings {
            cell: NAME.into(),
            place: (!self.networking).then(|| (LOCATION.into(), CITY.into())),
            networking: self.networking,
            data: true,
            provider: self.options.provider,
            hub: true,
            quota: self.options.quota,
            namespace: OWN.into(),
            max_replicas: 1000,
            status_interval: Duration::from_millis(250),
            ..Settings::default()
        }
    }

    /// Kills the cell: from now on nothing of it reaches a plane.
    pub(super) async fn kill(&mut self) {
        let life = self.life.take().unwrap();
        life.cut.send(true);
        let _ = life.stop.send(());
        life.end.await.unwrap();
    }

    /// What keeps the cell from being live or ready.
    pub(super) fn unwell(&self) -> Option<String> {
        let cell = &self.life.as_ref().unwrap().cell;
        cell.live().and_then(|()| cell.ready()).err()
    }

    /// The planes' wall clock.
    pub(super) fn wall(&self) -> jiff::Timestamp {
        wall(self.began)
    }

    /// How many watches of a project the cell has.
    pub(super) fn watches(&self, project: &str) -> usize {
        let planes = self.life.as_ref().unwrap().cell.describe();
        let planes = planes["planes"].as_array().unwrap();
        let name = format!("project {project}");
        let mut of_it = planes.iter().filter(|plane| plane["plane"] == *name);
        of_it
            .next()
            .map_or(0, |plane| plane["watches"].as_array().unwrap().len())
    }

    /// Releases that are recorded.
    pub(super) fn records(&self) -> usize {
        let maps = self.cell.list("ConfigMap").into_iter();
        let maps = maps.filter(|map| {
            let name = map["metadata"]["name"].as_str();
            name.is_some_and(|name| name.starts_with("fedgate-releases-"))
        });
        maps.filter_map(|map| Some(map["data"].as_object()?.len())).sum()
    }

    /// What the cell has written, but for events, since the log was cleared.
    pub(super) fn writes(&self) -> Vec<String> {
        let entries = self.simulator.log().entries();
        let written = entries
            .iter()
            .filter(|e| &*e.user == USER && e.verb.writes() && !["leases", "events"].contains(&&*e.resource));
        written.map(ToString::to_string).collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.players.iter().for_each(JoinHandle::abort);
        if let Some(life) = &self.life {
            life.cut.send(true);
            life.end.abort();
        }
    }
}

/// The planes' wall clock in a run that began then: what servers write, the cell compares with its own.
pub(super) fn wall(began: Instant) -> jiff::Timestamp {
    let start = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    start.checked_add(began.elapsed()).unwrap()
}
