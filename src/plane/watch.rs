//! One watch: a kube-runtime `watcher` with bounded back-off, whose events go to a sink that never waits.

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, watcher},
    },
};
use parking_lot::Mutex;
use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

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
    /// An object was deleted; its last state.
    Deleted(Box<DynamicObject>),
}

/// What is watched.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The kind.
    pub resource: ApiResource,
    /// Only objects with these labels.
    pub labels: Option<String>,
}

/// The state of a watch, for readiness, metrics and `/debug/planes`.
#[derive(Debug)]
pub struct Health {
    synced: AtomicBool,
    forbidden: AtomicBool,
    errors: AtomicU64,
    expiries: AtomicU64,
    last_event: Mutex<Instant>,
    error: Mutex<Option<String>>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            synced: AtomicBool::new(false),
            forbidden: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            expiries: AtomicU64::new(0),
            last_event: Mutex::new(Instant::now()),
            error: Mutex::default(),
        }
    }
}

impl Health {
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

    /// How long ago the last event came; since the watch was begun if none has.
    pub fn silence(&self) -> Duration {
        self.last_event.lock().elapsed()
    }

    /// The last error, as long as it lasts.
    pub fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }
}

/// Objects in one page of a list: small pages keep the peak of a re-list low.
const PAGE_SIZE: u32 = 100;

/// Watches until the future is dropped. `sink` must not wait: a watch that nobody reads stalls its neighbours.
/// A change of rights (from or to "forbidden") is told through `on_rights`.
pub async fn run(
    client: Client,
    selection: &Selection,
    health: &Health,
    sink: impl Fn(Event),
    on_rights: impl Fn(bool),
) {
    let api: Api<DynamicObject> = Api::all_with(client, &selection.resource);
    let mut config = watcher::Config::default()
        .page_size(PAGE_SIZE)
        .timeout(watch_timeout());
    if let Some(labels) = &selection.labels {
        config = config.labels(labels);
    }
    let mut stream = std::pin::pin!(watcher(api, config).backoff(Delays::default()).into_stream());
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                if health.forbidden.swap(false, Ordering::Relaxed) {
                    on_rights(false);
                }
                *health.error.lock() = None;
                *health.last_event.lock() = Instant::now();
                match event {
                    watcher::Event::Init => sink(Event::Began),
                    watcher::Event::InitApply(object) => sink(Event::Listed(Box::new(object))),
                    watcher::Event::InitDone => {
                        health.synced.store(true, Ordering::Relaxed);
                        sink(Event::Complete);
                    }
                    watcher::Event::Apply(object) => sink(Event::Applied(Box::new(object))),
                    watcher::Event::Delete(object) => sink(Event::Deleted(Box::new(object))),
                }
            }
            Err(error) => {
                let text = error.to_string();
                let mut last = health.error.lock();
                if last.as_ref() != Some(&text) {
                    tracing::warn!(
                        kind = selection.resource.kind,
                        error = text,
                        "watch failed; it is tried again"
                    );
                }
                *last = Some(text);
                drop(last);
                let counter = if is_status(&error, 410) {
                    &health.expiries
                } else {
                    &health.errors
                };
                counter.fetch_add(1, Ordering::Relaxed);
                if is_status(&error, 403) && !health.forbidden.swap(true, Ordering::Relaxed) {
                    on_rights(true);
                }
            }
        }
    }
}

/// Whether the server answered with this code, at the request or within the stream.
fn is_status(error: &watcher::Error, code: u16) -> bool {
    let inner = match error {
        watcher::Error::InitialListFailed(e)
        | watcher::Error::WatchStartFailed(e)
        | watcher::Error::WatchFailed(e) => e,
        watcher::Error::WatchError(status) => return status.code == code,
        watcher::Error::NoResourceVersion => return false,
    };
    matches!(inner, kube::Error::Api(status) if status.code == code)
}

/// Between 240 and 290 s, so that the watches of many planes do not all begin anew at once.
fn watch_timeout() -> u32 {
    240 + u32::try_from(RandomState::new().hash_one(()) % 50).unwrap_or(0)
}

/// 200 ms doubling to 10 s, each with up to half of it as jitter; begins anew after a minute without an error.
#[derive(Debug, Default)]
struct Delays {
    failures: u32,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let base = Duration::from_millis(200)
            .saturating_mul(1 << self.failures.min(6))
            .min(Duration::from_secs(10));
        self.failures += 1;
        let jitter = u32::try_from(RandomState::new().hash_one(self.failures) % 128).unwrap_or(0);
        Some(base / 2 + base.mul_f64(f64::from(jitter) / 256.0))
    }
}

impl Backoff for Delays {
    fn reset(&mut self) {
        self.failures = 0;
    }
}
