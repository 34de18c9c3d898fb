//! The planes of the play, and the gateway's access to them, which applies every change to the index.

use super::record::{HUB, PROJECT, Record};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    executor::PlaneAccess,
    key::Plane,
    plan::{ReasonLabel, Target, WriteResult},
    plane::{
        health::PlaneHealth,
        watch::{WatchEvent, WatchSpec},
    },
    runtime::{Runtime, index::Index},
};
use fedgate_gateway::{Gateway, index::GatewayIndex};
use fedgate_karmada::Object;
use fedgate_simulator::{self as simulator, Change, Simulator};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{
    Client,
    core::{ApiResource, DynamicObject},
};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

/// The user that the gateway is for the planes.
const GATEWAY: &str = "gateway";

type TableId = <GatewayIndex as Index>::TableId;

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

    /// A plane of the simulator as the gateway knows it, and the number of its engagement; `None` for members.
    fn plane(&self, name: &str) -> Option<(Plane, u64)> {
        match name {
            HUB => Some((Plane::Hub, 0)),
            PROJECT => Some((
                Plane::Project(self.key.clone()),
                self.engagement.load(Ordering::Relaxed),
            )),
            _ => None,
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

    /// Lists a table of the index.
    pub(super) fn list(&self, runtime: &Runtime<Gateway>, of: &simulator::Plane, table: TableId) {
        let Some((plane, engagement)) = self.plane(of.name()) else {
            return;
        };
        let spec = runtime.shared.index.lock().watch_spec(&plane, table);
        let resource = &spec.resource;
        let objects = of.list(&format!("{}.{}", resource.plural, resource.group));
        let objects = objects.iter().filter(|object| is_watched(&spec, object));
        let listed = objects.filter_map(|object| event(object, WatchEvent::InitApply));
        for event in [WatchEvent::Init]
            .into_iter()
            .chain(listed)
            .chain([WatchEvent::InitDone])
        {
            runtime.shared.planes.event(&plane, engagement, table, event);
        }
    }

    /// Applies the changes since the last call to the index.
    pub(super) fn feed(&self) {
        let changes = self.record.lock().update();
        let Some(runtime) = self.runtime.get().and_then(Weak::upgrade) else {
            return;
        };
        for change in changes {
            let Some((plane, engagement)) = self.plane(&change.plane) else {
                continue;
            };
            let (table, spec) = {
                let index = runtime.shared.index.lock();
                let Some(table) = target(&plane, &change).and_then(|target| index.table_of(&target)) else {
                    continue;
                };
                (table, index.watch_spec(&plane, table))
            };
            let shown =
                |object: &Option<Arc<Value>>| object.clone().filter(|object| is_watched(&spec, object));
            let event = match (shown(&change.before), shown(&change.after)) {
                (_, Some(after)) => event(&after, WatchEvent::Apply),
                (Some(before), None) => event(&before, WatchEvent::Delete),
                (None, None) => None,
            };
            if let Some(event) = event {
                runtime.shared.planes.event(&plane, engagement, table, event);
            }
        }
    }
}

fn event(object: &Value, event: fn(Box<DynamicObject>) -> WatchEvent) -> Option<WatchEvent> {
    let object = serde_json::from_value(object.clone()).ok()?;
    Some(event(Box::new(object)))
}

/// A changed object as the index names it.
fn target(plane: &Plane, change: &Change) -> Option<Target> {
    let object = change.after.as_ref().or(change.before.as_ref())?;
    let resource = ApiResource {
        group: change.group.to_string(),
        version: String::new(),
        api_version: String::new(),
        kind: String::new(),
        plural: change.resource.to_string(),
    };
    Some(match object.namespace() {
        "" => Target::cluster(plane.clone(), &resource, object.name()),
        namespace => Target::namespaced(plane.clone(), &resource, namespace, object.name()),
    })
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
            Plane::Cell | Plane::Home => return None,
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
