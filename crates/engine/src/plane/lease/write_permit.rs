//! The process's permission to write: its expiry, and abandoned writes that a server may still execute.

use super::{LEASE_DURATION, RENEW_DEADLINE};
use crate::{
    plane::client::Fence,
    watch_channel::{Receiver, Sender},
};
use parking_lot::Mutex;
use std::{
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};
use tokio::time::Instant;

/// Duration of the permit without leader election: 30 years, in practice unlimited.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 30);
/// Time in which a server may still execute a write after its sender abandoned it: as long as a standby waits after a
/// holder's deadline has passed.
const SETTLES_WITHIN: Duration = LEASE_DURATION.saturating_sub(RENEW_DEADLINE);

/// Permission to write; see the module.
#[derive(Debug)]
pub(super) struct WritePermit {
    /// Time until which writes may be in flight; `None` while another process may write.
    until: Sender<Option<Instant>>,
    leading: Sender<bool>,
    /// Ends the requests that were handed to connections when the permit expires.
    fence: Fence,
    /// True once the process shuts down: writes in flight may finish, no new write starts.
    closing: AtomicBool,
    /// Time at which a write was last abandoned without an answer.
    unanswered: Mutex<Option<Instant>>,
}

impl WritePermit {
    /// The permit of a candidate: no writes allowed.
    pub(super) fn none(fence: Fence) -> Self {
        Self {
            until: Sender::new(None),
            leading: Sender::new(false),
            fence,
            closing: AtomicBool::new(false),
            unanswered: Mutex::default(),
        }
    }

    /// The permit of a single replica.
    pub(super) fn unlimited() -> Self {
        let right = Self::none(Fence::default());
        right.allow(Some(Instant::now() + FOR_EVER));
        right
    }

    /// True if a write may start now.
    pub(super) fn may_write(&self) -> bool {
        !self.closing.load(Ordering::Acquire) && self.until.read(lasts)
    }

    /// Allows writes until `until`; `None` ends the writes in flight.
    ///
    /// A permit that is restored after it expired is reported like a new permit, even if no task noticed the gap:
    /// writes that failed in the gap wait for that report. As in the checks, the clock is read under the lock, so that
    /// no rejection falls in between.
    pub(super) fn allow(&self, until: Option<Instant>) {
        let mut lapsed = false;
        self.until.send_if_modified(|had| {
            lapsed = !lasts(*had);
            *had = until;
            self.fence.allow(until);
            true
        });
        let leads = until.is_some();
        self.leading
            .send_if_modified(|led| std::mem::replace(led, leads) != leads || (leads && lapsed));
    }

    /// Allows no new writes.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Notifies when this process gains or loses leadership, and when leadership is restored after a gap.
    pub(super) fn changes(&self) -> Receiver<bool> {
        self.leading.subscribe()
    }

    /// Waits until the permit expires, however often it is renewed before. After a process was suspended, the clock is
    /// ahead of the timers, so each poll reads the clock.
    pub(super) async fn ends(&self) {
        let mut ended = std::pin::pin!(self.end_requested());
        poll_fn(|cx| {
            let lasts = self.until.read(lasts);
            if lasts {
                ended.as_mut().poll(cx)
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    async fn end_requested(&self) {
        let mut changes = self.until.subscribe();
        loop {
            let until = changes.borrow_and_update().filter(|until| lasts(Some(*until)));
            let Some(until) = until else { return };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Records a write that was abandoned without an answer.
    pub(super) fn unanswered(&self) {
        *self.unanswered.lock() = Some(Instant::now());
    }

    /// True if the server may still execute an abandoned write.
    pub(super) fn unsettled(&self) -> bool {
        self.unanswered
            .lock()
            .is_some_and(|at| at.elapsed() < SETTLES_WITHIN)
    }
}

fn lasts(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() < until)
}
