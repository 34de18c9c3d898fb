//! Circuit breaker per plane: while a plane does not answer, calls to it fail at once except for a periodic probe.
//! Calls then neither occupy workers nor overload a plane that recovers.

use crate::{circuit_breaker::CircuitBreaker, error::Category, key::Plane};
use std::time::Duration;

/// The health of each plane, as its calls observe it.
#[derive(Debug, Default)]
pub struct Gates(CircuitBreaker<Plane>);

impl Gates {
    /// Admits a call, or returns the time to wait. While the plane's watches also probe it, `scout` decides whether
    /// this call is the next probe.
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

    /// True if all calls to the plane are admitted.
    pub fn is_open(&self, plane: &Plane) -> bool {
        !self.0.is_held(plane)
    }

    /// Records the end of a call; `failure` is `None` if it succeeded. Returns true if the call restored admission.
    pub fn ended(&self, plane: &Plane, failure: Option<Category>) -> bool {
        match failure {
            Some(Category::Network | Category::Timeout) => {
                self.0.failure(plane);
                false
            }
            // The call was cancelled without waiting for the response.
            Some(Category::NotLeader) => false,
            _ => self.0.success(plane),
        }
    }

    /// Drops the state of planes that are no longer engaged; a call that ends late may add an entry after its plane was
    /// removed.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.0.retain(wanted);
    }

    /// Number of planes with state.
    #[cfg(any(test, feature = "testing"))]
    pub fn kept(&self) -> usize {
        self.0.kept()
    }

    /// Admits all calls to the plane again, because it answered.
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
