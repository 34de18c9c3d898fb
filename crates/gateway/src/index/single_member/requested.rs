//! Delivery policies that copies and companions have, or are about to be given to: they are made first, and stay.

use super::DeliveryPolicy;
use crate::{
    index::{GatewayIndex, intents::Withdrawal},
    policy_spec,
};
use fedgate_engine::{diff::Digest, key::Key, random::HashMap};
use fedgate_kinds::{FederatedKind, PerKind};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The requested delivery policies by hub namespace and by the key of the object that is to have each.
#[derive(Debug, Default)]
pub struct RequestedPolicies(HashMap<Arc<str>, HashMap<Key, DeliveryPolicy>>);

impl RequestedPolicies {
    /// Records the policy that the object of a key in a hub namespace is to have. Returns true if it was to have another one.
    pub fn request(&mut self, hub: &Arc<str>, key: &Key, policy: Option<&DeliveryPolicy>) -> bool {
        let of = self.0.entry(hub.clone()).or_default();
        let had = match policy {
            Some(policy) => of.insert(key.clone(), policy.clone()),
            None => of.remove(key),
        };
        if of.is_empty() {
            self.0.remove(hub);
        }
        had.as_ref() != policy
    }

    /// The policies that are requested in a hub namespace.
    pub fn of(&self, hub: &str) -> BTreeSet<&DeliveryPolicy> {
        let requested = self.0.get(hub).into_iter();
        requested.flat_map(HashMap::values).collect()
    }

    /// Drops the records of all but these hub namespaces.
    pub fn retain(&mut self, wanted: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|hub, _| wanted(hub));
    }
}

impl GatewayIndex {
    /// True if the policy of this name is being deleted, although its row may not show that yet.
    pub fn is_policy_withdrawn(&self, hub: &str, name: &Arc<str>) -> bool {
        let withdrawal = || (Arc::from(hub), Withdrawal::Policy(name.clone()));
        !self.intents.withdrawing.is_empty() && self.intents.withdrawing.contains(&withdrawal())
    }

    /// The policies of a hub namespace that are there and are not being deleted, each with the digest of its `spec`.
    pub fn delivery_policies(&self, hub: &str) -> BTreeMap<Arc<str>, Digest> {
        let there = self.hub.city_policies.in_namespace(hub);
        let there = there.filter(|(name, row)| !row.deleting && !self.is_policy_withdrawn(hub, name));
        there
            .filter_map(|(name, row)| Some((name.clone(), row.digest.spec?)))
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
