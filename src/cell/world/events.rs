//! What comes in by watches and answers.

use super::{Claims, World, digest, role::Role, waking::namesake};
use crate::{
    api::{keys, names::ProjectKey},
    engine::key::{Key, Plane},
    plane::{feed::feed, table::Table, watch::Event},
};
use kube::core::DynamicObject;
use tokio::time::Instant;

/// What an event leads to.
#[derive(Debug, Default)]
pub struct Woken {
    /// Keys to look at.
    pub keys: Vec<Key>,
    /// A list was completed for the first time.
    pub synced: bool,
    /// The cell may be somewhere else than before.
    pub moved: bool,
    /// From now on Pods and Services are looked at, too.
    pub retires: bool,
}

fn has_provider_finalizer(event: &Event) -> bool {
    let (Event::Listed(object) | Event::Applied(object) | Event::Answered(object)) = event else {
        return false;
    };
    let mut finalizers = object.metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == keys::PROVIDER_FINALIZER)
}

impl World {
    /// Takes in an event of a plane.
    pub fn event(&mut self, plane: &Plane, role: Role, event: Event) -> Woken {
        match plane {
            Plane::Cell | Plane::Hub => self.own_event(role, event),
            Plane::Project(project) if role == Role::Claims => self.claim_event(project, event),
            Plane::Project(_) => Woken::default(),
        }
    }

    fn own_event(&mut self, role: Role, event: Event) -> Woken {
        let mut woken = Woken::default();
        if role == Role::Instances && !self.looks_at_pods() && has_provider_finalizer(&event) {
            self.retiring = true;
            woken.retires = true;
        }
        let external = self.reading.external.clone();
        let limits = self.reading.limits.clone();
        let event = match event {
            // The answer to a write: the watch would never tell of its end.
            Event::Applied(object) | Event::Answered(object)
                if role == Role::HubInstances && !self.is_own_copy(&object) =>
            {
                Event::Deleted(object)
            }
            event => event,
        };
        /// Feeds a table and hands each difference, with the row as it is now, to what knows whom it wakes.
        macro_rules! take {
            ($table:ident, $read:expr, $wake:expr) => {{
                let (deltas, first) = feed(&mut self.$table, event, &mut self.words, $read);
                woken.synced = first;
                for delta in &deltas {
                    #[allow(
                        clippy::redundant_closure_call,
                        reason = "the macro's callers name what wakes"
                    )]
                    ($wake)(&*self, delta, &mut woken.keys);
                }
                !deltas.is_empty()
            }};
        }
        match role {
            Role::Namespaces => take!(namespaces, digest::namespace, Self::wake_for_namespace),
            Role::Deployments => take!(
                deployments,
                |object, words| digest::deployment(object, &limits, words),
                Self::wake_for_deployment
            ),
            Role::Instances => take!(instances, digest::instance, Self::wake_for_instance),
            Role::ConfigMaps => take!(config_maps, |_, _| (), |w: &Self, d, k| w.wake_for_data(
                "ConfigMap",
                d,
                k
            )),
            Role::Secrets => take!(secrets, |_, _| (), |w: &Self, d, k| w
                .wake_for_data("Secret", d, k)),
            Role::Pods => take!(
                pods,
                |object, words| digest::pod(object, external.as_deref(), words),
                namesake(Role::Pods)
            ),
            Role::Services => take!(services, digest::service, namesake(Role::Pods)),
            Role::NetworkPolicies => {
                take!(network_policies, digest::network_policy, namesake(Role::Pods))
            }
            Role::Releases => take!(
                releases,
                |object, _| serde_json::from_value(object.data["data"].clone()).unwrap_or_default(),
                namesake(Role::Releases)
            ),
            Role::ServingLocations => {
                let moved = take!(places, digest::place, Self::wake_for_place);
                woken.moved = moved || woken.synced;
                moved
            }
            Role::Bindings => take!(bindings, digest::binding, Self::wake_for_binding),
            Role::Contexts => take!(contexts, digest::context, Self::wake_for_context),
            Role::SubnetClaims => take!(subnet_claims, digest::subnet_claim, Self::wake_for_subnet_claim),
            Role::Subnets => take!(subnets, digest::readiness, Self::wake_for_subnet),
            Role::HubNamespaces => take!(hub_namespaces, digest::namespace, Self::wake_for_namespace),
            Role::HubDeployments => take!(
                hub_deployments,
                digest::hub_deployment,
                Self::wake_for_hub_deployment
            ),
            Role::HubInstances => take!(copies, digest::copy, namesake(Role::Instances)),
            Role::Claims => false,
        };
        woken
    }

    fn is_own_copy(&self, copy: &DynamicObject) -> bool {
        let labels = copy.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(keys::CELL))
            .map(String::as_str)
            == Some(&*self.reading.cell)
    }

    fn claim_event(&mut self, project: &ProjectKey, event: Event) -> Woken {
        let Some(Claims { mut table, since }) = self.claims.remove(project) else {
            return Woken::default();
        };
        let mut woken = Woken::default();
        let (deltas, first) = feed(&mut table, event, &mut self.words, digest::claim);
        woken.synced = first;
        for delta in &deltas {
            let (namespace, name) = &delta.name;
            let now = table.get(namespace, name).map(|row| &row.digest);
            let claim = now.or(delta.old.as_ref().map(|row| &row.digest));
            woken
                .keys
                .extend(claim.and_then(|claim| self.claimant(project, name, claim)));
        }
        self.claims.insert(project.clone(), Claims { table, since });
        if first {
            woken.keys.extend(self.keys_of_project(project));
            // Their rolls may have waited for it.
            woken.keys.extend(self.deployments_of_project(project));
        }
        woken
    }

    /// From now on the claims of a project are watched.
    pub fn engage(&mut self, project: &ProjectKey) {
        let claims = Claims {
            table: Table::default(),
            since: Instant::now(),
        };
        self.claims.insert(project.clone(), claims);
    }
}
