//! The decision for a Cell: a pure function of the snapshot and of the last report of its steps (contract: provisioning.md §10).

use super::status;
use crate::{
    index::{
        self,
        digest::{CellDigest, ClusterDigest, SecretDigest},
    },
    reason::{Class, Problem, Reason, WriteReason},
    report::{End, Report, Step},
};
use fedgate_api::{
    cell::{CellSpec, CellState, CellStatus},
    conditions::{self, ConditionStatus, types::READY},
    keys,
};
use fedgate_engine::{
    backoff::Backoff,
    clock::Now,
    diff::{Digest, merge_patch},
    key::Plane,
    plan::{Effect, Endpoint, Event, ObjectRef, Plan, Prepared, Requeue, Target, Write},
    store::table::Row,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time after which the steps of a cell run again, though nothing has changed. A credential for the hub that lives for less than twice
/// as long ends before it is renewed.
const RESYNC_PERIOD: Duration = Duration::from_hours(1);
/// Delay of a run that waits for other programs.
const REQUEUE_WAITING: Duration = Duration::from_secs(10);
/// Delay of a run while a cell is drained.
const REQUEUE_DRAIN: Duration = Duration::from_secs(30);
/// Delay of a run while another owner has the name, the member or a field.
const REQUEUE_CONFLICT: Duration = Duration::from_mins(5);
/// Delays after failed requests.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// A Cell, and what its steps depend on.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Name of the Cell.
    pub name: Arc<str>,
    /// The Cell; `None` if it is gone.
    pub cell: Option<Row<CellDigest>>,
    /// The Secret that it names.
    pub secret: Option<SecretDigest>,
    /// The Cluster of its name.
    pub cluster: Option<ClusterDigest>,
}

/// A Cell that is there.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// The Cell.
    pub row: &'a Row<CellDigest>,
    /// The spec of the Cell.
    pub spec: &'a CellSpec,
    /// The status of the Cell.
    pub status: &'a CellStatus,
    /// The snapshot.
    pub snapshot: &'a Snapshot,
}

impl Snapshot {
    /// The Cell, if it is there and our steps concern it.
    pub fn present(&self) -> Option<Present<'_>> {
        let row = self
            .cell
            .as_ref()
            .filter(|row| !row.deleting || row.digest.has_finalizer())?;
        let (spec, status) = row.digest.cell.as_ref()?;
        Some(Present {
            row,
            spec,
            status,
            snapshot: self,
        })
    }
}

impl Present<'_> {
    /// Digest of all that the steps depend on.
    fn inputs(&self) -> Digest {
        let Snapshot {
            name: _,
            cell: _,
            secret,
            cluster,
        } = self.snapshot;
        let CellDigest {
            generation,
            annotations,
            ..
        } = &self.row.digest;
        let secret = secret
            .as_ref()
            .map(|secret| (&secret.version, secret.lists_cell(&self.snapshot.name)));
        Digest::of_hash(&(
            &self.row.uid,
            generation,
            annotations,
            self.row.deleting,
            secret,
            cluster,
        ))
    }

    /// True if deployments may be withdrawn although no other cell runs them.
    pub fn allows_outage(&self) -> bool {
        self.row.digest.annotations.allow_outage.as_deref() == Some(&*self.snapshot.name)
    }

    /// True if the objects at a cluster that does not answer are to be left behind.
    pub fn is_abandoned(&self) -> bool {
        self.row.digest.annotations.abandon.as_deref() == Some(&*self.snapshot.name)
    }

    /// True if a deletion has drained the cell and deleted its objects at hub and cluster.
    pub fn is_withdrawn(&self) -> bool {
        let registered = conditions::find(&self.status.conditions, Step::Registered.as_str());
        self.row.deleting && registered.is_some_and(|condition| condition.reason == Reason::Leaving.as_str())
    }

    /// Time for which the status of an open cell still replaces a run; `None` if the steps must run. For a process that has just
    /// started and has no report.
    fn status_valid_for(&self, now: Now) -> Option<Duration> {
        let Self {
            row, spec, status, ..
        } = self;
        let cluster = self.snapshot.cluster.as_ref()?;
        let is_open = cluster.is_usable()
            && cluster.city.as_ref() == Some(&spec.city)
            && !cluster.is_cordoned
            && cluster.pending.is_none();
        let mut conditions = status.conditions.iter();
        let is_ready = conditions::find(&status.conditions, READY).is_some()
            && conditions.all(|condition| condition.status == ConditionStatus::True);
        let is_shown = status.observed_generation == row.digest.generation && is_ready;
        let is_wanted = !row.deleting && spec.state == CellState::Active;
        let proven = status
            .proven_at
            .as_ref()
            .filter(|_| is_open && is_shown && is_wanted)?;
        RESYNC_PERIOD
            .checked_sub(now.since_wall(proven.0))
            .filter(|left| !left.is_zero())
    }
}

/// The last run of the steps of a Cell.
#[derive(Debug, Clone, PartialEq)]
pub struct LastRun {
    inputs: Digest,
    at: Instant,
    report: Report,
    /// Reports in a row with a failed request.
    failures: u32,
}

impl LastRun {
    /// The run that has just ended with this report.
    pub fn of(present: Present<'_>, report: Report, earlier: Option<&Self>, now: Now) -> Self {
        let before = earlier.map_or(0, |earlier| earlier.failures);
        Self {
            inputs: present.inputs(),
            at: now.instant,
            failures: if report.has_failed() { before + 1 } else { 0 },
            report,
        }
    }

    /// The run for which the status of an open cell stands; `None` if the steps must run.
    pub fn of_status(s: &Snapshot, now: Now) -> Option<Self> {
        let present = s.present()?;
        let since = RESYNC_PERIOD.saturating_sub(present.status_valid_for(now)?);
        let mut report = Report::new(present.status.proven_at.as_ref().map_or(now.wall, |at| at.0));
        report.cluster.clone_from(&present.status.cluster);
        Some(Self {
            inputs: present.inputs(),
            at: now.instant.checked_sub(since).unwrap_or(now.instant),
            report,
            failures: 0,
        })
    }

    /// Time after the report at which the steps are taken again; `None` if only a change can help.
    fn rerun_after(&self, name: &str) -> Option<Duration> {
        use Reason::{ClusterApiNotReady, Cordoned, Drained, Leaving};
        // Of a cell that is not to be ready, step Ready needs no further run.
        let is_missing = |(step, problem): &(Step, &Problem)| {
            *step != Step::Ready || !matches!(problem.reason, Cordoned | Drained | Leaving)
        };
        let missing: Vec<_> = self.report.problems().filter(is_missing).collect();
        if missing.is_empty() {
            return Some(RESYNC_PERIOD);
        }
        // A step that waits behind one that is tried again may wait for that one. The hub alone empties a cell, and problems of a Cluster of
        // Cluster API that is there stop no step.
        let stops = |(step, problem): &(Step, &Problem)| {
            *step != Step::InfrastructureReady
                && problem.reason != ClusterApiNotReady
                && matches!(problem.reason.class(), Class::Retry | Class::Conflict)
        };
        let is_tried_again = missing.iter().any(stops);
        let delay = |(step, problem): (Step, &Problem)| match problem.reason.class() {
            Class::Waiting if step == Step::Drained => Some(REQUEUE_DRAIN),
            Class::Waiting if is_tried_again => None,
            Class::Waiting => Some(REQUEUE_WAITING),
            Class::Retry => Some(RETRY.delay(self.failures.saturating_sub(1), name)),
            Class::Conflict => Some(REQUEUE_CONFLICT),
            Class::Terminal => None,
        };
        missing.into_iter().filter_map(delay).min()
    }
}

/// The next action for a Cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing is to be done before a change, or this time.
    Wait(Requeue),
    /// The steps have to run.
    RunSteps,
    /// A patch of the Cell.
    Write(Box<Plan<Prepared>>),
}

/// Chooses between waiting, running the steps, and writing what they have found. Module `steps` says which steps run, and in which order.
pub fn decide(s: &Snapshot, last: Option<&LastRun>, now: Now) -> Decision {
    let Some(present) = s.present() else {
        return Decision::Wait(Requeue::AwaitChange);
    };
    let Some(last) = last.filter(|last| last.inputs == present.inputs()) else {
        return Decision::RunSteps;
    };
    let has_finalizer = present.row.digest.has_finalizer();
    match &last.report.end {
        End::NeedsFinalizer if has_finalizer => return Decision::RunSteps,
        End::NeedsFinalizer => return write(add_finalizer(&present), Vec::new()),
        End::CleanedUp(left) => {
            let reason = if present.is_abandoned() {
                "Abandoned"
            } else {
                "ClusterStays"
            };
            let notes = left.iter().map(|left| event(&present, true, reason, left));
            return write(remove_finalizer(&present), notes.collect());
        }
        End::ClusterFound if present.status.cluster.is_some() => return Decision::RunSteps,
        End::Withdrawn if present.is_withdrawn() => return Decision::RunSteps,
        End::ClusterFound | End::Withdrawn | End::Reported => {}
    }
    let status = status::render(&present, &last.report);
    let had = if present.row.digest.has_status {
        json!(present.status)
    } else {
        json!({})
    };
    if let Some(patch) = merge_patch(&had, &json!(status)) {
        let news = status::event_for_change(present.status, &status);
        let notes = news.map(|(warning, reason, message)| event(&present, warning, &reason, &message));
        let patch = json!({"metadata": {"uid": &*present.row.uid}, "status": patch});
        let effect = effect(s, Endpoint::Status, patch, WriteReason::Status);
        return write(effect, notes.into_iter().collect());
    }
    let since = now.since(last.at);
    match last.rerun_after(&s.name) {
        None => Decision::Wait(Requeue::AwaitChange),
        Some(lasts) => match lasts.saturating_sub(since) {
            Duration::ZERO => Decision::RunSteps,
            left => Decision::Wait(Requeue::After(left)),
        },
    }
}

fn write(effect: Effect, notes: Vec<Event>) -> Decision {
    let mut plan = Plan::one(effect);
    plan.notes = notes;
    Decision::Write(Box::new(plan))
}

fn effect(s: &Snapshot, endpoint: Endpoint, patch: Value, reason: WriteReason) -> Effect {
    Effect {
        target: Target::cluster(Plane::Hub, &index::cells(), &s.name),
        endpoint,
        write: Write::Merge { patch },
        reason: reason.into(),
    }
}

/// Adds the finalizer, so that the Cell exists until the objects of its cell are deleted. The patch has the resourceVersion, because it
/// replaces the whole list.
fn add_finalizer(present: &Present<'_>) -> Effect {
    let mut finalizers = present.row.digest.finalizers.clone();
    finalizers.push(keys::CELL_FINALIZER.to_owned());
    finalizers_of(present, &finalizers, WriteReason::AddFinalizer)
}

fn remove_finalizer(present: &Present<'_>) -> Effect {
    let mut finalizers = present.row.digest.finalizers.clone();
    finalizers.retain(|name| name != keys::CELL_FINALIZER);
    finalizers_of(present, &finalizers, WriteReason::RemoveFinalizer)
}

fn finalizers_of(present: &Present<'_>, finalizers: &[String], reason: WriteReason) -> Effect {
    let Present { row, snapshot, .. } = present;
    let metadata =
        json!({"uid": &*row.uid, "resourceVersion": row.resource_version(), "finalizers": finalizers});
    effect(snapshot, Endpoint::Main, json!({"metadata": metadata}), reason)
}

fn event(present: &Present<'_>, warning: bool, reason: &str, message: &str) -> Event {
    let cells = index::cells();
    Event {
        plane: Plane::Hub,
        about: ObjectRef {
            api_version: cells.api_version,
            kind: cells.kind,
            namespace: String::new(),
            name: present.snapshot.name.to_string(),
            uid: present.row.uid.to_string(),
        },
        warning,
        reason: reason.to_owned(),
        action: "Provisioning".to_owned(),
        message: message.to_owned(),
    }
}
