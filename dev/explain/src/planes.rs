//! The planes of the play, and the gateway's access to them, which applies every change to the index.

use super::record::{HUB, PROJECT, Record};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    executor::PlaneAccess,
    key::Plane,
    metrics::PlaneKind,
    plan::{ReasonLabel, Target, WriteResult},
    plane::{
        health::PlaneHealth,
        watch::{WatchEvent, WatchSpec},
    },
    runtime::{Runtime, index::Index},
};
use fedgate_gateway::Gateway;
use fedgate_karmada::Object;
use fedgate_simulator::{self as simulator, Simulator};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

/// The user that the gateway is for the planes.
const GATEWAY: &str = "gateway";

/// See the module.
pub(super) struct Planes {
    pub(super) simulator: Simulator,
    pub(super) hub: simulator::Plane,
    pub(super) project: simulator::Plane,
    pub(super) record: Mutex<Record>,
    pub(super) key: ProjectKey,
    pub(super) engagement: AtomicU64,
    pub(super) runtime: OnceLock<Weak<Runtime<Gateway>>>,
}

impl Planes {
    /// A hub and a project without objects of their own.
    pub(super) fn new(key: ProjectKey, now: Timestamp) -> Self {
        let simulator = Simulator::new(1);
        let [hub, project] = [HUB, PROJECT].map(|name| simulator.add(name));
        Self {
            record: Mutex::new(Record::new(&simulator, &hub, now)),
            simulator,
            hub,
            project,
            key,
            engagement: AtomicU64::default(),
            runtime: OnceLock::new(),
        }
    }

    /// All planes, those of members, too.
    pub(super) fn all(&self) -> impl Iterator<Item = simulator::Plane> {
        let names = self.simulator.names().into_iter();
        names.filter_map(|name| self.simulator.plane(&name))
    }

    /// A number that grows with each change on any plane.
    pub(super) fn version(&self) -> u64 {
        self.all().map(|plane| plane.revision()).sum()
    }

    /// Lists the tables of the index anew if there are changes since the last call.
    pub(super) fn feed(&self) {
        let has_changed = self.record.lock().update();
        let Some(runtime) = self.runtime.get().and_then(Weak::upgrade).filter(|_| has_changed) else {
            return;
        };
        let tables = runtime.shared.index.lock().tables();
        for (kind, table) in tables {
            let (of, plane, engagement) = match kind {
                PlaneKind::Hub => (&self.hub, Plane::Hub, 0),
                _ => (
                    &self.project,
                    Plane::Project(self.key.clone()),
                    self.engagement.load(Ordering::Relaxed),
                ),
            };
            let spec = runtime.shared.index.lock().watch_spec(&plane, table);
            let objects = of.list(&format!("{}.{}", spec.resource.plural, spec.resource.group));
            let listed = objects.iter().filter(|object| is_watched(&spec, object));
            let listed = listed.filter_map(|object| serde_json::from_value(Value::clone(object)).ok());
            let listed = listed.map(WatchEvent::InitApply);
            for event in [WatchEvent::Init]
                .into_iter()
                .chain(listed)
                .chain([WatchEvent::InitDone])
            {
                runtime.shared.planes.event(&plane, engagement, table, event);
            }
        }
    }
}

/// True if a watch shows the object.
fn is_watched(spec: &WatchSpec, object: &Value) -> bool {
    let label = spec.labels.as_ref().and_then(|text| text.split_once('='));
    let namespace = spec.namespace.as_ref();
    namespace.is_none_or(|namespace| *namespace == object.namespace())
        && label.is_none_or(|(key, value)| object.label(key) == Some(value))
}

impl PlaneAccess for Planes {
    fn client(&self, plane: &Plane) -> Option<Client> {
        let name = match plane {
            Plane::Hub => HUB,
            Plane::Project(_) => PROJECT,
            Plane::Cell => return None,
        };
        Some(Client::new(self.simulator.service(name, GATEWAY), "default"))
    }

    fn may_write(&self) -> bool {
        true
    }

    fn permit_expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn write_unresolved(&self, _: &Target) {}

    fn health(&self, _: &Plane) -> Option<Arc<PlaneHealth>> {
        None
    }

    fn object_observed(&self, _: &Target, _: u64, _: WriteResult) {
        self.feed();
    }

    fn wrote(&self, target: &Target, reason: ReasonLabel) {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let mut record = self.record.lock();
        record.give_reason(target.plane.kind(), namespace, &target.name, reason.label());
    }

    fn fight_detected(&self, _: &Target, _: &'static str) {}
}
