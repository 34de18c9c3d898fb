//! Publishes Events for users, with a recorder per plane.

use super::FIELD_MANAGER;
use crate::{
    key::Plane,
    plan::Event,
    random::{HashMap, Random},
    reconcile::throttle::{Rate, TokenBucket},
    shrink::shrink_if_sparse,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube_runtime::events::{Event as ApiEvent, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use std::{hash::BuildHasher, time::Duration};
use tokio::time::Instant;

/// Events of one reason about one object: as many in a row, and one per interval, as Kubernetes' own controllers publish about an
/// object. What a member or a tenant repeats costs a project no more requests.
const RATE: Rate = Rate {
    interval: Duration::from_mins(5),
    burst: 25,
};
/// Longest message that the events API accepts, in bytes.
const LIMIT: usize = 1_024;

/// The recorders, by plane.
pub(super) struct EventRecorder {
    recorders: Mutex<HashMap<Plane, Recorder>>,
    reporter: Reporter,
    /// By the hash of plane, object and reason.
    buckets: Mutex<HashMap<u64, TokenBucket>>,
}

impl EventRecorder {
    /// A recorder whose events name this process as the reporter.
    pub(super) fn new(identity: String) -> Self {
        Self {
            recorders: Mutex::default(),
            reporter: Reporter {
                controller: FIELD_MANAGER.into(),
                instance: Some(identity),
            },
            buckets: Mutex::default(),
        }
    }

    /// True if one more event of its reason may be published about its object; it counts from then on.
    fn admits(&self, event: &Event) -> bool {
        let now = Instant::now();
        let of = Random.hash_one((&event.plane, &event.about.uid, &event.reason));
        self.buckets.lock().entry(of).or_default().try_take(RATE, now)
    }

    /// Publishes an event, unless there were too many of its reason about its object; that and a failure are logged at debug
    /// level only.
    pub(super) async fn publish(&self, client: Client, event: &Event) {
        if !self.admits(event) {
            tracing::debug!(plane = %event.plane, reason = event.reason, "too many events of this reason about one object");
            return;
        }
        let recorder = self
            .recorders
            .lock()
            .entry(event.plane.clone())
            .or_insert_with(|| Recorder::new(client, self.reporter.clone()))
            .clone();
        let mut message = event.message.clone();
        message.truncate(message.floor_char_boundary(LIMIT));
        let published = ApiEvent {
            type_: if event.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: event.reason.clone(),
            note: Some(message),
            action: event.action.clone(),
            secondary: None,
        };
        let about = ObjectReference {
            api_version: Some(event.about.api_version.clone()),
            kind: Some(event.about.kind.clone()),
            // Of an object without namespace the recorder writes into `default`.
            namespace: Some(event.about.namespace.clone()).filter(|name| !name.is_empty()),
            name: Some(event.about.name.clone()),
            uid: Some(event.about.uid.clone()),
            ..ObjectReference::default()
        };
        if let Err(error) = recorder.publish(&published, &about).await {
            tracing::debug!(plane = %event.plane, reason = event.reason, %error, "event not published");
        }
    }

    /// Drops the recorders of all planes except these, and counts that no longer limit anything.
    pub(super) fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.recorders.lock().retain(|plane, _| wanted(plane));
        let now = Instant::now();
        let mut buckets = self.buckets.lock();
        buckets.retain(|_, bucket| !bucket.is_full(now));
        shrink_if_sparse(&mut buckets);
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn entry_count(&self) -> usize {
        self.recorders.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ObjectRef;
    use http::{Request, Response};
    use serde_json::json;
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    /// A client of a server that accepts each Event, and the number of its requests.
    fn server() -> (Client, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": null,
                "metadata": {"name": "x", "namespace": "default"}});
            let answer = Response::new(axum::body::Body::from(event.to_string()));
            async move { Ok::<_, Infallible>(answer) }
        });
        (Client::new(service, "default"), requests)
    }

    fn event(uid: &str, reason: &str, message: usize) -> Event {
        Event {
            plane: Plane::Hub,
            about: ObjectRef {
                api_version: "example.fedgate.dev/v1".into(),
                kind: "Vault".into(),
                namespace: "default".into(),
                name: "gold".into(),
                uid: uid.into(),
            },
            warning: true,
            reason: reason.into(),
            action: "ReturningSecret".into(),
            message: format!("Secret s-{message} is not the one that its object names"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_reason_is_told_of_an_object_25_times_in_a_row_and_then_once_in_five_minutes() {
        let (client, requests) = server();
        let recorder = EventRecorder::new("test".into());
        let mut message = 0;
        let mut tell = async |uid, reason, times: usize| {
            let before = requests.load(Ordering::Relaxed);
            for _ in 0..times {
                message += 1;
                recorder
                    .publish(client.clone(), &event(uid, reason, message))
                    .await;
            }
            requests.load(Ordering::Relaxed) - before
        };
        assert_eq!(tell("u", "ReturnRejected", 40).await, 25);
        assert_eq!(tell("u", "DeletionHeld", 1).await, 1, "another reason");
        assert_eq!(tell("v", "ReturnRejected", 1).await, 1, "another object");
        tokio::time::advance(Duration::from_mins(5)).await;
        assert_eq!(tell("u", "ReturnRejected", 3).await, 1);
    }
}
