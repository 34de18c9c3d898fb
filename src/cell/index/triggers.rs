//! Triggers: the keys to enqueue after a change, that is every object whose decision may depend on the change.

use super::{
    CellIndex,
    digest::{Deployment, HubDeployment, Instance, Namespace, Place},
    tables::TableId,
};
use crate::cell::{
    instance::ready::gates,
    network::decide::{Binding, Claim, Context, INTERFACE, Readiness},
    releases::record,
};
use fedgate_api::{
    conditions::{ConditionStatus, find, types::REFERENCED_DATA_READY},
    keys,
    names::ProjectKey,
};
use fedgate_engine::{key::Key, store::apply::RowChange};
use std::collections::BTreeSet;

/// Enqueues the key of this kind with the object's own namespace and name.
pub(super) fn namesake<D>(role: TableId) -> impl Fn(&CellIndex, &RowChange<D>, &mut Vec<Key>) {
    move |_, delta, keys| keys.push(role.key(&delta.name.0, &delta.name.1))
}

impl CellIndex {
    pub(super) fn enqueue_for_namespace(&self, delta: &RowChange<Namespace>, keys: &mut Vec<Key>) {
        let (_, namespace) = &delta.name;
        let instances = self.instances.in_namespace(namespace);
        keys.extend(instances.map(|(name, _)| TableId::Instances.key(namespace, name)));
        // Whether rolling updates are held depends on the project.
        let deployments = self.deployments.in_namespace(namespace);
        keys.extend(deployments.map(|(name, _)| TableId::Deployments.key(namespace, name)));
    }

    pub(super) fn enqueue_for_deployment(&self, delta: &RowChange<Deployment>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        keys.push(TableId::Deployments.key(namespace, name));
        let said = |of: &Deployment| (of.expected.clone(), of.data_error.clone());
        let before = delta.old.as_ref().map(|row| said(&row.digest));
        let now = self.deployments.get(namespace, name).map(|row| said(&row.digest));
        if before != now {
            keys.extend(self.waiting_for_data(namespace, name));
        }
    }

    /// Keys of a deployment's Instances that wait for referenced data.
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
            .map(|(name, _)| TableId::Instances.key(namespace, name))
            .collect()
    }

    pub(super) fn enqueue_for_instance(&self, delta: &RowChange<Instance>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        keys.push(TableId::Instances.key(namespace, name));
        if self.looks_at_pods() {
            keys.push(TableId::Pods.key(namespace, name));
        }
        let now = self.instances.get(namespace, name);
        let owners = [now, delta.old.as_ref()].into_iter().flatten();
        let mut deployments: Vec<&str> = owners
            .filter_map(|row| Some(&*row.digest.owner.as_ref()?.name))
            .collect();
        // An Instance with a name of a deployment's form occupies a slot of that deployment.
        deployments.extend(name.rsplit_once('-').map(|(deployment, _)| deployment));
        deployments.dedup();
        for deployment in deployments {
            if self.deployments.get(namespace, deployment).is_some() {
                keys.push(TableId::Deployments.key(namespace, deployment));
            }
        }
    }

    pub(super) fn enqueue_for_data(&self, kind: &str, delta: &RowChange<()>, keys: &mut Vec<Key>) {
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

    pub(super) fn enqueue_for_place(&self, _: &RowChange<Place>, keys: &mut Vec<Key>) {
        let all = self.deployments.iter();
        keys.extend(all.map(|((namespace, name), _)| TableId::Deployments.key(namespace, name)));
        let instances = self.instances.iter();
        let gated = instances.filter(|(_, row)| row.digest.has_gate(gates::NETWORK));
        keys.extend(gated.map(|((namespace, name), _)| TableId::Instances.key(namespace, name)));
    }

    pub(super) fn enqueue_for_binding(&self, delta: &RowChange<Binding>, keys: &mut Vec<Key>) {
        self.enqueue_bound(&delta.name.0, &delta.name.1, keys);
    }

    /// Enqueues the deployment that a binding belongs to, by the binding's name, and its Instances with a network gate.
    fn enqueue_bound(&self, namespace: &str, binding: &str, keys: &mut Vec<Key>) {
        let deployment = binding.rsplit_once(INTERFACE).map(|(deployment, _)| deployment);
        let deployment = deployment.filter(|name| self.deployments.get(namespace, name).is_some());
        let Some(deployment) = deployment else { return };
        keys.push(TableId::Deployments.key(namespace, deployment));
        let instances = self.instances.in_namespace(namespace);
        let gated = instances.filter(|(_, row)| {
            let owner = row.digest.owner.as_ref();
            owner.is_some_and(|owner| *owner.name == *deployment) && row.digest.has_gate(gates::NETWORK)
        });
        keys.extend(gated.map(|(name, _)| TableId::Instances.key(namespace, name)));
    }

    pub(super) fn enqueue_for_context(&self, delta: &RowChange<Context>, keys: &mut Vec<Key>) {
        self.enqueue_over(&delta.name.0, &delta.name.1, keys);
    }

    /// Enqueues the deployments whose bindings refer to a context.
    fn enqueue_over(&self, namespace: &str, context: &str, keys: &mut Vec<Key>) {
        for ((bound, binding), row) in self.bindings.iter() {
            let leads = |(ns, name): &(std::sync::Arc<str>, std::sync::Arc<str>)| {
                **ns == *namespace && **name == *context
            };
            if row.digest.context.as_ref().is_some_and(leads) {
                self.enqueue_bound(bound, binding, keys);
            }
        }
    }

    pub(super) fn enqueue_for_subnet_claim(&self, delta: &RowChange<Claim>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        let now = self.subnet_claims.get(namespace, name);
        for row in [now, delta.old.as_ref()].into_iter().flatten() {
            self.enqueue_over(namespace, &row.digest.context, keys);
        }
    }

    pub(super) fn enqueue_for_subnet(&self, delta: &RowChange<Readiness>, keys: &mut Vec<Key>) {
        let (namespace, name) = &delta.name;
        for (_, claim) in self.subnet_claims.in_namespace(namespace) {
            if claim.digest.subnet.as_ref() == Some(name) {
                self.enqueue_over(namespace, &claim.digest.context, keys);
            }
        }
    }

    pub(super) fn enqueue_for_hub_deployment(&self, delta: &RowChange<HubDeployment>, keys: &mut Vec<Key>) {
        let (namespace, deployment) = &delta.name;
        let instances = self.instances.in_namespace(namespace);
        let of_it = instances
            .filter(|(_, row)| row.digest.labels.get(keys::WORKLOAD_DEPLOYMENT_NAME) == Some(deployment));
        keys.extend(of_it.map(|(name, _)| TableId::Instances.key(namespace, name)));
    }

    /// Keys of the deployments that belong to a project.
    pub fn deployments_of_project(&self, project: &ProjectKey) -> Vec<Key> {
        let ours = self
            .deployments
            .iter()
            .map(|((namespace, name), _)| (namespace, name));
        let ours = ours.filter(|(namespace, _)| self.origin(namespace).is_some_and(|(of, _)| of == *project));
        ours.map(|(namespace, name)| TableId::Deployments.key(namespace, name))
            .collect()
    }

    /// True if a project did not answer the last quota request.
    pub fn is_quota_away(&self, project: &ProjectKey) -> bool {
        self.quota_unavailable.contains_key(project)
    }

    /// True if a project's claims are watched and the project answers, so that a new claim may be granted.
    pub fn may_be_granted(&self, project: &ProjectKey) -> bool {
        let claims = self.claims.get(project);
        claims.is_some_and(|claims| claims.table.synced())
            && !self.unreachable.contains(project)
            && !self.is_quota_away(project)
    }

    /// Records that a project did not answer a quota request for this Instance. Returns the project's deployments if
    /// this is the first failed request.
    pub fn quota_failed(&mut self, project: &ProjectKey, key: Key) -> Vec<Key> {
        let waiting = self.quota_unavailable.entry(project.clone()).or_default();
        let news = waiting.is_empty();
        waiting.insert(key);
        if news {
            return self.deployments_of_project(project);
        }
        Vec::new()
    }

    /// Records that a project answers quota requests. Returns the project's deployments if it did not answer before.
    pub fn quota_answered(&mut self, project: &ProjectKey) -> Vec<Key> {
        if self.quota_unavailable.remove(project).is_none() {
            return Vec::new();
        }
        self.deployments_of_project(project)
    }

    /// Removes an Instance whose quota is no longer requested: no request of this Instance would report the project's
    /// recovery. Returns the deployments of projects without a failed request left.
    pub fn quota_unwanted(&mut self, key: &Key) -> Vec<Key> {
        let mut over = Vec::new();
        self.quota_unavailable.retain(|project, waiting| {
            if waiting.remove(key) && waiting.is_empty() {
                over.push(project.clone());
            }
            !waiting.is_empty()
        });
        over.iter()
            .flat_map(|project| self.deployments_of_project(project))
            .collect()
    }

    /// Keys of the release records that name a project.
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
            .map(|((namespace, name), _)| TableId::Releases.key(namespace, name))
            .collect()
    }

    /// Projects whose claims the cell needs: for deployments and Instances if `quota` is on, for leftover claims, and
    /// for recorded releases.
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

    /// Keys of the Instances that belong to a project.
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
            .map(|(namespace, name)| TableId::Instances.key(namespace, name))
            .collect()
    }
}

/// True if an Instance waits for referenced data.
fn waits_for_data(instance: &Instance) -> bool {
    let condition = find(&instance.conditions, REFERENCED_DATA_READY);
    instance.has_gate(gates::REFERENCED_DATA) || condition.is_some_and(|c| c.status != ConditionStatus::True)
}
