//! Leader election by a Lease: of several replicas, at most one may write.
//!
//! Safety depends on local time alone; no clocks are compared. The holder counts from the moment it *sent* a renewal
//! and stops writing after [`RENEW_DEADLINE`], which also ends the writes in flight; a standby counts from the moment
//! it *saw* the last change and takes over after [`LEASE_DURATION`]. The difference is the time left for writes that a
//! server still executes. To take over, a candidate sends a PUT with the resourceVersion it saw, so the server accepts
//! only one of two candidates. Deleting a Lease deletes the holder's name but does not shorten the time that the holder
//! may write.

mod observer;
mod write_permit;

use super::client::Connection;
use crate::watch_channel::{Receiver, Sender};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease as LeaseObject, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, api::PostParams};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use write_permit::WritePermit;

/// A standby that sees no renewal of a Lease for this time treats the Lease as free.
pub const LEASE_DURATION: Duration = Duration::from_secs(14);
/// The holder renews this often.
pub const RENEW_EVERY: Duration = Duration::from_secs(5);
/// A holder that could not renew for this time stops writing and abandons its writes in flight.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Timeout of an attempt: a hung attempt leaves time for another, on another connection, before the deadline.
const ATTEMPT: Duration = Duration::from_millis(2_500);
/// Pause after a failed attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Error text of an attempt that timed out.
const NO_ANSWER: &str = "no answer in time";
/// Timeout of the release: the process does not wait longer, because the release only saves the next holder's time.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// The holder of the Lease as a process last saw it, and the time from which it may be another one: a process that cannot
/// reach the plane of the Lease does not know who leads.
type KnownLeader = parking_lot::Mutex<Option<(String, Instant)>>;

/// Starts leader elections; see the module.
#[derive(Debug)]
pub struct Lease;

impl Lease {
    /// Campaigns on `plane` until [`LeaseHandle::release`]. `identity` must be unique to this process.
    pub fn run(plane: &Connection, namespace: &str, name: &str, identity: &str) -> LeaseHandle {
        let right = Arc::new(WritePermit::none(plane.fence()));
        let stop = Sender::new(false);
        let stopped = stop.subscribe();
        let leader: Arc<KnownLeader> = Arc::default();
        let candidate = Candidate {
            plane: plane.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            right: right.clone(),
            held: None,
            last_error: None,
            leader: leader.clone(),
        };
        LeaseHandle {
            right,
            leader,
            stop,
            task: Some(Arc::new(parking_lot::Mutex::new(Some(tokio::spawn(
                candidate.run(stopped),
            ))))),
        }
    }
}

/// Permission to write, checked before every write.
#[derive(Debug, Clone)]
pub struct LeaseHandle {
    right: Arc<WritePermit>,
    leader: Arc<KnownLeader>,
    stop: Sender<bool>,
    task: Option<Arc<parking_lot::Mutex<Option<JoinHandle<()>>>>>,
}

impl LeaseHandle {
    /// For a single replica: writes are always allowed.
    pub fn always() -> Self {
        Self {
            right: Arc::new(WritePermit::unlimited()),
            leader: Arc::default(),
            stop: Sender::new(false),
            task: None,
        }
    }

    /// True if a write may start now. Local and cheap; sends no request.
    pub fn may_write(&self) -> bool {
        self.right.may_write()
    }

    /// True if there is no election: this process always writes.
    pub fn is_alone(&self) -> bool {
        self.task.is_none()
    }

    /// The holder of the Lease as this process last saw it; `None` if it saw none, and once the Lease that it saw has
    /// expired.
    pub fn leader(&self) -> Option<String> {
        let known = self.leader.lock();
        let known = known.as_ref().filter(|(_, until)| Instant::now() < *until);
        known.map(|(holder, _)| holder.clone())
    }

    /// Waits until no write can be in flight; each renewal postpones that time.
    pub async fn permit_expired(&self) {
        self.right.ends().await;
    }

    /// Notifies when this process gains or loses leadership, and when leadership is restored after a gap.
    pub fn changes(&self) -> Receiver<bool> {
        self.right.changes()
    }

    /// Allows no new writes, because the process shuts down; writes in flight may finish until the permit expires.
    pub fn revoke(&self) {
        self.right.close();
    }

    /// Records that a write to the plane of the Lease was abandoned without an answer. The server may still execute the
    /// write, so the Lease is not released until that is no longer possible.
    pub fn unanswered(&self) {
        self.right.unanswered();
    }

    /// Ends all writing and releases the Lease (2 s at most), so that a standby need not wait for the Lease to expire.
    /// Call it when every write has been answered or abandoned.
    pub async fn release(&self) {
        self.stop.send(true);
        self.right.allow(None);
        let Some(task) = self.task.as_ref().and_then(|t| t.lock().take()) else {
            return;
        };
        let abort = task.abort_handle();
        if tokio::time::timeout(RELEASE_WITHIN, task).await.is_err() {
            abort.abort();
        }
    }
}

/// The Lease as a standby saw it, and the time from which the standby may take it.
struct Observed {
    lease: Option<LeaseObject>,
    free_at: Instant,
}

/// The Lease as this process last wrote it, and the time it sent that write.
struct Held {
    lease: LeaseObject,
    sent: Instant,
}

struct Candidate {
    plane: Connection,
    namespace: String,
    name: String,
    identity: String,
    right: Arc<WritePermit>,
    /// `None` while this process is not the leader.
    held: Option<Held>,
    last_error: Option<String>,
    leader: Arc<KnownLeader>,
}

impl Candidate {
    async fn run(mut self, mut stopped: Receiver<bool>) {
        tokio::select! {
            biased;
            () = stopped.wait_for(|stopped| stopped) => {}
            () = self.elect() => {}
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

    /// Lease API with the current credential.
    fn api(&self) -> Api<LeaseObject> {
        Api::namespaced(self.plane.current().client(), &self.namespace)
    }

    fn step_down(&mut self) {
        self.held = None;
        self.right.allow(None);
        tracing::warn!(lease = %self.label(), identity = %self.identity, "standing by: this replica writes nothing");
    }

    /// Returns when this process holds the Lease.
    async fn stand_by(&mut self) {
        let (tell, sights) = unbounded_channel();
        let watching = observer::watch(self.plane.clone(), &self.namespace, &self.name, tell);
        tokio::select! {
            biased;
            () = watching => {}
            () = self.campaign(sights) => {}
        }
    }

    /// Campaigns until this process holds the Lease; `sights` are the watched states. While the plane is down, each
    /// attempt waits for its probe turn, in order with all other callers of that plane.
    async fn campaign(&mut self, mut sights: UnboundedReceiver<Option<LeaseObject>>) {
        let plane = self.plane.clone();
        let mut observed: Option<Observed> = None;
        // Without permission to watch, the election still works, only slower.
        let unseen = Instant::now() + RETRY_AFTER;
        loop {
            let free_at = observed.as_ref().map_or(unseen, |o| o.free_at);
            let may_ask = async {
                tokio::time::sleep_until(free_at).await;
                plane.health().probe_turn().await;
            };
            tokio::select! {
                biased;
                Some(lease) = sights.recv() => observed = Some(self.observe(observed, lease)),
                () = may_ask => match observed.take() {
                    None => observed = Some(self.look(None).await),
                    seen => match self.try_to_take(seen).await {
                        Some(seen) => observed = Some(seen),
                        None => return,
                    },
                }
            }
        }
    }

    /// `None` if this process holds the Lease, else its current state.
    async fn try_to_take(&mut self, seen: Option<Observed>) -> Option<Observed> {
        let lease = seen.as_ref().and_then(|o| o.lease.clone());
        let asked = Instant::now();
        match within(self.take(lease.clone())).await {
            Ok(true) => None,
            // Another candidate was faster, or the watch lags: read the Lease again.
            Ok(false) => {
                self.plane.health().success();
                let mut seen = self.look(seen).await;
                if version(seen.lease.as_ref()) == version(lease.as_ref()) {
                    seen.free_at = seen.free_at.max(Instant::now() + RETRY_AFTER);
                }
                Some(seen)
            }
            // Without an answer the server may have executed the write all the same; then the next attempt conflicts, and a
            // read shows the holder.
            Err(error) => Some(self.retry_later(seen, "take", asked, &error)),
        }
    }

    async fn look(&mut self, before: Option<Observed>) -> Observed {
        let (api, asked) = (self.api(), Instant::now());
        match within(api.get_opt(&self.name)).await {
            Ok(lease) => {
                self.plane.health().success();
                self.observe(before, lease)
            }
            Err(error) => self.retry_later(before, "read", asked, &error),
        }
    }

    fn observe(&self, before: Option<Observed>, lease: Option<LeaseObject>) -> Observed {
        let now = Instant::now();
        let anothers = |l: &LeaseObject| holder(l).is_some_and(|h| !h.is_empty() && h != self.identity);
        let free_at = match (before, &lease) {
            (Some(before), _) if version(before.lease.as_ref()) == version(lease.as_ref()) => return before,
            (_, Some(lease)) if anothers(lease) => now + LEASE_DURATION,
            // The holder of the deleted Lease has not noticed the deletion yet and keeps writing until its next
            // renewal.
            (Some(Observed { lease: Some(had), .. }), _)
                if anothers(&had)
                    && lease
                        .as_ref()
                        .is_none_or(|lease| lease.metadata.uid != had.metadata.uid) =>
            {
                now + LEASE_DURATION
            }
            (Some(Observed { lease: None, free_at }), _) => free_at.max(now),
            _ => now,
        };
        // A standby that may not watch reads an expired Lease again, and knows the holder until that read has had its time.
        self.note_holder(lease.as_ref(), free_at + ATTEMPT);
        Observed { lease, free_at }
    }

    /// Records that the request sent at `asked` failed.
    fn retry_later(
        &mut self,
        before: Option<Observed>,
        what: &str,
        asked: Instant,
        error: &kube::Error,
    ) -> Observed {
        self.complain(what, error);
        self.plane.health().call_failed(asked, error);
        let again = Instant::now() + RETRY_AFTER;
        let (lease, free_at) = before.map_or((None, again), |o| (o.lease, o.free_at.max(again)));
        Observed { lease, free_at }
    }

    /// Writes this process's identity into the Lease as seen; false if the Lease has changed since.
    async fn take(&mut self, seen: Option<LeaseObject>) -> Result<bool, kube::Error> {
        let sent = Instant::now();
        let existed = seen.is_some();
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
            // The Lease was deleted after it was seen. A missing namespace also answers 404, to the create that
            // follows.
            Err(kube::Error::Api(status)) if status.is_not_found() && existed => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn won(&mut self, lease: LeaseObject, sent: Instant) {
        self.note_holder(Some(&lease), sent + LEASE_DURATION);
        self.held = Some(Held { lease, sent });
        self.last_error = None;
        self.plane.health().success();
        self.right.allow(Some(sent + RENEW_DEADLINE));
    }

    /// Records the holder that was seen, and the time from which it may be another one. An empty name is none.
    fn note_holder(&self, lease: Option<&LeaseObject>, until: Instant) {
        let holder = lease.and_then(holder).filter(|holder| !holder.is_empty());
        *self.leader.lock() = holder.map(|holder| (holder.to_owned(), until));
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
        let mut retry_at = None;
        while let Some(sent) = self.held.as_ref().map(|held| held.sent) {
            let deadline = sent + RENEW_DEADLINE;
            let next = retry_at.take().unwrap_or(sent + RENEW_EVERY);
            tokio::time::sleep_until(next.min(deadline)).await;
            let begun = Instant::now();
            if begun >= deadline {
                return;
            }
            self.plane.health().probe_now();
            match timeout_at(deadline.min(begun + ATTEMPT), self.renew()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    self.complain("renew", &error);
                    retry_at = Some(Instant::now() + RETRY_AFTER);
                }
                Err(_) => {
                    self.complain("renew", &NO_ANSWER);
                    retry_at = Some(Instant::now());
                }
            }
        }
    }

    /// One renewal; false if another process holds the Lease.
    async fn renew(&mut self) -> Result<bool, kube::Error> {
        let held = self.held.as_ref().map(|held| held.lease.clone());
        if self.take(held).await? {
            return Ok(true);
        }
        // A label set manually also changes the resourceVersion: only another holder ends the leadership.
        let seen = self.api().get_opt(&self.name).await?;
        if seen.as_ref().is_some_and(|l| holder(l) != Some(&self.identity)) {
            return Ok(false);
        }
        self.take(seen).await
    }

    async fn give_back(mut self) {
        self.right.allow(None);
        let Some(Held { lease, .. }) = self.held.take() else {
            return;
        };
        if self.right.unsettled() {
            tracing::warn!(lease = %self.label(), "the Lease is not released because a write is unanswered; it expires in 14 s");
            return;
        }
        let outcome = match self.give_back_lease(lease).await {
            // A renewal in flight when the election stopped has changed the Lease; this process still holds it.
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                match self.api().get_opt(&self.name).await {
                    Ok(Some(lease)) if holder(&lease) == Some(&self.identity) => {
                        self.give_back_lease(lease).await
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) => tracing::info!(lease = %self.label(), "released"),
            Err(error) => {
                tracing::warn!(lease = %self.label(), %error, "the Lease is not released; it expires in 14 s");
            }
        }
    }

    async fn give_back_lease(&self, mut lease: LeaseObject) -> Result<(), kube::Error> {
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

    /// Logs one line per new cause, not per attempt.
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

/// The answer to a request, if it comes in time.
async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let answer = timeout(ATTEMPT, request).await;
    answer.unwrap_or_else(|_| Err(kube::Error::Service(NO_ANSWER.into())))
}

fn holder(lease: &LeaseObject) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

fn version(lease: Option<&LeaseObject>) -> Option<&str> {
    lease?.metadata.resource_version.as_deref()
}

#[cfg(test)]
mod tests;
