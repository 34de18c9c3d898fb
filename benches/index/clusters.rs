//! How long a change of a Cluster locks the index.

use super::fill::{Filled, Size};
use anyhow::Result;
use fedgate_api::keys;
use fedgate_engine::{plane::watch::WatchEvent, runtime::role::Role};
use fedgate_gateway::{Gateway, index::TableId};
use serde_json::json;
use std::time::{Duration, Instant};

/// Changes that are measured, of which the median counts.
const SAMPLES: usize = 21;

/// Cost of a change.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Median of the times under the lock.
    pub(crate) locked: Duration,
    /// Keys that one change enqueues.
    pub(crate) keys: usize,
}

/// Measures the Cluster of a city that joins and leaves, among so many deployments in three other cities.
pub(crate) fn measure(size: Size, city: &str) -> Result<Cost> {
    let mut index = Filled::new(size)?.index;
    let mut times = Vec::with_capacity(2 * SAMPLES);
    let mut keys = Vec::new();
    for n in 0..SAMPLES {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": city.to_lowercase(), "uid": format!("cell-{city}"), "resourceVersion": (10 + n).to_string(),
                "labels": {keys::CITY_CODE: city}}});
        let joins = WatchEvent::Apply(Box::new(serde_json::from_value(cluster.clone())?));
        let leaves = WatchEvent::Delete(Box::new(serde_json::from_value(cluster)?));
        for event in [leaves, joins] {
            keys.clear();
            let began = Instant::now();
            for change in index.hub_event(TableId::Clusters, event).changes {
                Gateway::triggers(&index, &change, &mut keys);
            }
            times.push(began.elapsed());
        }
    }
    times.sort_unstable();
    Ok(Cost {
        locked: times[times.len() / 2],
        keys: keys.len(),
    })
}
