//! One watch with bounded backoff, whose events go to a sink that never blocks. [`list_watch`] sends the requests,
//! reads the answers and resumes at its position after any error; this module decides the consequence of an error.

mod failure;
mod line_decoder;
mod list_watch;
mod malformed;
mod pages;
mod supervise;

use super::{
    client::{PlaneClient, watch_session::WatchSession},
    health::{
        PlaneHealth, Unreachable,
        host::{Extent, FailureLine, Member},
    },
};
use crate::{
    key::Plane,
    object::{LenientObject, Unread},
    random::Random,
};
use failure::{PlaneImpact, WatchBackoff, WatchFailure};
use futures::StreamExt;
use kube::core::{ApiResource, DynamicObject};
use kube_runtime::watcher;
use list_watch::ListWatch;
use malformed::Malformed;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

pub use failure::is_not_served;
pub use supervise::run_supervised;

/// Event of a watch.
#[derive(Debug)]
pub enum WatchEvent {
    /// A list starts.
    Init,
    /// An object of the list.
    InitApply(Box<DynamicObject>),
    /// The list is complete.
    InitDone,
    /// An object was created or changed.
    Apply(Box<DynamicObject>),
    /// The object in the response to this process's own write; the watch has not delivered it yet, and this event may
    /// be late.
    Written(Box<DynamicObject>),
    /// An object was deleted; its last state.
    Delete(Box<DynamicObject>),
    /// The watch has failed: changes are not delivered until it resumes.
    Failed,
    /// The watch resumes.
    Resumed,
    /// A list is older than events delivered before: the plane was restored to an older state. Another list follows.
    Rewound,
}

/// Objects to watch.
#[derive(Debug, Clone)]
pub struct WatchSpec {
    /// The kind.
    pub resource: ApiResource,
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// Only objects that match this label selector.
    pub labels: Option<String>,
    /// Only objects that match this field selector.
    pub fields: Option<String>,
    /// Maximum number of objects in a page of a list.
    pub page: u32,
    /// Path of a field that is skipped when objects are parsed, because no code uses it.
    pub unread: Unread,
    /// True if only the metadata of objects is requested.
    pub metadata_only: bool,
    /// True if the plane may do without the kind: that it is not served counts as a want of permission.
    pub may_be_absent: bool,
}

/// Status of a watch, for readiness, metrics and `/debug/planes`.
#[derive(Debug)]
pub struct WatchStatus {
    synced: AtomicBool,
    forbidden: AtomicBool,
    errors: AtomicU64,
    expiries: AtomicU64,
    last_event: Mutex<Instant>,
    /// Highest resourceVersion that the watch has delivered.
    highest: AtomicU64,
    /// Highest resourceVersion in the response to a write.
    written: AtomicU64,
    error: Mutex<Option<(WatchFailure, String)>>,
    malformed: Mutex<Malformed>,
}

impl Default for WatchStatus {
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

impl WatchStatus {
    /// Records the resourceVersion in the response to a write; the watch may deliver it later. A server restored to a
    /// state before this version is older than the known state, even if it has all that the watch has delivered.
    pub fn note_written(&self, version: &str) {
        let version = version.parse().unwrap_or(0);
        self.written.fetch_max(version, Ordering::Relaxed);
    }

    /// True if a complete list has been read.
    pub fn synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// True if the server rejects the watch for lack of permission.
    pub fn forbidden(&self) -> bool {
        self.forbidden.load(Ordering::Relaxed)
    }

    /// Number of times the watch failed and restarted, for any cause.
    pub fn restarts(&self) -> u64 {
        self.restarts_by_cause().iter().map(|(_, count)| count).sum()
    }

    /// Number of restarts by cause: `gone` if the server no longer had the version (410), else `error`.
    pub fn restarts_by_cause(&self) -> [(&'static str, u64); 2] {
        [
            ("gone", self.expiries.load(Ordering::Relaxed)),
            ("error", self.errors.load(Ordering::Relaxed)),
        ]
    }

    /// Records that the server has answered; true if the watch had failed before.
    fn goes_on(&self) -> bool {
        self.error.lock().take().is_some()
    }

    /// Records a failure; true if its cause differs from the previous one.
    fn fails(&self, cause: WatchFailure, text: String) -> bool {
        let counter = if cause == WatchFailure::Gone {
            &self.expiries
        } else {
            &self.errors
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let before = self.error.lock().replace((cause, text));
        before.is_none_or(|(known, _)| known != cause)
    }

    /// Number of objects that could not be read in full.
    pub fn malformed(&self) -> usize {
        self.malformed.lock().count()
    }

    /// Time since the last event; since the start of the watch if no event has arrived.
    pub fn idle_time(&self) -> Duration {
        self.last_event.lock().elapsed()
    }

    /// The operator's next step after the last error, until the watch recovers; `None` for failures of normal operation.
    pub fn next_step(&self, plane: &Plane) -> Option<String> {
        let error = self.error.lock();
        error.as_ref().and_then(|(failure, _)| failure.next_step(plane))
    }

    /// The cause of the last error in a word, until the watch recovers.
    pub fn cause(&self) -> Option<&'static str> {
        self.error.lock().as_ref().map(|(failure, _)| failure.as_str())
    }

    /// True if there is an error from which the watch has not recovered.
    pub fn is_failing(&self) -> bool {
        self.error.lock().is_some()
    }

    /// The last error, until the watch recovers.
    pub fn error(&self) -> Option<String> {
        self.error.lock().as_ref().map(|(_, text)| text.clone())
    }
}

/// A 403 is reported only after it has lasted this long: an API server that has just started rejects every user until
/// it has read its roles.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of objects in one page of a list of small objects: small pages keep the memory peak of a re-list low,
/// because thousands of projects may be listed at a time.
pub const SMALL_OBJECTS: u32 = 50;
/// Maximum page size on the hub: there is only one hub, and it has the objects of all projects.
pub const HUB_OBJECTS: u32 = 500;
/// Maximum page size for objects of up to 1 MiB each.
pub const LARGE_OBJECTS: u32 = 10;

/// Watches until the future is dropped. `sink` must not block: an unread watch stalls its neighbours on the connection.
/// The watches of one plane share `health`: while the plane is down, one of them probes in turn, and all resume once it
/// answers. `on_rights` reports a change of permission (true: forbidden) once the change has lasted.
pub async fn run(
    plane: &Plane,
    client: Arc<PlaneClient>,
    selection: &WatchSpec,
    status: &WatchStatus,
    health: &Arc<PlaneHealth>,
    sink: impl Fn(WatchEvent),
    on_rights: impl Fn(bool),
) {
    let mut watch = Watch {
        member: client.host().join(plane, &selection.resource.kind),
        status,
        health,
        line: WatchSession::new(health.clone()),
        sink,
        on_rights,
        trouble: WatchBackoff::none((plane, &selection.resource.kind)),
        may_be_absent: selection.may_be_absent,
    };
    let timeout = watch_timeout(plane, &selection.resource.kind);
    let line = watch.line.clone();
    line.hold(async {
        let mut follower = ListWatch::new(client, selection, timeout, status);
        loop {
            watch.follow(&mut follower).await;
            follower.relist();
        }
    })
    .await;
}

struct Watch<'a, S, R> {
    member: Member<'a>,
    status: &'a WatchStatus,
    health: &'a Arc<PlaneHealth>,
    line: Arc<WatchSession>,
    sink: S,
    on_rights: R,
    trouble: WatchBackoff,
    may_be_absent: bool,
}

impl<S: Fn(WatchEvent), R: Fn(bool)> Watch<'_, S, R> {
    /// Delivers the events of one list and watch until the watch has lost its position.
    async fn follow(&mut self, events: &mut ListWatch<'_>) {
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
            let highest = self.status.highest.fetch_max(events.version(), Ordering::Relaxed);
            match event {
                // The lists are quorum reads: no server returns a list older than the events delivered before. Nothing
                // of this list has been delivered yet.
                Some(Ok(watcher::Event::InitApply(_) | watcher::Event::InitDone))
                    if events.version() < highest =>
                {
                    self.status.highest.store(0, Ordering::Relaxed);
                    return (self.sink)(WatchEvent::Rewound);
                }
                Some(Ok(event)) => self.event(event),
                Some(Err(error)) => {
                    let cause = WatchFailure::of(&error);
                    self.fails(cause, &error).await;
                    if cause.needs_list() {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    fn event(&mut self, event: watcher::Event<LenientObject>) {
        // A list has only been requested; it is not known yet if the server answers.
        if matches!(event, watcher::Event::Init) {
            self.status.malformed.lock().begin_list();
            return (self.sink)(WatchEvent::Init);
        }
        *self.status.last_event.lock() = Instant::now();
        self.answered();
        let event = match event {
            watcher::Event::Init => None,
            watcher::Event::InitApply(object) => self.named(object).map(WatchEvent::InitApply),
            watcher::Event::InitDone => {
                self.status.malformed.lock().end_list();
                self.status.synced.store(true, Ordering::Relaxed);
                Some(WatchEvent::InitDone)
            }
            watcher::Event::Apply(object) => self.named(object).map(WatchEvent::Apply),
            watcher::Event::Delete(object) => {
                let last = self.named(object);
                if let Some(DynamicObject { metadata, .. }) = last.as_deref() {
                    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
                    let mut malformed = self.status.malformed.lock();
                    malformed.record_readable(namespace.unwrap_or_default(), name.unwrap_or_default());
                }
                last.map(WatchEvent::Delete)
            }
        };
        if let Some(event) = event {
            (self.sink)(event);
        }
    }

    /// The object, unless it has no name: without a name it cannot be reconciled. Reports fields that could not be read.
    fn named(&self, read: LenientObject) -> Option<Box<DynamicObject>> {
        let LenientObject {
            object,
            malformed_fields: faults,
        } = read;
        let (namespace, name) = (
            object.metadata.namespace.as_deref(),
            object.metadata.name.as_deref(),
        );
        let mut malformed = self.status.malformed.lock();
        if faults.is_empty() && name.is_some() {
            malformed.record_readable(namespace.unwrap_or_default(), name.unwrap_or_default());
        } else if malformed.record_malformed(namespace.unwrap_or_default(), name.unwrap_or_default()) {
            tracing::warn!(
                plane = %self.member.plane,
                kind = self.member.kind,
                namespace,
                name,
                fields = faults.join(", "),
                "an object has fields that cannot be parsed and count as absent; correct the object, or ask the operator of its API server"
            );
        }
        name.is_some().then(|| Box::new(object))
    }

    /// Records that the server has answered.
    fn answered(&mut self) {
        self.health.success();
        if self.status.goes_on() {
            self.member.goes_on();
            (self.sink)(WatchEvent::Resumed);
        }
        if self.status.forbidden.swap(false, Ordering::Relaxed) {
            (self.on_rights)(false);
        }
        if self.trouble.ends() {
            self.health.notify_recovered();
        }
    }

    /// Records and reports the failure, then waits before the next attempt.
    async fn fails(&mut self, cause: WatchFailure, error: &watcher::Error) {
        let text = error.to_string();
        let is_new = self.status.fails(cause, text.clone());
        (self.sink)(WatchEvent::Failed);
        if is_new {
            self.member.fails(FailureLine {
                error: text,
                what: cause.what(),
                next: cause.next_step(self.member.plane),
                extent: match cause.of_plane() {
                    PlaneImpact::Away(Unreachable::Silent) => Extent::Silent,
                    _ if cause == WatchFailure::Throttled => Extent::Throttling,
                    _ => Extent::Own,
                },
            });
        }
        if self.trouble.refused_for(cause, self.may_be_absent) >= Some(REFUSAL_PATIENCE)
            && !self.status.forbidden.swap(true, Ordering::Relaxed)
        {
            (self.on_rights)(true);
        }
        let (asked, answers) = self.line.fails();
        if answers && matches!(error, watcher::Error::WatchStartFailed(_)) {
            // The plane is not away, and its answers to other requests end no wait: it opens no watch of this kind.
            return tokio::time::sleep(self.trouble.delay(false)).await;
        }
        let asked = match error {
            watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_) => asked,
            _ => Instant::now(),
        };
        let away = match cause.of_plane() {
            PlaneImpact::Away(silence) => self.health.failure(asked, silence),
            PlaneImpact::Well => {
                self.health.success();
                false
            }
            PlaneImpact::Unsaid => false,
        };
        let delay = self.trouble.delay(away);
        tokio::select! {
            biased;
            () = tokio::time::sleep(delay) => {}
            () = self.health.recovered() => {}
        }
        self.line.turn().await;
    }
}

/// Between 240 and 290 s, so that the watches of many planes do not all restart at once.
fn watch_timeout(plane: &Plane, kind: &str) -> u32 {
    let spread = Duration::from_secs(50).mul_f64(Random::fraction((plane, kind)));
    240 + u32::try_from(spread.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
