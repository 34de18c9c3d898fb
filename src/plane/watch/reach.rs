//! Whether a plane answers, as those who ask it find out together: while it does not, one of them in turn asks for all,
//! so that neither a dead plane nor one that comes back is stormed.

use super::trouble::{FIRST_DELAY, LONGEST_DELAY};
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

/// While a plane does not answer, it is asked once in this time.
pub const ASK_EVERY: Duration = Duration::from_secs(5);
/// A watch that the server ends sooner after its beginning is begun again with a delay.
const SHORT: Duration = Duration::from_secs(1);

/// What is known of a plane by all that ask it.
#[derive(Debug)]
pub struct Reach {
    state: Mutex<State>,
    /// Who waits to ask, first come first served: one to whom the plane never answers holds up no other.
    turns: Turns<()>,
    revival: Notify,
}

#[derive(Debug)]
struct State {
    /// `None` while it answers; else whether it is silent, or answers that it cannot.
    away: Option<Silence>,
    heard: Option<Instant>,
    next: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// No answer at all.
    Silent,
    /// An answer that says nothing of what was asked.
    Unwell,
}

impl Default for Reach {
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

impl Reach {
    /// The plane has answered: whoever waits for that goes on.
    pub fn heard(&self) {
        let was_away = {
            let mut state = self.state.lock();
            state.heard = Some(Instant::now());
            state.away.take().is_some()
        };
        if was_away {
            self.revive();
        }
    }

    /// Lets those that wait try again at once.
    pub(super) fn revive(&self) {
        self.revival.notify_waiters();
    }

    /// Waits until those that wait are to try again.
    pub async fn revived(&self) {
        self.revival.notified().await;
    }

    /// What was asked then had no good answer. Returns whether the plane is held to be away: not if it has answered
    /// someone since.
    pub(super) fn lost(&self, asked: Instant, silence: Silence) -> bool {
        let mut state = self.state.lock();
        if state.heard.is_some_and(|heard| heard > asked) {
            return false;
        }
        if state.away.replace(silence).is_none() {
            state.next = Instant::now();
        }
        true
    }

    /// What was asked then has failed.
    pub fn failed(&self, asked: Instant, error: &kube::Error) {
        match error {
            kube::Error::Api(status) if !is_unwell(status.code) => self.heard(),
            kube::Error::Api(_) => drop(self.lost(asked, Silence::Unwell)),
            // What cannot be sent or read says nothing of the plane.
            kube::Error::BuildRequest(_) | kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {}
            _ => self.silent(asked),
        }
    }

    /// What was asked then was given up without an answer.
    pub fn silent(&self, asked: Instant) {
        self.lost(asked, Silence::Silent);
    }

    /// Whether it does not answer.
    pub fn is_away(&self) -> bool {
        self.state.lock().away.is_some()
    }

    /// Waits until the plane may be asked: at once while it answers, else until it does or until it is one's turn.
    pub async fn turn(&self) {
        loop {
            let mut revived = pin!(self.revival.notified());
            revived.as_mut().enable();
            if !self.is_away() {
                return;
            }
            tokio::select! {
                biased;
                () = revived => {}
                () = self.scout() => return,
            }
        }
    }

    async fn scout(&self) {
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
        state.next = now + ASK_EVERY;
        Ok(())
    }

    /// One that cannot wait asks now: the others' turns come later.
    pub fn out_of_turn(&self) {
        let mut state = self.state.lock();
        if state.away.is_some() {
            state.next = Instant::now() + ASK_EVERY;
        }
    }

    /// A turn for one that does not wait for it; `None` unless the watches get no answer at all.
    pub fn try_turn(&self) -> Option<Result<(), Duration>> {
        let silent = self.state.lock().away == Some(Silence::Silent);
        silent.then(|| self.take_turn())
    }
}

/// One watch on its way to its plane.
#[derive(Debug)]
pub(super) struct Line {
    reach: Arc<Reach>,
    pace: Mutex<Pace>,
    opened: Notify,
}

#[derive(Debug)]
struct Pace {
    asked: Instant,
    /// Since when the server has told events, if the last it was asked for was a watch and has not failed.
    open: Option<Instant>,
    /// How often in a row that was short.
    short: u32,
    /// Whether it has had its turn for the next question.
    has_turn: bool,
}

tokio::task_local! {
    static LINE: Arc<Line>;
}

impl Line {
    pub(super) fn new(reach: Arc<Reach>) -> Arc<Self> {
        let pace = Pace {
            asked: Instant::now(),
            open: None,
            short: 0,
            has_turn: false,
        };
        Arc::new(Self {
            reach,
            pace: Mutex::new(pace),
            opened: Notify::new(),
        })
    }

    /// Does the work of the watch; what it asks of the plane meanwhile is [`asking`].
    pub(super) async fn hold<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        LINE.scope(self, work).await
    }

    /// Waits until the server has begun to tell events. A quiet watch says nothing by itself.
    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Whether it has since the last question.
    pub(super) fn has_opened(&self) -> bool {
        self.opened.notified().now_or_never().is_some()
    }

    /// The watch has failed, and waits as its own trouble says. Returns when it last asked.
    pub(super) fn fails(&self) -> Instant {
        let mut pace = self.pace.lock();
        pace.open = None;
        pace.asked
    }

    /// Waits for its turn to ask.
    pub(super) async fn turn(&self) {
        self.reach.turn().await;
        self.pace.lock().has_turn = true;
    }

    /// A watch that ends well is begun again at once, unless each ends as soon as it has begun.
    async fn pace(&self, watch: bool) {
        let pause = {
            let mut pace = self.pace.lock();
            // A list between two watches leaves the first one's end to be judged with the second.
            let ended = if watch { pace.open.take() } else { None };
            match ended.map(|at| at.elapsed() < SHORT) {
                Some(true) => {
                    pace.short += 1;
                    FIRST_DELAY
                        .saturating_mul(1 << (pace.short - 1).min(6))
                        .min(LONGEST_DELAY)
                }
                Some(false) => {
                    pace.short = 0;
                    Duration::ZERO
                }
                None => Duration::ZERO,
            }
        };
        tokio::time::sleep(pause).await;
        // One that ends well while the plane is away has waited for nothing yet.
        if !std::mem::take(&mut self.pace.lock().has_turn) {
            self.reach.turn().await;
        }
        self.pace.lock().asked = Instant::now();
    }

    fn heard(&self, status: StatusCode, watch: bool) {
        if !is_unwell(status.as_u16()) {
            self.reach.heard();
        }
        if watch && status.is_success() {
            self.pace.lock().open = Some(Instant::now());
            self.opened.notify_one();
        }
    }
}

/// Whether an answer says nothing of what was asked.
fn is_unwell(code: u16) -> bool {
    matches!(code, 401 | 429 | 500..)
}

/// Sends a request. If a watch of ours asks, the watch and its plane's others learn what came of it; and one that hangs
/// when the plane answers another is given up, to be asked anew.
pub async fn asking<B>(
    watch: bool,
    request: impl Future<Output = Result<Response<B>, BoxError>>,
) -> Result<Response<B>, BoxError> {
    let Ok(line) = LINE.try_with(Arc::clone) else {
        return request.await;
    };
    line.pace(watch).await;
    let hangs = async {
        if line.reach.is_away() {
            line.reach.revived().await;
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
        () = hangs => Err(CallError::Overtaken.into()),
    }
}

#[cfg(test)]
mod tests;
