//! Objects of several kinds as they change: listed, then watched.

mod list_watch;

use super::{Plane, Resource};
use crate::{
    error::{Error, Kind},
    time::sleep,
    view::{Instances, Joined, Object},
};
use futures::{
    FutureExt, StreamExt,
    stream::{BoxStream, SelectAll},
};
use kube::api::ListParams;
use list_watch::{Event, list_watch};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Time without an answer of the server after which users get a notice.
pub(crate) const NO_ANSWER: Duration = Duration::from_secs(30);

/// Limit of the events that are taken over before a caller gets them.
const BURST: usize = 10_000;

/// Objects of several kinds, followed.
pub(crate) struct Follow {
    plane: Plane,
    events: SelectAll<BoxStream<'static, (Resource, Event)>>,
    kinds: BTreeMap<Resource, Followed>,
    /// True if something has changed since the caller was notified last.
    has_changed: bool,
    /// True if the caller was notified of the present silence.
    is_notified: bool,
    /// Since when there is no contact with the server.
    lost: Option<Instant>,
    /// Time without contact before that.
    silent: Duration,
}

/// A kind that is followed.
struct Followed {
    objects: BTreeMap<String, Object>,
    is_listed: bool,
    /// True while a watch is open: however quiet it is, there is contact.
    is_open: bool,
    /// The last contact with the server.
    contact: Instant,
    /// The failure of the last request.
    failure: Option<Error>,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").finish_non_exhaustive()
    }
}

impl Followed {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            is_listed: false,
            is_open: false,
            contact: Instant::now(),
            failure: None,
        }
    }

    fn contact(&mut self) {
        self.contact = Instant::now();
        self.failure = None;
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.contact = Instant::now();
        }
    }

    /// The time at which silence deserves a notice; `None` while a watch is open.
    fn deadline(&self) -> Option<Instant> {
        (!self.is_open).then(|| self.contact + NO_ANSWER)
    }

    fn is_silent(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= Instant::now())
    }

    fn is_lost(&self) -> bool {
        self.failure.is_some() || self.is_silent()
    }
}

impl Follow {
    /// Begins to follow the objects of these kinds that the parameters select.
    pub(crate) fn start(plane: &Plane, kinds: &[(Resource, ListParams)]) -> Self {
        let streams = kinds.iter().map(|(kind, params)| {
            let kind = *kind;
            let events = list_watch(plane.clone(), kind, params.clone());
            events.map(move |event| (kind, event)).boxed()
        });
        let followed = kinds.iter().map(|(kind, _)| (*kind, Followed::new()));
        Self {
            plane: plane.clone(),
            events: streams.collect(),
            kinds: followed.collect(),
            has_changed: false,
            is_notified: false,
            lost: None,
            silent: Duration::ZERO,
        }
    }

    /// Begins to follow a Workload, the deployments and the Instances.
    pub(crate) fn workload(plane: &Plane, name: &str) -> Self {
        let kinds = [
            (Resource::Workloads, named(name)),
            (Resource::Deployments, ListParams::default()),
            (Resource::Instances, ListParams::default()),
        ];
        Self::start(plane, &kinds)
    }

    /// The Workload with its deployments, and all Instances; `None` if the Workload does not exist.
    pub(crate) fn joined(&self) -> Option<(Joined, Instances)> {
        let workload = self.objects(Resource::Workloads).next()?.clone();
        let joined = Joined::of(workload, self.all(Resource::Deployments));
        Some((joined, self.all(Resource::Instances).into()))
    }

    /// Waits for a change; `notice` gets the lines that the server does not answer.
    pub(crate) async fn changed(&mut self, notice: impl Fn(&str)) -> Result<(), Error> {
        while let Some(line) = self.next().await? {
            notice(&line);
        }
        Ok(())
    }

    /// Waits for a change or new contact, and takes over all changes that have come. Before the first one, every kind was
    /// listed. An answer after which no watch can go on ends it. The result is a notice for people if the server does not
    /// answer; the watch goes on then.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            let deadlines = self.kinds.values().filter_map(Followed::deadline);
            let silence = deadlines
                .min()
                .map(|at| at.saturating_duration_since(Instant::now()));
            tokio::select! {
                biased;
                event = self.events.next() => {
                    self.take(event)?;
                    self.take_ready().await?;
                }
                () = sleep(silence.filter(|_| !self.is_notified)) => {}
            }
            // Also a kind beside others that keep changing.
            if !self.is_notified && self.kinds.values().any(Followed::is_silent) {
                return Ok(Some(self.no_answer()));
            }
            if self.has_changed && self.kinds.values().all(|kind| kind.is_listed) {
                self.has_changed = false;
                return Ok(None);
            }
        }
    }

    /// True if there is no contact with the server: objects may have changed meanwhile.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// A clock that stands still while there is no contact with the server: objects may have changed meanwhile.
    pub(crate) fn clock(&self) -> std::time::Instant {
        let now = self.lost.unwrap_or_else(Instant::now);
        now.checked_sub(self.silent).unwrap_or(now).into_std()
    }

    /// The objects of a kind, in the order of their names.
    pub(crate) fn objects(&self, kind: Resource) -> impl Iterator<Item = &Object> {
        self.kinds
            .get(&kind)
            .into_iter()
            .flat_map(|kind| kind.objects.values())
    }

    /// The objects of a kind, in the order of their names.
    pub(crate) fn all(&self, kind: Resource) -> Vec<Object> {
        self.objects(kind).cloned().collect()
    }

    /// Takes over the events that have come meanwhile.
    async fn take_ready(&mut self) -> Result<(), Error> {
        let mut is_idle = false;
        for _ in 0..BURST {
            match self.events.next().now_or_never() {
                Some(event) => {
                    self.take(event)?;
                    is_idle = false;
                }
                None if is_idle => break,
                None => {
                    // The connection hands over its events one by one, in a task of its own.
                    tokio::task::yield_now().await;
                    is_idle = true;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Option<(Resource, Event)>) -> Result<(), Error> {
        let Some((kind, event)) = event else {
            return Err(Error::new(Kind::Failed, "the watch has ended"));
        };
        let Some(followed) = self.kinds.get_mut(&kind) else {
            return Ok(());
        };
        match event {
            Event::Contact => followed.contact(),
            Event::Opened => {
                followed.contact();
                followed.is_open = true;
            }
            Event::Closed => followed.close(),
            Event::Failed(error) => {
                followed.close();
                followed.failure = Some(error);
            }
            Event::Ended(error) => return Err(error),
            Event::Listed(objects) => {
                followed.contact();
                self.has_changed = true;
                let objects = objects.into_iter();
                followed.objects = objects.map(|object| (object.name().to_owned(), object)).collect();
                followed.is_listed = true;
            }
            Event::Applied(object) => {
                self.has_changed = true;
                followed.objects.insert(object.name().to_owned(), object);
            }
            Event::Deleted(name) => {
                self.has_changed = true;
                followed.objects.remove(&name);
            }
        }
        self.note_contact();
        Ok(())
    }

    fn note_contact(&mut self) {
        self.is_notified &= self.kinds.values().any(Followed::is_silent);
        if self.kinds.values().any(Followed::is_lost) {
            self.lost.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.lost.take() {
            self.silent = self.silent.saturating_add(since.elapsed());
            // A caller that was waiting for contact goes on, also if nothing has changed meanwhile.
            self.has_changed = true;
        }
    }

    fn no_answer(&mut self) -> String {
        self.is_notified = true;
        self.note_contact();
        let mut silent = self.kinds.values().filter(|kind| kind.is_silent());
        let failure = silent.find_map(|kind| kind.failure.clone());
        let failure = failure.unwrap_or_else(|| self.plane.unreachable());
        format!("no answer for 30s: {}; still trying", failure.message())
    }
}

/// Selects the object of this name.
pub(crate) fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

#[cfg(test)]
mod tests;
