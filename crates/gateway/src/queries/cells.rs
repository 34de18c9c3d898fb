//! The cell that runs a deployment of which one cell of the city has a copy (contract: serving.md §1).

use crate::index::{GatewayIndex, ObjectRef, derived::by_cell::group};
use std::sync::Arc;

/// The cell that a copy is to name and does not. This is the one cell to which Karmada schedules the copy, if the copy names another cell,
/// or if it names none and another cell of its city has written Instances, which the named cell then replaces. No cell is named while
/// Karmada keeps the copy at a former cell, nor by the binding of an earlier copy.
pub fn to_name(index: &GatewayIndex, of: &ObjectRef) -> Option<Arc<str>> {
    if !index.kinds[of.kind].is_movable() {
        return None;
    }
    let copy = index.hub.copies[of.kind].get(&of.hub, &of.name)?;
    let binding = &index.binding(of.kind, &of.hub, &of.name)?.digest;
    let [cell] = &*binding.clusters else { return None };
    let is_settled = binding.owner.as_ref() == Some(&copy.uid) && binding.evicted_from.is_empty();
    let is_needed = match &copy.digest.cell {
        Some(named) => named != cell,
        None => index.is_written_beside(of, cell, copy.digest.city.as_ref()),
    };
    (is_settled && is_needed).then(|| cell.clone())
}

/// The deployment of a write-back, if Karmada schedules its copy to cells, and the cell of the write-back is none of them.
pub fn written_elsewhere(index: &GatewayIndex, write_back: &ObjectRef) -> Option<ObjectRef> {
    let ObjectRef { kind, hub, name } = write_back;
    let (of, cell) = group(*kind, hub, index.hub.write_backs[*kind].get(hub, name))?;
    let scheduled = &index.binding(*kind, hub, &of.name)?.digest.clusters;
    let is_elsewhere = !scheduled.is_empty() && !scheduled.contains(&cell?);
    (is_elsewhere && index.kinds[*kind].is_movable()).then_some(of)
}
