//! The brake on projections. A hub that lost many write-backs at once was restored or recreated, and the cells still
//! run the same Instances. The projections of the lost write-backs stay until the cells have written back all that they
//! report again, or until a retention time ends.

use crate::index::{
    GatewayIndex, ObjectRef,
    change::{Change, CopyNews},
    rows::{HubCopy, WriteBackDigest},
};
use fedgate_engine::store::{apply::RowChange, table::Name};
use fedgate_kinds::KindId;
use std::time::Duration;
use tokio::time::Instant;

/// Write-backs of a deployment that the hub has lost.
#[derive(Debug, Clone, Copy)]
pub struct Withheld {
    /// Since when they are missing.
    pub since: Instant,
    /// How many it had before.
    pub write_backs: u32,
}

/// True if so many write-backs vanished with one list that the hub has probably lost them.
fn too_many(vanished: usize, total: usize) -> bool {
    vanished > 10.max(total / 10)
}

impl GatewayIndex {
    /// Keeps the projections of the write-backs that a complete list lacks, if they are too many.
    pub(crate) fn withhold(&mut self, kind: KindId, vanished: &[RowChange<WriteBackDigest>]) {
        let total = vanished.len() + self.hub.write_backs[kind].len();
        if !too_many(vanished.len(), total) {
            return;
        }
        tracing::error!(
            vanished = vanished.len(),
            total,
            "the hub lost many write-backs at once; their projections are kept until the cells report again"
        );
        let since = Instant::now();
        for delta in vanished {
            let deployment = delta.old.as_ref().and_then(|old| old.digest.deployment.clone());
            let Some(deployment) = deployment else { continue };
            let of = ObjectRef::new(kind, &delta.name.0, &deployment);
            // The groups still have the vanished ones.
            let write_backs = self.count_of(&of);
            let withheld = Withheld { since, write_backs };
            self.intents.withheld.entry(of).or_insert(withheld);
        }
    }

    /// True if the cells report on the copy of a deployment, and have written back as many Instances as they say they have.
    /// Karmada aggregates what the cells' deployments say as soon as the hub has a copy again, before a cell has written its
    /// first Instance back; an Instance that is missing then has not been deleted.
    pub fn is_reported_in_full(&self, deployment: &ObjectRef) -> bool {
        let ObjectRef { kind, hub, name } = deployment;
        let copy = self.hub.copies[*kind].get(hub, name);
        copy.is_some_and(|copy| {
            copy.digest.reports() && self.has_written_back(deployment, copy.digest.instances)
        })
    }

    /// Several cells of a city report more Instances than they write back, since an Instance has one author: a deployment
    /// that is withheld needs no more write-backs than it had.
    fn has_written_back(&self, deployment: &ObjectRef, instances: u32) -> bool {
        let withheld = self.intents.withheld.get(deployment);
        let instances = withheld.map_or(instances, |withheld| instances.min(withheld.write_backs));
        self.count_of(deployment) >= instances
    }

    /// The number of write-backs of a deployment.
    fn count_of(&self, deployment: &ObjectRef) -> u32 {
        u32::try_from(self.write_backs_of(deployment).count()).unwrap_or(u32::MAX)
    }

    /// Releases the projections of the deployment of a write-back that was observed, if it was the last one that its cells
    /// had still to write.
    pub(crate) fn written_back(&mut self, kind: KindId, (hub, name): &Name) -> Option<Change> {
        let row = self.hub.write_backs[kind].get(hub, name)?;
        let deployment = ObjectRef::new(kind, hub, row.digest.deployment.as_ref()?);
        let waits =
            self.intents.withheld.contains_key(&deployment) || self.intents.unreported.contains(&deployment);
        if !waits || !self.is_reported_in_full(&deployment) {
            return None;
        }
        self.intents.withheld.remove(&deployment);
        self.intents.unreported.remove(&deployment);
        Some(Change::Copy {
            copy: deployment,
            news: CopyNews::Reported,
        })
    }

    /// Releases the projections of a deployment whose copy was observed with a changed status: its cells report, and have
    /// written back all that they have.
    pub(crate) fn copy_reported(&mut self, kind: KindId, delta: &RowChange<HubCopy>) -> Option<Change> {
        let (hub, name) = &delta.name;
        let of = ObjectRef::new(kind, hub, name);
        let old = &delta.old.as_ref()?.digest;
        let new = &self.hub.copies[kind].get(hub, name)?.digest;
        if !new.reports() || new.status == old.status {
            return None;
        }
        let was_full = old.reports() && self.has_written_back(&of, old.instances);
        if !self.has_written_back(&of, new.instances) {
            if !self.intents.withheld.contains_key(&of) && !old.reports() {
                self.intents.unreported.insert(of);
            }
            return None;
        }
        let withheld = self.intents.withheld.remove(&of).is_some();
        self.intents.unreported.remove(&of);
        (withheld || !was_full).then_some(Change::Copy {
            copy: of,
            news: CopyNews::Reported,
        })
    }

    /// True if projections are kept although their write-backs are gone.
    pub fn withholds(&self) -> bool {
        !self.intents.withheld.is_empty()
    }

    /// Drops the entries older than `retention`.
    pub fn forget_withheld(&mut self, retention: Duration) {
        self.intents
            .withheld
            .retain(|_, withheld| withheld.since.elapsed() < retention);
    }
}
