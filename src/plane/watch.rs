//! One watch with bounded back-off, whose events go to a sink that never waits. What is asked and read is in [`follow`],
//! which goes on where it was after any error; what an error means is decided here.

mod follow;
mod keep;
mod lines;
mod malformed;
mod pages;
pub mod reach;
mod trouble;

use super::client::PlaneClient;
use crate::engine::{
    chance::Chance,
    key::Plane,
    object::{Tolerant, Unread},
};
use follow::Follower;
use futures::StreamExt;
use kube::{
    core::{ApiResource, DynamicObject},
    runtime::watcher,
};
use malformed::Malformed;
use parking_lot::Mutex;
use reach::{Line, Reach};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use trouble::{Cause, OfPlane, Trouble};

pub use keep::keep;

/// What a watch tells.
#[derive(Debug)]
pub enum Event {
    /// A list begins.
    Began,
    /// An object of the list.
    Listed(Box<DynamicObject>),
    /// The list is complete.
    Complete,
    /// An object was created or changed.
    Applied(Box<DynamicObject>),
    /// An object as the answer to our own write has it: no watch told of it, and it may come late.
    Answered(Box<DynamicObject>),
    /// An object was deleted; its last state.
    Deleted(Box<DynamicObject>),
    /// The watch has failed: what changes is not told until it goes on.
    Failed,
    /// The watch goes on.
    Resumed,
    /// A list is older than what was told before: the plane was restored to an older state. Another list follows.
    Rewound,
}

/// What is watched.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The kind.
    pub resource: ApiResource,
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// Only objects with these labels.
    pub labels: Option<String>,
    /// Only objects with these fields.
    pub fields: Option<String>,
    /// How many of them a list reads at a time, at most.
    pub page: u32,
    /// A field that nobody reads.
    pub unread: Unread,
}

/// The state of a watch, for readiness, metrics and `/debug/planes`.
#[derive(Debug)]
pub struct Health {
    synced: AtomicBool,
    forbidden: AtomicBool,
    errors: AtomicU64,
    expiries: AtomicU64,
    last_event: Mutex<Instant>,
    /// The highest version that the watch has told of.
    highest: AtomicU64,
    /// The highest version in an answer to a write.
    written: AtomicU64,
    error: Mutex<Option<(Cause, String)>>,
    malformed: Mutex<Malformed>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            synced: AtomicBool::new(false),
            forbidden: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            expiries: AtomicU64::new(0),
            last_event: Mutex::new(Instant::now()),
            highest: AtomicU64::new(0),
            written: AtomicU64::new(0),
            error: Mutex::default(),
            malformed: Mutex::default(),
        }
    }
}

impl Health {
    /// A write was answered with this version, which the watch may tell of later: a server that was restored to a state
    /// before it is older than what is known, although it may have all that the watch has told.
    pub fn note_written(&self, version: &str) {
        let version = version.parse().unwrap_or(0);
        self.written.fetch_max(version, Ordering::Relaxed);
    }

    /// Whether a complete list has been read.
    pub fn synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Whether the server refuses the watch for want of rights.
    pub fn forbidden(&self) -> bool {
        self.forbidden.load(Ordering::Relaxed)
    }

    /// How often the watch failed and began again, whatever the cause.
    pub fn restarts(&self) -> u64 {
        self.restarts_by_cause().iter().map(|(_, count)| count).sum()
    }

    /// The same by cause: `gone` where the server no longer had the version (410), else `error`.
    pub fn restarts_by_cause(&self) -> [(&'static str, u64); 2] {
        [
            ("gone", self.expiries.load(Ordering::Relaxed)),
            ("error", self.errors.load(Ordering::Relaxed)),
        ]
    }

    /// The server has answered; whether the watch had failed before.
    fn goes_on(&self) -> bool {
        self.error.lock().take().is_some()
    }

    /// The watch has failed; whether otherwise than before.
    fn fails(&self, cause: Cause, text: String) -> bool {
        let counter = if cause == Cause::Gone {
            &self.expiries
        } else {
            &self.errors
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let before = self.error.lock().replace((cause, text));
        before.is_none_or(|(known, _)| known != cause)
    }

    /// How many of the objects could not be read in full.
    pub fn malformed(&self) -> usize {
        self.malformed.lock().count()
    }

    /// How long ago the last event came; since the watch was begun if none has.
    pub fn silence(&self) -> Duration {
        self.last_event.lock().elapsed()
    }

    /// The last error, as long as it lasts.
    pub fn error(&self) -> Option<String> {
        self.error.lock().as_ref().map(|(_, text)| text.clone())
    }
}

/// A refusal for want of rights must have lasted this long: an API server that has only just started refuses everyone
/// until it has read its roles.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);

/// Most objects in one page of a list of small objects: small pages keep the peak of a re-list low, as thousands of
/// projects may be listed at a time.
pub const SMALL_OBJECTS: u32 = 50;
/// The same on the hub, which is one, and has those of all projects.
pub const HUB_OBJECTS: u32 = 500;
/// The same of objects that may have a MiB each.
pub const LARGE_OBJECTS: u32 = 10;

/// Watches until the future is dropped. `sink` must not wait: a watch that nobody reads stalls its neighbours.
/// The watches of one plane share `reach`: while it is away one of them asks in turn, and all go on once it answers.
/// A change of rights (from or to "forbidden") is told through `on_rights` once it has proved to last.
pub async fn run(
    plane: &Plane,
    client: Arc<PlaneClient>,
    selection: &Selection,
    health: &Health,
    reach: &Arc<Reach>,
    sink: impl Fn(Event),
    on_rights: impl Fn(bool),
) {
    let mut watch = Watch {
        plane,
        kind: &selection.resource.kind,
        health,
        reach,
        line: Line::new(reach.clone()),
        sink,
        on_rights,
        trouble: Trouble::none((plane, &selection.resource.kind)),
    };
    let timeout = watch_timeout(plane, watch.kind);
    let line = watch.line.clone();
    line.hold(async {
        let mut follower = Follower::new(client, selection, timeout, health);
        loop {
            watch.follow(&mut follower).await;
            follower.begin_anew();
        }
    })
    .await;
}

struct Watch<'a, S, R> {
    plane: &'a Plane,
    kind: &'a str,
    health: &'a Health,
    reach: &'a Arc<Reach>,
    line: Arc<Line>,
    sink: S,
    on_rights: R,
    trouble: Trouble,
}

impl<S: Fn(Event), R: Fn(bool)> Watch<'_, S, R> {
    /// Follows one watcher until it has lost its place.
    async fn follow(&mut self, events: &mut Follower<'_>) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.line.opened() => {
                    self.answered();
                    continue;
                }
                event = events.next() => event,
            };
            if self.line.has_opened() {
                self.answered();
            }
            let highest = self.health.highest.fetch_max(events.version(), Ordering::Relaxed);
            match event {
                // Ours are lists by quorum: no server has an older one than was told before. Nothing of it has been told yet.
                Some(Ok(watcher::Event::InitApply(_) | watcher::Event::InitDone))
                    if events.version() < highest =>
                {
                    self.health.highest.store(0, Ordering::Relaxed);
                    return (self.sink)(Event::Rewound);
                }
                Some(Ok(event)) => self.event(event),
                Some(Err(error)) => {
                    let cause = Cause::of(&error);
                    self.fails(cause, &error).await;
                    if cause.needs_list() {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    fn event(&mut self, event: watcher::Event<Tolerant>) {
        // A list is only being asked for; whether the server answers is not known yet.
        if matches!(event, watcher::Event::Init) {
            self.health.malformed.lock().begin_list();
            return (self.sink)(Event::Began);
        }
        *self.health.last_event.lock() = Instant::now();
        self.answered();
        let event = match event {
            watcher::Event::Init => None,
            watcher::Event::InitApply(object) => self.named(object).map(Event::Listed),
            watcher::Event::InitDone => {
                self.health.malformed.lock().end_list();
                self.health.synced.store(true, Ordering::Relaxed);
                Some(Event::Complete)
            }
            watcher::Event::Apply(object) => self.named(object).map(Event::Applied),
            watcher::Event::Delete(object) => {
                let last = self.named(object);
                if let Some(object) = &last {
                    self.is_well(object);
                }
                last.map(Event::Deleted)
            }
        };
        if let Some(event) = event {
            (self.sink)(event);
        }
    }

    /// The object, unless it has no name by which anything could be done about it.
    fn named(&self, tolerant: Tolerant) -> Option<Box<DynamicObject>> {
        let Tolerant { object, faults } = tolerant;
        let metadata = &object.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        if faults.is_empty() && name.is_some() {
            self.is_well(&object);
            return Some(Box::new(object));
        }
        let mut malformed = self.health.malformed.lock();
        if malformed.saw_malformed(namespace.unwrap_or_default(), name.unwrap_or_default()) {
            tracing::warn!(
                plane = %self.plane,
                kind = self.kind,
                namespace,
                name,
                fields = faults.join(", "),
                "an object has fields that cannot be read, which count as absent; correct it or ask who serves it"
            );
        }
        name.is_some().then(|| Box::new(object))
    }

    /// The object is read in full, or gone.
    fn is_well(&self, object: &DynamicObject) {
        let metadata = &object.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let mut malformed = self.health.malformed.lock();
        malformed.saw_well(namespace.unwrap_or_default(), name.unwrap_or_default());
    }

    /// The server has answered.
    fn answered(&mut self) {
        self.reach.heard();
        if self.health.goes_on() {
            tracing::info!(plane = %self.plane, kind = self.kind, "the watch goes on");
            (self.sink)(Event::Resumed);
        }
        if self.health.forbidden.swap(false, Ordering::Relaxed) {
            (self.on_rights)(false);
        }
        if self.trouble.ends() {
            self.reach.revive();
        }
    }

    /// Notes and tells what is wrong, and waits before the next attempt.
    async fn fails(&mut self, cause: Cause, error: &watcher::Error) {
        (self.sink)(Event::Failed);
        let text = error.to_string();
        if self.health.fails(cause, text.clone()) {
            let (plane, kind, what) = (self.plane, self.kind, cause.what());
            if let Some(next) = cause.next_step(plane) {
                tracing::warn!(%plane, kind, error = text, next, "a watch fails and is tried again: {what}");
            } else {
                tracing::info!(%plane, kind, error = text, "a watch is begun again: {what}");
            }
        }
        if self.trouble.refused_for(cause) >= Some(REFUSAL_PATIENCE)
            && !self.health.forbidden.swap(true, Ordering::Relaxed)
        {
            (self.on_rights)(true);
        }
        let asked = self.line.fails();
        let asked = match error {
            watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_) => asked,
            _ => Instant::now(),
        };
        let away = match cause.of_plane() {
            OfPlane::Away(silence) => self.reach.lost(asked, silence),
            OfPlane::Well => {
                self.reach.heard();
                false
            }
            OfPlane::Unsaid => false,
        };
        let delay = self.trouble.delay(away);
        tokio::select! {
            biased;
            () = tokio::time::sleep(delay) => {}
            () = self.reach.revived() => {}
        }
        self.line.turn().await;
    }
}

/// Between 240 and 290 s, so that the watches of many planes do not all begin anew at once.
fn watch_timeout(plane: &Plane, kind: &str) -> u32 {
    let spread = Duration::from_secs(50).mul_f64(Chance::share((plane, kind)));
    240 + u32::try_from(spread.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
