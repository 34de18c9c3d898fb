//! Shared state of all reconciles: clients, mirrors and the calls to API servers.

use super::{
    mirror::Mirrors,
    queue::Queue,
    refs::{Key, Kind, NamespacedName, ObjectRef, Plane},
    wire,
};
use fedgate_kinds::lua::{Host, LuaError};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    discovery::Scope,
};
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

const CALL_LIMIT: Duration = Duration::from_secs(10);

/// The reason why a reconcile ended early. The key is retried after a delay; an event may enqueue it sooner.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// An API server rejected the call, or the connection failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// An API server did not answer in time.
    #[error("no answer within {} s: {what}", CALL_LIMIT.as_secs(), what = .0)]
    Timeout(String),
    /// A script failed.
    #[error("{0}: {1}")]
    Script(String, LuaError),
    /// The object that exists at the member is not the stand-in's to change.
    #[error("{0}")]
    Refused(String),
    /// A precondition is not met yet.
    #[error("waiting: {0}")]
    Wait(String),
}

impl StepError {
    /// True if another client wrote first; the retry decides again.
    pub(super) fn lost_race(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists())
    }

    /// The reason for messages; for an API server's rejection, its message alone.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Api(kube::Error::Api(status)) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// Shared state of all reconciles.
pub(super) struct World {
    /// The hub.
    pub(super) hub: Client,
    /// The members by name.
    pub(super) members: BTreeMap<Arc<str>, Client>,
    /// The objects that the watches cache.
    pub(super) mirrors: Mirrors,
    /// Writes that changed nothing more, by Work: the wanted and the observed content.
    pub(super) settled: Mutex<HashMap<NamespacedName, (Value, Value)>>,
    /// The keys to reconcile.
    pub(super) queue: Arc<Queue>,
    /// Runs the interpreters' scripts.
    pub(super) lua: Host,
    /// UID and generation of each binding whose dependencies are recorded and whose Works exist.
    pub(super) made: Mutex<HashMap<NamespacedName, (String, i64)>>,
    /// UID and generation of each policy whose unmatched claims are removed.
    pub(super) swept: Mutex<HashMap<NamespacedName, (String, i64)>>,
    recorder: Recorder,
    started: tokio::sync::mpsc::UnboundedSender<(Plane, Kind)>,
}

impl World {
    /// Creates the shared state. Kinds that must be watched are sent to `started`.
    pub(super) fn new(
        hub: Client,
        members: BTreeMap<Arc<str>, Client>,
        started: tokio::sync::mpsc::UnboundedSender<(Plane, Kind)>,
    ) -> Self {
        let reporter = Reporter {
            controller: "karmada-stand-in".to_owned(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(hub.clone(), reporter),
            hub,
            members,
            mirrors: Mirrors::default(),
            settled: Mutex::default(),
            queue: Arc::default(),
            lua: Host::new(),
            made: Mutex::default(),
            swept: Mutex::default(),
            started,
        }
    }

    /// Watches a kind from now on.
    pub(super) fn watch(&self, plane: &Plane, kind: &Kind) {
        if self.mirrors.ensure(plane, kind).1 {
            // The receiver is closed only when the stand-in ends.
            let _ = self.started.send((plane.clone(), kind.clone()));
        }
    }

    /// Watches a kind on the hub and at all members, because its objects are delivered.
    pub(super) fn watch_everywhere(&self, kind: &Kind) {
        self.watch(&Plane::Hub, kind);
        for member in self.members.keys() {
            self.watch(&Plane::Member(member.clone()), kind);
        }
    }

    /// Enqueues a key.
    pub(super) fn wake(&self, key: Key) {
        self.queue.add(key);
    }

    /// An object of the hub, from the watch cache.
    pub(super) fn hub_object(&self, at: &ObjectRef) -> Option<Arc<DynamicObject>> {
        self.mirrors.object(&Plane::Hub, at)
    }

    /// A binding, from the watch cache.
    pub(super) fn binding(&self, at: &NamespacedName) -> Option<Arc<DynamicObject>> {
        self.mirrors
            .get(&Plane::Hub, &at.binding_kind())?
            .get(&at.namespace, &at.name)
    }

    /// A policy, from the watch cache.
    pub(super) fn policy(&self, at: &NamespacedName) -> Option<Arc<DynamicObject>> {
        self.mirrors
            .get(&Plane::Hub, &at.policy_kind())?
            .get(&at.namespace, &at.name)
    }

    /// The Cluster objects.
    pub(super) fn clusters(&self) -> Vec<Arc<DynamicObject>> {
        self.mirrors.list(&Plane::Hub, &wire::cluster(), None)
    }

    /// The client of a plane.
    pub(super) fn client(&self, plane: &Plane) -> Result<&Client, StepError> {
        match plane {
            Plane::Hub => Ok(&self.hub),
            Plane::Member(name) => self
                .members
                .get(name)
                .ok_or_else(|| StepError::Wait(format!("no client for member {name}"))),
        }
    }

    /// The API of a kind in a namespace.
    pub(super) fn api(
        &self,
        plane: &Plane,
        kind: &Kind,
        namespace: &str,
    ) -> Result<Api<DynamicObject>, StepError> {
        let mirror = self.mirrors.get(plane, kind);
        let Some((resource, scope)) = mirror.as_ref().and_then(|mirror| mirror.served.get()) else {
            return Err(StepError::Wait(format!(
                "{plane:?} does not serve {} of {}",
                kind.kind, kind.api_version
            )));
        };
        let client = self.client(plane)?.clone();
        Ok(match scope {
            Scope::Namespaced => Api::namespaced_with(client, namespace, resource),
            Scope::Cluster => Api::all_with(client, resource),
        })
    }

    /// Replaces an object of the hub as a whole; its resourceVersion must be current.
    pub(super) async fn replace(
        &self,
        kind: &Kind,
        object: &DynamicObject,
    ) -> Result<DynamicObject, StepError> {
        let at = ObjectRef::to(kind, object);
        let api = self.api(&Plane::Hub, kind, &at.namespace)?;
        limited(
            &at,
            "replace",
            api.replace(&at.name, &PostParams::default(), object),
        )
        .await
    }

    /// Creates an object on the hub.
    pub(super) async fn create(
        &self,
        kind: &Kind,
        object: &DynamicObject,
    ) -> Result<DynamicObject, StepError> {
        let at = ObjectRef::to(kind, object);
        let api = self.api(&Plane::Hub, kind, &at.namespace)?;
        limited(&at, "create", api.create(&PostParams::default(), object)).await
    }

    /// Merges `patch` into an object of the hub, if its resourceVersion is still current.
    pub(super) async fn merge(
        &self,
        kind: &Kind,
        object: &DynamicObject,
        mut patch: Value,
    ) -> Result<DynamicObject, StepError> {
        let at = ObjectRef::to(kind, object);
        patch["metadata"]["resourceVersion"] = json!(object.metadata.resource_version);
        let api = self.api(&Plane::Hub, kind, &at.namespace)?;
        limited(
            &at,
            "patch",
            api.patch(&at.name, &PatchParams::default(), &Patch::Merge(&patch)),
        )
        .await
    }

    /// Merges `status` into the status of an object of the hub, if its resourceVersion is still current.
    pub(super) async fn merge_status(
        &self,
        kind: &Kind,
        object: &DynamicObject,
        status: Value,
    ) -> Result<DynamicObject, StepError> {
        let at = ObjectRef::to(kind, object);
        let version = &object.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        let api = self.api(&Plane::Hub, kind, &at.namespace)?;
        limited(
            &at,
            "patch the status of",
            api.patch_status(&at.name, &PatchParams::default(), &Patch::Merge(&patch)),
        )
        .await
    }

    /// Records a warning Event for an object of the hub. A failure to record it is only logged.
    pub(super) async fn warn(&self, object: &DynamicObject, reason: &str, note: &str) {
        let types = object.types.clone().unwrap_or_default();
        let meta = &object.metadata;
        let reference = ObjectReference {
            api_version: Some(types.api_version),
            kind: Some(types.kind),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: "Reconciling".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(%error, reason, "an Event could not be written");
        }
    }
}

/// Deletes a member's object in the background. An object that is gone or was replaced by another UID is no error.
pub(super) async fn delete_in_background(
    api: &Api<DynamicObject>,
    at: &ObjectRef,
    object: &DynamicObject,
) -> Result<(), StepError> {
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions {
            uid: object.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match limited(at, "delete", api.delete(&at.name, &params)).await {
        Ok(_) => Ok(()),
        Err(StepError::Api(kube::Error::Api(status))) if status.is_not_found() || status.is_conflict() => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Bounds a call to `CALL_LIMIT`.
pub(super) async fn limited<T>(
    at: &ObjectRef,
    verb: &str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, StepError> {
    match tokio::time::timeout(CALL_LIMIT, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(StepError::Timeout(format!("{verb} {at}"))),
    }
}

/// The current time, in the format of conditions.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An object's resourceVersion as a number; 0 if it has none.
pub(super) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
