//! Watches one plane for one backend and executes the backend's decisions.

use super::{
    decide::{Act, quota::BUDGETS},
    store::{Kind, Objects},
};
use crate::child::FixedBackoff;
use futures::{Stream, StreamExt, future::ready, stream};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use serde_json::json;
use std::time::Duration;

/// Concurrent writes.
const PARALLEL: usize = 16;
/// Consecutive rounds of decisions before events are read again.
const ROUNDS: usize = 4;
/// Longest wait for the next event of a batch; `GATHER_LIMIT` bounds the whole batch.
const GATHER: Duration = Duration::from_millis(5);
const GATHER_LIMIT: Duration = Duration::from_millis(200);
const AGAIN_AFTER: Duration = Duration::from_millis(300);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A backend of a plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backend {
    /// The kinds that it watches.
    pub(super) kinds: &'static [Kind],
    /// The kind whose objects configure its behaviour.
    pub(super) settings: Kind,
    /// Computes its next writes.
    pub(super) decide: fn(&Objects, Timestamp) -> Vec<Act>,
}

/// Serves a plane forever: after every event, executes the backend's decisions until none is left. When idle, only the
/// watches remain.
pub(super) async fn serve(plane: String, client: Client, backend: Backend) {
    let kinds = backend.kinds;
    let mut objects = Objects::default();
    let mut events = stream::select_all(kinds.iter().map(|kind| watch(&client, *kind).boxed()));
    let mut settled = true;
    loop {
        let first = tokio::select! {
            first = events.next() => first,
            () = tokio::time::sleep(AGAIN_AFTER), if !settled => None,
        };
        if let Some((kind, event)) = first {
            objects.take(kind, event);
        }
        // The events of a burst arrive shortly after each other, and each round costs a list request.
        let until = tokio::time::Instant::now() + GATHER_LIMIT;
        while let Ok(Some((kind, event))) = tokio::time::timeout(GATHER, events.next()).await {
            objects.take(kind, event);
            if tokio::time::Instant::now() > until {
                break;
            }
        }
        settled = !objects.synced(kinds) || settle(&plane, &client, &mut objects, backend).await;
    }
}

/// The API of a kind and the field selector of the objects that count.
fn scope(client: &Client, kind: Kind) -> (Api<DynamicObject>, Option<String>) {
    match kind {
        Kind::Budgets => (
            Api::namespaced_with(client.clone(), BUDGETS.0, &kind.resource()),
            Some(format!("metadata.name={}", BUDGETS.1)),
        ),
        _ => (Api::all_with(client.clone(), &kind.resource()), None),
    }
}

fn watch(client: &Client, kind: Kind) -> impl Stream<Item = (Kind, Event<DynamicObject>)> + use<> {
    let (api, field_selector) = scope(client, kind);
    let config = watcher::Config {
        field_selector,
        ..watcher::Config::default()
    };
    watcher(api, config)
        .backoff(FixedBackoff)
        .modify(|object: &mut DynamicObject| object.metadata.managed_fields = None)
        .filter_map(move |event| {
            ready(match event {
                Ok(event) => Some((kind, event)),
                Err(error) => {
                    tracing::debug!(?kind, %error, "a watch broke and is opened again");
                    None
                }
            })
        })
}

/// Decides and writes until nothing is left; true if it got that far.
async fn settle(plane: &str, client: &Client, objects: &mut Objects, backend: Backend) -> bool {
    for _ in 0..ROUNDS {
        if (backend.decide)(objects, Timestamp::now()).is_empty() {
            return true;
        }
        // Watches of two kinds are not ordered: settings written before an object was created must apply to that
        // object.
        let (api, field_selector) = scope(client, backend.settings);
        let params = ListParams {
            field_selector,
            ..ListParams::default()
        };
        match tokio::time::timeout(ANSWER_LIMIT, api.list(&params)).await {
            Ok(Ok(list)) => objects.replace(backend.settings, list.items),
            _ => return false,
        }
        let acts = (backend.decide)(objects, Timestamp::now());
        let answers: Vec<_> = stream::iter(acts)
            .map(|act| perform(client.clone(), act))
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let mut failed = false;
        for answer in answers {
            match answer {
                Ok((kind, object)) => objects.put(kind, object),
                Err(reason) => {
                    tracing::debug!(plane, reason, "a write is tried again");
                    failed = true;
                }
            }
        }
        if failed {
            return false;
        }
    }
    false
}

/// Executes a write; returns the object as it is now.
async fn perform(client: Client, act: Act) -> Result<(Kind, DynamicObject), String> {
    let call = async {
        match act {
            Act::Create { kind, object } => {
                let object: DynamicObject = serde_json::from_value(object).map_err(|e| e.to_string())?;
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &kind.resource());
                let answer = api.create(&PostParams::default(), &object).await;
                answer.map(|object| (kind, object)).map_err(|e| e.to_string())
            }
            Act::Status {
                kind,
                namespace,
                name,
                version,
                status,
            } => {
                let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &kind.resource());
                let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
                let answer = api
                    .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
                    .await;
                answer.map(|object| (kind, object)).map_err(|e| e.to_string())
            }
        }
    };
    tokio::time::timeout(ANSWER_LIMIT, call)
        .await
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
}
