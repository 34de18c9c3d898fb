//! Observes the policies of a hub namespace in a single read of the index.

use super::decide::{Policies, Snapshot, name_for};
use crate::{
    index::{
        GatewayIndex, TableId,
        single_member::{DeliveryPolicy, Stage},
    },
    policy_spec,
    queries::lifecycle,
    route::Route,
};
use fedgate_kinds::PerKind;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Names of the delivery policies on the labels of copies and companions of a hub namespace.
fn labelled(index: &GatewayIndex, hub: &str) -> BTreeSet<Arc<str>> {
    let copies = index.hub.copies.iter().flat_map(|table| table.in_namespace(hub));
    let copies = copies.filter_map(|(_, row)| row.digest.delivery_policy.clone());
    let companions = index.hub.companions.iter();
    let companions = companions.flat_map(|table| table.in_namespace(hub));
    copies
        .chain(companions.filter_map(|(_, row)| row.digest.delivery_policy.clone()))
        .collect()
}

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(index: &GatewayIndex, hub: &str) -> Option<Snapshot> {
    let owner = index.owners.get(hub);
    if !index.hub_ready() || owner.is_some_and(|owner| !index.project_ready(&owner.project)) {
        return None;
    }
    // Policies of an earlier project are deleted after its copies; no policy of the new project is created before that.
    let earlier = owner.is_some_and(|owner| lifecycle::earlier_life(index, &owner.project, hub));
    let used: PerKind<BTreeSet<Route>> = index
        .kinds
        .ids()
        .map(|i| {
            if earlier || index.kinds[i].is_exactly_one() {
                BTreeSet::new()
            } else {
                let all = index.destinations_of_kind(i, hub);
                all.into_iter().map(|to| to.route).collect()
            }
        })
        .collect();
    let policies = index.hub.city_policies.in_namespace(hub);
    let policies: Policies = policies.map(|(name, row)| (name.clone(), row.clone())).collect();
    let mut wanted: BTreeMap<Arc<str>, Value> = BTreeMap::new();
    for (id, routes) in used.enumerate() {
        let kind = &index.kinds[id];
        wanted.extend(routes.iter().map(|route| {
            let name = name_for(&policies, (id, kind), route, routes);
            (name, policy_spec::route_spec(kind, hub, route))
        }));
    }
    // Without a project namespace, or with another one, only those delivery policies are needed by which copies and companions end.
    let is_last = |policy: &DeliveryPolicy| match policy {
        DeliveryPolicy::At(_, stage, _) => *stage == Stage::Withdraw && index.has_pins_in(hub),
        DeliveryPolicy::Withdraw(_) | DeliveryPolicy::WithNone => true,
        DeliveryPolicy::Choose(..) | DeliveryPolicy::With(_) | DeliveryPolicy::TakeOver(_) => false,
    };
    let requested = index.intents.requested.of(hub).into_iter();
    let requested = requested.filter(|policy| owner.is_some() && !earlier || is_last(policy));
    wanted.extend(requested.map(|policy| {
        let name = policy.name(&index.kinds).into();
        (name, policy.spec(&index.kinds, hub))
    }));
    // While the project is not engaged, the places that it announces are not visible: no policy is released then.
    let hidden = owner.is_none() && !lifecycle::proven_gone(index, hub);
    let mut needed = if index.has_pins() {
        labelled(index, hub)
    } else {
        BTreeSet::new()
    };
    let other = policies.iter().filter(|(name, row)| {
        let in_use = row.digest.selects.as_ref().is_some_and(|(kind, route)| {
            let mut copied = index.destinations_of_copies(*kind, hub);
            used[*kind].contains(route) || earlier && copied.any(|to| to.route == *route)
        });
        hidden || in_use || index.hub.secondary.claims(hub, name)
    });
    needed.extend(other.map(|(name, _)| name.clone()));
    Some(Snapshot {
        kinds: index.kinds.clone(),
        resource: index.resource(TableId::CityPolicies).clone(),
        namespace: hub.into(),
        open: lifecycle::is_open(index, hub),
        proven: index.lacks_proof(hub).is_none(),
        wanted,
        needed,
        policies,
    })
}
