//! Suspended projects: the keys whose writes are parked, and their resumption.

use super::{Runtime, queue::Priority, role::Role};
use crate::key::Plane;
use fedgate_api::names::ProjectKey;

impl<R: Role> Runtime<R> {
    /// The platform suspends a project, or ends that.
    pub(super) fn suspension(&self, key: &ProjectKey, suspended: bool) {
        let plane = Plane::Project(key.clone());
        self.shared.executor.declare_suspended(&plane, suspended);
        if suspended {
            tracing::info!(project = %key, "the project is suspended; its writes are parked");
        } else {
            tracing::info!(project = %key, "the suspension of the project has ended; its objects are reconciled");
            self.resumed(&plane);
        }
    }

    /// Enqueues the keys that wait for the end of a suspension.
    pub(super) fn resumed(&self, plane: &Plane) {
        let keys = self.shared.workers.take_suspended(plane);
        self.shared.queue.extend(keys, Priority::Backlog);
    }

    /// Lets one key of each project try a write whose server alone calls the project suspended: no event tells of the end.
    pub(super) fn probe_suspended(&self) {
        for plane in self.shared.executor.probes_due() {
            let key = self.shared.workers.take_one_suspended(&plane);
            self.shared.queue.extend(key, Priority::Backlog);
        }
    }
}
