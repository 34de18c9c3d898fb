//! Write-backs of a deployment by the cell that wrote them, and which of them are projected where a cell writes too
//! many (contract: federation.md §3.8 step 5). The limit applies to each cell separately.

use super::{
    Deployment, GatewayIndex,
    change::Change,
    digest::{Projection, Source, WriteBackDigest},
};
use fedgate_engine::store::table::Row;
use std::{collections::BTreeSet, sync::Arc};

/// Instances of a cell that every deployment may have, whatever its scale.
const FLOOR: usize = 64;

/// Names of write-backs.
type Names = BTreeSet<Arc<str>>;

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

    fn of(&self, cell: Option<&Arc<str>>) -> Option<&Names> {
        let found = self.0.iter().find(|(of, _)| of.as_ref() == cell);
        found.map(|(_, names)| names)
    }

    /// Every name.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flat_map(|(_, names)| names)
    }
}

/// Maximum number of Instances that a cell may have of a deployment.
pub fn instance_limit(source: &Row<Source>) -> usize {
    FLOOR.max(2 * source.digest.scale as usize)
}

/// Group of a write-back: its deployment, and the cell that wrote it.
type Group = (Deployment, Option<Arc<str>>);

/// Queries to a group: its members, and their projections.
struct GroupRank<'a> {
    names: &'a Names,
    most: usize,
    projected: Box<dyn Fn(&str) -> bool + 'a>,
}

fn group(i: usize, hub: &Arc<str>, row: Option<&Row<WriteBackDigest>>) -> Option<Group> {
    let digest = &row?.digest;
    Some(((i, hub.clone(), digest.deployment.clone()?), digest.cell.clone()))
}

impl GatewayIndex {
    /// Moves a changed write-back to its present group, and enqueues those of its former group that are projected
    /// now.
    pub(super) fn move_group(
        &mut self,
        i: usize,
        (hub, name): (&Arc<str>, &Arc<str>),
        old: Option<&Row<WriteBackDigest>>,
    ) -> Option<Change> {
        let new = group(i, hub, self.hub.write_backs[i].get(hub, name));
        let old = group(i, hub, old);
        if new == old {
            return None;
        }
        if let Some((deployment, cell)) = new {
            let crowd = self.hub.by_deployment.entry(deployment).or_default();
            crowd.insert(cell, name.clone());
        }
        let (deployment, cell) = old?;
        if let Some(crowd) = self.hub.by_deployment.get_mut(&deployment) {
            crowd.remove(cell.as_ref(), name);
            if crowd.0.is_empty() {
                self.hub.by_deployment.remove(&deployment);
            }
        }
        let s = self.standing(&deployment, cell.as_ref())?;
        if s.names.len() < FLOOR || s.names.len() > 2 * s.most {
            return None;
        }
        let (has, lacks): (Vec<_>, Vec<_>) = s.names.iter().partition(|n| (s.projected)(n));
        let free = s.most.saturating_sub(has.len());
        let names: Vec<_> = lacks.into_iter().take(free).cloned().collect();
        (!names.is_empty()).then(|| Change::PlacesFreed {
            kind: i,
            hub: hub.clone(),
            names,
        })
    }

    /// Rank of a write-back among those that its cell has written for its deployment: projected ones first, then by
    /// name. Far beyond the limit no new write-back is projected, which saves counting them.
    pub fn rank(&self, i: usize, hub: &Arc<str>, name: &str) -> usize {
        let row = self.hub.write_backs[i].get(hub, name);
        let Some((deployment, cell)) = group(i, hub, row) else {
            return 0;
        };
        let Some(s) = self.standing(&deployment, cell.as_ref()) else {
            return 0;
        };
        if s.names.len() <= FLOOR {
            return 0;
        }
        let first = (s.projected)(name);
        if s.names.len() > 2 * s.most {
            return if first { 0 } else { usize::MAX };
        }
        let before = |other: &&Arc<str>| (!(s.projected)(other), &***other) < (!first, name);
        s.names.iter().filter(before).count()
    }

    fn standing(&self, deployment: &Deployment, cell: Option<&Arc<str>>) -> Option<GroupRank<'_>> {
        let (i, hub, name) = deployment;
        let names = self.hub.by_deployment.get(deployment)?.of(cell)?;
        let owner = self.owners.get(hub)?;
        let project = self.projects.get(&owner.project)?;
        let source = project.sources[*i].get(&owner.namespace, name)?;
        let (cluster, name) = (owner.project.label(), name.clone());
        let ours = move |p: &Projection| {
            p.cluster.as_deref() == Some(&*cluster) && p.owner.as_ref().is_some_and(|(of, _)| *of == name)
        };
        let projections = &project.projections[*i];
        Some(GroupRank {
            names,
            most: instance_limit(source),
            projected: Box::new(move |name| {
                let row = projections.get(&owner.namespace, name);
                row.is_some_and(|row| ours(&row.digest))
            }),
        })
    }
}
