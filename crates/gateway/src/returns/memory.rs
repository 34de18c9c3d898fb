//! State that is kept for a Secret which comes back.

use fedgate_engine::{
    clock::Now,
    reconcile::{quarantine::RETRY_AFTER, throttle::TokenBucket},
};
use std::time::Duration;
use tokio::time::Instant;

/// State of a Secret; see the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Limits the updates of the project's Secret.
    pub updates: TokenBucket,
    /// When the project refused the Secret, because it has another one of the name.
    pub refused: Option<Instant>,
}

impl Memory {
    /// How long the Secret is not sent again; `None` if it may be.
    pub fn refused_for(&self, now: Now) -> Option<Duration> {
        let left = RETRY_AFTER.saturating_sub(now.since(self.refused?));
        (!left.is_zero()).then_some(left)
    }
}
