//! Waits for events: list, then watch, until the objects pass a test.

use super::{
    change::title,
    cluster::{API_VERSION, Cluster},
    plane::{Plane, kind},
};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use futures::StreamExt;
use kube::api::ApiResource;
use kube_runtime::{
    WatchStreamExt,
    reflector::{reflector, store::Writer},
    watcher::{self, Event, watcher},
};
use serde_json::Value;
use std::time::Duration;

const AGAIN: &str = "run the command again: it goes on where it ended";

/// A set of objects to watch: their kind, their namespace or an empty one for all, and what selects them there.
pub type Watched<'a> = (ApiResource, &'a str, watcher::Config);

/// Selects the objects with these labels, or with any.
pub fn labelled(labels: &str) -> watcher::Config {
    watcher::Config::default().labels(labels)
}

/// Selects a single object.
pub fn named_object(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// Waits until `test` has an answer for the complete list. Its error of kind [`Kind::TimedOut`] says what is missing, and is
/// returned after `limit`; any other ends the wait. Without a complete list until then, the error has the last words of the server.
pub async fn until<T>(
    plane: &Plane,
    (kind, namespace, config): Watched<'_>,
    limit: Duration,
    test: impl Fn(&[Value]) -> Result<T, Error>,
) -> Result<T, Error> {
    let (title, plural) = (&plane.title, &kind.plural);
    let writer = Writer::new(kind.clone());
    let store = writer.as_reader();
    let events = watcher(plane.api(&kind, namespace), config).default_backoff();
    let mut events = std::pin::pin!(reflector(writer, events));
    let deadline = tokio::time::Instant::now() + limit;
    let what = format!("{title} has not listed {plural} after {} s", limit.as_secs());
    let mut missing = Error::timed_out(what).next(AGAIN);
    let mut is_listed = false;
    loop {
        match tokio::time::timeout_at(deadline, events.next()).await {
            Err(_) | Ok(None) => return Err(missing),
            Ok(Some(Err(error))) if is_final(&error) => {
                let what = format!("cannot watch {plural} on {title}");
                return Err(Error::failed(what).because(error.to_string()).next(AGAIN));
            }
            // The watch goes on after a pause.
            Ok(Some(Err(error))) => {
                if !is_listed {
                    missing = missing.because(error.to_string());
                }
                continue;
            }
            // A list is complete only with InitDone.
            Ok(Some(Ok(Event::Init | Event::InitApply(_)))) => continue,
            Ok(Some(Ok(_))) => is_listed = true,
        }
        let objects = store.state().into_iter();
        let objects: Vec<Value> = objects
            .map(|object| serde_json::to_value(&*object).unwrap_or_default())
            .collect();
        match test(&objects) {
            Err(error) if error.kind == Kind::TimedOut => missing = error,
            ended => return ended,
        }
    }
}

/// Waits until there is none of the objects that `left` names; `missing` is the error for their names. Without time it looks once, and
/// keeps only those objects.
pub async fn until_none(
    plane: &Plane,
    watched: Watched<'_>,
    limit: Duration,
    left: impl Fn(&Value) -> Option<String>,
    missing: impl Fn(&[String]) -> Error,
) -> Result<(), Error> {
    let test = |objects: &[Value]| {
        let mut names: Vec<String> = objects.iter().filter_map(&left).collect();
        names.sort();
        if names.is_empty() {
            Ok(())
        } else {
            Err(missing(&names))
        }
    };
    if limit.is_zero() {
        let (kind, namespace, config) = watched;
        let labels = config.label_selector.unwrap_or_default();
        let is_left = |object: &Value| left(object).is_some();
        return test(&plane.list_matching(&kind, namespace, &labels, is_left).await?);
    }
    until(plane, watched, limit, test).await
}

/// Waits until a Cluster is ready and serves the kinds; `missing` is the error for what it lacks.
pub async fn usable(
    hub: &Plane,
    name: &str,
    kinds: &[ApiResource],
    limit: Duration,
    missing: impl Fn(&str) -> Error,
) -> Result<Value, Error> {
    let watched = (kind(API_VERSION, "Cluster"), "", named_object(name));
    let test = |objects: &[Value]| {
        let found = objects.first().ok_or_else(|| missing("it is not there"))?;
        match Cluster(found).pending(kinds) {
            Some(pending) => Err(missing(&pending)),
            None => Ok(found.clone()),
        }
    };
    until(hub, watched, limit, test).await
}

/// Waits until an object is gone whose deletion has begun, and says so.
pub async fn gone(plane: &Plane, object: &Value, limit: Duration) -> Result<(), Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let (on, what) = (&plane.title, title(object));
    say(&format!(
        "{on}: {what} is being deleted; waiting until it is gone"
    ));
    let kind = kind(&text(&object["apiVersion"]), &text(&object["kind"]));
    let is_gone = |objects: &[Value]| {
        let mut objects = objects.iter();
        let same = objects.find(|found| found["metadata"]["uid"] == metadata["uid"]);
        let Some(same) = same else { return Ok(()) };
        let what = format!(
            "{what} on {on} is still being deleted after {} s",
            limit.as_secs()
        );
        Err(Error::timed_out(what).because(held_by(same)).next(
            "take away what holds it or start the program that would, then run the command again: it goes on where it ended",
        ))
    };
    until(plane, (kind, &namespace, named_object(&name)), limit, is_gone).await
}

/// The things for which an object waits that is being deleted: what a Namespace says, or its finalizers.
fn held_by(object: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let holds = |condition: &Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        condition["status"] == "True" && kind.starts_with("Namespace")
    };
    let conditions = list(&object["status"]["conditions"]);
    let conditions = conditions.iter().filter(|condition| holds(condition));
    let said: Vec<&str> = conditions.filter_map(|c| c["message"].as_str()).collect();
    if !said.is_empty() {
        return said.join("; ");
    }
    let finalizers = list(&object["metadata"]["finalizers"]);
    let finalizers: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
    if finalizers.is_empty() {
        return "the controllers of this API server have not emptied it yet".to_owned();
    }
    format!("it has finalizers: {}", finalizers.join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;

    #[test]
    fn what_holds_an_object_is_named() {
        let object = |metadata: Value, status: Value| json!({"metadata": metadata, "status": status});
        let remaining = json!({"conditions": [
            {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "all well"},
            {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "example.dev/x in 1 resource instances"},
        ]});
        let metadata = json!({"name": "a", "finalizers": ["example.dev/y"]});
        assert_eq!(
            held_by(&object(metadata.clone(), remaining)),
            "example.dev/x in 1 resource instances"
        );
        assert_eq!(
            held_by(&object(metadata, Value::Null)),
            "it has finalizers: example.dev/y"
        );
        assert!(held_by(&object(json!({"name": "a"}), Value::Null)).contains("controllers"));
    }

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
