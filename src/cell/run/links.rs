//! The engaged planes: their watches fill the index and enqueue keys; the executor writes through them.

use crate::cell::index::{CellIndex, CellLocation, tables::TableId};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    executor::PlaneAccess,
    key::Plane,
    metrics::Metrics,
    plan::{Target, WriteResult},
    plane::{
        client::Connection,
        health::PlaneHealth,
        lease::LeaseHandle,
        registry::{EngagedPlane, PlaneRegistry},
        watch::{self, WatchEvent, WatchSpec, WatchStatus},
    },
    runtime::queue::{Priority, Queue},
};
use futures::future::BoxFuture;
use kube::core::{DynamicObject, ObjectMeta};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::mpsc;

/// State shared by executor and watches.
pub(super) struct Links {
    pub(super) index: Arc<Mutex<CellIndex>>,
    pub(super) queue: Arc<Queue>,
    pub(super) planes: PlaneRegistry<TableId, ()>,
    pub(super) lease: LeaseHandle,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) metrics: Arc<Metrics>,
}

pub(super) enum Command {
    /// The plane has a new credential.
    CredentialChanged(Plane),
    /// The plane did not answer and does again.
    PlaneRecovered(Plane),
    /// The plane denied a permission and grants it now.
    PermissionGranted(Plane),
    /// The location of the cell may have changed.
    Moved,
    /// Pods of a provider that is switched off are left.
    Retires,
}

impl Links {
    pub(super) fn engage(
        self: &Arc<Self>,
        plane: &Plane,
        engagement: u64,
        connection: Connection,
        watches: Vec<(TableId, WatchSpec)>,
    ) {
        let mut engaged = EngagedPlane::new(engagement, connection, ());
        let hears = self
            .clone()
            .notify_recovery(plane.clone(), engaged.connection.health().clone());
        engaged.tasks.spawn(hears);
        for (n, watch) in watches.into_iter().enumerate() {
            self.begin(plane, &mut engaged, watch, n == 0);
        }
        self.planes.lock().insert(plane.clone(), engaged);
    }

    /// True if a plane does not answer, or forbids a watch.
    pub(super) fn is_down(&self, plane: &Plane) -> bool {
        let planes = self.planes.lock();
        planes.get(plane).is_some_and(|engaged| {
            let mut watches = engaged.watches.iter();
            engaged.connection.health().is_down() || watches.any(|(_, health)| health.forbidden())
        })
    }

    /// Adds watches to an engaged plane.
    pub(super) fn watch_further(self: &Arc<Self>, plane: &Plane, watches: Vec<(TableId, WatchSpec)>) {
        let mut planes = self.planes.lock();
        let Some(engaged) = planes.get_mut(plane) else {
            return;
        };
        for watch in watches {
            self.begin(plane, engaged, watch, false);
        }
    }

    fn begin(
        self: &Arc<Self>,
        plane: &Plane,
        engaged: &mut EngagedPlane<TableId, ()>,
        (role, selection): (TableId, WatchSpec),
        speaks: bool,
    ) {
        let health = Arc::new(WatchStatus::default());
        engaged.watches.push((role, health.clone()));
        let connection = engaged.connection.clone();
        let task = self
            .clone()
            .watch(plane.clone(), connection, role, selection, health, speaks);
        engaged.tasks.spawn(task);
    }

    /// Sends `PlaneRecovered` each time a plane answers again.
    async fn notify_recovery(self: Arc<Self>, plane: Plane, health: Arc<PlaneHealth>) {
        loop {
            health.recovered().await;
            // Fails only while the process ends.
            let _ = self.commands.send(Command::PlaneRecovered(plane.clone()));
        }
    }

    /// Watches until aborted, with a restart on each new credential; a single watch of a plane reports the new
    /// credential.
    async fn watch(
        self: Arc<Self>,
        plane: Plane,
        connection: Connection,
        role: TableId,
        selection: WatchSpec,
        health: Arc<WatchStatus>,
        speaks: bool,
    ) {
        let sink = |event| self.event(&plane, role, event);
        let on_renewed = || {
            if speaks {
                // Fails only while the process ends.
                let _ = self.commands.send(Command::CredentialChanged(plane.clone()));
            }
        };
        watch::run_supervised(&plane, &connection, &selection, &health, sink, |_| {}, on_renewed).await;
    }

    /// Applies a watch event. Never blocks.
    pub(super) fn event(&self, plane: &Plane, role: TableId, event: WatchEvent) {
        let urgency = match &event {
            WatchEvent::Apply(_) | WatchEvent::Written(_) | WatchEvent::Delete(_) => Priority::Fresh,
            WatchEvent::Init
            | WatchEvent::InitApply(_)
            | WatchEvent::InitDone
            | WatchEvent::Failed
            | WatchEvent::Resumed
            | WatchEvent::Rewound => Priority::Backlog,
        };
        let mut index = self.index.lock();
        let mut change = index.event(plane, role, event);
        if !index.cell_ready() {
            // Before the cell's lists are complete, no key may be enqueued: no decision is possible yet.
            change.keys.clear();
        } else if change.synced {
            match plane {
                Plane::Cell => change.keys = index.all_keys(),
                Plane::Hub if index.hub_ready() => change.keys = index.instance_keys(),
                Plane::Hub | Plane::Project(_) => {}
            }
        }
        drop(index);
        self.queue.extend(change.keys, urgency);
        let commands = [(change.moved, Command::Moved), (change.retires, Command::Retires)];
        for (_, command) in commands.into_iter().filter(|(is, _)| *is) {
            // Fails only while the process ends.
            let _ = self.commands.send(command);
        }
    }
}

/// The watch specification of a table on its plane.
pub(super) fn selection(index: &CellIndex, role: TableId) -> WatchSpec {
    let managed = || Some(format!("{}=fedgate", "app.kubernetes.io/managed-by"));
    let labels = match role {
        TableId::ConfigMaps | TableId::Secrets => Some(format!("{}=true", keys::REFERENCED_DATA)),
        TableId::Pods | TableId::Services | TableId::NetworkPolicies | TableId::Releases => managed(),
        TableId::HubInstances => Some(format!("{}={}", keys::CELL, index.reading.cell)),
        TableId::Claims => Some(format!("{}={}", keys::SOURCE_CLUSTER, index.reading.cell)),
        TableId::HubDeployments => match index.located() {
            CellLocation::At { city, .. } => Some(format!("{}={city}", keys::CITY_CODE)),
            CellLocation::Untold | CellLocation::Nowhere | CellLocation::Ambiguous(_) => None,
        },
        _ => None,
    };
    WatchSpec {
        resource: role.resource(),
        namespace: (role == TableId::Releases).then(|| index.reading.namespace.to_string()),
        labels,
        fields: None,
        page: match role {
            TableId::ConfigMaps | TableId::Secrets | TableId::Releases => watch::LARGE_OBJECTS,
            _ => watch::HUB_OBJECTS,
        },
        unread: &[],
    }
}

impl PlaneAccess for Links {
    fn client(&self, plane: &Plane) -> Option<kube::Client> {
        self.planes.client(plane)
    }

    fn may_write(&self) -> bool {
        self.lease.may_write()
    }

    fn permit_expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.lease.permit_expired())
    }

    /// The Lease keeps only the cell's own writes apart: a late write on another plane is visible to the next leader,
    /// which corrects it.
    fn write_unresolved(&self, target: &Target) {
        if target.plane == Plane::Cell {
            self.lease.unanswered();
        }
    }

    fn health(&self, plane: &Plane) -> Option<Arc<PlaneHealth>> {
        self.planes.health(plane)
    }

    fn permission_granted(&self, plane: &Plane) {
        // Fails only while the process ends.
        let _ = self.commands.send(Command::PermissionGranted(plane.clone()));
    }

    fn engagement(&self, plane: &Plane) -> u64 {
        self.planes.engagement(plane)
    }

    fn object_observed(&self, target: &Target, _engagement: u64, answer: WriteResult) {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let role = self
            .index
            .lock()
            .role_of(&target.plane, &target.kind(), namespace, &target.name);
        let Some(role) = role else { return };
        let event = match answer {
            WriteResult::Current(object) => {
                if let Some(version) = &object.metadata.resource_version {
                    self.planes.note_written(&target.plane, role, version);
                }
                WatchEvent::Written(object)
            }
            WriteResult::Deleted { uid } => WatchEvent::Delete(Box::new(DynamicObject {
                types: None,
                metadata: ObjectMeta {
                    name: Some(target.name.clone()),
                    namespace: target.namespace.clone(),
                    uid: Some(uid),
                    ..ObjectMeta::default()
                },
                data: serde_json::Value::Null,
            })),
        };
        self.event(&target.plane, role, event);
    }

    fn wrote(&self, target: &Target, reason: &'static str) {
        self.metrics
            .wrote((&target.plane).into(), &target.resource.kind, reason);
    }

    fn fight_detected(&self, target: &Target, field_group: &'static str) {
        self.metrics.write_fight(&target.resource.kind, field_group);
    }
}

/// The plane of a project.
pub(super) fn project(key: &ProjectKey) -> Plane {
    Plane::Project(key.clone())
}
