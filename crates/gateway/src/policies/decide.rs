//! Decides the policies of a hub namespace's cities and locations, and the writes for them. Pure.

use crate::reason::WriteReason;
use crate::{index::rows::CityPolicy, policy_spec, route::Route};
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Plan, Prepared, Target, Write},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use kube::core::ApiResource;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Observed policies of a hub namespace and the routes that need a policy.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The federated kinds.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// The resource of the policies.
    pub resource: ApiResource,
    /// The hub namespace.
    pub namespace: Arc<str>,
    /// True if the Namespace exists and accepts objects.
    pub open: bool,
    /// Routes in use, a set for each kind: only these get a policy.
    pub used: PerKind<BTreeSet<Route>>,
    /// Routes whose policy must stay: those in use, those whose policy still claims a binding, and all while the
    /// project's announcements are not visible.
    pub needed: PerKind<BTreeSet<Route>>,
    /// Names of the delivery policies that copies and companions are to be given to, each with its `spec`.
    pub delivery: BTreeMap<String, Value>,
    /// Names of the delivery policies that must stay: the requested ones, and those of labels.
    pub needed_delivery: BTreeSet<Arc<str>>,
    /// True if absence is proven here: only then is a policy deleted.
    pub proven: bool,
    /// The existing policies.
    pub policies: Vec<(Arc<str>, Row<CityPolicy>)>,
}

/// Decides: create needed policies that are absent, restore those that differ, delete those that no route needs.
pub fn decide(s: &Snapshot) -> Plan<Prepared> {
    let mut plan = Plan::default();
    for (id, kind) in s.kinds.enumerate() {
        for route in &s.used[id] {
            plan.effects.extend(ensure(s, id, kind, route));
        }
    }
    ensure_delivery(s, &mut plan);
    for (name, row) in &s.policies {
        let Some((id, route)) = &row.digest.selects else {
            continue;
        };
        let restored = plan.effects.iter().any(|e| e.target.name == **name);
        if row.digest.is_ours(name, &s.kinds)
            && !row.deleting
            && !restored
            && s.proven
            && !s.needed[*id].contains(route)
        {
            plan.effects.push(delete(s, name, row));
        }
    }
    plan
}

/// Creates and restores delivery policies, and deletes those that no object has.
fn ensure_delivery(s: &Snapshot, plan: &mut Plan<Prepared>) {
    for (name, spec) in &s.delivery {
        let had = s.policies.iter().find(|(had, _)| **had == **name);
        let reason = match had {
            None if s.open => WriteReason::CreateCityPolicy,
            Some((_, row))
                if !row.deleting && row.digest.delivery_spec != Some(policy_spec::digest(spec)) =>
            {
                WriteReason::RestoreCityPolicy
            }
            None | Some(_) => continue,
        };
        plan.effects.push(apply_spec(s, name, spec, reason));
    }
    for (name, row) in &s.policies {
        let leaves = row.digest.delivery_spec.is_some() && !s.needed_delivery.contains(name);
        if leaves && !row.deleting && s.proven {
            plan.effects.push(delete(s, name, row));
        }
    }
}

fn delete(s: &Snapshot, name: &str, row: &Row<CityPolicy>) -> Effect {
    let write = Write::Delete {
        uid: row.uid.to_string(),
        resource_version: Some(row.resource_version()),
    };
    effect(s, name, write, WriteReason::DeleteCityPolicy)
}

fn effect(s: &Snapshot, name: &str, write: Write, reason: WriteReason) -> Effect {
    let target = Target::namespaced(Plane::Hub, &s.resource, &s.namespace, name);
    Effect::main(target, write, reason)
}

fn ensure(s: &Snapshot, id: KindId, kind: &FederatedKind, route: &Route) -> Option<Effect> {
    let selecting = s.policies.iter().find(|(_, row)| {
        row.digest
            .selects
            .as_ref()
            .is_some_and(|(k, r)| *k == id && r == route)
    });
    if let Some((name, row)) = selecting {
        // A policy that is being deleted is created again on its deletion event.
        return (!row.deleting && !row.digest.exact)
            .then(|| apply(s, kind, route, name, WriteReason::RestoreCityPolicy));
    }
    let name = name_for(s, id, kind, route);
    match s.policies.iter().find(|(n, _)| **n == *name) {
        Some((_, row)) if row.deleting => None,
        Some(_) => Some(apply(s, kind, route, &name, WriteReason::RestoreCityPolicy)),
        None if s.open => Some(apply(s, kind, route, &name, WriteReason::CreateCityPolicy)),
        None => None,
    }
}

/// Returns the plain name, unless the route has none or another route with the same plain name holds it.
fn name_for(s: &Snapshot, id: KindId, kind: &FederatedKind, route: &Route) -> String {
    let hashed = route.policy_name_hashed(kind);
    let Some(plain) = route.policy_name(kind) else {
        return hashed;
    };
    let twins = |other: &Route| other != route && other.policy_name(kind).as_ref() == Some(&plain);
    let held = s
        .policies
        .iter()
        .find(|(name, _)| **name == *plain)
        .and_then(|(_, row)| row.digest.selects.as_ref())
        .is_some_and(|(k, other)| *k == id && twins(other));
    // Of two new routes with the same plain name, the first in order gets it.
    let first = s.used[id].iter().find(|r| *r == route || twins(r));
    if held || first != Some(route) {
        hashed
    } else {
        plain
    }
}

fn apply(s: &Snapshot, kind: &FederatedKind, route: &Route, name: &str, reason: WriteReason) -> Effect {
    let spec = policy_spec::route_spec(kind, &s.namespace, route);
    apply_spec(s, name, &spec, reason)
}

fn apply_spec(s: &Snapshot, name: &str, spec: &Value, reason: WriteReason) -> Effect {
    let body = json!({
        "apiVersion": s.resource.api_version,
        "kind": s.resource.kind,
        "metadata": {"name": name, "namespace": &*s.namespace},
        "spec": spec,
    });
    let exact = policy_spec::exact_spec();
    effect(s, name, Write::Apply { body, exact }, reason)
}

/// The policies that the plan deletes.
fn deleted<'a>(
    s: &'a Snapshot,
    plan: &'a Plan<Prepared>,
) -> impl Iterator<Item = &'a (Arc<str>, Row<CityPolicy>)> {
    plan.effects
        .iter()
        .filter(|e| matches!(e.write, Write::Delete { .. }))
        .filter_map(|e| s.policies.iter().find(|(name, _)| **name == *e.target.name))
}

/// The names of the delivery policies that the plan deletes, each with the hub namespace.
pub fn withdrawn_delivery(s: &Snapshot, plan: &Plan<Prepared>) -> Vec<(Arc<str>, Arc<str>)> {
    deleted(s, plan)
        .filter(|(_, row)| row.digest.delivery_spec.is_some())
        .map(|(name, _)| (s.namespace.clone(), name.clone()))
        .collect()
}

/// The routes whose policy the plan deletes, each with the hub namespace.
pub fn withdrawing(s: &Snapshot, plan: &Plan<Prepared>) -> Vec<(Arc<str>, Route)> {
    deleted(s, plan)
        .filter_map(|(_, row)| row.digest.selects.clone())
        .map(|(_, route)| (s.namespace.clone(), route))
        .collect()
}
