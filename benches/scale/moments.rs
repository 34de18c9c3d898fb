//! When things happened, from the changes that the planes kept.

use super::acts::text;
use fedgate_api::keys;
use fedgate_simulator::{Change, DIRECT};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

fn is_deployment(change: &Change) -> bool {
    let object = change.after.as_ref();
    object.is_some_and(|object| object["kind"] == "WorkloadDeployment")
}

/// From each deployment of a tenant until its copy, by the deployments' names; names are unique in a run.
pub(crate) fn creations<'a>(changes: &'a [Change], hub: &str) -> HashMap<&'a str, Duration> {
    let mut begun: HashMap<&str, Instant> = HashMap::new();
    let mut took = HashMap::new();
    for change in changes.iter().filter(|change| is_deployment(change)) {
        let (None, Some(object)) = (&change.before, &change.after) else {
            continue;
        };
        let name = text(object, "name");
        if &*change.plane != hub {
            begun.insert(name, change.at);
        } else if let Some(begin) = begun.get(name) {
            took.insert(name, change.at - *begin);
        }
    }
    took
}

/// From each spec that a tenant changed until the copy has it; each deployment is changed once.
pub(crate) fn edits(changes: &[Change], hub: &str) -> (usize, Vec<Duration>) {
    let mut begun: HashMap<&str, (Instant, i64)> = HashMap::new();
    let mut took = HashMap::new();
    for change in changes.iter().filter(|change| is_deployment(change)) {
        let Some(object) = &change.after else { continue };
        let name = text(object, "name");
        let meta = &object["metadata"];
        if &*change.plane == hub {
            let carried = meta["annotations"][keys::SOURCE_GENERATION].as_str();
            let carried: i64 = carried.and_then(|text| text.parse().ok()).unwrap_or(0);
            if let Some((begin, _)) = begun.get(name).filter(|(_, wanted)| carried >= *wanted) {
                took.entry(name).or_insert(change.at - *begin);
            }
        } else if &*change.user == DIRECT {
            let generation = meta["generation"].as_i64().unwrap_or(0);
            begun.insert(name, (change.at, generation));
        }
    }
    (begun.len(), took.into_values().collect())
}
