//! Applies watch events and the answers to writes to the index.

use super::{CellIndex, Claims, change::Change, digest, tables::TableId, watches::Command};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::Plane,
    plane::watch::WatchEvent,
    runtime::index::Update,
    store::{
        apply::{RowChange, apply_event},
        table::{Name, Table},
    },
};
use kube::{ResourceExt, core::DynamicObject};
use std::collections::BTreeSet;
use tokio::time::Instant;

fn has_provider_finalizer(event: &WatchEvent) -> bool {
    let (WatchEvent::InitApply(object) | WatchEvent::Apply(object) | WatchEvent::Written(object)) = event
    else {
        return false;
    };
    object
        .finalizers()
        .iter()
        .any(|name| name == keys::PROVIDER_FINALIZER)
}

/// The change of an object of which only the name counts.
fn named<D>(change: fn(Name) -> Change) -> impl Fn(&CellIndex, &RowChange<D>) -> Change {
    move |_, delta| change(delta.name.clone())
}

impl CellIndex {
    /// Applies a watch event of a plane to the index.
    pub fn event(&mut self, plane: &Plane, table: TableId, event: WatchEvent) -> Update<Self> {
        match plane {
            Plane::Cell | Plane::Hub => self.own_event(table, event),
            Plane::Project(project) if table == TableId::Claims => self.claim_event(project, event),
            Plane::Project(_) => Update::default(),
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

    fn own_event(&mut self, table: TableId, event: WatchEvent) -> Update<Self> {
        let mut applied = Update::default();
        if table == TableId::Instances && !self.looks_at_pods() && has_provider_finalizer(&event) {
            self.retiring = true;
            applied.commands.push(Command::WatchPods);
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
                let change = $change;
                applied
                    .changes
                    .extend(deltas.iter().map(|delta| change(&*self, delta)));
            }};
        }
        match table {
            TableId::Namespaces => take!(namespaces, digest::namespace, named(Change::of_namespace)),
            TableId::Deployments => {
                let read = |object: &_, words: &mut _| digest::deployment(object, &limits, words);
                take!(deployments, read, Self::deployment_change);
            }
            TableId::Instances => take!(instances, digest::instance, Self::instance_change),
            TableId::ConfigMaps => take!(config_maps, |_, _| (), named(Change::ConfigMap)),
            TableId::Secrets => take!(secrets, |_, _| (), named(Change::Secret)),
            TableId::Pods => {
                let read = |object: &_, words: &mut _| digest::pod(object, external.as_deref(), words);
                take!(pods, read, named(Change::Pod));
            }
            TableId::Services => take!(services, digest::service, named(Change::Pod)),
            TableId::NetworkPolicies => take!(network_policies, digest::network_policy, named(Change::Pod)),
            TableId::Releases => take!(releases, digest::records, named(Change::Release)),
            TableId::ServingLocations => take!(places, digest::place, |_: &Self, _| Change::Location),
            TableId::MiloServingLocations => {
                take!(milo_places, digest::place, |_: &Self, _| Change::Location);
            }
            TableId::Bindings => take!(bindings, digest::binding, Self::binding_change),
            TableId::Contexts => take!(contexts, digest::context, Self::context_change),
            TableId::SubnetClaims => take!(subnet_claims, digest::subnet_claim, Self::subnet_claim_change),
            TableId::Subnets => take!(subnets, digest::readiness, Self::subnet_change),
            TableId::HubNamespaces => take!(hub_namespaces, digest::namespace, named(Change::of_namespace)),
            TableId::HubDeployments => {
                take!(
                    hub_deployments,
                    digest::hub_deployment,
                    named(Change::HubDeployment)
                );
            }
            TableId::HubDeploymentsHere => {
                take!(
                    hub_deployments_here,
                    digest::hub_deployment,
                    named(Change::HubDeployment)
                );
            }
            TableId::HubInstances => take!(copies, digest::copy, named(Change::HubInstance)),
            TableId::Claims => {}
        }
        if TableId::SERVING.contains(&table) && (applied.synced || !applied.changes.is_empty()) {
            applied.commands.push(Command::LocationChanged);
        }
        applied
    }

    /// The event as the watch would report it: the answer to a write may show an object without this cell's label. The
    /// watch selects by that label and never reports its deletion, so the row is removed now.
    fn selected(&self, table: TableId, event: WatchEvent) -> WatchEvent {
        let is_own = |copy: &DynamicObject| {
            let cell = copy.labels().get(keys::CELL);
            cell.is_some_and(|cell| **cell == *self.reading.cell)
        };
        match event {
            WatchEvent::Apply(object) | WatchEvent::Written(object)
                if table == TableId::HubInstances && !is_own(&object) =>
            {
                WatchEvent::Delete(object)
            }
            event => event,
        }
    }

    fn claim_event(&mut self, project: &ProjectKey, event: WatchEvent) -> Update<Self> {
        let Some(Claims { mut table, since }) = self.claims.remove(project) else {
            return Update::default();
        };
        let mut applied = Update::default();
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
