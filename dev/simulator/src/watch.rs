//! Watches: bodies that follow a table's history. A watch has no task; it is woken by writes to its table.

use crate::{
    plane::Shared,
    select::Selector,
    state::{Change, Down, Kind, State, Table},
    status::Status,
    view::{View, line},
};
use bytes::Bytes;
use serde_json::Value;
use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// Events after which a quiet watch gets a bookmark.
const BOOKMARK_AFTER: u32 = 10;

/// What a watch was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) table: usize,
    pub(crate) selector: Selector,
    pub(crate) view: View,
    /// Changes after this revision; `None` begins with what there is.
    pub(crate) from: Option<u64>,
    pub(crate) bookmarks: bool,
    /// A bookmark tells the end of the objects that there were.
    pub(crate) initial_end: bool,
    pub(crate) timeout: Option<Duration>,
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    plane: Arc<Shared>,
    id: u64,
    epoch: u64,
    asked: Asked,
    /// Everything up to this revision was seen.
    seen: u64,
    /// Changes passed since the last bookmark.
    passed: u32,
    /// Lines that are ready, with the time of their change.
    ready: VecDeque<(Instant, Vec<u8>)>,
    end: Option<Pin<Box<Sleep>>>,
    delay: Option<Pin<Box<Sleep>>>,
    over: bool,
}

/// What a look at the plane found.
enum Look {
    Lines,
    Nothing,
    Over,
    Broken,
}

impl Watch {
    /// Opens a watch, under the plane's lock: from here on it must not be dropped while that is held. The error is that
    /// of the HTTP answer.
    pub(crate) fn open(plane: &Arc<Shared>, state: &mut State, asked: Asked) -> Result<Self, Status> {
        let table = &state.tables[asked.table];
        let gone = asked.from.and_then(|from| too_old(state, table, from));
        if let Some(gone) = gone.as_ref().filter(|_| !state.streams.gone_inside) {
            return Err(gone.clone());
        }
        let mut watch = Self {
            plane: plane.clone(),
            id: 0,
            epoch: table.epoch,
            seen: asked.from.unwrap_or(0),
            end: asked.timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout))),
            asked,
            passed: 0,
            ready: VecDeque::new(),
            delay: None,
            over: false,
        };
        watch.id = state.watch_id();
        match gone {
            Some(gone) => watch.fail(&gone),
            None if watch.asked.from.is_none() => watch.begin(state),
            None => {}
        }
        Ok(watch)
    }

    /// Sends what there is.
    fn begin(&mut self, state: &State) {
        let table = &state.tables[self.asked.table];
        let revision = state.revision.min(table.horizon());
        self.seen = revision;
        let now = Instant::now();
        let past = table.at(revision);
        for (_, object) in past.iter().flat_map(|past| past.after(None)) {
            if self.asked.selector.matches(object) {
                let line = self.asked.view.event("ADDED", object);
                self.ready.push_back((now, line));
            }
        }
        if self.asked.initial_end {
            let kind = &table.definition.kind;
            let line = self.asked.view.bookmark(kind, revision, true);
            self.ready.push_back((now, line));
        }
    }

    fn fail(&mut self, status: &Status) {
        let body = status.to_value().to_string();
        self.ready
            .push_back((Instant::now(), line("ERROR", body.as_bytes())));
        self.over = true;
    }

    /// Takes what is new from the plane, or leaves a waker there.
    fn look(&mut self, cx: &mut Context<'_>) -> Look {
        let plane = self.plane.clone();
        let mut state = plane.state.lock();
        if state.removed {
            return Look::Over;
        }
        match state.down {
            Some(Down::Refused) => return Look::Broken,
            Some(Down::BlackHole) => return self.wait(&mut state, cx),
            None => {}
        }
        if state.tables[self.asked.table].epoch != self.epoch {
            return Look::Over;
        }
        if let Some(gone) = self.read(&state) {
            self.fail(&gone);
        }
        if self.ready.is_empty() {
            return self.wait(&mut state, cx);
        }
        Look::Lines
    }

    fn wait(&self, state: &mut State, cx: &Context<'_>) -> Look {
        state.tables[self.asked.table]
            .wakers
            .insert(self.id, cx.waker().clone());
        Look::Nothing
    }

    /// Reads the history from where it stopped. An error if that part is gone.
    fn read(&mut self, state: &State) -> Option<Status> {
        let table = &state.tables[self.asked.table];
        if self.seen < table.dropped {
            return Some(gone(self.seen, state.revision));
        }
        let horizon = table.horizon();
        let fresh = table.changes.range(table.after(self.seen)..);
        for change in fresh.take_while(|change| change.revision <= horizon) {
            self.seen = change.revision;
            self.passed += 1;
            if let Some(line) = self.event(change) {
                if state.streams.repeats {
                    self.ready.push_back((change.at, line.clone()));
                }
                self.ready.push_back((change.at, line));
            }
        }
        if self.asked.bookmarks && self.passed >= BOOKMARK_AFTER {
            self.passed = 0;
            let line = self.asked.view.bookmark(&table.definition.kind, self.seen, false);
            self.ready.push_back((Instant::now(), line));
        }
        None
    }

    /// The event that a change is to this watch: with a selector, objects come and go by matching it.
    fn event(&self, change: &Change) -> Option<Vec<u8>> {
        let matches = |object: &Arc<Value>| self.asked.selector.matches(object);
        let before = change.previous.as_ref().is_some_and(matches);
        let after = change.kind != Kind::Deleted && matches(&change.object);
        let word = match (before, after) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        if word != "DELETED" || change.kind == Kind::Deleted {
            return Some(self.asked.view.event(word, &change.object));
        }
        // It left the selection: what is sent is its last state inside, with the version of the change.
        let mut last = change.previous.as_deref().cloned()?;
        crate::meta::set(
            &mut last,
            "resourceVersion",
            change.object["metadata"]["resourceVersion"].clone(),
        );
        Some(self.asked.view.event(word, &last))
    }

    /// A last bookmark, when the time is over.
    fn last_bookmark(&mut self) -> Option<Vec<u8>> {
        let state = self.plane.state.lock();
        let table = &state.tables[self.asked.table];
        let caught_up = self.seen >= table.changes.back().map_or(0, |change| change.revision);
        let plain = state.down.is_none() && !state.removed && table.horizon() == u64::MAX;
        (self.asked.bookmarks && caught_up && plain).then(|| {
            self.asked
                .view
                .bookmark(&table.definition.kind, state.revision, false)
        })
    }

    /// The next line; `None` at the end.
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(delay) = &mut self.delay {
                ready!(delay.as_mut().poll(cx));
                self.delay = None;
                if let Some((_, line)) = self.ready.pop_front() {
                    return Poll::Ready(Some(Ok(line.into())));
                }
            }
            if let Some((at, _)) = self.ready.front() {
                if let Some(delay) = self.plane.draw_delay() {
                    self.delay = Some(Box::pin(tokio::time::sleep_until(*at + delay)));
                    continue;
                }
                let line = self.ready.pop_front().map(|(_, line)| line);
                return Poll::Ready(line.map(|line| Ok(line.into())));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match self.look(cx) {
                Look::Lines => {}
                Look::Over => self.over = true,
                Look::Broken => {
                    self.over = true;
                    let error = io::Error::new(io::ErrorKind::ConnectionReset, "the plane is down");
                    return Poll::Ready(Some(Err(error)));
                }
                Look::Nothing => {
                    let Some(end) = &mut self.end else {
                        return Poll::Pending;
                    };
                    ready!(end.as_mut().poll(cx));
                    self.over = true;
                    let last = self.last_bookmark();
                    return Poll::Ready(last.map(|line| Ok(line.into())));
                }
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.plane.state.lock();
            state.tables[self.asked.table].wakers.remove(&self.id)
        };
        drop(waker);
    }
}

/// Whether a watch from a revision misses changes that are no longer kept.
fn too_old(state: &State, table: &Table, from: u64) -> Option<Status> {
    (from < state.compacted || from < table.dropped).then(|| gone(from, state.compacted.max(table.dropped)))
}

fn gone(asked: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {asked} ({oldest})"))
}
