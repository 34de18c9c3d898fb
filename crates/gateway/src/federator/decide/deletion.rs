//! Deletion of a deployment: its copy, the binding, companions and city policy, and our finalizers last (contract: federation.md
//! §3.4).

use super::{CopyStep, Pass, WAIT, act, copy::delete_copy, single_member, source_target, status::report_own};
use crate::{
    federator::{
        conditions,
        memory::{GRACE_PERIOD, Memory},
        observe::Snapshot,
    },
    index::rows::HubCopy,
    reason::WriteReason,
};
use fedgate_api::keys;
use fedgate_engine::{
    plan::{Effect, Requeue, Write},
    store::table::Row,
};
use serde_json::json;
use std::time::Duration;

/// Deletes the copy, waits for its binding, companions and city policy, and removes the finalizers.
pub(super) fn delete(p: &Pass<'_>, memory: &mut Memory) -> CopyStep {
    let Pass { s, source, now, .. } = *p;
    memory.is_binding_settled |= s.binding.is_some();
    memory.member.note_binding(s.binding.as_ref());
    // While a guard of its kind holds the deletion its tenant is told, and the hub is asked nothing.
    if let Some(held) = conditions::deletion_held(s, source) {
        return report_own(p, &held, memory);
    }
    if let Some(at) = &s.single_member {
        return single_member::delete(p, at, memory);
    }
    let released = p.settings.release_after.is_some_and(|limit| waited(p) >= limit);
    let mine = |c: &&Row<HubCopy>| c.digest.source_uid.as_ref().is_none_or(|uid| *uid == source.uid);
    if let Some(copy) = s.copy.as_ref().filter(mine) {
        let refusal = memory.refusal(source, now);
        if conditions::taken(s, copy) {
            return remove_finalizers(p, memory);
        } else if !copy.deleting && refusal.is_none() {
            return act(delete_copy(s, copy, WriteReason::DeleteCopy), memory.clone());
        } else if !released {
            return match refusal.filter(|_| !copy.deleting) {
                Some((message, left)) => {
                    let condition = conditions::hub_refused(source, message);
                    report_own(p, &condition, memory).by(Requeue::After(left))
                }
                None => wait_for_cells(p, memory),
            };
        }
    }
    if s.binding.is_some() && s.copy.as_ref().is_none_or(|c| mine(&c)) && !released {
        return wait_for_cells(p, memory);
    }
    if !is_settled(s, memory) && !released {
        return CopyStep::ConfirmGone;
    }
    // After `--release-after` garbage collection removes what the cells still hold: companions and policy stay as
    // long as the binding.
    if !released && (s.companions.hold || s.readiness.is_policy_leaving) {
        return WAIT;
    }
    remove_finalizers(p, memory)
}

/// True if the hub has nothing of the deployment that the index does not show: the binding was seen, or the hub has said that there is
/// none, and no write of the copy is without an answer.
pub(super) fn is_settled(s: &Snapshot, memory: &Memory) -> bool {
    memory.is_binding_settled && s.arriving.is_none()
}

/// Time since the deletion began. The project's API server has the time of its beginning, so that a restart does not reset it.
fn waited(p: &Pass<'_>) -> Duration {
    p.now.since_wall(p.source.digest.deleted.unwrap_or(p.now.wall))
}

pub(super) fn remove_finalizers(p: &Pass<'_>, memory: &Memory) -> CopyStep {
    let ours = [keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER];
    let rest = p.source.digest.finalizers.iter().map(|f| &**f);
    let rest: Vec<&str> = rest.filter(|f| !ours.contains(f)).collect();
    let version = p.source.resource_version();
    let patch = json!({"metadata": {"uid": &*p.source.uid, "resourceVersion": version, "finalizers": rest}});
    let write = Write::Merge { patch };
    let effect = Effect::main(source_target(p.s), write, WriteReason::RemoveFinalizers);
    act(effect, memory.clone())
}

/// Waits for the cells by event, and reports it after the grace period.
fn wait_for_cells(p: &Pass<'_>, memory: &Memory) -> CopyStep {
    let waited = waited(p);
    let release = p.settings.release_after.map_or(Requeue::AwaitChange, |limit| {
        Requeue::After(limit.saturating_sub(waited))
    });
    if waited < GRACE_PERIOD {
        return CopyStep::Wait(release.earlier(Requeue::After(GRACE_PERIOD.saturating_sub(waited))));
    }
    let since = p.source.digest.deleted.unwrap_or(p.now.wall);
    let condition = conditions::waiting_for_cells(p.s, p.source, since);
    report_own(p, &condition, memory).by(release)
}
