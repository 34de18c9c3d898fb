//! Publishes Events for users, with a recorder per plane.

use super::FIELD_MANAGER;
use crate::{key::Plane, plan::Event, random::HashMap};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube_runtime::events::{Event as ApiEvent, EventType, Recorder, Reporter};
use parking_lot::Mutex;

/// Longest message that the events API accepts, in bytes.
const LIMIT: usize = 1_024;

/// The recorders, by plane.
pub(super) struct EventRecorder {
    recorders: Mutex<HashMap<Plane, Recorder>>,
    reporter: Reporter,
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
        }
    }

    /// Publishes an event; a failure is logged at debug level only.
    pub(super) async fn publish(&self, client: Client, event: &Event) {
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

    /// Drops the recorders of all planes except these.
    pub(super) fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.recorders.lock().retain(|plane, _| wanted(plane));
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn kept(&self) -> usize {
        self.recorders.lock().len()
    }
}
