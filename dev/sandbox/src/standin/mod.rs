//! A STAND-IN for Karmada, for tests without Karmada's executables. It is not Karmada and shares no code with it; where
//! the two differ, Karmada is right and the stand-in must be fixed.
//!
//! The stand-in replaces the controllers of the hub that a federation gateway depends on. It is event-driven:
//!
//! * policies get a permanent ID and a finalizer (by a patch after their creation; Karmada has an admission webhook);
//! * the policy that matches a template claims it, with a PUT of the whole object; the template gets a binding;
//! * bindings are scheduled by the clusters' labels, names, taints and kinds, to every match or to as many as a spread
//!   constraint admits, and get conditions and members' status;
//! * a Work says what a member gets of a template, unless it is suspended: the template with Karmada's keys; drift is
//!   reverted; when the Work ends the object is deleted in the background or, preserved, loses Karmada's keys; a member
//!   whose Cluster is not ready gets neither; a Cluster that leaves takes its Works along, but (unlike Karmada's) none of
//!   the member's objects;
//! * the Lua scripts of `ResourceInterpreterCustomizations` reflect and aggregate status;
//! * `ConfigMaps` and Secrets that a template depends on are synced with it through attached bindings;
//! * Namespaces without the skip label are synced to every member.
//!
//! The stand-in has no override policies, replicas, failover, preemption or spread constraints by anything but clusters. The hub
//! needs a garbage collector, which deletes a binding when its template is deleted.
//!
//! All state is in the API servers; the state in memory is rebuilt after a start. Decisions are in the crate
//! `fedgate-karmada`; `template`, `bind` and `deliver` are the reconcilers that execute them; `wake` maps each event to the
//! objects that it enqueues.

mod bind;
mod deliver;
mod health;
mod interpret;
mod refs;
mod template;
mod wake;
mod works;
mod world;

use crate::{
    cache,
    child::{StandInArgs, client},
    users::Own,
};
use anyhow::anyhow;
use futures::{
    Stream, StreamExt,
    channel::mpsc,
    stream::{self, SelectAll},
};
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
    discovery,
};
use kube_runtime::{scheduler, watcher::Event};
use refs::{BINDING, CLUSTER_BINDING, CLUSTER_POLICY, KARMADA, Kind, ObjectRef, POLICY, WORK};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::task::{JoinError, JoinSet};
use world::{Plane, StepError, World};

/// Reconciles that run concurrently, each of another object.
const WORKERS: usize = 16;
/// Time until a failed reconcile is repeated, which doubles with each further failure, and the longest such time.
const RETRY: (Duration, Duration) = (Duration::from_millis(15), Duration::from_secs(2));
/// Consecutive failures after which a reconcile logs a warning.
const WORTH_A_WARNING: u32 = 8;
const UNTIL_SERVED: Duration = Duration::from_millis(250);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// `fedgate-sandbox standin`: runs the stand-in as a separate process.
pub(super) async fn play(args: &StandInArgs) -> anyhow::Result<()> {
    args.begin("this is fedgate's STAND-IN for Karmada, not Karmada itself");
    let hub = client(&args.kubeconfig(Own::HubControllers, "hub"), None).await?;
    let mut members = BTreeMap::new();
    for cell in &args.cells {
        let file = args.kubeconfig(Own::HubControllers, cell);
        members.insert(cell.clone(), client(&file, None).await?);
    }
    let error = run(hub, members).await;
    Err(anyhow!(
        "a task of the Karmada stand-in broke off: {error}; this is a defect of the stand-in"
    ))
}

/// Runs the stand-in until one of its tasks breaks off. `hub` and each of `members` are clients with all rights there.
///
/// The hub serves the Karmada kinds that the stand-in reads and writes. A member's name is that of its Cluster object, which the
/// client that joins the member creates; until it exists, nothing is delivered. The stand-in waits for API servers that are down.
async fn run(hub: Client, members: BTreeMap<String, Client>) -> JoinError {
    let (started, mut to_watch) = mpsc::unbounded();
    let (enqueued, requests) = mpsc::unbounded();
    let world = Arc::new(World::new(hub, members, started, enqueued));
    for kind in KARMADA {
        world.watch(&world.hub, kind);
    }
    for kind in ["v1/Namespace", "v1/ConfigMap", "v1/Secret"] {
        world.watch_everywhere(kind);
    }
    let mut probes = JoinSet::new();
    for member in world.members.values() {
        probes.spawn(health::watch_member(Arc::clone(&world), Arc::clone(member)));
    }
    let mut queue = pin!(scheduler::scheduler(requests));
    let mut passes = JoinSet::new();
    // The objects that are reconciled now, and those whose last reconcile has failed, with the number of failures in a row.
    let (mut running, mut failures) = (HashSet::new(), HashMap::new());
    let mut watches = SelectAll::new();
    loop {
        let due = async {
            queue
                .as_mut()
                .hold_unless(|key| !running.contains(key))
                .next()
                .await
        };
        tokio::select! {
            Some((plane, kind)) = to_watch.next() => watches.push(watch(plane, kind).boxed()),
            Some((plane, kind, event)) = watches.next() => observe(&world, &plane, &kind, event),
            Some(key) = due, if passes.len() < WORKERS => {
                running.insert(key.clone());
                let world = Arc::clone(&world);
                passes.spawn(async move {
                    let outcome = pass(&world, &key).await;
                    (key, outcome)
                });
            }
            Some(ended) = passes.join_next() => match ended {
                Ok((key, outcome)) => {
                    running.remove(&key);
                    settle(&world, &mut failures, key, outcome);
                }
                Err(error) => return error,
            },
            Some(Err(error)) = probes.join_next() => return error,
        }
    }
}

/// Waits until the plane serves the kind, then watches it for ever.
fn watch(plane: Arc<Plane>, kind: Kind) -> impl Stream<Item = (Arc<Plane>, Kind, Event<Value>)> {
    stream::once(served(Arc::clone(&plane), kind.clone())).flat_map(move |resource| {
        let (plane, kind) = (Arc::clone(&plane), kind.clone());
        let events = cache::watch(&plane.client, &resource, None);
        events.map(move |event| (Arc::clone(&plane), kind.clone(), event))
    })
}

async fn served(plane: Arc<Plane>, kind: Kind) -> ApiResource {
    let (api_version, of) = kind.rsplit_once('/').unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, of);
    loop {
        let asked = tokio::time::timeout(ANSWER_LIMIT, discovery::pinned_kind(&plane.client, &gvk)).await;
        if let Ok(Ok((resource, _))) = asked {
            plane.set_served(&kind, resource.clone());
            return resource;
        }
        tokio::time::sleep(UNTIL_SERVED).await;
    }
}

fn observe(world: &World, plane: &Plane, kind: &str, event: Event<Value>) {
    let is_listed = matches!(event, Event::InitDone);
    for change in plane.take(kind, event) {
        wake::changed(world, plane, kind, &change);
    }
    if is_listed {
        wake::synced(world, plane, kind);
    }
}

/// Records the end of a reconcile; one that has failed is repeated after a delay.
fn settle(
    world: &World,
    failures: &mut HashMap<ObjectRef, u32>,
    key: ObjectRef,
    outcome: Result<(), StepError>,
) {
    let Err(error) = outcome else {
        failures.remove(&key);
        return;
    };
    let count = failures.entry(key.clone()).or_default();
    *count += 1;
    if *count == WORTH_A_WARNING {
        tracing::warn!(%key, reason = error.reason(), "a pass keeps failing");
    } else {
        tracing::debug!(%key, reason = error.reason(), failures = *count, "a pass is tried again");
    }
    let (first, longest) = RETRY;
    let delay = first.saturating_mul(1 << (*count - 1).min(10)).min(longest);
    world.enqueue(key, delay);
}

async fn pass(world: &World, key: &ObjectRef) -> Result<(), StepError> {
    match &*key.kind {
        POLICY | CLUSTER_POLICY => template::policy(world, key).await,
        BINDING | CLUSTER_BINDING => bind::pass(world, key).await,
        WORK => deliver::pass(world, key).await,
        _ => template::pass(world, key).await,
    }
}
