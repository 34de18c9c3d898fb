//! The objects of a Workload as they change: list, then watch, resumed after every interruption.

use super::{Plane, Resource, kinds::Selection};
use crate::{
    error::{Error, Kind},
    view::Object,
};
use futures::{Stream, StreamExt, stream::SelectAll};
use kube::core::DynamicObject;
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use std::{
    collections::BTreeMap,
    pin::Pin,
    time::{Duration, Instant},
};
use tokio::sync::watch as channel;

/// Time without an answer of the server after which people are told.
pub(crate) const NO_ANSWER: Duration = Duration::from_secs(30);

type Events = Pin<Box<dyn Stream<Item = (Resource, Result<Event<DynamicObject>, watcher::Error>)> + Send>>;

/// Objects of several kinds, followed.
pub(crate) struct Follow {
    plane: Plane,
    events: SelectAll<Events>,
    objects: BTreeMap<Resource, Kept>,
    heard: Instant,
    told: bool,
    /// Since when there is no contact with the server.
    lost: Option<Instant>,
    /// Time without contact before that.
    silent: Duration,
    contact: channel::Receiver<()>,
}

/// The objects of a kind by name.
#[derive(Default)]
struct Kept {
    objects: BTreeMap<String, Object>,
    /// Those of a list that is being read.
    listed: BTreeMap<String, Object>,
    complete: bool,
}

/// A change that was followed.
#[derive(Debug)]
pub(crate) enum News {
    /// Something has changed.
    Changed,
    /// The server does not answer; the watch goes on.
    NoAnswer(Error),
}

impl News {
    /// The notice for people that the server does not answer.
    pub(crate) fn notice(&self) -> Option<String> {
        match self {
            Self::Changed => None,
            Self::NoAnswer(error) => Some(format!("no answer for 30s: {}; still trying", error.what)),
        }
    }
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").finish_non_exhaustive()
    }
}

impl Follow {
    /// Begins to follow these kinds.
    pub(crate) fn start(plane: &Plane, kinds: &[(Resource, Selection)]) -> Result<Self, Error> {
        let watching = plane.watching()?;
        let mut events = SelectAll::new();
        let mut objects = BTreeMap::new();
        for (kind, selection) in kinds {
            let kind = *kind;
            let api = watching.api(kind, &plane.namespace);
            let config = match selection {
                Selection::All => watcher::Config::default(),
                Selection::Named(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
                Selection::Labelled(labels) => watcher::Config::default().labels(labels),
            };
            let stream = watcher::watcher(api, config).default_backoff();
            let stream: Events = Box::pin(stream.map(move |event| (kind, event)));
            events.push(stream);
            objects.insert(kind, Kept::default());
        }
        Ok(Self {
            plane: plane.clone(),
            events,
            objects,
            heard: Instant::now(),
            told: false,
            lost: None,
            silent: Duration::ZERO,
            contact: plane.contact.subscribe(),
        })
    }

    /// Waits for a change. Before the first one is told, every kind was listed. A refusal of the credentials ends it.
    pub(crate) async fn next(&mut self) -> Result<News, Error> {
        loop {
            let next = tokio::select! {
                next = self.events.next() => next,
                Ok(()) = self.contact.changed(), if self.lost.is_some() => {
                    self.restored();
                    if self.is_complete() {
                        return Ok(News::Changed);
                    }
                    continue;
                }
            };
            let Some((kind, event)) = next else {
                return Err(Error::new(Kind::Failed, "the watch has ended"));
            };
            let event = match event {
                Ok(event) => event,
                Err(error) => match self.fault(&error, kind) {
                    Some(news) => return news,
                    None => continue,
                },
            };
            self.restored();
            let kept = self.objects.entry(kind).or_default();
            match event {
                Event::Init => kept.listed.clear(),
                Event::InitApply(object) => {
                    let object = super::requests::typed(&object, kind);
                    kept.listed.insert(object.name().to_owned(), object);
                }
                Event::InitDone => {
                    kept.objects = std::mem::take(&mut kept.listed);
                    kept.complete = true;
                }
                Event::Apply(object) => {
                    let object = super::requests::typed(&object, kind);
                    kept.objects.insert(object.name().to_owned(), object);
                }
                Event::Delete(object) => {
                    kept.objects
                        .remove(object.metadata.name.as_deref().unwrap_or_default());
                }
            }
            let listing = !kept.listed.is_empty();
            if !listing && self.is_complete() {
                return Ok(News::Changed);
            }
        }
    }

    /// True if there is no contact with the server: objects may have changed meanwhile.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// A clock that stands still while there is no contact with the server: objects may have changed meanwhile.
    pub(crate) fn clock(&self) -> Instant {
        let now = self.lost.unwrap_or_else(Instant::now);
        now.checked_sub(self.silent).unwrap_or(now)
    }

    fn restored(&mut self) {
        self.heard = Instant::now();
        self.told = false;
        if let Some(lost) = self.lost.take() {
            self.silent = self.silent.saturating_add(lost.elapsed());
        }
    }

    fn is_complete(&self) -> bool {
        self.objects.values().all(|kept| kept.complete)
    }

    /// The objects of a kind, in the order of their names.
    pub(crate) fn objects(&self, kind: Resource) -> Vec<Object> {
        let kept = self.objects.get(&kind);
        kept.map(|kept| kept.objects.values().cloned().collect())
            .unwrap_or_default()
    }

    fn fault(&mut self, error: &watcher::Error, kind: Resource) -> Option<Result<News, Error>> {
        let cause = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => self.plane.error(error, "watch", kind),
            // An expired resourceVersion (410) is followed by a list.
            watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => return None,
        };
        if cause.kind == Kind::Forbidden {
            return Some(Err(cause));
        }
        if self.lost.is_none() {
            self.contact.mark_unchanged();
            self.lost = Some(Instant::now());
        }
        if self.told || self.heard.elapsed() < NO_ANSWER {
            return None;
        }
        self.told = true;
        Some(Ok(News::NoAnswer(cause)))
    }
}
