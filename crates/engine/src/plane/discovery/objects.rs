//! The objects that say which projects there are: Secrets, or Projects of Milo.

use crate::{plane::client::Connection, plane::client::is_too_large, watch_channel::Receiver};
use futures::{StreamExt, stream::BoxStream};
use kube::{Api, Resource, ResourceExt};
use kube_runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use std::{collections::BTreeSet, fmt::Debug, time::Duration};
use tokio::time::Instant;

/// Pause after an error before the next request.
pub(super) const PAUSE: Duration = Duration::from_secs(5);
/// Objects per page if larger pages are too large to be read: tenants decide how large a Project is, and even the largest
/// objects that an API server stores fit in these numbers.
pub(super) const PAGE_OF_LARGE: u32 = 10;

/// A change of the objects.
pub(super) enum Change<K> {
    /// An object of a list, or one that was created or changed.
    Apply(K),
    /// An object was deleted; its last state.
    Delete(K),
    /// A list is complete, with these names.
    Listed(BTreeSet<String>),
    /// The objects cannot be read for now; true if the last attempt had another error or none.
    Failed(watcher::Error, bool),
    /// The plane has another address or credential: the objects are listed again.
    Reconnected,
}

/// List and watch of the objects, which never ends.
pub(super) struct Objects<K> {
    api: Box<dyn Fn(kube::Client) -> Api<K> + Send>,
    plane: Connection,
    config: watcher::Config,
    generation: Receiver<u64>,
    changes: BoxStream<'static, watcher::Result<Event<K>>>,
    /// Names in a list that is not complete yet.
    listed: BTreeSet<String>,
    last_error: Option<String>,
    /// End of the pause after an error.
    paused: Option<Instant>,
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Objects<K> {
    /// The objects of `api`, in pages of at most `page`.
    pub(super) fn new(
        plane: Connection,
        api: impl Fn(kube::Client) -> Api<K> + Send + 'static,
        labels: &str,
        page: u32,
    ) -> Self {
        let config = watcher::Config::default().labels(labels).page_size(page);
        Self {
            changes: watcher::watcher(api(plane.current().client()), config.clone()).boxed(),
            generation: plane.generation(),
            api: Box::new(api),
            plane,
            config,
            listed: BTreeSet::new(),
            last_error: None,
            paused: None,
        }
    }

    /// Begins with a list.
    pub(super) fn relist(&mut self) {
        let api = (self.api)(self.plane.current().client());
        self.changes = watcher::watcher(api, self.config.clone()).boxed();
        self.paused = None;
    }

    /// The next change; may be cancelled.
    pub(super) async fn next(&mut self) -> Change<K> {
        loop {
            let event = tokio::select! {
                biased;
                event = next(&mut self.changes, self.paused) => event,
                _ = self.generation.changed() => {
                    self.relist();
                    return Change::Reconnected;
                }
            };
            self.paused = None;
            match event {
                Some(Ok(Event::Init)) => self.listed.clear(),
                Some(Ok(Event::InitApply(object))) => {
                    self.listed.insert(object.name_any());
                    return Change::Apply(object);
                }
                Some(Ok(Event::InitDone)) => {
                    self.last_error = None;
                    return Change::Listed(std::mem::take(&mut self.listed));
                }
                Some(Ok(Event::Apply(object))) => return Change::Apply(object),
                Some(Ok(Event::Delete(object))) => return Change::Delete(object),
                Some(Err(watcher::Error::InitialListFailed(error)))
                    if is_too_large(&error) && self.config.page_size != Some(PAGE_OF_LARGE) =>
                {
                    self.config.page_size = Some(PAGE_OF_LARGE);
                    self.relist();
                }
                Some(Err(error)) => {
                    self.paused = Some(Instant::now() + PAUSE);
                    let text = error.to_string();
                    let is_new = self.last_error.as_ref() != Some(&text);
                    self.last_error = Some(text);
                    return Change::Failed(error, is_new);
                }
                // A watcher does not end; if it ever does, list again.
                None => self.relist(),
            }
        }
    }
}

async fn next<T>(changes: &mut BoxStream<'static, T>, paused: Option<Instant>) -> Option<T> {
    if let Some(until) = paused {
        tokio::time::sleep_until(until).await;
    }
    changes.next().await
}
