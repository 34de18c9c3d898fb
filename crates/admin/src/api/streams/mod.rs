//! Event streams (contract: operations.md §2.8). One task asks the role once a second while a stream is open; its rows are
//! serialized once, and each stream reads them at its own pace.

mod collector;
mod log;
mod reader;

use super::{
    ANSWER_WITHIN, Refusal, User,
    topics::{Part, Selection},
};
use axum::{
    body::Body,
    http::header,
    response::{IntoResponse, Response},
};
use collector::{Begun, Watched};
use fedgate_engine::metrics::{Family, Metrics};
use fedgate_operations::{ErrorCode, OperationsSource};
use log::Log;
use parking_lot::Mutex;
use reader::Reader;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior},
};

/// Interval of deltas.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of streams.
const STREAMS: usize = 32;
/// Maximum number of streams of one user of the hub.
const OF_USER: usize = 4;
/// Media type of a stream.
pub const STREAM: &str = "text/event-stream";
/// Age of the oldest delta that a stream has not read, at which the stream ends.
const BEHIND: Duration = Duration::from_secs(5);

/// Ends the connection of a request. A stream whose reader does not read cannot end otherwise: the connection waits for
/// its reader.
#[derive(Debug, Clone, Default)]
pub struct HangUp(Arc<Notify>);

impl HangUp {
    /// Returns when the connection is to end.
    pub async fn wanted(&self) {
        self.0.notified().await;
    }

    fn now(&self) {
        self.0.notify_one();
    }
}

/// An open stream.
pub(super) struct Open {
    selection: Selection,
    /// Number of the last delta that it has read.
    read: u64,
    since: Instant,
    user: Option<User>,
    hang_up: HangUp,
}

impl Open {
    /// A stream that opens.
    pub(super) fn new(selection: Selection, user: Option<User>, hang_up: HangUp) -> Self {
        Self {
            selection,
            read: 0,
            since: Instant::now(),
            user,
            hang_up,
        }
    }
}

/// The streams of the process.
#[derive(Clone)]
pub(super) struct Streams(Arc<Shared>);

struct Shared {
    process: String,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// Changed when there is a new delta, or a stream has ended.
    news: watch::Sender<()>,
    /// Held while a stream opens, and while the role is asked: a stream misses nothing between its first position and the
    /// next delta.
    collecting: tokio::sync::Mutex<BTreeMap<Part, Watched>>,
}

#[derive(Default)]
struct State {
    log: Log,
    open: BTreeMap<u64, Open>,
    /// Number of streams since the start.
    opened: u64,
    runs: bool,
}

fn failed(error: &tokio::task::JoinError) -> Refusal {
    tracing::error!(%error, "a stream of the operations API failed; report this");
    Refusal::unavailable("the stream failed, see the log")
}

/// The headers of a stream.
pub(super) fn headers(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, STREAM),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, body).into_response()
}

impl Streams {
    pub(super) fn new(process: String, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Shared {
            process,
            metrics,
            state: Mutex::default(),
            news: watch::Sender::new(()),
            collecting: tokio::sync::Mutex::default(),
        }))
    }

    /// Opens a stream that goes on after the event `last`, if it is still kept.
    pub(super) async fn open(
        &self,
        source: Arc<dyn OperationsSource>,
        stream: Open,
        last: Option<&str>,
    ) -> Result<Response, Refusal> {
        self.0.state.lock().has_place(stream.user.as_ref())?;
        let (shared, last) = (self.0.clone(), last.map(str::to_owned));
        // A task of its own: it holds its lock until the role has answered, also if the requester has gone.
        let opening = tokio::spawn(async move { shared.begin(source, stream, last).await });
        let reader = match tokio::time::timeout(ANSWER_WITHIN, opening).await {
            Ok(Ok(reader)) => reader?,
            Ok(Err(error)) => return Err(failed(&error)),
            Err(_) => return Err(super::too_slow()),
        };
        Ok(headers(Body::from_stream(reader.into_stream())))
    }

    /// Number of open streams.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.state.lock().open.len()
    }
}

impl Shared {
    async fn begin(
        self: &Arc<Self>,
        source: Arc<dyn OperationsSource>,
        mut stream: Open,
        last: Option<String>,
    ) -> Result<Reader, Refusal> {
        let mut watched = self.collecting.lock().await;
        // It also ends the collection if this stream does not open.
        let is_first = !std::mem::replace(&mut self.state.lock().runs, true);
        if is_first {
            tokio::spawn(self.clone().collect(source.clone()));
        }
        let missing = stream
            .selection
            .iter()
            .filter(|part| !watched.contains_key(*part));
        let missing: Vec<Part> = missing.cloned().collect();
        let begun = tokio::task::spawn_blocking(move || Begun::of(&*source, missing, is_first));
        let begun = begun.await.map_err(|error| failed(&error))?;
        let mut state = self.state.lock();
        state.has_place(stream.user.as_ref())?;
        let position = state.log.last();
        watched.extend(begun.parts.into_iter().map(|(part, base)| {
            let since = position;
            (part, Watched { base, since })
        }));
        let resumed = last.as_deref().and_then(|id| self.number(id)).filter(|read| {
            let covered = |watched: &Watched| watched.since <= *read;
            let mut parts = stream.selection.iter();
            state.log.has_all_after(*read) && parts.all(|part| watched.get(part).is_some_and(covered))
        });
        stream.read = resumed.unwrap_or(position);
        stream.since = Instant::now();
        state.opened += 1;
        let id = state.opened;
        let mut first = vec![self.hello(stream.read, &begun.header)];
        if last.is_some() && resumed.is_none() {
            let topics = stream.selection.iter().map(|(_, topic)| *topic);
            first.push(self.reset(stream.read, topics));
        }
        state.open.insert(id, stream);
        self.metrics.set(Family::OperationsStreams, &[], state.open.len());
        Ok(Reader::new(self.clone(), id, first))
    }

    /// The number of an event of this process.
    fn number(&self, id: &str) -> Option<u64> {
        let (process, number) = id.rsplit_once('-')?;
        (process == self.process).then(|| number.parse().ok()).flatten()
    }

    /// Asks the role once a second, until no stream is open.
    async fn collect(self: Arc<Self>, source: Arc<dyn OperationsSource>) {
        let mut ticks = tokio::time::interval_at(Instant::now() + EVERY, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut watched = self.collecting.lock().await;
            if self.state.lock().open.is_empty() {
                watched.clear();
                let ended = tokio::task::spawn_blocking(move || source.collect_changes(false));
                // A stream that opens meanwhile waits for the lock, and then begins anew.
                let _ = ended.await;
                self.state.lock().end();
                return;
            }
            watched.retain(|part, _| self.is_read(part));
            let (from, parts) = (source.clone(), std::mem::take(&mut *watched));
            match tokio::task::spawn_blocking(move || collector::collect(&*from, parts)).await {
                Ok((kept, change)) => {
                    *watched = kept;
                    self.publish(change);
                }
                Err(error) => {
                    tracing::error!(%error, "event streams end: the role failed; report this");
                    self.end_streams(|_| true);
                }
            }
        }
    }

    fn is_read(&self, part: &Part) -> bool {
        let state = self.state.lock();
        state.open.values().any(|open| open.selection.contains(part))
    }

    /// Adds a delta, and ends the streams that are too far behind.
    fn publish(&self, change: collector::Change) {
        let now = Instant::now();
        let limit = now.checked_sub(BEHIND);
        let overdue = {
            let mut state = self.state.lock();
            state.log.push(now, change);
            state.log.last_before(limit)
        };
        // A stream that came back may still read what it missed.
        self.end_streams(|open| open.read < overdue && Some(open.since) <= limit);
        self.news.send_replace(());
    }

    fn end_streams(&self, ends: impl Fn(&Open) -> bool) {
        let mut state = self.state.lock();
        state.open.retain(|_, open| {
            let ends = ends(open);
            if ends {
                open.hang_up.now();
            }
            !ends
        });
        self.metrics.set(Family::OperationsStreams, &[], state.open.len());
        drop(state);
        self.news.send_replace(());
    }
}

impl State {
    /// An error if there is no place for a stream of this user.
    fn has_place(&self, user: Option<&User>) -> Result<(), Refusal> {
        let of_user = |open: &&Open| user.is_some() && open.user.as_ref() == user;
        if self.open.values().filter(of_user).count() >= OF_USER {
            return Err(Refusal::new(
                ErrorCode::Busy,
                format!("this user has {OF_USER} streams open already"),
                "close a console or a command that follows",
            ));
        }
        if self.open.len() < STREAMS {
            return Ok(());
        }
        Err(Refusal::unavailable(format!(
            "{STREAMS} streams are open already"
        )))
    }

    /// Ends the collection: what happens from now on is not in the log.
    fn end(&mut self) {
        self.runs = false;
        self.log.forget();
    }
}
