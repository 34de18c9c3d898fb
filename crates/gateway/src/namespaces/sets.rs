//! City sets: the view of a hub Namespace on them, and the limit on the sets that a project may use.

use super::decide::{self, CitySets, Decision, Snapshot};
use crate::index::{GatewayIndex, rows::CitySet};
use fedgate_engine::{clock::Now, key::Key, store::table::Row};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// City sets from the view of a hub Namespace.
struct Known<'a> {
    index: &'a GatewayIndex,
    hub: &'a str,
    /// Maximum number of sets that the project of this Namespace may use.
    limit: usize,
}

impl CitySets for Known<'_> {
    fn policy(&self, name: &str) -> Option<&Row<CitySet>> {
        self.index.hub.city_sets.get("", name)
    }

    fn is_ending(&self, name: &str) -> bool {
        self.index.intents.ending_sets.contains(name)
    }

    fn has_room(&self, set: &str) -> bool {
        let Some(owner) = self.index.owners.get(self.hub) else {
            return false;
        };
        let label = owner.project.label();
        let row = self.index.hub.namespaces.get("", self.hub).map(|row| &row.digest);
        let own = row.filter(|of| of.cluster.as_deref() == Some(&*label));
        let own = own.and_then(|of| of.cities.as_ref());
        // Sets whose write is in flight count as well: reconciles of one project run concurrently.
        let others = self
            .index
            .intents
            .moving
            .iter()
            .filter(|(hub, _)| ***hub != *self.hub);
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

/// Decides from the index.
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

/// Records whether the project's limit keeps a hub Namespace from its set. Returns the keys of the deployments that
/// report it, if that has changed.
pub fn note_limit(index: &mut GatewayIndex, hub: &str, limited: bool) -> Vec<Key> {
    let Some(owner) = index.owners.get(hub) else {
        return Vec::new();
    };
    let entry = (owner.project.label().into(), hub.into());
    let news = if limited {
        index.intents.limited.insert(entry)
    } else {
        index.intents.limited.remove(&entry)
    };
    if news { index.source_keys(hub) } else { Vec::new() }
}

/// Removes the pending set of a hub Namespace whose write has returned. If the write was not `applied`, returns the
/// keys of the other Namespaces that may use the room; after an applied write, the event of the Namespace enqueues them.
pub fn arrived(index: &mut GatewayIndex, hub: &str, applied: bool) -> Vec<Key> {
    match index.intents.moving.remove(hub) {
        Some((label, _)) if !applied => {
            let mut waiting = index.limited_keys(&label, None);
            waiting.retain(|key| *key.name != *hub);
            waiting
        }
        _ => Vec::new(),
    }
}
