//! The objects that want a companion, and the lane that they give it.

use super::observe::named;
use crate::gateway::{
    index::{GatewayIndex, digest::Companion, pins::PinnedCluster},
    lane::{CompanionLane, CopyLane, Lane, Stage},
    pin::Pin,
    references,
};
use fedgate_engine::store::table::Row;
use fedgate_kinds::{CompanionKind, KindId};
use std::{collections::BTreeSet, sync::Arc};

/// The objects that want a companion.
pub(super) struct Users {
    /// `<project namespace>/<name>` of each.
    pub(super) entries: BTreeSet<String>,
    /// Members of those that live at one.
    pub(super) members: BTreeSet<Arc<str>>,
    /// True if there are others.
    pub(super) others: bool,
    /// True if some live at one member and have none yet.
    pub(super) unplaced: bool,
    /// Members whose Clusters have left the hub, or are other ones that do not have it: it does not go there.
    pub(super) severed: BTreeSet<Arc<str>>,
    /// Members whose Clusters are other ones and have applied it already: it stays as it is there, as their objects do.
    pub(super) frozen: BTreeSet<Arc<str>>,
    /// True if some have a member that no record names any more: what it has stays there.
    pub(super) lost: bool,
    /// The object that it goes with at its member, for a kind of which that is so, once it has a member.
    pub(super) adopter: Option<Adopter>,
    /// Those whose new spec no longer names it.
    pub(super) leaving: Vec<Leaving>,
    /// The largest source that they admit, in bytes.
    pub(super) size_limit: usize,
}

/// An object whose new spec no longer names a companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Its entry.
    pub entry: String,
    /// True if its member has applied that spec.
    pub is_applied: bool,
}

/// The object with which a companion goes at its member.
pub(super) struct Adopter {
    member: Arc<str>,
    /// True if the member has been given the object, so that it may have made the companion part of it.
    is_kept: bool,
    /// True if the object is being taken off its member.
    ends: bool,
    /// The lane that the companion has while the Cluster of the member has left the hub, or is another one.
    severed: Option<Severed>,
}

/// State of a companion whose member's Cluster has left the hub, or is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severed {
    /// It is not on the hub, and is not made there.
    Absent,
    /// It is given to no member.
    Nowhere,
    /// The Cluster has applied it already: it stays as it is there, as its object does.
    Applied,
    /// The same of one that the member keeps.
    Kept,
    /// It was on its way to the Cluster: nothing is dispatched any more.
    Stopped,
}

impl Severed {
    fn read(
        index: &GatewayIndex,
        cluster: PinnedCluster,
        (hub, pin): (&str, &Pin),
        (kind, name): (CompanionKind, &str),
    ) -> Option<Self> {
        if cluster == PinnedCluster::Same {
            return None;
        }
        let Some(row) = index.hub.companions[kind].get(hub, name) else {
            return Some(Self::Absent);
        };
        let is_applied = || has_applied(index, (kind, hub, name), &pin.member);
        Some(match CompanionLane::read(row.digest.lane.as_deref()) {
            CompanionLane::Keep(_) | CompanionLane::Park(_) if cluster == PinnedCluster::Gone => {
                Self::Nowhere
            }
            CompanionLane::Keep(_) if is_applied() => Self::Kept,
            CompanionLane::Keep(_) | CompanionLane::Park(_) => Self::Stopped,
            CompanionLane::Other if cluster == PinnedCluster::Replaced && is_applied() => Self::Applied,
            CompanionLane::Other => Self::Nowhere,
        })
    }
}

/// True if a companion is given to members, and one of them has applied it, as its binding says for this lane or the one before.
fn has_applied(index: &GatewayIndex, (kind, hub, name): (CompanionKind, &str, &str), member: &str) -> bool {
    let none = Lane::WithNone.name(&index.kinds);
    let row = index.hub.companions[kind].get(hub, name);
    let given = row.filter(|row| row.digest.lane.as_deref().is_some_and(|lane| *lane != *none));
    let binding = given.and_then(|row| index.own_companion_binding(kind, (hub, name), row));
    let item = binding.and_then(|binding| binding.delivery.as_deref()?.at(member));
    item.is_some_and(|item| item.applied)
}

impl Adopter {
    /// Reads it from the index.
    pub(super) fn read(
        index: &GatewayIndex,
        (kind, hub, name): (KindId, &str, &str),
        pin: &Pin,
        (companion, companion_name): (CompanionKind, &str),
    ) -> Self {
        let token = references::token(&index.companions, companion, companion_name);
        let source = index.owned_source(kind, hub, name);
        let copy = index.hub.copies[kind].get(hub, name);
        let is_stopped = copy.is_none_or(|copy| {
            let lane = CopyLane::read(&index.kinds[kind], copy.digest.lane.as_deref());
            matches!(lane, CopyLane::At(Stage::Drop, _))
        });
        let cluster = index.pinned_cluster(pin);
        Self {
            severed: Severed::read(index, cluster, (hub, pin), (companion, companion_name)),
            member: pin.member.clone(),
            is_kept: pin.kept.iter().any(|kept| **kept == *token),
            ends: is_stopped && source.is_none_or(|source| source.deleting),
        }
    }

    /// `None` if it is not to be made.
    fn lane(&self) -> Option<Lane> {
        let member = || self.member.clone();
        match (self.is_kept, self.ends, self.severed) {
            (_, _, Some(Severed::Absent)) => None,
            (true, true, _) | (_, _, Some(Severed::Stopped)) => Some(Lane::Park(member())),
            (true, false, None) | (_, _, Some(Severed::Kept)) => Some(Lane::Keep(member())),
            (_, _, Some(Severed::Nowhere)) => Some(Lane::WithNone),
            (false, _, None) | (_, _, Some(Severed::Applied)) => Some(Lane::With([member()].into())),
        }
    }
}

impl Users {
    /// Objects of which nothing but a copy, a binding or a pin is left.
    pub(super) fn held(
        index: &GatewayIndex,
        kind: CompanionKind,
        (hub, name): (&str, &str),
        entries: BTreeSet<String>,
        is_absent: impl Fn(KindId, &str) -> bool,
    ) -> Self {
        let mut users = Self {
            entries: BTreeSet::new(),
            members: BTreeSet::new(),
            others: false,
            unplaced: false,
            severed: BTreeSet::new(),
            frozen: BTreeSet::new(),
            lost: false,
            adopter: None,
            leaving: Vec::new(),
            size_limit: references::SIZE_LIMIT,
        };
        for (_, object) in entries.iter().filter_map(|entry| named(entry)) {
            let kinds = || index.kinds.ids().filter(|i| is_absent(*i, object));
            for (i, pin) in kinds().filter_map(|i| Some((i, index.pin(i, hub, object)?))) {
                users.count(index, (kind, hub, name), pin);
                if index.companions.is_adopted(kind) {
                    users.adopter = Some(Adopter::read(index, (i, hub, object), pin, (kind, name)));
                }
            }
            users.others |= kinds().filter(|i| !index.kinds[*i].is_exactly_one()).any(|i| {
                index.hub.copies[i].get(hub, object).is_some() || index.binding(i, hub, object).is_some()
            });
        }
        users.entries = entries;
        users
    }

    /// Counts the member of an object.
    pub(super) fn count(&mut self, index: &GatewayIndex, of: (CompanionKind, &str, &str), pin: &Pin) {
        let member = pin.member.clone();
        match index.pinned_cluster(pin) {
            PinnedCluster::Same => self.members.insert(member),
            PinnedCluster::Replaced if has_applied(index, of, &member) => self.frozen.insert(member),
            PinnedCluster::Replaced | PinnedCluster::Gone => self.severed.insert(member),
        };
    }

    /// True if new data may go to those that have the companion in this lane.
    pub(super) fn takes_data(&self, row: Option<&Row<Companion>>, lane: Option<&str>) -> bool {
        let Some(row) = row else { return true };
        self.frozen.is_empty() && (self.severed.is_empty() || row.digest.lane.as_deref() == lane)
    }

    /// The lane of the companion. One that others still need stays where they are, by their dependency.
    pub(super) fn lane(&self, row: Option<&Row<Companion>>) -> Option<Lane> {
        if let Some(adopter) = &self.adopter {
            return adopter.lane();
        }
        let label = row.and_then(|row| row.digest.lane.as_deref());
        let is_given = match CompanionLane::read(label) {
            // A companion that its member keeps must be stopped before it can go.
            CompanionLane::Keep(member) | CompanionLane::Park(member) if self.entries.is_empty() => {
                return Some(Lane::Park(member.into()));
            }
            CompanionLane::Keep(_) | CompanionLane::Park(_) => false,
            CompanionLane::Other => label.is_some(),
        };
        if is_given && self.lost {
            return None;
        }
        let members: BTreeSet<Arc<str>> = self.members.union(&self.frozen).cloned().collect();
        if !members.is_empty() {
            return Some(Lane::With(members));
        }
        // No member keeps what only those name that have none yet, or none that is known to be theirs.
        let has_no_member = self.others || self.unplaced || !self.severed.is_empty();
        (is_given && has_no_member).then_some(Lane::WithNone)
    }
}
