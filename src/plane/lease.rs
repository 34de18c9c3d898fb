//! Leader election by a Lease: of several replicas, at most one may write.
//!
//! Safety rests on local time alone, never on comparing clocks. The holder counts from the moment it *sent* a renewal and
//! stops writing after [`RENEW_DEADLINE`], which also ends the writes under way; a standby counts from the moment it *saw*
//! the last change and takes over after [`LEASE_DURATION`]. What lies between the two is room for what a server still
//! carries out. Taking over is a PUT with the resourceVersion that was seen, so of two candidates the server lets one win.
//! A Lease that is deleted takes its holder's name along, not the holder's time.

mod right;
mod sight;

use super::client::Connection;
use crate::engine::told::{Listener, Told};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease as LeaseObject, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, api::PostParams};
use right::Right;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

/// A Lease that nobody was seen to renew for this time is free.
pub const LEASE_DURATION: Duration = Duration::from_secs(14);
/// The holder renews this often.
pub const RENEW_EVERY: Duration = Duration::from_secs(5);
/// A holder that could not renew for this time no longer writes, and what it has under way is given up.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// An attempt that hangs leaves time for another, on another connection, before the deadline.
const ATTEMPT: Duration = Duration::from_millis(2_500);
/// Pause after a failed attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// What is said of an attempt that hangs.
const NO_ANSWER: &str = "no answer in time";
/// Releasing is a courtesy to the next holder; the process does not wait longer for it.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Starts elections; see the module.
#[derive(Debug)]
pub struct Lease;

impl Lease {
    /// Stands for election on `plane` until [`LeaseHandle::release`]. `identity` must be this process's alone.
    pub fn run(plane: &Connection, namespace: &str, name: &str, identity: &str) -> LeaseHandle {
        let right = Arc::new(Right::none(plane.fence()));
        let stop = Told::new(false);
        let stopped = stop.listen();
        let candidate = Candidate {
            plane: plane.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            right: right.clone(),
            held: None,
            last_error: None,
        };
        LeaseHandle {
            right,
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
    right: Arc<Right>,
    stop: Told<bool>,
    task: Option<Arc<parking_lot::Mutex<Option<JoinHandle<()>>>>>,
}

impl LeaseHandle {
    /// For a single replica: writing is always allowed.
    pub fn always() -> Self {
        Self {
            right: Arc::new(Right::unlimited()),
            stop: Told::new(false),
            task: None,
        }
    }

    /// Whether a write may begin now. Local and cheap; asks nobody.
    pub fn may_write(&self) -> bool {
        self.right.may_write()
    }

    /// Waits until no write may be under way any more; each renewal puts that off.
    pub async fn writing_ends(&self) {
        self.right.ends().await;
    }

    /// Tells when leadership comes and goes, and when it comes back after a gap.
    pub fn changes(&self) -> Listener<bool> {
        self.right.changes()
    }

    /// Lets no more writes begin, because the process ends; those under way may be finished until the right ends.
    pub fn stop_writing(&self) {
        self.right.close();
    }

    /// Notes that a write to the plane of the Lease was given up without an answer: the server may still carry it out,
    /// so for a while the Lease is not given back.
    pub fn unanswered(&self) {
        self.right.unanswered();
    }

    /// Ends all writing and gives the Lease back, so that a standby need not wait for its end (2 s at most).
    /// Call it when the last write has been answered or given up.
    pub async fn release(&self) {
        self.stop.tell(true);
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

/// What a standby saw of the Lease, and from when on it may be taken.
struct Observed {
    lease: Option<LeaseObject>,
    free_at: Instant,
}

/// The Lease as this process last wrote it, and when it sent that.
struct Held {
    lease: LeaseObject,
    sent: Instant,
}

struct Candidate {
    plane: Connection,
    namespace: String,
    name: String,
    identity: String,
    right: Arc<Right>,
    /// `None` while this process does not lead.
    held: Option<Held>,
    last_error: Option<String>,
}

impl Candidate {
    async fn run(mut self, mut stopped: Listener<bool>) {
        tokio::select! {
            biased;
            () = stopped.until(|stopped| stopped) => {}
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

    /// With the credential of this moment.
    fn api(&self) -> Api<LeaseObject> {
        Api::namespaced(self.plane.current().client(), &self.namespace)
    }

    fn step_down(&mut self) {
        self.held = None;
        self.right.allow(None);
        tracing::warn!(lease = %self.label(), identity = %self.identity, "standing by: this replica writes nothing");
    }

    /// Returns when the Lease is ours.
    async fn stand_by(&mut self) {
        let (tell, sights) = unbounded_channel();
        let watching = sight::watch(self.plane.clone(), &self.namespace, &self.name, tell);
        tokio::select! {
            biased;
            () = watching => {}
            () = self.contend(sights) => {}
        }
    }

    /// The same, by what the watch tells. While the plane is away, it is asked in turn with all others that ask it.
    async fn contend(&mut self, mut sights: UnboundedReceiver<Option<LeaseObject>>) {
        let plane = self.plane.clone();
        let mut observed: Option<Observed> = None;
        // Without the right to watch, the election still works, only slower.
        let unseen = Instant::now() + RETRY_AFTER;
        loop {
            let free_at = observed.as_ref().map_or(unseen, |o| o.free_at);
            let may_ask = async {
                tokio::time::sleep_until(free_at).await;
                plane.reach().turn().await;
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

    /// `None` when the Lease is ours, else what is known now.
    async fn try_to_take(&mut self, seen: Option<Observed>) -> Option<Observed> {
        let lease = seen.as_ref().and_then(|o| o.lease.clone());
        let asked = Instant::now();
        match timeout(ATTEMPT, self.take(lease.clone())).await {
            Ok(Ok(true)) => None,
            // Someone else was faster, or the watch lags behind: look again.
            Ok(Ok(false)) => {
                self.plane.reach().heard();
                let mut seen = self.look(seen).await;
                if version(seen.lease.as_ref()) == version(lease.as_ref()) {
                    seen.free_at = seen.free_at.max(Instant::now() + RETRY_AFTER);
                }
                Some(seen)
            }
            Ok(Err(error)) => Some(self.retry_later(seen, "take", asked, Some(&error))),
            // It may have been taken all the same; then the next attempt conflicts, and looking tells.
            Err(_) => Some(self.retry_later(seen, "take", asked, None)),
        }
    }

    async fn look(&mut self, before: Option<Observed>) -> Observed {
        let (api, asked) = (self.api(), Instant::now());
        match timeout(ATTEMPT, api.get_opt(&self.name)).await {
            Ok(Ok(lease)) => {
                self.plane.reach().heard();
                self.observe(before, lease)
            }
            Ok(Err(error)) => self.retry_later(before, "read", asked, Some(&error)),
            Err(_) => self.retry_later(before, "read", asked, None),
        }
    }

    fn observe(&self, before: Option<Observed>, lease: Option<LeaseObject>) -> Observed {
        let now = Instant::now();
        let anothers = |l: &LeaseObject| holder(l).is_some_and(|h| !h.is_empty() && h != self.identity);
        let free_at = match (before, &lease) {
            (Some(before), _) if version(before.lease.as_ref()) == version(lease.as_ref()) => return before,
            (_, Some(lease)) if anothers(lease) => now + LEASE_DURATION,
            // Its holder does not know yet that it is gone, and writes on until it renews.
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
        Observed { lease, free_at }
    }

    /// No `error` if what was asked then was given up without an answer.
    fn retry_later(
        &mut self,
        before: Option<Observed>,
        what: &str,
        asked: Instant,
        error: Option<&kube::Error>,
    ) -> Observed {
        if let Some(error) = error {
            self.complain(what, error);
            self.plane.reach().failed(asked, error);
        } else {
            self.complain(what, &NO_ANSWER);
            self.plane.reach().silent(asked);
        }
        let again = Instant::now() + RETRY_AFTER;
        let (lease, free_at) = before.map_or((None, again), |o| (o.lease, o.free_at.max(again)));
        Observed { lease, free_at }
    }

    /// Writes our name into the Lease as it was seen; false if it has changed since.
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
            // The Lease was deleted after it was seen; a missing namespace also says 404, on the create that follows.
            Err(kube::Error::Api(status)) if status.is_not_found() && existed => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn won(&mut self, lease: LeaseObject, sent: Instant) {
        self.held = Some(Held { lease, sent });
        self.last_error = None;
        self.plane.reach().heard();
        self.right.allow(Some(sent + RENEW_DEADLINE));
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
            self.plane.reach().out_of_turn();
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

    /// One renewal; false if another holds the Lease.
    async fn renew(&mut self) -> Result<bool, kube::Error> {
        let held = self.held.as_ref().map(|held| held.lease.clone());
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
        self.right.allow(None);
        let Some(Held { lease, .. }) = self.held.take() else {
            return;
        };
        if self.right.unsettled() {
            tracing::warn!(lease = %self.label(), "not released, because a write has gone unanswered; it ends by itself in 14 s");
            return;
        }
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
                tracing::warn!(lease = %self.label(), %error, "not released; it ends by itself in 14 s");
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

fn version(lease: Option<&LeaseObject>) -> Option<&str> {
    lease?.metadata.resource_version.as_deref()
}

#[cfg(test)]
pub(crate) mod tests;
