//! The one queue of the process: keyed, single-flight, de-duplicating, delayed, fair between lanes, fresh edits
//! before the start-up backlog.

use crate::{
    key::{Key, Lane},
    random::{HashMap, HashSet, Random},
    shrink::shrink_if_sparse,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// How soon a key should be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Found while a list was first read, or by a sweep.
    Backlog,
    /// Someone changed something just now.
    Fresh,
}

/// What became of a key that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until an event wakes it.
    Done,
    /// Look again after this time unless an event comes first.
    RequeueAfter(Duration),
    /// Failed; look again after a growing delay, at least this long.
    Retry {
        /// What the server asked for (`Retry-After`), or zero.
        at_least: Duration,
    },
}

/// First delay after a failure.
pub const FIRST_DELAY: Duration = Duration::from_millis(50);
/// Longest delay after failures: what ends is caught up with in half a minute.
pub const LONGEST_DELAY: Duration = Duration::from_secs(20);

/// Each so many turns one goes to the backlog first: tenants who never rest do not hold up what was there before.
const BACKLOG_EVERY: u64 = 8;

/// A key in a worker's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dequeued {
    /// The key.
    pub key: Key,
    /// Since when it could have run.
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
}

/// A time, made unique by a number.
type Due = (Instant, u64);

#[derive(Debug, Default)]
struct Lanes {
    ring: VecDeque<Lane>,
    waiting: HashMap<Lane, VecDeque<Key>>,
}

impl Lanes {
    fn push(&mut self, key: Key) {
        let lane = key.lane();
        let queue = self.waiting.entry(lane.clone()).or_default();
        if queue.is_empty() {
            self.ring.push_back(lane);
        }
        queue.push_back(key);
    }

    /// Takes the next key that still `waits` here and whose lane has room, and passes the turn to the next lane.
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
    sequence: u64,
    added: u64,
    taken: u64,
    closed: bool,
}

/// Counts for metrics and debugging.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Keys that could run now.
    pub ready: usize,
    /// Keys in the workers' hands.
    pub running: usize,
    /// Keys that wait for a time.
    pub delayed: usize,
    /// Keys that failed at their last turn.
    pub in_backoff: usize,
}

/// See the module.
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

    /// Wants `key` looked at. Keys that already wait are not queued twice; one that runs runs once more afterwards.
    pub fn add(&self, key: Key, urgency: Priority) {
        self.state.lock().add(key, urgency);
        self.wake.notify_one();
    }

    /// Wants all `keys` looked at.
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

    /// Wants `key` looked at `after` this time, or earlier if something else wants it.
    pub fn add_after(&self, key: Key, after: Duration) {
        self.state.lock().delay(key, Instant::now() + after);
        self.wake.notify_one();
    }

    /// The next key; waits for one. `None` once the queue is closed. Each key must be given back by [`Queue::done`].
    pub async fn next(&self) -> Option<Dequeued> {
        // A worker that always finds a key would otherwise never give its turn to watches and signals.
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
                    // One permit wakes one worker; there may be more to take.
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

    /// Gives a key back with what became of it.
    pub fn done(&self, key: &Key, outcome: Outcome) {
        self.state.lock().done(key, outcome);
        self.wake.notify_one();
    }

    /// Lets [`Queue::next`] end for every worker.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// How many times keys were put in so far; one that waited already is not counted again.
    pub fn added(&self) -> u64 {
        self.state.lock().added
    }

    /// How many keys are where.
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

    /// Forgets the backoff of every key of a lane and wakes those that waited for it, e.g. after a new credential.
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
    fn add(&mut self, key: Key, urgency: Priority) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.running {
            entry.again = entry.again.max(Some(urgency));
            return;
        }
        match entry.queued {
            Some(had) if had >= urgency => {}
            // What waits in the backlog is passed over when its turn comes there.
            Some(_) => {
                entry.queued = Some(urgency);
                self.fresh.push(key);
            }
            None => {
                self.added += 1;
                entry.queued = Some(urgency);
                entry.since = Some(Instant::now());
                if let Some(due) = entry.due.take() {
                    self.delayed.remove(&due);
                }
                match urgency {
                    Priority::Fresh => self.fresh.push(key),
                    Priority::Backlog => self.backlog.push(key),
                }
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
        let key = turn
            .into_iter()
            .find_map(|urgency| self.pop(urgency, lane_limit))?;
        *self.running_in.entry(key.lane()).or_default() += 1;
        let mut since = now;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.queued = None;
            entry.running = true;
            since = entry.since.take().unwrap_or(now);
        }
        Some(Dequeued { key, since })
    }

    fn pop(&mut self, urgency: Priority, lane_limit: usize) -> Option<Key> {
        let (running_in, entries) = (&self.running_in, &self.entries);
        let has_room = |lane: &Lane| running_in.get(lane).copied().unwrap_or(0) < lane_limit;
        let waits = |key: &Key| entries.get(key).is_some_and(|e| e.queued == Some(urgency));
        match urgency {
            Priority::Fresh => self.fresh.pop(has_room, waits),
            Priority::Backlog => self.backlog.pop(has_room, waits),
        }
    }

    fn done(&mut self, key: &Key, outcome: Outcome) {
        let lane = key.lane();
        if let Some(running) = self.running_in.get_mut(&lane) {
            *running -= 1;
            if *running == 0 {
                self.running_in.remove(&lane);
            }
        }
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.running = false;
        let again = entry.again.take();
        let delay = match outcome {
            Outcome::Done => {
                entry.failures = 0;
                None
            }
            Outcome::RequeueAfter(after) => {
                entry.failures = 0;
                Some(after)
            }
            Outcome::Retry { at_least } => {
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

/// The delay after so many failures: doubling, with up to a quarter of jitter drawn from the key.
fn backoff(key: &Key, failures: u32) -> Duration {
    let base = FIRST_DELAY
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(LONGEST_DELAY);
    base.mul_f64(0.75 + 0.25 * Random::fraction((key, failures)))
}

#[cfg(test)]
mod tests;
