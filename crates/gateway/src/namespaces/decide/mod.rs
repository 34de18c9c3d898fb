//! Decides the cities of a hub Namespace and the writes for them. Pure.

use crate::reason::WriteReason;
use crate::{
    index::{
        Resources, TableId,
        rows::{CitySet, HubNamespaceDigest},
    },
    policy_spec,
};
use fedgate_api::{
    keys,
    names::{CityCode, city_set, city_set_policy, plain_set, preserving_set},
};
use fedgate_engine::{
    clock::Now,
    key::Plane,
    plan::{Effect, ExactFields, Plan, Prepared, Requeue, Target, Write},
    store::table::Row,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Observed state of a hub Namespace whose project namespace is live.
// Each flag is an independent fact; an enum would not express them better.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Name of the hub Namespace.
    pub name: Arc<str>,
    /// True if objects in it live at one member: what members have is preserved then, and no city is removed.
    pub preserves: bool,
    /// Label of Karmada Clusters that holds the city.
    pub label: String,
    /// Foreign resources.
    pub resources: Arc<Resources>,
    /// Identity: the project's label value.
    pub cluster: String,
    /// Identity: the project namespace.
    pub namespace: Arc<str>,
    /// Identity: the project's UID.
    pub project_uid: Arc<str>,
    /// True if an operator has reassigned the Namespace to this project and its labels do not name the project yet.
    pub reassigned: bool,
    /// True if the Namespace still holds objects of an earlier project of the same name.
    pub earlier_life: bool,
    /// Cities of announced deployments, copies and write-backs.
    pub in_use: BTreeSet<CityCode>,
    /// True if a write-back has no city label, or a plane may hold objects that the index does not show: no city may
    /// then be removed.
    pub unlabelled: bool,
    /// Cities that the Namespace has now; `None` if its set's name does not list them and the policy of the set is
    /// gone.
    pub current: Option<BTreeSet<CityCode>>,
    /// Times at which cities went out of use.
    pub left: BTreeMap<CityCode, Instant>,
    /// The Namespace.
    pub row: Option<Row<HubNamespaceDigest>>,
}

/// Observed city sets.
pub trait CitySets {
    /// The policy of this name.
    fn policy(&self, name: &str) -> Option<&Row<CitySet>>;
    /// True if the policy of this name is being deleted although the index does not show it yet.
    fn is_ending(&self, name: &str) -> bool;
    /// True if the project may use this set on this Namespace; the set counts against the project's limit.
    fn has_room(&self, set: &str) -> bool;
}

/// The decision.
// Each flag is an independent fact; an enum would not express them better.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Writes and requeue.
    pub plan: Plan<Prepared>,
    /// Times at which cities went out of use, to be remembered.
    pub left: BTreeMap<CityCode, Instant>,
    /// The set that the plan puts on the Namespace, if the plan changes it.
    pub set: Option<Arc<str>>,
    /// The set that the Namespace needs, whether the plan can give it that set now or not.
    pub wanted: Option<Arc<str>>,
    /// True if the Namespace cannot have that set because its project uses the maximum number of sets.
    pub limited: bool,
    /// Cities that the plan removes.
    pub narrowed: BTreeSet<CityCode>,
    /// True if a client had edited the labels that name the owner of the Namespace.
    pub identity_restored: bool,
    /// True if the Namespace is a peer's and names another owner: the controller then does not change it.
    pub foreign: bool,
    /// True if the name of the set belongs to another set, whose policy exists: the Namespace is then not moved to it.
    pub collision: bool,
}

impl Decision {
    fn wait(left: BTreeMap<CityCode, Instant>, next: Requeue) -> Self {
        Self {
            plan: Plan::wait(next),
            left,
            ..Self::default()
        }
    }
}

/// Decides.
pub fn decide(s: &Snapshot, sets: &impl CitySets, linger: Duration, now: Now) -> Decision {
    let Some(current) = &s.current else {
        return decide_blind(s, sets, linger, now);
    };
    decide_from(s, sets, current, linger, now)
}

/// Decides without the current cities. Any city may be current and lingering, so all cities share a single linger
/// period, which is recorded for the first city in use.
fn decide_blind(s: &Snapshot, sets: &impl CitySets, linger: Duration, now: Now) -> Decision {
    let Some(first) = s.in_use.first() else {
        return Decision::wait(BTreeMap::new(), Requeue::AwaitChange);
    };
    let since = *s.left.get(first).unwrap_or(&now.instant);
    let rest = linger.saturating_sub(now.since(since));
    if rest.is_zero() && !s.unlabelled {
        return Decision {
            left: [(first.clone(), since)].into(),
            ..decide_from(s, sets, &s.in_use, linger, now)
        };
    }
    let next = if s.unlabelled {
        Requeue::AwaitChange
    } else {
        Requeue::After(rest)
    };
    Decision::wait([(first.clone(), since)].into(), next)
}

fn decide_from(
    s: &Snapshot,
    sets: &impl CitySets,
    current: &BTreeSet<CityCode>,
    linger: Duration,
    now: Now,
) -> Decision {
    let mut next = Requeue::AwaitChange;
    let mut left = BTreeMap::new();
    let mut wanted = s.in_use.clone();
    for city in current.difference(&s.in_use) {
        let since = *s.left.get(city).unwrap_or(&now.instant);
        let lingered = now.since(since);
        // Keep the time also for a city that this plan removes: the write may fail, and the linger period stays
        // expired.
        left.insert(city.clone(), since);
        if lingered < linger || s.unlabelled || s.preserves {
            wanted.insert(city.clone());
            if !s.unlabelled && !s.preserves {
                next = next.earlier(Requeue::After(linger.saturating_sub(lingered)));
            }
        }
    }
    if s.in_use.is_empty() {
        // The last city is never removed; the Namespace is deleted as a whole once its project namespace is gone.
        wanted.clone_from(current);
        next = Requeue::AwaitChange;
    }
    if s.row.as_ref().is_some_and(|r| r.deleting) || s.earlier_life {
        return Decision::wait(left, Requeue::AwaitChange);
    }
    if s.row
        .as_ref()
        .is_some_and(|r| !s.reassigned && r.digest.is_foreign(&s.cluster, &s.namespace))
    {
        return Decision {
            foreign: true,
            ..Decision::wait(left, Requeue::AwaitChange)
        };
    }
    let labelled = s.row.as_ref().and_then(|row| row.digest.cities.clone());
    let Some(mut set) = named(s, &wanted).or_else(|| labelled.clone()) else {
        return Decision::wait(left, Requeue::AwaitChange);
    };
    let asked = Some(set.clone());
    let limited = labelled.as_ref() != Some(&set) && !sets.has_room(&set);
    if limited {
        // The Namespace keeps its cities until the project uses fewer sets.
        let stays = Decision {
            wanted: asked.clone(),
            limited,
            ..Decision::wait(left.clone(), next)
        };
        let written_set = named(s, current).filter(|_| s.row.is_some());
        let Some(written_set) = written_set.filter(|at| labelled.as_ref() == Some(at) || sets.has_room(at))
        else {
            return stays;
        };
        set = written_set;
        wanted.clone_from(current);
    }
    let mut plan = Plan::wait(next);
    if !wanted.is_empty() {
        let policy = city_set_policy(&set);
        match sets.policy(&policy) {
            Some(row) if row.deleting || sets.is_ending(&policy) => {
                return Decision {
                    wanted: asked,
                    limited,
                    ..Decision::wait(left, next)
                };
            }
            Some(row) if row.digest.cities.as_ref() == Some(&wanted) && row.digest.exact => {}
            Some(row) if collides(&row.digest, &set, &wanted) => {
                return Decision {
                    collision: true,
                    wanted: asked,
                    limited,
                    ..Decision::wait(left, next)
                };
            }
            had => plan
                .effects
                .push(ensure_city_set(s, &policy, &set, &wanted, had.is_some())),
        }
    }
    let identity_restored = !s.reassigned && s.row.as_ref().is_some_and(|row| edited(s, &row.digest));
    plan.effects.extend(namespace(s, &set));
    let moves = s.row.as_ref().and_then(|row| row.digest.cities.as_deref()) != Some(&*set);
    let narrowed = current.difference(&wanted).cloned().collect();
    Decision {
        plan,
        left,
        set: moves.then_some(set),
        wanted: asked,
        limited,
        narrowed,
        identity_restored,
        ..Decision::default()
    }
}

/// The name of the set of these cities.
fn named(s: &Snapshot, cities: &BTreeSet<CityCode>) -> Option<Arc<str>> {
    let set = city_set(cities)?;
    Some(if s.preserves {
        preserving_set(&set).into()
    } else {
        set.into()
    })
}

/// True if a policy correctly lists other cities: two sets have the same name.
fn collides(policy: &CitySet, set: &str, wanted: &BTreeSet<CityCode>) -> bool {
    let other = policy.cities.as_ref().filter(|cities| *cities != wanted);
    other.is_some_and(|cities| city_set(cities).as_deref() == Some(plain_set(set)))
}

fn ensure_city_set(
    s: &Snapshot,
    policy: &str,
    set: &str,
    cities: &BTreeSet<CityCode>,
    restore: bool,
) -> Effect {
    let resource = &s.resources[TableId::CitySets];
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": policy},
        "spec": policy_spec::city_set_spec(set, cities, &s.label),
    });
    let exact = policy_spec::exact_spec();
    let reason = if restore {
        WriteReason::RestoreCitySet
    } else {
        WriteReason::CreateCitySet
    };
    let target = Target::cluster(Plane::Hub, resource, policy);
    Effect::main(target, Write::Apply { body, exact }, reason)
}

fn identity(s: &Snapshot) -> [(&'static str, String); 4] {
    [
        (keys::UPSTREAM_CLUSTER, s.cluster.clone()),
        (keys::UPSTREAM_NAMESPACE, s.namespace.to_string()),
        (keys::SKIP_AUTO_PROPAGATION, "true".to_owned()),
        (keys::PROJECT_UID, s.project_uid.to_string()),
    ]
}

fn has(d: &HubNamespaceDigest, key: &str) -> Option<String> {
    match key {
        keys::UPSTREAM_CLUSTER => d.cluster.as_deref().map(str::to_owned),
        keys::UPSTREAM_NAMESPACE => d.namespace.as_deref().map(str::to_owned),
        keys::PROJECT_UID => d.project_uid.as_deref().map(str::to_owned),
        _ => d.skip.then(|| "true".to_owned()),
    }
}

/// True if a Namespace with a city set label misses an identity label or has another value in it. A Namespace without a
/// city set label is a peer's, or the label was removed.
fn edited(s: &Snapshot, d: &HubNamespaceDigest) -> bool {
    d.cities.is_some()
        && identity(s)
            .iter()
            .any(|(key, wanted)| has(d, key).as_ref() != Some(wanted))
}

fn namespace(s: &Snapshot, set: &str) -> Option<Effect> {
    let resource = &s.resources[TableId::Namespaces];
    let target = Target::cluster(Plane::Hub, resource, &s.name);
    let Some(row) = &s.row else {
        let mut labels: serde_json::Map<String, Value> = identity(s)
            .into_iter()
            .map(|(k, v)| (k.to_owned(), json!(v)))
            .collect();
        labels.insert(keys::CITIES.to_owned(), json!(set));
        let body = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": &*s.name, "labels": labels},
        });
        let write = Write::Apply {
            body,
            exact: ExactFields::default(),
        };
        return Some(Effect::main(target, write, WriteReason::CreateNamespace));
    };
    let mut labels = serde_json::Map::new();
    for (key, wanted) in identity(s) {
        if has(&row.digest, key).as_ref() != Some(&wanted) {
            labels.insert(key.to_owned(), json!(wanted));
        }
    }
    let moves = row.digest.cities.as_deref() != Some(set);
    if labels.is_empty() && !moves && !s.reassigned {
        return None;
    }
    let mut metadata = json!({"uid": &*row.uid, "resourceVersion": row.resource_version()});
    if moves {
        labels.insert(keys::CITIES.to_owned(), json!(set));
        labels.insert(keys::CLUSTER_CLAIM_ID.to_owned(), Value::Null);
        metadata["annotations"][keys::CLUSTER_CLAIM_NAME] = Value::Null;
    }
    if s.reassigned {
        metadata["annotations"][keys::REASSIGN_TO] = Value::Null;
    }
    if !labels.is_empty() {
        metadata["labels"] = Value::Object(labels);
    }
    let write = Write::Merge {
        patch: json!({"metadata": metadata}),
    };
    let reason = if s.reassigned {
        WriteReason::ReassignNamespace
    } else if moves {
        WriteReason::MoveNamespace
    } else {
        WriteReason::RestoreNamespace
    };
    Some(Effect::main(target, write, reason))
}

#[cfg(test)]
mod tests;
