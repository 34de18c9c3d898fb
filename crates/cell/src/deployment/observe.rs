//! Observes a deployment and its surroundings.

use crate::{
    conditions::is_quota_denied,
    context::Shared,
    index::{
        CellIndex, CellLocation,
        digest::{Deployment, InstanceDigest, Spec},
    },
    network::{self, Network},
    rollout::{self, Owner, hash},
    settings::Settings,
};
use fedgate_api::{
    Place, Reason,
    conditions::types::{INITIALIZED, READY},
    names::{ProjectKey, is_label_value},
};
use fedgate_engine::{
    key::{Key, Plane},
    store::table::Row,
};
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};

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
    pub settings: Arc<Settings>,
    /// Instances of the deployment, and those whose name has the form of its own Instances' names.
    pub instances: Vec<KnownInstance>,
    /// Location of the cell.
    pub located: CellLocation,
    /// Network of the deployment, if networking is on and the location is known.
    pub network: Option<Network>,
    /// True if quota is unavailable now.
    pub quota_unavailable: bool,
    /// The project whose claims must be watched and are not watched yet.
    pub unwatched: Option<ProjectKey>,
    /// The project's namespace that the deployment belongs to.
    pub home: Option<Arc<str>>,
    /// The words of the cell's API server when it refused an object of the deployment.
    pub refused: Option<String>,
    /// How long the rollout has made no progress; `None` if that was not the case in the last pass.
    pub stalled: Option<Stalled>,
}

/// A rollout of which every step waits for Instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// Least number of steps that were left.
    pub steps: usize,
    /// Time since then.
    pub time: Duration,
}

/// An Instance of a deployment.
#[derive(Debug, Clone)]
pub struct KnownInstance {
    /// The Instance as the rollout planner needs it.
    pub control: rollout::RolloutInstance,
    /// The Instance.
    pub row: Row<InstanceDigest>,
}

/// Observes a deployment; `None` if it is gone, is being deleted, or the cell's lists are incomplete. The garbage collector of the
/// cell deletes the Instances of a deleted deployment, because the deployment is their owner; the Instance controller then releases
/// what each of them has.
pub fn observe(ctx: &Shared, key: &Key) -> Option<DeploymentSnapshot> {
    let index = ctx.index.lock();
    if !index.cell_ready() {
        return None;
    }
    let row = index.deployments.get(&key.namespace, &key.name)?;
    if row.deleting {
        return None;
    }
    let (project, home) = index.origin(&key.namespace).unzip();
    let grantable = project.as_ref().is_some_and(|project| {
        index.may_be_granted(project) && !ctx.planes.is_down(&Plane::Project(project.clone()))
    });
    let unwatched = project.filter(|project| ctx.settings.quota && !index.claims.contains_key(project));
    Some(DeploymentSnapshot {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        row: row.clone(),
        settings: index.settings.clone(),
        instances: instances_of(&index, key, row),
        located: index.located(),
        network: network::of_deployment(&index, &key.namespace, &key.name, row),
        quota_unavailable: ctx.settings.quota && !grantable,
        unwatched,
        home,
        refused: None,
        stalled: None,
    })
}

/// Instances that a deployment of this name controls, and those whose names have the form of its own Instances' names.
fn instances_of(index: &CellIndex, key: &Key, deployment: &Row<Deployment>) -> Vec<KnownInstance> {
    let spec = deployment.digest.spec.as_ref().ok();
    let all = index.instances.in_namespace(&key.namespace);
    let concerns = |name: &str, instance: &InstanceDigest| {
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
            let ready = instance.condition(READY);
            let control = rollout::RolloutInstance {
                name: name.clone(),
                uid: row.uid.clone(),
                version: row.resource_version().into(),
                created: instance.created,
                owner,
                deleting: row.deleting,
                ready: !row.deleting && instance.is(READY),
                available: !row.deleting && instance.is(READY),
                // The Instance's own controller records the end of that state.
                served: instance.is(READY) || instance.is(INITIALIZED),
                quota_denied: is_quota_denied(instance),
                lost: row.deleting && ready.is_some_and(|c| c.reason == Reason::NodeLost.as_str()),
                current: spec.is_some_and(|spec| is_current(spec, instance)),
                labels: instance.labels.clone(),
            };
            let row = row.clone();
            KnownInstance { control, row }
        })
        .collect()
}

fn is_current(spec: &Spec, instance: &InstanceDigest) -> bool {
    let made = hash::AppliedTemplate {
        hash: instance.hash.as_deref(),
        spec: &instance.spec,
        labels: &instance.labels,
        annotations: &instance.annotations,
    };
    hash::is_current(&spec.template, &spec.hash, made)
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

    /// The Instances that this deployment controls.
    pub fn own_instances(&self) -> impl Iterator<Item = &KnownInstance> {
        let own = Owner::Deployment(self.row.uid.clone());
        self.instances
            .iter()
            .filter(move |known| known.control.owner == own)
    }

    /// Marks each Instance that has been ready for less than `minReadySeconds` as not available. Returns the time until the next
    /// Instance becomes available.
    pub fn mark_available(&mut self, now: Timestamp) -> Option<Duration> {
        let spec = self.row.digest.spec.as_ref().ok()?;
        let min_ready = spec.strategy?.min_ready;
        let waits = self.instances.iter_mut().filter_map(|known| {
            let KnownInstance { control, row } = known;
            let ready = row.digest.condition(READY).filter(|_| control.ready)?;
            let left = time_left(ready.last_transition_time.0, min_ready, now);
            control.available = left.is_none();
            left
        });
        waits.min()
    }

    /// The deployment as the rollout planner needs it.
    pub fn control(&self, spec: &Spec) -> rollout::Deployment {
        let (city_code, location) = self.place(spec);
        rollout::Deployment {
            name: self.name.clone(),
            uid: self.row.uid.clone(),
            replicas: spec.replicas,
            policy: spec.policy,
            strategy: spec.strategy,
            workload_uid: spec.workload_uid.clone(),
            workload_name: spec.workload.clone(),
            placement_name: spec.placement.clone(),
            city_code,
            location,
        }
    }
}

/// Time until `span` has passed since a moment; `None` if it has, and for a moment in the future, because a clock was wrong.
fn time_left(since: Timestamp, span: SignedDuration, now: Timestamp) -> Option<Duration> {
    let left = span
        .checked_sub(now.duration_since(since))
        .filter(|left| *left <= span)?;
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}
