//! Limits for pages of lists that are read at a time. Thousands of planes are listed when the process starts: each request
//! opens a connection if no idle one is left, and most of them would end at their time limit while connections are made. A
//! large page takes megabytes until its objects have been read, and tenants decide how large their objects are.

use crate::metrics::PlaneKind;
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of large pages read at a time for planes of one kind.
const AT_A_TIME: usize = 4;

/// Maximum number of other pages requested at a time from planes of one kind.
const SMALL_AT_A_TIME: usize = 256;

/// Maximum time for which a page counts as one of [`SMALL_AT_A_TIME`]: with many planes that do not answer, the others must
/// not wait for their time limits.
pub(super) const PAGE_HELD_FOR: Duration = Duration::from_secs(1);

/// Request extension: limits the answer to a fraction of the normal size. Most pages of lists are requested this way; a
/// page that does not fit needs a [`LargePage`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct SmallAnswer;

/// Semaphores for the planes of each kind: lists of tenants do not delay lists of the hub.
/// The first of a kind is for large pages, the second for others.
#[derive(Debug, Clone)]
pub(super) struct Rooms([[Arc<Semaphore>; 2]; PlaneKind::ALL.len()]);

impl Default for Rooms {
    fn default() -> Self {
        let room = |_| [AT_A_TIME, SMALL_AT_A_TIME].map(|most| Arc::new(Semaphore::new(most)));
        Self(std::array::from_fn(room))
    }
}

impl Rooms {
    /// The permits for large pages of one more plane of this kind.
    pub(super) fn of(&self, kind: PlaneKind) -> LargePages {
        LargePages {
            turn: Arc::new(Semaphore::new(1)),
            room: self.0[kind as usize][0].clone(),
        }
    }

    /// The permits for other pages of planes of this kind.
    pub(super) fn small(&self, kind: PlaneKind) -> Arc<Semaphore> {
        self.0[kind as usize][1].clone()
    }
}

/// The large pages of one plane, which are read one after the other.
#[derive(Debug)]
pub(super) struct LargePages {
    turn: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// Permit to read a large page; held until its objects have been read.
#[derive(Debug)]
pub(crate) struct LargePage {
    _room: OwnedSemaphorePermit,
    _turn: OwnedSemaphorePermit,
}

impl LargePages {
    /// Waits for a permit; never `None`, because no code closes the semaphores.
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
