//! Causes that hold back calls of many keys at once; each counts as one failure.

use super::{Attempt, Class, Entry, Failures, Kept, LastFailure};
use crate::message::clean;
use crate::{
    clock::Now,
    error::Category,
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

/// Name of the controller of failures that belong to no key.
const NO_CONTROLLER: &str = "none";

impl Failures {
    /// Records that the project of a plane is suspended.
    pub fn suspended(&self, plane: &Plane, now: Now) {
        self.0.lock().suspended(plane, now);
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
        let class = cause.class();
        let (cause, entry) = self.cause(cause, now, || LastFailure {
            controller: NO_CONTROLLER,
            plane: failure.plane.clone(),
            verb: failure.verb,
            object: failure.object.as_str().into(),
            category: failure.category,
            class,
            message: clean(&failure.message),
            since: now.wall,
            last: now.wall,
            attempts: 0,
            next: None,
        });
        let known = &mut entry.failure;
        if was_sent {
            known.verb = failure.verb;
            known.object = failure.object.as_str().into();
            known.category = failure.category;
            known.message = clean(&failure.message);
            known.last = now.wall;
            known.attempts = known.attempts.saturating_add(1);
        }
        known.next = attempt.next.and_then(|after| now.wall.checked_add(after).ok());
        cause
    }

    /// The failure of a cause; made anew if the cause has just begun.
    fn cause(
        &mut self,
        cause: Cause,
        now: Now,
        new: impl FnOnce() -> LastFailure,
    ) -> (Arc<Cause>, &mut Entry) {
        let known = self.causes.get_key_value(&cause).map(|(known, _)| known.clone());
        let cause = known.unwrap_or_else(|| Arc::new(cause));
        let entry = self.causes.entry(cause.clone());
        (cause, entry.or_insert_with(|| Entry::new(new(), now)))
    }

    /// Records that the project of a plane is suspended, whether or not a key waits for its end.
    fn suspended(&mut self, plane: &Plane, now: Now) {
        self.cause(Cause::Suspended(plane.clone()), now, || LastFailure {
            controller: NO_CONTROLLER,
            plane: plane.clone(),
            verb: "write",
            object: "".into(),
            category: Category::ProjectSuspended,
            class: Class::Wait,
            message: PARKED.into(),
            since: now.wall,
            last: now.wall,
            attempts: 0,
            next: None,
        });
    }

    /// Records that a plane answers neither watches nor calls, as a standby sees it too.
    pub(super) fn plane_down(&mut self, plane: &Plane, category: Category, message: &str, now: Now) {
        self.cause(Cause::Plane(plane.clone()), now, || LastFailure {
            controller: NO_CONTROLLER,
            plane: plane.clone(),
            verb: "watch",
            object: "".into(),
            category,
            class: Class::Retry,
            message: clean(message),
            since: now.wall,
            last: now.wall,
            attempts: 1,
            next: None,
        });
    }
}
