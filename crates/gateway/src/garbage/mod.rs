//! Hub garbage collector: copies, Namespaces and city sets that have lost their origin, and bindings that have lost
//! their template (contract: federation.md §3.11).
//!
//! Each of the four kinds of garbage has a reconciler, and they share one memory. Keys are enqueued by events that can orphan
//! an object, by the sweep, and by the grace periods of remembered objects.

mod bindings;
mod brake;
mod city_sets;
mod copies;
pub mod decide;
mod namespaces;
mod observe;

pub use bindings::Bindings;
pub use city_sets::CitySets;
pub use copies::Copies;
pub use namespaces::Namespaces;

#[cfg(test)]
mod tests;

use super::index::GatewayIndex;
use copies::recount;
use fedgate_engine::{clock::Now, key::Key, plan::Requeue, runtime::driver::Flow};
use observe::Memory;
use parking_lot::Mutex;

/// Name of the four reconcilers in logs: it is that of the controller.
const NAME: &str = "garbage";

/// The hub garbage collector; see the module.
///
/// Its memory changes only while the index is locked, so that an older view of a key never replaces a newer one.
#[derive(Debug, Default)]
pub struct Garbage {
    memory: Mutex<Memory>,
}

impl Garbage {
    /// The projects whose brake holds because too many copies appear orphaned at once, and `hub` if the hub's brake holds.
    pub fn brakes(&self) -> Vec<String> {
        let memory = self.memory.lock();
        memory.brakes.names().into_iter().map(str::to_owned).collect()
    }

    /// Releases brakes whose orphans no longer exist; called every few seconds.
    pub fn prune(&self, index: &GatewayIndex, now: Now) {
        let mut memory = self.memory.lock();
        if memory.brakes.hold() {
            recount(&mut memory, index, now);
        }
    }

    /// Number of copies that are orphans now, within or after their grace period.
    pub fn waiting(&self) -> usize {
        self.memory.lock().copies.0.len()
    }

    /// Keys of the copies that are orphans now, within or after their grace period.
    pub fn orphaned_copies(&self) -> Vec<Key> {
        self.memory.lock().copies.0.keys().cloned().collect()
    }

    /// Number of hub objects without origin: copies, and bindings without their template.
    pub fn orphans(&self, index: &GatewayIndex) -> usize {
        self.waiting() + observe::orphaned_bindings(index)
    }

    /// Keys of all objects that appear to have no origin or no users, for the sweep.
    pub fn suspects(&self) -> Vec<Key> {
        let memory = self.memory.lock();
        memory
            .copies
            .0
            .keys()
            .chain(memory.rest.0.keys())
            .cloned()
            .collect()
    }

    /// Forgets all suspected objects: observations of a standby do not justify writes of a leader.
    pub fn reset(&self) {
        *self.memory.lock() = Memory::default();
    }

    /// Records that a hub Namespace has a project namespace; its retention starts again if that is deleted later.
    pub fn lives(&self, key: &Key) {
        self.memory.lock().rest.0.remove(key);
    }

    /// Lets a deletion go on if it was confirmed; otherwise the object is no garbage.
    fn go_if(&self, key: &Key, is_confirmed: bool) -> Flow {
        if !is_confirmed {
            self.forget(key);
        }
        Flow::go_if(is_confirmed)
    }

    /// Ends a reconcile, and forgets the object.
    fn done(&self, key: &Key) -> Flow {
        self.forget(key);
        Flow::End(Requeue::AwaitChange)
    }

    fn forget(&self, key: &Key) {
        let mut memory = self.memory.lock();
        memory.copies.0.remove(key);
        memory.brakes.forget(key);
        memory.rest.0.remove(key);
    }
}
