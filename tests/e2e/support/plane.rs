//! One API server as the suite sees it: dynamic objects as JSON, and waits that are woken by watches.

use super::kinds::{CLUSTER, Kind};
use fedgate_api::keys;
use futures::StreamExt;
use kube::{
    Api, Client,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy, WatchEvent, WatchParams,
    },
};
use kube_runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// An API server may take this long to fill its caches.
const WARM_UP: Duration = Duration::from_secs(20);

/// One plane under one user.
#[derive(Clone)]
pub(crate) struct Plane {
    /// Its name in the sandbox: `hub`, `alpha`, `dfw-1`, …
    pub(crate) name: String,
    client: Client,
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("a dynamic object is JSON")
}

/// `text` shortened for a failure message.
pub(crate) fn brief(object: Option<&Value>) -> String {
    let Some(object) = object else {
        return "absent".to_owned();
    };
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let mut text = serde_json::to_string(&object).expect("JSON prints");
    if text.len() > 4000 {
        let end = (0..=4000)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Plane {
    pub(crate) fn new(name: &str, client: Client) -> Self {
        Self {
            name: name.to_owned(),
            client,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = kind.resource();
        if kind.namespaced && !namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    fn at(&self, kind: &Kind, namespace: &str, name: &str) -> String {
        format!("{} {}/{namespace}/{name}", self.name, kind.name)
    }

    pub(crate) async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        let api = self.api(kind, namespace);
        let deadline = Instant::now() + WARM_UP;
        let mut answer = api.get_opt(name).await;
        while warms_up(&answer, deadline).await {
            answer = api.get_opt(name).await;
        }
        match answer {
            Ok(object) => object.as_ref().map(value),
            Err(error) => panic!("get {}: {error}", self.at(kind, namespace, name)),
        }
    }

    /// Everything of the kind in the namespace (all namespaces if empty) that has these labels.
    pub(crate) async fn list(&self, kind: &Kind, namespace: &str, labels: &str) -> Vec<Value> {
        let (api, params) = (self.api(kind, namespace), ListParams::default().labels(labels));
        let deadline = Instant::now() + WARM_UP;
        let mut answer = api.list(&params).await;
        while warms_up(&answer, deadline).await {
            answer = api.list(&params).await;
        }
        match answer {
            Ok(list) => list.items.iter().map(value).collect(),
            Err(error) => panic!("list {}: {error}", self.at(kind, namespace, "*")),
        }
    }

    /// Creates the object, whose type is filled in; the error is returned for tests of refusals.
    pub(crate) async fn try_create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
    ) -> kube::Result<Value> {
        self.post(kind, namespace, object, &PostParams::default()).await
    }

    /// Whether the server would create the object.
    pub(crate) async fn would_create(&self, kind: &Kind, namespace: &str, object: Value) -> bool {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.post(kind, namespace, object, &dry).await.is_ok()
    }

    async fn post(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
        params: &PostParams,
    ) -> kube::Result<Value> {
        let object = typed(kind, namespace, object);
        let created = self.api(kind, namespace).create(params, &object).await?;
        Ok(value(&created))
    }

    /// Replaces the object by PUT.
    pub(crate) async fn try_replace(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
        params: &PostParams,
    ) -> kube::Result<Value> {
        let object = typed(kind, namespace, object);
        let name = object.metadata.name.clone().expect("it has a name");
        let replaced = self.api(kind, namespace).replace(&name, params, &object).await?;
        Ok(value(&replaced))
    }

    /// Lets a cell join this hub that serves a city, is not ready and never will be.
    pub(crate) async fn join_unready(&self, name: &str, city: &str) {
        let taint = json!({"key": "fedgate.dev/absent", "effect": "NoSchedule"});
        let cluster = json!({
            "metadata": {"name": name, "labels": {keys::CITY_CODE: city}},
            "spec": {"syncMode": "Pull", "taints": [taint]},
        });
        self.create(&CLUSTER, "", cluster).await;
    }

    pub(crate) async fn create(&self, kind: &Kind, namespace: &str, object: Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap_or("?").to_owned();
        match self.try_create(kind, namespace, object).await {
            Ok(created) => created,
            Err(error) => panic!("create {}: {error}", self.at(kind, namespace, &name)),
        }
    }

    pub(crate) async fn try_merge(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> kube::Result<Value> {
        let patched = self
            .api(kind, namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(value(&patched))
    }

    /// One JSON merge patch.
    pub(crate) async fn merge(&self, kind: &Kind, namespace: &str, name: &str, patch: Value) -> Value {
        match self.try_merge(kind, namespace, name, &patch).await {
            Ok(patched) => patched,
            Err(error) => panic!("patch {}: {error}", self.at(kind, namespace, name)),
        }
    }

    /// Whether the server would take a JSON merge patch through the status endpoint.
    pub(crate) async fn would_merge_status(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> bool {
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let api = self.api(kind, namespace);
        api.patch_status(name, &dry, &Patch::Merge(patch)).await.is_ok()
    }

    /// What the server would make of a status by server-side apply, if it takes it.
    pub(crate) async fn would_apply_status(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        status: &Value,
    ) -> Option<Value> {
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::apply("probe").force()
        };
        let body = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name}, "status": status});
        let api = self.api(kind, namespace);
        let applied = api.patch_status(name, &params, &Patch::Apply(&body)).await;
        applied.ok().map(|object| value(&object))
    }

    /// One JSON merge patch through the status endpoint.
    pub(crate) async fn try_merge_status(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> kube::Result<Value> {
        let patched = self
            .api(kind, namespace)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(value(&patched))
    }

    /// One JSON merge patch of `status`.
    pub(crate) async fn merge_status(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        status: Value,
    ) -> Value {
        match self
            .try_merge_status(kind, namespace, name, &json!({"status": status}))
            .await
        {
            Ok(patched) => patched,
            Err(error) => panic!("patch status of {}: {error}", self.at(kind, namespace, name)),
        }
    }

    /// Deletes in the background; an absent object is fine.
    pub(crate) async fn delete(&self, kind: &Kind, namespace: &str, name: &str) {
        match self.try_delete(kind, namespace, name, None).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => panic!("delete {}: {error}", self.at(kind, namespace, name)),
            Ok(()) => {}
        }
    }

    pub(crate) async fn try_delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> kube::Result<()> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: uid.map(|uid| Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.api(kind, namespace).delete(name, &params).await.map(|_| ())
    }

    /// Every state of one object, from its present one on; `None` while it is absent.
    pub(crate) fn states(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> impl futures::Stream<Item = Option<Value>> + Send + Unpin + use<> {
        watcher::watch_object(self.api(kind, namespace), name)
            .default_backoff()
            .filter_map(|item| async move { item.ok().map(|object| object.as_ref().map(value)) })
            .boxed()
    }

    /// The version of the plane now; what happens to objects of the kind later has a higher one.
    pub(crate) async fn version(&self, kind: &Kind, namespace: &str) -> String {
        let list = self.api(kind, namespace).list(&ListParams::default()).await;
        let list = list.unwrap_or_else(|error| panic!("list {}: {error}", self.at(kind, namespace, "*")));
        list.metadata.resource_version.expect("a list has a version")
    }

    /// Every change of objects of the kind since that version, in order: the object, and whether it is there. Versions of
    /// the kinds of one API server can be compared.
    pub(crate) async fn history(&self, kind: &Kind, namespace: &str, since: &str) -> Vec<(u64, Value, bool)> {
        // The server sends what it has and ends the watch.
        let params = WatchParams::default().timeout(2).disable_bookmarks();
        let api = self.api(kind, namespace);
        let events = api.watch(&params, since).await;
        let events =
            events.unwrap_or_else(|error| panic!("watch {}: {error}", self.at(kind, namespace, "*")));
        let mut changes = Vec::new();
        for event in events.collect::<Vec<_>>().await {
            let (object, there) = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, true),
                Ok(WatchEvent::Deleted(object)) => (object, false),
                other => panic!("the history of {}: {other:?}", self.at(kind, namespace, "*")),
            };
            let version = object.metadata.resource_version.as_deref();
            let version = version.and_then(|version| version.parse().ok());
            changes.push((version.expect("versions are numbers"), value(&object), there));
        }
        changes
    }

    /// Waits until the object (or its absence) passes `test`, and returns it.
    pub(crate) async fn until(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        what: &str,
        limit: Duration,
        test: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let deadline = Instant::now() + limit;
        let mut states = self.states(kind, namespace, name);
        let mut last = None;
        loop {
            match timeout_at(deadline, states.next()).await {
                Ok(Some(state)) if test(state.as_ref()) => return state,
                Ok(Some(state)) => last = state,
                Ok(None) => panic!("the watch of {} ended", self.at(kind, namespace, name)),
                Err(tokio::time::error::Elapsed { .. }) => panic!(
                    "{}: waited {limit:?} in vain until it {what}; last seen: {}",
                    self.at(kind, namespace, name),
                    brief(last.as_ref())
                ),
            }
        }
    }

    /// Waits until the object is there and passes `test`.
    pub(crate) async fn sees(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        what: &str,
        limit: Duration,
        test: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until(kind, namespace, name, what, limit, |state| {
            state.is_some_and(&test)
        })
        .await
        .expect("the test asks for an object")
    }

    /// Waits until the object is there.
    pub(crate) async fn exists(&self, kind: &Kind, namespace: &str, name: &str, limit: Duration) -> Value {
        self.sees(kind, namespace, name, "exists", limit, |_| true).await
    }

    /// Waits until the object is absent.
    pub(crate) async fn gone(&self, kind: &Kind, namespace: &str, name: &str, limit: Duration) {
        self.until(kind, namespace, name, "is gone", limit, |state| state.is_none())
            .await;
    }

    /// Asserts that the object (or its absence) passes `test` in each of its states for all of `time`.
    pub(crate) async fn holds(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        what: &str,
        time: Duration,
        test: impl Fn(Option<&Value>) -> bool,
    ) {
        let deadline = Instant::now() + time;
        let mut states = self.states(kind, namespace, name);
        let mut seen = 0_u32;
        while let Ok(Some(state)) = timeout_at(deadline, states.next()).await {
            seen += 1;
            assert!(
                test(state.as_ref()),
                "{} must stay so that it {what}; seen: {}",
                self.at(kind, namespace, name),
                brief(state.as_ref())
            );
        }
        assert!(
            seen > 0,
            "{} was to be held to it that it {what}, but its watch showed no state in {time:?}",
            self.at(kind, namespace, name)
        );
    }
}

/// Waits until `check` gives something, looking again every 50 ms: for what no single watch shows.
pub(crate) async fn wait_for<T, F>(what: &str, limit: Duration, mut check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// `seconds(5)` reads better in a test than the constructor.
pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Whether an API server that has just started is still filling its caches; then this has waited a little.
async fn warms_up<T>(answer: &kube::Result<T>, deadline: Instant) -> bool {
    let busy = matches!(answer, Err(kube::Error::Api(status)) if status.code == 429);
    if busy && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
        return true;
    }
    false
}

/// An object of this kind, in this namespace.
fn typed(kind: &Kind, namespace: &str, mut object: Value) -> DynamicObject {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.name);
    if kind.namespaced {
        object["metadata"]["namespace"] = json!(namespace);
    }
    serde_json::from_value(object).expect("an object with metadata")
}

/// What an event brings about while other tests run: sooner than any timer of the gateway that could have done it.
pub(crate) const BY_EVENT: Duration = seconds(4);
