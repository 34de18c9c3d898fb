//! Observes the policies of a hub namespace in a single read of the index.

use super::decide::Snapshot;
use crate::{
    index::{
        GatewayIndex, TableId,
        single_member::{DeliveryPolicy, Stage},
    },
    queries::{cities::policy_claims, lifecycle},
};
use fedgate_kinds::PerKind;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Names of the delivery policies on the labels of copies and companions of a hub namespace.
fn labelled(index: &GatewayIndex, hub: &str) -> BTreeSet<Arc<str>> {
    let hub_tables = &index.hub;
    let copies = hub_tables.copies.iter().flat_map(|table| table.in_namespace(hub));
    let copies = copies.filter_map(|(_, row)| row.digest.delivery_policy.clone());
    let companions = hub_tables.companions.iter();
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
    let used: PerKind<_> = index
        .kinds
        .ids()
        .map(|i| {
            if earlier || index.kinds[i].is_exactly_one() {
                BTreeSet::new()
            } else {
                index.routes_of_kind(i, hub)
            }
        })
        .collect();
    let policies: Vec<_> = index
        .hub
        .city_policies
        .in_namespace(hub)
        .map(|(name, row)| (name.clone(), row.clone()))
        .collect();
    // While the project is not engaged, the places that it announces are not visible: no policy is released then.
    let hidden = owner.is_none() && !lifecycle::proven_gone(index, hub);
    let needed = used
        .enumerate()
        .map(|(i, routes)| {
            let held = policies
                .iter()
                .filter_map(|(_, row)| row.digest.selects.as_ref())
                .filter(|(k, route)| *k == i && (hidden || policy_claims(index, hub, i, route)))
                .map(|(_, route)| route.clone());
            let copied = earlier.then(|| index.routes_of_copies(i, hub));
            routes
                .iter()
                .cloned()
                .chain(held)
                .chain(copied.into_iter().flatten())
                .collect()
        })
        .collect();
    // Without a project namespace, or with another one, only those delivery policies are needed by which copies and companions end.
    let is_last = |policy: &&DeliveryPolicy| match policy {
        DeliveryPolicy::At(_, stage, _) => *stage == Stage::Withdraw && index.has_pins_in(hub),
        DeliveryPolicy::Withdraw(_) | DeliveryPolicy::WithNone => true,
        DeliveryPolicy::Choose(..) | DeliveryPolicy::With(_) | DeliveryPolicy::TakeOver(_) => false,
    };
    let requested = index.intents.requested.of(hub).into_iter();
    let requested = requested.filter(|policy| owner.is_some() && !earlier || is_last(policy));
    let delivery: BTreeMap<String, Value> = requested
        .map(|policy| (policy.name(&index.kinds), policy.spec(&index.kinds, hub)))
        .collect();
    let mut needed_delivery = if index.has_pins() {
        labelled(index, hub)
    } else {
        BTreeSet::new()
    };
    needed_delivery.extend(delivery.keys().map(|name| Arc::from(name.as_str())));
    let claiming = policies
        .iter()
        .filter(|(name, row)| row.digest.delivery_spec.is_some() && index.hub.secondary.claims(hub, name));
    needed_delivery.extend(claiming.map(|(name, _)| name.clone()));
    if hidden {
        needed_delivery.extend(policies.iter().map(|(name, _)| name.clone()));
    }
    Some(Snapshot {
        delivery,
        needed_delivery,
        kinds: index.kinds.clone(),
        resource: index.resource(TableId::CityPolicies).clone(),
        namespace: hub.into(),
        open: lifecycle::is_open(index, hub),
        used,
        needed,
        proven: index.lacks_proof(hub).is_none(),
        policies,
    })
}
