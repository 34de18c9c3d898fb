//! Registry of the engaged planes and their connections.

use super::{client::Connection, health::PlaneHealth, kubeconfig::TimeLeft, watch::WatchStatus};
use crate::{key::Plane, random::HashMap, watch_channel::Sender};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::Instant,
};

/// An engaged plane; `T` identifies its watches.
#[derive(Debug)]
pub struct EngagedPlane<T> {
    /// Number of this engagement: a later engagement of the same plane may be another server.
    pub engagement: u64,
    /// Connection to the plane.
    pub connection: Connection,
    /// Start of the engagement.
    pub since: Instant,
    /// Its watches.
    pub watches: Vec<(T, Arc<WatchStatus>)>,
    /// Handles of the tasks of the watches, in the same order.
    pub handles: Vec<AbortHandle>,
    /// Tasks that watch the plane, for as long as it is engaged.
    pub tasks: JoinSet<()>,
    /// The end of the credential and the time left to it that the log has reported.
    pub reported_expiry: Option<(i64, TimeLeft)>,
    /// True once the lists of the first phase are complete, after which the other lists begin.
    pub first_phase_synced: Sender<bool>,
}

impl<T> EngagedPlane<T> {
    /// A plane that is engaged now and not watched yet.
    pub fn new(engagement: u64, connection: Connection) -> Self {
        Self {
            engagement,
            connection,
            since: Instant::now(),
            watches: Vec::new(),
            handles: Vec::new(),
            tasks: JoinSet::new(),
            reported_expiry: None,
            first_phase_synced: Sender::new(false),
        }
    }
}

/// Registry of planes; see the module.
#[derive(Debug)]
pub struct PlaneRegistry<T>(Mutex<HashMap<Plane, EngagedPlane<T>>>);

impl<T> Default for PlaneRegistry<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Copy + PartialEq> PlaneRegistry<T> {
    /// Records that a write to a plane was answered with this version of an object that is in this table.
    pub fn note_written(&self, plane: &Plane, table: T, version: &str) {
        let planes = self.lock();
        let watches = planes.get(plane).into_iter().flat_map(|engaged| &engaged.watches);
        for (_, health) in watches.filter(|(watched, _)| *watched == table) {
            health.note_written(version);
        }
    }
}

impl<T> PlaneRegistry<T> {
    /// All planes, under a lock: no other task sees them meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<Plane, EngagedPlane<T>>> {
        self.0.lock()
    }

    /// The client for short calls to a plane; `None` if the plane is not engaged.
    pub fn client(&self, plane: &Plane) -> Option<kube::Client> {
        let planes = self.lock();
        planes
            .get(plane)
            .map(|engaged| engaged.connection.current().client())
    }

    /// Health of the plane, shared by all its callers; `None` if the plane is not engaged.
    pub fn health(&self, plane: &Plane) -> Option<Arc<PlaneHealth>> {
        let planes = self.lock();
        planes
            .get(plane)
            .map(|engaged| engaged.connection.health().clone())
    }

    /// Number of the plane's engagement; 0 if the plane is not engaged.
    pub fn engagement(&self, plane: &Plane) -> u64 {
        self.lock().get(plane).map_or(0, |engaged| engaged.engagement)
    }
}
