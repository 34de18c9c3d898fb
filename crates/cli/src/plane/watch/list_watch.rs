//! The events of one kind: list, then watch, resumed after each interruption.
//!
//! kube-runtime's watcher does not report that a watch has begun, so a quiet watch and a lost connection look the same there,
//! and it asks again from a version that is gone.

use crate::{
    error::{Error, Kind},
    plane::{
        Plane, Resource,
        requests::{GONE, List},
    },
    view::Object,
};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::api::{ListParams, Request, WatchEvent, WatchParams};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which the server ends a watch, in seconds.
const WATCH_TIME: u32 = 290;

/// Time without a line after which a watch is taken for broken: the server should have ended it five seconds before.
const IDLE: Duration = Duration::from_secs(295);

/// A watch that has lasted for this long was no failure.
const RESET_AFTER: Duration = Duration::from_secs(30);

/// Bounds of the delay before a failed request is sent again; jitter doubles it at most.
const DELAYS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// An event of a kind.
#[derive(Debug)]
pub(super) enum Event {
    /// The server has answered.
    Contact,
    /// All objects were listed.
    Listed(Vec<Object>),
    /// A watch has begun.
    Opened,
    /// An object is new or has changed.
    Applied(Object),
    /// An object of this name is gone.
    Deleted(String),
    /// The watch has ended, and begins again.
    Closed,
    /// A request has failed, and is sent again.
    Failed(Error),
    /// No further request makes sense. This event is the last.
    Ended(Error),
}

/// The events of the objects of a kind that the parameters select.
pub(super) fn list_watch(
    plane: Plane,
    kind: Resource,
    params: ListParams,
) -> impl Stream<Item = Event> + Send + use<> {
    let watch = ListWatch {
        request: Request::new(kind.path(Some(&plane.namespace))),
        plane,
        kind,
        params,
        state: State::Empty,
        delays: delays(),
        delay: None,
    };
    stream::unfold(watch, |mut watch| async move {
        let event = watch.step().await?;
        Some((event, watch))
    })
}

fn delays() -> ExponentialBackoff {
    let delays = ExponentialBuilder::default()
        .with_min_delay(DELAYS.0)
        .with_max_delay(DELAYS.1);
    delays.without_max_times().with_jitter().build()
}

struct ListWatch {
    plane: Plane,
    kind: Resource,
    request: Request,
    params: ListParams,
    state: State,
    delays: ExponentialBackoff,
    /// Time to wait before the next request.
    delay: Option<Duration>,
}

enum State {
    /// Nothing is known.
    Empty,
    /// Everything up to this version is known.
    Listed(String),
    /// A watch is open.
    Watching(Watch),
    /// No further request makes sense.
    Ended,
}

struct Watch {
    events: BoxStream<'static, kube::Result<WatchEvent<Value>>>,
    /// Everything up to this version is known.
    version: String,
    opened: Instant,
}

impl ListWatch {
    /// The next event; `None` after the last.
    async fn step(&mut self) -> Option<Event> {
        if let Some(delay) = self.delay.take() {
            tokio::time::sleep(delay).await;
        }
        match std::mem::replace(&mut self.state, State::Empty) {
            State::Empty => Some(self.list().await),
            State::Listed(version) => Some(self.open(version).await),
            State::Watching(watch) => Some(self.read(watch).await),
            State::Ended => None,
        }
    }

    async fn list(&mut self) -> Event {
        let asked = self.plane.asked("list", self.kind, "");
        match self.plane.pages(&asked, false, self.params.clone()).await {
            Ok(List { objects, version }) => {
                self.state = State::Listed(version);
                Event::Listed(objects)
            }
            Err(error) => self.failed(&error, "list"),
        }
    }

    async fn open(&mut self, version: String) -> Event {
        let params = WatchParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            timeout: Some(WATCH_TIME),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = async {
            let request = self
                .request
                .watch(&params, &version)
                .map_err(kube::Error::BuildRequest)?;
            self.plane.client.request_events::<Value>(request).await
        };
        match self.plane.bounded(request).await {
            Ok(events) => {
                self.state = State::Watching(Watch {
                    events: events.boxed(),
                    version,
                    opened: Instant::now(),
                });
                Event::Opened
            }
            Err(error) => {
                self.state = State::Listed(version);
                self.failed(&error, "watch")
            }
        }
    }

    async fn read(&mut self, mut watch: Watch) -> Event {
        let (object, is_deleted) = match tokio::time::timeout(IDLE, watch.events.next()).await {
            Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => (object, false),
            Ok(Some(Ok(WatchEvent::Deleted(object)))) => (object, true),
            Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                self.delays = delays();
                watch.version = bookmark.metadata.resource_version;
                self.state = State::Watching(watch);
                return Event::Contact;
            }
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                return self.failed(&kube::Error::Api(status), "watch");
            }
            Ok(Some(Err(error))) => {
                if matches!(error, kube::Error::ReadEvents(_)) {
                    self.reset_backoff(&watch);
                    self.state = State::Listed(watch.version);
                }
                return self.failed(&error, "watch");
            }
            Ok(None) | Err(_) => {
                if !self.reset_backoff(&watch) {
                    self.delay = self.delays.next();
                }
                self.state = State::Listed(watch.version);
                return Event::Closed;
            }
        };
        self.delays = delays();
        let object = self.kind.typed(object);
        let version = object.text("/metadata/resourceVersion");
        if !version.is_empty() {
            version.clone_into(&mut watch.version);
        }
        self.state = State::Watching(watch);
        if is_deleted {
            Event::Deleted(object.name().to_owned())
        } else {
            Event::Applied(object)
        }
    }

    /// Resets the backoff if the watch has lasted for a while; true if it has.
    fn reset_backoff(&mut self, watch: &Watch) -> bool {
        let has_lasted = watch.opened.elapsed() >= RESET_AFTER;
        if has_lasted {
            self.delays = delays();
        }
        has_lasted
    }

    /// Sends a failed request again after a while, unless that makes no sense.
    fn failed(&mut self, error: &kube::Error, verb: &str) -> Event {
        if verb == "watch" && matches!(error, kube::Error::Api(status) if status.code == GONE) {
            // The version is gone: everything is listed again.
            self.state = State::Empty;
            self.delay = self.delays.next();
            return Event::Closed;
        }
        // An answer that was cut off may be whole the next time.
        let is_undecodable = matches!(error, kube::Error::SerdeError(error) if !error.is_eof());
        let error = self.plane.error(error, &self.plane.asked(verb, self.kind, ""));
        if is_undecodable || matches!(error.kind, Kind::Forbidden | Kind::NotServed | Kind::NotFound) {
            self.state = State::Ended;
            return Event::Ended(error);
        }
        self.delay = self.delays.next();
        Event::Failed(error)
    }
}
