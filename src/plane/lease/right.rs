//! The right to write, as this process knows it: until when it lasts, and what may still follow from its use.

use super::{LEASE_DURATION, RENEW_DEADLINE};
use crate::{
    engine::told::{Listener, Told},
    plane::client::Fence,
};
use parking_lot::Mutex;
use std::{
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};
use tokio::time::Instant;

/// Without election the right never ends.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 30);
/// How long a server may take to carry out what it was sent before nobody waited any more: as long as a standby leaves
/// to a holder whose deadline has passed.
const SETTLES_WITHIN: Duration = LEASE_DURATION.saturating_sub(RENEW_DEADLINE);

/// See the module.
#[derive(Debug)]
pub(super) struct Right {
    /// Until when writes may be under way; `None` while another may write.
    until: Told<Option<Instant>>,
    leading: Told<bool>,
    /// What was handed to connections ends with it.
    fence: Fence,
    /// The process ends: what is under way may be finished, nothing more begins.
    closing: AtomicBool,
    /// When a write was last given up without an answer.
    unanswered: Mutex<Option<Instant>>,
}

impl Right {
    /// That of a candidate: none.
    pub(super) fn none(fence: Fence) -> Self {
        Self {
            until: Told::new(None),
            leading: Told::new(false),
            fence,
            closing: AtomicBool::new(false),
            unanswered: Mutex::default(),
        }
    }

    /// That of a single replica.
    pub(super) fn unlimited() -> Self {
        let right = Self::none(Fence::default());
        right.allow(Some(Instant::now() + FOR_EVER));
        right
    }

    /// Whether a write may begin now.
    pub(super) fn may_write(&self) -> bool {
        !self.closing.load(Ordering::Acquire) && self.until.read(lasts)
    }

    /// Allows writes until `until`; `None` ends those under way.
    ///
    /// A right that has lapsed and comes back is told like a new one, whoever noticed the gap: what failed in it waits
    /// for that. The clock is read under the lock here as in the questions, so that no refusal falls between.
    pub(super) fn allow(&self, until: Option<Instant>) {
        let mut lapsed = false;
        self.until.modify(|had| {
            lapsed = !lasts(*had);
            *had = until;
            self.fence.allow(until);
            true
        });
        let leads = until.is_some();
        self.leading
            .modify(|led| std::mem::replace(led, leads) != leads || (leads && lapsed));
    }

    /// Lets nothing more begin.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Tells when leadership comes and goes, and when it comes back after a gap.
    pub(super) fn changes(&self) -> Listener<bool> {
        self.leading.listen()
    }

    /// Waits until the right ends, however often it is renewed before. In a process that was stopped the clock is ahead of
    /// the timers, so each poll reads it.
    pub(super) async fn ends(&self) {
        let mut ended = std::pin::pin!(self.told_to_end());
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

    async fn told_to_end(&self) {
        let mut changes = self.until.listen();
        loop {
            let until = changes.hear().filter(|until| lasts(Some(*until)));
            let Some(until) = until else { return };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {}
                _ = changes.news() => {}
            }
        }
    }

    /// Notes a write that was given up without an answer.
    pub(super) fn unanswered(&self) {
        *self.unanswered.lock() = Some(Instant::now());
    }

    /// Whether a write that was given up may still be carried out.
    pub(super) fn unsettled(&self) -> bool {
        self.unanswered
            .lock()
            .is_some_and(|at| at.elapsed() < SETTLES_WITHIN)
    }
}

fn lasts(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() < until)
}
