//! Observes a deployment and its surroundings.

use crate::queries;
use crate::{
    context::Shared,
    index::{
        CellIndex, CellLocation,
        digest::{Deployment, Instance},
    },
    network::{self, decide::State},
    rollout::{self, Owner, hash, labels::OwnerLabels},
    writes::ObjectVersion,
};
use fedgate_api::{
    Place, Reason,
    conditions::{
        ConditionStatus, find,
        types::{INITIALIZED, READY},
    },
    names::{ProjectKey, is_label_value},
};
use fedgate_engine::{
    key::{Key, Plane},
    store::table::Row,
};
use serde_json::Value;
use std::sync::Arc;

/// A deployment and its surroundings.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the cell, or a state of its own"
)]
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Namespace of the deployment.
    pub namespace: Arc<str>,
    /// Name of the deployment.
    pub name: Arc<str>,
    /// Version of the deployment.
    pub version: ObjectVersion,
    /// Content of the deployment.
    pub deployment: Deployment,
    /// Instances of the deployment, and those whose name has the form of its own Instances' names.
    pub instances: Vec<Known>,
    /// Location of the cell.
    pub located: CellLocation,
    /// Network of the deployment, if networking is on and the location is known.
    pub network: Option<(Vec<network::decide::Act>, State)>,
    /// True if networking is on.
    pub networking: bool,
    /// True if Instances wait for companions at this cell.
    pub data: bool,
    /// True if Instances are written back.
    pub hub: bool,
    /// True if Pods are run for Instances.
    pub provider: bool,
    /// True if quota is unavailable now.
    pub quota_unavailable: bool,
    /// The project whose claims must be watched and are not watched yet.
    pub unwatched: Option<ProjectKey>,
    /// The project's namespace that the deployment belongs to.
    pub home: Option<Arc<str>>,
    /// True if interfaces may name Networks of other namespaces.
    pub cross_namespace_networks: bool,
    /// The words of the cell's API server when it refused an object of the deployment.
    pub refused: Option<String>,
}

/// An Instance of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The Instance as the rollout planner needs it.
    pub control: rollout::Instance,
    /// Content of the Instance.
    pub instance: Instance,
}

/// Observes a deployment; `None` if it is gone, is being deleted, or the cell's lists are incomplete.
pub fn observe(ctx: &Shared, key: &Key) -> Option<Snapshot> {
    let index = ctx.index.lock();
    if !index.cell_ready() {
        return None;
    }
    let row = index.deployments.get(&key.namespace, &key.name)?;
    if row.deleting {
        return None;
    }
    let deployment = row.digest.clone();
    let located = index.located();
    let network = match (&located, &deployment.spec) {
        (CellLocation::At { location, .. }, Ok(spec)) if index.reading.networking => {
            let wanted = network::decide::Deployment {
                namespace: &key.namespace,
                name: &key.name,
                uid: &row.uid,
                networks: &spec.networks,
                location,
            };
            Some(network::decide::decide(
                &wanted,
                &queries::network::known(&index, &key.namespace, &key.name, &row.uid),
            ))
        }
        _ => None,
    };
    let (project, home) = index.origin(&key.namespace).unzip();
    let grantable = project.as_ref().is_some_and(|project| {
        index.may_be_granted(project) && !ctx.planes.is_down(&Plane::Project(project.clone()))
    });
    let unwatched = project.filter(|project| ctx.settings.quota && !index.claims.contains_key(project));
    Some(Snapshot {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        version: version(row),
        instances: known(&index, key, row),
        deployment,
        located,
        network,
        networking: index.reading.networking,
        data: index.reading.data,
        hub: index.reading.hub,
        provider: index.reading.provider,
        quota_unavailable: ctx.settings.quota && !grantable,
        unwatched,
        home,
        cross_namespace_networks: index.reading.limits.cross_namespace_networks,
        refused: None,
    })
}

fn version<D: PartialEq>(row: &Row<D>) -> ObjectVersion {
    ObjectVersion {
        uid: row.uid.clone(),
        version: row.resource_version().into(),
    }
}

/// Instances that a deployment of this name controls, and those whose names have the form of its own Instances' names.
fn known(index: &CellIndex, key: &Key, deployment: &Row<Deployment>) -> Vec<Known> {
    let spec = deployment.digest.spec.as_ref().ok();
    let all = index.instances.in_namespace(&key.namespace);
    let concerns = |name: &str, instance: &Instance| {
        let owner = instance.owner.as_ref();
        owner.is_some_and(|owner| owner.is_deployment && owner.name == key.name)
            || rollout::ordinal::of_name(&key.name, name).is_some()
    };
    let concerned = all.filter(|(name, row)| concerns(name, &row.digest));
    concerned
        .map(|(name, row)| {
            let instance = &row.digest;
            let owner = match &instance.owner {
                Some(owner) if owner.is_deployment && owner.name == key.name => {
                    Owner::Deployment(owner.uid.clone())
                }
                _ => Owner::Foreign,
            };
            let ObjectVersion { uid, version } = version(row);
            let control = rollout::Instance {
                name: name.clone(),
                uid,
                version,
                created: instance.created,
                owner,
                deleting: row.deleting,
                ready: !row.deleting && is(instance, READY),
                // The Instance's own controller records the end of that state.
                served: is(instance, READY) || is(instance, INITIALIZED),
                lost: row.deleting && is_lost(instance),
                current: spec.is_some_and(|spec| is_current(spec, instance)),
                labels: instance.labels.clone(),
            };
            Known {
                control,
                instance: instance.clone(),
            }
        })
        .collect()
}

fn is_lost(instance: &Instance) -> bool {
    find(&instance.conditions, READY).is_some_and(|c| c.reason == Reason::NodeLost.as_str())
}

fn is(instance: &Instance, type_: &str) -> bool {
    find(&instance.conditions, type_).is_some_and(|c| c.status == ConditionStatus::True)
}

fn is_current(spec: &crate::index::digest::Spec, instance: &Instance) -> bool {
    let made = |of: &Value, template: &Value| {
        let made = hash::AppliedTemplate {
            hash: instance.hash.as_deref(),
            spec: of,
            labels: &instance.labels,
            annotations: &instance.annotations,
        };
        hash::is_current(template, &spec.hash, made)
    };
    if instance.hash.as_deref().is_some_and(hash::is_known) {
        return made(&Value::Null, &Value::Null);
    }
    let read = |text: &str| serde_json::from_str(text).unwrap_or_default();
    made(&read(&instance.spec), &read(&spec.template))
}

impl Snapshot {
    /// City and location for the labels. A location is one that the cell has confirmed: what a deployment names may be
    /// another's, or no label value at all.
    fn place(&self, spec: &crate::index::digest::Spec) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let said = spec.place.city().cloned();
        let CellLocation::At { location, city } = &self.located else {
            return (said, None);
        };
        let here = match &spec.place {
            Place::City(wanted) => wanted == city,
            Place::Location(wanted) | Place::Both { location: wanted, .. } => **wanted == *location.name,
        };
        if here {
            let city = said.unwrap_or_else(|| city.clone());
            // A location may have a longer name than a label may.
            let label = is_label_value(&location.name).then(|| location.name.as_str().into());
            return (Some(city), label);
        }
        (said, None)
    }

    /// Owner labels of the deployment's Instances.
    pub fn linking(&self, spec: &crate::index::digest::Spec) -> OwnerLabels {
        let (city, location) = self.place(spec);
        OwnerLabels {
            workload_uid: spec.workload_uid.clone(),
            workload_name: spec.workload.clone(),
            placement_name: spec.placement.clone(),
            city_code: city,
            location,
            deployment_name: self.name.clone(),
            deployment_uid: self.version.uid.clone(),
        }
    }
}
