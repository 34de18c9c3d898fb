//! The decision which deployments move, and to which cell. Pure.

use super::observe::{CellSnapshot, Deployment, Snapshot};
use crate::{
    index::{
        ObjectRef,
        intents::moves::{LostCell, PlannedMove},
        rows::{Cell, CellTaint, MoveCause},
    },
    settings::Settings,
};
use fedgate_api::names::CityCode;
use fedgate_engine::{clock::Now, plan::Requeue};
use jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A move counts for the limit of its city for this time after it was planned, and after it began. A slow move does not block
/// others, because a deployment may never become healthy and its project may refuse the write.
const SLOW_AFTER: Duration = Duration::from_secs(30);

/// Time after which deployments that could not move are observed again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// If more than one in this many cells is not ready, the deployments of lost cells do not move.
const LOST_SHARE: usize = 5;

/// The moves that are to begin, and the lost cells.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    /// The moves that are to begin.
    pub(super) planned: BTreeMap<ObjectRef, PlannedMove>,
    /// The lost cells.
    pub(super) lost: BTreeMap<Arc<str>, LostCell>,
    /// When to decide again.
    pub(super) next: Requeue,
}

/// Decides which deployments move, and to which cell.
pub(super) fn decide(s: &Snapshot, settings: &Settings, now: Now) -> Decision {
    let mut next = if s.has_others {
        Requeue::After(LOOK_AGAIN)
    } else {
        Requeue::AwaitChange
    };
    let lost = lost_cells(s, settings, now, &mut next);
    let mut loads: BTreeMap<Arc<str>, u64> =
        s.cells.iter().map(|(name, of)| (name.clone(), of.load)).collect();
    let mut slots = slots(s, settings, now, &mut next);
    let mut planned = BTreeMap::new();
    for of in &s.deployments {
        let is_lost = lost.get(&of.cell).is_some_and(|lost| !lost.is_held);
        let Some((cause, to)) = target(s, of, is_lost, &loads) else {
            continue;
        };
        if let Some(left) = of.cancelled.as_ref().and_then(|(_, left)| *left) {
            next = next.earlier(Requeue::After(left));
            continue;
        }
        let is_same = |had: &&PlannedMove| had.from == of.cell && had.to == *to;
        let since = of
            .planned
            .as_ref()
            .filter(is_same)
            .map_or(now.instant, |had| had.since);
        let left = SLOW_AFTER.saturating_sub(now.since(since));
        if !left.is_zero() {
            let city = &s.cells[to].city;
            let free = slots.entry(city.clone()).or_insert(settings.moves_per_city);
            if *free == 0 {
                continue;
            }
            *free -= 1;
            next = next.earlier(Requeue::After(left));
        }
        *loads.entry(to.clone()).or_default() += u64::from(of.replicas);
        let planned_move = PlannedMove {
            from: of.cell.clone(),
            to: to.clone(),
            cause,
            since,
        };
        planned.insert(of.object.clone(), planned_move);
    }
    Decision { planned, lost, next }
}

/// The cells that have not been ready for long enough. Those that will be lost set the time of the next decision.
///
/// The deployments of a lost cell do not move while another cell of its city that has deployments is not ready, or more than one cell and
/// more than a fifth of all cells, because the fault may be the hub's. A drained cell does not count.
fn lost_cells(
    s: &Snapshot,
    settings: &Settings,
    now: Now,
    next: &mut Requeue,
) -> BTreeMap<Arc<str>, LostCell> {
    let counts = |of: &&CellSnapshot| {
        !of.row.digest.is_ready() && of.row.digest.taint != CellTaint::Draining && of.load > 0
    };
    let counted: Vec<&CityCode> = s.cells.values().filter(counts).map(|of| &of.city).collect();
    let are_many = counted.len() > 1 && counted.len() * LOST_SHARE > s.cells.len();
    let mut lost = BTreeMap::new();
    for (name, cell) in &s.cells {
        // A condition without a time does not tell since when the cell is not ready.
        let ready = cell.row.digest.ready.as_ref();
        let Some(ready) = ready.filter(|ready| !ready.is_true && ready.since > 0) else {
            continue;
        };
        let since = Timestamp::from_second(ready.since).unwrap_or(Timestamp::UNIX_EPOCH);
        let left = settings.cell_lost_after.saturating_sub(now.since_wall(since));
        if !left.is_zero() {
            *next = next.earlier(Requeue::After(left));
            continue;
        }
        let of_city = counted.iter().filter(|city| ***city == cell.city).count();
        let of = LostCell {
            since: ready.since,
            is_held: counts(&cell) && (are_many || of_city > 1),
        };
        lost.insert(name.clone(), of);
    }
    lost
}

/// Number of moves that may begin in each city in which some are under way.
fn slots(s: &Snapshot, settings: &Settings, now: Now, next: &mut Requeue) -> BTreeMap<CityCode, usize> {
    let mut slots = BTreeMap::new();
    for started in &s.started {
        let Some(since) = started.since else { continue };
        let left = SLOW_AFTER.saturating_sub(now.since_wall(since));
        if left.is_zero() {
            continue;
        }
        *next = next.earlier(Requeue::After(left));
        let free = slots
            .entry(started.city.clone())
            .or_insert(settings.moves_per_city);
        *free = free.saturating_sub(1);
    }
    slots
}

/// Why and to which cell a deployment moves; `None` if it stays.
fn target<'a>(
    s: &'a Snapshot,
    of: &Deployment,
    is_lost: bool,
    loads: &BTreeMap<Arc<str>, u64>,
) -> Option<(MoveCause, &'a Arc<str>)> {
    let kind = &s.kinds[of.object.kind];
    let fits = |(name, cell): &(&Arc<str>, &CellSnapshot)| {
        **name != of.cell && Cell::takes(&cell.row, &of.route, kind)
    };
    let requested = of.requested.as_ref().and_then(|name| s.cells.get_key_value(name));
    let requested = requested.filter(fits).map(|(name, _)| name);
    let cause = if s.cells[&of.cell].row.digest.taint == CellTaint::Draining {
        MoveCause::Draining
    } else if is_lost {
        MoveCause::CellLost
    } else {
        return Some((MoveCause::Requested, requested?));
    };
    let failed = |name: &Arc<str>| {
        of.cancelled
            .as_ref()
            .is_some_and(|(to, _)| to.as_ref() == Some(name))
    };
    let others = s.cells.iter().filter(fits).map(|(name, _)| name);
    let least = others.min_by_key(|name| (failed(name), loads.get(*name).copied(), *name));
    Some((cause, requested.filter(|name| !failed(name)).or(least)?))
}
