//! Delivery policies that copies and companions have, or are about to be given to: they are made first, and stay.

use super::DeliveryPolicy;
use crate::{index::GatewayIndex, policy_spec};
use fedgate_engine::{
    diff::Digest,
    key::Key,
    random::{HashMap, HashSet},
};
use fedgate_kinds::{FederatedKind, PerKind};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The requested delivery policies, and those that are being deleted.
#[derive(Debug, Default)]
pub struct RequestedPolicies {
    by_hub: HashMap<Arc<str>, HashMap<Key, DeliveryPolicy>>,
    /// Hub namespaces and names of policies that are being deleted: nothing may be given to them.
    pub withdrawing: HashSet<(Arc<str>, Arc<str>)>,
}

impl RequestedPolicies {
    /// Records the policy that the object of a key in a hub namespace is to have. Returns true if it was to have another one.
    pub fn request(&mut self, hub: &Arc<str>, key: &Key, policy: Option<&DeliveryPolicy>) -> bool {
        let of = self.by_hub.entry(hub.clone()).or_default();
        let had = match policy {
            Some(policy) => of.insert(key.clone(), policy.clone()),
            None => of.remove(key),
        };
        if of.is_empty() {
            self.by_hub.remove(hub);
        }
        had.as_ref() != policy
    }

    /// The policies that are requested in a hub namespace.
    pub fn of(&self, hub: &str) -> BTreeSet<&DeliveryPolicy> {
        let requested = self.by_hub.get(hub).into_iter();
        requested.flat_map(HashMap::values).collect()
    }

    /// Drops the records of all but these hub namespaces.
    pub fn retain(&mut self, wanted: impl Fn(&Arc<str>) -> bool) {
        self.by_hub.retain(|hub, _| wanted(hub));
        self.withdrawing.retain(|(hub, _)| wanted(hub));
    }
}

impl GatewayIndex {
    /// The delivery policies of a hub namespace that are there and are not being deleted, each with the digest of its `spec`.
    pub fn delivery_policies(&self, hub: &str) -> BTreeMap<Arc<str>, Digest> {
        let leaving = &self.intents.requested.withdrawing;
        let there = self.hub.city_policies.in_namespace(hub);
        let there = there.filter(|(name, row)| {
            let leaves = || leaving.contains(&(Arc::from(hub), (*name).clone()));
            !row.deleting && (leaving.is_empty() || !leaves())
        });
        there
            .filter_map(|(name, row)| Some((name.clone(), row.digest.delivery_spec?)))
            .collect()
    }

    /// True if objects may be given to a policy: it is there, and its `spec` is right.
    pub fn is_policy_ready(&self, hub: &str, policy: &DeliveryPolicy) -> bool {
        let policies = self.delivery_policies(hub);
        policy.is_among(&policies, &self.kinds, hub)
    }
}

impl DeliveryPolicy {
    /// True if one of these policies of a hub namespace is this one, as it has to be.
    pub fn is_among(
        &self,
        policies: &BTreeMap<Arc<str>, Digest>,
        kinds: &PerKind<FederatedKind>,
        hub: &str,
    ) -> bool {
        let digest = policies.get(self.name(kinds).as_str());
        digest == Some(&policy_spec::digest(&self.spec(kinds, hub)))
    }
}
