//! Causes that hold back calls of many keys at once; each counts as one failure.

use super::{Attempt, Entry, Failures, Kept, LastFailure};
use crate::{
    clock::Now,
    error::{Category, Class, Failure},
    executor::{permissions::Permission, suspension::PARKED},
    key::Plane,
};
use std::sync::Arc;

/// A cause that holds back the calls of many keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The plane does not answer.
    Plane(Plane),
    /// The plane denies this permission.
    Right(Permission),
    /// The platform suspends the project of the plane: its writes are parked.
    Suspended(Plane),
}

impl Cause {
    /// The plane that does not answer, or denies the permission.
    pub fn plane(&self) -> &Plane {
        match self {
            Self::Plane(plane) | Self::Suspended(plane) => plane,
            Self::Right(right) => &right.plane,
        }
    }

    fn class(&self) -> Class {
        match self {
            Self::Plane(_) => Class::Retry,
            Self::Right(_) => Class::Right,
            Self::Suspended(_) => Class::Wait,
        }
    }
}

impl Failures {
    /// Records that the project of a plane is suspended, whether or not a key waits for its end.
    pub fn suspended(&self, plane: &Plane, now: Now) {
        let cause = Cause::Suspended(plane.clone());
        let failure = Failure::new(plane, "write", String::new(), Category::ProjectSuspended, PARKED);
        self.0.lock().cause(cause, &failure, now);
    }

    /// Records that a plane answers neither watches nor calls, as a standby sees it too.
    pub fn plane_down(&self, plane: &Plane, category: Category, message: &str, now: Now) {
        let failure = Failure::new(plane, "watch", String::new(), category, message);
        let mut kept = self.0.lock();
        let (_, entry) = kept.cause(Cause::Plane(plane.clone()), &failure, now);
        entry.failure.attempts = entry.failure.attempts.max(1);
    }
}

impl Kept {
    /// Records a call that a cause held back, or that met the cause itself. The failure of the key, if any, is hidden
    /// until the key fails by itself again.
    pub(super) fn blocked(&mut self, cause: Cause, attempt: &Attempt<'_>, now: Now) -> Arc<Cause> {
        if let Some(entry) = self.entries.get_mut(attempt.key) {
            entry.blocked = true;
        }
        let failure = attempt.failure;
        let was_sent = failure.category != Category::CircuitOpen;
        let (cause, entry) = self.cause(cause, failure, now);
        let known = &mut entry.failure;
        if was_sent {
            *known = LastFailure {
                since: known.since,
                attempts: known.attempts.saturating_add(1),
                ..LastFailure::of(failure, known.class, now)
            };
        }
        known.next = attempt.due(now);
        cause
    }

    /// The failure of a cause; made of this one if the cause has just begun.
    fn cause(&mut self, cause: Cause, failure: &Failure, now: Now) -> (Arc<Cause>, &mut Entry) {
        let known = self.causes.get_key_value(&cause).map(|(known, _)| known.clone());
        let cause = known.unwrap_or_else(|| Arc::new(cause));
        let entry = self.causes.entry(cause.clone());
        let class = cause.class();
        let entry = entry.or_insert_with(|| Entry::new(LastFailure::of(failure, class, now), now));
        (cause, entry)
    }
}
