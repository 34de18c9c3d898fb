//! Lanes that copies and companions are in or are about to be given to: their policies are made before, and stay.

use crate::index::GatewayIndex;
use crate::{lane::Lane, policy_spec};
use fedgate_engine::{
    diff::Digest,
    key::Key,
    random::{HashMap, HashSet},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The wanted lanes by hub namespace, and the policies that are being deleted.
#[derive(Debug, Default)]
pub struct Lanes {
    wanted: HashMap<Arc<str>, HashMap<Key, Lane>>,
    /// Hub namespaces and names of policies that are being deleted right now: nothing may be given to them.
    pub withdrawing: HashSet<(Arc<str>, Arc<str>)>,
}

impl Lanes {
    /// Records the lane that the object of a key in a hub namespace is to have; returns true if it had another one.
    pub fn want(&mut self, hub: &Arc<str>, key: &Key, lane: Option<&Lane>) -> bool {
        let of = self.wanted.entry(hub.clone()).or_default();
        let had = match lane {
            Some(lane) => of.insert(key.clone(), lane.clone()),
            None => of.remove(key),
        };
        if of.is_empty() {
            self.wanted.remove(hub);
        }
        had.as_ref() != lane
    }

    /// The lanes that are wanted in a hub namespace.
    pub fn wanted(&self, hub: &str) -> BTreeSet<&Lane> {
        self.wanted
            .get(hub)
            .into_iter()
            .flat_map(HashMap::values)
            .collect()
    }

    /// Drops the records of all but these hub namespaces.
    pub fn retain(&mut self, wanted: impl Fn(&Arc<str>) -> bool) {
        self.wanted.retain(|hub, _| wanted(hub));
        self.withdrawing.retain(|(hub, _)| wanted(hub));
    }
}

impl GatewayIndex {
    /// Lanes of a hub namespace whose policies exist and are not being deleted, each with the digest of its `spec`.
    pub fn lane_policies(&self, hub: &str) -> BTreeMap<Arc<str>, Digest> {
        let there = self.hub.city_policies.in_namespace(hub);
        let there = there.filter(|(_, row)| !row.deleting);
        let leaving = &self.intents.lanes.withdrawing;
        let stays =
            |name: &Arc<str>| leaving.is_empty() || !leaving.contains(&(Arc::from(hub), name.clone()));
        there
            .filter(|(name, _)| stays(name))
            .filter_map(|(name, row)| Some((name.clone(), row.digest.lane?)))
            .collect()
    }

    /// True if objects may be given to a lane: its policy is as it has to be.
    pub fn is_lane_open(&self, hub: &str, lane: &Lane) -> bool {
        let policies = self.lane_policies(hub);
        let digest = policies.get(lane.name(&self.kinds).as_str());
        digest == Some(&policy_spec::digest(&lane.spec(&self.kinds, hub)))
    }
}
