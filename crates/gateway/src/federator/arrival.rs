//! Facts that the index alone does not show: whether a sent copy has arrived on the hub, and whether the hub has
//! nothing left of a deployment.

use super::{
    decide::{copy_target, source_uid},
    observe::Snapshot,
};
use crate::{
    context::Context,
    index::{GatewayIndex, ObjectRef, TableId},
    reason::WriteReason,
    single_member,
};
use fedgate_api::keys;
use fedgate_engine::{
    error::{Category, Failure},
    executor::Selector,
    key::{Key, Plane},
    plan::{Applied, Effect, Plan, Prepared, Target},
    runtime::queue::Priority,
};
use kube::core::DynamicObject;

/// Reasons of the writes that bring a copy to a place where it was not.
const ARRIVALS: [WriteReason; 2] = [WriteReason::CreateCopy, WriteReason::MoveCopy];

fn arrives(effects: &[Effect]) -> bool {
    let is_arrival = |effect: &Effect| ARRIVALS.iter().any(|reason| effect.reason == *reason);
    effects.iter().any(is_arrival)
}

/// Records that the copy is in the index. If it is not where a write without an answer was to bring it, returns the keys of the objects
/// that may be removed there.
pub(super) fn note_seen(index: &mut GatewayIndex, s: &Snapshot) -> Vec<Key> {
    let Some((of, copy)) = s.copy_ref().zip(s.copy.as_ref()) else {
        return Vec::new();
    };
    let arriving = index.intents.arriving.remove(&of);
    if arriving.is_some_and(|to| copy.digest.route() != Some(to.route)) {
        needs_of(index, &of)
    } else {
        Vec::new()
    }
}

/// The keys of the objects that copies of a hub namespace need.
fn needs_of(index: &GatewayIndex, copy: &ObjectRef) -> Vec<Key> {
    vec![index.policies_key(&copy.hub), index.namespace_key(&copy.hub)]
}

/// Records the destination of the copy before the plan is executed: no index shows it until the answer arrives, and
/// until then no controller may remove what the copy needs. Returns `false` if that is being removed right now; the
/// copy is then not sent.
pub(super) fn note_sent(ctx: &Context<'_>, s: &Snapshot, plan: &Plan<Prepared>) -> bool {
    let (true, Some(copy), Ok(destination)) = (arrives(&plan.effects), s.copy_ref(), &s.destination.to)
    else {
        return true;
    };
    let mut index = ctx.index.lock();
    let ready = index.is_ready(s.kind, &copy.hub, destination);
    if ready {
        index.intents.arriving.insert(copy, destination.clone());
    }
    ready
}

/// Categories of failures after which the result of a write is not known: there was no answer, or nothing was sent while an
/// earlier write has no answer.
const UNKNOWN: [Category; 6] = [
    Category::Network,
    Category::Timeout,
    Category::Server,
    Category::NotLeader,
    Category::NotEngaged,
    Category::CircuitOpen,
];

/// Records that the copy was written, if the plan wrote it. Other writes, such as that of the status, say nothing of the copy.
pub(super) fn note_arrived(ctx: &Context<'_>, s: &Snapshot, plan: &Plan<Applied>) {
    if arrives(&plan.effects) {
        end_flight(ctx, s, false);
    }
}

/// Ends the record if the hub has refused a write. A failure of the project's plane says nothing of the copy. Without an answer the copy may
/// exist now or later. A write that was not sent removes no record, because each removal enqueues the policies, which enqueue the
/// deployments in turn, without a pause.
pub(super) fn note_failed(ctx: &Context<'_>, s: &Snapshot, failure: &Failure) {
    if failure.plane == Plane::Hub && !UNKNOWN.contains(&failure.category) {
        end_flight(ctx, s, true);
    }
}

/// Records that this hub is to have no copy, because its deployment is gone or names another hub. Garbage collection removes a
/// copy that is created later.
pub(super) fn note_unwanted(ctx: &Context<'_>, s: &Snapshot) {
    if s.arriving.is_some() && s.complete {
        end_flight(ctx, s, true);
    }
}

/// Asks the hub whether it has neither the copy nor a binding of its name: the index may not show a binding that
/// Karmada has just created, nor a copy whose write was never answered.
pub(super) async fn is_gone(ctx: &Context<'_>, s: &Snapshot) -> Result<bool, Failure> {
    let Some(copy) = s.copy_ref() else {
        return Ok(true);
    };
    let is_ours = |copy: &DynamicObject| {
        let annotations = copy.metadata.annotations.as_ref();
        let of = annotations.and_then(|a| a.get(keys::SOURCE_UID));
        of.is_none_or(|uid| Some(&**uid) == source_uid(s))
    };
    if let Some(is_ours) = ctx.executor.refresh(&copy_target(s), is_ours).await? {
        if is_ours {
            return Ok(false);
        }
    } else {
        let (binding, is_other) = {
            let index = ctx.index.lock();
            let name = index.binding_name(s.kind, &s.name);
            let target = Target::namespaced(Plane::Hub, index.resource(TableId::Bindings), &copy.hub, &name);
            let known = index.binding(s.kind, &copy.hub, &s.name);
            let own = single_member::own_binding(&index, &copy);
            (target, known.is_some() && own.is_none())
        };
        // Karmada names bindings by kinds without their groups: a binding of an object of another group is not this one's.
        if !is_other && ctx.executor.any(&binding, Selector::Name).await? {
            return Ok(false);
        }
    }
    end_flight(ctx, s, true);
    Ok(true)
}

/// Records that no write of the copy is in flight. If the copy `vanished`, Namespace and policies of its destination may be removed.
fn end_flight(ctx: &Context<'_>, s: &Snapshot, vanished: bool) {
    let Some(copy) = s.copy_ref() else { return };
    let mut index = ctx.index.lock();
    let keys = if index.intents.arriving.remove(&copy).is_some() && vanished {
        needs_of(&index, &copy)
    } else {
        Vec::new()
    };
    drop(index);
    ctx.queue.extend(keys, Priority::Fresh);
}
