//! The way of an object to its one member (contract: clusters.md §3.1 to §3.3): its copy is chosen for, pinned, and then
//! delivered. No order of crashes and of Karmada's decisions delivers it to two members. Pure.

mod abandon;
pub(super) mod deletion;
mod guards;
mod pins;
mod remade;
mod stage;
mod stuck;

use crate::{
    federator::{
        conditions,
        decide::{
            Act, Step, act,
            copy::{apply, confirmed, delete_copy, given, held_up, rendered, written},
            copy_target,
        },
        lanes::{HubUser, Lanes, lane_of},
        memory::Memory,
        observe::Snapshot,
    },
    index::rows::{Delivery, HubCopy, Source},
    lane::{CopyLane, Lane, Stage},
    member::Look,
    pin::{Pin, PinnedCluster},
    rate_limit::{Class, Permit},
    reason::WriteReason,
};
use fedgate_api::{keys, names::CityCode};
use fedgate_engine::{
    clock::Now,
    plan::{Effect, Endpoint, Plan, Requeue, Write},
    store::table::Row,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Everything that a decision needs of an object that lives at one member.
pub(in crate::federator) struct Case<'a> {
    pub(in crate::federator) s: &'a Snapshot,
    pub(in crate::federator) lanes: &'a Lanes,
    pub(in crate::federator) source: &'a Row<Source>,
    pub(in crate::federator) now: Now,
}

/// Creates the copy, finds its member, delivers it and keeps it as the object is.
pub(in crate::federator) fn copy_step(c: &Case<'_>, memory: &mut Memory, permit: Permit) -> Step {
    let refused = memory.refusal(c.source, c.now).map(|(_, left)| left);
    // A copy that is there goes on its way without the spec.
    let goes_on = c.s.copy.is_some() && memory.refuses_spec(c.source, c.now);
    if let Some(left) = refused.filter(|_| !goes_on) {
        return Step::Wait(Requeue::After(left));
    }
    if c.lanes.held_by.is_some() && c.s.copy.is_none() {
        return Step::Wait(Requeue::AwaitChange);
    }
    let Ok(pin) = &c.lanes.pin else {
        return Step::Wait(Requeue::AwaitChange);
    };
    let step = match (pin, &c.s.copy) {
        (_, Some(copy)) if copy.deleting || copy.partial || conditions::taken(c.s, copy) => {
            Step::Wait(Requeue::AwaitChange)
        }
        (None, None) => c.create(memory, permit, &c.lane(Choice::Karmada)),
        (None, Some(copy)) => c.choose(copy, memory, permit),
        (Some(pin), _) if pin.source_uid != c.source.uid => Step::Wait(Requeue::AwaitChange),
        // A Cluster of the member's name may be another one.
        (Some(_), _) if c.lacks_clusters() => Step::Wait(Requeue::AwaitChange),
        (Some(pin), None) => c.create(memory, permit, &c.lane(Choice::Stage(Stage::Drop, pin))),
        (Some(pin), Some(copy)) => c.deliver(pin, copy, memory, permit),
    };
    match (&step, &c.lanes.hub_user) {
        (Step::Act(_) | Step::Permit(_) | Step::Read(..), HubUser::Unknown) => {
            return Step::Look(Look::HubUser);
        }
        (Step::Act(_) | Step::Permit(_) | Step::Read(..), HubUser::ServiceAccount(_)) => {
            return Step::Wait(Requeue::AwaitChange);
        }
        _ => {}
    }
    if let Some(left) = refused {
        return step.by(Requeue::After(left));
    }
    if matches!(step, Step::Wait(_)) {
        memory.refused = None;
    }
    step
}

/// The lane that a copy is to have.
#[derive(Clone, Copy)]
enum Choice<'a> {
    Karmada,
    Stage(Stage, &'a Pin),
}

impl Case<'_> {
    fn lane(&self, choice: Choice<'_>) -> Lane {
        match choice {
            Choice::Stage(stage, pin) => Lane::At(self.s.kind, stage, pin.member.clone()),
            Choice::Karmada => {
                // Without a city nothing is decided (`conditions::invalid`).
                let city = self.s.destination.city().cloned();
                let city = city.or_else(|| CityCode::parse("none").ok());
                city.map_or(Lane::WithNone, |city| Lane::Choose(self.s.kind, city))
            }
        }
    }

    /// True if this is the Cluster that has the name of the pin's member now.
    pub(in crate::federator) fn is_at(&self, cluster: PinnedCluster) -> bool {
        self.lanes.cluster == Some(cluster)
    }

    /// True if it cannot be said which Cluster has the name of the pin's member, or, of an object that is being deleted, whether it
    /// is the last known one still: the member's answer is about to end the deletion.
    fn lacks_clusters(&self) -> bool {
        self.lanes.lacks_clusters(self.source.deleting)
    }

    /// The permit for another lane. A move that only takes the copy off another Cluster is not held up by the writes of others.
    fn permit_to_move(&self, permit: Permit) -> Permit {
        match self.lanes.cluster {
            Some(PinnedCluster::Gone | PinnedCluster::Replaced) => Permit::Granted,
            Some(PinnedCluster::Same | PinnedCluster::Unknown) | None => permit,
        }
    }

    fn hub(&self) -> &str {
        self.s.hub.as_ref().map_or("", |hub| hub.as_str())
    }

    fn is_open(&self, lane: &Lane) -> bool {
        self.lanes.is_open(lane, &self.s.kinds, self.hub())
    }

    /// True if every companion that the object expects may be sent.
    fn has_sources(&self) -> bool {
        let found = self.s.references.as_ref();
        let is_shared = self.lanes.companions.iter().any(|one| one.shared);
        found.is_none_or(|found| !found.resolving && found.expected.is_some()) && !is_shared
    }

    /// True if the member has applied every companion that it must have before the object.
    pub(in crate::federator) fn is_furnished(&self) -> bool {
        let mut needed = self.lanes.companions.iter().filter(|one| one.before);
        self.has_sources() && needed.all(|one| one.applied == Some(true))
    }

    /// The tokens of the companions that its member has applied, and that go with the object there.
    fn gone_along(&self) -> impl Iterator<Item = &String> {
        let adopted = self
            .lanes
            .companions
            .iter()
            .filter(|one| one.adopted && !one.shared);
        adopted
            .filter(|one| one.applied == Some(true))
            .map(|one| &one.token)
    }

    /// The tokens of the companions that went with the object to its member, once more have; those that are gone from the hub
    /// and that it does not name any more are left out then.
    fn kept<'a>(&self, pin: &Pin, all: impl Iterator<Item = &'a String>) -> Option<Vec<Arc<str>>> {
        let new = all.filter(|token| !pin.kept.iter().any(|had| **had == ***token));
        let new: BTreeSet<Arc<str>> = new.map(|token| token.as_str().into()).collect();
        if new.is_empty() {
            return None;
        }
        let is_named = |token: &str| self.lanes.companions.iter().any(|one| one.token == token);
        let stays = |token: &&Arc<str>| is_named(token) || !self.lanes.kept.gone.contains(token);
        Some(pin.kept.iter().filter(stays).cloned().chain(new).collect())
    }

    /// Records the companions that may have gone with a copy that was sent, also if its member has not said so yet.
    fn record_kept(&self, pin: &Pin, memory: &Memory) -> Option<Step> {
        let kept = self.kept(pin, self.gone_along().chain(&self.lanes.adopted))?;
        Some(self.patch_pin(&Pin { kept, ..pin.clone() }, memory))
    }

    fn create(&self, memory: &mut Memory, permit: Permit, lane: &Lane) -> Step {
        if !self.has_sources() || self.s.candidates.is_empty() && matches!(lane, Lane::Choose(..)) {
            return Step::Wait(Requeue::AwaitChange);
        }
        self.make(memory, permit, lane)
    }

    fn make(&self, memory: &mut Memory, permit: Permit, lane: &Lane) -> Step {
        memory.lane = Some(lane.clone());
        if !self.is_open(lane) {
            return Step::Wait(Requeue::AwaitChange);
        }
        if let Some(step) = held_up(permit, Class::Create) {
            return step;
        }
        let Some(body) = &self.source.body else {
            return Step::Read(true, false);
        };
        let body = self.render(body, lane);
        act(
            apply(self.s, body, WriteReason::CreateCopy),
            written(memory, Some(self.now)),
        )
    }

    fn render(&self, body: &kube::core::DynamicObject, lane: &Lane) -> Value {
        let Ok(to) = &self.s.destination.to else {
            return Value::Null;
        };
        let Some(hub) = &self.s.hub else {
            return Value::Null;
        };
        let mut copy = rendered(self.s, self.source, body, hub, to);
        copy["metadata"]["labels"][keys::LANE] = json!(lane.name(&self.s.kinds));
        copy
    }

    /// True if the copy's payload is not that of the object, and is to become it.
    fn differs(&self, copy: &Row<HubCopy>, memory: &Memory) -> bool {
        if self.s.keeps_spec(self.source) || memory.refuses_spec(self.source, self.now) {
            return false;
        }
        let is_same = memory
            .payload
            .accepts(self.s.wanted(self.source), copy.digest.whole());
        !is_same || copy.digest.source_generation != Some(self.source.digest.generation)
    }

    /// A copy without a pin: Karmada chooses, and its choice is recorded.
    fn choose(&self, copy: &Row<HubCopy>, memory: &mut Memory, permit: Permit) -> Step {
        if copy
            .digest
            .source_uid
            .as_ref()
            .is_some_and(|uid| *uid != self.source.uid)
        {
            return act(
                delete_copy(self.s, copy, WriteReason::ReplaceCopy),
                memory.clone(),
            )
            .unconfirmed();
        }
        let lane = lane_of(self.s.profile(), copy);
        let delivery = self.delivery(copy);
        if let CopyLane::At(stage, member) = lane {
            // The pin was lost: lane and binding together are its record.
            let is_there = delivery.is_some_and(|(_, clusters)| clusters == [member]);
            return if is_there {
                self.write_pin(copy, member, stage.preserves(), memory)
            } else {
                Step::Wait(Requeue::AwaitChange)
            };
        }
        let wanted = self.lane(Choice::Karmada);
        if copy.digest.lane.as_deref() != Some(&*wanted.name(&self.s.kinds)) {
            return self.change_lane(copy, &wanted, memory, permit, true);
        }
        memory.lane = Some(wanted.clone());
        if let Some((delivery, [member])) = delivery.as_ref().map(|(d, of)| (d, of.as_slice()))
            && !self.lanes.companions.iter().any(|one| one.shared)
            && !self.lanes.is_record_full
            && delivery.observed
            && delivery.unscheduled.is_none()
        {
            return self.write_pin(copy, member, false, memory);
        }
        if self.differs(copy, memory) && self.has_sources() {
            return self.update(copy, &wanted, memory, permit);
        }
        Step::Wait(Requeue::AwaitChange)
    }

    /// The state that the binding of this copy tells, and its members.
    pub(in crate::federator) fn delivery(&self, copy: &Row<HubCopy>) -> Option<(&Delivery, Vec<&str>)> {
        let binding = self.s.binding.as_ref().filter(|row| !row.deleting)?;
        let own = binding.digest.owner.as_ref() == Some(&copy.uid);
        let claimed = binding.digest.policy == copy.digest.lane;
        let delivery = binding.digest.delivery.as_deref().filter(|_| own && claimed)?;
        let members = binding.digest.clusters.iter().map(|name| &**name).collect();
        Some((delivery, members))
    }

    /// The binding of a copy, if it is given to the pin's member alone.
    fn at_member(&self, pin: &Pin, copy: &Row<HubCopy>) -> Option<&Delivery> {
        let (delivery, members) = self.delivery(copy)?;
        (members == [&*pin.member] && delivery.observed).then_some(delivery)
    }

    /// A pinned copy: the stage that it is to have, then its payload.
    fn deliver(&self, pin: &Arc<Pin>, copy: &Row<HubCopy>, memory: &mut Memory, permit: Permit) -> Step {
        if !pin.copy_uids.contains(&copy.uid) {
            return self.add_copy(pin, copy, memory);
        }
        let stage = match lane_of(self.s.profile(), copy) {
            CopyLane::At(stage, member) if *member == *pin.member => Some(stage),
            CopyLane::At(..) | CopyLane::Choose | CopyLane::Other => None,
        };
        let there = self.at_member(pin, copy);
        let item = there.and_then(|delivery| delivery.at(&pin.member));
        let applied = item.is_some_and(|item| item.applied);
        if applied && stage.is_some_and(Stage::delivers) {
            let kept = self.kept(pin, self.gone_along());
            if !pin.delivered || kept.is_some() {
                let delivered = Pin {
                    delivered: true,
                    kept: kept.unwrap_or_else(|| pin.kept.clone()),
                    ..Pin::clone(pin)
                };
                return self.patch_pin(&delivered, memory);
            }
        }
        if let Some(step) = self.record_remade(pin, item, memory) {
            return step;
        }
        if stage == Some(Stage::Drop)
            && self.is_at(PinnedCluster::Replaced)
            && let Some(step) = self.before_away(pin, copy, memory)
        {
            return step;
        }
        let (wanted, next) = self.wanted_stage(pin, stage, there.is_some(), applied, memory);
        let lane = self.lane(Choice::Stage(wanted, pin));
        if stage == Some(Stage::Send)
            && !wanted.delivers()
            && let Some(step) = self.record_kept(pin, memory)
        {
            return step;
        }
        if stage != Some(wanted) {
            // A spec that was held back goes with the lane that delivers it.
            let was_held_back = matches!(stage, Some(Stage::Hold | Stage::Drop));
            let with_spec = was_held_back && wanted.delivers();
            let permit = self.permit_to_move(permit);
            let step = self.change_lane(copy, &lane, memory, permit, with_spec);
            return if (stage, wanted) == (Some(Stage::Pin), Stage::Mend) {
                self.taken_over(step)
            } else {
                step
            };
        }
        let may_change = wanted.delivers() || wanted == Stage::Drop;
        let is_held = self.source.digest.suspended || !may_change;
        if self.differs(copy, memory) && !is_held && self.is_furnished_for(wanted) {
            return self.update(copy, &lane, memory, permit);
        }
        memory.lane = Some(lane);
        self.unapplied(pin, wanted, item, next, memory)
    }

    /// True if a new spec may be written: before the first delivery it waits for nothing. That of an object that is being deleted
    /// does not wait, either, because its sources may be gone with their namespace.
    fn is_furnished_for(&self, stage: Stage) -> bool {
        if self.source.deleting {
            true
        } else if stage.delivers() {
            self.is_furnished()
        } else {
            self.has_sources()
        }
    }

    fn update(&self, copy: &Row<HubCopy>, lane: &Lane, memory: &mut Memory, permit: Permit) -> Step {
        memory.lane = Some(lane.clone());
        if let Some(step) = held_up(permit, Class::Update) {
            return step;
        }
        let Some(body) = &self.source.body else {
            return Step::Read(true, false);
        };
        let mut body = self.render(body, lane);
        body["metadata"]["uid"] = json!(&*copy.uid);
        let plan = Plan::one(apply(self.s, body, WriteReason::UpdateCopy));
        confirmed(self.s, self.source, copy, Act::new(plan, written(memory, None)))
    }

    /// Gives the copy to another lane with one merge patch, and with the payload if that is to go with it.
    pub(in crate::federator) fn change_lane(
        &self,
        copy: &Row<HubCopy>,
        lane: &Lane,
        memory: &mut Memory,
        permit: Permit,
        with_spec: bool,
    ) -> Step {
        memory.lane = Some(lane.clone());
        if !self.is_open(lane) {
            return Step::Wait(Requeue::AwaitChange);
        }
        let with_spec = with_spec && self.differs(copy, memory);
        let is_furnished = if let Lane::At(_, stage, _) = lane {
            self.is_furnished_for(*stage)
        } else {
            self.has_sources()
        };
        if with_spec && !is_furnished {
            return Step::Wait(Requeue::AwaitChange);
        }
        if let Some(step) = held_up(permit, Class::Update) {
            return step;
        }
        let body = match (with_spec, &copy.body, &self.source.body) {
            (false, ..) => None,
            (true, Some(from), Some(to)) => Some((from, self.render(to, lane))),
            (true, from, to) => return Step::Read(to.is_none(), from.is_none()),
        };
        let payload = body.as_ref().map(|(from, body)| (&from.data, body));
        let label = [(keys::LANE, json!(lane.name(&self.s.kinds)))];
        let patch = given(self.s, copy, label.into_iter(), payload);
        let effect = Effect {
            target: copy_target(self.s),
            endpoint: Endpoint::Main,
            write: Write::Merge { patch },
            reason: WriteReason::ChangeLane.into(),
        };
        act(effect, written(memory, Some(self.now)))
    }

    /// Makes the copy again at its member, delivered nowhere. Its sources may be gone with their namespace.
    pub(in crate::federator) fn create_again(&self, pin: &Pin, memory: &mut Memory, permit: Permit) -> Step {
        self.make(memory, permit, &self.lane(Choice::Stage(Stage::Drop, pin)))
    }
}
