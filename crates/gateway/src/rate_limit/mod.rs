//! Rate limit of the projects' writes to the hub, each of which makes Karmada write eight or nine objects. Values
//! only.
//!
//! Each project has two token buckets: a deep one for new objects, a shallow one for changes. All buckets that are
//! empty and wanted share one rate, that of the hub, in equal parts: time is counted in tokens that each of them
//! has received (the virtual time of fair queueing), so a project that wants nothing leaves its part to the others.

use fedgate_api::names::ProjectKey;
use fedgate_engine::{clock::Now, key::Key, random::HashMap, shrink::shrink_if_sparse};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// The bucket that a write draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The hub does not have the object yet.
    Create,
    /// The hub has the object, and it changes.
    Update,
}

/// State of the permit that a write needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Not requested yet.
    Unasked,
    /// The write may be sent.
    Granted,
    /// To be requested again after this time.
    Wait(Duration),
}

/// Limits of the writes to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Writes per second of all empty buckets; zero for no limit.
    pub rate: u32,
    /// New objects of a project that are written at once.
    pub create_burst: u32,
    /// Changes of a project that are written at once.
    pub update_burst: u32,
    /// Minimum time between two changes of one object.
    pub update_interval: Duration,
}

impl Default for Limits {
    /// Karmada with its default settings processes five or six deployments per second.
    fn default() -> Self {
        Self {
            rate: 5,
            create_burst: 1_000,
            update_burst: 8,
            update_interval: Duration::from_millis(500),
        }
    }
}

/// Parts of a token: at one token per second, one nanosecond brings one part.
const TOKEN: u128 = 1_000_000_000;

/// Maximum time after which a key asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A key that is nearly due waits without asking in between.
const SHORT_WAIT: Duration = Duration::from_millis(20);

/// Time that a token is kept for a key that does not ask for it.
const KEPT_FOR: Duration = Duration::from_mins(2);

type Flow = (ProjectKey, Class);

#[derive(Debug, Default)]
struct Bucket {
    /// The virtual time at which the bucket is full again.
    full_at: u128,
    /// Waiting keys, with the virtual time of their tokens.
    waiting: HashMap<Key, u128>,
}

/// The token buckets of all projects.
#[derive(Debug)]
pub struct RateLimiter {
    limits: Limits,
    /// Tokens that a bucket which is always empty has received so far.
    virtual_now: u128,
    at: Option<Instant>,
    buckets: HashMap<Flow, Bucket>,
    /// The empty buckets, by the virtual time at which the last requested token is available.
    empty: BTreeSet<(u128, Flow)>,
    /// Time of the last change of each object.
    changed: HashMap<Key, Instant>,
}

impl RateLimiter {
    /// Full buckets.
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

    /// Time until a bucket that shares the rate has received this number of tokens.
    fn real(&self, tokens: u128) -> Duration {
        let sharing = self.empty.len().max(1) as u128;
        let nanos = tokens * sharing / u128::from(self.limits.rate.max(1));
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Advances virtual time, which is slower the more buckets are empty.
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

    /// Requests the permit to write an object of a project. Tokens are granted in the order of the requests.
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
        // Other projects may want nothing by then: the key asks again half-way.
        let wait = if self.empty.len() > 1 {
            (wait / 2).max(wait.min(SHORT_WAIT))
        } else {
            wait
        };
        Permit::Wait(wait.clamp(Duration::from_millis(1), LONGEST_WAIT))
    }

    /// Remaining minimum time since the object's last change.
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

    /// Returns a permit whose write was not applied.
    pub fn refund(&mut self, project: &ProjectKey, key: &Key, class: Class) {
        self.changed.remove(key);
        let flow = (project.clone(), class);
        if let Some(bucket) = self.buckets.get(&flow) {
            let full_at = bucket.full_at.saturating_sub(TOKEN);
            self.set_full_at(&flow, full_at);
        }
    }

    /// Number of keys that wait for a token.
    pub fn waiting(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.waiting.len()).sum()
    }

    /// Drops state that no longer matters; called every few seconds.
    pub fn prune(&mut self, is_engaged: impl Fn(&ProjectKey) -> bool, now: Now) {
        self.advance(now);
        let (virtual_now, interval) = (self.virtual_now, self.limits.update_interval);
        // A key that has not asked for its token no longer wants it; the token is lost to its project.
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

    /// Number of entries.
    #[cfg(test)]
    pub(crate) fn entry_count(&self) -> usize {
        self.buckets.len() + self.changed.len() + self.empty.len()
    }
}

#[cfg(test)]
mod tests;
