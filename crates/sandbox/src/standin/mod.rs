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

pub use command::StandinArgs;
use kube::Client;
use refs::{Key, Plane};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{sync::mpsc, task::JoinSet};
use world::{StepError, World};

/// Reconciles that run concurrently.
const WORKERS: usize = 16;
/// Consecutive failures after which a reconcile logs a warning.
const WORTH_A_WARNING: u32 = 8;

/// A member cluster of the hub.
#[derive(Clone)]
pub struct Member {
    /// Name of its Cluster object on the hub. The client that joins the member creates that object; until it exists,
    /// nothing is delivered.
    pub name: String,
    /// A client with all rights at the member.
    pub client: Client,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The API servers that the stand-in works on.
#[derive(Clone)]
pub struct StandinOptions {
    /// A client with all rights on the hub, which serves the Karmada kinds that the stand-in reads and writes.
    pub hub: Client,
    /// The members.
    pub members: Vec<Member>,
}

impl std::fmt::Debug for StandinOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StandinOptions")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

/// The reasons why the stand-in cannot start or continue. An API server that is down is none of them: the stand-in
/// waits for it.
#[derive(Debug, thiserror::Error)]
pub enum StandinError {
    /// Two members have the same name.
    #[error("two members of the Karmada stand-in are called {0:?}; rename one")]
    DuplicateMember(String),
    /// A kubeconfig cannot be used.
    #[error("the Karmada stand-in cannot use the kubeconfig {}: {source}", file.display())]
    Kubeconfig {
        /// The file.
        file: std::path::PathBuf,
        /// The fault of the file.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A task of the stand-in panicked or was cancelled.
    #[error("a task of the Karmada stand-in broke off: {0}; this is a defect of the stand-in")]
    Task(#[from] tokio::task::JoinError),
}

/// Runs the stand-in until `shutdown` is done.
pub async fn run(
    options: StandinOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), StandinError> {
    let mut members = BTreeMap::new();
    for member in options.members {
        if members
            .insert(Arc::from(member.name.as_str()), member.client)
            .is_some()
        {
            return Err(StandinError::DuplicateMember(member.name));
        }
    }
    tracing::info!(
        members = members.len(),
        "this is fedgate's STAND-IN for Karmada, not Karmada itself"
    );
    let (started, mut to_watch) = mpsc::unbounded_channel();
    let world = Arc::new(World::new(options.hub, members, started));
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
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            Some((plane, kind)) = to_watch.recv() => {
                tasks.spawn(watch::run(Arc::clone(&world), plane, kind));
            }
            Some(ended) = tasks.join_next() => ended?,
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
