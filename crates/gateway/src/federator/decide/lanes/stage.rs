//! The stage that a pinned copy is to have (contract: clusters.md §3, §4). Pure.

use super::{Case, deletion};
use crate::{
    federator::{
        decide::Step,
        memory::{GRACE_PERIOD, Memory},
    },
    index::rows::HubCopy,
    lane::Stage,
    member::{Look, Seen},
    pin::{Pin, PinnedCluster},
};
use fedgate_engine::{plan::Requeue, store::table::Row};
use std::time::Duration;

/// Least time between two rounds in which a member's object is taken over again.
const MEND_EVERY: Duration = Duration::from_secs(30);

impl Case<'_> {
    /// Before the last Work of a member goes, it must not preserve: one that was refused could not end.
    pub(super) fn before_away(&self, pin: &Pin, copy: &Row<HubCopy>, memory: &mut Memory) -> Option<Step> {
        let (delivery, _) = self.delivery(copy)?;
        match (&memory.seen, &delivery.id) {
            (Some(Seen::WorksStopped), _) => {
                memory.seen = None;
                memory.looks = 0;
                None
            }
            (None, Some(id)) if delivery.suspended => Some(Step::Look(Look::Works {
                member: pin.member.clone(),
                ids: vec![id.clone()],
            })),
            (Some(_), _) => Some(Step::Wait(deletion::again(memory))),
            (None, _) => Some(Step::Wait(Requeue::AwaitChange)),
        }
    }

    /// The stage that the copy is to have now, and when that may change without an event.
    pub(super) fn wanted_stage(
        &self,
        pin: &Pin,
        stage: Option<Stage>,
        is_there: bool,
        applied: bool,
        memory: &mut Memory,
    ) -> (Stage, Requeue) {
        let back = if pin.delivered { Stage::Hold } else { Stage::Drop };
        let idle = |stage| (stage, Requeue::AwaitChange);
        match self.lanes.cluster {
            // A Cluster that joins again gets what its binding delivers before anybody can look at it.
            Some(PinnedCluster::Gone) => return idle(Stage::Away),
            Some(PinnedCluster::Replaced) => {
                return idle(match stage {
                    Some(Stage::Drop | Stage::Away) => Stage::Away,
                    Some(stage) if stage.preserves() && applied => Stage::Hold,
                    Some(_) | None => Stage::Drop,
                });
            }
            // Of one that is not known nothing is decided (`copy_step`).
            Some(PinnedCluster::Same | PinnedCluster::Unknown) | None => {}
        }
        let Some(stage) = stage else {
            return idle(Stage::Drop);
        };
        if self.source.digest.suspended || self.withheld_since(pin).is_some() {
            memory.strayed = None;
            return idle(if stage == Stage::Away { stage } else { back });
        }
        if stage == Stage::Away {
            return idle(if pin.delivered { Stage::Mend } else { Stage::Drop });
        }
        if is_there {
            memory.strayed = None;
        } else if stage.delivers() && !self.s.complete {
            // Its binding may not be read yet.
            return (stage, Requeue::AwaitChange);
        } else if stage.delivers() {
            let since = *memory.strayed.get_or_insert(self.now.instant);
            let waited = self.now.since(since);
            if waited >= GRACE_PERIOD {
                return idle(back);
            }
            return (stage, Requeue::After(GRACE_PERIOD.saturating_sub(waited)));
        }
        match stage {
            Stage::Drop if is_there && self.lanes.is_kept && self.may_be_delivered(pin) => {
                idle(if pin.delivered { Stage::Mend } else { Stage::Send })
            }
            Stage::Send if pin.delivered => idle(Stage::Pin),
            Stage::Hold if is_there => idle(Stage::Pin),
            Stage::Mend if applied => idle(Stage::Pin),
            Stage::Pin if pin.delivered && is_there && !applied => self.take_over(memory),
            stage => {
                memory.unapplied = None;
                idle(stage)
            }
        }
    }

    /// True if its member may have it: its companions are there. Of a spec that is refused for its size they are not known; where
    /// it was delivered before, they were there.
    fn may_be_delivered(&self, pin: &Pin) -> bool {
        if self.source.digest.fits(self.s.largest_spec) {
            self.is_furnished()
        } else {
            pin.delivered
        }
    }

    /// An object that Karmada has let go of is taken over again, after a while and not too often.
    /// Such a round counts from its write on ([`Case::taken_over`]): until then its policy and a permit may be awaited.
    pub(super) fn take_over(&self, memory: &mut Memory) -> (Stage, Requeue) {
        let since = *memory.unapplied.get_or_insert(self.now.instant);
        let due = memory.mended.map_or(since + GRACE_PERIOD, |at| {
            (at + MEND_EVERY).max(since + GRACE_PERIOD)
        });
        if self.now.instant < due {
            return (Stage::Pin, Requeue::After(due - self.now.instant));
        }
        (Stage::Mend, Requeue::AwaitChange)
    }

    /// The time until an object may be taken over again, if it was a short while ago.
    pub(super) fn next_round_in(&self, memory: &Memory) -> Option<Duration> {
        let waited = self.now.since(memory.mended?);
        MEND_EVERY.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// The write that begins such a round.
    pub(super) fn taken_over(&self, step: Step) -> Step {
        match step {
            Step::Act(mut act) => {
                act.applied.mended = Some(self.now.instant);
                act.applied.unapplied = None;
                Step::Act(act)
            }
            step => step,
        }
    }
}
