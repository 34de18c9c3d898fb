//! The work queue: it holds each key once, gives a key to no more than one worker, and delays failed keys.

use super::refs::Key;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

const FIRST_DELAY: Duration = Duration::from_millis(15);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// A queue of keys.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    ready: VecDeque<Key>,
    known: HashMap<Key, State>,
}

#[derive(Debug, Default)]
struct State {
    queued: bool,
    running: bool,
    failures: u32,
}

impl Queue {
    /// Enqueues a key. A key that is being reconciled is reconciled again afterwards.
    pub(super) fn add(&self, key: Key) {
        let mut inner = self.inner.lock();
        let state = inner.known.entry(key.clone()).or_default();
        if !state.queued {
            state.queued = true;
            if !state.running {
                inner.ready.push_back(key);
                drop(inner);
                self.filled.notify_one();
            }
        }
    }

    /// Waits for the next key. The caller must return it with [`Queue::done`].
    pub(super) async fn next(&self) -> Key {
        loop {
            let filled = self.filled.notified();
            if let Some(key) = self.take() {
                return key;
            }
            filled.await;
        }
    }

    fn take(&self) -> Option<Key> {
        let mut inner = self.inner.lock();
        let key = inner.ready.pop_front()?;
        let state = inner.known.entry(key.clone()).or_default();
        (state.queued, state.running) = (false, true);
        if !inner.ready.is_empty() {
            self.filled.notify_one();
        }
        Some(key)
    }

    /// Ends the reconcile of a key; a failed key is requeued with a delay. Returns the number of its consecutive
    /// failures.
    pub(super) fn done(self: &Arc<Self>, key: Key, failed: bool) -> u32 {
        let mut inner = self.inner.lock();
        let Some(state) = inner.known.get_mut(&key) else {
            return 0;
        };
        state.running = false;
        state.failures = if failed { state.failures + 1 } else { 0 };
        let (failures, queued) = (state.failures, state.queued);
        if queued {
            inner.ready.push_back(key.clone());
            self.filled.notify_one();
        } else if !failed {
            inner.known.remove(&key);
        }
        drop(inner);
        if failed && !queued {
            let queue = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(delay(failures)).await;
                queue.add(key);
            });
        }
        failures
    }
}

fn delay(failures: u32) -> Duration {
    FIRST_DELAY
        .saturating_mul(1 << failures.saturating_sub(1).min(10))
        .min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standin::refs::NamespacedName;

    fn key(name: &str) -> Key {
        Key::Binding(NamespacedName {
            namespace: "n".into(),
            name: name.into(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_there_once_and_never_runs_twice_at_a_time() {
        let queue = Arc::new(Queue::default());
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.add(key("a"));
        assert_eq!(queue.take(), None);
        queue.done(key("a"), false);
        assert_eq!(queue.next().await, key("a"));
        queue.done(key("a"), false);
        assert!(queue.inner.lock().known.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_key_comes_again_later_and_later() {
        let queue = Arc::new(Queue::default());
        queue.add(key("a"));
        for failures in 1..4 {
            assert_eq!(queue.next().await, key("a"));
            assert_eq!(queue.done(key("a"), true), failures);
            assert_eq!(queue.take(), None);
        }
        assert_eq!(delay(1), FIRST_DELAY);
        assert_eq!(delay(99), LONGEST_DELAY);
    }
}
