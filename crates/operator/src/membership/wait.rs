//! Waits for events: list, then watch, until the objects pass a test.

use super::{
    change::title,
    error::{Error, Kind},
    executor::say,
    plane::{Plane, kind},
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
use serde_json::Value;
use std::{cell::RefCell, collections::BTreeMap, time::Duration};

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
    let watched = Watched {
        kind: kind(&text(&object["apiVersion"]), &text(&object["kind"])),
        namespace: &namespace,
        name: &name,
        labels: "",
    };
    let uid = metadata["uid"].as_str();
    let is_gone = |objects: &Objects| {
        let mut same = objects
            .values()
            .filter(|found| found.metadata.uid.as_deref() == uid);
        same.next().is_none().then_some(())
    };
    let holders = RefCell::new(String::new());
    let left = |objects: &Objects| {
        let last = objects.values().next();
        *holders.borrow_mut() = last.map(held_by).unwrap_or_default();
        format!(
            "{what} on {} is still being deleted after {} s",
            plane.title,
            limit.as_secs()
        )
    };
    let waited = until(plane, &watched, limit, is_gone, left).await;
    waited.map_err(|error| match error.kind {
        Kind::TimedOut => error.because(holders.take()).next(
            "take away what holds it or start the program that would, then run the command again: it goes on where it ended",
        ),
        _ => error,
    })
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
