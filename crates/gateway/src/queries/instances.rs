//! Which write-backs of a deployment are projected where a cell writes too many (contract: federation.md §3.8 step 5).
//! The limit applies to each cell separately.

use crate::index::{
    GatewayIndex, ObjectRef,
    derived::by_cell::{Names, group},
    rows::{Projection, Source},
};
use fedgate_engine::store::table::Row;
use fedgate_kinds::KindId;
use std::sync::Arc;

/// Instances of a cell that every deployment may have, whatever its scale.
const FLOOR: usize = 64;

/// Maximum number of Instances that a cell may have of a deployment.
pub fn instance_limit(source: &Row<Source>) -> usize {
    FLOOR.max(2 * source.digest.scale as usize)
}

/// Queries to a group: its members, and their projections.
struct GroupRank<'a> {
    names: &'a Names,
    most: usize,
    projected: Box<dyn Fn(&str) -> bool + 'a>,
}

impl GatewayIndex {
    /// Rank of a write-back among those that its cell has written for its deployment: projected ones first, then by
    /// name. Far beyond the limit no new write-back is projected, which saves counting them.
    pub fn rank(&self, i: KindId, hub: &Arc<str>, name: &str) -> usize {
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

    /// The write-backs of a cell that are projected now that another one of the same deployment has gone.
    pub fn next_projected(&self, deployment: &ObjectRef, cell: Option<&Arc<str>>) -> Vec<&Arc<str>> {
        let Some(s) = self.standing(deployment, cell) else {
            return Vec::new();
        };
        if s.names.len() < FLOOR || s.names.len() > 2 * s.most {
            return Vec::new();
        }
        let (has, lacks): (Vec<_>, Vec<_>) = s.names.iter().partition(|n| (s.projected)(n));
        let free = s.most.saturating_sub(has.len());
        lacks.into_iter().take(free).collect()
    }

    fn standing(&self, deployment: &ObjectRef, cell: Option<&Arc<str>>) -> Option<GroupRank<'_>> {
        let ObjectRef { kind: i, hub, name } = deployment;
        let names = self.hub.by_deployment.get(deployment)?.of(cell)?;
        let (project, owner) = self.owning(hub)?;
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
