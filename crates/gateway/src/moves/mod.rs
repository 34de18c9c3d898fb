//! Moves of deployments from cell to cell of their city (contract: serving.md §2). This controller decides which deployments move, and
//! to which cell; the federator of each deployment carries its move out (`federator::decide::moves`). The controller sends no request.
//!
//! There is one key for the whole hub. The key is enqueued by a change of a Cluster, by a copy with a request, by a binding whose
//! eviction begins or ends or which is scheduled to a drained or unready cell, by the end of a move, and by timers.

mod decide;
mod observe;
#[cfg(test)]
mod tests;

use super::{
    context::State,
    index::{GatewayIndex, ObjectRef, intents::moves::Moves},
    settings::Settings,
};
use decide::decide;
use fedgate_engine::{
    clock::Now,
    key::Plane,
    plan::Requeue,
    runtime::{
        driver::{Reconcile, Reconciler, Step},
        queue::Priority,
    },
};
use std::{collections::BTreeSet, sync::Arc};

/// The controller of moves.
#[derive(Debug, Default)]
pub struct MovePlanner;

impl Reconciler for MovePlanner {
    type State = State;
    type Session = ();
    type Basis = ();

    const NAME: &'static str = "moves";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<()> {
        let mut index = run.ctx.index.lock();
        let (next, objects) = plan(&mut index, &run.ctx.settings, run.ctx.now());
        let keys: Vec<_> = objects.iter().filter_map(|of| index.source_key_of(of)).collect();
        drop(index);
        run.ctx.queue.extend(keys, Priority::Fresh);
        Step::End(next)
    }
}

/// Plans all moves; returns when to plan again, and the deployments whose plans or lost cells have changed.
fn plan(index: &mut GatewayIndex, settings: &Settings, now: Now) -> (Requeue, BTreeSet<ObjectRef>) {
    let Some(snapshot) = observe::observe(index, now) else {
        let key = index.moves_key();
        index.await_proof(Plane::Hub, &key);
        return (Requeue::AwaitChange, BTreeSet::new());
    };
    let decision = decide(&snapshot, settings, now);
    let moves = &mut index.intents.moves;
    let differs = |object: &&ObjectRef| moves.planned.get(*object) != decision.planned.get(*object);
    let all = moves.planned.keys().chain(decision.planned.keys());
    let mut changed: BTreeSet<ObjectRef> = all.filter(differs).cloned().collect();
    let is_news = |cell: &Arc<str>| moves.lost.get(cell) != decision.lost.get(cell);
    changed.extend(snapshot.at(is_news).cloned());
    report(moves, &decision);
    moves.planned = decision.planned;
    moves.lost = decision.lost;
    let to_leave: BTreeSet<&ObjectRef> = snapshot.at(|_| true).collect();
    let evictions = &index.hub.evictions;
    changed.extend(moves.retain_cancelled(|of| to_leave.contains(of) || evictions.contains(of)));
    (decision.next, changed)
}

/// Logs each cell whose state changed: lost, lost and held, or not lost.
fn report(before: &Moves, decision: &decide::Decision) {
    for (cell, lost) in &decision.lost {
        if before.lost.get(cell).map(|lost| lost.is_held) == Some(lost.is_held) {
            continue;
        }
        let cell = &**cell;
        if lost.is_held {
            tracing::warn!(
                cell,
                "cell is lost; its deployments do not move, because too many cells are not ready; drain the cells that are gone"
            );
        } else {
            tracing::warn!(
                cell,
                "cell is lost; its deployments move to other cells of the city, if there are any"
            );
        }
    }
    for cell in before
        .lost
        .keys()
        .filter(|cell| !decision.lost.contains_key(*cell))
    {
        tracing::info!(
            cell = &**cell,
            "cell does not count as lost; moves that have begun go on"
        );
    }
}
