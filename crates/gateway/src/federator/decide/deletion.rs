//! Deletion of a deployment: its copy, the binding, companions and city policy, and our finalizers last.

use super::{Settings, Step, act, copy::delete_copy, source_target, status::status_only};
use crate::reason::WriteReason;
use crate::{
    federator::{
        conditions,
        memory::{GRACE_PERIOD, Memory},
        observe::Snapshot,
    },
    index::rows::{HubCopy, Source},
};
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    plan::{Effect, Endpoint, Requeue, Write},
    store::table::Row,
};
use jiff::Timestamp;
use serde_json::json;

/// While a guard of its kind holds the deletion: its tenant is told, and the hub is asked nothing.
pub(in crate::federator) fn guarded(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &Memory,
    settings: &Settings,
    now: Now,
) -> Option<Step> {
    let held = conditions::deletion_held(s, source)?;
    let said = std::slice::from_ref(&held);
    Some(status_only(s, source, said, memory, settings, now))
}

/// Deletion: copy, then the wait for its binding, companions, city policy, finalizers (contract: federation.md
/// §3.4).
pub(super) fn delete_step(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &mut Memory,
    settings: &Settings,
    now: Now,
) -> Step {
    memory.bound |= s.binding.is_some();
    if let Some(step) = guarded(s, source, memory, settings, now) {
        return step;
    }
    let waited = now.since_wall(since(source, now));
    let released = settings.release_after.is_some_and(|limit| waited >= limit);
    let mine = |c: &&Row<HubCopy>| c.digest.source_uid.as_ref().is_none_or(|uid| *uid == source.uid);
    if let Some(copy) = s.copy.as_ref().filter(mine) {
        let refusal = memory.refusal(source, now);
        if conditions::taken(s, copy) {
            return remove_finalizers(s, source, memory);
        } else if !copy.deleting && refusal.is_none() {
            return act(delete_copy(s, copy, WriteReason::DeleteCopy), memory.clone());
        } else if !released {
            let Some((message, left)) = refusal.filter(|_| !copy.deleting) else {
                return wait_for_cells(s, source, memory, settings, now);
            };
            let condition = conditions::hub_refused(source, message);
            let said = std::slice::from_ref(&condition);
            return status_only(s, source, said, memory, settings, now).by(Requeue::After(left));
        }
    }
    if s.binding.is_some() && s.copy.as_ref().is_none_or(|c| mine(&c)) && !released {
        return wait_for_cells(s, source, memory, settings, now);
    }
    if !memory.bound && !released {
        return Step::ConfirmGone;
    }
    // After `--release-after` garbage collection removes what the cells still hold: companions and policy stay as
    // long as the binding.
    if !released && (s.companions_hold || s.policy_leaving) {
        return Step::Wait(Requeue::AwaitChange);
    }
    remove_finalizers(s, source, memory)
}

/// Deletion time as the project's API server has it: a restart does not reset it.
fn since(source: &Row<Source>, now: Now) -> Timestamp {
    source.digest.deleted.unwrap_or(now.wall)
}

pub(in crate::federator) fn remove_finalizers(s: &Snapshot, source: &Row<Source>, memory: &Memory) -> Step {
    let rest: Vec<&str> = source
        .digest
        .finalizers
        .iter()
        .map(|f| &**f)
        .filter(|f| *f != keys::FEDERATOR_FINALIZER && *f != keys::REFERENCED_DATA_FINALIZER)
        .collect();
    let patch = json!({"metadata": {"uid": &*source.uid, "resourceVersion": source.resource_version(), "finalizers": rest}});
    let write = Write::Merge { patch };
    let effect = Effect {
        target: source_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: WriteReason::RemoveFinalizers.into(),
    };
    act(effect, memory.clone())
}

/// Waits for the cells by event, and reports it after the grace period.
fn wait_for_cells(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &Memory,
    settings: &Settings,
    now: Now,
) -> Step {
    let since = since(source, now);
    let waited = now.since_wall(since);
    let release = settings.release_after.map_or(Requeue::AwaitChange, |limit| {
        Requeue::After(limit.saturating_sub(waited))
    });
    if waited < GRACE_PERIOD {
        return Step::Wait(release.earlier(Requeue::After(GRACE_PERIOD.saturating_sub(waited))));
    }
    let condition = conditions::waiting_for_cells(s, source, since);
    status_only(s, source, std::slice::from_ref(&condition), memory, settings, now).by(release)
}
