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
use tokio::time::Instant;

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
            Plane::Project(_) | Plane::Home => Update::default(),
        }
    }

    fn own_event(&mut self, table: TableId, event: WatchEvent) -> Update<Self> {
        let mut applied = Update::default();
        let settings = self.settings.clone();
        let event = self.selected(table, event);
        /// Applies the event to a table and adds the change of each row.
        macro_rules! take {
            ($table:ident, $read:expr, $change:expr) => {{
                let (deltas, first) = apply_event(&mut self.$table, event, &mut self.strings, $read);
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
                let read = |object: &_, words: &mut _| digest::deployment(object, &settings, words);
                take!(deployments, read, Self::deployment_change);
            }
            TableId::Instances => take!(instances, digest::instance, Self::instance_change),
            TableId::ConfigMaps => take!(config_maps, |_, _| (), named(Change::ConfigMap)),
            TableId::Secrets => take!(secrets, |_, _| (), named(Change::Secret)),
            TableId::Pods => {
                let external = settings.pods.external_address.as_deref();
                let read = |object: &_, words: &mut _| digest::pod(object, external, words);
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
            TableId::Subnets => take!(subnets, digest::is_ready, Self::subnet_change),
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
            TableId::HubInstances => take!(write_backs, digest::write_back, named(Change::HubInstance)),
            TableId::Claims => {}
        }
        if !self.watches_pods() && applied.changes.iter().any(|change| self.has_started(change)) {
            self.retiring = true;
            applied.commands.push(Command::WatchPods);
        }
        if TableId::SERVING.contains(&table) && (applied.synced || !applied.changes.is_empty()) {
            applied.commands.push(Command::LocationChanged);
        }
        applied
    }

    /// True if an Instance changed that has the Pod provider's finalizer.
    fn has_started(&self, change: &Change) -> bool {
        let Change::Instance {
            name: (namespace, name),
            ..
        } = change
        else {
            return false;
        };
        let row = self.instances.get(namespace, name);
        row.is_some_and(|row| row.digest.has_finalizer(keys::PROVIDER_FINALIZER))
    }

    /// The event as the watch would report it: the answer to a write may show an object without this cell's label. The
    /// watch selects by that label and never reports its deletion, so the row is removed now.
    fn selected(&self, table: TableId, event: WatchEvent) -> WatchEvent {
        let is_own = |write_back: &DynamicObject| {
            let cell = write_back.labels().get(keys::CELL);
            cell.is_some_and(|cell| **cell == *self.settings.cell)
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
        let (deltas, first) = apply_event(&mut table, event, &mut self.strings, digest::claim);
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
