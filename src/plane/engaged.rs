//! The planes that are engaged, and the way to each.

use super::{
    client::Connection,
    watch::{Health, reach::Reach},
};
use crate::engine::{chance::HashMap, key::Plane};
use parking_lot::{Mutex, MutexGuard};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};

/// An engaged plane, whose watches have roles `R`; `T` is what else is kept of it.
#[derive(Debug)]
pub struct Engaged<R, T> {
    /// Which engagement this is: another one may be another server.
    pub engagement: u64,
    /// The way to it.
    pub connection: Connection,
    /// When it was engaged.
    pub since: Instant,
    /// Its watches.
    pub watches: Vec<(R, Arc<Health>)>,
    /// What watches and hears it, for as long as it is engaged.
    pub tasks: JoinSet<()>,
    /// What else is kept of it.
    pub own: T,
}

impl<R, T> Engaged<R, T> {
    /// A plane that is engaged now and not watched yet.
    pub fn new(engagement: u64, connection: Connection, own: T) -> Self {
        Self {
            engagement,
            connection,
            since: Instant::now(),
            watches: Vec::new(),
            tasks: JoinSet::new(),
            own,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Planes<R, T>(Mutex<HashMap<Plane, Engaged<R, T>>>);

impl<R, T> Default for Planes<R, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Copy + PartialEq, T> Planes<R, T> {
    /// A write to a plane was answered with this version of an object that is watched under this role.
    pub fn note_written(&self, plane: &Plane, role: R, version: &str) {
        let planes = self.lock();
        let watches = planes.get(plane).into_iter().flat_map(|engaged| &engaged.watches);
        for (_, health) in watches.filter(|(watched, _)| *watched == role) {
            health.note_written(version);
        }
    }
}

impl<R, T> Planes<R, T> {
    /// All of them; nobody else sees them meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<Plane, Engaged<R, T>>> {
        self.0.lock()
    }

    /// The client for short calls to a plane; `None` if the plane is not engaged.
    pub fn client(&self, plane: &Plane) -> Option<kube::Client> {
        let planes = self.lock();
        planes
            .get(plane)
            .map(|engaged| engaged.connection.current().client())
    }

    /// What all that ask a plane find out together.
    pub fn reach(&self, plane: &Plane) -> Option<Arc<Reach>> {
        let planes = self.lock();
        planes
            .get(plane)
            .map(|engaged| engaged.connection.reach().clone())
    }

    /// Which engagement of a plane this is; 0 of one that is not engaged.
    pub fn engagement(&self, plane: &Plane) -> u64 {
        self.lock().get(plane).map_or(0, |engaged| engaged.engagement)
    }

    /// While the plane's watches get no answer: whether it is the turn of a call to ask, or how long to wait.
    pub fn scout(&self, plane: &Plane) -> Option<Result<(), Duration>> {
        self.reach(plane)?.try_turn()
    }

    /// A plane that left calls unanswered has answered one.
    pub fn heard(&self, plane: &Plane) {
        if let Some(reach) = self.reach(plane) {
            reach.heard();
        }
    }
}
