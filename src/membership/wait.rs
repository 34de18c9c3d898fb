//! Waits for events: list, then watch, until the objects pass a test.

use super::{
    error::{Error, Kind},
    plane::Plane,
};
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject},
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use std::{collections::BTreeMap, time::Duration};

/// Objects by namespace and name.
pub type Objects = BTreeMap<(String, String), DynamicObject>;

/// A set of objects to watch.
#[derive(Debug, Clone)]
pub struct Watched<'a> {
    /// Their kind.
    pub kind: ApiResource,
    /// Their namespace; empty for all.
    pub namespace: &'a str,
    /// The name of a single object; empty for all.
    pub name: &'a str,
    /// Label selector; empty for all.
    pub labels: &'a str,
}

impl Watched<'_> {
    fn config(&self) -> watcher::Config {
        let mut config = watcher::Config::default();
        if !self.name.is_empty() {
            config = config.fields(&format!("metadata.name={}", self.name));
        }
        if !self.labels.is_empty() {
            config = config.labels(self.labels);
        }
        config
    }
}

/// Waits until `test` has an answer for the complete list. After `limit` the error has the text of `left` for the last list.
pub async fn until<T>(
    plane: &Plane,
    watched: &Watched<'_>,
    limit: Duration,
    test: impl Fn(&Objects) -> Option<T>,
    left: impl Fn(&Objects) -> String,
) -> Result<T, Error> {
    let api: Api<DynamicObject> = plane.api(&watched.kind, watched.namespace);
    let mut events = std::pin::pin!(watcher(api, watched.config()).default_backoff());
    let mut objects = Objects::new();
    let mut fresh = Objects::new();
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let event = match tokio::time::timeout_at(deadline, events.next()).await {
            Err(_) => return Err(Error::new(Kind::TimedOut, left(&objects))),
            Ok(None) => {
                return Err(Error::new(
                    Kind::Failed,
                    format!("the watch on {} has ended", plane.title),
                ));
            }
            Ok(Some(Err(error))) if is_final(&error) => return Err(failure(plane, &watched.kind, &error)),
            // The watch goes on after a pause.
            Ok(Some(Err(_))) => continue,
            Ok(Some(Ok(event))) => event,
        };
        let key = |object: &DynamicObject| (object.namespace().unwrap_or_default(), object.name_any());
        match event {
            // The list is complete only with InitDone.
            Event::Init => {
                fresh.clear();
                continue;
            }
            Event::InitApply(object) => {
                fresh.insert(key(&object), object);
                continue;
            }
            Event::InitDone => objects = std::mem::take(&mut fresh),
            Event::Apply(object) => {
                objects.insert(key(&object), object);
            }
            Event::Delete(object) => {
                objects.remove(&key(&object));
            }
        }
        if let Some(answer) = test(&objects) {
            return Ok(answer);
        }
    }
}

/// True if a repetition cannot help: the server refuses the request itself.
fn is_final(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    let code = match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => status.code,
        _ => return false,
    };
    matches!(code, 400 | 401 | 403 | 404 | 405)
}

fn failure(plane: &Plane, kind: &ApiResource, error: &watcher::Error) -> Error {
    Error::new(
        Kind::Failed,
        format!("cannot watch {} on {}", kind.plural, plane.title),
    )
    .because(error.to_string())
    .next("run the command again: it goes on where it ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn only_a_refusal_of_the_request_itself_ends_a_wait() {
        let answer = |code| {
            let status = Status {
                code,
                ..Status::default()
            };
            watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
        };
        for code in [401, 403, 404] {
            assert!(is_final(&answer(code)), "{code}");
        }
        for code in [410, 429, 500, 503] {
            assert!(!is_final(&answer(code)), "{code}");
        }
        assert!(!is_final(&watcher::Error::NoResourceVersion));
    }
}
