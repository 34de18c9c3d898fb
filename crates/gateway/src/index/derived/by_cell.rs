//! Write-backs of a deployment by the cell that wrote them.

use crate::index::{GatewayIndex, ObjectRef, rows::WriteBackDigest};
use fedgate_api::names::CityCode;
use fedgate_engine::store::table::{Name, Row};
use fedgate_kinds::KindId;
use std::{collections::BTreeSet, sync::Arc};

/// Group of a write-back: its deployment, and the cell that wrote it.
pub type Group = (ObjectRef, Option<Arc<str>>);

/// The group of a write-back: its deployment, and the cell that wrote it.
pub fn group(i: KindId, hub: &Arc<str>, row: Option<&Row<WriteBackDigest>>) -> Option<Group> {
    let digest = &row?.digest;
    let deployment = ObjectRef::new(i, hub, digest.deployment.as_ref()?);
    Some((deployment, digest.cell.clone()))
}

impl GatewayIndex {
    /// Names of the write-backs of a deployment.
    pub fn write_backs_of(&self, deployment: &ObjectRef) -> impl Iterator<Item = &Arc<str>> {
        self.groups_of(deployment).flat_map(|(_, names)| names)
    }

    /// True if another cell than this one has written Instances of a deployment in this city.
    pub fn is_written_beside(&self, deployment: &ObjectRef, cell: &str, city: Option<&CityCode>) -> bool {
        let write_backs = &self.hub.write_backs[deployment.kind];
        let is_in_city = |name: &Arc<str>| {
            let row = write_backs.get(&deployment.hub, name);
            row.is_some_and(|row| row.digest.city.as_ref() == city)
        };
        let others = self.groups_of(deployment);
        let mut others = others.filter(|((_, by), _)| by.as_ref().is_some_and(|by| **by != *cell));
        others.any(|(_, names)| names.iter().any(is_in_city))
    }

    /// Number of Instances of a deployment that a cell has written back.
    pub fn written_by(&self, deployment: &ObjectRef, cell: &Arc<str>) -> usize {
        let group = (deployment.clone(), Some(cell.clone()));
        self.hub.by_deployment.get(&group).map_or(0, BTreeSet::len)
    }

    fn groups_of(&self, deployment: &ObjectRef) -> impl Iterator<Item = (&Group, &BTreeSet<Arc<str>>)> {
        let of = deployment.clone();
        let groups = self.hub.by_deployment.range((of.clone(), None)..);
        groups.take_while(move |((deployment, _), _)| *deployment == of)
    }

    /// Moves a changed write-back to its present group; returns its former group.
    pub(crate) fn move_group(
        &mut self,
        i: KindId,
        (hub, name): &Name,
        old: Option<&Row<WriteBackDigest>>,
    ) -> Option<Group> {
        let new = group(i, hub, self.hub.write_backs[i].get(hub, name));
        let old = group(i, hub, old);
        if new == old {
            return None;
        }
        let groups = &mut self.hub.by_deployment;
        if let Some(group) = new {
            groups.entry(group).or_default().insert(name.clone());
        }
        let old = old?;
        if let Some(names) = groups.get_mut(&old) {
            names.remove(name);
            if names.is_empty() {
                groups.remove(&old);
            }
        }
        Some(old)
    }
}
