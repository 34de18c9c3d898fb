//! Whom a change wakes: the keys of everything whose decision may depend on what has changed.

use super::{
    World,
    digest::{Deployment, HubDeployment, Instance, Namespace, Place},
    role::Role,
};
use crate::{
    api::{
        conditions::{ConditionStatus, find, types::REFERENCED_DATA_READY},
        keys,
        names::ProjectKey,
    },
    cell::{
        instance::ready::gates,
        network::decide::{Binding, Claim, Context, INTERFACE, Readiness},
        releases::record,
    },
    engine::key::Key,
    plane::feed::Delta,
};
use std::collections::BTreeSet;

/// Wakes the key of this kind with the object's own name.
pub(super) fn namesake<D>(role: Role) -> impl Fn(&World, &Delta<D>, &mut Vec<Key>) {
    move |_, delta, keys| keys.push(role.key(&delta.name.0, &delta.name.1))
}

impl World {
    pub(super) fn wake_for_namespace(&self, delta: &Delta<Namespace>, keys: &mut Vec<Key>) {
        let (_, namespace) = &delta.name;
        let instances = self.instances.in_namespace(namespace);
        keys.extend(instances.map(|(name, _)| Role::Instances.key(namespace, name)));
        // Whether rolls are held depends on the project.
        let deployments = self.deployments.in_namespace(namespace);
        keys.extend(deployments.map(|(name, _)| Role::Deployments.key(namespace, name)));
    }

    pub(super) fn wake_for_deployment(&self, delta: &Delta<Deployment>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        keys.push(Role::Deployments.key(namespace, name));
        let said = |of: &Deployment| (of.expected.clone(), of.data_error.clone());
        let before = delta.old.as_ref().map(|row| said(&row.digest));
        let now = self.deployments.get(namespace, name).map(|row| said(&row.digest));
        if before != now {
            keys.extend(self.waiting_for_data(namespace, name));
        }
    }

    /// The Instances of a deployment that wait for referenced data.
    fn waiting_for_data(&self, namespace: &str, deployment: &str) -> Vec<Key> {
        let instances = self.instances.in_namespace(namespace);
        let waiting = instances.filter(|(_, row)| {
            let of_it = row
                .digest
                .owner
                .as_ref()
                .is_some_and(|owner| *owner.name == *deployment);
            of_it && waits_for_data(&row.digest)
        });
        waiting
            .map(|(name, _)| Role::Instances.key(namespace, name))
            .collect()
    }

    pub(super) fn wake_for_instance(&self, delta: &Delta<Instance>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        keys.push(Role::Instances.key(namespace, name));
        if self.looks_at_pods() {
            keys.push(Role::Pods.key(namespace, name));
        }
        let now = self.instances.get(namespace, name);
        let owners = [now, delta.old.as_ref()].into_iter().flatten();
        let mut deployments: Vec<&str> = owners
            .filter_map(|row| Some(&*row.digest.owner.as_ref()?.name))
            .collect();
        // Whoever holds a name of a deployment's form concerns it.
        deployments.extend(name.rsplit_once('-').map(|(deployment, _)| deployment));
        deployments.dedup();
        for deployment in deployments {
            if self.deployments.get(namespace, deployment).is_some() {
                keys.push(Role::Deployments.key(namespace, deployment));
            }
        }
    }

    pub(super) fn wake_for_data(&self, kind: &str, delta: &Delta<()>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        let token = format!("\"{kind}/{name}\"");
        let named = self.deployments.in_namespace(namespace).filter(|(_, row)| {
            row.digest
                .expected
                .as_ref()
                .is_some_and(|all| all.contains(&token))
        });
        for (deployment, _) in named {
            keys.extend(self.waiting_for_data(namespace, deployment));
        }
    }

    pub(super) fn wake_for_place(&self, _: &Delta<Place>, keys: &mut Vec<Key>) {
        let all = self.deployments.iter();
        keys.extend(all.map(|((namespace, name), _)| Role::Deployments.key(namespace, name)));
        let instances = self.instances.iter();
        let gated = instances.filter(|(_, row)| row.digest.has_gate(gates::NETWORK));
        keys.extend(gated.map(|((namespace, name), _)| Role::Instances.key(namespace, name)));
    }

    pub(super) fn wake_for_binding(&self, delta: &Delta<Binding>, keys: &mut Vec<Key>) {
        self.wake_bound(&delta.name.0, &delta.name.1, keys);
    }

    /// The deployment that a binding is for, by the binding's name.
    fn wake_bound(&self, namespace: &str, binding: &str, keys: &mut Vec<Key>) {
        let deployment = binding.rsplit_once(INTERFACE).map(|(deployment, _)| deployment);
        let deployment = deployment.filter(|name| self.deployments.get(namespace, name).is_some());
        let Some(deployment) = deployment else { return };
        keys.push(Role::Deployments.key(namespace, deployment));
        let instances = self.instances.in_namespace(namespace);
        let gated = instances.filter(|(_, row)| {
            let owner = row.digest.owner.as_ref();
            owner.is_some_and(|owner| *owner.name == *deployment) && row.digest.has_gate(gates::NETWORK)
        });
        keys.extend(gated.map(|(name, _)| Role::Instances.key(namespace, name)));
    }

    pub(super) fn wake_for_context(&self, delta: &Delta<Context>, keys: &mut Vec<Key>) {
        self.wake_over(&delta.name.0, &delta.name.1, keys);
    }

    /// The deployments whose bindings lead to a context.
    fn wake_over(&self, namespace: &str, context: &str, keys: &mut Vec<Key>) {
        for ((bound, binding), row) in self.bindings.iter() {
            let leads = |(ns, name): &(std::sync::Arc<str>, std::sync::Arc<str>)| {
                **ns == *namespace && **name == *context
            };
            if row.digest.context.as_ref().is_some_and(leads) {
                self.wake_bound(bound, binding, keys);
            }
        }
    }

    pub(super) fn wake_for_subnet_claim(&self, delta: &Delta<Claim>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        let now = self.subnet_claims.get(namespace, name);
        for row in [now, delta.old.as_ref()].into_iter().flatten() {
            self.wake_over(namespace, &row.digest.context, keys);
        }
    }

    pub(super) fn wake_for_subnet(&self, delta: &Delta<Readiness>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        for (_, claim) in self.subnet_claims.in_namespace(namespace) {
            if claim.digest.subnet.as_ref() == Some(name) {
                self.wake_over(namespace, &claim.digest.context, keys);
            }
        }
    }

    pub(super) fn wake_for_hub_deployment(&self, delta: &Delta<HubDeployment>, keys: &mut Vec<Key>) {
        let (namespace, deployment) = &delta.name;
        let instances = self.instances.in_namespace(namespace);
        let of_it = instances
            .filter(|(_, row)| row.digest.labels.get(keys::WORKLOAD_DEPLOYMENT_NAME) == Some(deployment));
        keys.extend(of_it.map(|(name, _)| Role::Instances.key(namespace, name)));
    }

    /// The deployments whose Instances' claims are in a project.
    pub fn deployments_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        let ours = self
            .deployments
            .iter()
            .map(|((namespace, name), _)| (namespace, name));
        let ours = ours.filter(|(namespace, _)| self.origin(namespace).is_some_and(|(of, _)| of == *project));
        ours.map(|(namespace, name)| Role::Deployments.key(namespace, name))
            .collect()
    }

    /// Whether a project gave no answer when quota was last asked for.
    pub fn is_quota_away(&self, project: &ProjectKey) -> bool {
        self.quota_away.contains_key(project)
    }

    /// Whether a project's claims are seen, so that one made now may be granted.
    pub fn may_be_granted(&self, project: &ProjectKey) -> bool {
        let claims = self.claims.get(project);
        claims.is_some_and(|claims| claims.table.synced())
            && !self.unreachable.contains(project)
            && !self.is_quota_away(project)
    }

    /// A project gave no answer about this Instance's quota. Returns whom that concerns if it is news.
    pub fn quota_failed(&mut self, project: &ProjectKey, key: Key) -> Vec<Key> {
        let waiting = self.quota_away.entry(project.clone()).or_default();
        let news = waiting.is_empty();
        waiting.insert(key);
        if news {
            return self.deployments_of_project(project);
        }
        Vec::new()
    }

    /// A project answers about quota.
    pub fn quota_answered(&mut self, project: &ProjectKey) -> Vec<Key> {
        if self.quota_away.remove(project).is_none() {
            return Vec::new();
        }
        self.deployments_of_project(project)
    }

    /// Nothing is asked for this Instance any more: nobody would hear when its project answers again.
    pub fn quota_unwanted(&mut self, key: &Key) -> Vec<Key> {
        let mut over = Vec::new();
        self.quota_away.retain(|project, waiting| {
            if waiting.remove(key) && waiting.is_empty() {
                over.push(project.clone());
            }
            !waiting.is_empty()
        });
        over.iter()
            .flat_map(|project| self.deployments_of_project(project))
            .collect()
    }

    /// The records that name a project.
    pub fn releases_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        let names = |text: &String| {
            let mut records = record::read(text).into_iter();
            records.any(|record| record.plane == project.as_str())
        };
        let of_it = self
            .releases
            .iter()
            .filter(|(_, row)| row.digest.values().any(names));
        of_it
            .map(|((namespace, name), _)| Role::Releases.key(namespace, name))
            .collect()
    }

    /// The projects whose claims are needed: for what is here if `quota` is on, for claims that are left behind, for
    /// releases that are recorded.
    pub fn needed_projects(&self, quota: bool) -> BTreeSet<ProjectKey> {
        let deployments = self.deployments.iter().map(|((namespace, _), _)| namespace);
        let instances = self.instances.iter().map(|((namespace, _), _)| namespace);
        let namespaces: BTreeSet<&std::sync::Arc<str>> = if quota {
            deployments.chain(instances).collect()
        } else {
            BTreeSet::new()
        };
        let here = namespaces
            .into_iter()
            .filter_map(|namespace| self.origin(namespace));
        let mut needed: BTreeSet<ProjectKey> = here.map(|(project, _)| project).collect();
        let with_claims = self.claims.iter().filter(|(_, claims)| {
            let mut all = claims.table.iter();
            all.any(|(_, row)| row.digest.cell.as_deref() == Some(&*self.reading.cell))
        });
        needed.extend(with_claims.map(|(project, _)| project.clone()));
        let records = self.releases.iter().flat_map(|(_, row)| row.digest.values());
        let projects = records.flat_map(|text| record::read(text));
        needed.extend(projects.filter_map(|record| ProjectKey::parse(&record.plane).ok()));
        needed
    }

    /// The Instances whose claims are in a project.
    pub fn keys_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        let ours = self.namespaces.iter().map(|((_, name), _)| name).filter(|name| {
            let origin = self.origin(name);
            origin.is_some_and(|(of, _)| of == *project)
        });
        let instances = |namespace| {
            self.instances
                .in_namespace(namespace)
                .map(move |(name, _)| (namespace, name))
        };
        ours.flat_map(|namespace| instances(namespace))
            .map(|(namespace, name)| Role::Instances.key(namespace, name))
            .collect()
    }
}

/// Whether an Instance waits for referenced data.
fn waits_for_data(instance: &Instance) -> bool {
    let condition = find(&instance.conditions, REFERENCED_DATA_READY);
    instance.has_gate(gates::REFERENCED_DATA) || condition.is_some_and(|c| c.status != ConditionStatus::True)
}
