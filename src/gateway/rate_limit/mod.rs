//! How fast the projects' changes go to the hub, where each of them makes Karmada write eight or nine objects. Values only.
//!
//! Each project has two token buckets: a deep one for what is new, a shallow one for changes. All buckets that are empty
//! and wanted share one rate, that of the hub, in equal parts: time is counted in tokens that each of them has been given
//! (the virtual time of fair queueing), so a project that wants nothing leaves its part to the others.

use fedgate_api::names::ProjectKey;
use fedgate_engine::{clock::Now, key::Key, random::HashMap, shrink::shrink_if_sparse};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// Which bucket a write draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The hub has nothing of it yet.
    Create,
    /// The hub has it, and it changes.
    Update,
}

/// What is known of the permit that a write needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// None was asked for yet.
    Unasked,
    /// The write may be sent.
    Granted,
    /// It may be asked for again after this time.
    Wait(Duration),
}

/// Limits of the writes to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Writes a second of all buckets that are empty; zero for no limit.
    pub rate: u32,
    /// How many new objects of a project go at once.
    pub create_burst: u32,
    /// How many changes of a project go at once.
    pub update_burst: u32,
    /// Shortest time between two changes of one object.
    pub update_interval: Duration,
}

impl Default for Limits {
    /// Karmada as it is delivered takes five or six deployments a second.
    fn default() -> Self {
        Self {
            rate: 5,
            create_burst: 1_000,
            update_burst: 8,
            update_interval: Duration::from_millis(500),
        }
    }
}

/// One token, as parts: those that one token a second brings in a nanosecond.
const TOKEN: u128 = 1_000_000_000;

/// A key looks again no later than this.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A key that is nearly due waits for it in one go.
const SHORT_WAIT: Duration = Duration::from_millis(20);

/// How long a token is kept for a key that does not come for it.
const KEPT_FOR: Duration = Duration::from_mins(2);

type Flow = (ProjectKey, Class);

#[derive(Debug, Default)]
struct Bucket {
    /// The virtual time at which the bucket is full again.
    full_at: u128,
    /// Keys that wait, with the virtual time of their tokens.
    waiting: HashMap<Key, u128>,
}

/// See the module.
#[derive(Debug)]
pub struct RateLimiter {
    limits: Limits,
    /// Tokens that a bucket which is always empty has been given so far.
    virtual_now: u128,
    at: Option<Instant>,
    buckets: HashMap<Flow, Bucket>,
    /// The empty buckets, by the virtual time at which the last token that was asked for is there.
    empty: BTreeSet<(u128, Flow)>,
    /// When objects were last changed.
    changed: HashMap<Key, Instant>,
}

impl RateLimiter {
    /// Buckets that are full.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            virtual_now: 0,
            at: None,
            buckets: HashMap::default(),
            empty: BTreeSet::new(),
            changed: HashMap::default(),
        }
    }

    fn burst(&self, class: Class) -> u128 {
        let tokens = match class {
            Class::Create => self.limits.create_burst,
            Class::Update => self.limits.update_burst,
        };
        u128::from(tokens.max(1)) * TOKEN
    }

    /// The time until a bucket that shares the rate with the others has been given so much.
    fn real(&self, tokens: u128) -> Duration {
        let sharing = self.empty.len().max(1) as u128;
        let nanos = tokens * sharing / u128::from(self.limits.rate.max(1));
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Lets virtual time pass, which is slower the more buckets are empty.
    fn advance(&mut self, now: Now) {
        let Some(at) = self.at.replace(now.instant) else {
            return;
        };
        let mut left = now.since(at);
        while let Some((filled, _)) = self.empty.first() {
            let takes = self.real(filled.saturating_sub(self.virtual_now));
            if takes > left {
                break;
            }
            left = left.saturating_sub(takes);
            self.virtual_now = self.virtual_now.max(*filled);
            self.empty.pop_first();
        }
        let sharing = self.empty.len().max(1) as u128;
        self.virtual_now += left.as_nanos() * u128::from(self.limits.rate) / sharing;
    }

    fn set_full_at(&mut self, flow: &Flow, full_at: u128) {
        let burst = self.burst(flow.1);
        let bucket = self.buckets.entry(flow.clone()).or_default();
        let before = std::mem::replace(&mut bucket.full_at, full_at);
        self.empty.remove(&(before.saturating_sub(burst), flow.clone()));
        let filled = full_at.saturating_sub(burst);
        if filled > self.virtual_now {
            self.empty.insert((filled, flow.clone()));
        }
    }

    /// Asks for the permit to write an object of a project. Tokens are given in the order in which they were asked for.
    pub fn acquire(&mut self, project: &ProjectKey, key: &Key, class: Class, now: Now) -> Permit {
        if let Some(left) = self.rest(key, class, now) {
            return Permit::Wait(left);
        }
        if self.limits.rate == 0 {
            return self.grant(key, class, now);
        }
        self.advance(now);
        let flow = (project.clone(), class);
        let burst = self.burst(class);
        let bucket = self.buckets.entry(flow.clone()).or_default();
        let due = if let Some(due) = bucket.waiting.get(key) {
            *due
        } else {
            let full_at = bucket.full_at.max(self.virtual_now) + TOKEN;
            self.set_full_at(&flow, full_at);
            full_at.saturating_sub(burst)
        };
        let left = due.saturating_sub(self.virtual_now);
        let Some(bucket) = self.buckets.get_mut(&flow) else {
            return Permit::Wait(SHORT_WAIT);
        };
        if left == 0 {
            bucket.waiting.remove(key);
            return self.grant(key, class, now);
        }
        bucket.waiting.insert(key.clone(), due);
        let wait = self.real(left);
        // Others may want nothing any more by then: it looks again half-way.
        let wait = if self.empty.len() > 1 {
            (wait / 2).max(wait.min(SHORT_WAIT))
        } else {
            wait
        };
        Permit::Wait(wait.clamp(Duration::from_millis(1), LONGEST_WAIT))
    }

    /// How much longer an object stays as it was changed last.
    fn rest(&self, key: &Key, class: Class, now: Now) -> Option<Duration> {
        let at = self.changed.get(key).filter(|_| class == Class::Update)?;
        let left = self.limits.update_interval.saturating_sub(now.since(*at));
        (!left.is_zero()).then_some(left)
    }

    fn grant(&mut self, key: &Key, class: Class, now: Now) -> Permit {
        if class == Class::Update {
            self.changed.insert(key.clone(), now.instant);
        }
        Permit::Granted
    }

    /// Takes a permit back whose write was not applied.
    pub fn refund(&mut self, project: &ProjectKey, key: &Key, class: Class) {
        self.changed.remove(key);
        let flow = (project.clone(), class);
        if let Some(bucket) = self.buckets.get(&flow) {
            let full_at = bucket.full_at.saturating_sub(TOKEN);
            self.set_full_at(&flow, full_at);
        }
    }

    /// How many keys wait for a token.
    pub fn waiting(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.waiting.len()).sum()
    }

    /// Forgets what no longer matters; called every few seconds.
    pub fn prune(&mut self, is_engaged: impl Fn(&ProjectKey) -> bool, now: Now) {
        self.advance(now);
        let (virtual_now, interval) = (self.virtual_now, self.limits.update_interval);
        // Who has not come for its token wants it no more; it is lost to its project.
        let over = u128::from(self.limits.rate) * KEPT_FOR.as_nanos();
        for ((project, _), bucket) in &mut self.buckets {
            let engaged = is_engaged(project);
            bucket
                .waiting
                .retain(|_, due| engaged && virtual_now < *due + over);
        }
        self.buckets
            .retain(|_, bucket| bucket.full_at > virtual_now || !bucket.waiting.is_empty());
        self.changed.retain(|_, at| now.since(*at) < interval);
        shrink_if_sparse(&mut self.buckets);
        shrink_if_sparse(&mut self.changed);
    }

    /// How much is remembered.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.buckets.len() + self.changed.len() + self.empty.len()
    }
}

#[cfg(test)]
mod tests;
