//! Detects Pods that stay in deletion because their node no longer confirms their end (contract: cell.md §9).

use super::recovery::Observations;
use crate::index::digest::Pod;
use fedgate_engine::store::table::Row;
use std::time::Duration;
use tokio::time::Instant;

/// Time beyond its grace period after which the node of a Pod being deleted counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Grace period of a Pod that names none, in seconds.
const DEFAULT_GRACE: u64 = 30;

/// Identifies the deletion of a Pod, if it is being deleted.
pub fn event(pod: &Row<Pod>) -> Option<String> {
    pod.deleting.then(|| format!("deletion of {}", pod.uid))
}

/// Time that a Pod may still take to end, zero if its node counts as lost; `None` if the Pod is not being deleted.
pub fn ends_in(pod: &Row<Pod>, observations: &Observations, now: Instant) -> Option<Duration> {
    let event = event(pod)?;
    let grace = pod.digest.seen()["metadata"]["deletionGracePeriodSeconds"].as_u64();
    let patience = Duration::from_secs(grace.unwrap_or(DEFAULT_GRACE)).saturating_add(PATIENCE);
    Some(observations.left(&event, patience, now))
}
