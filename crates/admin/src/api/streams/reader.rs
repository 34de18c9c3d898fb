//! A stream as its client reads it.

use super::{Shared, log::Next};
use crate::api::topics::Topic;
use bytes::Bytes;
use fedgate_engine::metrics::Family;
use fedgate_operations::Header;
use futures::Stream;
use serde_json::json;
use std::{collections::VecDeque, io, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior},
};

/// Interval of comments, so that proxies keep the connection.
const ALIVE: Duration = Duration::from_secs(15);

/// A stream; its place is free again when it is dropped.
pub(super) struct Reader {
    shared: Arc<Shared>,
    id: u64,
    pending: VecDeque<Bytes>,
    news: watch::Receiver<()>,
    alive: Interval,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.open.remove(&self.id);
        self.shared
            .metrics
            .set(Family::OperationsStreams, &[], state.open.len());
    }
}

/// The text of an event without its id.
fn event(name: &str, data: &serde_json::Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// The `data` of a delta.
pub(super) fn data(as_of: &str, texts: impl Iterator<Item = (Topic, Bytes)>) -> Vec<Bytes> {
    let mut data = vec![Bytes::from(format!("event: delta\ndata: {{\"asOf\":\"{as_of}\""))];
    for (topic, text) in texts {
        data.push(Bytes::from(format!(",\"{}\":", topic.as_str())));
        data.push(text);
    }
    data.push(Bytes::from_static(b"}\n\n"));
    data
}

impl Shared {
    fn id(&self, number: u64) -> Bytes {
        format!("id: {}-{number}\n", self.process).into()
    }

    /// The first event of a stream.
    pub(super) fn hello(&self, read: u64, header: &Header) -> Bytes {
        let data = json!({
            "asOf": header.as_of,
            "position": format!("{}-{read}", self.process),
            "replica": header.replica,
        });
        let event = event("hello", &data);
        format!("id: {}-{read}\n{event}", self.process).into()
    }

    /// The event that names topics to fetch anew.
    pub(super) fn reset(&self, read: u64, topics: impl Iterator<Item = Topic>) -> Bytes {
        let topics: Vec<_> = topics.map(Topic::as_str).collect();
        let event = event("reset", &json!({ "topics": topics }));
        format!("id: {}-{read}\n{event}", self.process).into()
    }

    /// The next event of a stream; an error if the stream was ended.
    fn next(&self, id: u64) -> io::Result<Vec<Bytes>> {
        let mut state = self.state.lock();
        let super::State { log, open, .. } = &mut *state;
        let open = open.get_mut(&id).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::TimedOut,
                "the reader of this stream is too far behind",
            )
        })?;
        Ok(match log.next(&open.selection, &mut open.read) {
            Next::Wait => Vec::new(),
            Next::Reset(topics) => vec![self.reset(open.read, topics.into_iter())],
            Next::Rows(data) => std::iter::once(self.id(open.read)).chain(data).collect(),
        })
    }
}

impl Reader {
    /// A reader of a registered stream, which begins with these events.
    pub(super) fn new(shared: Arc<Shared>, id: u64, first: Vec<Bytes>) -> Self {
        let mut alive = tokio::time::interval_at(Instant::now() + ALIVE, ALIVE);
        // A reader that has not read for a while needs one comment, not all that it missed.
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            news: shared.news.subscribe(),
            shared,
            id,
            pending: first.into(),
            alive,
        }
    }

    /// The parts of the events. Nothing is taken from the log before it is read.
    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        futures::stream::unfold(Some(self), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(part) => Some((Ok(part), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(part) = self.pending.pop_front() {
                return Ok(part);
            }
            self.news.borrow_and_update();
            self.pending.extend(self.shared.next(self.id)?);
            if !self.pending.is_empty() {
                continue;
            }
            tokio::select! {
                // The sender lives as long as `shared`.
                _ = self.news.changed() => {}
                _ = self.alive.tick() => return Ok(Bytes::from_static(b": alive\n\n")),
            }
        }
    }
}
