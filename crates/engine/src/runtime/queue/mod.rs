//! The one queue of the process: keyed, single-flight, de-duplicating, delayed, fair between lanes, fresh edits
//! before the start-up backlog.

use super::failures::Cause;
use crate::{
    backoff::Backoff,
    error::Category,
    key::{Key, Lane, Plane},
    plan::Requeue,
    random::{HashMap, HashSet},
    shrink::shrink_if_sparse,
};
use fedgate_api::names::ProjectKey;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Priority of a key in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Found by an initial list or by a sweep.
    Backlog,
    /// A client changed an object just now.
    Fresh,
}

/// The result of a dequeued key: when it is requeued, or after a failure the shortest time of its growing delay.
pub type Outcome = Result<Requeue, Duration>;

/// Delays after failures of a key. The longest is short enough for keys to catch up within 30 s of the end of an outage.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(20)).with_jitter(0.25);

/// Every dequeue whose number is a multiple of this tries the backlog first, so that constant edits do not starve the
/// backlog.
const BACKLOG_EVERY: u64 = 8;

/// A key that was handed to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dequeued {
    /// The key.
    pub key: Key,
    /// Time since which the key was ready to run.
    pub since: Instant,
}

#[derive(Debug, Default)]
struct Entry {
    queued: Option<Priority>,
    since: Option<Instant>,
    running: bool,
    again: Option<Priority>,
    due: Option<Due>,
    failures: u32,
    mark: Option<Mark>,
    /// The lane whose share a running key takes, and the priority that it was taken with.
    share: Option<(Lane, Priority)>,
}

/// The last failure of a key that is retried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The controller that reconciles the key.
    pub controller: &'static str,
    /// The category of the failure.
    pub category: Category,
    /// The cause that holds back other keys too, if there is one.
    pub cause: Option<Arc<Cause>>,
}

/// The keys whose last reconcile failed and that are retried: their number by last failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Backoffs(pub BTreeMap<Mark, usize>);

impl Backoffs {
    /// Number of keys that each cause holds back.
    pub fn behind(&self) -> BTreeMap<Arc<Cause>, usize> {
        let mut behind = BTreeMap::new();
        for (mark, count) in &self.0 {
            if let Some(cause) = &mark.cause {
                *behind.entry(cause.clone()).or_default() += count;
            }
        }
        behind
    }
}

/// A time, made unique by a sequence number.
type Due = (Instant, u64);

#[derive(Debug, Default)]
struct Lanes {
    ring: VecDeque<Lane>,
    waiting: HashMap<Lane, VecDeque<Key>>,
}

impl Lanes {
    fn push(&mut self, key: Key, lane: Lane) {
        let queue = self.waiting.entry(lane.clone()).or_default();
        if queue.is_empty() {
            self.ring.push_back(lane);
        }
        queue.push_back(key);
    }

    /// Takes the next key that still `waits` here and whose lane has room, and advances to the next lane.
    fn pop(&mut self, has_room: impl Fn(&Lane) -> bool, waits: impl Fn(&Key) -> bool) -> Option<Key> {
        for _ in 0..self.ring.len() {
            let lane = self.ring.pop_front()?;
            if !has_room(&lane) {
                self.ring.push_back(lane);
                continue;
            }
            let Some(queue) = self.waiting.get_mut(&lane) else {
                continue;
            };
            let mut found = None;
            while let Some(key) = queue.pop_front() {
                if waits(&key) {
                    found = Some(key);
                    break;
                }
            }
            if queue.is_empty() {
                self.waiting.remove(&lane);
            } else {
                self.ring.push_back(lane);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, Entry>,
    fresh: Lanes,
    backlog: Lanes,
    delayed: BTreeMap<Due, Key>,
    running_in: HashMap<Lane, usize>,
    /// Projects' lanes, by the lane of a namespace that belongs to the project.
    owners: HashMap<Lane, Lane>,
    sequence: u64,
    added: u64,
    taken: u64,
    closed: bool,
}

/// Queue counts for metrics and debugging.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Keys that are ready to run.
    pub ready: usize,
    /// Keys that workers reconcile.
    pub running: usize,
    /// Keys that wait for a time.
    pub delayed: usize,
    /// Keys whose last reconcile failed.
    pub in_backoff: usize,
}

/// The work queue of the process.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
    lane_limit: usize,
}

impl Queue {
    /// An empty queue that hands out at most `lane_limit` keys of one lane at a time.
    pub fn new(lane_limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            lane_limit: lane_limit.max(1),
        }
    }

    /// Enqueues `key`. A key that is already queued is not queued twice; a key that is running runs again afterwards.
    pub fn add(&self, key: Key, urgency: Priority) {
        self.extend([key], urgency);
    }

    /// Enqueues all `keys`.
    pub fn extend(&self, keys: impl IntoIterator<Item = Key>, urgency: Priority) {
        let mut state = self.state.lock();
        let mut any = false;
        for key in keys {
            state.add(key, urgency);
            any = true;
        }
        drop(state);
        if any {
            self.wake.notify_one();
        }
    }

    /// Enqueues `key` after this time, or earlier if another request enqueues it.
    pub fn add_after(&self, key: Key, after: Duration) {
        self.state.lock().delay(key, Instant::now() + after);
        self.wake.notify_one();
    }

    /// Dequeues the next key, and waits if none is ready. `None` once the queue is closed. The caller must report each
    /// key with [`Queue::done`].
    pub async fn next(&self) -> Option<Dequeued> {
        // Without this, a worker that always finds a key would never yield to watches and signals.
        tokio::task::coop::consume_budget().await;
        loop {
            let notified = self.wake.notified();
            let due = {
                let mut state = self.state.lock();
                if state.closed {
                    drop(state);
                    self.wake.notify_one();
                    return None;
                }
                if let Some(taken) = state.take(self.lane_limit) {
                    drop(state);
                    // A permit notifies a single worker; more keys may be ready.
                    self.wake.notify_one();
                    return Some(taken);
                }
                state.delayed.keys().next().map(|(due, _)| *due)
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = notified => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => notified.await,
            }
        }
    }

    /// Reports the outcome of a dequeued key.
    pub fn done(&self, key: &Key, outcome: Outcome) {
        self.state.lock().done(key, outcome);
        self.wake.notify_one();
    }

    /// The delay that [`Queue::done`] will give a running key if it fails once more.
    pub fn retry_delay(&self, key: &Key, at_least: Duration) -> Duration {
        let state = self.state.lock();
        let failures = state.entries.get(key).map_or(0, |entry| entry.failures);
        backoff(key, failures + 1).max(at_least)
    }

    /// Records that the namespace of a key, which was just dequeued, belongs to this project, so that it shares the project's lane
    /// from now on; `None` if it belongs to no project. False if that lane has no room: then the key waits in it.
    pub fn assign(&self, Dequeued { key, since }: &Dequeued, owner: Option<&ProjectKey>) -> bool {
        if matches!(key.plane, Plane::Project(_)) {
            return true;
        }
        let mut state = self.state.lock();
        let lane = key.lane();
        let Some(owner) = owner.map(Lane::of) else {
            if state.owners.remove(&lane).is_some() {
                shrink_if_sparse(&mut state.owners);
            }
            return true;
        };
        let had = state.owners.insert(lane.clone(), owner.clone()).unwrap_or(lane);
        had == owner || state.moves(key, *since, owner, self.lane_limit)
    }

    /// Records the failure of a running key, before [`Queue::done`].
    pub fn mark(&self, key: &Key, mark: Mark) {
        if let Some(entry) = self.state.lock().entries.get_mut(key) {
            entry.mark = Some(mark);
        }
    }

    /// The cause that holds back the calls of a key that is retried.
    pub fn cause(&self, key: &Key) -> Option<Arc<Cause>> {
        let state = self.state.lock();
        let entry = state.entries.get(key).filter(|entry| entry.failures > 0);
        entry.and_then(|entry| entry.mark.as_ref()?.cause.clone())
    }

    /// The keys whose last reconcile failed and that are retried.
    pub fn backoffs(&self) -> Backoffs {
        let mut backoffs = BTreeMap::new();
        let state = self.state.lock();
        let failed = state.entries.values().filter(|entry| entry.failures > 0);
        for mark in failed.filter_map(|entry| entry.mark.as_ref()) {
            match backoffs.get_mut(mark) {
                Some(count) => *count += 1,
                None => drop(backoffs.insert(mark.clone(), 1)),
            }
        }
        Backoffs(backoffs)
    }

    /// Makes [`Queue::next`] return `None` to every worker.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// Number of keys enqueued so far; a key that was already queued is not counted again.
    pub fn added(&self) -> u64 {
        self.state.lock().added
    }

    /// Number of keys by state.
    pub fn depth(&self) -> QueueDepth {
        let state = self.state.lock();
        let mut depth = QueueDepth::default();
        for entry in state.entries.values() {
            depth.ready += usize::from(entry.queued.is_some());
            depth.running += usize::from(entry.running);
            depth.delayed += usize::from(entry.due.is_some());
            depth.in_backoff += usize::from(entry.failures > 0);
        }
        depth
    }

    /// Resets the backoff of all failed keys that are `wanted` and enqueues them, e.g. after a new credential.
    pub fn retry_failed(&self, wanted: impl Fn(&Key) -> bool) {
        let mut state = self.state.lock();
        let failed: HashSet<Key> = state
            .entries
            .iter()
            .filter(|(k, e)| e.failures > 0 && wanted(k))
            .map(|(k, _)| k.clone())
            .collect();
        for key in failed {
            if let Some(entry) = state.entries.get_mut(&key) {
                entry.failures = 0;
            }
            state.add(key, Priority::Fresh);
        }
        drop(state);
        self.wake.notify_one();
    }
}

impl State {
    fn lane(&self, key: &Key) -> Lane {
        let lane = key.lane();
        self.owners.get(&lane).cloned().unwrap_or(lane)
    }

    fn add(&mut self, key: Key, urgency: Priority) {
        let lane = self.lane(&key);
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.running {
            entry.again = entry.again.max(Some(urgency));
            return;
        }
        match entry.queued {
            Some(had) if had >= urgency => {}
            // The backlog lane keeps its entry of the key; `Lanes::pop` skips that entry.
            Some(_) => {
                entry.queued = Some(urgency);
                self.fresh.push(key, lane);
            }
            None => {
                self.added += 1;
                entry.queued = Some(urgency);
                entry.since = Some(Instant::now());
                if let Some(due) = entry.due.take() {
                    self.delayed.remove(&due);
                }
                self.push(key, lane, urgency);
            }
        }
    }

    fn delay(&mut self, key: Key, due: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.queued.is_some() || entry.due.is_some_and(|(had, _)| had <= due) {
            return;
        }
        self.sequence += 1;
        if let Some(later) = entry.due.replace((due, self.sequence)) {
            self.delayed.remove(&later);
        }
        self.delayed.insert((due, self.sequence), key);
    }

    fn take(&mut self, lane_limit: usize) -> Option<Dequeued> {
        let now = Instant::now();
        while let Some(first) = self.delayed.first_entry().filter(|e| e.key().0 <= now) {
            let key = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.due = None;
            }
            self.add(key, Priority::Fresh);
        }
        self.taken += 1;
        let turn = if self.taken.is_multiple_of(BACKLOG_EVERY) {
            [Priority::Backlog, Priority::Fresh]
        } else {
            [Priority::Fresh, Priority::Backlog]
        };
        let (urgency, key) = turn
            .into_iter()
            .find_map(|urgency| Some((urgency, self.pop(urgency, lane_limit)?)))?;
        let lane = self.lane(&key);
        *self.running_in.entry(lane.clone()).or_default() += 1;
        let mut since = now;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.queued = None;
            entry.running = true;
            entry.share = Some((lane, urgency));
            since = entry.since.take().unwrap_or(now);
        }
        Some(Dequeued { key, since })
    }

    /// Counts a running key in another lane. False if that has no room: then the key is queued in it.
    fn moves(&mut self, key: &Key, since: Instant, to: Lane, lane_limit: usize) -> bool {
        let Some(urgency) = self.leave_lane(key) else {
            return true;
        };
        let running = self.running_in.entry(to.clone()).or_default();
        let has_room = *running < lane_limit;
        *running += usize::from(has_room);
        let Some(entry) = self.entries.get_mut(key) else {
            return true;
        };
        if has_room {
            entry.share = Some((to, urgency));
            return true;
        }
        let urgency = entry.again.take().max(Some(urgency)).unwrap_or(urgency);
        entry.running = false;
        (entry.queued, entry.since) = (Some(urgency), Some(since));
        self.push(key.clone(), to, urgency);
        false
    }

    fn push(&mut self, key: Key, lane: Lane, urgency: Priority) {
        match urgency {
            Priority::Fresh => self.fresh.push(key, lane),
            Priority::Backlog => self.backlog.push(key, lane),
        }
    }

    /// Gives back the share of a running key; the priority that it was taken with.
    fn leave_lane(&mut self, key: &Key) -> Option<Priority> {
        let (lane, urgency) = self.entries.get_mut(key)?.share.take()?;
        if let Some(running) = self.running_in.get_mut(&lane) {
            *running -= 1;
            if *running == 0 {
                self.running_in.remove(&lane);
            }
        }
        Some(urgency)
    }

    fn pop(&mut self, urgency: Priority, lane_limit: usize) -> Option<Key> {
        let (running_in, entries, owners) = (&self.running_in, &self.entries, &self.owners);
        let has_room = |lane: &Lane| {
            let lane = owners.get(lane).unwrap_or(lane);
            running_in.get(lane).is_none_or(|running| *running < lane_limit)
        };
        let waits = |key: &Key| entries.get(key).is_some_and(|e| e.queued == Some(urgency));
        match urgency {
            Priority::Fresh => self.fresh.pop(has_room, waits),
            Priority::Backlog => self.backlog.pop(has_room, waits),
        }
    }

    fn done(&mut self, key: &Key, outcome: Outcome) {
        self.leave_lane(key);
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.running = false;
        let again = entry.again.take();
        let delay = match outcome {
            Ok(requeue) => {
                (entry.failures, entry.mark) = (0, None);
                match requeue {
                    Requeue::AwaitChange => None,
                    Requeue::After(after) => Some(after),
                }
            }
            Err(at_least) => {
                entry.failures += 1;
                Some(backoff(key, entry.failures).max(at_least))
            }
        };
        match (again, delay) {
            (Some(urgency), _) => self.add(key.clone(), urgency),
            (None, Some(after)) => self.delay(key.clone(), Instant::now() + after),
            (None, None) if entry.due.is_some() => {}
            (None, None) => {
                self.entries.remove(key);
                shrink_if_sparse(&mut self.entries);
            }
        }
    }
}

/// The delay after this many failures: doubling, with up to a quarter of jitter derived from the key.
fn backoff(key: &Key, failures: u32) -> Duration {
    BACKOFF.delay(failures.saturating_sub(1), (key, failures))
}

#[cfg(test)]
mod tests;
