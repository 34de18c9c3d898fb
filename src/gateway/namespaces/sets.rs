//! Which city sets there are, and how many of them a project may use.

use super::decide::{self, CitySets, Decision, Snapshot};
use crate::gateway::index::{GatewayIndex, digest::CitySet};
use fedgate_engine::{clock::Now, key::Key, plane::table::Row};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The city sets as a hub Namespace sees them.
struct Known<'a> {
    index: &'a GatewayIndex,
    hub: &'a str,
    /// Most sets of its project.
    limit: usize,
}

impl CitySets for Known<'_> {
    fn policy(&self, name: &str) -> Option<&Row<CitySet>> {
        self.index.hub.city_sets.get("", name)
    }

    fn is_ending(&self, name: &str) -> bool {
        self.index.ending_sets.contains(name)
    }

    fn has_room(&self, set: &str) -> bool {
        let Some(owner) = self.index.owners.get(self.hub) else {
            return false;
        };
        let label = owner.project.label();
        let row = self.index.hub.namespaces.get("", self.hub).map(|row| &row.digest);
        let own = row.filter(|of| of.cluster.as_deref() == Some(&*label));
        let own = own.and_then(|of| of.cities.as_ref());
        // Those that are being sent count as well: turns of one project run side by side.
        let others = self.index.moving.iter().filter(|(hub, _)| ***hub != *self.hub);
        let moving: BTreeSet<&Arc<str>> = others
            .filter(|(_, (of, _))| **of == *label)
            .map(|(_, (_, set))| set)
            .collect();
        self.index
            .hub
            .secondary
            .may_sync(&label, own, &moving, set, self.limit)
    }
}

/// Decides on what the index shows.
pub fn decided(
    index: &GatewayIndex,
    snapshot: &Snapshot,
    linger: Duration,
    limit: usize,
    now: Now,
) -> Decision {
    let hub = &*snapshot.name;
    decide::decide(snapshot, &Known { index, hub, limit }, linger, now)
}

/// Notes whether a hub Namespace may not have its set for the sake of its project. Returns the deployments that say so, if
/// that is news.
pub fn note_limit(index: &mut GatewayIndex, hub: &str, limited: bool) -> Vec<Key> {
    let Some(owner) = index.owners.get(hub) else {
        return Vec::new();
    };
    let entry = (owner.project.label().into(), hub.into());
    let news = if limited {
        index.limited.insert(entry)
    } else {
        index.limited.remove(&entry)
    };
    if news { index.source_keys(hub) } else { Vec::new() }
}

/// What was sent to a hub Namespace was answered. Returns those that there is room for if it was not `applied`: if it was,
/// they hear of it by the Namespace.
pub fn arrived(index: &mut GatewayIndex, hub: &str, applied: bool) -> Vec<Key> {
    match index.moving.remove(hub) {
        Some((label, _)) if !applied => index.limited_keys(&label),
        _ => Vec::new(),
    }
}
