//! Permits for calls that a hub's proxy passes on to its members. A member that does not answer holds up no call to the hub and
//! none to another member.

use crate::random::HashMap;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use tokio::sync::Semaphore;

/// Calls that one member has at a time.
pub(super) const PLACES: usize = 4;

/// Maximum size of a member's answer in bytes: an object that its etcd stores by default is smaller.
pub(super) const ANSWER_BYTES: usize = 2 * 1024 * 1024;

/// The members with calls on their way.
#[derive(Default)]
pub(super) struct Members(Mutex<HashMap<String, Weak<Semaphore>>>);

impl Members {
    /// The permits of a member.
    pub(super) fn places(&self, member: &str) -> Arc<Semaphore> {
        let mut members = self.0.lock();
        if let Some(places) = members.get(member).and_then(Weak::upgrade) {
            return places;
        }
        members.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(PLACES));
        members.insert(member.to_owned(), Arc::downgrade(&places));
        places
    }
}
