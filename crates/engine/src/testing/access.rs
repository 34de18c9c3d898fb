//! Access to a single plane, for tests of what writes.

use crate::{
    executor::PlaneAccess,
    key::Plane,
    plan::{ReasonLabel, Target, WriteResult},
    plane::health::PlaneHealth,
};
use futures::future::BoxFuture;
use kube::Client;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{sync::watch, time::Instant};

/// Access to one plane, with a permission to write that expires at a given time.
pub struct SinglePlane {
    client: Client,
    pub(crate) health: Arc<PlaneHealth>,
    pub(crate) until: watch::Sender<Instant>,
    unanswered: AtomicUsize,
}

impl SinglePlane {
    /// Writes are permitted before `until`.
    pub fn new(client: Client, until: Instant) -> Arc<Self> {
        Arc::new(Self {
            client,
            health: Arc::default(),
            until: watch::Sender::new(until),
            unanswered: AtomicUsize::new(0),
        })
    }

    /// Number of writes whose result is unknown.
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }
}

impl PlaneAccess for SinglePlane {
    fn client(&self, _: &Plane) -> Option<Client> {
        Some(self.client.clone())
    }

    fn health(&self, _: &Plane) -> Option<Arc<PlaneHealth>> {
        Some(self.health.clone())
    }

    fn may_write(&self) -> bool {
        Instant::now() < *self.until.borrow()
    }

    fn permit_expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            while self.may_write() {
                let until = *self.until.borrow();
                tokio::time::sleep_until(until).await;
            }
        })
    }

    fn write_unresolved(&self, _: &Target) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    fn object_observed(&self, _: &Target, _: u64, _: WriteResult) {}

    fn wrote(&self, _: &Target, _: ReasonLabel) {}

    fn fight_detected(&self, _: &Target, _: &'static str) {}
}
