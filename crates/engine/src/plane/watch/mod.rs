//! One watch with bounded backoff, whose events go to a sink that never blocks. `list_watch` sends the requests, reads the
//! answers and resumes at its position after any error; this module decides the consequence of an error.

mod failure;
mod line_decoder;
mod list_watch;
mod malformed;
mod pages;
mod supervise;

use super::{
    client::PlaneClient,
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
use kube::{
    Resource,
    core::{ApiResource, DynamicObject},
};
use kube_runtime::watcher;
use list_watch::Doubt;
use malformed::Malformed;
use pages::Pages;
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
#[derive(Debug, Default)]
pub struct WatchStatus {
    synced: AtomicBool,
    forbidden: AtomicBool,
    restarts: AtomicU64,
    /// Time of the last event, or of the start of the watch.
    last_event: Mutex<Option<Instant>>,
    /// Highest resourceVersion that the watch has delivered.
    highest: AtomicU64,
    /// Highest resourceVersion in the response to a write.
    written: AtomicU64,
    error: Mutex<Option<(WatchFailure, String)>>,
    malformed: Mutex<Malformed>,
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
        self.restarts.load(Ordering::Relaxed)
    }

    /// Why the watch restarts last: `gone` if the server no longer had the version (410), else `error`.
    pub fn restart_cause(&self) -> &'static str {
        match &*self.error.lock() {
            Some((WatchFailure::Gone, _)) => "gone",
            _ => "error",
        }
    }

    /// Records that the server has answered; true if the watch had failed before.
    fn goes_on(&self) -> bool {
        self.error.lock().take().is_some()
    }

    /// Records a failure; true if its cause differs from the previous one.
    fn fails(&self, cause: WatchFailure, text: String) -> bool {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        let before = self.error.lock().replace((cause, text));
        before.is_none_or(|(known, _)| known != cause)
    }

    /// Number of objects that could not be read in full.
    pub fn malformed(&self) -> usize {
        self.malformed.lock().count()
    }

    /// Time since the last event; since the start of the watch if no event has arrived.
    pub fn idle_time(&self) -> Duration {
        self.last_event.lock().map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// The last error, its cause in a word, and the operator's next step (`None` for failures of normal operation), until the
    /// watch recovers.
    pub fn failure(&self, plane: &Plane) -> Option<(String, &'static str, Option<String>)> {
        let error = self.error.lock();
        let (failure, text) = error.as_ref()?;
        Some((text.clone(), failure.as_str(), failure.next_step(plane)))
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
    spec: &WatchSpec,
    status: &WatchStatus,
    health: &Arc<PlaneHealth>,
    sink: impl Fn(WatchEvent),
    on_rights: impl Fn(bool),
) {
    let kind = &spec.resource.kind;
    status.last_event.lock().get_or_insert_with(Instant::now);
    let mut watch = Watch {
        member: client.host().join(plane, kind),
        pages: Pages::new(spec.page, client.page_bytes()),
        path: DynamicObject::url_path(&spec.resource, spec.namespace.as_deref()),
        timeout: watch_timeout(plane, kind),
        trouble: WatchBackoff::none((plane, kind)),
        spec,
        client,
        status,
        health,
        sink,
        on_rights,
        version: 0,
        doubt: Doubt::None,
        asked: Instant::now(),
        opened: None,
        short: 0,
        has_turn: false,
        answers: false,
    };
    watch.follow().await;
}

struct Watch<'a, S, R> {
    member: Member<'a>,
    spec: &'a WatchSpec,
    client: Arc<PlaneClient>,
    status: &'a WatchStatus,
    health: &'a Arc<PlaneHealth>,
    sink: S,
    on_rights: R,
    trouble: WatchBackoff,
    path: String,
    /// Timeout requested from the server for a watch, in seconds.
    timeout: u32,
    pages: Pages,
    /// Version up to which all events have been delivered; while a list is read, the version of the list.
    version: u64,
    doubt: Doubt,
    /// Time of the last request.
    asked: Instant,
    /// Time at which the server opened the watch; `None` if the last request was not a watch or the watch has failed.
    opened: Option<Instant>,
    /// Number of consecutive watches that ended early.
    short: u32,
    /// True if the watch has already waited for the probe turn of its next request.
    has_turn: bool,
    /// True if the plane has answered a request of this watch other than to open it since it was open or has failed.
    answers: bool,
}

impl<S: Fn(WatchEvent), R: Fn(bool)> Watch<'_, S, R> {
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

    /// Records a page or an event.
    fn heard(&mut self) {
        *self.status.last_event.lock() = Some(Instant::now());
        self.answered();
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

    /// Records and reports the failure, then waits before the next attempt. False if the watch has lost its position, so that
    /// only a new list shows the current objects.
    async fn fails(&mut self, error: &watcher::Error) -> bool {
        let cause = WatchFailure::of(error);
        let impact = cause.of_plane();
        let doubt = match impact {
            PlaneImpact::Away(Unreachable::Silent) => Doubt::First,
            PlaneImpact::Away(Unreachable::Failing) => Doubt::OnceOpen,
            PlaneImpact::Well | PlaneImpact::Unsaid => Doubt::None,
        };
        self.doubt = self.doubt.max(doubt);
        let text = error.to_string();
        let is_new = self.status.fails(cause, text.clone());
        (self.sink)(WatchEvent::Failed);
        if is_new {
            self.member.fails(FailureLine {
                error: text,
                what: cause.what(),
                next: cause.next_step(self.member.plane),
                extent: match impact {
                    PlaneImpact::Away(Unreachable::Silent) => Extent::Silent,
                    _ if cause == WatchFailure::Throttled => Extent::Throttling,
                    _ => Extent::Own,
                },
            });
        }
        if self.trouble.refused_for(cause, self.spec.may_be_absent) >= Some(REFUSAL_PATIENCE)
            && !self.status.forbidden.swap(true, Ordering::Relaxed)
        {
            (self.on_rights)(true);
        }
        self.opened = None;
        if std::mem::take(&mut self.answers) && matches!(error, watcher::Error::WatchStartFailed(_)) {
            // The plane is not away, and its answers to other requests end no wait: it opens no watch of this kind.
            tokio::time::sleep(self.trouble.delay(false)).await;
            return !cause.needs_list();
        }
        let asked = match error {
            watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_) => self.asked,
            _ => Instant::now(),
        };
        let away = match impact {
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
        self.health.probe_turn().await;
        self.has_turn = true;
        !cause.needs_list()
    }
}

/// Between 240 and 290 s, so that the watches of many planes do not all restart at once.
fn watch_timeout(plane: &Plane, kind: &str) -> u32 {
    let spread = Duration::from_secs(50).mul_f64(Random::fraction((plane, kind)));
    240 + u32::try_from(spread.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
