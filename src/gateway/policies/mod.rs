//! City policies: in each hub namespace one `PropagationPolicy` for each city in use, and none else
//! (contract: federation.md §3.6). One decision at a time for a namespace.

use super::{
    context::{PASSES, Turn},
    world::{World, digest::CityPolicy, shape},
};
use crate::{
    api::names::{self, CityCode},
    engine::{
        error::Failure,
        key::Plane,
        plan::{Effect, Endpoint, Next, Plan, Prepared, Target, Write},
    },
    kinds::FederatedKind,
    plane::table::Row,
};
use kube::core::ApiResource;
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// What is known of a hub namespace's policies and of the cities that need one.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The federated kinds.
    pub kinds: Arc<Vec<FederatedKind>>,
    /// The resource of the policies.
    pub resource: ApiResource,
    /// The hub namespace.
    pub namespace: Arc<str>,
    /// Whether the Namespace is there to take objects.
    pub open: bool,
    /// Cities in use, a set a kind: only these get a policy.
    pub used: Vec<BTreeSet<CityCode>>,
    /// Cities that need their policy to stay: those in use, and those whose policy still claims a binding.
    pub needed: Vec<BTreeSet<CityCode>>,
    /// The policies there are.
    pub policies: Vec<(Arc<str>, Row<CityPolicy>)>,
}

/// Whether a city's policy must stay: the city is in use, or a binding is claimed by the policy.
pub fn needed(world: &World, hub: &str, kind: usize, city: &CityCode) -> bool {
    world.cities_of_kind(kind, hub).contains(city) || claims(world, hub, kind, city)
}

fn claims(world: &World, hub: &str, kind: usize, city: &CityCode) -> bool {
    world.city_policy(kind, hub, city).is_some_and(|(name, _)| {
        world
            .hub
            .bindings
            .in_namespace(hub)
            .any(|(_, b)| b.digest.policy.as_ref() == Some(name))
    })
}

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(world: &World, hub: &str) -> Option<Snapshot> {
    let tie = world.ties.get(hub);
    if !world.hub_ready() || tie.is_some_and(|tie| !world.project_ready(&tie.project)) {
        return None;
    }
    let used: Vec<_> = (0..world.kinds.len())
        .map(|i| world.cities_of_kind(i, hub))
        .collect();
    let policies: Vec<_> = world
        .hub
        .city_policies
        .in_namespace(hub)
        .map(|(name, row)| (name.clone(), row.clone()))
        .collect();
    // Without a tie nothing is made; what is there goes with its last copy, decided by `garbage`.
    let needed = used
        .iter()
        .enumerate()
        .map(|(i, cities)| {
            let held = policies
                .iter()
                .filter_map(|(_, row)| row.digest.selects.as_ref())
                .filter(|(k, city)| *k == i && claims(world, hub, i, city))
                .map(|(_, city)| city.clone());
            cities.iter().cloned().chain(held).collect()
        })
        .collect();
    Some(Snapshot {
        kinds: world.kinds.clone(),
        resource: world.resources.city_policies.clone(),
        namespace: hub.into(),
        open: world.hub.namespaces.get("", hub).is_some_and(|n| !n.deleting),
        used,
        needed,
        policies,
    })
}

/// Decides: create what is needed and absent, restore what differs, delete what nobody needs.
pub fn decide(s: &Snapshot) -> Plan<Prepared> {
    let mut plan = Plan::default();
    for (index, kind) in s.kinds.iter().enumerate() {
        for city in &s.used[index] {
            plan.effects.extend(ensure(s, index, kind, city));
        }
    }
    for (name, row) in &s.policies {
        let Some((index, city)) = &row.digest.selects else {
            continue;
        };
        let restored = plan.effects.iter().any(|e| e.target.name == **name);
        let ours = name.starts_with(&s.kinds[*index].placement.policy_prefix);
        if ours && !row.deleting && !restored && !s.needed[*index].contains(city) {
            let write = Write::Delete {
                uid: row.uid.to_string(),
                resource_version: Some(row.resource_version()),
            };
            plan.effects.push(effect(s, name, write, "delete_city_policy"));
        }
    }
    plan
}

fn effect(s: &Snapshot, name: &str, write: Write, reason: &'static str) -> Effect {
    let target = Target::namespaced(Plane::Hub, &s.resource, &s.namespace, name);
    Effect {
        target,
        endpoint: Endpoint::Main,
        write,
        reason,
    }
}

fn ensure(s: &Snapshot, index: usize, kind: &FederatedKind, city: &CityCode) -> Option<Effect> {
    let selecting = s.policies.iter().find(|(_, row)| {
        row.digest
            .selects
            .as_ref()
            .is_some_and(|(k, c)| *k == index && c == city)
    });
    if let Some((name, row)) = selecting {
        // One that is being deleted is made anew by the event of its end.
        return (!row.deleting && !row.digest.exact)
            .then(|| apply(s, kind, city, name, "restore_city_policy"));
    }
    let name = name_for(s, index, kind, city);
    match s.policies.iter().find(|(n, _)| **n == *name) {
        Some((_, row)) if row.deleting => None,
        Some(_) => Some(apply(s, kind, city, &name, "restore_city_policy")),
        None if s.open => Some(apply(s, kind, city, &name, "create_city_policy")),
        None => None,
    }
}

/// The plain name unless it is none, or another code that writes itself the same way has it.
fn name_for(s: &Snapshot, index: usize, kind: &FederatedKind, city: &CityCode) -> String {
    let prefix = &kind.placement.policy_prefix;
    let hashed = names::policy_name_hashed(prefix, city);
    let Some(plain) = names::policy_name(prefix, city) else {
        return hashed;
    };
    let twins =
        |other: &CityCode| other != city && names::policy_name(prefix, other).as_ref() == Some(&plain);
    let held = s
        .policies
        .iter()
        .find(|(name, _)| **name == *plain)
        .and_then(|(_, row)| row.digest.selects.as_ref())
        .is_some_and(|(k, other)| *k == index && twins(other));
    // Of two new codes with one plain name the first in order takes it.
    let first = s.used[index].iter().find(|c| *c == city || twins(c));
    if held || first != Some(city) {
        hashed
    } else {
        plain
    }
}

fn apply(s: &Snapshot, kind: &FederatedKind, city: &CityCode, name: &str, reason: &'static str) -> Effect {
    let body = json!({
        "apiVersion": s.resource.api_version,
        "kind": s.resource.kind,
        "metadata": {"name": name, "namespace": &*s.namespace},
        "spec": shape::city_policy_spec(kind, &s.namespace, city),
    });
    effect(
        s,
        name,
        Write::Apply {
            body,
            exact: shape::exact_spec(),
        },
        reason,
    )
}

/// One turn of a hub namespace's policies.
pub async fn reconcile(ctx: &Turn<'_>, hub: &str) -> Result<Next, Failure> {
    for _ in 0..PASSES {
        let (plan, condemned) = {
            let mut world = ctx.world.lock();
            let Some(snapshot) = observe(&world, hub) else {
                return Ok(Next::OnEvent);
            };
            let plan = decide(&snapshot);
            let condemned = condemned(&snapshot, &plan);
            // From here on nobody may rely on these policies; see `World::city_ready`.
            world.condemned.extend(condemned.iter().cloned());
            (plan, condemned)
        };
        if plan.is_idle() {
            return Ok(plan.next);
        }
        let reasons: Vec<_> = plan
            .effects
            .iter()
            .map(|e| format!("{} {}", e.reason, e.target.name))
            .collect();
        let result = ctx.perform(plan).await;
        release(ctx, hub, &condemned);
        result?;
        tracing::info!(
            plane = "hub",
            controller = "policies",
            namespace = hub,
            changes = reasons.join(", "),
            "city policies changed"
        );
    }
    Ok(Next::OnEvent)
}

fn condemned(s: &Snapshot, plan: &Plan<Prepared>) -> Vec<(Arc<str>, CityCode)> {
    plan.effects
        .iter()
        .filter(|e| matches!(e.write, Write::Delete { .. }))
        .filter_map(|e| s.policies.iter().find(|(name, _)| **name == *e.target.name))
        .filter_map(|(_, row)| row.digest.selects.clone())
        .map(|(_, city)| (s.namespace.clone(), city))
        .collect()
}

/// Lifts the ban, and lets those look again that met it.
fn release(ctx: &Turn<'_>, hub: &str, condemned: &[(Arc<str>, CityCode)]) {
    if condemned.is_empty() {
        return;
    }
    let mut world = ctx.world.lock();
    for entry in condemned {
        world.condemned.remove(entry);
    }
    let keys = world.source_keys(hub);
    drop(world);
    ctx.queue.extend(keys, crate::engine::queue::Urgency::Fresh);
}

#[cfg(test)]
mod tests;
