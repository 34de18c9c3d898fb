//! The requests of one watch: they wait for the plane's probe turns, and update its health.

use super::CallError;
use crate::{
    backoff,
    plane::health::{PlaneHealth, is_unwell},
};
use futures::FutureExt;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};
use tower::BoxError;

/// A watch that the server ends sooner than this after its start is restarted with a delay.
const SHORT: Duration = Duration::from_secs(1);

/// One watch, and its requests to its plane.
#[derive(Debug)]
pub struct WatchSession {
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
    /// True if the plane has answered a request of this watch other than to open it since it was open or has failed.
    answers: bool,
}

tokio::task_local! {
    static LINE: Arc<WatchSession>;
}

impl WatchSession {
    pub(in crate::plane) fn new(health: Arc<PlaneHealth>) -> Arc<Self> {
        let pace = Pace {
            asked: Instant::now(),
            open: None,
            short: 0,
            has_turn: false,
            answers: false,
        };
        Arc::new(Self {
            health,
            pace: Mutex::new(pace),
            opened: Notify::new(),
        })
    }

    /// Runs the work of the watch; its requests to the plane go through [`send_tracked`].
    pub(in crate::plane) async fn hold<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        LINE.scope(self, work).await
    }

    /// Waits until the server has opened the watch. A watch without changes delivers no event that would show this.
    pub(in crate::plane) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// True if the server has opened the watch since the last request.
    pub(in crate::plane) fn has_opened(&self) -> bool {
        self.opened.notified().now_or_never().is_some()
    }

    /// Records that the watch has failed; its own backoff delays the retry. Returns the time of its last request, and true
    /// if the plane has answered another request of this watch since its last failure.
    pub(in crate::plane) fn fails(&self) -> (Instant, bool) {
        let mut pace = self.pace.lock();
        pace.open = None;
        (pace.asked, std::mem::take(&mut pace.answers))
    }

    /// Waits for the watch's probe turn.
    pub(in crate::plane) async fn turn(&self) {
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
                    backoff::WATCH.delay(pace.short - 1, ())
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
            let mut pace = self.pace.lock();
            pace.open = Some(Instant::now());
            // Answers before the watch was open say nothing of a failure after it.
            pace.answers = false;
            self.opened.notify_one();
        } else if status.is_success() {
            self.pace.lock().answers = true;
        }
    }
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
