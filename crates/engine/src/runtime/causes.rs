//! Causes of failures that hold back calls of many keys: a plane that is down, a permission that is missing.

use super::{
    Runtime,
    failures::{Cause, log},
    role::Role,
};
use crate::{
    error::{Category, Failure},
    executor::PlaneAccess,
    plane::health::Unreachable,
};
use std::collections::BTreeSet;

impl<R: Role> Runtime<R> {
    /// The cause of a failure that holds back the calls of other keys too.
    pub(super) fn cause_of(&self, failure: &Failure) -> Option<Cause> {
        let shared = &self.shared;
        if let Some(right) = shared.executor.missing_right(failure) {
            return Some(Cause::Right(right));
        }
        if failure.category == Category::ProjectSuspended {
            return Some(Cause::Suspended(failure.plane.clone()));
        }
        let is_of_plane = matches!(
            failure.category,
            Category::Network
                | Category::Timeout
                | Category::Server
                | Category::Throttled
                | Category::Unauthorized
                | Category::CircuitOpen
        );
        let cause = is_of_plane.then(|| Cause::Plane(failure.plane.clone()));
        cause.filter(|cause| self.lasts(cause))
    }

    /// True if the cause still holds back calls.
    fn lasts(&self, cause: &Cause) -> bool {
        match cause {
            Cause::Plane(plane) => {
                let health = self.shared.planes.health(plane);
                health.is_some_and(|health| health.is_down() || !health.admits_all_calls())
            }
            Cause::Right(right) => self.shared.executor.missing_rights().contains(right),
            Cause::Suspended(plane) => self.shared.executor.suspension(plane).is_some(),
        }
    }

    /// Records the planes that are down, which a standby sees too, drops the causes that have ended, and reports both.
    pub(super) fn observe_causes(&self) {
        let shared = &self.shared;
        let (failures, now) = (shared.workers.failures(), shared.now());
        let mut covered = BTreeSet::new();
        for (plane, engaged) in shared.planes.lock().iter() {
            let Some(away) = engaged.connection.health().unreachable() else {
                continue;
            };
            if engaged.connection.current().host().covers(plane) {
                covered.insert(plane.clone());
            }
            let category = match away {
                Unreachable::Silent => Category::Network,
                Unreachable::Failing => Category::Server,
            };
            let error = engaged.watches.iter().find_map(|(_, status)| status.error());
            failures.plane_down(plane, category, &error.unwrap_or_default(), now);
        }
        for (plane, _) in shared.executor.suspended() {
            failures.suspended(&plane, now);
        }
        // Asked beforehand: the locks of planes and failures are taken in this order alone.
        let causes = failures.causes().into_iter();
        let ended: BTreeSet<_> = causes
            .map(|(cause, _)| cause)
            .filter(|cause| !self.lasts(cause))
            .collect();
        for (cause, settled) in failures.retain_causes(|cause| !ended.contains(cause), now) {
            log::plane_answers(cause.plane(), settled);
        }
        // The log has a line for the host of the others.
        let down = failures.planes_down(|plane| !covered.contains(plane), now);
        if !down.is_empty() {
            let behind = shared.queue.backoffs().behind();
            for (cause, failure) in down {
                let keys = behind.get(&cause).copied().unwrap_or_default();
                log::plane_down(cause.plane(), &failure, keys);
            }
        }
        if let Some(counts) = failures.more_stuck(now) {
            log::more_stuck(&counts);
        }
    }
}
