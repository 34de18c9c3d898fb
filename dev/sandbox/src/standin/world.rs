//! Shared state of all reconciles: planes with their caches, and the calls to API servers.

use super::refs::{CLUSTER, Kind, ObjectRef};
use crate::{
    cache::{Cache, Change},
    conditions::time,
};
use fedgate_api::names::short_hash;
use fedgate_karmada::Object;
use fedgate_kinds::lua::Host;
use futures::channel::mpsc::UnboundedSender;
use kube::{
    Client, Resource,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
    core::Request,
};
use kube_runtime::{scheduler::ScheduleRequest, watcher};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

const CALL_LIMIT: Duration = Duration::from_secs(10);

/// The reason why a reconcile ended early. The key is retried after a delay; an event may enqueue it sooner.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// An API server rejected the call, or the connection failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// A script failed, or the object that exists is not the stand-in's to change.
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

/// A write to one object.
pub(super) enum Call<'a> {
    Create(&'a Value),
    /// The object's resourceVersion must be current.
    Replace(&'a Value),
    ReplaceStatus(&'a Value),
    /// A JSON merge patch.
    Merge(&'a Value),
    MergeStatus(&'a Value),
    Delete(&'a DeleteParams),
}

/// A watched kind.
#[derive(Default)]
struct Watched {
    /// Plural, once the plane serves the kind.
    served: Option<ApiResource>,
    cache: Cache,
}

/// An API server.
pub(super) struct Plane {
    /// Name of the member; empty for the hub.
    pub(super) name: String,
    pub(super) client: Client,
    kinds: RwLock<HashMap<Kind, Watched>>,
}

impl Plane {
    pub(super) fn new(name: &str, client: Client) -> Arc<Self> {
        let (name, kinds) = (name.to_owned(), RwLock::default());
        Arc::new(Self { name, client, kinds })
    }

    /// The plane serves a kind.
    pub(super) fn set_served(&self, kind: &str, resource: ApiResource) {
        if let Some(watched) = self.kinds.write().get_mut(kind) {
            watched.served = Some(resource);
        }
    }

    /// Applies an event of a watch.
    pub(super) fn take(&self, kind: &str, event: watcher::Event<Value>) -> Vec<Change> {
        let mut kinds = self.kinds.write();
        kinds
            .get_mut(kind)
            .map(|watched| watched.cache.take(event))
            .unwrap_or_default()
    }

    /// Returns an object, if its kind is watched and it exists.
    pub(super) fn get(&self, at: &ObjectRef) -> Option<Arc<Value>> {
        self.kinds
            .read()
            .get(&at.kind)?
            .cache
            .get(&at.namespace, &at.name)
            .cloned()
    }

    /// All objects of a kind, or those of one namespace.
    pub(super) fn list(&self, kind: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let kinds = self.kinds.read();
        let objects = kinds
            .get(kind)
            .into_iter()
            .flat_map(|watched| watched.cache.list(namespace));
        objects.cloned().collect()
    }

    /// Fails unless the first lists of these kinds are complete.
    pub(super) fn synced(&self, kinds: &[&str]) -> Result<(), StepError> {
        let watched = self.kinds.read();
        let is_synced = |kind: &str| watched.get(kind).is_some_and(|watched| watched.cache.synced());
        match kinds.iter().find(|kind| !is_synced(kind)) {
            Some(kind) => Err(StepError::Wait(format!(
                "the first list of {kind} at {:?}",
                self.name
            ))),
            None => Ok(()),
        }
    }

    /// Sends a write and returns the answer.
    pub(super) async fn send(&self, at: &ObjectRef, call: Call<'_>) -> Result<Value, StepError> {
        let served = self
            .kinds
            .read()
            .get(&at.kind)
            .and_then(|watched| watched.served.clone());
        let Some(resource) = served else {
            return Err(StepError::Wait(format!(
                "plane {:?} does not serve {}",
                self.name, at.kind
            )));
        };
        let namespace = Some(&*at.namespace).filter(|namespace| !namespace.is_empty());
        let path = Request::new(DynamicObject::url_path(&resource, namespace));
        let (name, post, params) = (&at.name, PostParams::default(), PatchParams::default());
        let body = |object: &Value| object.to_string().into_bytes();
        let request = match call {
            Call::Create(object) => path.create(&post, body(object)),
            Call::Replace(object) => path.replace(name, &post, body(object)),
            Call::ReplaceStatus(object) => path.replace_subresource("status", name, &post, body(object)),
            Call::Merge(changes) => path.patch(name, &params, &Patch::Merge(changes)),
            Call::MergeStatus(changes) => {
                path.patch_subresource("status", name, &params, &Patch::Merge(changes))
            }
            Call::Delete(how) => path.delete(name, how),
        };
        let answer = self.client.request(request.map_err(kube::Error::BuildRequest)?);
        let late = |_| StepError::Wait(format!("no answer about {at} in {} s", CALL_LIMIT.as_secs()));
        Ok(tokio::time::timeout(CALL_LIMIT, answer).await.map_err(late)??)
    }

    /// Merges `patch` into an object, if its resourceVersion is still current.
    pub(super) async fn merge(&self, object: &Value, mut patch: Value) -> Result<Value, StepError> {
        patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
        self.send(&ObjectRef::of(object), Call::Merge(&patch)).await
    }

    /// Merges `status` into the status of an object, if its resourceVersion is still current.
    pub(super) async fn merge_status(&self, object: &Value, status: Value) -> Result<Value, StepError> {
        let version = &object["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        self.send(&ObjectRef::of(object), Call::MergeStatus(&patch)).await
    }

    /// Removes finalizers from an object.
    pub(super) async fn remove_finalizers(&self, object: &Value, own: &[&str]) -> Result<(), StepError> {
        let mut left = object.finalizers().to_vec();
        left.retain(|have| !own.iter().any(|own| have == own));
        if left.len() == object.finalizers().len() {
            return Ok(());
        }
        let patch = json!({"metadata": {"finalizers": left}});
        self.merge(object, patch).await.map(drop)
    }

    /// Deletes an object in the background. An object that is gone or was replaced by another UID is no error.
    pub(super) async fn delete(&self, object: &Value) -> Result<(), StepError> {
        if object.is_deleting() {
            return Ok(());
        }
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(object.uid().to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.send(&ObjectRef::of(object), Call::Delete(&params)).await {
            Err(StepError::Api(kube::Error::Api(status)))
                if status.is_not_found() || status.is_conflict() =>
            {
                Ok(())
            }
            answer => answer.map(drop),
        }
    }
}

/// Shared state of all reconciles.
pub(super) struct World {
    pub(super) hub: Arc<Plane>,
    /// The members by name.
    pub(super) members: BTreeMap<String, Arc<Plane>>,
    /// Runs the interpreters' scripts.
    pub(super) lua: Host,
    /// Writes that changed nothing more, by Work: the wanted and the observed content.
    pub(super) settled: Mutex<HashMap<ObjectRef, (Value, Value)>>,
    /// UID and generation of each binding whose Works exist, and of each policy whose unmatched claims are removed.
    done: Mutex<HashMap<ObjectRef, [Value; 2]>>,
    started: UnboundedSender<(Arc<Plane>, Kind)>,
    queue: UnboundedSender<ScheduleRequest<ObjectRef>>,
}

fn state(object: &Value) -> [Value; 2] {
    ["uid", "generation"].map(|key| object["metadata"][key].clone())
}

impl World {
    /// Creates the shared state. Kinds that must be watched are sent to `started`, objects to reconcile to `queue`.
    pub(super) fn new(
        hub: Client,
        members: BTreeMap<String, Client>,
        started: UnboundedSender<(Arc<Plane>, Kind)>,
        queue: UnboundedSender<ScheduleRequest<ObjectRef>>,
    ) -> Self {
        let members = members.into_iter();
        Self {
            hub: Plane::new("", hub),
            members: members
                .map(|(name, client)| (name.clone(), Plane::new(&name, client)))
                .collect(),
            lua: Host::new(),
            settled: Mutex::default(),
            done: Mutex::default(),
            started,
            queue,
        }
    }

    /// Watches a kind of a plane.
    pub(super) fn watch(&self, plane: &Arc<Plane>, kind: &str) {
        let names_none = kind.ends_with('/');
        if names_none || plane.kinds.read().contains_key(kind) {
            return;
        }
        if let Entry::Vacant(entry) = plane.kinds.write().entry(kind.to_owned()) {
            entry.insert(Watched::default());
            // The receiver is closed only when the stand-in ends.
            let _ = self.started.unbounded_send((Arc::clone(plane), kind.to_owned()));
        }
    }

    /// Watches a kind on the hub and at all members, because its objects are delivered.
    pub(super) fn watch_everywhere(&self, kind: &str) {
        for plane in [&self.hub].into_iter().chain(self.members.values()) {
            self.watch(plane, kind);
        }
    }

    /// Enqueues an object of the hub.
    pub(super) fn wake(&self, object: &Value) {
        self.enqueue(ObjectRef::of(object), Duration::ZERO);
    }

    /// Enqueues an object after a delay; one that is being reconciled is reconciled again afterwards.
    pub(super) fn enqueue(&self, message: ObjectRef, delay: Duration) {
        let run_at = Instant::now() + delay;
        // The receiver is closed only when the stand-in ends.
        let _ = self.queue.unbounded_send(ScheduleRequest { message, run_at });
    }

    /// The Cluster of a member.
    pub(super) fn cluster(&self, member: &str) -> Option<Arc<Value>> {
        self.hub.get(&ObjectRef::new(CLUSTER, "", member))
    }

    /// True if this version of an object was recorded with [`World::set_done`].
    pub(super) fn is_done(&self, object: &Value) -> bool {
        self.done.lock().get(&ObjectRef::of(object)) == Some(&state(object))
    }

    /// Records that this version of an object needs no further work.
    pub(super) fn set_done(&self, object: &Value) {
        self.done.lock().insert(ObjectRef::of(object), state(object));
    }

    /// Forgets the versions of an object.
    pub(super) fn forget(&self, at: &ObjectRef) {
        self.done.lock().remove(at);
    }

    /// Creates an object of the hub, or replaces the existing one by what `join` makes of it.
    pub(super) async fn keep(
        &self,
        desired: &Value,
        join: impl FnOnce(&Value) -> Result<Option<Value>, StepError>,
    ) -> Result<(), StepError> {
        let at = ObjectRef::of(desired);
        let Some(existing) = self.hub.get(&at) else {
            return self.hub.send(&at, Call::Create(desired)).await.map(drop);
        };
        match join(&existing)? {
            Some(next) => self.hub.send(&at, Call::Replace(&next)).await.map(drop),
            None => Ok(()),
        }
    }
}

/// The current time, in the format of conditions.
pub(super) fn now() -> String {
    time(jiff::Timestamp::now())
}

/// A permanent ID in the form of a UUID. Karmada's is random; here it is a hash of `seed`, so that a retried write has
/// the same content.
pub(super) fn permanent_id(seed: &str) -> String {
    let mut id = short_hash(seed, 32);
    for at in [20, 16, 12, 8] {
        id.insert(at, '-');
    }
    id
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_permanent_id_follows_from_its_seed() {
        let id = super::permanent_id("x");
        assert_eq!((id.len(), id.matches('-').count()), (36, 4));
        assert_eq!(id, super::permanent_id("x"));
    }
}
