//! A Work that does not end keeps its member from having what comes after it (contract: clusters.md §4). Pure.

use super::Case;
use crate::{
    federator::{
        decide::Step,
        memory::{GRACE_PERIOD, Memory},
    },
    index::rows::Item,
    lane::Stage,
    member::{Look, Seen, pause},
    pin::{Pin, PinnedCluster},
};
use fedgate_engine::plan::Requeue;

impl Case<'_> {
    /// Waits, and looks meanwhile for the Work of an earlier copy if a member says nothing of what it is to have.
    pub(super) fn unapplied(
        &self,
        pin: &Pin,
        stage: Stage,
        item: Option<&Item>,
        next: Requeue,
        memory: &mut Memory,
    ) -> Step {
        let waited = memory.undelivered.map(|since| self.now.since(since));
        let is_late = waited.is_some_and(|waited| waited >= GRACE_PERIOD);
        let is_silent = item.is_none_or(|item| !item.applied && item.message.is_empty());
        let member = self.lanes.member.as_ref();
        let is_ready = member.is_some_and(|member| member.is_ready) && self.is_at(PinnedCluster::Same);
        if !(stage.delivers() && is_late && is_silent && is_ready) {
            memory.stuck = None;
            memory.look_due = None;
            if stage.delivers() {
                memory.seen = None;
                memory.looks = 0;
            }
            return Step::Wait(next);
        }
        if let Some(seen) = memory.seen.take() {
            memory.stuck = match seen {
                Seen::WorkStuck(work) => Some(work.into()),
                _ => None,
            };
            let wait = pause(memory.looks);
            memory.looks = memory.looks.saturating_add(1);
            memory.look_due = Some(self.now.instant + wait);
            return Step::Wait(next.earlier(Requeue::After(wait)));
        }
        // The end of a Work that is stuck has enqueued the key.
        match memory
            .look_due
            .filter(|due| memory.stuck.is_none() && self.now.instant < *due)
        {
            Some(due) => Step::Wait(next.earlier(Requeue::After(due - self.now.instant))),
            None => Step::Look(Look::StuckWork {
                member: pin.member.clone(),
            }),
        }
    }
}
