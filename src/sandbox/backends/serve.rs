//! Watches one plane for one backend and performs what it decides.

use super::{
    decide::{Act, quota::BUDGETS},
    store::{Kind, Objects},
};
use crate::sandbox::child::Steady;
use futures::{FutureExt, Stream, StreamExt, future::ready, stream};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::json;
use std::time::Duration;

/// Writes at a time.
const PARALLEL: usize = 16;
/// Decisions in a row, so that events are not kept waiting.
const ROUNDS: usize = 4;
const AGAIN_AFTER: Duration = Duration::from_millis(300);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Serves a plane for ever: after every event, whatever `decide` says is done until it says no more. At rest there
/// are the watches and nothing else.
pub(super) async fn serve(
    plane: String,
    client: Client,
    kinds: &'static [Kind],
    decide: fn(&Objects, Timestamp) -> Vec<Act>,
) {
    let mut objects = Objects::default();
    let mut events = stream::select_all(kinds.iter().map(|kind| watch(&client, *kind).boxed()));
    let mut settled = true;
    loop {
        let first = tokio::select! {
            first = events.next() => first,
            () = tokio::time::sleep(AGAIN_AFTER), if !settled => None,
        };
        let more = std::iter::from_fn(|| events.next().now_or_never().flatten());
        for (kind, event) in first.into_iter().chain(more) {
            objects.take(kind, event);
        }
        settled = !objects.synced(kinds) || settle(&plane, &client, &mut objects, decide).await;
    }
}

fn watch(client: &Client, kind: Kind) -> impl Stream<Item = (Kind, Event<DynamicObject>)> + use<> {
    let config = watcher::Config::default();
    let (api, config) = match kind {
        Kind::Budgets => (
            Api::namespaced_with(client.clone(), BUDGETS.0, &kind.resource()),
            config.fields(&format!("metadata.name={}", BUDGETS.1)),
        ),
        _ => (Api::all_with(client.clone(), &kind.resource()), config),
    };
    watcher(api, config)
        .backoff(Steady)
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

/// Decides and writes until there is nothing left; whether that was reached.
async fn settle(
    plane: &str,
    client: &Client,
    objects: &mut Objects,
    decide: fn(&Objects, Timestamp) -> Vec<Act>,
) -> bool {
    for _ in 0..ROUNDS {
        let acts = decide(objects, Timestamp::now());
        if acts.is_empty() {
            return true;
        }
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

/// One write; the object as it is now.
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
