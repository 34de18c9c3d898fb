//! Write-backs of a deployment by the cell that wrote them.

use crate::index::{GatewayIndex, ObjectRef, change::Change, rows::WriteBackDigest};
use fedgate_engine::store::table::{Name, Row};
use fedgate_kinds::KindId;
use std::{collections::BTreeSet, sync::Arc};

/// Group of a write-back: its deployment, and the cell that wrote it.
pub type Group = (ObjectRef, Option<Arc<str>>);

/// Names of write-backs.
pub type Names = BTreeSet<Arc<str>>;

/// Names of a deployment's write-backs by cell. Nearly always there is one cell.
#[derive(Debug, Default)]
pub struct WriteBacksByCell(Vec<(Option<Arc<str>>, Names)>);

impl WriteBacksByCell {
    fn insert(&mut self, cell: Option<Arc<str>>, name: Arc<str>) {
        if let Some((_, names)) = self.0.iter_mut().find(|(of, _)| *of == cell) {
            names.insert(name);
        } else {
            self.0.reserve_exact(1);
            self.0.push((cell, Names::from([name])));
        }
    }

    fn remove(&mut self, cell: Option<&Arc<str>>, name: &str) {
        if let Some((_, names)) = self.0.iter_mut().find(|(of, _)| of.as_ref() == cell) {
            names.remove(name);
        }
        self.0.retain(|(_, names)| !names.is_empty());
    }

    /// The write-backs of a cell.
    pub fn of(&self, cell: Option<&Arc<str>>) -> Option<&Names> {
        let found = self.0.iter().find(|(of, _)| of.as_ref() == cell);
        found.map(|(_, names)| names)
    }

    /// Every name.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flat_map(|(_, names)| names)
    }
}

/// The group of a write-back: its deployment, and the cell that wrote it.
pub fn group(i: KindId, hub: &Arc<str>, row: Option<&Row<WriteBackDigest>>) -> Option<Group> {
    let digest = &row?.digest;
    let deployment = ObjectRef::new(i, hub, digest.deployment.as_ref()?);
    Some((deployment, digest.cell.clone()))
}

impl GatewayIndex {
    /// Names of the write-backs of a deployment.
    pub fn write_backs_of(&self, deployment: &ObjectRef) -> impl Iterator<Item = &Arc<str>> {
        let by_cell = self.hub.by_deployment.get(deployment).into_iter();
        by_cell.flat_map(WriteBacksByCell::names)
    }

    /// Moves a changed write-back to its present group; returns the change of its former group.
    pub(crate) fn move_group(
        &mut self,
        i: KindId,
        (hub, name): &Name,
        old: Option<&Row<WriteBackDigest>>,
    ) -> Option<Change> {
        let new = group(i, hub, self.hub.write_backs[i].get(hub, name));
        let old = group(i, hub, old);
        if new == old {
            return None;
        }
        if let Some((deployment, cell)) = new {
            let by_cell = self.hub.by_deployment.entry(deployment).or_default();
            by_cell.insert(cell, name.clone());
        }
        let (deployment, cell) = old?;
        if let Some(by_cell) = self.hub.by_deployment.get_mut(&deployment) {
            by_cell.remove(cell.as_ref(), name);
            if by_cell.0.is_empty() {
                self.hub.by_deployment.remove(&deployment);
            }
        }
        Some(Change::PlaceFreed { deployment, cell })
    }
}
