//! The role `returns`: at a member, it sends the Secrets that objects of federated kinds name back to the hub (contract:
//! clusters.md §7).
//!
//! * [`secrets`]: the controller; its keys are those of the objects.
//! * [`index`]: digests of the objects, of the metadata of Secrets, and of the Namespaces of the hub; [`context`]: what the
//!   role shares; [`operations`]: its answers.

#![forbid(unsafe_code)]

pub mod context;
pub mod index;
mod operations;
pub mod reason;
pub mod secrets;

use context::{Context, Shared, State};
use fedgate_engine::{
    error::Failure,
    key::{Key, Plane},
    metrics::{Family, Gauges, Holder, PlaneKind},
    plan::Requeue,
    plane::{client::Connection, discovery::ProjectEvent},
    runtime::{self, Runtime, driver, index::Index, role::Role},
};
use fedgate_kinds::FederatedKind;
use index::{Change, ReturnsIndex, TableId};
use secrets::Secrets;
use std::{convert::Infallible, sync::Arc, time::Duration};

/// Interval at which parked keys are enqueued: no event may report the change that they wait for.
pub const SWEEP_INTERVAL: Duration = Duration::from_mins(5);

/// Engagement of both planes.
const ENGAGEMENT: u64 = 0;

/// The planes of a member's returns, and what is returned.
pub struct Setup {
    /// Connection to the member.
    pub member: Connection,
    /// Connection to the hub.
    pub hub: Connection,
    /// Name of the member's Karmada Cluster.
    pub name: Arc<str>,
    /// The federated kinds; those without returns are not watched.
    pub kinds: Vec<FederatedKind>,
}

/// The role's controller.
#[derive(Debug, Default)]
pub struct Returns {
    secrets: Secrets,
}

/// Creates the role; no key is reconciled before [`Runtime::run`].
pub fn new(of: Setup, setup: runtime::Setup) -> Arc<Runtime<Returns>> {
    let index = ReturnsIndex::new(of.kinds);
    let at_member = index.member_tables();
    let state = State { member: of.name };
    let runtime = Runtime::new(Returns::default(), state, index, setup);
    let planes = &runtime.shared.planes;
    planes.engage(&Plane::Cell, ENGAGEMENT, of.member, &at_member);
    planes.engage(&Plane::Hub, ENGAGEMENT, of.hub, &[TableId::HubNamespaces]);
    runtime
}

impl Role for Returns {
    type State = State;

    const LEASE_PLANE: PlaneKind = PlaneKind::Cell;
    const PLANES: &'static [PlaneKind] = &[PlaneKind::Cell, PlaneKind::Hub];
    const CONTROLLERS: &'static [&'static str] = &["secrets"];

    fn triggers(index: &ReturnsIndex, change: &Change, keys: &mut Vec<Key>) {
        index.keys_of(change, keys);
    }

    fn controller(&self, _: &Shared, _: &Key) -> &'static str {
        "secrets"
    }

    async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        driver::reconcile(&self.secrets, ctx, key).await
    }

    /// Another replica may have written meanwhile: each Secret is applied once more.
    fn on_leading(&self, _: &Shared) {
        self.secrets.forget();
    }

    fn on_command(&self, _: &Shared, command: Infallible) {
        match command {}
    }

    fn on_project(&self, _: &Shared, _: ProjectEvent) {}

    fn on_recovered(&self, shared: &Shared, _: &Plane) {
        shared.queue.retry_failed(|_| true);
    }

    fn on_rewound(&self, _: &Shared) {
        self.secrets.forget();
    }

    fn prune(&self, shared: &Shared) {
        self.secrets.prune(shared.now().instant);
        let index = shared.index.lock();
        shared.quarantine.retain(|key| index.object(key).is_some());
    }

    /// Checks that the lists of the member are complete. The hub may be down: its writes wait for it.
    fn ready(&self, shared: &Shared) -> Result<(), String> {
        let missing = shared.index.lock().missing();
        missing.map_or(Ok(()), |kind| {
            Err(format!("the list of {kind} at the member is not complete"))
        })
    }

    fn gauges(&self, shared: &Shared, into: &mut Gauges) {
        let index = &*shared.read_index(Holder::Metrics);
        for (plane, engaged) in shared.planes.lock().iter() {
            for (table, _) in &engaged.watches {
                let labels = [plane.kind(), &index.plural(*table)];
                into.set(Family::CachedObjects, &labels, index.len(*table));
            }
        }
    }

    fn describe(&self, _: &Shared, _: &ReturnsIndex) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}
