//! The fields of every answer.

use super::before;
use crate::{Header, Overview, QueueCounts, Replica, ReplicaRole, Time};
use fedgate_engine::{
    metrics::Build,
    plane::lease::LeaseHandle,
    runtime::{Runtime, role::Role},
};

/// Maximum number of planes in `missing`.
const MISSING_LIMIT: usize = 20;

/// The process that answers.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its name in the Lease.
    pub identity: String,
    /// Its version and revision.
    pub build: Build,
    /// Its start.
    pub started: Time,
}

impl Process {
    /// Its replica, as the Lease has it.
    pub fn replica(&self, lease: Option<&LeaseHandle>) -> Replica {
        let role = match lease {
            Some(lease) if lease.is_alone() => ReplicaRole::Alone,
            Some(lease) if lease.may_write() => ReplicaRole::Leader,
            Some(_) | None => ReplicaRole::Standby,
        };
        let leader = match role {
            ReplicaRole::Leader | ReplicaRole::Alone => Some(self.identity.clone()),
            // A replica that may no longer write has seen no other holder: it does not lead by its own name.
            ReplicaRole::Standby => lease
                .and_then(LeaseHandle::leader)
                .filter(|leader| *leader != self.identity),
        };
        Replica {
            identity: self.identity.clone(),
            role,
            leader,
            version: self.build.version.to_owned(),
            revision: self.build.revision.to_owned(),
            started_at: self.started,
        }
    }
}

/// The header of an answer of a running role.
pub fn header<R: Role>(runtime: &Runtime<R>, process: &Process) -> Header {
    let syncing = runtime.syncing(MISSING_LIMIT);
    Header {
        as_of: before(runtime.shared.now(), std::time::Duration::ZERO),
        complete: syncing.is_empty(),
        missing: syncing.iter().map(ToString::to_string).collect(),
        replica: process.replica(Some(&runtime.shared.planes.lease)),
    }
}

/// An overview of the queue alone.
pub fn overview<R: Role>(runtime: &Runtime<R>) -> Overview {
    let depth = runtime.shared.queue.depth();
    Overview {
        queue: QueueCounts {
            ready: depth.ready,
            running: depth.running,
            delayed: depth.delayed,
            in_backoff: depth.in_backoff,
        },
        ..Overview::default()
    }
}
