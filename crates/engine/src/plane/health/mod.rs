//! Health of a plane, shared by all its callers: while the plane does not answer, one caller in turn probes for all, so
//! that neither a plane that is down nor a plane that has just recovered is flooded with requests.

pub mod host;
pub mod pace;

use crate::{circuit_breaker::CircuitBreaker, error::Category};
use parking_lot::Mutex;
use std::{pin::pin, time::Duration};
use tokio::{
    sync::{Mutex as Turns, Notify},
    time::Instant,
};

/// While a plane does not answer, it is probed once per this interval.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Health of a plane, shared by all its callers.
#[derive(Debug, Default)]
pub struct PlaneHealth {
    state: Mutex<State>,
    /// Callers that wait to probe, in order of arrival: a caller that never gets an answer blocks no other caller.
    turns: Turns<()>,
    revival: Notify,
    /// Opens after short calls that got no answer: then calls fail at once except for a periodic probe, so that they
    /// occupy no workers and do not flood a plane that recovers.
    calls: CircuitBreaker<()>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` while the plane answers; else it is silent or answers with errors.
    away: Option<Unreachable>,
    heard: Option<Instant>,
    /// Time of the next probe; `None` if it is due.
    next: Option<Instant>,
}

/// Reason why a plane counts as down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// No answer at all.
    Silent,
    /// An answer that does not answer the request (401, 429, 5xx).
    Failing,
}

impl PlaneHealth {
    /// Records that the plane has answered, and releases all callers that wait for that.
    pub fn success(&self) {
        let was_away = {
            let mut state = self.state.lock();
            state.heard = Some(Instant::now());
            state.away.take().is_some()
        };
        if was_away {
            self.notify_recovered();
        }
    }

    /// Lets all waiting callers retry at once.
    pub(super) fn notify_recovered(&self) {
        self.admit_all_calls();
        self.revival.notify_waiters();
    }

    /// Waits until waiting callers should retry.
    pub async fn recovered(&self) {
        self.revival.notified().await;
    }

    /// Records that a request sent at `asked` failed. True if the plane counts as down: not if it has answered another
    /// request since.
    pub(super) fn failure(&self, asked: Instant, silence: Unreachable) -> bool {
        let mut state = self.state.lock();
        if state.heard.is_some_and(|heard| heard > asked) {
            return false;
        }
        if state.away.replace(silence).is_none() {
            state.next = None;
        }
        true
    }

    /// Records that a request sent at `asked` failed with `error`.
    pub fn call_failed(&self, asked: Instant, error: &kube::Error) {
        match error {
            kube::Error::Api(status) if !is_unwell(status.code) => self.success(),
            kube::Error::Api(_) => drop(self.failure(asked, Unreachable::Failing)),
            // A request that cannot be built or a response that cannot be parsed is no evidence of the plane's health.
            kube::Error::BuildRequest(_) | kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {}
            _ => drop(self.failure(asked, Unreachable::Silent)),
        }
    }

    /// True if the plane does not answer.
    pub fn is_down(&self) -> bool {
        self.unreachable().is_some()
    }

    /// How the plane fails to answer; `None` while it answers.
    pub fn unreachable(&self) -> Option<Unreachable> {
        self.state.lock().away
    }

    /// Waits until the caller may send a request: at once while the plane answers, else until the plane recovers or the
    /// caller's probe turn comes.
    pub async fn probe_turn(&self) {
        loop {
            let mut revived = pin!(self.revival.notified());
            revived.as_mut().enable();
            if !self.is_down() {
                return;
            }
            tokio::select! {
                biased;
                () = revived => {}
                () = self.await_probe_turn() => return,
            }
        }
    }

    async fn await_probe_turn(&self) {
        let _first = self.turns.lock().await;
        while let Err(wait) = self.take_turn() {
            tokio::time::sleep(wait).await;
        }
    }

    fn take_turn(&self) -> Result<(), Duration> {
        let (mut state, now) = (self.state.lock(), Instant::now());
        if let Some(next) = state.next.filter(|next| *next > now) {
            return Err(next - now);
        }
        state.next = Some(now + PROBE_INTERVAL);
        Ok(())
    }

    /// Records a probe by a caller that cannot wait; the turns of the other callers move back.
    pub fn probe_now(&self) {
        let mut state = self.state.lock();
        if state.away.is_some() {
            state.next = Some(Instant::now() + PROBE_INTERVAL);
        }
    }

    /// Admits a short call, or returns the time to wait: while calls get no answer, one of them probes per interval. If
    /// the plane's watches get no answer either, the call takes a turn of theirs.
    pub fn admit_call(&self) -> Result<(), Duration> {
        if self.admits_all_calls() {
            return Ok(());
        }
        let silent = self.state.lock().away == Some(Unreachable::Silent);
        if silent {
            self.take_turn()
        } else {
            self.calls.admit(&())
        }
    }

    /// True unless short calls get no answer.
    pub fn admits_all_calls(&self) -> bool {
        !self.calls.is_held(&())
    }

    /// Admits all short calls again, because the plane answered or has another credential.
    pub fn admit_all_calls(&self) {
        self.calls.success(&());
    }

    /// Records the end of a short call; `failure` is `None` if it succeeded.
    pub fn call_ended(&self, failure: Option<Category>) {
        match failure {
            Some(Category::Network | Category::Timeout) => drop(self.calls.failure(&())),
            // The call was cancelled without waiting for the response.
            Some(Category::NotLeader) => {}
            _ if self.calls.success(&()) => self.success(),
            _ => {}
        }
    }
}

/// True if the answer does not answer the request itself.
pub(super) fn is_unwell(code: u16) -> bool {
    matches!(code, 401 | 429 | 500..)
}

#[cfg(test)]
mod tests;
