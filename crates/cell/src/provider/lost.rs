//! Detects Pods that stay in deletion because their node no longer confirms their end (contract: cell.md §9).

use super::observe::Snapshot;
use fedgate_engine::{key::Key, random::HashMap};
use parking_lot::Mutex;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time beyond its grace period after which the node of a Pod being deleted counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Grace period of a Pod that names none, in seconds.
const DEFAULT_GRACE: u64 = 30;

/// First observation of each Pod's deletion, by this process's clock: the clock of a server or node may differ.
#[derive(Debug, Default)]
pub struct Going(Mutex<HashMap<Key, (Arc<str>, Instant)>>);

impl Going {
    /// Time since the deletion of the Instance's Pod was first observed; `None` if the Pod is not being deleted.
    pub fn see(&self, key: &Key, snapshot: &Snapshot, now: Instant) -> Option<Duration> {
        let mut all = self.0.lock();
        let Some(pod) = snapshot.pod.as_ref().filter(|pod| pod.deleting) else {
            all.remove(key);
            return None;
        };
        let uid = &pod.version.uid;
        let (_, since) = all
            .entry(key.clone())
            .and_modify(|seen| {
                if seen.0 != *uid {
                    *seen = (uid.clone(), now);
                }
            })
            .or_insert_with(|| (uid.clone(), now));
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
