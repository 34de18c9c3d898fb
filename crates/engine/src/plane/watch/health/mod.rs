//! Health of a plane, shared by all its callers: while the plane does not answer, one caller in turn probes for all, so
//! that neither a plane that is down nor a plane that has just recovered is flooded with requests.

use super::failure::BACKOFF;
use crate::plane::client::CallError;
use futures::FutureExt;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex as Turns, Notify},
    time::Instant,
};
use tower::BoxError;

/// While a plane does not answer, it is probed once per this interval.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// A watch that the server ends sooner than this after its start is restarted with a delay.
const SHORT: Duration = Duration::from_secs(1);

/// Health of a plane, shared by all its callers.
#[derive(Debug)]
pub struct PlaneHealth {
    state: Mutex<State>,
    /// Callers that wait to probe, in order of arrival: a caller that never gets an answer blocks no other caller.
    turns: Turns<()>,
    revival: Notify,
}

#[derive(Debug)]
struct State {
    /// `None` while the plane answers; else it is silent or answers with errors.
    away: Option<Unreachable>,
    heard: Option<Instant>,
    next: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreachable {
    /// No answer at all.
    Silent,
    /// An answer that does not answer the request (401, 429, 5xx).
    Failing,
}

impl Default for PlaneHealth {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                away: None,
                heard: None,
                next: Instant::now(),
            }),
            turns: Turns::default(),
            revival: Notify::new(),
        }
    }
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
            state.next = Instant::now();
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
            _ => self.silent(asked),
        }
    }

    /// Records that a request sent at `asked` was abandoned without an answer.
    pub fn silent(&self, asked: Instant) {
        self.failure(asked, Unreachable::Silent);
    }

    /// True if the plane does not answer.
    pub fn is_down(&self) -> bool {
        self.state.lock().away.is_some()
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
        let wait = state.next.saturating_duration_since(now);
        if !wait.is_zero() {
            return Err(wait);
        }
        state.next = now + PROBE_INTERVAL;
        Ok(())
    }

    /// Records a probe by a caller that cannot wait; the turns of the other callers move back.
    pub fn probe_now(&self) {
        let mut state = self.state.lock();
        if state.away.is_some() {
            state.next = Instant::now() + PROBE_INTERVAL;
        }
    }

    /// Probe turn for a caller that does not wait; `Err` is the time until the next turn. `None` unless the plane is
    /// silent.
    pub fn admit_call(&self) -> Option<Result<(), Duration>> {
        let silent = self.state.lock().away == Some(Unreachable::Silent);
        silent.then(|| self.take_turn())
    }
}

/// One watch and its requests to its plane.
#[derive(Debug)]
pub(super) struct WatchSession {
    health: Arc<PlaneHealth>,
    pace: Mutex<Pace>,
    opened: Notify,
}

#[derive(Debug)]
struct Pace {
    asked: Instant,
    /// Time at which the server opened the watch; `None` if the last request was not a watch or the watch has failed.
    open: Option<Instant>,
    /// Number of consecutive watches that ended early.
    short: u32,
    /// True if the watch has already waited for the probe turn of its next request.
    has_turn: bool,
}

tokio::task_local! {
    static LINE: Arc<WatchSession>;
}

impl WatchSession {
    pub(super) fn new(health: Arc<PlaneHealth>) -> Arc<Self> {
        let pace = Pace {
            asked: Instant::now(),
            open: None,
            short: 0,
            has_turn: false,
        };
        Arc::new(Self {
            health,
            pace: Mutex::new(pace),
            opened: Notify::new(),
        })
    }

    /// Runs the work of the watch; its requests to the plane go through [`send_tracked`].
    pub(super) async fn hold<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        LINE.scope(self, work).await
    }

    /// Waits until the server has opened the watch. A watch without changes delivers no event that would show this.
    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// True if the server has opened the watch since the last request.
    pub(super) fn has_opened(&self) -> bool {
        self.opened.notified().now_or_never().is_some()
    }

    /// Records that the watch has failed; its own backoff delays the retry. Returns the time of its last request.
    pub(super) fn fails(&self) -> Instant {
        let mut pace = self.pace.lock();
        pace.open = None;
        pace.asked
    }

    /// Waits for the watch's probe turn.
    pub(super) async fn turn(&self) {
        self.health.probe_turn().await;
        self.pace.lock().has_turn = true;
    }

    /// A watch that ends without error is restarted at once, unless each watch ends soon after its start.
    async fn pace(&self, watch: bool) {
        let pause = {
            let mut pace = self.pace.lock();
            // The end of a watch that is followed by a list is judged at the next watch.
            let ended = if watch { pace.open.take() } else { None };
            match ended.map(|at| at.elapsed() < SHORT) {
                Some(true) => {
                    pace.short += 1;
                    BACKOFF.delay(pace.short - 1, ())
                }
                Some(false) => {
                    pace.short = 0;
                    Duration::ZERO
                }
                None => Duration::ZERO,
            }
        };
        tokio::time::sleep(pause).await;
        // A watch that ends without error while the plane is down has not waited for a probe turn yet.
        if !std::mem::take(&mut self.pace.lock().has_turn) {
            self.health.probe_turn().await;
        }
        self.pace.lock().asked = Instant::now();
    }

    fn heard(&self, status: StatusCode, watch: bool) {
        if !is_unwell(status.as_u16()) {
            self.health.success();
        }
        if watch && status.is_success() {
            self.pace.lock().open = Some(Instant::now());
            self.opened.notify_one();
        }
    }
}

/// True if the answer does not answer the request itself.
fn is_unwell(code: u16) -> bool {
    matches!(code, 401 | 429 | 500..)
}

/// Sends a request. A request of a watch updates the health of its plane and the state of the watch. If such a request
/// hangs while the plane answers another request, it is abandoned with [`CallError::Superseded`], to be sent again.
pub async fn send_tracked<B>(
    watch: bool,
    request: impl Future<Output = Result<Response<B>, BoxError>>,
) -> Result<Response<B>, BoxError> {
    let Ok(line) = LINE.try_with(Arc::clone) else {
        return request.await;
    };
    line.pace(watch).await;
    let hangs = async {
        if line.health.is_down() {
            line.health.recovered().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        answer = request => {
            if let Ok(response) = &answer {
                line.heard(response.status(), watch);
            }
            answer
        }
        () = hangs => Err(CallError::Superseded.into()),
    }
}

#[cfg(test)]
mod tests;
