//! Permits for calls that a hub's proxy passes on to its members. A member that does not answer holds up no call to the hub and
//! none to another member.

use crate::shared_map::SharedMap;
use tokio::sync::Semaphore;

/// Calls that one member has at a time.
pub(super) const PLACES: usize = 4;

/// Maximum size of a member's answer in bytes: an object that its etcd stores by default is smaller.
pub(super) const ANSWER_BYTES: usize = 2 * 1024 * 1024;

/// The permits of the members with calls on their way.
pub(super) type Members = SharedMap<String, Semaphore>;
