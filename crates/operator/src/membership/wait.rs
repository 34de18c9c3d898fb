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
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject},
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

const AGAIN: &str = "run the command again: it goes on where it ended";

/// Objects by namespace and name.
pub type Objects = BTreeMap<(String, String), DynamicObject>;

/// A set of objects to watch.
#[derive(Debug, Clone)]
pub struct Watched<'a> {
    kind: ApiResource,
    /// Empty for all.
    namespace: &'a str,
    config: watcher::Config,
}

impl<'a> Watched<'a> {
    /// All objects of a kind with these labels, or with any.
    pub fn all(kind: ApiResource, labels: &str) -> Self {
        let config = watcher::Config::default();
        Self {
            kind,
            namespace: "",
            config: if labels.is_empty() {
                config
            } else {
                config.labels(labels)
            },
        }
    }

    /// All objects of a kind in a namespace.
    pub fn within(kind: ApiResource, namespace: &'a str) -> Self {
        Self {
            namespace,
            ..Self::all(kind, "")
        }
    }

    /// A single object.
    pub fn one(kind: ApiResource, namespace: &'a str, name: &str) -> Self {
        Self {
            config: watcher::Config::default().fields(&format!("metadata.name={name}")),
            ..Self::within(kind, namespace)
        }
    }
}

/// Waits until `test` has an answer for the complete list. Its error of kind [`Kind::TimedOut`] says what is missing, and is
/// returned after `limit`; any other ends the wait.
pub async fn until<T>(
    plane: &Plane,
    watched: Watched<'_>,
    limit: Duration,
    test: impl Fn(&Objects) -> Result<T, Error>,
) -> Result<T, Error> {
    let api = plane.api(&watched.kind, watched.namespace);
    let mut events = std::pin::pin!(watcher(api, watched.config).default_backoff());
    let mut objects = Objects::new();
    let mut fresh = Objects::new();
    let deadline = tokio::time::Instant::now() + limit;
    let what = format!(
        "{} has not listed {} after {} s",
        plane.title,
        watched.kind.plural,
        limit.as_secs()
    );
    let mut missing = Error::new(Kind::TimedOut, what).next(AGAIN);
    loop {
        let event = match tokio::time::timeout_at(deadline, events.next()).await {
            Err(_) => return Err(missing),
            Ok(None) => {
                return Err(Error::new(
                    Kind::Failed,
                    format!("the watch on {} has ended", plane.title),
                ));
            }
            Ok(Some(Err(error))) if is_final(&error) => {
                let what = format!("cannot watch {} on {}", watched.kind.plural, plane.title);
                return Err(Error::new(Kind::Failed, what)
                    .because(error.to_string())
                    .next(AGAIN));
            }
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
        match test(&objects) {
            Err(error) if error.kind == Kind::TimedOut => missing = error,
            ended => return ended,
        }
    }
}

/// Waits until there is none of the objects that `left` names; `missing` is the error for their names.
pub async fn until_none(
    plane: &Plane,
    watched: Watched<'_>,
    limit: Duration,
    left: impl Fn(&Objects) -> Vec<String>,
    missing: impl Fn(&[String]) -> Error,
) -> Result<(), Error> {
    let test = |objects: &Objects| match &left(objects)[..] {
        [] => Ok(()),
        names => Err(missing(names)),
    };
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
    let watched = Watched::one(kind(API_VERSION, "Cluster"), "", name);
    let test = |objects: &Objects| {
        let found = objects.values().next();
        let found = found.ok_or_else(|| missing("it is not there"))?;
        let found = value(found);
        match Cluster(&found).pending(kinds) {
            Some(pending) => Err(missing(&pending)),
            None => Ok(found),
        }
    };
    until(hub, watched, limit, test).await
}

/// An object as JSON.
pub fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Waits until an object is gone whose deletion has begun, and says so.
pub async fn gone(plane: &Plane, object: &Value, limit: Duration) -> Result<(), Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let what = title(object);
    say(&format!(
        "{}: {what} is being deleted; waiting until it is gone",
        plane.title
    ));
    let kind = kind(&text(&object["apiVersion"]), &text(&object["kind"]));
    let uid = metadata["uid"].as_str();
    let is_gone = |objects: &Objects| {
        let mut same = objects
            .values()
            .filter(|found| found.metadata.uid.as_deref() == uid);
        let Some(last) = same.next() else { return Ok(()) };
        let what = format!(
            "{what} on {} is still being deleted after {} s",
            plane.title,
            limit.as_secs()
        );
        Err(Error::new(Kind::TimedOut, what).because(held_by(last)).next(
            "take away what holds it or start the program that would, then run the command again: it goes on where it ended",
        ))
    };
    until(plane, Watched::one(kind, &namespace, &name), limit, is_gone).await
}

/// The things for which an object waits that is being deleted: what a Namespace says, or its finalizers.
fn held_by(object: &DynamicObject) -> String {
    let conditions = object.data["status"]["conditions"].as_array();
    let holds = |condition: &&Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        condition["status"] == "True" && kind.starts_with("Namespace")
    };
    let conditions = conditions.into_iter().flatten().filter(holds);
    let said: Vec<&str> = conditions.filter_map(|c| c["message"].as_str()).collect();
    if !said.is_empty() {
        return said.join("; ");
    }
    let finalizers = object.metadata.finalizers.as_deref().unwrap_or_default();
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
        let object = |metadata: Value, status: Value| -> DynamicObject {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": status});
            serde_json::from_value(object).unwrap()
        };
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
