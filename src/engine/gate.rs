//! A gate before each plane: while a plane does not answer, calls to it are held back but for a probe now and then,
//! so that they neither occupy workers nor storm a plane that comes back.

use crate::engine::chance::HashMap;
use crate::engine::{error::Category, key::Plane};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A plane that left so many calls in a row unanswered is held to be away.
const UNANSWERED: u32 = 3;
/// While a plane is away, one call in this time asks whether it is back.
pub const PROBE_EVERY: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug, Default)]
pub struct Gates(Mutex<HashMap<Plane, Gate>>);

#[derive(Debug)]
struct Gate {
    unanswered: u32,
    next_probe: Instant,
}

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
        if let Some(turn) = scout() {
            return turn;
        }
        let mut gates = self.0.lock();
        let Some(gate) = gates.get_mut(plane).filter(|g| g.unanswered >= UNANSWERED) else {
            return Ok(());
        };
        let now = Instant::now();
        if gate.next_probe > now {
            return Err(gate.next_probe - now);
        }
        gate.next_probe = now + PROBE_EVERY;
        Ok(())
    }

    /// Whether calls are let through as they come.
    pub fn is_open(&self, plane: &Plane) -> bool {
        let gates = self.0.lock();
        gates.get(plane).is_none_or(|gate| gate.unanswered < UNANSWERED)
    }

    /// A call has ended: `None` if it was answered as asked. Returns whether that opened the gate.
    pub fn ended(&self, plane: &Plane, failure: Option<Category>) -> bool {
        let was_open = self.is_open(plane);
        match failure {
            Some(Category::Network | Category::Timeout) => {
                let mut gates = self.0.lock();
                let gate = gates.entry(plane.clone()).or_insert_with(|| Gate {
                    unanswered: 0,
                    next_probe: Instant::now(),
                });
                gate.unanswered += 1;
                gate.next_probe = Instant::now() + PROBE_EVERY;
            }
            // It was not waited for.
            Some(Category::NotLeader) => {}
            _ => self.open(plane),
        }
        !was_open && self.is_open(plane)
    }

    /// Forgets the planes that are not wanted any more; a call that ends late may have come after its plane has left.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.0.lock().retain(|plane, _| wanted(plane));
    }

    /// How many planes are looked after.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.0.lock().len()
    }

    /// The plane was heard of.
    pub fn open(&self, plane: &Plane) {
        self.0.lock().remove(plane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_plane_that_does_not_answer_is_probed_and_opens_with_an_answer() {
        let gates = Gates::default();
        let plane = Plane::Hub;
        let pass = || gates.pass(&plane, || None);
        for _ in 0..UNANSWERED {
            assert_eq!(pass(), Ok(()));
            gates.ended(&plane, Some(Category::Timeout));
        }
        assert_eq!(pass(), Err(PROBE_EVERY));
        tokio::time::advance(PROBE_EVERY).await;
        assert_eq!(pass(), Ok(()), "the probe");
        assert_eq!(pass(), Err(PROBE_EVERY), "one at a time");
        gates.ended(&plane, Some(Category::Network));
        assert_eq!(pass(), Err(PROBE_EVERY));
        gates.open(&plane);
        assert_eq!(pass(), Ok(()), "its watch was answered");
        gates.ended(&plane, Some(Category::Timeout));
        gates.ended(&plane, Some(Category::Conflict));
        gates.ended(&plane, Some(Category::Timeout));
        gates.ended(&plane, Some(Category::Timeout));
        assert_eq!(pass(), Ok(()), "a refusal is an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_watches_ask_a_probe_is_one_of_theirs() {
        let (gates, plane) = (Gates::default(), Plane::Hub);
        let wait = Duration::from_secs(2);
        assert_eq!(gates.pass(&plane, || Some(Err(wait))), Ok(()), "it is open");
        for _ in 0..UNANSWERED {
            assert!(!gates.ended(&plane, Some(Category::Timeout)));
        }
        tokio::time::advance(PROBE_EVERY).await;
        assert_eq!(gates.pass(&plane, || Some(Err(wait))), Err(wait));
        assert_eq!(gates.pass(&plane, || Some(Ok(()))), Ok(()));
        assert!(gates.ended(&plane, None), "the watches are told");
        assert!(!gates.ended(&plane, None));
    }
}
