//! Moves of a deployment from cell to cell of its city (contract: serving.md §2). The new cell serves before the former cell stops: the binding
//! names the new cell, and Karmada keeps the copy at the former one by a graceful eviction task, until the gateway ends the task.

use super::{Act, CopyStep, Pass, act, copy::await_permit, copy_target};
use crate::{
    federator::{events, memory::Memory, observe::HubNamespaceState},
    index::{
        intents::moves::PlannedMove,
        rows::{Binding, HubCopy},
    },
    queries::cells::Moving,
    rate_limit::Class,
    reason::WriteReason,
};
use fedgate_api::keys;
use fedgate_engine::{
    plan::{Effect, Event, Plan, Requeue, Write},
    store::table::Row,
};
use serde_json::{Value, json};

/// The next step of a move, or of naming the cell that runs the deployment; `None` if there is none.
pub(super) fn next_move_step(p: &Pass<'_>, memory: &Memory) -> Option<CopyStep> {
    let s = p.s;
    let copy = s.copy.as_ref().filter(|copy| !copy.deleting)?;
    let binding = s.binding.as_ref().filter(|binding| !binding.deleting)?;
    let is_ours =
        s.hub_state == HubNamespaceState::Ours && copy.digest.source_uid.as_ref() == Some(&p.source.uid);
    if !is_ours {
        return None;
    }
    if let Some(moving) = &s.cells.moving {
        return continue_move(p, copy, binding, moving, memory);
    }
    if let Some(planned) = &s.cells.planned {
        return start_move(p, copy, binding, planned, memory);
    }
    if let Some(step) = remove_request(p, copy, memory) {
        return Some(step);
    }
    let cell = s.cells.to_name.as_ref()?;
    let step = await_permit(p, Class::Update);
    Some(step.unwrap_or_else(|| act(name_cell(p, copy, cell), memory.clone())))
}

/// Begins a move. The copy gets `moving-to` first, because the new cell counts the former cell's claim only then.
fn start_move(
    p: &Pass<'_>,
    copy: &Row<HubCopy>,
    binding: &Row<Binding>,
    planned: &PlannedMove,
    memory: &Memory,
) -> Option<CopyStep> {
    if copy.digest.moving_to() != Some(&planned.to) {
        let annotations = json!({keys::MOVING_TO: &*planned.to});
        let step = await_permit(p, Class::Update);
        let effect = || patch_copy(p, copy, &annotations, WriteReason::RequestMove);
        return Some(step.unwrap_or_else(|| act(effect(), memory.clone())));
    }
    let task = json!({
        "fromCluster": &*planned.from, "purgeMode": "Gracefully", "suppressDeletion": true, "producer": keys::EVICTION_PRODUCER,
        "reason": planned.cause.as_str(), "creationTimestamp": p.now.wall.to_string(),
    });
    let spec = json!({"clusters": [cluster_entry(binding, &planned.to)], "gracefulEvictionTasks": [task]});
    let effect = patch_binding(p, binding, &spec, WriteReason::StartMove)?;
    Some(act(effect, memory.clone()))
}

/// Removes `moving-to` if no move is planned or under way, and `move-to` if that move was cancelled.
fn remove_request(p: &Pass<'_>, copy: &Row<HubCopy>, memory: &Memory) -> Option<CopyStep> {
    let is_cancelled =
        copy.digest.move_to().is_some() && copy.digest.move_to() == p.s.cells.cancelled.as_ref();
    let mut annotations = json!({});
    for (key, is_over) in [
        (keys::MOVING_TO, copy.digest.moving_to().is_some()),
        (keys::MOVE_TO, is_cancelled),
    ] {
        if is_over {
            annotations[key] = Value::Null;
        }
    }
    let is_named = p.s.cells.to_name.is_some();
    let is_over = annotations.as_object().is_some_and(|all| !all.is_empty());
    (is_over && !is_named).then(|| {
        act(
            patch_copy(p, copy, &annotations, WriteReason::RequestMove),
            memory.clone(),
        )
    })
}

/// The next step of a move that is under way: the copy names the new cell once that serves, and the former cell is released once the new
/// one has written back the Instances. A move that is overdue is cancelled if the former cell still serves.
fn continue_move(
    p: &Pass<'_>,
    copy: &Row<HubCopy>,
    binding: &Row<Binding>,
    moving: &Moving,
    memory: &Memory,
) -> Option<CopyStep> {
    if moving.is_misplaced {
        // The copy or the former cell is in another city, so the former cell need not keep the object.
        return end_move(p, binding, None, memory);
    }
    let Some(to) = &moving.to else {
        return cancel_move(p, binding, moving, memory);
    };
    let left = p
        .settings
        .move_timeout
        .saturating_sub(p.now.since_wall(moving.since));
    let is_overdue = left.is_zero();
    let is_taken_over = moving.is_healthy && (moving.is_written || p.source.digest.suspended);
    if is_overdue && moving.serves && !is_taken_over {
        return cancel_move(p, binding, moving, memory);
    }
    if !moving.is_healthy && !is_overdue {
        return Some(CopyStep::Wait(Requeue::After(left)));
    }
    if copy.digest.cell() != Some(to) {
        return Some(act(name_cell(p, copy, to), memory.clone()));
    }
    if is_taken_over || is_overdue {
        return end_move(
            p,
            binding,
            Some(events::cell_moved(p.s, p.source, moving)),
            memory,
        );
    }
    Some(CopyStep::Wait(Requeue::After(left)))
}

/// Releases the former cell.
fn end_move(p: &Pass<'_>, binding: &Row<Binding>, told: Option<Event>, memory: &Memory) -> Option<CopyStep> {
    let spec = json!({"gracefulEvictionTasks": null});
    let mut plan = Plan::one(patch_binding(p, binding, &spec, WriteReason::EndMove)?);
    plan.notes.extend(told);
    Some(CopyStep::Act(Box::new(Act::new(plan, memory.clone()))))
}

/// Leaves the deployment at the former cell.
fn cancel_move(p: &Pass<'_>, binding: &Row<Binding>, moving: &Moving, memory: &Memory) -> Option<CopyStep> {
    let spec = json!({"clusters": [cluster_entry(binding, &moving.from)], "gracefulEvictionTasks": null});
    let mut plan = Plan::one(patch_binding(p, binding, &spec, WriteReason::CancelMove)?);
    plan.notes.push(events::move_stalled(p.s, p.source, moving));
    Some(CopyStep::Act(Box::new(Act::new(plan, memory.clone()))))
}

/// The cluster of a binding, as Karmada's scheduler writes it.
fn cluster_entry(binding: &Row<Binding>, cell: &str) -> Value {
    match binding.digest.replicas {
        0 => json!({"name": cell}),
        replicas => json!({"name": cell, "replicas": replicas}),
    }
}

fn patch_binding(p: &Pass<'_>, binding: &Row<Binding>, spec: &Value, reason: WriteReason) -> Option<Effect> {
    let patch = json!({"metadata": {"uid": &*binding.uid, "resourceVersion": binding.resource_version()}, "spec": spec});
    let target = p.s.cells.binding.clone()?;
    Some(Effect::main(target, Write::Merge { patch }, reason))
}

/// Writes the name of the cell that runs the deployment into its copy. An operator's request for this cell is removed.
fn name_cell(p: &Pass<'_>, copy: &Row<HubCopy>, cell: &str) -> Effect {
    let mut annotations = json!({keys::CELL: cell});
    let is_requested = copy.digest.move_to().is_some_and(|to| **to == *cell);
    for (key, is_over) in [
        (keys::MOVE_TO, is_requested),
        (keys::MOVING_TO, copy.digest.moving_to().is_some()),
    ] {
        if is_over {
            annotations[key] = Value::Null;
        }
    }
    patch_copy(p, copy, &annotations, WriteReason::NameCell)
}

fn patch_copy(p: &Pass<'_>, copy: &Row<HubCopy>, annotations: &Value, reason: WriteReason) -> Effect {
    let patch = json!({"metadata": {"uid": &*copy.uid, "resourceVersion": copy.resource_version(), "annotations": annotations}});
    Effect::main(copy_target(p.s), Write::Merge { patch }, reason)
}
