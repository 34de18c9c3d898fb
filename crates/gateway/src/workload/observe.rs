//! Snapshot of a Workload from the index, which holds the text of most Workloads, and of each deployment a digest that
//! shows whether it differs from the next write.

use super::{
    decide, name,
    snapshot::{Checks, Cities, Listed, ListedLocation, Locations, Networks, WorkloadSnapshot},
};
use crate::index::{
    GatewayIndex, Project, TableId,
    derived::project_hub::Share,
    locations::Knowledge,
    networking::WorkloadChecks,
    rows::{Place, Rollup, WorkloadDigest, written},
};
use fedgate_api::{
    InstanceTemplate, Placement, Places, Workload, WorkloadDeployment, WorkloadDeploymentSpec, keys,
    names::{CityCode, ProjectKey},
    written_template,
};
use fedgate_engine::{diff::Digest, key::Key};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::ApiResource;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// A snapshot, and the data that writes need.
pub(super) struct Observed {
    pub(super) project: ProjectKey,
    pub(super) snapshot: WorkloadSnapshot,
    /// The Workload's template as it is written to deployments, with fields that this version does not know.
    pub(super) template: Value,
    /// Digest of that template.
    pub(super) template_digest: Digest,
    /// Size of the Workload as JSON, in bytes: no template is larger.
    pub(super) template_size: usize,
    /// A digest of the Workload and its deployments.
    pub(super) basis: Digest,
    pub(super) version: String,
    pub(super) workloads: ApiResource,
    pub(super) deployments: ApiResource,
}

/// Reason for the lack of a snapshot.
pub(super) enum NoSnapshot {
    /// The Workload is deleted, or the lists are incomplete.
    Nothing,
    /// The index does not keep the Workload's text: the Workload is to be read.
    Unread {
        /// True if the Workload is being deleted.
        deleting: bool,
    },
    /// The Workload, or one of its deployments, cannot be decoded.
    Undecodable {
        /// UID of the Workload.
        uid: String,
        /// The field and the error.
        error: String,
    },
}

/// Takes the snapshot; `read` is the Workload as it was read from its plane.
pub(super) fn observe(
    index: &GatewayIndex,
    key: &Key,
    project: &ProjectKey,
    read: Option<&WorkloadDigest>,
) -> Result<Observed, NoSnapshot> {
    if !index.is_complete(project) {
        return Err(NoSnapshot::Nothing);
    }
    let (Some(kind), Some(p)) = (index.workload_kind(), index.projects.get(project)) else {
        return Err(NoSnapshot::Nothing);
    };
    if p.share_of_other() >= Some(Share::Most) {
        return Err(NoSnapshot::Nothing);
    }
    let row = p
        .workloads
        .get(&key.namespace, &key.name)
        .ok_or(NoSnapshot::Nothing)?;
    let hub_namespace = index
        .hub_namespace(project, &key.namespace)
        .ok_or(NoSnapshot::Nothing)?;
    let read = read.filter(|read| **read == row.digest);
    let text = row.digest.text().or_else(|| read?.text());
    let text = text.ok_or(NoSnapshot::Unread {
        deleting: row.deleting,
    })?;
    let (workload, written_template) = parse(text).map_err(|e| NoSnapshot::Undecodable {
        uid: row.uid.to_string(),
        error: e.to_string(),
    })?;
    let template = Digest::of(&written_template);
    let mut deployments = Vec::new();
    let mut basis = Vec::new();
    let mut held = BTreeMap::new();
    for name in p.secondary.controlled(&key.namespace, &row.uid) {
        let source = p.sources[kind].get(&key.namespace, name);
        let Some((source, rollup)) = source.and_then(|s| Some((s, s.digest.rollup.as_deref()?))) else {
            continue;
        };
        // If it were skipped, its placement and city would get a second deployment.
        let rollup = rollup.as_ref().map_err(|e| NoSnapshot::Undecodable {
            uid: row.uid.to_string(),
            error: format!("its WorkloadDeployment {name:?}: {e}"),
        })?;
        basis.push((&source.uid, source.deleting, &source.digest.place, rollup));
        let metadata = ObjectMeta {
            name: Some(name.to_string()),
            namespace: Some(key.namespace.to_string()),
            uid: Some(source.uid.to_string()),
            generation: Some(source.digest.generation),
            creation_timestamp: Timestamp::from_second(source.digest.created()).ok().map(Time),
            deletion_timestamp: source.digest.deleted.map(Time),
            annotations: rollup
                .replaces
                .as_deref()
                .map(|uids| [(keys::REPLACES.to_owned(), uids.to_owned())].into()),
            ..ObjectMeta::default()
        };
        deployments.push(rebuild(
            rollup,
            metadata,
            &source.digest.place,
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
    let mut checks = checks(&index.checks, p, &workload);
    let extent = row.digest.extent;
    checks.too_large = (!extent.fits(index.largest_spec)).then(|| extent.too_much(index.largest_spec));
    // Cities alone need no Location by its name, and no map of all locations.
    let cities = if names_locations(&workload, &deployments) {
        let known = p.locations.knowledge(index.checks.locations) == Knowledge::Complete;
        checks.listed = known.then(|| listed(p));
        cities(index, checks.listed.as_ref())
    } else {
        Cities::new()
    };
    Ok(Observed {
        project: project.clone(),
        basis: Digest::of_hash(&(row.digest.digest(), template, basis)),
        snapshot: WorkloadSnapshot {
            workload,
            deployments,
            held,
            hub_namespace,
            own_hub: index.hub.identity.uid().cloned(),
            cities,
            clusters_listed: index.hub.clusters.synced(),
            checks,
        },
        template: written_template,
        template_digest: template,
        template_size: text.len(),
        version: row.resource_version(),
        workloads: index.resource(TableId::Workloads).clone(),
        deployments: index.kinds[kind].resource.clone(),
    })
}

/// The city of each location: of those whose Clusters say it, else of the project's Locations.
fn cities(index: &GatewayIndex, listed: Option<&Listed>) -> Cities {
    let listed = listed.into_iter().flatten().filter_map(|(name, location)| {
        let city = location
            .topology
            .get(keys::CITY_CODE)
            .filter(|city| !city.is_empty());
        Some((name.clone(), city?.clone()))
    });
    let mut cities: Cities = listed.collect();
    cities.extend(cities_of_clusters(index));
    cities
}

/// The city of each location whose Clusters have both labels.
fn cities_of_clusters(index: &GatewayIndex) -> Cities {
    let all = index.hub.secondary.places.cities_of_locations();
    all.map(|(location, city)| (location.to_string(), city.to_string()))
        .collect()
}

/// Data of the project for the enabled checks.
fn checks(on: &WorkloadChecks, project: &Project, workload: &Workload) -> Checks {
    let of = &project.locations;
    let locations = match of.knowledge(on.locations) {
        Knowledge::Unread => Locations::Unchecked,
        Knowledge::Pending => Locations::Pending,
        Knowledge::Complete => Locations::Serving(of.served_cities().map(ToString::to_string).collect()),
    };
    let interfaces = &workload.spec.template.spec.network_interfaces;
    let networks = match (on.networks, project.networks.synced()) {
        (false, _) => Networks::Unchecked,
        (true, false) => Networks::Pending,
        (true, true) => {
            let is_named = |name: &Arc<str>| interfaces.iter().any(|i| *i.network.name == **name);
            let live = project.networks.iter().filter(|(_, row)| !row.deleting);
            let names = live.map(|(name, _)| name).filter(|(_, name)| is_named(name));
            Networks::Existing(
                names
                    .map(|(ns, name)| (ns.to_string(), name.to_string()))
                    .collect(),
            )
        }
    };
    Checks {
        networks,
        foreign_networks: on.foreign_networks,
        locations,
        catalog: on.catalog.clone(),
        ..Checks::default()
    }
}

/// True if a placement or a deployment is not said by cities alone.
fn names_locations(workload: &Workload, deployments: &[WorkloadDeployment]) -> bool {
    let placements = &workload.spec.placements;
    let by_city = |placement: &Placement| matches!(placement.places(), Some(Places::Cities(_)));
    !placements.iter().all(by_city) || deployments.iter().any(|d| d.spec.location_ref.is_some())
}

/// The project's locations by name. Of several with one name, in several namespaces, the last that is placeable counts.
fn listed(project: &Project) -> Listed {
    let mut all = Listed::new();
    for (name, location, placeable) in project.locations.listed() {
        let location = ListedLocation {
            topology: location.topology.clone(),
            placeable,
        };
        if location.placeable || !all.contains_key(&**name) {
            all.insert(name.to_string(), location);
        }
    }
    all
}

/// A Workload, and its template as it is written to deployments.
fn parse(text: &str) -> Result<(Workload, Value), serde_json::Error> {
    let whole: Value = serde_json::from_str(text)?;
    let template = written_template(&whole["spec"]["template"])?;
    Ok((Workload::deserialize(&whole)?, template))
}

/// Rebuilds a deployment from its digest. If it differs from this program's serialization, the labels are left out, so
/// that the deployment differs as well.
fn rebuild(
    rollup: &Rollup,
    metadata: ObjectMeta,
    place: &Place,
    workload: &Workload,
    template: Digest,
) -> WorkloadDeployment {
    let placements = &workload.spec.placements;
    let placement = placements.iter().find(|p| p.name == *rollup.placement);
    let city = match place {
        Place::InvalidCity(text) => Some(&**text),
        Place::City(_) | Place::Location(_) | Place::Both(_) | Place::InvalidLocation(_) => {
            place.city().map(CityCode::as_str)
        }
    };
    let spec = WorkloadDeploymentSpec {
        workload_ref: decide::reference(workload),
        placement_name: rollup.placement.to_string(),
        city_code: city.map(str::to_owned),
        location_ref: place
            .location()
            .map(|location| decide::reference_to(location.as_str())),
        replicas: None,
        // Its digest is compared below.
        template: InstanceTemplate::default(),
        scale_settings: placement.map(|p| p.scale_settings.clone()).unwrap_or_default(),
    };
    let mut metadata = ObjectMeta {
        labels: Some(decide::labels(workload, spec.place().as_ref())),
        owner_references: Some(vec![decide::owner(workload)]),
        ..metadata
    };
    let generation = metadata.generation.unwrap_or_default();
    if rollup.template != template || rollup.written != written(&metadata, &spec) {
        metadata.labels = None;
    }
    WorkloadDeployment {
        metadata,
        spec,
        status: Some(rollup.status(generation)),
    }
}
