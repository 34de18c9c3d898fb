//! The objects that want a companion, and the lane that they give it.

use super::observe::named;
use crate::{
    index::{
        GatewayIndex,
        rows::{Binding, Companion},
    },
    lane::{self, CompanionLane, CopyLane, Lane, Stage},
    pin::{Pin, PinnedCluster},
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
    /// Members whose Clusters have left the hub, or are other ones: it does not go there.
    pub(super) severed: BTreeSet<Arc<str>>,
    /// Members whose Clusters are other ones to which Karmada has given it already: it stays as it is there, as their objects do.
    pub(super) frozen: BTreeSet<Arc<str>>,
    /// Members whose Clusters are not known: it stays as it is.
    pub(super) unknown: BTreeSet<Arc<str>>,
    /// True if some have a member that no record names any more: what it has stays there.
    pub(super) lost: bool,
    /// The object that it goes with at its member, for a kind of which that is so, once it has a member.
    pub(super) adopter: Option<Adopter>,
    /// Objects whose new spec no longer names the companion.
    pub(super) leaving: Vec<Leaving>,
    /// The largest source that those that name it admit, in bytes.
    pub(super) size_limit: Option<usize>,
}

/// An object whose new spec no longer names a companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Entry of the object in the annotation of the companion.
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
}

/// True if Karmada has given a companion to a member. Whether that has applied it says nothing: it may be what was true of the
/// Cluster before, and changes for a moment with each new data.
fn is_given(
    index: &GatewayIndex,
    (kind, hub, name): (CompanionKind, &str, &str),
    row: &Row<Companion>,
    member: &str,
) -> bool {
    let binding = index.own_companion_binding(kind, hub, name, row);
    let clusters = binding.map_or(&[][..], |binding| &binding.clusters);
    clusters.iter().any(|cluster| **cluster == *member)
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
        Self {
            member: pin.member.clone(),
            is_kept: pin.kept.iter().any(|kept| **kept == *token),
            ends: is_stopped && source.is_none_or(|source| source.deleting),
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
            unknown: BTreeSet::new(),
            lost: false,
            adopter: None,
            leaving: Vec::new(),
            size_limit: None,
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
        users.settle(index, index.hub.companions[kind].get(hub, name));
        users
    }

    /// Counts the member of an object.
    pub(super) fn count(
        &mut self,
        index: &GatewayIndex,
        (kind, hub, name): (CompanionKind, &str, &str),
        pin: &Pin,
    ) {
        let member = pin.member.clone();
        let row = index.hub.companions[kind].get(hub, name);
        match index.pinned_cluster(pin) {
            PinnedCluster::Same => self.members.insert(member),
            PinnedCluster::Unknown => self.unknown.insert(member),
            PinnedCluster::Replaced
                if row.is_some_and(|row| is_given(index, (kind, hub, name), row, &member)) =>
            {
                self.frozen.insert(member)
            }
            PinnedCluster::Replaced | PinnedCluster::Gone => self.severed.insert(member),
        };
    }

    /// An object whose Cluster is the one that was pinned speaks for all that live at this member. Karmada writes the policy of a
    /// binding and its clusters one after the other: a member that the label leaves out may be among them yet, and is not put back.
    pub(super) fn settle(&mut self, index: &GatewayIndex, row: Option<&Row<Companion>>) {
        let is_left = |member: &Arc<str>| !self.members.contains(member);
        self.severed.retain(is_left);
        self.frozen.retain(is_left);
        let given = self.given(index, row);
        let (stay, leave) = std::mem::take(&mut self.frozen)
            .into_iter()
            .partition::<BTreeSet<_>, _>(|member| {
                given.as_ref().is_some_and(|lane| lane::names(lane, member))
            });
        self.frozen = stay;
        self.severed.extend(leave);
    }

    /// The lane that a companion has by its label, which may have a hash for some members: those of its objects then, if they fit.
    pub(super) fn given(&self, index: &GatewayIndex, row: Option<&Row<Companion>>) -> Option<Lane> {
        let label = row?.digest.lane.as_deref()?;
        lane::of_companion(Some(label)).or_else(|| {
            let sets = [&self.members, &self.severed, &self.frozen, &self.unknown];
            let all = Lane::With(sets.into_iter().flatten().cloned().collect());
            (all.name(&index.kinds) == *label).then_some(all)
        })
    }

    /// True if data may go to those that have the companion in this lane: none of them is another Cluster, as its binding shows.
    pub(super) fn takes_data(
        &self,
        row: Option<&Row<Companion>>,
        binding: Option<&Binding>,
        lane: Option<&str>,
    ) -> bool {
        let is_known = self.frozen.is_empty() && self.unknown.is_empty();
        let is_in_lane = row.is_none_or(|row| row.digest.lane.as_deref() == lane);
        let given = binding.map_or(&[][..], |binding| &binding.clusters);
        let is_taken_back = is_in_lane && !given.iter().any(|cluster| self.severed.contains(cluster));
        is_known && (self.severed.is_empty() || is_taken_back)
    }

    /// The lane of a companion that goes with an object at its member; `None` if it is not to be made.
    fn adopted_lane(
        &self,
        adopter: &Adopter,
        row: Option<&Row<Companion>>,
        given: Option<&Lane>,
    ) -> Option<Lane> {
        let member = || adopter.member.clone();
        let is_at_its_cluster = self.members.contains(&adopter.member);
        if row.is_none() && !is_at_its_cluster {
            return None;
        }
        match (adopter.is_kept, adopter.ends) {
            (true, true) => Some(Lane::Park(member())),
            _ if self.severed.contains(&adopter.member) => Some(Lane::WithNone),
            _ if !is_at_its_cluster => given.cloned(),
            (true, false) => Some(Lane::Keep(member())),
            (false, _) => Some(Lane::With([member()].into())),
        }
    }

    /// The lane of the companion. One that others still need stays where they are, by their dependency.
    pub(super) fn lane(&self, row: Option<&Row<Companion>>, given: Option<&Lane>) -> Option<Lane> {
        if let Some(adopter) = &self.adopter {
            return self.adopted_lane(adopter, row, given);
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
        if !self.unknown.is_empty() {
            return given.cloned();
        }
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
