//! Observes a deployment and its surroundings.

use crate::{
    conditions::is_true,
    context::Shared,
    index::{
        CellIndex, CellLocation, IndexConfig,
        digest::{Deployment, Instance, Spec},
    },
    network::{self, decide::NetworkState},
    rollout::{self, Owner, hash, labels::OwnerLabels},
};
use fedgate_api::{
    Place, Reason,
    conditions::{
        find,
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
#[derive(Debug, Clone)]
pub struct DeploymentSnapshot {
    /// Namespace of the deployment.
    pub namespace: Arc<str>,
    /// Name of the deployment.
    pub name: Arc<str>,
    /// The deployment.
    pub row: Row<Deployment>,
    /// Settings of the cell.
    pub reading: Arc<IndexConfig>,
    /// Instances of the deployment, and those whose name has the form of its own Instances' names.
    pub instances: Vec<KnownInstance>,
    /// Location of the cell.
    pub located: CellLocation,
    /// Network of the deployment, if networking is on and the location is known.
    pub network: Option<(Vec<network::decide::NetworkAction>, NetworkState)>,
    /// True if quota is unavailable now.
    pub quota_unavailable: bool,
    /// The project whose claims must be watched and are not watched yet.
    pub unwatched: Option<ProjectKey>,
    /// The project's namespace that the deployment belongs to.
    pub home: Option<Arc<str>>,
    /// The words of the cell's API server when it refused an object of the deployment.
    pub refused: Option<String>,
}

/// An Instance of a deployment.
#[derive(Debug, Clone)]
pub struct KnownInstance {
    /// The Instance as the rollout planner needs it.
    pub control: rollout::Instance,
    /// The Instance.
    pub row: Row<Instance>,
}

/// Observes a deployment; `None` if it is gone, is being deleted, or the cell's lists are incomplete.
pub fn observe(ctx: &Shared, key: &Key) -> Option<DeploymentSnapshot> {
    let index = ctx.index.lock();
    if !index.cell_ready() {
        return None;
    }
    let row = index.deployments.get(&key.namespace, &key.name)?;
    if row.deleting {
        return None;
    }
    let located = index.located();
    let network = match (&located, &row.digest.spec) {
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
                &network::known::known(&index, &key.namespace, &key.name, &row.uid),
            ))
        }
        _ => None,
    };
    let (project, home) = index.origin(&key.namespace).unzip();
    let grantable = project.as_ref().is_some_and(|project| {
        index.may_be_granted(project) && !ctx.planes.is_down(&Plane::Project(project.clone()))
    });
    let unwatched = project.filter(|project| ctx.settings.quota && !index.claims.contains_key(project));
    Some(DeploymentSnapshot {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        row: row.clone(),
        reading: index.reading.clone(),
        instances: known(&index, key, row),
        located,
        network,
        quota_unavailable: ctx.settings.quota && !grantable,
        unwatched,
        home,
        refused: None,
    })
}

/// Instances that a deployment of this name controls, and those whose names have the form of its own Instances' names.
fn known(index: &CellIndex, key: &Key, deployment: &Row<Deployment>) -> Vec<KnownInstance> {
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
            let is = |type_| is_true(&instance.conditions, type_);
            let ready = find(&instance.conditions, READY);
            let control = rollout::Instance {
                name: name.clone(),
                uid: row.uid.clone(),
                version: row.resource_version().into(),
                created: instance.created,
                owner,
                deleting: row.deleting,
                ready: !row.deleting && is(READY),
                // The Instance's own controller records the end of that state.
                served: is(READY) || is(INITIALIZED),
                lost: row.deleting && ready.is_some_and(|c| c.reason == Reason::NodeLost.as_str()),
                current: spec.is_some_and(|spec| is_current(spec, instance)),
                labels: instance.labels.clone(),
            };
            let row = row.clone();
            KnownInstance { control, row }
        })
        .collect()
}

fn is_current(spec: &Spec, instance: &Instance) -> bool {
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

impl DeploymentSnapshot {
    /// City and location for the labels. A location is one that the cell has confirmed: what a deployment names may be
    /// another's, or no label value at all.
    fn place(&self, spec: &Spec) -> (Option<Arc<str>>, Option<Arc<str>>) {
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

    /// The deployment as the rollout planner needs it.
    pub fn control(&self, spec: &Spec) -> rollout::Deployment {
        rollout::Deployment {
            name: self.name.clone(),
            uid: self.row.uid.clone(),
            replicas: spec.replicas,
            policy: spec.policy,
            linking: self.linking(spec),
        }
    }

    /// Owner labels of the deployment's Instances.
    fn linking(&self, spec: &Spec) -> OwnerLabels {
        let (city, location) = self.place(spec);
        OwnerLabels {
            workload_uid: spec.workload_uid.clone(),
            workload_name: spec.workload.clone(),
            placement_name: spec.placement.clone(),
            city_code: city,
            location,
            deployment_name: self.name.clone(),
            deployment_uid: self.row.uid.clone(),
        }
    }
}
