//! What many city sets cost: a turn of a hub Namespace, and the end of one set's policy.

use super::fill::{list, namespace, uid};
use anyhow::{Context, Result};
use fedgate_api::{
    keys,
    names::{CityCode, HubNamespace, ProjectKey, city_set_policy},
};
use fedgate_engine::{clock::Clock, runtime::role::Role};
use fedgate_gateway::{
    Gateway,
    index::{GatewayIndex, TableId, networking::WorkloadChecks},
    namespaces, policy_spec,
};
use fedgate_kinds::FederatedKind;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Turns, and ends of policies, that are measured.
const SAMPLES: usize = 1_000;

/// What was measured.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Time of one turn of a hub Namespace under the index's lock.
    pub(crate) turn: Duration,
    /// Time under the lock that the end of one policy takes.
    pub(crate) end: Duration,
    /// Keys that it wakes.
    pub(crate) woken: usize,
}

fn code(n: usize) -> String {
    format!("C{n:05}")
}

fn set(n: usize) -> String {
    code(n).to_lowercase()
}

fn policy(n: usize) -> Value {
    let set = set(n);
    let cities = CityCode::parse(&code(n)).into_iter().collect();
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": city_set_policy(&set), "uid": uid(12, n), "resourceVersion": "5"},
        "spec": policy_spec::city_set_spec(&set, &cities, keys::CITY_CODE)})
}

fn cell(n: usize) -> Value {
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": format!("cell-{n}"), "uid": uid(13, n), "resourceVersion": "5",
            "labels": {keys::CITY_CODE: code(n)}}})
}

/// A project with so many namespaces, whose Namespaces on the hub carry the sets in turn.
fn filled(count: usize, sets: usize) -> Result<(GatewayIndex, Vec<HubNamespace>)> {
    let mut index = GatewayIndex::new(
        Arc::new(FederatedKind::builtin()?.into()),
        WorkloadChecks::default(),
    );
    let (project, mark) = (ProjectKey::parse("shop")?, uid(10, 0));
    let hubs: Vec<HubNamespace> = (0..count).map(|n| HubNamespace::of(&uid(1, n))).collect();
    index.engage(project.clone());
    for role in index.project_tables() {
        let own = (0..count).map(|n| namespace(&format!("n-{n}"), &uid(1, n), &json!({})));
        let there = std::iter::once(namespace("kube-system", &mark, &json!({}))).chain(own);
        let there = there.take(if role == TableId::Namespaces {
            usize::MAX
        } else {
            0
        });
        list(there, |e| index.project_event(&project, role, e))?;
    }
    for role in index.hub_tables() {
        let there: Vec<Value> = match role {
            TableId::Clusters => (0..sets).map(cell).collect(),
            TableId::CitySets => (0..sets).map(policy).collect(),
            TableId::Namespaces => hubs
                .iter()
                .enumerate()
                .map(|(n, hub)| {
                    let labels = json!({keys::UPSTREAM_CLUSTER: project.label(), keys::UPSTREAM_NAMESPACE: format!("n-{n}"),
                        keys::SKIP_AUTO_PROPAGATION: "true", keys::PROJECT_UID: mark, keys::CITIES: set(n % sets)});
                    namespace(hub.as_str(), &uid(11, n), &labels)
                })
                .collect(),
            _ => Vec::new(),
        };
        list(there.into_iter(), |e| index.hub_event(role, e))?;
    }
    Ok((index, hubs))
}

fn each(time: Duration) -> Duration {
    time / u32::try_from(SAMPLES).unwrap_or(u32::MAX)
}

/// Measures with so many hub Namespaces and city sets.
pub(crate) fn measure(count: usize, sets: usize) -> Result<Cost> {
    let (mut index, hubs) = filled(count, sets)?;
    let now = Clock::system().now();
    let began = Instant::now();
    for hub in hubs.iter().cycle().take(SAMPLES) {
        let seen = namespaces::observe(&index, hub.as_str()).context("everything is listed")?;
        let decision = namespaces::sets::decided(&index, &seen, Duration::from_secs(60), sets, now);
        index
            .intents
            .deliveries
            .want(&seen.name, decision.wanted.as_ref());
    }
    let turn = each(began.elapsed());
    let mut woken = 0;
    let began = Instant::now();
    for n in 0..SAMPLES {
        let gone = serde_json::from_value(policy(n % sets))?;
        let event = fedgate_engine::plane::watch::WatchEvent::Delete(Box::new(gone));
        let mut keys = Vec::new();
        for change in index.hub_event(TableId::CitySets, event).changes {
            Gateway::triggers(&index, &change, &mut keys);
        }
        woken += keys.len();
    }
    Ok(Cost {
        turn,
        end: each(began.elapsed()),
        woken: woken / SAMPLES,
    })
}
