//! One watch: a kube-runtime `watcher` with bounded back-off of its own (the watcher tells of a list that it is only about
//! to ask for, which kube-runtime's would take for a success), whose events go to a sink that never waits.

use futures::StreamExt;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
    runtime::watcher::{self, watcher},
};
use parking_lot::Mutex;
use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

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

    fn well(&self) {
        *self.error.lock() = None;
        *self.last_event.lock() = Instant::now();
    }

    fn fails(&self, kind: &str, error: &watcher::Error) {
        let counter = if is_status(error, 410) {
            &self.expiries
        } else {
            &self.errors
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        let mut last = self.error.lock();
        if last.as_ref() != Some(&text) {
            tracing::warn!(kind, error = text, "watch failed; it is tried again");
        }
        *last = Some(text);
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

/// A refusal for want of rights must have lasted this long: an API server that has only just started refuses everyone
/// until it has read its roles.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);

/// Objects in one page of a list: small pages keep the peak of a re-list low.
const PAGE_SIZE: u32 = 100;

const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// After this time without an error the next one counts as the first.
const CALM: Duration = Duration::from_mins(1);

/// Watches until the future is dropped. `sink` must not wait: a watch that nobody reads stalls its neighbours.
/// Of the watches of one plane that fail, all try again as soon as one of them is answered: they share `revival`.
/// A change of rights (from or to "forbidden") is told through `on_rights` once it has proved to last.
pub async fn run(
    client: Client,
    selection: &Selection,
    health: &Health,
    revival: &Notify,
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
    let mut stream = std::pin::pin!(watcher(api, config));
    let mut trouble: Option<Trouble> = None;
    while let Some(event) = stream.next().await {
        match event {
            // A list is only being asked for; whether the server answers is not known yet.
            Ok(watcher::Event::Init) => sink(Event::Began),
            Ok(event) => {
                health.well();
                if health.forbidden.swap(false, Ordering::Relaxed) {
                    on_rights(false);
                }
                if trouble.as_mut().is_some_and(Trouble::ends) {
                    revival.notify_waiters();
                }
                match event {
                    watcher::Event::Init => {}
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
                health.fails(&selection.resource.kind, &error);
                let trouble = trouble.get_or_insert_default();
                if trouble.refused_for(&error) >= Some(REFUSAL_PATIENCE)
                    && !health.forbidden.swap(true, Ordering::Relaxed)
                {
                    on_rights(true);
                }
                let delay = trouble.delay();
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    () = revival.notified() => {}
                }
            }
        }
    }
}

/// What goes wrong with a watch, for as long as it does.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    lasts: bool,
    last: Option<Instant>,
    refused_since: Option<Instant>,
}

impl Trouble {
    /// Since when the server has refused the watch for want of rights and nothing else.
    fn refused_for(&mut self, error: &watcher::Error) -> Option<Duration> {
        if !is_status(error, 403) {
            self.refused_since = None;
            return None;
        }
        Some(self.refused_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// How long to wait: 200 ms doubling to 10 s, each with up to half of it as jitter; anew after a minute without an
    /// error.
    fn delay(&mut self) -> Duration {
        if self.last.is_some_and(|last| last.elapsed() > CALM) {
            self.failures = 0;
        }
        let base = FIRST_DELAY
            .saturating_mul(1 << self.failures.min(6))
            .min(LONGEST_DELAY);
        self.failures += 1;
        self.lasts = true;
        self.last = Some(Instant::now());
        let jitter = u32::try_from(RandomState::new().hash_one(self.failures) % 128).unwrap_or(0);
        base / 2 + base.mul_f64(f64::from(jitter) / 256.0)
    }

    /// The server has answered; whether it had failed before.
    fn ends(&mut self) -> bool {
        self.refused_since = None;
        std::mem::take(&mut self.lasts)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> watcher::Error {
        let status = kube::core::Status::failure("no", "Forbidden").with_code(403);
        watcher::Error::WatchError(Box::new(status))
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_while_it_fails_and_begin_anew_after_a_calm_minute() {
        let mut trouble = Trouble::default();
        let delays: Vec<Duration> = (0..12).map(|_| trouble.delay()).collect();
        assert!(
            delays[0] <= FIRST_DELAY && delays[11] <= LONGEST_DELAY,
            "{delays:?}"
        );
        assert!(delays[11] >= LONGEST_DELAY / 2, "{delays:?}");
        assert!(trouble.ends() && !trouble.ends(), "it ends once");
        assert!(trouble.delay() >= LONGEST_DELAY / 2, "an answer alone is no calm");
        tokio::time::advance(CALM + Duration::from_secs(1)).await;
        assert!(trouble.delay() <= FIRST_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_from_the_first_one_in_a_row() {
        let mut trouble = Trouble::default();
        assert_eq!(trouble.refused_for(&refused()), Some(Duration::ZERO));
        tokio::time::advance(REFUSAL_PATIENCE).await;
        assert_eq!(trouble.refused_for(&refused()), Some(REFUSAL_PATIENCE));
        assert_eq!(trouble.refused_for(&watcher::Error::NoResourceVersion), None);
        assert_eq!(trouble.refused_for(&refused()), Some(Duration::ZERO));
    }
}
