//! The controller of Cells: its steps run in the read phase, and what they have found becomes the Cell's status.

pub mod decide;
pub mod status;
mod steps;
#[cfg(test)]
mod tests;

use super::{
    context::{Context, State},
    index::CellsIndex,
};
use decide::{Decision, LastRun, Snapshot, decide};
use fedgate_engine::{
    error::Failure,
    key::Key,
    plan::Requeue,
    reconcile::memory::Memories,
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};

/// The controller, and the last report of each Cell.
#[derive(Debug, Default)]
pub struct Cells {
    memory: Memories<Option<LastRun>>,
}

impl Cells {
    /// Forgets all reports.
    pub fn forget(&self) {
        self.memory.retain(|_, _| false);
    }
}

impl Reconciler for Cells {
    type State = State;
    type Session = Option<LastRun>;
    type Basis = Snapshot;

    const NAME: &'static str = "cells";

    fn begin(&self, _: &Context<'_>, key: &Key) -> Option<LastRun> {
        self.memory.take(key)
    }

    fn end(&self, ctx: &Context<'_>, key: &Key, session: Option<LastRun>) {
        // Another replica that leads may change the cluster.
        if ctx.lease.may_write() && ctx.index.lock().cells.get("", &key.name).is_some() {
            self.memory.put(key, session);
        }
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Snapshot> {
        let Some(snapshot) = observe(&run.ctx.index.lock(), run.key) else {
            return Step::End(Requeue::AwaitChange);
        };
        let now = run.ctx.now();
        if run.session.is_none() {
            run.session = LastRun::of_status(&snapshot, now);
        }
        match decide(&snapshot, run.session.as_ref(), now) {
            Decision::Wait(requeue) => Step::End(requeue),
            Decision::RunSteps => Step::Read(snapshot),
            Decision::Write(plan) => Step::Apply(*plan, snapshot),
        }
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, snapshot: &Snapshot) -> Result<Flow, Failure> {
        let Some(present) = snapshot.present() else {
            return Ok(Flow::Again);
        };
        let report = steps::run(run.ctx, present).await?;
        run.session = Some(LastRun::of(present, report, run.session.as_ref(), run.ctx.now()));
        Ok(Flow::Again)
    }

    fn message(&self, _: &Snapshot) -> Option<&'static str> {
        Some("Cell written")
    }
}

/// Takes the snapshot; `None` while a list is not complete.
pub fn observe(index: &CellsIndex, key: &Key) -> Option<Snapshot> {
    if index.missing().is_some() {
        return None;
    }
    let cell = index.cells.get("", &key.name).cloned();
    let secret = cell.as_ref().and_then(|row| index.secret(row.digest.secret()));
    Some(Snapshot {
        name: key.name.clone(),
        cell,
        secret,
        cluster: index.clusters.get("", &key.name).map(|row| row.digest.clone()),
    })
}
