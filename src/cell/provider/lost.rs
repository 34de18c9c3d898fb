//! Pods that were told to end and do not: their node no longer confirms it (contract: cell.md §9).

use super::observe::Snapshot;
use crate::engine::{chance::HashMap, key::Key};
use parking_lot::Mutex;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A Pod has so long beyond its grace before its node counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// The grace of a Pod that names none.
const DEFAULT_GRACE: u64 = 30;

/// Since when Pods are seen going, on our own clock: the server's or a node's may differ.
#[derive(Debug, Default)]
pub struct Going(Mutex<HashMap<Key, (Arc<str>, Instant)>>);

impl Going {
    /// How long the Instance's Pod has been going; `None` if it is not.
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

/// A Pod that was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It may take so long yet.
    Within(Duration),
    /// Its node counts as lost.
    Lost,
}

/// How a Pod ends that has been going for so long.
pub fn ending(pod: &Value, going: Duration) -> Ending {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
    let patience = Duration::from_secs(grace.unwrap_or(DEFAULT_GRACE)).saturating_add(PATIENCE);
    let left = patience.checked_sub(going).filter(|left| !left.is_zero());
    left.map_or(Ending::Lost, Ending::Within)
}
