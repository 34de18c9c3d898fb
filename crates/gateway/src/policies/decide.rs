//! Decides the policies of a hub namespace and the writes for them. Pure.

use crate::{
    index::{intents::Withdrawal, rows::CityPolicy},
    policy_spec,
    reason::WriteReason,
    route::Route,
};
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

/// The policies of a hub namespace by name.
pub type Policies = BTreeMap<Arc<str>, Row<CityPolicy>>;

/// Observed policies of a hub namespace, and those that it is to have.
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
    /// The wanted policies by name, each with its `spec`: those of routes in use, and the delivery policies that copies and
    /// companions of objects at one member are to be given to.
    pub wanted: BTreeMap<Arc<str>, Value>,
    /// Names of other policies that must stay: they claim a binding, or an object has or may have their route or label.
    pub needed: BTreeSet<Arc<str>>,
    /// True if absence is proven here: only then is a policy deleted.
    pub proven: bool,
    /// The existing policies.
    pub policies: Policies,
}

/// Decides: create wanted policies that are absent, restore those that differ, delete those of the gateway that nothing needs.
pub fn decide(s: &Snapshot) -> Plan<Prepared> {
    let mut plan = Plan::default();
    for (name, spec) in &s.wanted {
        let reason = match s.policies.get(name) {
            None if s.open => WriteReason::CreateCityPolicy,
            // A policy that is being deleted is created again on its deletion event.
            Some(row) if !row.deleting && row.digest.spec != Some(policy_spec::digest(spec)) => {
                WriteReason::RestoreCityPolicy
            }
            None | Some(_) => continue,
        };
        let body = json!({
            "apiVersion": s.resource.api_version,
            "kind": s.resource.kind,
            "metadata": {"name": &**name, "namespace": &*s.namespace},
            "spec": spec,
        });
        let exact = policy_spec::exact_spec();
        plan.effects
            .push(effect(s, name, Write::Apply { body, exact }, reason));
    }
    for (name, row) in &s.policies {
        let is_ours = row.digest.is_delivery || row.digest.is_ours(name, &s.kinds);
        if is_ours && !row.deleting && s.proven && !s.wanted.contains_key(name) && !s.needed.contains(name) {
            let write = Write::Delete {
                uid: row.uid.to_string(),
                resource_version: Some(row.resource_version()),
            };
            plan.effects
                .push(effect(s, name, write, WriteReason::DeleteCityPolicy));
        }
    }
    plan
}

fn effect(s: &Snapshot, name: &str, write: Write, reason: WriteReason) -> Effect {
    let target = Target::namespaced(Plane::Hub, &s.resource, &s.namespace, name);
    Effect::main(target, write, reason)
}

/// Name of the policy of a route that is among the `used` ones: the policy that selects the route keeps its name, and a new one gets
/// the plain name, unless the route has none or another route with the same plain name holds it.
pub fn name_for(
    policies: &Policies,
    (id, kind): (KindId, &FederatedKind),
    route: &Route,
    used: &BTreeSet<Route>,
) -> Arc<str> {
    let selecting = |row: &Row<CityPolicy>| row.digest.selects_route(id, route);
    if let Some((name, _)) = policies.iter().find(|(_, row)| selecting(row)) {
        return name.clone();
    }
    let plain = route.policy_name(kind).filter(|plain| {
        let twins = |other: &Route| other != route && other.policy_name(kind).as_ref() == Some(plain);
        let holder = policies
            .get(plain.as_str())
            .and_then(|row| row.digest.selects.as_ref());
        let is_held = holder.is_some_and(|(k, other)| *k == id && twins(other));
        // Of two new routes with the same plain name, the first in order gets it.
        !is_held && used.iter().find(|r| *r == route || twins(r)) == Some(route)
    });
    plain.unwrap_or_else(|| route.policy_name_hashed(kind)).into()
}

/// The policies that a plan deletes.
pub fn withdrawing(plan: &Plan<Prepared>) -> Vec<Withdrawal> {
    let deletions = plan
        .effects
        .iter()
        .filter(|e| matches!(e.write, Write::Delete { .. }));
    deletions
        .map(|e| Withdrawal::Policy(e.target.name.as_str().into()))
        .collect()
}
