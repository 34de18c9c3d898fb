//! Room for large pages of lists: each takes megabytes until its objects have been read, and thousands of planes may be
//! listed at a time, by tenants who decide how large their objects are.

use crate::metrics::PlaneKind;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Large pages of planes of one kind that are read at a time.
const AT_A_TIME: usize = 4;

/// An extension of a request: its answer may have a fraction of the bytes that others may have. Most pages of lists are
/// asked for so; those for which that is too little need a [`LargePage`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct SmallAnswer;

/// Room for the planes of each kind: no tenant's lists hold up the hub's.
#[derive(Debug, Clone)]
pub(super) struct Rooms {
    hub: Arc<Semaphore>,
    projects: Arc<Semaphore>,
    cell: Arc<Semaphore>,
}

impl Default for Rooms {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(AT_A_TIME));
        Self {
            hub: room(),
            projects: room(),
            cell: room(),
        }
    }
}

impl Rooms {
    /// The part that one more plane of this kind has in it.
    pub(super) fn of(&self, kind: PlaneKind) -> LargePages {
        let room = match kind {
            PlaneKind::Hub => &self.hub,
            PlaneKind::Project => &self.projects,
            PlaneKind::Cell => &self.cell,
        };
        LargePages {
            turn: Arc::new(Semaphore::new(1)),
            room: room.clone(),
        }
    }
}

/// The large pages of one plane, which come one after the other.
#[derive(Debug)]
pub(super) struct LargePages {
    turn: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// The right to read a large page; to be held until its objects have been read.
#[derive(Debug)]
pub(crate) struct LargePage {
    _room: OwnedSemaphorePermit,
    _turn: OwnedSemaphorePermit,
}

impl LargePages {
    /// Waits for a place, of which there is always one more: nobody closes the room.
    pub(super) async fn place(&self) -> Option<LargePage> {
        let turn = self.turn.clone().acquire_owned().await.ok()?;
        let room = self.room.clone().acquire_owned().await.ok()?;
        Some(LargePage {
            _room: room,
            _turn: turn,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_plane_takes_one_place_and_no_kind_of_plane_those_of_another() {
        let rooms = Rooms::default();
        let project = rooms.of(PlaneKind::Project);
        let first = project.place().now_or_never();
        assert!(first.is_some());
        assert!(project.place().now_or_never().is_none(), "one at a time");
        let others: Vec<LargePages> = (1..=AT_A_TIME).map(|_| rooms.of(PlaneKind::Project)).collect();
        let held: Vec<_> = others.iter().map(|other| other.place().now_or_never()).collect();
        assert_eq!(held.iter().filter(|place| place.is_some()).count(), AT_A_TIME - 1);
        assert!(rooms.of(PlaneKind::Hub).place().now_or_never().is_some());
        drop(first);
        assert!(others[AT_A_TIME - 1].place().now_or_never().is_some());
    }
}
