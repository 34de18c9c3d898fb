//! Suspended projects: their API servers refuse each change, but for deletions and the finalizers of objects that are being
//! deleted. Their writes are parked, so that a project that is suspended for months costs no request.

use super::{Call, Executor, journal::verb_of};
use crate::{
    error::{Category, Failure},
    key::Plane,
    plan::{Effect, ReasonLabel},
    random::HashMap,
};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// While a server refuses writes although the platform does not call the project suspended, one write to the project is
/// tried in this time.
pub const PROBE_EVERY: Duration = Duration::from_mins(1);

/// The message of a write that was not sent.
pub(crate) const PARKED: &str = "the platform suspends the project; its writes are parked until that ends";

/// How a project is known to be suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspension {
    /// The platform says so: nothing is tried before it says otherwise.
    Declared,
    /// Only its API server says so, by refusing a write; the next write is tried then.
    Observed(Instant),
}

impl Suspension {
    /// The suspension as answers name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Observed(_) => "observed",
        }
    }
}

/// The suspended projects.
#[derive(Debug, Default)]
pub(super) struct Suspensions(Mutex<HashMap<Plane, Suspension>>);

impl Suspensions {
    /// True if a write to a plane may be sent. One that is admitted while only the server calls the project suspended is
    /// the only one for [`PROBE_EVERY`].
    fn admits(&self, plane: &Plane) -> bool {
        match self.0.lock().get_mut(plane) {
            None => true,
            Some(Suspension::Declared) => false,
            Some(Suspension::Observed(next)) => {
                let now = Instant::now();
                let is_due = *next <= now;
                if is_due {
                    *next = now + PROBE_EVERY;
                }
                is_due
            }
        }
    }

    /// Records what the platform says.
    fn declare(&self, plane: &Plane, suspended: bool) {
        let mut all = self.0.lock();
        if suspended {
            all.insert(plane.clone(), Suspension::Declared);
        } else {
            all.remove(plane);
        }
    }

    /// Records that a server refused a write; true if that is news.
    fn refused(&self, plane: &Plane) -> bool {
        let next = Suspension::Observed(Instant::now() + PROBE_EVERY);
        let mut all = self.0.lock();
        match all.get_mut(plane) {
            Some(Suspension::Declared) => false,
            Some(known) => {
                *known = next;
                false
            }
            None => all.insert(plane.clone(), next).is_none(),
        }
    }

    /// Records that a server accepted a write; true if it had refused one before. A suspension that the platform declared stays.
    fn accepted(&self, plane: &Plane) -> bool {
        let mut all = self.0.lock();
        let was_observed = matches!(all.get(plane), Some(Suspension::Observed(_)));
        if was_observed {
            all.remove(plane);
        }
        was_observed
    }

    /// Drops what servers have said of planes that are not wanted, and with `declared` what the platform has said too.
    pub(super) fn retain(&self, wanted: impl Fn(&Plane) -> bool, declared: bool) {
        let stays = |state: &Suspension| *state == Suspension::Declared && !declared;
        self.0.lock().retain(|plane, state| wanted(plane) || stays(state));
    }

    fn of(&self, plane: &Plane) -> Option<Suspension> {
        self.0.lock().get(plane).copied()
    }
}

impl Executor {
    /// The executor with the reasons of writes that only take finalizers off objects that are being deleted, because
    /// suspended projects admit them.
    #[must_use]
    pub fn releasing(mut self, releases: fn(ReasonLabel) -> bool) -> Self {
        self.releases = releases;
        self
    }

    /// Records that the platform suspends the project of a plane, or ends that.
    pub fn declare_suspended(&self, plane: &Plane, suspended: bool) {
        self.suspensions.declare(plane, suspended);
    }

    /// How the project of a plane is known to be suspended; `None` if it is not.
    pub fn suspension(&self, plane: &Plane) -> Option<Suspension> {
        self.suspensions.of(plane)
    }

    /// The suspended projects, in order.
    pub fn suspended(&self) -> Vec<(Plane, Suspension)> {
        let all = self.suspensions.0.lock();
        let mut all: Vec<_> = all.iter().map(|(plane, state)| (plane.clone(), *state)).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// The projects whose servers alone call them suspended, and of which a write may be tried now.
    pub fn probes_due(&self) -> Vec<Plane> {
        let now = Instant::now();
        let all = self.suspended().into_iter();
        let due = all.filter(|(_, state)| matches!(state, Suspension::Observed(next) if *next <= now));
        due.map(|(plane, _)| plane).collect()
    }

    /// True if a suspended project admits a write.
    fn is_exempt(&self, effect: &Effect) -> bool {
        effect.write.deletes() || (self.releases)(effect.reason)
    }

    /// Fails for a write that a suspended project would refuse.
    pub(super) fn unless_suspended(&self, effect: &Effect) -> Result<(), Failure> {
        if self.is_exempt(effect) || self.suspensions.admits(&effect.target.plane) {
            return Ok(());
        }
        let call = Call::of(&effect.target, verb_of(&effect.write));
        Err(call.failed(Category::ProjectSuspended, PARKED))
    }

    /// Records the end of a write.
    pub(super) fn note_suspension(&self, effect: &Effect, failure: Option<&Failure>) {
        let plane = &effect.target.plane;
        match failure.map(|failure| failure.category) {
            Some(Category::ProjectSuspended) if self.suspensions.refused(plane) => {
                tracing::warn!(%plane, "the server refuses writes because the project is suspended, of which the platform says nothing; one write is tried each minute");
            }
            // A deletion is admitted in any case, and so says nothing.
            None if !self.is_exempt(effect) && self.suspensions.accepted(plane) => {
                tracing::info!(%plane, "the project accepts writes again");
                self.surroundings.suspension_ended(plane);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_refuses_is_asked_once_a_minute_and_a_platform_is_believed() {
        let suspensions = Suspensions::default();
        let (one, other) = (Plane::Cell, Plane::Hub);
        assert!(suspensions.admits(&one) && !suspensions.accepted(&one));
        assert!(
            suspensions.refused(&one) && !suspensions.refused(&one),
            "it is news once"
        );
        assert!(!suspensions.admits(&one) && suspensions.admits(&other));
        tokio::time::advance(PROBE_EVERY).await;
        assert!(suspensions.admits(&one), "one is tried");
        assert!(!suspensions.admits(&one), "and no other");
        assert!(suspensions.accepted(&one) && !suspensions.accepted(&one));
        assert!(suspensions.admits(&one));

        suspensions.declare(&one, true);
        assert!(!suspensions.refused(&one) && !suspensions.accepted(&one));
        tokio::time::advance(60 * PROBE_EVERY).await;
        assert!(!suspensions.admits(&one), "nothing is tried");
        suspensions.retain(|_| false, false);
        assert_eq!(
            suspensions.of(&one),
            Some(Suspension::Declared),
            "a new credential"
        );
        suspensions.declare(&one, false);
        assert_eq!(suspensions.of(&one), None);
        assert!(suspensions.refused(&one));
        suspensions.retain(|_| false, false);
        assert_eq!(suspensions.of(&one), None);
        suspensions.declare(&one, true);
        suspensions.retain(|_| false, true);
        assert_eq!(suspensions.of(&one), None, "a project that is gone");
    }
}
