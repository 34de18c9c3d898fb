//! The way of an object to its one member (contract: clusters.md §3.1 to §3.3): Karmada chooses a member for its copy, the pin
//! records the choice, and then the copy is delivered. No order of crashes and of Karmada's decisions delivers the object to two
//! members. Pure.

mod deletion;
mod guards;
mod stage;

pub(super) use deletion::delete_stopped;
pub use deletion::end;

use super::{
    Fault, HubUser, Member, Observation, Probe, SingleMember,
    probe::{Probing, probe_delay},
};
use crate::{
    index::{
        rows::{Binding, Delivery, HubCopy, Item, Source, status::OwnCondition},
        single_member::{CopyPolicy, DeliveryPolicy, Pin, PinnedCluster, Stage},
    },
    reason::WriteReason,
};
use fedgate_api::names::CityCode;
use fedgate_engine::{
    clock::Now,
    plan::{Effect, Requeue},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time after a write until a missing result is reported, or something else is tried.
pub(super) const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Everything that a decision needs of an object that lives at one member.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// All federated kinds.
    pub kinds: &'a PerKind<FederatedKind>,
    /// The object's kind.
    pub kind: KindId,
    /// The hub namespace.
    pub hub: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// State of its member, pin and companions.
    pub at: &'a SingleMember,
    /// The object in the project.
    pub source: &'a Row<Source>,
    /// The copy on the hub.
    pub copy: Option<&'a Row<HubCopy>>,
    /// The binding of the copy.
    pub binding: Option<&'a Row<Binding>>,
    /// The Clusters of its city.
    pub candidates: &'a [Member],
    /// The city of the object.
    pub city: Option<&'a CityCode>,
    /// The spec of the object.
    pub spec: &'a Spec,
    /// True if all lists are complete, so that absence counts.
    pub complete: bool,
    /// The time.
    pub now: Now,
}

/// Facts that the federator knows of an object's spec.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Spec {
    /// True if the copy has another spec and may get this one.
    pub differs: bool,
    /// True if the spec is not too large.
    pub fits: bool,
    /// True if every companion that it names is there in the project.
    pub has_sources: bool,
    /// The reason why the spec does not go to the hub.
    pub fault: Option<Fault>,
    /// True while the object is being deleted once its binding was seen, or the hub has confirmed that it has none.
    pub is_binding_settled: bool,
    /// True if a companion still names the object.
    pub companions_hold: bool,
}

/// State of an object between reconciles. Losing it only delays what follows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The policy that the copy is to have. It is made before the copy is given to it.
    pub policy: Option<DeliveryPolicy>,
    /// Time since which the copy is not delivered.
    pub undelivered: Option<Instant>,
    /// Time since which the binding names another member than the pin's, or none.
    pub strayed: Option<Instant>,
    /// Time since which the member no longer has the object applied.
    pub unapplied: Option<Instant>,
    /// Time at which Karmada last began to take over the member's object again.
    pub last_takeover: Option<Instant>,
    /// UID of the member's object when it was first observed. The pin has the UID of an object that was made again.
    pub uid_at_member: Option<Arc<str>>,
    /// The probes of Works and member.
    pub probing: Probing,
    /// Time of the next probe for a Work that does not end.
    pub probe_due: Option<Instant>,
    /// The Work that does not end and keeps the member from having the object.
    pub stuck_work: Option<Arc<str>>,
    /// Facts of the deletion.
    pub deletion: Deletion,
}

/// Observations while an object is being deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Permanent id of its last binding.
    pub binding_id: Option<Arc<str>>,
    /// The other member that the annotation `fedgate.dev/abandon` names, once its tenant has had an Event about that.
    pub refused_abandonment: Option<Arc<str>>,
    /// True once Karmada manages the member's object, so that it deletes it.
    pub is_taken_over: bool,
    /// True once the member was observed to have a spec in which no guard holds.
    pub is_unguarded: bool,
    /// True once the member was observed to have the object, not being deleted, while the hub had no copy.
    pub is_alive: bool,
}

/// The next step on the way of an object to its member, or off it. The federator carries it out.
#[derive(Debug)]
pub enum MemberStep {
    /// Nothing now.
    Wait(Requeue),
    /// Send this probe, and decide again.
    Probe(Probe),
    /// Ask the hub whether it has neither copy nor binding, and decide again if it has none.
    ConfirmGone,
    /// Apply this write.
    Apply(Box<Effect>),
    /// Remove the pin because the tenant has abandoned the member, and report it.
    Abandon(Box<Effect>, String),
    /// Report that the annotation names another member than the object's.
    RefuseAbandonment(String),
    /// Write the copy.
    Write {
        /// How it is written.
        write: CopyWrite,
        /// The policy that it is to have.
        policy: DeliveryPolicy,
        /// True if Karmada takes over an object that it let go of.
        is_takeover: bool,
    },
    /// Delete the copy.
    Delete(WriteReason),
    /// Write this condition, and nothing to the hub.
    Report(OwnCondition, Requeue),
    /// Remove the finalizers.
    Finish,
}

/// How a copy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyWrite {
    /// The copy is created.
    Create,
    /// The copy gets the object's spec, and keeps its policy.
    Update,
    /// The copy is given to another policy with one merge patch.
    ChangePolicy {
        /// True if the object's spec goes with it.
        with_spec: bool,
    },
}

/// Nothing until the next event.
const WAIT: MemberStep = MemberStep::Wait(Requeue::AwaitChange);

/// Creates the copy, records the member that Karmada chooses, and delivers and updates the copy there.
pub fn advance(c: &Case<'_>, memory: &mut Memory) -> MemberStep {
    let Ok(pin) = &c.at.pin else { return WAIT };
    let step = match (pin, c.copy) {
        (_, None) if c.at.held_by.is_some() => WAIT,
        (_, Some(copy)) if copy.deleting || copy.partial => WAIT,
        (None, None) if c.candidates.is_empty() || !c.has_sources() => WAIT,
        (None, None) => c.write(CopyWrite::Create, c.choosing(), memory),
        (None, Some(copy)) => c.choose(copy, memory),
        // A Cluster of the member's name may be another one.
        (Some(pin), _) if pin.source_uid != c.source.uid || c.lacks_clusters() => WAIT,
        (Some(pin), _) if pin.ended.is_some() => deletion::withdraw(c, pin, memory),
        (Some(_), None) if !c.has_sources() => WAIT,
        (Some(pin), None) => c.write(CopyWrite::Create, c.at_stage(Stage::Withdraw, pin), memory),
        (Some(pin), Some(copy)) => c.deliver(pin, copy, memory),
    };
    match (&c.at.hub_user, step) {
        (HubUser::Fit, step) | (_, step @ (MemberStep::Wait(_) | MemberStep::Probe(_))) => step,
        (HubUser::Unknown, _) => MemberStep::Probe(Probe::HubUser),
        (HubUser::ServiceAccount(_), _) => WAIT,
    }
}

impl<'a> Case<'a> {
    /// The profile of the kind.
    pub fn profile(&self) -> &'a FederatedKind {
        &self.kinds[self.kind]
    }

    /// The policy that delivers the copy to the pin's member in this stage.
    fn at_stage(&self, stage: Stage, pin: &Pin) -> DeliveryPolicy {
        DeliveryPolicy::At(self.kind, stage, pin.member.clone())
    }

    /// The policy by which Karmada chooses a member. Without a city nothing is decided, because the federator waits.
    fn choosing(&self) -> DeliveryPolicy {
        let city = self.city.cloned().or_else(|| CityCode::parse("none").ok());
        city.map_or(DeliveryPolicy::WithNone, |city| {
            DeliveryPolicy::Choose(self.kind, city)
        })
    }

    /// True if this is the state of the Cluster with the name of the pin's member.
    pub(super) fn is_at(&self, cluster: PinnedCluster) -> bool {
        self.at.cluster == Some(cluster)
    }

    /// True if it is not known which Cluster has the name of the pin's member. While the object is being deleted or withdrawn, also
    /// true if that may have changed since, because the member's answer ends the deletion or withdrawal.
    fn lacks_clusters(&self) -> bool {
        self.at.lacks_clusters(self.source.deleting)
    }

    /// True if every companion that the object expects may be sent.
    fn has_sources(&self) -> bool {
        self.spec.has_sources && !self.at.companions.iter().any(|one| one.shared)
    }

    /// True if the member has applied every companion that it must have before the object.
    fn is_furnished(&self) -> bool {
        let mut needed = self.at.companions.iter().filter(|one| one.before);
        self.has_sources() && needed.all(|one| one.applied == Some(true))
    }

    /// True if a new spec may be written in this stage: before the first delivery it waits for no companion. The spec of an object
    /// that is being deleted does not wait, because its sources may be gone with their namespace.
    fn is_furnished_for(&self, stage: Option<Stage>) -> bool {
        match stage {
            _ if self.source.deleting => true,
            Some(stage) if stage.delivers() => self.is_furnished(),
            Some(_) | None => self.has_sources(),
        }
    }

    /// The stage of a copy that is given to the pin's member.
    pub(super) fn stage(&self, copy: &Row<HubCopy>, pin: &Pin) -> Option<Stage> {
        match CopyPolicy::read(self.profile(), copy.digest.delivery_policy.as_deref()) {
            CopyPolicy::At(stage, member) if *member == *pin.member => Some(stage),
            CopyPolicy::At(..) | CopyPolicy::Choose | CopyPolicy::Other => None,
        }
    }

    /// The state that the binding of this copy shows, and the members that it names.
    pub(super) fn delivery(&self, copy: &Row<HubCopy>) -> Option<(&'a Delivery, Vec<&'a str>)> {
        let binding = &self.binding.filter(|row| !row.deleting)?.digest;
        let is_own =
            binding.owner.as_ref() == Some(&copy.uid) && binding.policy == copy.digest.delivery_policy;
        let delivery = binding.delivery.as_deref().filter(|_| is_own)?;
        Some((delivery, binding.clusters.iter().map(|name| &**name).collect()))
    }

    /// The state of the copy at the pin's member, as its binding shows it.
    pub(super) fn item(&self, copy: &Row<HubCopy>, pin: &Pin) -> Option<&'a Item> {
        self.delivery(copy)?.0.at(&pin.member)
    }

    /// The binding of a copy, if it names the pin's member alone.
    fn at_member(&self, pin: &Pin, copy: &Row<HubCopy>) -> Option<&'a Delivery> {
        let (delivery, members) = self.delivery(copy)?;
        (members == [&*pin.member] && delivery.observed).then_some(delivery)
    }

    /// Requests a policy, and writes the copy once the policy is there. A spec waits for its companions.
    fn write(&self, write: CopyWrite, policy: DeliveryPolicy, memory: &mut Memory) -> MemberStep {
        memory.policy = Some(policy.clone());
        if write != CopyWrite::Update && !policy.is_among(&self.at.policies, self.kinds, self.hub) {
            return WAIT;
        }
        MemberStep::Write {
            write,
            policy,
            is_takeover: false,
        }
    }

    /// Gives the copy to another policy, with the object's spec if that is to go with it and differs.
    fn change_policy(&self, policy: DeliveryPolicy, with_spec: bool, memory: &mut Memory) -> MemberStep {
        let stage = match &policy {
            DeliveryPolicy::At(_, stage, _) => Some(*stage),
            _ => None,
        };
        let with_spec = with_spec && self.spec.differs;
        if with_spec && !self.is_furnished_for(stage) {
            memory.policy = Some(policy);
            return WAIT;
        }
        self.write(CopyWrite::ChangePolicy { with_spec }, policy, memory)
    }

    /// A copy without a pin: Karmada chooses, and its choice is recorded.
    fn choose(&self, copy: &Row<HubCopy>, memory: &mut Memory) -> MemberStep {
        let from = copy.digest.source_uid.as_ref();
        if from.is_some_and(|uid| *uid != self.source.uid) {
            return MemberStep::Delete(WriteReason::ReplaceCopy);
        }
        let delivery = self.delivery(copy);
        if let CopyPolicy::At(stage, member) =
            CopyPolicy::read(self.profile(), copy.digest.delivery_policy.as_deref())
        {
            // The pin was lost: policy and binding together are its record.
            return match delivery {
                Some((_, members)) if members == [member] => self.write_pin(copy, member, stage.preserves()),
                _ => WAIT,
            };
        }
        let wanted = self.choosing();
        if copy.digest.delivery_policy.as_deref() != Some(&*wanted.name(self.kinds)) {
            return self.change_policy(wanted, true, memory);
        }
        memory.policy = Some(wanted.clone());
        if let Some((delivery, members)) = &delivery
            && let [member] = members[..]
            && !self.at.companions.iter().any(|one| one.shared)
            && !self.at.record.is_full
            && delivery.observed
            && delivery.unscheduled.is_none()
        {
            return self.write_pin(copy, member, false);
        }
        if self.spec.differs && self.has_sources() {
            return self.write(CopyWrite::Update, wanted, memory);
        }
        WAIT
    }

    /// A pinned copy gets its stage first, then its spec.
    fn deliver(&self, pin: &Arc<Pin>, copy: &Row<HubCopy>, memory: &mut Memory) -> MemberStep {
        if let Some(step) = self.name_copy(pin, copy) {
            return step;
        }
        let stage = self.stage(copy, pin);
        let there = self.at_member(pin, copy);
        let item = there.and_then(|delivery| delivery.at(&pin.member));
        let applied = item.is_some_and(|item| item.applied);
        if applied && stage.is_some_and(Stage::delivers) {
            let adopted = self.adopted_with(pin, self.applied_adopted());
            if !pin.delivered || adopted.is_some() {
                return self.record(&Pin {
                    delivered: true,
                    adopted: adopted.unwrap_or_else(|| pin.adopted.clone()),
                    ..Pin::clone(pin)
                });
            }
        }
        let ended = self.record_ended(pin, item);
        if let Some(step) = ended.or_else(|| self.record_remade(pin, item, memory)) {
            return step;
        }
        if stage == Some(Stage::Withdraw)
            && self.is_at(PinnedCluster::Replaced)
            && let Some(step) = self.delay_release(pin, copy, memory)
        {
            return step;
        }
        let (wanted, next) = self.wanted_stage(pin, stage, there.is_some(), applied, memory);
        let policy = self.at_stage(wanted, pin);
        if stage == Some(Stage::Deliver)
            && !wanted.delivers()
            && let Some(step) = self.record_adopted(pin)
        {
            return step;
        }
        if stage != Some(wanted) {
            // A spec that was held back goes with the policy that delivers it.
            let was_held_back = matches!(stage, Some(Stage::Suspend | Stage::Withdraw));
            let step = self.change_policy(policy, was_held_back && wanted.delivers(), memory);
            let is_takeover = (stage, wanted) == (Some(Stage::Preserve), Stage::TakeOver);
            return if is_takeover { step.taking_over() } else { step };
        }
        let may_change = wanted.delivers() || wanted == Stage::Withdraw;
        let is_held = self.source.digest.suspended || !may_change;
        if self.spec.differs && !is_held && self.is_furnished_for(Some(wanted)) {
            return self.write(CopyWrite::Update, policy, memory);
        }
        memory.policy = Some(policy);
        self.wait_until_applied(pin, wanted, item, next, memory)
    }

    /// Waits until the member applies the copy. If the member says nothing of it, a probe looks for the Work of an earlier copy
    /// that does not end: as long as such a Work is there, the member gets nothing (contract: clusters.md §4).
    fn wait_until_applied(
        &self,
        pin: &Pin,
        stage: Stage,
        item: Option<&Item>,
        next: Requeue,
        memory: &mut Memory,
    ) -> MemberStep {
        let waited = memory.undelivered.map(|since| self.now.since(since));
        let is_late = waited.is_some_and(|waited| waited >= GRACE_PERIOD);
        let is_silent = item.is_none_or(|item| !item.applied && item.message.is_empty());
        let member = self.at.member.as_ref();
        let is_ready = member.is_some_and(|member| member.is_ready) && self.is_at(PinnedCluster::Same);
        if !(stage.delivers() && is_late && is_silent && is_ready) {
            (memory.stuck_work, memory.probe_due) = (None, None);
            if stage.delivers() {
                memory.probing = Probing::default();
            }
            return MemberStep::Wait(next);
        }
        if let Some(observation) = memory.probing.observation.take() {
            memory.stuck_work = match observation {
                Observation::WorkStuck(work) => Some(work.into()),
                _ => None,
            };
            let wait = probe_delay(memory.probing.count);
            memory.probing.count = memory.probing.count.saturating_add(1);
            memory.probe_due = Some(self.now.instant + wait);
            return MemberStep::Wait(next.earlier(Requeue::After(wait)));
        }
        // The end of a Work that is stuck has enqueued the key.
        let due = memory.probe_due.filter(|due| self.now.instant < *due);
        match due.filter(|_| memory.stuck_work.is_none()) {
            Some(due) => MemberStep::Wait(next.earlier(Requeue::After(due - self.now.instant))),
            None => MemberStep::Probe(Probe::StuckWork {
                member: pin.member.clone(),
            }),
        }
    }

    /// Writes the object's pin.
    fn record(&self, pin: &Pin) -> MemberStep {
        let effect = self.at.record.write(Some(pin));
        effect.map_or(WAIT, |effect| MemberStep::Apply(Box::new(effect)))
    }

    /// Records the member of a copy.
    fn write_pin(&self, copy: &Row<HubCopy>, member: &str, delivered: bool) -> MemberStep {
        let mut candidates = self.candidates.iter();
        let Some(member) = candidates.find(|candidate| *candidate.name == *member) else {
            // Karmada's Cluster is not in the index yet, or no longer in the city.
            return WAIT;
        };
        self.record(&Pin {
            member: member.name.clone(),
            member_uid: member.uid.clone(),
            copy_uids: vec![copy.uid.clone()],
            source_uid: self.source.uid.clone(),
            delivered,
            adopted: Vec::new(),
            remade: None,
            ended: None,
        })
    }

    /// Adds a copy that was made again to the pin.
    fn name_copy(&self, pin: &Pin, copy: &Row<HubCopy>) -> Option<MemberStep> {
        (!pin.copy_uids.contains(&copy.uid)).then(|| {
            let mut more = pin.clone();
            more.add_copy(copy.uid.clone());
            self.record(&more)
        })
    }

    /// Tokens of the companions that the member has applied, and that go with the object there.
    fn applied_adopted(&self) -> impl Iterator<Item = &'a String> {
        let of = self.at.companions.iter();
        of.filter(|one| one.adopted && !one.shared && one.applied == Some(true))
            .map(|one| &one.token)
    }

    /// Tokens of the companions that went with the object to its member once `more` have; `None` if the pin has them all. A
    /// companion that is gone from the hub, and that the object does not name, leaves the pin when another one joins it.
    fn adopted_with(&self, pin: &Pin, more: impl Iterator<Item = &'a String>) -> Option<Vec<Arc<str>>> {
        let new = more.filter(|token| !pin.adopted.iter().any(|had| **had == ***token));
        let new: BTreeSet<Arc<str>> = new.map(|token| token.as_str().into()).collect();
        if new.is_empty() {
            return None;
        }
        let is_named = |token: &str| self.at.companions.iter().any(|one| one.token == token);
        let stays = |token: &&Arc<str>| is_named(token) || !self.at.adopted.gone.contains(token);
        Some(pin.adopted.iter().filter(stays).cloned().chain(new).collect())
    }

    /// Records the companions that may have gone with a copy that was sent, also if the member has not reported them.
    fn record_adopted(&self, pin: &Pin) -> Option<MemberStep> {
        let adopted = self.adopted_with(pin, self.applied_adopted().chain(&self.at.adopted_on_hub))?;
        Some(self.record(&Pin {
            adopted,
            ..pin.clone()
        }))
    }
}

impl MemberStep {
    /// Records with the write that Karmada takes over an object that it let go of.
    fn taking_over(self) -> Self {
        match self {
            Self::Write { write, policy, .. } => Self::Write {
                write,
                policy,
                is_takeover: true,
            },
            step => step,
        }
    }
}

impl Memory {
    /// Records that the copy was written.
    pub fn wrote(&mut self, write: CopyWrite, is_takeover: bool, now: Now) {
        if write != CopyWrite::Update {
            self.undelivered = Some(now.instant);
        }
        if is_takeover {
            self.last_takeover = Some(now.instant);
            self.unapplied = None;
        }
    }

    /// Records the binding of an object that is being deleted.
    pub fn note_binding(&mut self, binding: Option<&Row<Binding>>) {
        let delivery = binding.and_then(|row| row.digest.delivery.as_deref());
        if let Some(id) = delivery.and_then(|delivery| delivery.id.clone()) {
            self.deletion.binding_id = Some(id);
        }
    }
}
