//! The snapshot of a Workload, rebuilt from what the index keeps: of the Workload its text, of its deployments a digest
//! by which is known whether they are as they would be written now.

use super::{
    decide, name,
    snapshot::{Checks, Locations, Networks, WorkloadSnapshot},
};
use crate::{
    api::{
        Workload, WorkloadDeployment, WorkloadDeploymentSpec,
        names::{CityCode, ProjectKey},
    },
    engine::{diff::Digest, key::Key},
    gateway::world::{
        Project, World,
        digest::{Rollup, template_digest, written},
        networking::WorkloadChecks,
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, sync::Arc};

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
    let mut basis = Vec::new();
    let mut held = BTreeMap::new();
    for name in p.index.controlled(&key.namespace, &row.uid) {
        let source = p.sources[kind].get(&key.namespace, name);
        let Some((source, rollup)) = source.and_then(|s| Some((s, s.digest.rollup.as_deref()?))) else {
            continue;
        };
        // Taken for another's, it would get a second deployment beside it for its placement and city.
        let rollup = rollup.as_ref().map_err(|e| Absence::Undecodable {
            uid: row.uid.to_string(),
            error: format!("its WorkloadDeployment {name:?}: {e}"),
        })?;
        basis.push((&source.uid, source.deleting, &source.digest.city, rollup));
        let metadata = ObjectMeta {
            name: Some(name.to_string()),
            namespace: Some(key.namespace.to_string()),
            uid: Some(source.uid.to_string()),
            creation_timestamp: Timestamp::from_second(source.digest.created).ok().map(Time),
            deletion_timestamp: source.digest.deleted.map(Time),
            ..ObjectMeta::default()
        };
        deployments.push(rebuild(
            rollup,
            metadata,
            &source.digest.city,
            &workload,
            template,
        ));
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
        basis: Digest::of_hash(&(&row.digest, template, basis)),
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

/// A deployment with what was read of it. Where it is not as this program writes it, its labels are left out: that
/// differs as well.
fn rebuild(
    rollup: &Rollup,
    metadata: ObjectMeta,
    city: &Result<CityCode, Arc<str>>,
    workload: &Workload,
    template: Digest,
) -> WorkloadDeployment {
    let placements = &workload.spec.placements;
    let placement = placements.iter().find(|p| p.name == *rollup.placement);
    let city = city.as_ref().map_or_else(|text| &**text, CityCode::as_str);
    let spec = WorkloadDeploymentSpec {
        workload_ref: decide::reference(workload),
        placement_name: rollup.placement.to_string(),
        city_code: city.to_owned(),
        template: workload.spec.template.clone(),
        scale_settings: placement.map(|p| p.scale_settings.clone()).unwrap_or_default(),
    };
    let mut metadata = ObjectMeta {
        labels: Some(decide::labels(workload)),
        owner_references: Some(vec![decide::owner(workload)]),
        ..metadata
    };
    if rollup.template != template || rollup.written != written(&metadata, &spec) {
        metadata.labels = None;
    }
    WorkloadDeployment {
        metadata,
        spec,
        status: Some(rollup.status()),
    }
}
