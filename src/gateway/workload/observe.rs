//! The snapshot of a Workload, rebuilt from what the index keeps: of the Workload its text, of its deployments their
//! text without the template, which is the Workload's wherever the digests agree.

use super::{
    name,
    snapshot::{Checks, Locations, Networks, WorkloadSnapshot},
};
use crate::{
    api::{Workload, WorkloadDeployment, names::ProjectKey},
    engine::{diff::Digest, key::Key},
    gateway::world::{
        Project, World,
        digest::{Rollup, template_digest},
        networking::WorkloadChecks,
    },
};
use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A snapshot, and what is needed to write it back.
pub(super) struct Observed {
    pub(super) snapshot: WorkloadSnapshot,
    /// A digest of the Workload and its deployments.
    pub(super) basis: Digest,
    pub(super) version: String,
    pub(super) workloads: ApiResource,
    pub(super) deployments: ApiResource,
}

/// Why there is nothing to decide.
pub(super) enum Absence {
    /// It is gone, or the lists are not complete.
    Nothing,
    /// The Workload, or a deployment of its own, cannot be read as what it is.
    Undecodable {
        /// Its UID.
        uid: String,
        /// Which field, and why.
        error: String,
    },
}

/// Takes the snapshot.
pub(super) fn observe(world: &World, key: &Key, project: &ProjectKey) -> Result<Observed, Absence> {
    if !world.hub_ready() || !world.project_ready(project) {
        return Err(Absence::Nothing);
    }
    let (Some(kind), Some(p)) = (world.workload_kind(), world.projects.get(project)) else {
        return Err(Absence::Nothing);
    };
    let row = p
        .workloads
        .get(&key.namespace, &key.name)
        .ok_or(Absence::Nothing)?;
    let hub_namespace = world
        .hub_namespace(project, &key.namespace)
        .ok_or(Absence::Nothing)?;
    let workload: Workload = parse(&row.digest).map_err(|e| Absence::Undecodable {
        uid: row.uid.to_string(),
        error: e.to_string(),
    })?;
    let template = wanted_template(&workload);
    let mut deployments = Vec::new();
    let mut basis = vec![(&*row.digest, template)];
    let mut held = BTreeMap::new();
    for name in p.index.controlled(&key.namespace, &row.uid) {
        let source = p.sources[kind].get(&key.namespace, name);
        let Some(rollup) = source.and_then(|source| source.digest.rollup.as_ref()) else {
            continue;
        };
        basis.push((&*rollup.text, rollup.template));
        // Taken for another's, it would get a second deployment beside it for its placement and city.
        deployments.push(
            rebuild(rollup, &workload, template).map_err(|e| Absence::Undecodable {
                uid: row.uid.to_string(),
                error: format!("its WorkloadDeployment {name:?}: {e}"),
            })?,
        );
    }
    for beginning in name::beginnings(&key.name) {
        for (name, source) in p.sources[kind].beginning_with(&key.namespace, &beginning) {
            let own =
                source.digest.rollup.is_some() && source.digest.controller.as_deref() == Some(&*row.uid);
            if !own {
                held.insert(name.to_string(), source.deleting);
            }
        }
    }
    let checks = checks(world.checks, p, &workload);
    Ok(Observed {
        basis: Digest::of_hash(&basis),
        snapshot: WorkloadSnapshot {
            workload,
            deployments,
            held,
            hub_namespace,
            checks,
        },
        version: row.resource_version(),
        workloads: world.resources.workloads.clone(),
        deployments: world.kinds[kind].resource.clone(),
    })
}

/// What the project says to the checks that are on.
fn checks(on: WorkloadChecks, project: &Project, workload: &Workload) -> Checks {
    let locations = match (on.locations, project.locations.synced()) {
        (false, _) => Locations::Unchecked,
        (true, false) => Locations::Pending,
        (true, true) => Locations::Serving(project.served_cities().map(ToString::to_string).collect()),
    };
    let interfaces = &workload.spec.template.spec.network_interfaces;
    let networks = match (on.networks, project.networks.synced()) {
        (false, _) => Networks::Unchecked,
        (true, false) => Networks::Pending,
        (true, true) => {
            let named = project
                .live_networks()
                .filter(|(_, name)| interfaces.iter().any(|i| *i.network.name == ***name));
            Networks::Existing(
                named
                    .map(|(ns, name)| (ns.to_string(), name.to_string()))
                    .collect(),
            )
        }
    };
    Checks {
        networks,
        locations,
        ..Checks::default()
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// Digest of the template as this program writes it.
fn wanted_template(workload: &Workload) -> Digest {
    template_digest(&serde_json::to_value(&workload.spec.template).unwrap_or_default())
}

/// A deployment with its template; one whose template is not the Workload's gets an empty one, which differs as well.
fn rebuild(
    rollup: &Rollup,
    workload: &Workload,
    template: Digest,
) -> Result<WorkloadDeployment, serde_json::Error> {
    let mut value: Value = serde_json::from_str(&rollup.text)?;
    value["spec"]["template"] =
        json!({"spec": {"runtime": {"resources": {"instanceType": ""}}, "networkInterfaces": []}});
    let mut deployment: WorkloadDeployment = serde_json::from_value(value)?;
    if rollup.template == template {
        deployment.spec.template = workload.spec.template.clone();
    }
    Ok(deployment)
}
