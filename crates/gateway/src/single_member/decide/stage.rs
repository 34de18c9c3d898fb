//! The stage that a pinned copy is to have (contract: clusters.md §3, §4): normally `Withdraw`, `Deliver`, `Preserve`. [`Stage`] says
//! what Karmada does in each. Pure.

use super::{Case, GRACE_PERIOD, MemberStep, Memory, WAIT};
use crate::{
    index::{
        rows::{HubCopy, Item},
        single_member::{Ended, Pin, PinnedCluster, Stage},
    },
    single_member::{Observation, Probe, probe::Probing},
};
use fedgate_engine::{plan::Requeue, store::table::Row};
use fedgate_kinds::ByMember;
use jiff::Timestamp;
use std::time::Duration;

/// Seconds after the creation of a copy from which a deletion at the member is one of the copy's object: the clocks of hub and
/// member may differ.
const OWN_AFTER: i64 = 10;

/// Minimum time between two rounds in which Karmada takes over the object of a member.
const TAKEOVER_EVERY: Duration = Duration::from_secs(30);

impl Case<'_> {
    /// Waits until Karmada has stopped the last Work of a member, before the copy is given to no member. A Work that preserves and
    /// whose object the member has refused could not end.
    pub(super) fn delay_release(
        &self,
        pin: &Pin,
        copy: &Row<HubCopy>,
        memory: &mut Memory,
    ) -> Option<MemberStep> {
        let (delivery, _) = self.delivery(copy)?;
        Some(match (&memory.probing.observation, &delivery.id) {
            (Some(Observation::WorksStopped), _) => {
                memory.probing = Probing::default();
                return None;
            }
            (None, Some(id)) if delivery.suspended => MemberStep::Probe(Probe::Works {
                member: pin.member.clone(),
                ids: vec![id.clone()],
            }),
            (Some(_), _) => MemberStep::Wait(memory.probing.again()),
            (None, _) => WAIT,
        })
    }

    /// The stage that the copy is to have, and the time at which that may change without an event.
    pub(super) fn wanted_stage(
        &self,
        pin: &Pin,
        stage: Option<Stage>,
        is_there: bool,
        applied: bool,
        memory: &mut Memory,
    ) -> (Stage, Requeue) {
        // The stage of a copy that must not be dispatched: an object that the member has stays there.
        let held = if pin.delivered {
            Stage::Suspend
        } else {
            Stage::Withdraw
        };
        let idle = |stage| (stage, Requeue::AwaitChange);
        match self.at.cluster {
            // A Cluster that joins under the name gets what the binding delivers before anybody can look at it.
            Some(PinnedCluster::Gone) => return idle(Stage::Release),
            // The other Cluster gets nothing. A copy whose object is applied and preserved is suspended. Any other copy is withdrawn,
            // and given to no member once its Works are stopped (`delay_release`).
            Some(PinnedCluster::Replaced) => {
                return idle(match stage {
                    Some(Stage::Withdraw | Stage::Release) => Stage::Release,
                    Some(stage) if stage.preserves() && applied => Stage::Suspend,
                    Some(_) | None => Stage::Withdraw,
                });
            }
            // While the Cluster is not known nothing is decided (`advance`).
            Some(PinnedCluster::Same | PinnedCluster::Unknown) | None => {}
        }
        // A copy without a stage was given to no member yet, or to another one.
        let Some(stage) = stage else {
            return idle(Stage::Withdraw);
        };
        if self.source.digest.suspended || self.withheld_since(pin).is_some() {
            memory.strayed = None;
            return idle(if stage == Stage::Release { stage } else { held });
        }
        // Karmada may no longer manage an object that was delivered before, so that it takes the object over.
        let delivered = if pin.delivered {
            Stage::TakeOver
        } else {
            Stage::Deliver
        };
        if stage == Stage::Release {
            return idle(if pin.delivered { delivered } else { Stage::Withdraw });
        }
        if is_there {
            memory.strayed = None;
        } else if stage.delivers() {
            if !self.complete {
                // The binding may not have been listed yet.
                return idle(stage);
            }
            let waited = self.now.since(*memory.strayed.get_or_insert(self.now.instant));
            return match GRACE_PERIOD.checked_sub(waited).filter(|left| !left.is_zero()) {
                Some(left) => (stage, Requeue::After(left)),
                None => idle(held),
            };
        }
        match stage {
            // The first delivery waits for the binding, for a Namespace whose policy preserves, and for the companions.
            Stage::Withdraw if is_there && self.at.is_namespace_preserved && self.may_be_delivered(pin) => {
                idle(delivered)
            }
            // The member has applied the copy, so that its Work may preserve the object.
            Stage::Deliver if pin.delivered => idle(Stage::Preserve),
            // The suspension has ended.
            Stage::Suspend if is_there => idle(Stage::Preserve),
            // Karmada has taken the object over.
            Stage::TakeOver if applied => idle(Stage::Preserve),
            // Karmada no longer applies a delivered object: it may have lost it to another manager.
            Stage::Preserve if pin.delivered && is_there && !applied => self.take_over(memory),
            stage => {
                memory.unapplied = None;
                idle(stage)
            }
        }
    }

    /// True if the member may have the object: its companions are there. The companions of a spec that is too large are not known;
    /// where the object was delivered before, they were there.
    fn may_be_delivered(&self, pin: &Pin) -> bool {
        if self.spec.fits {
            self.is_furnished()
        } else {
            pin.delivered
        }
    }

    /// The stage of a copy whose object Karmada no longer manages: Karmada takes the object over after a grace period, and at most
    /// every [`TAKEOVER_EVERY`]. The interval begins with the write ([`Memory::wrote`]), because policy and permit may be awaited
    /// before it.
    pub(super) fn take_over(&self, memory: &mut Memory) -> (Stage, Requeue) {
        let since = *memory.unapplied.get_or_insert(self.now.instant) + GRACE_PERIOD;
        let due = memory
            .last_takeover
            .map_or(since, |at| since.max(at + TAKEOVER_EVERY));
        if self.now.instant < due {
            return (Stage::Preserve, Requeue::After(due - self.now.instant));
        }
        (Stage::TakeOver, Requeue::AwaitChange)
    }

    /// The time until Karmada may take over an object, if it last did so a short while ago.
    pub(super) fn next_takeover_in(&self, memory: &Memory) -> Option<Duration> {
        let waited = self.now.since(memory.last_takeover?);
        TAKEOVER_EVERY.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// Records that the member is deleting its object, of a kind for which that is the object's end (contract: clusters.md §3.7).
    /// A deletion that began before the copy was created is one of an earlier copy's object. Another UID proves no end, because the
    /// member may have lost the object, and Karmada may have created another one.
    pub(super) fn record_ended(&self, pin: &Pin, item: Option<&Item>) -> Option<MemberStep> {
        let ends = self.profile().deletion.by_member == ByMember::Ends;
        let is_of_copy = item?.deleted? > self.copy?.digest.created + OWN_AFTER;
        let is_ended = ends && pin.delivered && is_of_copy && self.is_at(PinnedCluster::Same);
        is_ended.then(|| {
            self.record(&pin.with_end(Ended {
                at: self.now.wall,
                gone: false,
            }))
        })
    }

    /// Records that Karmada has made the member's object again. The gateway deletes a delivered object only at the end of its life,
    /// so that the member has ended it. After two such rounds within an hour the object is withheld from the member (contract:
    /// clusters.md §3.6).
    pub(super) fn record_remade(
        &self,
        pin: &Pin,
        item: Option<&Item>,
        memory: &mut Memory,
    ) -> Option<MemberStep> {
        if !pin.delivered {
            // An object of an earlier life had another UID.
            memory.uid_at_member = None;
            return None;
        }
        let uid = item?.uid.as_ref()?;
        let last = match &pin.remade {
            Some(last) => &last.uid,
            None => &*memory.uid_at_member.get_or_insert_with(|| uid.clone()),
        };
        if last == uid || !self.is_at(PinnedCluster::Same) || self.withheld_since(pin).is_some() {
            return None;
        }
        let generation = self.source.digest.generation;
        Some(self.record(&pin.remade(uid.clone(), self.now.wall, generation)))
    }

    /// Since when this generation of the object is withheld from its member.
    pub(in crate::single_member) fn withheld_since(&self, pin: &Pin) -> Option<Timestamp> {
        pin.withheld(self.source.digest.generation)
    }
}
