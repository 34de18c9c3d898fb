//! What goes from the hub, and when. Pure.
//!
//! Proof is a complete list of a live plane. Nothing goes at once: what has lost its origin or its users is remembered,
//! and goes when it has been so for its patience.

use super::brake::{Brake, Load};
use crate::{
    engine::{
        clock::Now,
        plan::{Effect, Endpoint, Plan, Prepared, Target, Write},
    },
    gateway::world::digest::{CitySet, HubNamespaceDigest},
    plane::table::Row,
};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long things wait.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a copy must have been an orphan before it is deleted.
    pub orphan_after: Duration,
    /// How long a hub Namespace outlives its project namespace.
    pub hub_namespace_retention: Duration,
    /// After how long a city set's policy without users is deleted.
    pub unused_city_set_after: Duration,
    /// When a copy that the brake holds is looked at again.
    pub sweep_interval: Duration,
}

/// What the project has in place of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Its project is not engaged, or one of its lists is incomplete: absence proves nothing.
    Unproven,
    /// Its live project has no namespace with the UID that the hub namespace is named after.
    NamespaceGone,
    /// The project namespace lives, and has no object of the copy's name.
    Absent,
    /// The object is being deleted and has let go of the hub.
    LetGo,
    /// The object is there. One of another UID counts as well: the federator replaces what an earlier one left.
    There,
}

/// A copy and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The copy's UID.
    pub uid: Arc<str>,
    /// Whether the copy is being deleted.
    pub deleting: bool,
    /// Whether the copy says which object it was made from. One that does not is not ours.
    pub marked: bool,
    /// What the project has in its place.
    pub origin: Origin,
    /// Whether its deployment was seen to go while it was there: no list that lacks it can be in error.
    pub seen_to_go: bool,
}

impl Standing {
    /// Whether the copy is ours, here to stay, and proven to have no origin.
    pub fn orphaned(&self) -> bool {
        self.marked
            && !self.deleting
            && matches!(
                self.origin,
                Origin::NamespaceGone | Origin::Absent | Origin::LetGo
            )
    }
}

/// What is known of a copy's key.
#[derive(Debug, Clone)]
pub struct CopySnapshot {
    /// The copy's address.
    pub target: Target,
    /// Whether every list of the hub is complete.
    pub hub_complete: bool,
    /// The copy; `None` if there is none.
    pub copy: Option<Standing>,
    /// Since when this copy is known to be an orphan.
    pub since: Option<Instant>,
    /// When an operator confirmed that the orphans of its hub Namespace are none in error.
    pub confirmed: Option<Timestamp>,
    /// Orphans of its project.
    pub project: Load,
    /// Orphans of all projects that are not held by themselves.
    pub hub: Load,
}

impl CopySnapshot {
    /// Since when the copy has been an orphan, if it is one.
    fn orphan(&self, now: Now) -> Option<(&Standing, Instant)> {
        let orphan = self.copy.as_ref().filter(|c| self.hub_complete && c.orphaned())?;
        Some((orphan, self.since.unwrap_or(now.instant)))
    }

    /// Whether it has been one for so long that it goes, unless a brake holds.
    pub fn is_due(&self, settings: Settings, now: Now) -> bool {
        self.orphan(now)
            .is_some_and(|(_, since)| left(since, settings.orphan_after, now).is_none())
    }

    /// Whether an operator has confirmed an orphan that was known then.
    fn is_confirmed(&self, since: Instant, now: Now) -> bool {
        self.confirmed
            .is_some_and(|at| at <= now.wall && now.since_wall(at) <= now.since(since))
    }
}

/// What is known of a hub Namespace that is tied to no live project namespace.
#[derive(Debug, Clone)]
pub struct NamespaceSnapshot {
    /// Its address.
    pub target: Target,
    /// Whether every list of the hub is complete.
    pub hub_complete: bool,
    /// The Namespace; `None` if there is none.
    pub row: Option<Row<HubNamespaceDigest>>,
    /// Whether its project namespace is proven gone.
    pub origin_gone: bool,
    /// Whether it holds no copy, write-back, binding and companion.
    pub empty: bool,
    /// Since when it is known to be empty and without origin.
    pub since: Option<Instant>,
}

impl NamespaceSnapshot {
    /// Whether it is here to stay and proven to have no origin: what is in it has to go.
    pub fn orphaned(&self) -> bool {
        self.hub_complete && self.origin_gone && self.row.as_ref().is_some_and(|row| !row.deleting)
    }
}

/// What is known of a cluster policy that may be a city set's.
#[derive(Debug, Clone)]
pub struct CitySetSnapshot {
    /// Its address.
    pub target: Target,
    /// Whether every list of the hub is complete.
    pub hub_complete: bool,
    /// The policy; `None` if there is none.
    pub row: Option<Row<CitySet>>,
    /// Whether a Namespace carries the set.
    pub used: bool,
    /// Whether a Namespace may carry it that is not seen to: it was sent there, and nothing was heard of it.
    pub sent: bool,
    /// Since when it is known to be unused.
    pub since: Option<Instant>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to do, and when to look again.
    pub plan: Plan<Prepared>,
    /// Since when the object has had no origin or no use, to be remembered of it; `None` forgets.
    pub since: Option<Instant>,
}

impl Decision {
    fn keep() -> Self {
        Self {
            plan: Plan::default(),
            since: None,
        }
    }

    fn after(since: Instant, wait: Duration) -> Self {
        Self {
            plan: Plan::after(wait),
            since: Some(since),
        }
    }

    fn delete(since: Instant, target: &Target, write: Write, reason: &'static str) -> Self {
        let effect = Effect {
            target: target.clone(),
            endpoint: Endpoint::Main,
            write,
            reason,
        };
        Self {
            plan: Plan::one(effect),
            since: Some(since),
        }
    }
}

/// A decision on a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyDecision {
    /// What becomes of the copy.
    pub decision: Decision,
    /// Whether it is an orphan that counts for the brakes.
    pub counted: bool,
    /// The brake that keeps it.
    pub held: Option<Brake>,
}

/// How much of its patience is left; `None` once it is over.
pub(super) fn left(since: Instant, patience: Duration, now: Now) -> Option<Duration> {
    let left = patience.saturating_sub(now.since(since));
    (!left.is_zero()).then_some(left)
}

/// Decides on a copy: one that has been an orphan for long enough goes, unless there are too many of them.
///
/// What was seen to go, and what an operator confirmed, is no error: it goes in any number.
pub fn copy(s: &CopySnapshot, settings: Settings, now: Now) -> CopyDecision {
    let Some((orphan, since)) = s.orphan(now) else {
        return CopyDecision {
            decision: Decision::keep(),
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
    let write = Write::Delete {
        uid: orphan.uid.to_string(),
        resource_version: None,
    };
    decided(Decision::delete(since, &s.target, write, "delete_orphan"), None)
}

/// Deletes exactly what was seen.
fn as_seen<D>(row: &Row<D>) -> Write {
    Write::Delete {
        uid: row.uid.to_string(),
        resource_version: Some(row.resource_version()),
    }
}

/// Decides on a hub Namespace: without origin and empty it goes after its retention, and with it every cell's.
pub fn namespace(s: &NamespaceSnapshot, settings: Settings, now: Now) -> Decision {
    let Some(row) = s.row.as_ref().filter(|_| s.orphaned()) else {
        return Decision::keep();
    };
    if !s.empty {
        // The events of what is in it wake its key.
        return Decision {
            plan: Plan::default(),
            since: s.since,
        };
    }
    let since = s.since.unwrap_or(now.instant);
    match left(since, settings.hub_namespace_retention, now) {
        Some(left) => Decision::after(since, left),
        None => Decision::delete(since, &s.target, as_seen(row), "collect_namespace"),
    }
}

/// Decides on a city set's policy: without a Namespace that carries the set it goes.
pub fn city_set(s: &CitySetSnapshot, settings: Settings, now: Now) -> Decision {
    let Some(row) = s.row.as_ref().filter(|row| !row.deleting) else {
        return Decision::keep();
    };
    // Someone's policy may bear such a name, and deleting it would withdraw what it delivers. One that is in every
    // field as we write it selects nothing but Namespaces with our label. One of ours that was edited stays, unused.
    let ours = s.target.name.starts_with("cities-") && row.digest.exact && row.digest.cities.is_some();
    if !ours || s.used || !s.hub_complete {
        return Decision::keep();
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
        None => Decision::delete(since, &s.target, as_seen(row), "delete_city_set"),
    }
}
