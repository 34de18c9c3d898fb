//! The work queue: it holds each key once, gives a key to no more than one worker, and delays failed keys.

use super::refs::ObjectRef;
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
    ready: VecDeque<ObjectRef>,
    known: HashMap<ObjectRef, State>,
}

#[derive(Debug, Default)]
struct State {
    is_queued: bool,
    is_running: bool,
    failures: u32,
}

impl Queue {
    /// Enqueues a key. A key that is being reconciled is reconciled again afterwards.
    pub(super) fn add(&self, key: ObjectRef) {
        let mut inner = self.inner.lock();
        let state = inner.known.entry(key.clone()).or_default();
        if !std::mem::replace(&mut state.is_queued, true) && !state.is_running {
            inner.ready.push_back(key);
            self.filled.notify_one();
        }
    }

    /// Waits for the next key. The caller must return it with [`Queue::done`].
    pub(super) async fn next(&self) -> ObjectRef {
        loop {
            let filled = self.filled.notified();
            if let Some(key) = self.take() {
                return key;
            }
            filled.await;
        }
    }

    fn take(&self) -> Option<ObjectRef> {
        let mut inner = self.inner.lock();
        let key = inner.ready.pop_front()?;
        let state = inner.known.entry(key.clone()).or_default();
        (state.is_queued, state.is_running) = (false, true);
        if !inner.ready.is_empty() {
            self.filled.notify_one();
        }
        Some(key)
    }

    /// Ends the reconcile of a key; a failed key is requeued with a delay. Returns the number of its consecutive
    /// failures.
    pub(super) fn done(self: &Arc<Self>, key: ObjectRef, has_failed: bool) -> u32 {
        let mut inner = self.inner.lock();
        let state = inner.known.remove(&key).unwrap_or_default();
        let failures = if has_failed { state.failures + 1 } else { 0 };
        if has_failed || state.is_queued {
            let (is_queued, is_running) = (false, false);
            inner.known.insert(
                key.clone(),
                State {
                    is_queued,
                    is_running,
                    failures,
                },
            );
        }
        drop(inner);
        if state.is_queued {
            self.add(key);
        } else if has_failed {
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
    use crate::standin::refs::BINDING;

    fn key(name: &str) -> ObjectRef {
        ObjectRef::new(BINDING, "n", name)
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
