//! The objects that the hub needs before a copy may go there: the Namespace with its city, and the policies that deliver both.

use crate::index::{GatewayIndex, intents::Withdrawal};
use crate::route::CityRoute;
use fedgate_api::names::city_set_policy;
use fedgate_kinds::KindId;
use std::sync::Arc;

/// The first thing that a copy lacks on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// The Namespace, or the city among those that it reaches.
    Namespace,
    /// The policy of the cities that the Namespace is to reach: the hub is still deleting the one of an earlier use.
    CitySet,
    /// The policy of the city or location in the Namespace.
    Policy,
    /// The policy of the city or location: the hub is still deleting the one of an earlier use.
    LeavingPolicy,
}

impl GatewayIndex {
    /// True if the Namespace and the policy that a copy on this route needs are in place.
    pub fn is_ready(&self, kind: KindId, hub_namespace: &str, to: &CityRoute) -> bool {
        self.lacking(kind, hub_namespace, to).is_none()
    }

    /// The first thing that a copy on this route lacks; nothing if Namespace and policy are in place.
    pub fn lacking(&self, kind: KindId, hub_namespace: &str, to: &CityRoute) -> Option<Lacking> {
        let CityRoute { city, route } = to;
        let narrowed = (Arc::from(hub_namespace), Withdrawal::City(city.clone()));
        if self.intents.withdrawing.contains(&narrowed) {
            return Some(Lacking::LeavingPolicy);
        }
        let namespace = self.hub.namespaces.get("", hub_namespace);
        let set = namespace.filter(|row| !row.deleting);
        let set = set.map(|row| row.digest.cities.as_deref().unwrap_or_default());
        let policy = set.and_then(|set| self.hub.city_sets.get("", &city_set_policy(set)));
        let reaches = policy.is_some_and(|row| {
            let cities = row.digest.cities.as_ref();
            !row.deleting && cities.is_some_and(|cities| cities.contains(city))
        });
        if !reaches {
            let wanted = self.intents.deliveries.wanted(hub_namespace);
            let wanted = wanted.is_some_and(|set| self.is_leaving(&city_set_policy(set)));
            return Some(if wanted {
                Lacking::CitySet
            } else {
                Lacking::Namespace
            });
        }
        // An object that lives at one member goes by delivery policies, which follow the Namespace.
        if self.kinds[kind].is_exactly_one() {
            return None;
        }
        match self.policy_of(kind, hub_namespace, route) {
            Some((name, policy)) if policy.deleting || self.is_policy_withdrawn(hub_namespace, name) => {
                Some(Lacking::LeavingPolicy)
            }
            Some(_) => None,
            None => Some(Lacking::Policy),
        }
    }

    /// True if the hub is deleting the policy of this set.
    fn is_leaving(&self, policy: &str) -> bool {
        let row = self.hub.city_sets.get("", policy);
        row.is_some_and(|row| row.deleting) || self.intents.ending_sets.contains(policy)
    }
}
