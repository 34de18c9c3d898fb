//! Requests of the load: sent until the answer is certain, because planes are killed while they answer.

use crate::{pending::pending, support::seconds};
use kube::core::Status;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long one attempt may take.
const ATTEMPT: Duration = seconds(20);
/// How long a plane may be unable to answer.
const LIMIT: Duration = seconds(150);

/// What became of a request.
pub(crate) type Answer<T> = Result<T, Box<Status>>;

/// Sends again until the server says yes or no; a server that starts or has lost its etcd says neither.
///
/// An attempt whose answer was lost may have been carried out: the caller must take `AlreadyExists` and `NotFound` for
/// what they may then mean.
pub(crate) async fn sure<T, F>(what: &str, attempt: impl Fn() -> F) -> Answer<T>
where
    F: Future<Output = kube::Result<T>>,
{
    let deadline = Instant::now() + LIMIT;
    let _pending = pending(what);
    loop {
        let last = match timeout(ATTEMPT, attempt()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(kube::Error::Api(status))) if is_no(&status) => return Err(status),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {ATTEMPT:?}"),
        };
        assert!(
            Instant::now() < deadline,
            "{what}: no certain answer in {LIMIT:?}: {last}"
        );
        sleep(Duration::from_millis(300)).await;
    }
}

fn is_no(status: &Status) -> bool {
    let passes = matches!(status.code, 401 | 408 | 429) || status.reason == "Conflict";
    // A path that the server does not know yet, rather than an object that is not there.
    let starting = status.code == 404
        && status
            .details
            .as_ref()
            .is_none_or(|details| details.name.is_empty());
    (400..500).contains(&status.code) && !passes && !starting
}
