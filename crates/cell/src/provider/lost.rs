//! Detects Pods that stay in deletion because their node no longer confirms their end (contract: cell.md §9).

use crate::index::digest::Pod;
use fedgate_engine::store::table::Row;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time beyond its grace period after which the node of a Pod being deleted counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Grace period of a Pod that names none, in seconds.
const DEFAULT_GRACE: u64 = 30;

/// UID of the Pod that is being deleted, and first observation of that by this process's clock: the clock of a server or node
/// may differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Going(Option<(Arc<str>, Instant)>);

impl Going {
    /// Time since the deletion of the Instance's Pod was first observed; `None` if the Pod is not being deleted.
    pub fn see(&mut self, pod: Option<&Row<Pod>>, now: Instant) -> Option<Duration> {
        let known = self.0.take();
        let uid = &pod.filter(|pod| pod.deleting)?.uid;
        let known = known.filter(|(known, _)| known == uid);
        let (_, since) = self.0.insert(known.unwrap_or_else(|| (uid.clone(), now)));
        Some(now.saturating_duration_since(*since))
    }
}

/// State of a Pod's termination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The Pod may take this much longer.
    Within(Duration),
    /// The node counts as lost.
    Lost,
}

/// State of a Pod's termination after `going` since the deletion was first observed.
pub fn ending(pod: &Value, going: Duration) -> Ending {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
    let patience = Duration::from_secs(grace.unwrap_or(DEFAULT_GRACE)).saturating_add(PATIENCE);
    let left = patience.checked_sub(going).filter(|left| !left.is_zero());
    left.map_or(Ending::Lost, Ending::Within)
}
