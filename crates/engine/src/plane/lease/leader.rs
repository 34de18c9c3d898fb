//! The holder of the Lease, as long as a process knows it: one that cannot reach the plane of the Lease does not know who
//! leads.

use parking_lot::Mutex;
use tokio::time::Instant;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KnownLeader(Mutex<Option<(String, Instant)>>);

impl KnownLeader {
    /// Records the holder that was seen, and the time from which it may be another one. An empty name is none.
    pub(super) fn set(&self, holder: Option<&str>, until: Instant) {
        let holder = holder.filter(|holder| !holder.is_empty());
        *self.0.lock() = holder.map(|holder| (holder.to_owned(), until));
    }

    pub(super) fn get(&self) -> Option<String> {
        let known = self.0.lock();
        let known = known.as_ref().filter(|(_, until)| Instant::now() < *until);
        known.map(|(holder, _)| holder.clone())
    }
}
