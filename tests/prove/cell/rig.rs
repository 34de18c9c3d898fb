//! A hub, a project and a cell's own plane, those who act there, and a cell in one process on one thread, on a paused
//! clock.

use super::{
    planes::{self, CELL, CITY, LOCATION, NAME, OWN, PROJECT},
    players::{self, Script},
};
use crate::{rig::HUB, wire::Wire};
use fedgate::{
    api::names::ProjectKey,
    cell::{
        context::Settings,
        provider,
        run::{Cell, Projects, Setup},
        size::Sizes,
        world::Reading,
    },
    engine::{chance::Chance, clock::Clock, told::Told},
    metrics::{Metrics, PlaneKind},
    plane::{
        client::{Clients, Connection, Limits},
        discovery::ProjectEvent,
        lease::LeaseHandle,
    },
};
use fedgate_simulator::{Plane, Simulator};
use futures::StreamExt;
use std::{sync::Arc, time::Duration};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

/// The user that a cell is for the planes.
pub(super) const USER: &str = "cell";

/// One life of a cell.
struct Life {
    cell: Arc<Cell>,
    cut: Told<bool>,
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
    began: Instant,
    life: Option<Life>,
    players: Vec<JoinHandle<()>>,
}

impl Rig {
    /// Planes and players without a cell.
    pub(super) fn new(seed: u64, networking: bool) -> Self {
        assert!(Chance::fix(1), "something drew from chance before the first rig");
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
            began: Instant::now(),
            life: None,
            players,
        }
    }

    /// Starts a cell.
    pub(super) fn start(&mut self) {
        assert!(self.life.is_none(), "a cell runs already");
        let metrics = Metrics::of("cell").unwrap();
        let clients = Clients::new(Limits::default(), metrics.client.clone());
        let cut = Told::new(false);
        let connect = |kind: PlaneKind, name: &str| {
            let wire = Wire::new(self.simulator.service(name, USER), cut.listen());
            Connection::new(clients.plane_of(kind, wire))
        };
        let began = self.began;
        let project = connect(PlaneKind::Project, PROJECT);
        let cell = Cell::new(Setup {
            cell: connect(PlaneKind::Cell, CELL),
            hub: Some(connect(PlaneKind::Hub, HUB)),
            reading: self.reading(),
            settings: Settings {
                provider: Some(provider::settings::Settings::default()),
                sizes: Sizes::default(),
                quota: true,
                status_interval: Duration::from_millis(250),
            },
            projects: Projects::Found,
            lease: LeaseHandle::always(),
            identity: USER.to_owned(),
            workers: 8,
            metrics,
            clock: Clock::of(move || wall(began)),
        });
        let (stop, stopped) = oneshot::channel();
        let end = tokio::spawn({
            let cell = cell.clone();
            async move {
                let engaged = ProjectEvent::Engaged {
                    key: ProjectKey::parse(PROJECT).unwrap(),
                    connection: project,
                };
                let events = futures::stream::iter([engaged]).chain(futures::stream::pending());
                let stopped = async {
                    let _ = stopped.await;
                };
                cell.run(events, stopped).await;
            }
        });
        self.life = Some(Life { cell, cut, stop, end });
    }

    fn reading(&self) -> Reading {
        Reading {
            cell: NAME.into(),
            place: (!self.networking).then(|| (LOCATION.into(), CITY.into())),
            networking: self.networking,
            data: true,
            provider: true,
            hub: true,
            project: None,
            namespace: OWN.into(),
            external: None,
            limits: Arc::default(),
        }
    }

    /// Kills the cell: from now on nothing of it reaches a plane.
    pub(super) async fn kill(&mut self) {
        let life = self.life.take().unwrap();
        life.cut.tell(true);
        let _ = life.stop.send(());
        life.end.await.unwrap();
    }

    /// What keeps the cell from being live or ready.
    pub(super) fn unwell(&self) -> Option<String> {
        let cell = &self.life.as_ref().unwrap().cell;
        cell.live().and_then(|()| cell.ready()).err()
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
            life.cut.tell(true);
            life.end.abort();
        }
    }
}

/// The planes' wall clock in a run that began then: what servers write, the cell compares with its own.
pub(super) fn wall(began: Instant) -> jiff::Timestamp {
    let start = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    start.checked_add(began.elapsed()).unwrap()
}
