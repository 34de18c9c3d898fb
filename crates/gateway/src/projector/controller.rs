//! The controller reference of a write-back, which must be the copy's. Pure functions.

use super::{
    decide::{Decision, Settings, Snapshot, refuse},
    memory::Memory,
};
use crate::{
    index::rows::{HubCopy, WriteBackDigest},
    reason::Verdict,
};
use fedgate_engine::{clock::Now, store::table::Row};
use std::time::Duration;

/// Time that the hub's garbage collector has to delete objects of an earlier copy.
const COLLECTION: Duration = Duration::from_mins(1);

/// The answer to a write-back that another object than the copy controls, or none where one is required.
pub(super) fn of_another(
    s: &Snapshot,
    w: &WriteBackDigest,
    copy: &Row<HubCopy>,
    deployment: &str,
    memory: &mut Memory,
    settings: Settings,
    now: Now,
) -> Option<Decision> {
    let Some((kind, name, uid)) = &w.controller else {
        let message = format!(
            "Instance {} has no controller; the cell must set the hub's {deployment}",
            s.name
        );
        return settings
            .require_owner
            .then(|| refuse(Verdict::OwnerMismatch, message));
    };
    let named = **kind == *s.profile().resource.kind && **name == *deployment;
    if named && *uid == copy.uid {
        memory.stale_owner_since = None;
        return None;
    }
    if named
        && w.created < copy.digest.created
        && let Some(left) = gc_grace_left(memory, now)
    {
        return Some(Decision::WaitFor(left));
    }
    Some(refuse(
        Verdict::OwnerMismatch,
        format!(
            "Instance {} is controlled by {kind} {name} ({uid}), not by the hub's {deployment}; the cell must correct its owner",
            s.name
        ),
    ))
}

/// Remaining time for the hub's garbage collector to delete what belongs to an earlier copy of the name.
fn gc_grace_left(memory: &mut Memory, now: Now) -> Option<Duration> {
    let since = *memory.stale_owner_since.get_or_insert(now.instant);
    let left = COLLECTION.saturating_sub(now.since(since));
    (!left.is_zero()).then_some(left)
}
