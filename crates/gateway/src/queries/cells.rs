//! The cells of a deployment whose kind runs at one cell of its city at a time (contract: serving.md §1 and §2).

use crate::index::{
    GatewayIndex, ObjectRef, TableId,
    derived::by_cell::group,
    intents::moves::PlannedMove,
    rows::{Binding, Cell, HubCopy, MoveCause},
};
use fedgate_engine::{key::Plane, plan::Target, store::table::Row};
use jiff::Timestamp;
use std::sync::Arc;

/// The cells between which a deployment moves, and the cell that its copy is to name. All fields are empty for a kind whose
/// objects do not move, and while the binding belongs to an earlier copy.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    /// The cell that the copy is to name and does not.
    pub to_name: Option<Arc<str>>,
    /// The move that is to begin.
    pub planned: Option<PlannedMove>,
    /// The gateway's move that is under way.
    pub moving: Option<Moving>,
    /// The cell at which the deployment did not become healthy in the last, cancelled move.
    pub cancelled: Option<Arc<str>>,
    /// The lost cell of the deployment and the time since which that cell is not ready, in seconds since the epoch; `None` if
    /// another cell can run the deployment.
    pub stranded: Option<(Arc<str>, i64)>,
    /// Address of its binding.
    pub binding: Option<Target>,
}

/// A move that is under way.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moving {
    /// The cell that the deployment leaves.
    pub from: Arc<str>,
    /// The cell to which it goes; `None` if Karmada schedules it to none but the cell that it leaves.
    pub to: Option<Arc<str>>,
    /// Why it moves.
    pub cause: MoveCause,
    /// When the move began.
    pub since: Timestamp,
    /// True if the cell that it leaves is not in its city or location.
    pub is_misplaced: bool,
    /// True if it is healthy at the cell to which it goes, and that is ready.
    pub is_healthy: bool,
    /// True if it still serves at the cell that it leaves.
    pub serves: bool,
    /// True if the former cell has no write-backs left, or the new cell has written back all wanted Instances.
    pub is_written: bool,
}

/// The cells of a deployment.
pub fn of(index: &GatewayIndex, of: &ObjectRef) -> Cells {
    if !index.kinds[of.kind].is_movable() {
        return Cells::default();
    }
    let copy = index.hub.copies[of.kind].get(&of.hub, &of.name);
    let binding = index.binding(of.kind, &of.hub, &of.name);
    let both = copy.zip(binding).filter(|(copy, binding)| {
        binding.digest.owner.as_ref() == Some(&copy.uid) && !copy.deleting && !binding.deleting
    });
    let Some((copy, binding)) = both else {
        return Cells::default();
    };
    let moves = &index.intents.moves;
    let cell = binding.digest.clusters.first();
    let stranded = cell.and_then(|cell| Some((cell.clone(), stranded(index, of, copy, cell)?)));
    let name = index.binding_name(of.kind, &of.name);
    let planned = moves.planned.get(of);
    let is_as_planned = |planned: &&PlannedMove| {
        binding.digest.eviction.is_none() && *binding.digest.clusters == [planned.from.clone()]
    };
    Cells {
        to_name: to_name(index, of, copy, &binding.digest),
        planned: planned.filter(is_as_planned).cloned(),
        moving: moving(index, of, copy, &binding.digest),
        cancelled: moves.cancelled(of).and_then(|cancelled| cancelled.to.clone()),
        stranded,
        binding: Some(Target::namespaced(
            Plane::Hub,
            index.resource(TableId::Bindings),
            &of.hub,
            &name,
        )),
    }
}

/// The cell that a copy is to name and does not. This is the one cell to which Karmada schedules the copy, if the copy names another
/// cell, if an operator has moved it there, or if it names none and another cell of its city has written Instances, which the named cell
/// then replaces. No cell is named while Karmada keeps the copy at a former cell, but by the move itself.
fn to_name(index: &GatewayIndex, of: &ObjectRef, copy: &Row<HubCopy>, binding: &Binding) -> Option<Arc<str>> {
    let [cell] = &*binding.clusters else { return None };
    let is_there = copy.digest.move_to() == Some(cell);
    let is_needed = match copy.digest.cell() {
        Some(named) => named != cell || is_there,
        None => is_there || index.is_written_beside(of, cell, copy.digest.city.as_ref()),
    };
    (binding.eviction.is_none() && is_needed).then(|| cell.clone())
}

/// The time since which the lost cell of a copy is not ready, if no other cell can run it.
fn stranded(index: &GatewayIndex, of: &ObjectRef, copy: &Row<HubCopy>, cell: &str) -> Option<i64> {
    let lost = index.intents.moves.lost.get(cell).filter(|lost| !lost.is_held)?;
    let route = copy.digest.route()?;
    let mut cells = index.hub.clusters.iter();
    let has_other = cells.any(|(_, row)| Cell::takes(row, &route, &index.kinds[of.kind]));
    (!has_other).then_some(lost.since)
}

fn moving(index: &GatewayIndex, of: &ObjectRef, copy: &Row<HubCopy>, binding: &Binding) -> Option<Moving> {
    let eviction = binding.eviction.as_deref()?;
    let (cause, since) = eviction.moved?;
    let [from] = &*eviction.from else { return None };
    let to = match &*binding.clusters {
        [] => None,
        [to] => Some(to).filter(|to| *to != from),
        _ => return None,
    };
    let cluster = |cell: &Arc<str>| index.hub.clusters.get("", cell);
    let is_ready = |cell: &Arc<str>| cluster(cell).is_some_and(|row| row.digest.is_ready());
    let is_there = copy.digest.route().zip(cluster(from));
    let written = |cell: &Arc<str>| index.written_by(of, cell);
    let wanted = wanted(index, of, binding);
    Some(Moving {
        is_misplaced: is_there.is_none_or(|(route, row)| !row.digest.is_at(&route)),
        is_healthy: eviction.is_healthy && to.is_some_and(is_ready),
        serves: eviction.serves && is_ready(from),
        is_written: written(from) == 0 || to.is_some_and(|to| written(to) >= wanted),
        from: from.clone(),
        to: to.cloned(),
        cause,
        since,
    })
}

/// Number of wanted Instances. The deployment's own scale counts if it is smaller, because the binding has at least one replica, and if
/// the binding has no number, because Karmada does not interpret the replicas of every kind.
fn wanted(index: &GatewayIndex, of: &ObjectRef, binding: &Binding) -> usize {
    let scale = index
        .owned_source(of.kind, &of.hub, &of.name)
        .map(|row| row.digest.scale);
    let write_back = index.kinds[of.kind].write_back.as_ref();
    let scale = scale.filter(|_| write_back.is_some_and(|rules| !rules.scale_paths.is_empty()));
    let wanted = match scale {
        Some(scale) if binding.replicas == 0 || scale < binding.replicas => scale,
        _ => binding.replicas,
    };
    wanted as usize
}

/// The deployment of a write-back, if Karmada schedules its copy to cells, and the cell of the write-back is none of them, or the
/// deployment moves.
pub fn written_elsewhere(index: &GatewayIndex, write_back: &ObjectRef) -> Option<ObjectRef> {
    let ObjectRef { kind, hub, name } = write_back;
    let (of, cell) = group(*kind, hub, index.hub.write_backs[*kind].get(hub, name))?;
    let binding = &index.binding(*kind, hub, &of.name)?.digest;
    let is_elsewhere = !binding.clusters.is_empty() && !binding.clusters.contains(&cell?);
    let concerns = is_elsewhere || binding.eviction.is_some();
    (concerns && index.kinds[*kind].is_movable()).then_some(of)
}
