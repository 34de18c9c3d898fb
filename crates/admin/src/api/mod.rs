//! The operations API on the administrative address (contract: operations.md §2): parses a request, asks the role, and
//! sends the answer. Everything is answered from memory.

mod answer;
mod position;
mod question;
mod refusal;
mod route;
mod streams;
mod topics;

pub use refusal::Refusal;
pub use route::{BASE, Route, Target};
pub use streams::{HangUp, STREAM};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::any,
};
use fedgate_engine::metrics::{Family, Metrics};
use fedgate_operations::{ErrorCode, OperationsSource};
use parking_lot::Mutex;
use position::Positions;
use question::Question;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use streams::{Open, Streams};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of requests that are answered at a time.
const AT_ONCE: usize = 8;
/// Maximum number of requests of one user of the hub among them.
const OF_USER: usize = 4;
/// Time limit of an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Metrics label of a path that does not exist.
const OTHER: &str = "other";
/// Statuses of answers.
const STATUSES: [u16; 11] = [200, 400, 401, 403, 404, 405, 410, 421, 429, 500, 503];

/// The source of the answers: the role, or before it runs the process itself.
pub type Provider = Arc<dyn Fn() -> Arc<dyn OperationsSource> + Send + Sync>;

/// The user of a request whom the hub named, among others. A request without one is that of an operator who has the token of
/// the file, or this machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct User(pub String);

/// The API of a process.
pub struct Operations {
    provider: Provider,
    positions: Positions,
    permits: Arc<Semaphore>,
    /// Permits of the users who ask.
    of_users: Mutex<BTreeMap<User, Arc<Semaphore>>>,
    streams: Streams,
    metrics: Arc<Metrics>,
}

impl Operations {
    /// The API of a process.
    pub fn new(provider: Provider, metrics: &Arc<Metrics>) -> Arc<Self> {
        let paths = Route::all().map(Route::path).chain([OTHER]);
        metrics.declare_operations(paths, &STATUSES);
        let positions = Positions::default();
        Arc::new(Self {
            streams: Streams::new(positions.process(), metrics.clone()),
            provider,
            positions,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            of_users: Mutex::default(),
            metrics: metrics.clone(),
        })
    }

    /// The routes, without a guard. Put [`count`] around the guard.
    pub fn router(self: &Arc<Self>) -> Router {
        let ask = |State(operations): State<Arc<Self>>, request: Request| async move {
            let response = operations.ask(&request.into_parts().0).await;
            response.unwrap_or_else(IntoResponse::into_response)
        };
        // A path that does not exist has a guard, too.
        let others = Router::new().route("/api/{*path}", any(ask));
        let add = |routes: Router<Arc<Self>>, route: Route| {
            routes.route(&format!("{BASE}{}", route.path()), any(ask))
        };
        Route::all().fold(others, add).with_state(self.clone())
    }

    async fn ask(&self, request: &Parts) -> Result<Response, Refusal> {
        let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
        let target = Target::of(request).await?.ok_or_else(|| no_path(path))?;
        let method = &request.method;
        if *method != Method::GET && *method != Method::HEAD {
            return Err(Refusal::new(
                ErrorCode::MethodNotAllowed,
                format!("{} is not served", question::shortened(method.as_str())),
                "use GET or HEAD",
            ));
        }
        let question = Question::of(target, query, &self.positions)?;
        let source = (self.provider)();
        let user = request.extensions.get::<User>().cloned();
        if question.target.route != Route::Events {
            return self.answer(source, question, user).await;
        }
        let selection = question::selection(question.topics.as_deref(), question.query.project.as_deref())?;
        if *method == Method::HEAD {
            return Ok(streams::headers(Body::empty()));
        }
        let last = request.headers.get("last-event-id");
        let last = last.and_then(|id| id.to_str().ok());
        let hang_up = request.extensions.get::<HangUp>().cloned().unwrap_or_default();
        let stream = Open::new(selection, user, hang_up);
        self.streams.open(source, stream, last).await
    }

    /// A permit of this user's share.
    fn permit_of(&self, user: User) -> Option<OwnedSemaphorePermit> {
        let mut users = self.of_users.lock();
        users.retain(|_, permits| permits.available_permits() < OF_USER);
        let permits = users.entry(user);
        let permits = permits.or_insert_with(|| Arc::new(Semaphore::new(OF_USER)));
        permits.clone().try_acquire_owned().ok()
    }

    /// Answers a question on a thread that may wait. The permit is held until that thread has ended, also if the
    /// requester has gone.
    async fn answer(
        &self,
        source: Arc<dyn OperationsSource>,
        question: Question,
        user: Option<User>,
    ) -> Result<Response, Refusal> {
        let of_user = user.map(|user| self.permit_of(user).ok_or(OF_USER)).transpose();
        let of_user = of_user.map_err(too_many)?;
        let permit = self.permits.clone().try_acquire_owned();
        let permit = permit.map_err(|_| too_many(AT_ONCE))?;
        let positions = self.positions.clone();
        let work = tokio::task::spawn_blocking(move || {
            let answer = answer::answer(&*source, &question, &positions);
            drop((permit, of_user));
            answer
        });
        match tokio::time::timeout(ANSWER_WITHIN, work).await {
            Ok(Ok(answer)) => Ok(refusal::json(StatusCode::OK, answer?)),
            Ok(Err(error)) => {
                tracing::error!(%error, "an answer of the operations API failed; report this");
                Err(Refusal::unavailable("the answer failed, see the log"))
            }
            Err(_) => Err(too_slow()),
        }
    }

    /// Counts an answer with its path and status.
    pub fn count(&self, route: Option<Route>, status: StatusCode, began: Instant) {
        let path = route.map_or(OTHER, Route::path);
        let metrics = &self.metrics;
        metrics.count(Family::OperationsRequests, &[path, status.as_str()]);
        metrics.observe(Family::OperationsSeconds, &[path], began.elapsed());
    }
}

fn too_many(limit: usize) -> Refusal {
    Refusal::busy(format!("{limit} requests are being answered already"))
}

fn too_slow() -> Refusal {
    Refusal::unavailable(format!("no answer within {ANSWER_WITHIN:?}; the process is busy"))
}

fn no_path(path: &str) -> Refusal {
    let all: Vec<_> = Route::all().map(Route::path).collect();
    Refusal::new(
        ErrorCode::NotFound,
        format!("there is no path {}", question::shortened(path)),
        format!("below {BASE} are {}", all.join(", ")),
    )
}

#[cfg(test)]
mod tests;
