//! Watches one plane for one backend and executes the backend's decisions.

use super::{
    decide::{Act, quota::BUDGETS},
    store::{Kind, Objects},
};
use crate::cache;
use fedgate_karmada::Object;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};
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
    let mut events = stream::select_all(kinds.iter().map(|&kind| {
        let events = cache::watch(&client, &kind.resource(), selector(kind));
        events.map(move |event| (kind, event)).boxed()
    }));
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

/// The field selector of the objects of a kind that count.
fn selector(kind: Kind) -> Option<String> {
    let (namespace, name) = BUDGETS;
    (kind == Kind::Budgets).then(|| format!("metadata.namespace={namespace},metadata.name={name}"))
}

/// Decides and writes until nothing is left; true if it got that far.
async fn settle(plane: &str, client: &Client, objects: &mut Objects, backend: Backend) -> bool {
    for _ in 0..ROUNDS {
        if (backend.decide)(objects, Timestamp::now()).is_empty() {
            return true;
        }
        // Watches of two kinds are not ordered: settings written before an object was created must apply to that
        // object.
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &backend.settings.resource());
        let params = ListParams {
            field_selector: selector(backend.settings),
            ..ListParams::default()
        };
        match tokio::time::timeout(ANSWER_LIMIT, api.list(&params)).await {
            Ok(Ok(list)) => objects.replace(
                backend.settings,
                list.items.iter().map(|one| json!(one)).collect(),
            ),
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
async fn perform(client: Client, act: Act) -> Result<(Kind, Value), String> {
    let Act {
        kind,
        object,
        is_status,
    } = act;
    let api: Api<DynamicObject> = Api::namespaced_with(client, object.namespace(), &kind.resource());
    let call = async {
        let answer = if is_status {
            let (params, patch) = (PatchParams::default(), Patch::Merge(&object));
            api.patch_status(object.name(), &params, &patch).await
        } else {
            let new = DynamicObject::deserialize(&object).map_err(|e| e.to_string())?;
            api.create(&PostParams::default(), &new).await
        };
        let answer = answer.map(|object| (kind, json!(object)));
        answer.map_err(|e| e.to_string())
    };
    tokio::time::timeout(ANSWER_LIMIT, call)
        .await
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
}
