//! A watch channel that notifies receivers in the order in which they began to wait.
//!
//! tokio's own `watch` notifies its receivers in random order, so that a run on a paused clock would not replay.

use parking_lot::Mutex;
use std::{pin::pin, sync::Arc};
use tokio::sync::Notify;

/// The sending half; clones share the value.
#[derive(Debug, Clone)]
pub struct Sender<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// Number of sends so far.
    version: u64,
}

impl<T: Copy> Sender<T> {
    /// A channel with an initial value that does not count as sent.
    pub fn new(value: T) -> Self {
        let state = Mutex::new(State { value, version: 0 });
        Self(Arc::new(Shared {
            state,
            changed: Notify::new(),
        }))
    }

    /// Reads the last value under the lock, so that no value is sent meanwhile.
    pub fn read<R>(&self, read: impl FnOnce(T) -> R) -> R {
        read(self.0.state.lock().value)
    }

    /// Sends a value.
    pub fn send(&self, value: T) {
        self.send_if_modified(|had| {
            *had = value;
            true
        });
    }

    /// Modifies the value in place, and notifies the receivers if `change` returns true.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) {
        let tell = {
            let mut state = self.0.state.lock();
            let tell = change(&mut state.value);
            state.version += u64::from(tell);
            tell
        };
        if tell {
            self.0.changed.notify_waiters();
        }
    }

    /// A receiver for all values sent from now on.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            seen: self.0.state.lock().version,
            of: self.0.clone(),
        }
    }
}

/// The receiving half.
#[derive(Debug, Clone)]
pub struct Receiver<T> {
    of: Arc<Shared<T>>,
    seen: u64,
}

impl<T: Copy> Receiver<T> {
    /// The last value, which is marked as seen.
    pub fn borrow_and_update(&mut self) -> T {
        let state = self.of.state.lock();
        self.seen = state.version;
        state.value
    }

    /// True if a value was sent since the last one that this receiver has seen.
    pub fn has_changed(&self) -> bool {
        self.of.state.lock().version != self.seen
    }

    /// Waits for a new value and marks it as seen. Never completes without a new value.
    pub async fn changed(&mut self) -> T {
        loop {
            let mut changed = pin!(self.of.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.of.state.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return state.value;
                }
            }
            changed.await;
        }
    }

    /// Waits until the value satisfies `is`.
    pub async fn wait_for(&mut self, is: impl Fn(T) -> bool) {
        while !is(self.borrow_and_update()) {
            self.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn news_are_heard_once_and_the_last_value_counts() {
        let told = Sender::new(1);
        let (mut one, mut two) = (told.subscribe(), told.subscribe());
        assert!(one.changed().now_or_never().is_none());
        told.send(2);
        told.send(3);
        assert!(one.has_changed());
        assert_eq!(one.changed().await, 3);
        assert!(!one.has_changed() && two.has_changed());
        assert_eq!(two.borrow_and_update(), 3);
        assert!(two.changed().now_or_never().is_none());
        told.send_if_modified(|_| false);
        assert!(!one.has_changed());
        assert!(!told.subscribe().has_changed(), "what was told before is no news");
    }

    #[tokio::test(start_paused = true)]
    async fn listeners_are_woken_in_the_order_in_which_they_came() {
        let told = Sender::new(false);
        let order = Arc::new(Mutex::new(Vec::new()));
        let waits: Vec<_> = (0..100)
            .map(|n| {
                let (mut listener, order) = (told.subscribe(), order.clone());
                tokio::spawn(async move {
                    listener.wait_for(|done| done).await;
                    order.lock().push(n);
                })
            })
            .collect();
        // A single yield polls only some of the tasks.
        for _ in 0..waits.len() {
            tokio::task::yield_now().await;
        }
        told.send(true);
        for wait in waits {
            wait.await.unwrap();
        }
        assert!(order.lock().is_sorted(), "{:?}", order.lock());
    }
}
