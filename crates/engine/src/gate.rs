//! A gate before each plane: while a plane does not answer, calls to it are held back but for a probe now and then,
//! so that they neither occupy workers nor storm a plane that comes back.

use crate::{circuit_breaker::CircuitBreaker, error::Category, key::Plane};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub struct Gates(CircuitBreaker<Plane>);

impl Gates {
    /// Lets a call through, or says how long to wait. While the plane's watches ask it as well, `scout` says whose turn
    /// it is.
    pub fn pass(
        &self,
        plane: &Plane,
        scout: impl FnOnce() -> Option<Result<(), Duration>>,
    ) -> Result<(), Duration> {
        if self.is_open(plane) {
            return Ok(());
        }
        scout().unwrap_or_else(|| self.0.admit(plane))
    }

    /// Whether calls are let through as they come.
    pub fn is_open(&self, plane: &Plane) -> bool {
        !self.0.is_held(plane)
    }

    /// A call has ended: `None` if it was answered as asked. Returns whether that opened the gate.
    pub fn ended(&self, plane: &Plane, failure: Option<Category>) -> bool {
        match failure {
            Some(Category::Network | Category::Timeout) => {
                self.0.failure(plane);
                false
            }
            // It was not waited for.
            Some(Category::NotLeader) => false,
            _ => self.0.success(plane),
        }
    }

    /// Forgets the planes that are not wanted any more; a call that ends late may have come after its plane has left.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.0.retain(wanted);
    }

    /// How many planes are looked after.
    #[cfg(any(test, feature = "testing"))]
    pub fn kept(&self) -> usize {
        self.0.kept()
    }

    /// The plane was heard of.
    pub fn open(&self, plane: &Plane) {
        self.0.success(plane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit_breaker::{FAILURES, PROBE_EVERY};

    #[tokio::test(start_paused = true)]
    async fn a_plane_that_does_not_answer_is_probed_and_opens_with_an_answer() {
        let gates = Gates::default();
        let plane = Plane::Hub;
        let pass = || gates.pass(&plane, || None);
        for _ in 0..FAILURES {
            assert_eq!(pass(), Ok(()));
            gates.ended(&plane, Some(Category::Timeout));
        }
        assert_eq!(pass(), Err(PROBE_EVERY));
        assert!(!gates.ended(&plane, Some(Category::NotLeader)));
        assert_eq!(pass(), Err(PROBE_EVERY), "it was not waited for");
        gates.open(&plane);
        assert_eq!(pass(), Ok(()), "its watch was answered");
        gates.ended(&plane, Some(Category::Timeout));
        gates.ended(&plane, Some(Category::Conflict));
        gates.ended(&plane, Some(Category::Network));
        gates.ended(&plane, Some(Category::Timeout));
        assert_eq!(pass(), Ok(()), "a refusal is an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_watches_ask_a_probe_is_one_of_theirs() {
        let (gates, plane) = (Gates::default(), Plane::Hub);
        let wait = Duration::from_secs(2);
        assert_eq!(gates.pass(&plane, || Some(Err(wait))), Ok(()), "it is open");
        for _ in 0..FAILURES {
            assert!(!gates.ended(&plane, Some(Category::Timeout)));
        }
        tokio::time::advance(PROBE_EVERY).await;
        assert_eq!(gates.pass(&plane, || Some(Err(wait))), Err(wait));
        assert_eq!(gates.pass(&plane, || Some(Ok(()))), Ok(()));
        assert!(gates.ended(&plane, None), "the watches are told");
        assert!(!gates.ended(&plane, None));
    }
}
