//! The brake on projections: a hub that has lost many write-backs at once is one that was restored or made anew, and what
//! runs at the cells is what it was. Their projections stay until the cells have reported again, or for a while.

use super::{
    Deployment, GatewayIndex,
    digest::{HubCopy, WriteBackDigest},
};
use crate::gateway::index::TableId;
use fedgate_engine::{
    key::Key,
    plane::{apply::RowChange, table::Row},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Whether so many of all have vanished with one list that the hub has rather lost them.
fn too_many(vanished: usize, total: usize) -> bool {
    vanished > 10.max(total / 10)
}

impl GatewayIndex {
    /// A list of write-backs is complete, in which these are missing.
    pub(super) fn withhold(&mut self, kind: usize, vanished: &[RowChange<WriteBackDigest>]) {
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

    /// A write-back was told of: its deployment's cell reports.
    pub(super) fn written_back(
        &mut self,
        kind: usize,
        delta: &RowChange<WriteBackDigest>,
        keys: &mut Vec<Key>,
    ) {
        let (hub, name) = &delta.name;
        let row = self.hub.write_backs[kind].get(hub, name);
        if let Some(deployment) = row.and_then(|row| row.digest.deployment.clone())
            && self
                .hub
                .withheld
                .remove(&(kind, hub.clone(), deployment.clone()))
                .is_some()
        {
            self.enqueue_projections(kind, hub, &deployment, keys);
        }
    }

    /// A copy was told of: if its status is another, its cell reports.
    pub(super) fn copy_reported(&mut self, kind: usize, delta: &RowChange<HubCopy>, keys: &mut Vec<Key>) {
        let (hub, name) = &delta.name;
        let status = |row: &Row<HubCopy>| row.digest.status.clone();
        let new = self.hub.copies[kind].get(hub, name);
        let reports = new.is_some_and(|row| row.digest.reports());
        let changed = delta.old.is_some() && new.map(status) != delta.old.as_ref().map(status);
        let first = !delta.old.as_ref().is_some_and(|row| row.digest.reports());
        if !reports || !changed {
            return;
        }
        let of: Deployment = (kind, hub.clone(), name.clone());
        if self.hub.withheld.remove(&of).is_some() || first {
            self.enqueue_projections(kind, hub, name, keys);
        }
    }

    /// The projections of a deployment, which may have waited for its cells' report.
    fn enqueue_projections(&self, kind: usize, hub: &Arc<str>, deployment: &Arc<str>, keys: &mut Vec<Key>) {
        let found = self.owners.get(hub);
        let Some((project, owner)) =
            found.and_then(|owner| Some((self.projects.get(&owner.project)?, owner)))
        else {
            return;
        };
        let projections = project.projections[kind].in_namespace(&owner.namespace);
        let of_deployment = projections.filter(|(_, row)| {
            let mut owner = row.digest.owner.iter();
            owner.any(|(name, _)| name == deployment)
        });
        keys.extend(of_deployment.map(|(name, _)| self.hub_key(TableId::WrittenBack(kind), hub, name)));
    }

    /// Whether projections are kept although their write-backs are gone.
    pub fn withholds(&self) -> bool {
        !self.hub.withheld.is_empty()
    }

    /// Forgets what has been withheld for long enough.
    pub fn forget_withheld(&mut self, retention: Duration) {
        self.hub.withheld.retain(|_, since| since.elapsed() < retention);
    }
}
