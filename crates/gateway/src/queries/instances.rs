//! Which write-backs of a deployment are projected where a cell writes too many (contract: federation.md §3.8 step 5).
//! The limit applies to each cell separately.

use crate::index::{
    GatewayIndex, ObjectRef,
    derived::by_cell::{Group, group},
    rows::{Projection, Source},
};
use fedgate_engine::store::table::Row;
use fedgate_kinds::KindId;
use std::{collections::BTreeSet, sync::Arc};

/// Instances of a cell that every deployment may have, whatever its scale.
const FLOOR: usize = 64;

/// Maximum number of Instances that a cell may have of a deployment.
pub fn instance_limit(source: &Row<Source>) -> usize {
    FLOOR.max(2 * source.digest.scale as usize)
}

/// A group whose members may be too many, and their projections.
struct GroupRank<'a> {
    names: &'a BTreeSet<Arc<str>>,
    most: usize,
    projected: Box<dyn Fn(&str) -> bool + 'a>,
}

impl GroupRank<'_> {
    /// True if it has so many members that no new one is projected.
    fn is_crowded(&self) -> bool {
        self.names.len() > 2 * self.most
    }
}

impl GatewayIndex {
    /// Rank of a write-back among those that its cell has written for its deployment: projected ones first, then by
    /// name. Far beyond the limit no new write-back is projected, which saves counting them.
    pub fn rank(&self, i: KindId, hub: &Arc<str>, name: &str) -> usize {
        let row = self.hub.write_backs[i].get(hub, name);
        let Some(s) = group(i, hub, row).and_then(|group| self.standing(&group)) else {
            return 0;
        };
        if s.names.len() <= FLOOR {
            return 0;
        }
        let first = (s.projected)(name);
        if s.is_crowded() {
            return if first { 0 } else { usize::MAX };
        }
        let before = |other: &&Arc<str>| (!(s.projected)(other), &***other) < (!first, name);
        s.names.iter().filter(before).count()
    }

    /// The write-backs of a group that are projected now that another one has left it.
    pub fn next_projected(&self, group: &Group) -> Vec<&Arc<str>> {
        let standing = self.standing(group);
        let Some(s) = standing.filter(|s| s.names.len() >= FLOOR && !s.is_crowded()) else {
            return Vec::new();
        };
        let (has, lacks): (Vec<_>, Vec<_>) = s.names.iter().partition(|n| (s.projected)(n));
        let free = s.most.saturating_sub(has.len());
        lacks.into_iter().take(free).collect()
    }

    fn standing(&self, group: &Group) -> Option<GroupRank<'_>> {
        let ObjectRef { kind: i, hub, name } = &group.0;
        let (project, owner) = self.owning(hub)?;
        let source = project.sources[*i].get(&owner.namespace, name)?;
        let (cluster, name) = (owner.project.label(), name.clone());
        let ours = move |p: &Projection| {
            p.cluster.as_deref() == Some(&*cluster) && p.owner.as_ref().is_some_and(|(of, _)| *of == name)
        };
        let projections = &project.projections[*i];
        Some(GroupRank {
            names: self.hub.by_deployment.get(group)?,
            most: instance_limit(source),
            projected: Box::new(move |name| {
                let row = projections.get(&owner.namespace, name);
                row.is_some_and(|row| ours(&row.digest))
            }),
        })
    }
}
