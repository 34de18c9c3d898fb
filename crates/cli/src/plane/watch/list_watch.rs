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
    channel::mpsc::{UnboundedSender, unbounded},
    future::ready,
    stream,
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
    let (events, sent) = unbounded();
    let watch = ListWatch {
        request: Request::new(kind.path(Some(&plane.namespace))),
        plane,
        kind,
        params,
        delays: delays(),
        events,
    };
    // Requests are sent only while somebody waits for their events.
    let work = stream::once(watch.run()).filter_map(|()| ready(None));
    stream::select(sent, work)
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
    delays: ExponentialBackoff,
    events: UnboundedSender<Event>,
}

impl ListWatch {
    /// Lists and watches until no further request makes sense.
    async fn run(mut self) {
        let mut known = Ok(None);
        loop {
            known = match known {
                Ok(None) => self.list().await,
                Ok(Some(version)) => self.watch(version).await,
                Err(error) => return self.send(Event::Ended(error)),
            };
        }
    }

    fn send(&self, event: Event) {
        // The receiver is polled together with this future.
        let _ = self.events.unbounded_send(event);
    }

    async fn pause(&mut self) {
        if let Some(delay) = self.delays.next() {
            tokio::time::sleep(delay).await;
        }
    }

    /// Lists the objects; returns the version up to which everything is known.
    async fn list(&mut self) -> Result<Option<String>, Error> {
        let asked = self.plane.asked("list", self.kind, "");
        match self.plane.pages(&asked, false, self.params.clone()).await {
            Ok(List { objects, version }) => {
                self.send(Event::Listed(objects));
                Ok(Some(version))
            }
            Err(error) => self.failed(&error, "list").await.map(|()| None),
        }
    }

    /// Watches from a version on; returns the version up to which everything is known, `None` if another list has to follow.
    async fn watch(&mut self, mut version: String) -> Result<Option<String>, Error> {
        let params = WatchParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            timeout: Some(WATCH_TIME),
            bookmarks: true,
            send_initial_events: false,
        };
        let request = async {
            let request = self.request.watch(&params, &version);
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.plane.client.request_events::<Value>(request).await
        };
        let mut events = match self.plane.bounded(request).await {
            Ok(events) => events.boxed(),
            Err(error) => {
                self.failed(&error, "watch").await?;
                return Ok(Some(version).filter(|_| !is_gone(&error)));
            }
        };
        self.send(Event::Opened);
        let opened = Instant::now();
        let failure = loop {
            let (object, is_deleted) = match tokio::time::timeout(IDLE, events.next()).await {
                Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => (object, false),
                Ok(Some(Ok(WatchEvent::Deleted(object)))) => (object, true),
                Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                    self.delays = delays();
                    version = bookmark.metadata.resource_version;
                    self.send(Event::Contact);
                    continue;
                }
                Ok(Some(Ok(WatchEvent::Error(status)))) => break Some(kube::Error::Api(status)),
                Ok(Some(Err(error))) => break Some(error),
                Ok(None) | Err(_) => break None,
            };
            self.delays = delays();
            let object = self.kind.typed(object);
            let latest = object.text("/metadata/resourceVersion");
            if !latest.is_empty() {
                latest.clone_into(&mut version);
            }
            self.send(if is_deleted {
                Event::Deleted(object.name().to_owned())
            } else {
                Event::Applied(object)
            });
        };
        let is_known = matches!(failure, None | Some(kube::Error::ReadEvents(_)));
        let has_lasted = opened.elapsed() >= RESET_AFTER;
        if is_known && has_lasted {
            self.delays = delays();
        }
        if let Some(error) = failure {
            self.failed(&error, "watch").await?;
        } else {
            self.send(Event::Closed);
            if !has_lasted {
                self.pause().await;
            }
        }
        Ok(Some(version).filter(|_| is_known))
    }

    /// Reports a failed request, and waits before it is sent again. An error if that makes no sense.
    async fn failed(&mut self, error: &kube::Error, verb: &str) -> Result<(), Error> {
        if verb == "watch" && is_gone(error) {
            self.send(Event::Closed);
        } else {
            // An answer that was cut off may be whole the next time.
            let is_undecodable = matches!(error, kube::Error::SerdeError(error) if !error.is_eof());
            let error = self.plane.error(error, &self.plane.asked(verb, self.kind, ""));
            if is_undecodable || matches!(error.kind, Kind::Forbidden | Kind::NotServed | Kind::NotFound) {
                return Err(error);
            }
            self.send(Event::Failed(error));
        }
        self.pause().await;
        Ok(())
    }
}

/// True if the server no longer has the version from which it was to watch.
fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == GONE)
}
