//! Applies watch events and the answers to writes to the index.

use super::{CellIndex, Claims, digest, tables::TableId, triggers::namesake};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::{Key, Plane},
    plane::watch::WatchEvent,
    store::{apply::apply_event, table::Table},
};
use kube::core::DynamicObject;
use tokio::time::Instant;

/// Effects of one watch event.
#[derive(Debug, Default)]
pub struct Change {
    /// Keys to enqueue.
    pub keys: Vec<Key>,
    /// True if a first list was completed.
    pub synced: bool,
    /// True if the location of the cell may have changed.
    pub moved: bool,
    /// True if the index watches Pods and Services from now on: the provider is off but has left its finalizer.
    pub retires: bool,
}

fn has_provider_finalizer(event: &WatchEvent) -> bool {
    let (WatchEvent::InitApply(object) | WatchEvent::Apply(object) | WatchEvent::Written(object)) = event
    else {
        return false;
    };
    let mut finalizers = object.metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == keys::PROVIDER_FINALIZER)
}

impl CellIndex {
    /// Applies a watch event of a plane to the index.
    pub fn event(&mut self, plane: &Plane, role: TableId, event: WatchEvent) -> Change {
        match plane {
            Plane::Cell | Plane::Hub => self.own_event(role, event),
            Plane::Project(project) if role == TableId::Claims => self.claim_event(project, event),
            Plane::Project(_) => Change::default(),
        }
    }

    fn own_event(&mut self, role: TableId, event: WatchEvent) -> Change {
        let mut change = Change::default();
        if role == TableId::Instances && !self.looks_at_pods() && has_provider_finalizer(&event) {
            self.retiring = true;
            change.retires = true;
        }
        let external = self.reading.external.clone();
        let limits = self.reading.limits.clone();
        let event = match event {
            // The answer to a write shows an object without this cell's label. The watch selects by that label and
            // never reports its deletion, so the row is removed now.
            WatchEvent::Apply(object) | WatchEvent::Written(object)
                if role == TableId::HubInstances && !self.is_own_copy(&object) =>
            {
                WatchEvent::Delete(object)
            }
            event => event,
        };
        /// Applies the event to a table and calls the enqueue function for each changed row.
        macro_rules! take {
            ($table:ident, $read:expr, $wake:expr) => {{
                let (deltas, first) = apply_event(&mut self.$table, event, &mut self.words, $read);
                change.synced = first;
                for delta in &deltas {
                    #[allow(
                        clippy::redundant_closure_call,
                        reason = "the macro's callers name what wakes"
                    )]
                    ($wake)(&*self, delta, &mut change.keys);
                }
                !deltas.is_empty()
            }};
        }
        match role {
            TableId::Namespaces => take!(namespaces, digest::namespace, Self::enqueue_for_namespace),
            TableId::Deployments => take!(
                deployments,
                |object, words| digest::deployment(object, &limits, words),
                Self::enqueue_for_deployment
            ),
            TableId::Instances => take!(instances, digest::instance, Self::enqueue_for_instance),
            TableId::ConfigMaps => take!(config_maps, |_, _| (), |w: &Self, d, k| w.enqueue_for_data(
                "ConfigMap",
                d,
                k
            )),
            TableId::Secrets => take!(secrets, |_, _| (), |w: &Self, d, k| w
                .enqueue_for_data("Secret", d, k)),
            TableId::Pods => take!(
                pods,
                |object, words| digest::pod(object, external.as_deref(), words),
                namesake(TableId::Pods)
            ),
            TableId::Services => take!(services, digest::service, namesake(TableId::Pods)),
            TableId::NetworkPolicies => {
                take!(network_policies, digest::network_policy, namesake(TableId::Pods))
            }
            TableId::Releases => take!(
                releases,
                |object, _| serde_json::from_value(object.data["data"].clone()).unwrap_or_default(),
                namesake(TableId::Releases)
            ),
            TableId::ServingLocations => {
                let moved = take!(places, digest::place, Self::enqueue_for_place);
                change.moved = moved || change.synced;
                moved
            }
            TableId::Bindings => take!(bindings, digest::binding, Self::enqueue_for_binding),
            TableId::Contexts => take!(contexts, digest::context, Self::enqueue_for_context),
            TableId::SubnetClaims => take!(
                subnet_claims,
                digest::subnet_claim,
                Self::enqueue_for_subnet_claim
            ),
            TableId::Subnets => take!(subnets, digest::readiness, Self::enqueue_for_subnet),
            TableId::HubNamespaces => take!(hub_namespaces, digest::namespace, Self::enqueue_for_namespace),
            TableId::HubDeployments => take!(
                hub_deployments,
                digest::hub_deployment,
                Self::enqueue_for_hub_deployment
            ),
            TableId::HubInstances => take!(copies, digest::copy, namesake(TableId::Instances)),
            TableId::Claims => false,
        };
        change
    }

    fn is_own_copy(&self, copy: &DynamicObject) -> bool {
        let labels = copy.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(keys::CELL))
            .map(String::as_str)
            == Some(&*self.reading.cell)
    }

    fn claim_event(&mut self, project: &ProjectKey, event: WatchEvent) -> Change {
        let Some(Claims { mut table, since }) = self.claims.remove(project) else {
            return Change::default();
        };
        let mut change = Change::default();
        let (deltas, first) = apply_event(&mut table, event, &mut self.words, digest::claim);
        change.synced = first;
        for delta in &deltas {
            let (namespace, name) = &delta.name;
            let now = table.get(namespace, name).map(|row| &row.digest);
            let claim = now.or(delta.old.as_ref().map(|row| &row.digest));
            change
                .keys
                .extend(claim.and_then(|claim| self.claimant(project, name, claim)));
        }
        self.claims.insert(project.clone(), Claims { table, since });
        if first {
            change.keys.extend(self.keys_of_project(project));
            // Rolling updates of this project may wait for this list.
            change.keys.extend(self.deployments_of_project(project));
        }
        change
    }

    /// Adds an empty claims table for a project whose claims are watched from now on.
    pub fn engage(&mut self, project: &ProjectKey) {
        let claims = Claims {
            table: Table::default(),
            since: Instant::now(),
        };
        self.claims.insert(project.clone(), claims);
    }
}
