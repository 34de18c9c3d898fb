//! Publishes what users are to read as Events, through one recorder for each plane.

use super::FIELD_MANAGER;
use crate::engine::{chance::HashMap, key::Plane, plan::Note};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use parking_lot::Mutex;

/// Longest message that the events API takes.
const LIMIT: usize = 1_024;

/// See the module.
pub(super) struct Notes {
    recorders: Mutex<HashMap<Plane, Recorder>>,
    reporter: Reporter,
}

impl Notes {
    /// Those of this process.
    pub(super) fn new(identity: String) -> Self {
        Self {
            recorders: Mutex::default(),
            reporter: Reporter {
                controller: FIELD_MANAGER.into(),
                instance: Some(identity),
            },
        }
    }

    /// Publishes one; if it is lost, the log says so at its finest.
    pub(super) async fn publish(&self, client: Client, note: &Note) {
        let recorder = self
            .recorders
            .lock()
            .entry(note.plane.clone())
            .or_insert_with(|| Recorder::new(client, self.reporter.clone()))
            .clone();
        let mut message = note.message.clone();
        message.truncate(message.floor_char_boundary(LIMIT));
        let event = Event {
            type_: if note.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: note.reason.clone(),
            note: Some(message),
            action: note.action.clone(),
            secondary: None,
        };
        let about = ObjectReference {
            api_version: Some(note.about.api_version.clone()),
            kind: Some(note.about.kind.clone()),
            namespace: Some(note.about.namespace.clone()),
            name: Some(note.about.name.clone()),
            uid: Some(note.about.uid.clone()),
            ..ObjectReference::default()
        };
        if let Err(error) = recorder.publish(&event, &about).await {
            tracing::debug!(plane = %note.plane, reason = note.reason, %error, "event not published");
        }
    }

    /// Forgets all but these planes.
    pub(super) fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.recorders.lock().retain(|plane, _| wanted(plane));
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.recorders.lock().len()
    }
}
