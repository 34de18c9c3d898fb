//! Applies watch events and the answers to writes to the index.

use super::{CellIndex, Claims, change::Change, digest, tables::TableId};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::Plane,
    plane::watch::WatchEvent,
    store::{
        apply::{RowChange, apply_event},
        table::Table,
    },
};
use kube::core::DynamicObject;
use std::collections::BTreeSet;
use tokio::time::Instant;

/// Effects of one watch event.
#[derive(Debug, Default)]
pub struct Applied {
    /// The changes that decisions may depend on.
    pub changes: Vec<Change>,
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
    pub fn event(&mut self, plane: &Plane, table: TableId, event: WatchEvent) -> Applied {
        match plane {
            Plane::Cell | Plane::Hub => self.own_event(table, event),
            Plane::Project(project) if table == TableId::Claims => self.claim_event(project, event),
            Plane::Project(_) => Applied::default(),
        }
    }

    /// Records the deletion timestamp of an Instance; the rows have none, since few Instances are being deleted.
    fn note_deletion(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::InitApply(object) | WatchEvent::Apply(object) | WatchEvent::Written(object) => {
                let metadata = &object.metadata;
                if let (Some(uid), Some(since)) = (&metadata.uid, &metadata.deletion_timestamp) {
                    self.deleted.insert(uid.as_str().into(), since.0);
                }
            }
            WatchEvent::Delete(object) => {
                let uid = object.metadata.uid.as_deref().unwrap_or_default();
                self.deleted.remove(uid);
            }
            WatchEvent::InitDone => {
                let rows = self.instances.iter();
                let deleting: BTreeSet<_> = rows
                    .filter(|(_, row)| row.deleting)
                    .map(|(_, row)| &row.uid)
                    .collect();
                self.deleted.retain(|uid, _| deleting.contains(uid));
            }
            WatchEvent::Init | WatchEvent::Failed | WatchEvent::Resumed | WatchEvent::Rewound => {}
        }
    }

    fn own_event(&mut self, table: TableId, event: WatchEvent) -> Applied {
        let mut applied = Applied::default();
        if table == TableId::Instances && !self.looks_at_pods() && has_provider_finalizer(&event) {
            self.retiring = true;
            applied.retires = true;
        }
        if table == TableId::Instances {
            self.note_deletion(&event);
        }
        let external = self.reading.external.clone();
        let limits = self.reading.limits.clone();
        let event = self.selected(table, event);
        /// Applies the event to a table and adds the change of each row.
        macro_rules! take {
            ($table:ident, $read:expr, $change:expr) => {{
                let (deltas, first) = apply_event(&mut self.$table, event, &mut self.words, $read);
                applied.synced = first;
                #[allow(
                    clippy::redundant_closure_call,
                    reason = "the macro's callers name the change"
                )]
                applied
                    .changes
                    .extend(deltas.into_iter().map(|delta| ($change)(&*self, delta)));
                !applied.changes.is_empty()
            }};
        }
        let changed = match table {
            TableId::Namespaces => take!(namespaces, digest::namespace, |_, d: RowChange<_>| {
                Change::Namespace(d.name.1)
            }),
            TableId::Deployments => take!(
                deployments,
                |object, words| digest::deployment(object, &limits, words),
                |index: &Self, d| index.deployment_change(&d)
            ),
            TableId::Instances => take!(instances, digest::instance, |index: &Self, d| index
                .instance_change(&d)),
            TableId::ConfigMaps => take!(config_maps, |_, _| (), |_, d: RowChange<()>| {
                Change::Companion {
                    kind: "ConfigMap",
                    name: d.name,
                }
            }),
            TableId::Secrets => take!(secrets, |_, _| (), |_, d: RowChange<()>| {
                Change::Companion {
                    kind: "Secret",
                    name: d.name,
                }
            }),
            TableId::Pods => take!(
                pods,
                |object, words| digest::pod(object, external.as_deref(), words),
                |_, d: RowChange<_>| Change::Pod(d.name)
            ),
            TableId::Services => take!(services, digest::service, |_, d: RowChange<_>| Change::Pod(
                d.name
            )),
            TableId::NetworkPolicies => {
                take!(network_policies, digest::network_policy, |_, d: RowChange<_>| {
                    Change::Pod(d.name)
                })
            }
            TableId::Releases => take!(
                releases,
                |object, _| serde_json::from_value(object.data["data"].clone()).unwrap_or_default(),
                |_, d: RowChange<_>| Change::Release(d.name)
            ),
            TableId::ServingLocations => take!(places, digest::place, |_, _| Change::Location),
            TableId::MiloServingLocations => take!(milo_places, digest::place, |_, _| Change::Location),
            TableId::Bindings => take!(bindings, digest::binding, |index: &Self, d| index
                .binding_change(&d)),
            TableId::Contexts => take!(contexts, digest::context, |index: &Self, d| index
                .context_change(&d)),
            TableId::SubnetClaims => take!(subnet_claims, digest::subnet_claim, |index: &Self, d| index
                .subnet_claim_change(&d)),
            TableId::Subnets => take!(subnets, digest::readiness, |index: &Self, d| index
                .subnet_change(&d)),
            TableId::HubNamespaces => take!(hub_namespaces, digest::namespace, |_, d: RowChange<_>| {
                Change::Namespace(d.name.1)
            }),
            TableId::HubDeployments => {
                take!(hub_deployments, digest::hub_deployment, |_, d: RowChange<_>| {
                    Change::HubDeployment(d.name)
                })
            }
            TableId::HubDeploymentsHere => {
                take!(
                    hub_deployments_here,
                    digest::hub_deployment,
                    |_, d: RowChange<_>| Change::HubDeployment(d.name)
                )
            }
            TableId::HubInstances => take!(copies, digest::copy, |_, d: RowChange<_>| {
                Change::HubInstance(d.name)
            }),
            TableId::Claims => false,
        };
        applied.moved = TableId::SERVING.contains(&table) && (changed || applied.synced);
        applied
    }

    /// The event as the watch would report it: the answer to a write may show an object without this cell's label. The
    /// watch selects by that label and never reports its deletion, so the row is removed now.
    fn selected(&self, table: TableId, event: WatchEvent) -> WatchEvent {
        match event {
            WatchEvent::Apply(object) | WatchEvent::Written(object)
                if table == TableId::HubInstances && !self.is_own_copy(&object) =>
            {
                WatchEvent::Delete(object)
            }
            event => event,
        }
    }

    fn is_own_copy(&self, copy: &DynamicObject) -> bool {
        let labels = copy.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(keys::CELL))
            .map(String::as_str)
            == Some(&*self.reading.cell)
    }

    fn claim_event(&mut self, project: &ProjectKey, event: WatchEvent) -> Applied {
        let Some(Claims { mut table, since }) = self.claims.remove(project) else {
            return Applied::default();
        };
        let mut applied = Applied::default();
        let (deltas, first) = apply_event(&mut table, event, &mut self.words, digest::claim);
        applied.synced = first;
        for delta in &deltas {
            let (namespace, name) = &delta.name;
            let now = table.get(namespace, name).map(|row| &row.digest);
            let claim = now.or(delta.old.as_ref().map(|row| &row.digest));
            let instance = claim.and_then(|claim| self.claimant(project, name, claim));
            applied.changes.extend(instance.map(Change::Claim));
        }
        self.claims.insert(project.clone(), Claims { table, since });
        if first {
            applied.changes.push(Change::ClaimsListed(project.clone()));
        }
        applied
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
