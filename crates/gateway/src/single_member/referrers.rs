//! The objects that refer to a companion, the state of the members at which they live, and the delivery policy that follows for
//! the companion (contract: clusters.md §5 rule 3).

use crate::{
    index::{
        GatewayIndex, ObjectRef,
        rows::{Binding, Companion, Source},
        single_member::{CopyPolicy, DeliveryPolicy, Pin, PinnedCluster, Stage},
    },
    references,
};
use fedgate_engine::store::table::Row;
use fedgate_kinds::CompanionKind;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A companion on the hub.
#[derive(Debug, Clone, Copy)]
pub struct CompanionRef<'a> {
    /// Kind of the companion.
    pub kind: CompanionKind,
    /// The hub namespace.
    pub hub: &'a str,
    /// Name of the companion on every plane.
    pub name: &'a str,
}

impl CompanionRef<'_> {
    /// `Kind/name`.
    fn token(&self, index: &GatewayIndex) -> String {
        references::token(&index.companions, self.kind, self.name)
    }
}

/// State of a member at which objects live that refer to a companion. Of several objects at one member the greatest state counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberState {
    /// The Cluster has left the hub, or was replaced: the companion does not go there.
    Left,
    /// The Cluster was replaced by another one of the same name, to which Karmada has already given the companion. The gateway
    /// leaves the companion unchanged there, as it leaves the object.
    Replaced,
    /// The Cluster with the name is not known: the companion stays as it is.
    Unknown,
    /// The Cluster is the pinned one.
    Present,
}

/// The objects that refer to a companion.
#[derive(Debug, Default)]
pub struct Referrers {
    /// `<project namespace>/<name>` of each.
    pub entries: BTreeSet<String>,
    /// True if some of them do not live at one member: the companion goes to their cells by a dependency of Karmada.
    pub has_others: bool,
    /// Objects whose new spec no longer names the companion.
    pub leaving: Vec<Leaving>,
    /// The largest source that those which name the companion admit, in bytes.
    pub size_limit: Option<usize>,
    members: BTreeMap<Arc<str>, MemberState>,
    /// True if some live at one member and have none yet.
    has_unplaced: bool,
    /// True if some have a member that no readable pin names: the companion stays where it is.
    has_unrecorded: bool,
    adopter: Option<Adopter>,
}

/// An object whose new spec no longer names a companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Entry of the object in the annotation of the companion.
    pub entry: String,
    /// True if its member has applied that spec.
    pub is_applied: bool,
}

/// The object with which an adopted companion goes at its member.
#[derive(Debug)]
struct Adopter {
    member: Arc<str>,
    /// True if the pin names the companion: the member has been given the object, and may have made the companion part of it.
    is_recorded: bool,
    /// True if the object is being withdrawn from its member.
    ends: bool,
}

impl Adopter {
    fn read(index: &GatewayIndex, of: &ObjectRef, pin: &Pin, companion: CompanionRef<'_>) -> Self {
        let token = companion.token(index);
        let source = index.owned_source(of.kind, &of.hub, &of.name);
        let is_stopped = |label| {
            let policy = CopyPolicy::read(&index.kinds[of.kind], label);
            matches!(policy, CopyPolicy::At(Stage::Withdraw, _))
        };
        let copy = index.hub.copies[of.kind].get(&of.hub, &of.name);
        let is_stopped = copy.is_none_or(|copy| is_stopped(copy.digest.delivery_policy.as_deref()));
        Self {
            member: pin.member.clone(),
            is_recorded: pin.adopted.iter().any(|adopted| **adopted == *token),
            ends: is_stopped && (pin.ended.is_some() || source.is_none_or(|source| source.deleting)),
        }
    }
}

impl Referrers {
    /// Counts the member of an object, or that it has none.
    pub fn count(&mut self, index: &GatewayIndex, of: &ObjectRef, companion: CompanionRef<'_>) {
        if !index.kinds[of.kind].is_exactly_one() {
            self.has_others = true;
            return;
        }
        let Some(pin) = index.pin(of.kind, &of.hub, &of.name) else {
            let is_unrecorded = has_lost_pin(index, of);
            self.has_unrecorded |= is_unrecorded;
            self.has_unplaced |= !is_unrecorded;
            return;
        };
        let state = match index.pinned_cluster(pin) {
            PinnedCluster::Same => MemberState::Present,
            PinnedCluster::Unknown => MemberState::Unknown,
            PinnedCluster::Replaced if is_given(index, companion, &pin.member) => MemberState::Replaced,
            PinnedCluster::Replaced | PinnedCluster::Gone => MemberState::Left,
        };
        let known = self.members.entry(pin.member.clone()).or_insert(state);
        *known = state.max(*known);
        if index.companions.is_adopted(companion.kind) {
            self.adopter = Some(Adopter::read(index, of, pin, companion));
        }
    }

    /// Decides on the members whose Clusters were replaced. Karmada writes the policy of a binding and its clusters one after the
    /// other: a member that the label leaves out may still be among them, and is not put back.
    pub fn leave_replaced(&mut self, index: &GatewayIndex, row: Option<&Row<Companion>>) {
        let given = self.given(index, row);
        for (member, state) in &mut self.members {
            let is_named = given.as_ref().is_some_and(|policy| policy.reaches(member));
            if *state == MemberState::Replaced && !is_named {
                *state = MemberState::Left;
            }
        }
    }

    fn has(&self, state: MemberState) -> bool {
        self.members.values().any(|of| *of == state)
    }

    /// The policy that a companion has by its label. A label may have a hash for some members: they are those of its objects then,
    /// if these fit.
    pub fn given(&self, index: &GatewayIndex, row: Option<&Row<Companion>>) -> Option<DeliveryPolicy> {
        let label = row?.digest.delivery_policy.as_deref()?;
        DeliveryPolicy::of_companion(Some(label)).or_else(|| {
            let all = DeliveryPolicy::With(self.members.keys().cloned().collect());
            (all.name(&index.kinds) == *label).then_some(all)
        })
    }

    /// True if data may go to the members that have the companion by this policy: none of them is another Cluster, as its binding
    /// shows.
    pub fn takes_data(
        &self,
        row: Option<&Row<Companion>>,
        binding: Option<&Binding>,
        policy: Option<&str>,
    ) -> bool {
        let is_known = !self.has(MemberState::Replaced) && !self.has(MemberState::Unknown);
        let has_policy = row.is_none_or(|row| row.digest.delivery_policy.as_deref() == policy);
        let given = binding.map_or(&[][..], |binding| &binding.clusters);
        let has_left = |cluster: &Arc<str>| self.members.get(cluster) == Some(&MemberState::Left);
        let is_taken_back = has_policy && !given.iter().any(has_left);
        is_known && (!self.has(MemberState::Left) || is_taken_back)
    }

    /// The policy of a companion that goes with an object at its member; `None` if it is not to be made.
    fn adopted_policy(
        &self,
        adopter: &Adopter,
        is_there: bool,
        given: Option<&DeliveryPolicy>,
    ) -> Option<DeliveryPolicy> {
        let state = self.members.get(&adopter.member);
        let is_present = state == Some(&MemberState::Present);
        let member = || adopter.member.clone();
        match (adopter.is_recorded, adopter.ends) {
            _ if !is_there && !is_present => None,
            (true, true) => Some(DeliveryPolicy::Withdraw(member())),
            _ if state == Some(&MemberState::Left) => Some(DeliveryPolicy::WithNone),
            _ if !is_present => given.cloned(),
            (true, false) => Some(DeliveryPolicy::TakeOver(member())),
            (false, _) => Some(DeliveryPolicy::With([member()].into())),
        }
    }

    /// The policy of the companion; `None` if it needs none. A companion that other objects need stays where they are, by their
    /// dependency.
    pub fn policy(
        &self,
        row: Option<&Row<Companion>>,
        given: Option<&DeliveryPolicy>,
    ) -> Option<DeliveryPolicy> {
        if let Some(adopter) = &self.adopter {
            return self.adopted_policy(adopter, row.is_some(), given);
        }
        let label = row.and_then(|row| row.digest.delivery_policy.as_deref());
        let is_given = match given {
            // A companion that its member keeps must be suspended before it can go.
            Some(DeliveryPolicy::TakeOver(member) | DeliveryPolicy::Withdraw(member))
                if self.entries.is_empty() =>
            {
                return Some(DeliveryPolicy::Withdraw(member.clone()));
            }
            Some(DeliveryPolicy::TakeOver(_) | DeliveryPolicy::Withdraw(_)) => false,
            _ => label.is_some(),
        };
        if self.has(MemberState::Unknown) {
            return given.cloned();
        }
        if is_given && self.has_unrecorded {
            return None;
        }
        let goes = |state: &MemberState| matches!(state, MemberState::Present | MemberState::Replaced);
        let members = self.members.iter().filter(|(_, state)| goes(state));
        let members: BTreeSet<Arc<str>> = members.map(|(member, _)| member.clone()).collect();
        if !members.is_empty() {
            return Some(DeliveryPolicy::With(members));
        }
        // No member keeps a companion that only objects name which have no member yet, or whose member has left.
        let has_no_member = self.has_others || self.has_unplaced || self.has(MemberState::Left);
        (is_given && has_no_member).then_some(DeliveryPolicy::WithNone)
    }
}

/// True if Karmada has given a companion to a member. Whether the member has applied it says nothing: that may have been true of
/// the Cluster before, and changes for a moment with each new data.
fn is_given(index: &GatewayIndex, CompanionRef { kind, hub, name }: CompanionRef<'_>, member: &str) -> bool {
    let row = index.hub.companions[kind].get(hub, name);
    let binding = row.and_then(|row| index.own_companion_binding(kind, hub, name, row));
    let clusters = binding.map_or(&[][..], |binding| &binding.clusters);
    clusters.iter().any(|cluster| **cluster == *member)
}

/// True if an object without a readable pin has a member nevertheless: its copy is given to one, or its record cannot be read.
fn has_lost_pin(index: &GatewayIndex, ObjectRef { kind, hub, name }: &ObjectRef) -> bool {
    let copy = index.hub.copies[*kind].get(hub, name);
    let policy =
        copy.map(|copy| CopyPolicy::read(&index.kinds[*kind], copy.digest.delivery_policy.as_deref()));
    matches!(policy, Some(CopyPolicy::At(..))) || index.has_unreadable_pin(*kind, hub, name)
}

/// True if the member has applied the object as it is. While a member is not reachable, Karmada still says what was true before.
pub fn is_current(index: &GatewayIndex, of: &ObjectRef, source: &Row<Source>) -> bool {
    let ObjectRef { kind, hub, name } = of;
    let pin = index.pin(*kind, hub, name);
    if !pin.is_some_and(|pin| index.is_member_ready(pin)) {
        return false;
    }
    let copy = index.hub.copies[*kind].get(hub, name);
    let is_written = copy.is_some_and(|copy| copy.digest.source_generation == Some(source.digest.generation));
    let binding = index.binding(*kind, hub, name);
    is_written && binding.is_some_and(|row| !row.deleting && row.digest.applied)
}

/// A companion with [`DeliveryPolicy::Withdraw`], as its binding shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    /// The member.
    pub member: Arc<str>,
    /// The permanent id of the binding, once Karmada dispatches nothing of it.
    pub id: Option<Arc<str>>,
}

impl Stopping {
    /// Reads it from the index; `None` for a companion that is not being withdrawn from a member.
    pub fn read(index: &GatewayIndex, of: CompanionRef<'_>, row: &Row<Companion>) -> Option<Self> {
        let CompanionRef { kind, hub, name } = of;
        let policy = DeliveryPolicy::of_companion(row.digest.delivery_policy.as_deref());
        let Some(DeliveryPolicy::Withdraw(member)) = policy else {
            return None;
        };
        index.companion_binding(kind, hub, name)?;
        let delivery = index.companion_delivery(kind, hub, name, row);
        let id = delivery.filter(|of| of.suspended).and_then(|of| of.id.clone());
        Some(Self { member, id })
    }
}
