//! Leader election by a Lease: of several replicas, at most one may write.
//!
//! Safety rests on local time alone, never on comparing clocks. The holder counts from the moment it *sent* a renewal and
//! stops writing after [`RENEW_DEADLINE`]; a standby counts from the moment it *saw* the last change and takes over after
//! [`LEASE_DURATION`]. What lies between the two is room for writes still under way. Taking over is a PUT with the
//! resourceVersion that was seen, so of two candidates the server lets one win.

use super::client::Connection;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease as LeaseObject, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

/// A Lease that nobody was seen to renew for this time is free.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The holder renews this often.
pub const RENEW_EVERY: Duration = Duration::from_secs(5);
/// A holder that could not renew for this time no longer writes.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a failed attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Releasing is a courtesy to the next holder; the process does not wait longer for it.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Starts elections; see the module.
#[derive(Debug)]
pub struct Lease;

impl Lease {
    /// Stands for election on `plane` until [`LeaseHandle::release`]. `identity` must be this process's alone.
    pub fn run(plane: &Connection, namespace: &str, name: &str, identity: &str) -> LeaseHandle {
        let state = Arc::new(State {
            base: Instant::now(),
            deadline: AtomicU64::new(0),
            leading: watch::Sender::new(false),
        });
        let (stop, stopped) = watch::channel(false);
        let candidate = Candidate {
            plane: plane.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            state: state.clone(),
            held: None,
            last_error: None,
        };
        LeaseHandle {
            state,
            stop,
            task: Some(Arc::new(parking_lot::Mutex::new(Some(tokio::spawn(
                candidate.run(stopped),
            ))))),
        }
    }
}

/// The right to write, to be asked for at every write.
#[derive(Debug, Clone)]
pub struct LeaseHandle {
    state: Arc<State>,
    stop: watch::Sender<bool>,
    task: Option<Arc<parking_lot::Mutex<Option<JoinHandle<()>>>>>,
}

#[derive(Debug)]
struct State {
    base: Instant,
    /// Milliseconds after `base` until which writing is allowed; `u64::MAX` without election.
    deadline: AtomicU64,
    leading: watch::Sender<bool>,
}

impl State {
    fn may_write(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Acquire);
        deadline == u64::MAX || u128::from(deadline) > self.base.elapsed().as_millis()
    }

    /// Allows writes until `until`; `None` forbids them.
    fn allow(&self, until: Option<Instant>) {
        let millis = until.map_or(0, |t| {
            u64::try_from((t - self.base).as_millis()).unwrap_or(u64::MAX - 1)
        });
        self.deadline.store(millis, Ordering::Release);
        self.leading
            .send_if_modified(|leading| std::mem::replace(leading, until.is_some()) != until.is_some());
    }
}

impl LeaseHandle {
    /// For a single replica: writing is always allowed.
    pub fn always() -> Self {
        let state = State {
            base: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            leading: watch::Sender::new(true),
        };
        Self {
            state: Arc::new(state),
            stop: watch::Sender::new(false),
            task: None,
        }
    }

    /// Whether a write may be sent now. Local and cheap; asks nobody.
    pub fn may_write(&self) -> bool {
        self.state.may_write()
    }

    /// Tells when leadership comes and goes.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.state.leading.subscribe()
    }

    /// Stops writing at once and gives the Lease back, so that a standby need not wait for its end (2 s at most).
    /// Call it when the last write has been answered.
    pub async fn release(&self) {
        self.stop.send_replace(true);
        self.state.allow(None);
        let Some(task) = self.task.as_ref().and_then(|t| t.lock().take()) else {
            return;
        };
        let abort = task.abort_handle();
        if tokio::time::timeout(RELEASE_WITHIN, task).await.is_err() {
            abort.abort();
        }
    }
}

/// What a standby saw of the Lease, and when.
struct Observed {
    lease: Option<LeaseObject>,
    free_at: Instant,
}

struct Candidate {
    plane: Connection,
    namespace: String,
    name: String,
    identity: String,
    state: Arc<State>,
    /// The Lease as this process last wrote it; `None` while it does not lead.
    held: Option<LeaseObject>,
    last_error: Option<String>,
}

impl Candidate {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            () = self.elect() => {}
            _ = stopped.wait_for(|s| *s) => {}
        }
        self.give_back().await;
    }

    async fn elect(&mut self) {
        loop {
            self.stand_by().await;
            tracing::info!(lease = %self.label(), identity = %self.identity, "leading: this replica writes");
            self.lead().await;
            self.step_down();
        }
    }

    /// With the credential of this moment.
    fn api(&self) -> Api<LeaseObject> {
        Api::namespaced(self.plane.current().calls.clone(), &self.namespace)
    }

    fn step_down(&mut self) {
        self.held = None;
        self.state.allow(None);
        tracing::warn!(lease = %self.label(), identity = %self.identity, "standing by: this replica writes nothing");
    }

    /// Returns when the Lease is ours.
    async fn stand_by(&mut self) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut changes = changes(self.api(), config.clone());
        let mut observed: Option<Observed> = None;
        let mut generation = self.plane.generation();
        loop {
            let free_at = observed.as_ref().map(|o| o.free_at);
            let free = async {
                match free_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(lease)) => observed = Some(self.observe(observed, lease)),
                    Some(Err(error)) => {
                        self.complain("watch", &error);
                        // Without the right to watch, the election still works, only slower.
                        if observed.is_none() {
                            observed = Some(self.look().await);
                        }
                    }
                    None => tokio::time::sleep(RETRY_AFTER).await,
                },
                // The plane outlives this task, so the generation never ends.
                Ok(()) = generation.changed() => changes = self::changes(self.api(), config.clone()),
                () = free => {
                    let seen = observed.take().and_then(|o| o.lease);
                    match self.take(seen).await {
                        Ok(true) => return,
                        // Someone else was faster, or the watch lags behind: look again.
                        Ok(false) => observed = Some(self.look().await),
                        Err(error) => observed = Some(self.retry_later("take", &error)),
                    }
                }
            }
        }
    }

    async fn look(&mut self) -> Observed {
        match self.api().get_opt(&self.name).await {
            Ok(lease) => self.observe(None, lease),
            Err(error) => self.retry_later("read", &error),
        }
    }

    fn observe(&self, before: Option<Observed>, lease: Option<LeaseObject>) -> Observed {
        let now = Instant::now();
        let version = |l: &Option<LeaseObject>| l.as_ref().and_then(|l| l.metadata.resource_version.clone());
        if let Some(before) = before.filter(|b| b.lease.is_some() && version(&b.lease) == version(&lease)) {
            return before;
        }
        let holder = lease.as_ref().and_then(holder).unwrap_or_default();
        let free_at = if holder.is_empty() || holder == self.identity {
            now
        } else {
            now + LEASE_DURATION
        };
        Observed { lease, free_at }
    }

    fn retry_later(&mut self, what: &str, error: &dyn std::fmt::Display) -> Observed {
        self.complain(what, error);
        Observed {
            lease: None,
            free_at: Instant::now() + RETRY_AFTER,
        }
    }

    /// Writes our name into the Lease as it was seen; false if it has changed since.
    async fn take(&mut self, seen: Option<LeaseObject>) -> Result<bool, kube::Error> {
        let sent = Instant::now();
        let written = match seen {
            Some(seen) => {
                self.api()
                    .replace(&self.name, &PostParams::default(), &self.ours(seen))
                    .await
            }
            None => {
                self.api()
                    .create(&PostParams::default(), &self.ours(LeaseObject::default()))
                    .await
            }
        };
        match written {
            Ok(lease) => {
                self.won(lease, sent);
                Ok(true)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 409) => Ok(false),
            // The Lease was deleted after it was seen; a missing namespace also says 404, on the create that follows.
            Err(kube::Error::Api(status)) if status.is_not_found() && self.held.is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn won(&mut self, lease: LeaseObject, sent: Instant) {
        self.held = Some(lease);
        self.last_error = None;
        self.state.allow(Some(sent + RENEW_DEADLINE));
    }

    fn ours(&self, mut lease: LeaseObject) -> LeaseObject {
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.take().unwrap_or_default();
        let stays = before.holder_identity.as_deref() == Some(&self.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        lease.metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            resource_version: lease.metadata.resource_version,
            labels: lease.metadata.labels,
            annotations: lease.metadata.annotations,
            ..ObjectMeta::default()
        };
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(15),
            acquire_time: if stays {
                before.acquire_time
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(if stays { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        });
        lease
    }

    /// Renews until the Lease is lost or could not be renewed in time.
    async fn lead(&mut self) {
        let mut sent = Instant::now();
        let mut next = sent + RENEW_EVERY;
        loop {
            tokio::time::sleep_until(next).await;
            let deadline = sent + RENEW_DEADLINE;
            let attempt = Instant::now();
            let Ok(outcome) = tokio::time::timeout_at(deadline, self.renew()).await else {
                self.complain("renew", &"no answer before the deadline");
                return;
            };
            match outcome {
                Ok(true) => {
                    sent = attempt;
                    next = sent + RENEW_EVERY;
                }
                Ok(false) => return,
                Err(error) => {
                    self.complain("renew", &error);
                    next = Instant::now() + RETRY_AFTER;
                    if next >= deadline {
                        tokio::time::sleep_until(deadline).await;
                        return;
                    }
                }
            }
        }
    }

    /// One renewal; false if another holds the Lease.
    async fn renew(&mut self) -> Result<bool, kube::Error> {
        let held = self.held.clone();
        if self.take(held).await? {
            return Ok(true);
        }
        // A label set by hand also changes the resourceVersion: only another holder ends the leadership.
        let seen = self.api().get_opt(&self.name).await?;
        if seen.as_ref().is_some_and(|l| holder(l) != Some(&self.identity)) {
            return Ok(false);
        }
        self.take(seen).await
    }

    async fn give_back(mut self) {
        self.state.allow(None);
        let Some(lease) = self.held.take() else { return };
        let outcome = match self.vacate(lease).await {
            // A renewal that was under way when we stopped has changed the Lease; it is still ours.
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                match self.api().get_opt(&self.name).await {
                    Ok(Some(lease)) if holder(&lease) == Some(&self.identity) => self.vacate(lease).await,
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) => tracing::info!(lease = %self.label(), "released"),
            Err(error) => {
                tracing::warn!(lease = %self.label(), %error, "not released; it ends by itself in 15 s");
            }
        }
    }

    async fn vacate(&self, mut lease: LeaseObject) -> Result<(), kube::Error> {
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        lease.metadata.managed_fields = None;
        self.api()
            .replace(&self.name, &PostParams::default(), &lease)
            .await
            .map(drop)
    }

    fn label(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// One log line per new cause, not per attempt.
    fn complain(&mut self, what: &str, error: &dyn std::fmt::Display) {
        let text = format!("{what}: {error}");
        if self.last_error.as_ref() != Some(&text) {
            tracing::warn!(
                lease = %self.label(), error = %text,
                "the Lease cannot be kept; check that its namespace exists on the hub and that this user may get, list, watch, create and update leases there"
            );
            self.last_error = Some(text);
        }
    }
}

fn holder(lease: &LeaseObject) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

type Changes = Pin<Box<dyn Stream<Item = Result<Option<LeaseObject>, watcher::Error>> + Send>>;

/// The Lease at each change, `None` while it does not exist.
fn changes(api: Api<LeaseObject>, config: watcher::Config) -> Changes {
    let mut present = false;
    watcher(api, config)
        .default_backoff()
        .filter_map(move |event| {
            std::future::ready(match event {
                Ok(watcher::Event::Init) => {
                    present = false;
                    None
                }
                Ok(watcher::Event::InitApply(lease) | watcher::Event::Apply(lease)) => {
                    present = true;
                    Some(Ok(Some(lease)))
                }
                Ok(watcher::Event::InitDone) => (!present).then_some(Ok(None)),
                Ok(watcher::Event::Delete(_)) => Some(Ok(None)),
                Err(error) => Some(Err(error)),
            })
        })
        .boxed()
}

#[cfg(test)]
mod tests;
