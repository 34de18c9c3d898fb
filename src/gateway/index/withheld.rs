//! The brake on projections. A hub that lost many write-backs at once was restored or recreated, and the cells still
//! run the same instances. The projections of the lost write-backs stay until the cells report again, or until a
//! retention time ends.

use super::{
    Deployment, GatewayIndex,
    change::Change,
    digest::{HubCopy, WriteBackDigest},
};
use fedgate_engine::store::{apply::RowChange, table::Row};
use fedgate_kinds::KindId;
use std::time::Duration;
use tokio::time::Instant;

/// True if so many write-backs vanished with one list that the hub has probably lost them.
fn too_many(vanished: usize, total: usize) -> bool {
    vanished > 10.max(total / 10)
}

impl GatewayIndex {
    /// Keeps the projections of the write-backs that a complete list lacks, if they are too many.
    pub(super) fn withhold(&mut self, kind: KindId, vanished: &[RowChange<WriteBackDigest>]) {
        let total = vanished.len() + self.hub.write_backs[kind].len();
        if !too_many(vanished.len(), total) {
            return;
        }
        tracing::error!(
            vanished = vanished.len(),
            total,
            "the hub lost many write-backs at once; their projections are kept until the cells report again"
        );
        let now = Instant::now();
        for delta in vanished {
            let deployment = delta.old.as_ref().and_then(|old| old.digest.deployment.clone());
            let withheld = deployment.map(|deployment| (kind, delta.name.0.clone(), deployment));
            self.hub.withheld.extend(withheld.map(|of| (of, now)));
        }
    }

    /// Releases the projections of a deployment whose write-back was observed: its cell reports.
    pub(super) fn written_back(
        &mut self,
        kind: KindId,
        delta: &RowChange<WriteBackDigest>,
    ) -> Option<Change> {
        let (hub, name) = &delta.name;
        let row = self.hub.write_backs[kind].get(hub, name)?;
        let deployment = (kind, hub.clone(), row.digest.deployment.clone()?);
        self.hub.withheld.remove(&deployment)?;
        Some(Change::Reported(deployment))
    }

    /// Releases the projections of a deployment whose copy was observed with a changed status: its cell reports.
    pub(super) fn copy_reported(&mut self, kind: KindId, delta: &RowChange<HubCopy>) -> Option<Change> {
        let (hub, name) = &delta.name;
        let status = |row: &Row<HubCopy>| row.digest.status.clone();
        let new = self.hub.copies[kind].get(hub, name);
        let reports = new.is_some_and(|row| row.digest.reports());
        let changed = delta.old.is_some() && new.map(status) != delta.old.as_ref().map(status);
        let first = !delta.old.as_ref().is_some_and(|row| row.digest.reports());
        if !reports || !changed {
            return None;
        }
        let of: Deployment = (kind, hub.clone(), name.clone());
        let released = self.hub.withheld.remove(&of).is_some();
        (released || first).then_some(Change::Reported(of))
    }

    /// True if projections are kept although their write-backs are gone.
    pub fn withholds(&self) -> bool {
        !self.hub.withheld.is_empty()
    }

    /// Drops the entries older than `retention`.
    pub fn forget_withheld(&mut self, retention: Duration) {
        self.hub.withheld.retain(|_, since| since.elapsed() < retention);
    }
}
