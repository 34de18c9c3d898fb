//! Decides which hub objects are deleted, and when. Pure.
//!
//! Absence counts only if a plane is up and its list is complete. No object is deleted at once: an object that has lost
//! its origin or its users is remembered, and deleted after its grace period.

use super::brake::{Brake, Load};
use crate::index::rows::{CitySet, HubNamespaceDigest};
use crate::reason::WriteReason;
use crate::settings::Settings;
use fedgate_api::names::city_set_of;
use fedgate_engine::{
    clock::Now,
    plan::{Effect, Plan, Prepared, Target, Write},
    store::table::Row,
};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// State of the project's object that a copy was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The project is not engaged, or one of its lists is incomplete: absence proves nothing.
    Unproven,
    /// The project is engaged and has no namespace with the UID that the hub namespace is named after.
    NamespaceGone,
    /// The Project is deleted on its platform.
    ProjectDeleted,
    /// The project namespace exists and has no object of the copy's name.
    Absent,
    /// The object is being deleted, and the federator's finalizer is removed.
    Released,
    /// The object exists. An object with another UID counts as well: the federator replaces the copy of its
    /// predecessor.
    There,
}

/// A copy and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyState {
    /// The copy's UID.
    pub uid: Arc<str>,
    /// True if the copy is being deleted.
    pub deleting: bool,
    /// True if the copy has the annotation with its source object's UID. A copy without the annotation is not the
    /// gateway's.
    pub marked: bool,
    /// The project's object that the copy was made from.
    pub origin: Origin,
    /// True if the delete event of its deployment was observed while the copy existed, or its Project is proven deleted: a
    /// faulty list cannot be the cause.
    pub seen_to_go: bool,
}

impl CopyState {
    /// True if the copy is the gateway's, is not being deleted, and is proven to have no origin.
    pub fn orphaned(&self) -> bool {
        self.marked
            && !self.deleting
            && matches!(
                self.origin,
                Origin::NamespaceGone | Origin::ProjectDeleted | Origin::Absent | Origin::Released
            )
    }
}

/// Input of the decision on a copy.
#[derive(Debug, Clone)]
pub struct CopySnapshot {
    /// The copy's address.
    pub target: Target,
    /// True if every list of the hub is complete.
    pub hub_complete: bool,
    /// The copy; `None` if it does not exist.
    pub copy: Option<CopyState>,
    /// Time since when this copy is known to be an orphan.
    pub since: Option<Instant>,
    /// Time at which an operator confirmed that the orphans of its hub Namespace are no error.
    pub confirmed: Option<Timestamp>,
    /// Load of its project.
    pub project: Load,
    /// Load of the hub, without the orphans of projects that their own brake holds.
    pub hub: Load,
}

impl CopySnapshot {
    /// The copy if it is an orphan, and since when.
    fn orphan(&self, now: Now) -> Option<(&CopyState, Instant)> {
        let orphan = self.copy.as_ref().filter(|c| self.hub_complete && c.orphaned())?;
        Some((orphan, self.since.unwrap_or(now.instant)))
    }

    /// True if the copy has been an orphan for `orphan_after`, so that it is deleted unless a brake holds.
    pub fn is_due(&self, settings: &Settings, now: Now) -> bool {
        self.orphan(now)
            .is_some_and(|(_, since)| left(since, settings.orphan_after, now).is_none())
    }

    /// True if an operator confirmed the orphan after it became known.
    fn is_confirmed(&self, since: Instant, now: Now) -> bool {
        self.confirmed
            .is_some_and(|at| at <= now.wall && now.since_wall(at) <= now.since(since))
    }
}

/// Input of the decision on a hub Namespace that no project namespace owns.
#[derive(Debug, Clone)]
pub struct NamespaceSnapshot {
    /// The Namespace's address.
    pub target: Target,
    /// True if every list of the hub is complete.
    pub hub_complete: bool,
    /// The Namespace; `None` if it does not exist.
    pub row: Option<Row<HubNamespaceDigest>>,
    /// True if its project namespace is proven deleted.
    pub origin_gone: bool,
    /// True if the Namespace contains no copy, write-back, binding or companion.
    pub empty: bool,
    /// Time since when it is known to be empty and without origin.
    pub since: Option<Instant>,
}

impl NamespaceSnapshot {
    /// True if the Namespace is not being deleted and is proven to have no origin: its contents must be deleted.
    pub fn orphaned(&self) -> bool {
        self.hub_complete && self.origin_gone && self.row.as_ref().is_some_and(|row| !row.deleting)
    }
}

/// Input of the decision on a cluster policy that may be a city set's.
#[derive(Debug, Clone)]
pub struct CitySetSnapshot {
    /// The policy's address.
    pub target: Target,
    /// True if every list of the hub is complete.
    pub hub_complete: bool,
    /// The policy; `None` if it does not exist.
    pub row: Option<Row<CitySet>>,
    /// True if a Namespace has the set's label.
    pub used: bool,
    /// True if the set was sent to a Namespace and no answer or event has confirmed the result, so that the Namespace
    /// may have it.
    pub sent: bool,
    /// Time since when it is known to be unused.
    pub since: Option<Instant>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Writes, and the time of the next reconcile.
    pub plan: Plan<Prepared>,
    /// Time since when the object has had no origin or no users, to be remembered; `None` forgets it.
    pub since: Option<Instant>,
}

impl Decision {
    pub(super) fn none() -> Self {
        Self {
            plan: Plan::default(),
            since: None,
        }
    }

    pub(super) fn after(since: Instant, wait: Duration) -> Self {
        Self {
            plan: Plan::after(wait),
            since: Some(since),
        }
    }

    pub(super) fn delete(since: Instant, target: &Target, write: Write, reason: WriteReason) -> Self {
        Self {
            plan: Plan::one(Effect::main(target.clone(), write, reason)),
            since: Some(since),
        }
    }
}

/// A decision on a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyDecision {
    /// The plan for the copy.
    pub decision: Decision,
    /// True if the copy is an orphan that counts for the brakes.
    pub counted: bool,
    /// The brake that keeps the copy.
    pub held: Option<Brake>,
}

/// Remaining grace period; `None` if it is over.
pub(super) fn left(since: Instant, patience: Duration, now: Now) -> Option<Duration> {
    let left = patience.saturating_sub(now.since(since));
    (!left.is_zero()).then_some(left)
}

/// Decides on a copy: an orphan is deleted after its grace period, unless there are too many orphans.
///
/// A copy whose deployment's deletion was observed, or whose loss an operator confirmed, is no error: any number is
/// deleted.
pub fn copy(s: &CopySnapshot, settings: &Settings, now: Now) -> CopyDecision {
    let Some((orphan, since)) = s.orphan(now) else {
        return CopyDecision {
            decision: Decision::none(),
            counted: false,
            held: None,
        };
    };
    let counted = !orphan.seen_to_go && !s.is_confirmed(since, now);
    let decided = |decision, held| CopyDecision {
        decision,
        counted,
        held,
    };
    if let Some(left) = left(since, settings.orphan_after, now) {
        return decided(Decision::after(since, left), None);
    }
    let held = if !counted {
        None
    } else if s.project.exceeds_project() {
        Some(Brake::Project)
    } else {
        s.hub.exceeds_hub().then_some(Brake::Hub)
    };
    if held.is_some() {
        return decided(Decision::after(since, settings.sweep_interval), held);
    }
    let reason = if orphan.origin == Origin::ProjectDeleted {
        WriteReason::TearDown
    } else {
        WriteReason::DeleteOrphan
    };
    let delete = Decision::delete(since, &s.target, Write::delete(&orphan.uid), reason);
    decided(delete, None)
}

/// Deletes exactly the observed version.
fn as_seen<D>(row: &Row<D>) -> Write {
    Write::Delete {
        uid: row.uid.to_string(),
        resource_version: Some(row.resource_version()),
    }
}

/// Decides on a hub Namespace: without origin and empty, it is deleted after its retention, and with it the Namespaces
/// at the cells.
pub fn namespace(s: &NamespaceSnapshot, settings: &Settings, now: Now) -> Decision {
    let Some(row) = s.row.as_ref().filter(|_| s.orphaned()) else {
        return Decision::none();
    };
    if !s.empty {
        // Events of its contents enqueue its key.
        return Decision {
            plan: Plan::default(),
            since: s.since,
        };
    }
    let since = s.since.unwrap_or(now.instant);
    match left(since, settings.hub_namespace_retention, now) {
        Some(left) => Decision::after(since, left),
        None => Decision::delete(since, &s.target, as_seen(row), WriteReason::CollectNamespace),
    }
}

/// Decides on a city set's policy: it is deleted if no Namespace has the set's label.
pub fn city_set(s: &CitySetSnapshot, settings: &Settings, now: Now) -> Decision {
    let Some(row) = s.row.as_ref().filter(|row| !row.deleting) else {
        return Decision::none();
    };
    // A policy of another owner may have such a name, and deleting it would withdraw its deliveries. A policy that
    // equals the gateway's in every field selects nothing but Namespaces with the gateway's label. An edited policy of
    // the gateway stays, unused.
    let ours = city_set_of(&s.target.name).is_some() && row.digest.exact && row.digest.cities.is_some();
    if !ours || s.used || !s.hub_complete {
        return Decision::none();
    }
    if s.sent {
        return Decision {
            plan: Plan::after(settings.sweep_interval),
            since: None,
        };
    }
    let since = s.since.unwrap_or(now.instant);
    match left(since, settings.unused_city_set_after, now) {
        Some(left) => Decision::after(since, left),
        None => Decision::delete(since, &s.target, as_seen(row), WriteReason::DeleteCitySet),
    }
}
