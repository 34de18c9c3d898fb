//! All changes of all planes, in the order in which they were made.

use parking_lot::Mutex;
use serde_json::Value;
use std::{
    mem::take,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::time::Instant;

/// One change of one object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The plane's name.
    pub plane: Arc<str>,
    /// Who changed it: a user, [`DIRECT`] for the test itself, [`CONTROLLERS`] for the plane's own controllers.
    pub user: Arc<str>,
    /// When.
    pub at: Instant,
    /// The kind's group; empty for the core.
    pub group: Arc<str>,
    /// The kind's plural.
    pub resource: Arc<str>,
    /// The object before; none if it was created.
    pub before: Option<Arc<Value>>,
    /// The object after; none if it is gone.
    pub after: Option<Arc<Value>>,
}

/// Who changes what a test changes directly.
pub const DIRECT: &str = "test";
/// Who collects garbage and empties namespaces.
pub const CONTROLLERS: &str = "controllers";

/// See the module. Nothing is kept unless it is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    on: Arc<AtomicBool>,
    changes: Arc<Mutex<Vec<Change>>>,
}

impl Journal {
    pub(crate) fn keep(&self) {
        self.on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, change: impl FnOnce() -> Change) {
        if self.on.load(Ordering::Relaxed) {
            self.changes.lock().push(change());
        }
    }

    pub(crate) fn take(&self) -> Vec<Change> {
        take(&mut self.changes.lock())
    }
}
