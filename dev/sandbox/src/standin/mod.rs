//! A STAND-IN for Karmada, for tests without Karmada's executables. It is not Karmada and shares no code with it; where
//! the two differ, Karmada is right and the stand-in must be fixed.
//!
//! It replaces the controllers of the hub that a federation gateway depends on. It is event-driven:
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
//! It has no override policies, replicas, failover, preemption or spread constraints by anything but clusters. The hub
//! needs a garbage collector, which deletes a binding when its template is deleted.
//!
//! All state is in the API servers; the state in memory is rebuilt after a start. Pure decisions are in the crate
//! `fedgate-karmada`, in `binding` and `attached`; `template`, `policy`, `bind`, `depend`, `works`, `deliver` and
//! `report` are the reconcilers that execute them; `wake` maps each event to the keys that it enqueues.

mod attached;
mod bind;
mod binding;
mod command;
mod deliver;
mod depend;
mod health;
mod interpret;
mod mirror;
mod policy;
mod queue;
mod refs;
mod report;
mod template;
mod wake;
mod watch;
mod wire;
mod works;
mod world;

pub(super) use command::StandinArgs;

use kube::Client;
use refs::{Key, Plane};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};
use world::{StepError, World};

/// Reconciles that run concurrently.
const WORKERS: usize = 16;
/// Consecutive failures after which a reconcile logs a warning.
const WORTH_A_WARNING: u32 = 8;

/// Runs the stand-in until one of its tasks breaks off. `hub` and each of `members` are clients with all rights there.
///
/// The hub serves the Karmada kinds that the stand-in reads and writes. A member's name is that of its Cluster object, which the
/// client that joins the member creates; until it exists, nothing is delivered. The stand-in waits for API servers that are down.
async fn run(hub: Client, members: BTreeMap<Arc<str>, Client>) -> JoinError {
    tracing::info!(
        members = members.len(),
        "this is fedgate's STAND-IN for Karmada, not Karmada itself"
    );
    let (started, mut to_watch) = mpsc::unbounded_channel();
    let world = Arc::new(World::new(hub, members, started));
    for kind in [
        wire::interpreter(),
        wire::cluster(),
        wire::policy(),
        wire::cluster_policy(),
        wire::binding(),
        wire::cluster_binding(),
        wire::work(),
    ] {
        world.watch(&Plane::Hub, &kind);
    }
    for kind in ["Namespace", "ConfigMap", "Secret"] {
        world.watch_everywhere(&refs::Kind::new("v1", kind));
    }
    let mut tasks = JoinSet::new();
    for (member, client) in &world.members {
        tasks.spawn(health::watch_member(
            Arc::clone(&world),
            member.clone(),
            client.clone(),
        ));
    }
    for _ in 0..WORKERS {
        tasks.spawn(work(Arc::clone(&world)));
    }
    loop {
        tokio::select! {
            Some((plane, kind)) = to_watch.recv() => {
                tasks.spawn(watch::run(Arc::clone(&world), plane, kind));
            }
            Some(Err(error)) = tasks.join_next() => return error,
        }
    }
}

async fn work(world: Arc<World>) {
    loop {
        let key = world.queue.next().await;
        let outcome = pass(&world, &key).await;
        let failures = world.queue.done(key.clone(), outcome.is_err());
        if let Err(error) = outcome {
            if failures == WORTH_A_WARNING {
                tracing::warn!(?key, reason = error.reason(), "a pass keeps failing");
            } else {
                tracing::debug!(?key, reason = error.reason(), failures, "a pass is tried again");
            }
        }
    }
}

async fn pass(world: &World, key: &Key) -> Result<(), StepError> {
    match key {
        Key::Policy(at) => policy::pass(world, at).await,
        Key::Template(at) => template::pass(world, at).await,
        Key::Binding(at) => bind::pass(world, at).await,
        Key::Work(at) => deliver::pass(world, at).await,
        Key::Report(at) => report::pass(world, at).await,
    }
}
