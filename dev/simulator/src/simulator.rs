//! All planes together.

use crate::{
    clock::Clock,
    faults::Faults,
    journal::{Change, Journal},
    log::Log,
    plane::{Common, Latency, Plane, Shared},
    random::Random,
    service::{Planes, Service},
    state::State,
};
use parking_lot::Mutex;
use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Any number of API servers in one process.
#[derive(Debug, Clone)]
pub struct Simulator(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seed: u64,
    clock: Clock,
    births: AtomicU64,
    streams: AtomicU32,
    common: Arc<Common>,
    planes: Arc<Planes>,
}

/// Streams that an API server allows on one HTTP/2 connection.
const STREAMS: u32 = 100;

impl Simulator {
    /// A simulator without planes. The seed drives the delays, and the UIDs follow from it.
    pub fn new(seed: u64) -> Self {
        let common = Common {
            log: Log::default(),
            journal: Journal::default(),
            faults: Faults::new(seed),
            latency: Mutex::new(Latency {
                range: None,
                random: Random::new(seed),
            }),
        };
        Self(Arc::new(Inner {
            seed,
            clock: Clock::start(),
            births: AtomicU64::new(0),
            streams: AtomicU32::new(STREAMS),
            common: Arc::new(common),
            planes: Arc::default(),
        }))
    }

    /// Adds a plane with the namespaces `default` and `kube-system` and the built-in kinds. One of that name goes.
    pub fn add(&self, name: &str) -> Plane {
        let birth = self.0.births.fetch_add(1, Ordering::Relaxed) + 1;
        let random = Random::new(self.0.seed ^ birth.wrapping_mul(0xd134_2543_de82_ef95));
        let state = State::new(name, self.0.clock, random, self.0.common.journal.clone());
        let plane = Arc::new(Shared::new(name, self.0.common.clone(), state));
        let before = self.0.planes.write().insert(name.into(), plane.clone());
        end(before);
        Plane(plane)
    }

    /// A plane by its name.
    pub fn plane(&self, name: &str) -> Option<Plane> {
        self.0.planes.read().get(name).cloned().map(Plane)
    }

    /// Ends a plane: its watches end, and its requests get connection errors.
    pub fn remove(&self, name: &str) {
        let plane = self.0.planes.write().remove(name);
        end(plane);
    }

    /// The request log.
    pub fn log(&self) -> Log {
        self.0.common.log.clone()
    }

    /// Keeps every change from now on.
    pub fn keep_changes(&self) {
        self.0.common.journal.keep();
    }

    /// The changes that were kept since the last call.
    pub fn take_changes(&self) -> Vec<Change> {
        self.0.common.journal.take()
    }

    /// The names of all planes.
    pub fn names(&self) -> Vec<String> {
        self.0.planes.read().keys().map(ToString::to_string).collect()
    }

    /// The script of faults.
    pub fn faults(&self) -> Faults {
        self.0.common.faults.clone()
    }

    /// How many streams one HTTP/2 connection may have at once, for connections that open from now on: 100 unless set.
    pub fn limit_streams(&self, streams: u32) {
        self.0.streams.store(streams, Ordering::Relaxed);
    }

    pub(crate) fn streams(&self) -> u32 {
        self.0.streams.load(Ordering::Relaxed)
    }

    pub(crate) fn planes(&self) -> Arc<Planes> {
        self.0.planes.clone()
    }

    /// Delays each answer and each event of a watch by a draw from the range.
    pub fn latency(&self, range: Option<RangeInclusive<Duration>>) {
        self.0.common.latency.lock().range = range;
    }

    /// A user's way to a plane, which need not be there yet.
    pub fn service(&self, plane: &str, user: &str) -> Service {
        Service {
            planes: self.0.planes.clone(),
            plane: plane.into(),
            user: user.into(),
        }
    }
}

fn end(plane: Option<Arc<Shared>>) {
    if let Some(plane) = plane {
        plane.with(|state| {
            state.removed = true;
            state.wake_all();
        });
    }
}
