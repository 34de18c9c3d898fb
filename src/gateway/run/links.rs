//! The engaged planes: their watches fill the index and enqueue keys, and the executor writes through their clients.

use crate::gateway::{
    companions,
    index::{GatewayIndex, TableId, apply::Change, ownership::RejectedClaim},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    executor::PlaneAccess,
    key::{Key, Plane},
    metrics::{Metrics, PlaneKind},
    object::Unread,
    plan::{Target, WriteResult},
    plane::{
        client::Connection,
        health::PlaneHealth,
        lease::LeaseHandle,
        registry::{EngagedPlane, PlaneRegistry},
        watch::{self, WatchEvent, WatchSpec, WatchStatus},
    },
    runtime::queue::{Priority, Queue},
    watch_channel::{Receiver, Sender},
};
use futures::future::BoxFuture;
use kube::core::{DynamicObject, ObjectMeta};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Maximum time for which other lists wait for the lists that are needed to sync specs to the hub.
const HEAD_START: Duration = Duration::from_secs(5);

/// Each cell's status in a binding, which is not decoded: a cell may write any value there, and the gateway reads the
/// returned status from the copy.
const STATUS_OF_CELLS: Unread = &["status", "aggregatedStatus", "*", "status"];

/// State of an engaged plane beside its connection.
pub(super) struct PlaneWatches {
    references: bool,
    /// True once the lists of the first phase are complete, after which the other lists begin.
    first_phase_synced: Sender<bool>,
}

/// State shared by the executor and the watches.
pub(super) struct Links {
    pub(super) index: Arc<Mutex<GatewayIndex>>,
    pub(super) queue: Arc<Queue>,
    /// The hub's engagement starts at 0; it changes only if the hub is restored to an older state.
    pub(super) planes: PlaneRegistry<TableId, PlaneWatches>,
    pub(super) lease: LeaseHandle,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) metrics: Arc<Metrics>,
}

pub(super) enum Command {
    /// An object of the project references data, in this engagement of the project.
    WatchReferences(ProjectKey, u64),
    /// The plane has a new credential.
    CredentialChanged(Plane),
    /// The plane answers again after an outage.
    PlaneRecovered(Plane),
    /// The plane grants a permission that it denied before.
    PermissionGranted(Plane),
    /// The plane was restored to an older state in the first engagement; the second one begins.
    Rewound(Plane, u64, u64),
}

impl Links {
    pub(super) fn engage(
        self: &Arc<Self>,
        plane: &Plane,
        engagement: u64,
        connection: Connection,
        roles: &[TableId],
    ) {
        let own = PlaneWatches {
            references: false,
            first_phase_synced: Sender::new(false),
        };
        let mut engaged = EngagedPlane::new(engagement, connection, own);
        let hears = self
            .clone()
            .notify_recovery(plane.clone(), engaged.connection.health().clone());
        engaged.tasks.spawn(hears);
        self.planes.lock().insert(plane.clone(), engaged);
        self.watch_more(plane, roles);
    }

    /// Sends `PlaneRecovered` each time a plane answers again.
    async fn notify_recovery(self: Arc<Self>, plane: Plane, health: Arc<PlaneHealth>) {
        loop {
            health.recovered().await;
            // Fails only while the process ends.
            let _ = self.commands.send(Command::PlaneRecovered(plane.clone()));
        }
    }

    pub(super) fn watch_more(self: &Arc<Self>, plane: &Plane, roles: &[TableId]) {
        let mut planes = self.planes.lock();
        // The hub's lists are long and paged, and all projects wait for them: the projects' longer lists must not delay
        // them.
        let before: Vec<_> = [plane, &Plane::Hub]
            .into_iter()
            .filter_map(|plane| Some(planes.get(plane)?.own.first_phase_synced.subscribe()))
            .collect();
        let Some(engaged) = planes.get_mut(plane) else {
            return;
        };
        for role in roles {
            let health = Arc::new(WatchStatus::default());
            engaged.watches.push((*role, health.clone()));
            let (connection, engagement) = (engaged.connection.clone(), engaged.engagement);
            let before = if role.is_first_phase() {
                Vec::new()
            } else {
                before.clone()
            };
            let task = self
                .clone()
                .watch(plane.clone(), engagement, connection, *role, health, before);
            engaged.tasks.spawn(task);
        }
    }

    /// Watches until aborted, once the lists of the first phase are complete; restarts with each new credential.
    async fn watch(
        self: Arc<Self>,
        plane: Plane,
        engagement: u64,
        connection: Connection,
        role: TableId,
        health: Arc<WatchStatus>,
        before: Vec<Receiver<bool>>,
    ) {
        await_first_phase(before).await;
        let selection = WatchSpec {
            resource: self.index.lock().resource(role),
            namespace: None,
            labels: matches!(
                (&plane, role),
                (Plane::Hub, TableId::ConfigMaps | TableId::Secrets)
            )
            .then(|| format!("{}=true", fedgate_api::keys::REFERENCED_DATA)),
            fields: None,
            page: match (&plane, role) {
                (_, TableId::ConfigMaps | TableId::Secrets) => watch::LARGE_OBJECTS,
                (Plane::Hub, _) => watch::HUB_OBJECTS,
                (Plane::Project(_) | Plane::Cell, _) => watch::SMALL_OBJECTS,
            },
            unread: if role == TableId::Bindings {
                STATUS_OF_CELLS
            } else {
                &[]
            },
        };
        let sink = |event| self.event(&plane, engagement, role, event);
        let on_rights = |forbidden| self.rights(&plane, engagement, role, forbidden);
        let on_renewed = || {
            // Only the watch of Namespaces reports for the plane. Sending fails only while the process ends.
            if role == TableId::Namespaces {
                let _ = self.commands.send(Command::CredentialChanged(plane.clone()));
            }
        };
        watch::run_supervised(
            &plane,
            &connection,
            &selection,
            &health,
            sink,
            on_rights,
            on_renewed,
        )
        .await;
    }

    /// Handles an event of a watch. Never blocks.
    pub(super) fn event(&self, plane: &Plane, engagement: u64, role: TableId, event: WatchEvent) {
        let urgency = match &event {
            WatchEvent::Apply(_) | WatchEvent::Written(_) | WatchEvent::Delete(_) => Priority::Fresh,
            WatchEvent::Init
            | WatchEvent::InitApply(_)
            | WatchEvent::InitDone
            | WatchEvent::Failed
            | WatchEvent::Resumed => Priority::Backlog,
            WatchEvent::Rewound => return self.rewound(plane, engagement),
        };
        let may_prove = matches!(event, WatchEvent::InitDone | WatchEvent::Resumed);
        let mut index = self.index.lock();
        let mut change = match plane {
            Plane::Hub if index.is_engaged_hub(engagement) => index.hub_event(role, event),
            Plane::Project(key) if index.is_engaged(key, engagement) => index.project_event(key, role, event),
            Plane::Hub | Plane::Project(_) | Plane::Cell => return,
        };
        let uncarried = decidable(&index, plane, role, &mut change);
        if may_prove {
            change.keys.extend(index.take_unproven(plane));
        }
        let others_may_list = change.synced && index.first_phase_synced(plane);
        let references =
            matches!(plane, Plane::Project(key) if index.projects.get(key).is_some_and(|p| p.references));
        drop(index);
        self.refused(&change.refused);
        self.queue.extend(uncarried, Priority::Fresh);
        self.queue.extend(change.keys, urgency);
        if !others_may_list && !references {
            return;
        }
        let mut planes = self.planes.lock();
        let engaged = planes.get_mut(plane).filter(|e| e.engagement == engagement);
        let Some(engaged) = engaged else { return };
        if others_may_list {
            engaged.own.first_phase_synced.send(true);
        }
        if references
            && let Plane::Project(key) = plane
            && !std::mem::replace(&mut engaged.own.references, true)
        {
            // Fails only while the process ends.
            let _ = self
                .commands
                .send(Command::WatchReferences(key.clone(), engagement));
        }
    }

    /// Starts a new engagement of a plane that was restored to an older state: its state is listed again, and late
    /// events of the earlier engagement are dropped.
    fn rewound(&self, plane: &Plane, engagement: u64) {
        let Some(anew) = self.index.lock().rewind(plane, engagement) else {
            return;
        };
        tracing::warn!(
            %plane,
            "the plane was restored to an older state; all its kinds are listed again"
        );
        self.metrics.rewound(PlaneKind::from(plane));
        // Fails only while the process ends.
        let _ = self
            .commands
            .send(Command::Rewound(plane.clone(), engagement, anew));
    }

    /// Lists and watches all kinds of a plane again if the engagement is still the current one; the next one begins.
    pub(super) fn relist_plane(self: &Arc<Self>, plane: &Plane, engagement: u64, anew: u64) {
        let roles: Vec<TableId> = {
            let mut planes = self.planes.lock();
            let engaged = planes.get_mut(plane).filter(|e| e.engagement == engagement);
            let Some(engaged) = engaged else { return };
            engaged.engagement = anew;
            engaged.own.first_phase_synced.send(false);
            engaged.tasks.abort_all();
            let hears = self
                .clone()
                .notify_recovery(plane.clone(), engaged.connection.health().clone());
            engaged.tasks.spawn(hears);
            let watches = std::mem::take(&mut engaged.watches);
            watches.into_iter().map(|(role, _)| role).collect()
        };
        self.watch_more(plane, &roles);
    }

    /// Logs and counts rejected claims on hub namespaces.
    pub(super) fn refused(&self, refused: &[RejectedClaim]) {
        for RejectedClaim {
            claimant,
            hub,
            holder,
        } in refused
        {
            self.metrics.identity_rejected("hub_namespace_claimed");
            tracing::warn!(
                project = %claimant.project,
                namespace = &*claimant.namespace,
                hub_namespace = &**hub,
                %holder,
                "a project claims the hub namespace of another project; nothing of that namespace is synced to the hub; disengage the plane if it is a copy of the other, or reassign the hub namespace (docs/security.md)"
            );
        }
    }

    /// Records that a project grants or denies access to its `ConfigMaps` or Secrets.
    fn rights(&self, plane: &Plane, engagement: u64, role: TableId, forbidden: bool) {
        let (Plane::Project(key), Some(kind)) = (plane, companions::kind_of(role)) else {
            return;
        };
        let mut index = self.index.lock();
        let project = index.projects.get_mut(key);
        let Some(project) = project.filter(|p| p.engagement == engagement) else {
            return;
        };
        let changed = if forbidden {
            project.forbidden.insert(kind)
        } else {
            project.forbidden.remove(&kind)
        };
        let keys = if changed {
            index.project_keys(key)
        } else {
            Vec::new()
        };
        drop(index);
        self.queue.extend(keys, Priority::Fresh);
    }
}

/// Drops the keys of an event that may not be decided yet, and adds the keys that waited for a list which the event has
/// completed. Returns the deployments whose specs wait to be synced: an edit may have been made meanwhile, so they do
/// not belong in the backlog.
fn decidable(index: &GatewayIndex, plane: &Plane, role: TableId, change: &mut Change) -> Vec<Key> {
    let ready = match plane {
        Plane::Hub => index.hub_ready(),
        Plane::Project(key) => index.is_complete(key),
        Plane::Cell => false,
    };
    if !ready {
        change
            .keys
            .retain(|key| role.is_first_phase() && index.may_sync_spec(key));
    }
    if !change.synced {
        return Vec::new();
    }
    match plane {
        Plane::Hub => change.keys.extend(index.ready_keys()),
        Plane::Project(key) if ready => {
            change.keys.extend(index.hub_keys_of(key));
            change.keys.extend(index.project_keys(key));
        }
        Plane::Project(_) | Plane::Cell => {}
    }
    if role.is_first_phase() {
        index.unsynced_spec_keys(plane)
    } else {
        Vec::new()
    }
}

/// Waits until the first phase of these planes is complete, at most for `HEAD_START`: a list that fails or hangs does
/// not block others.
async fn await_first_phase(told: Vec<Receiver<bool>>) {
    let all = async {
        for mut told in told {
            told.wait_for(|told| told).await;
        }
    };
    // The other lists begin in both cases.
    let _ = tokio::time::timeout(HEAD_START, all).await;
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

    /// Only the hub's writes are protected by the Lease: a project that does not answer does not delay a hand-over, and
    /// the next leader observes and corrects a late write to a project.
    fn write_unresolved(&self, target: &Target) {
        if target.plane == Plane::Hub {
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

    fn object_observed(&self, target: &Target, engagement: u64, answer: WriteResult) {
        let Some(role) = self.index.lock().role_of(&target.kind()) else {
            return;
        };
        let event = match answer {
            WriteResult::Current(object) => {
                let version = object.metadata.resource_version.as_ref();
                if let Some(version) = version.filter(|_| engagement == self.engagement(&target.plane)) {
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
        self.event(&target.plane, engagement, role, event);
    }

    fn wrote(&self, target: &Target, reason: &'static str) {
        self.metrics
            .wrote(PlaneKind::from(&target.plane), &target.resource.kind, reason);
    }

    fn fight_detected(&self, target: &Target, field_group: &'static str) {
        self.metrics.write_fight(&target.resource.kind, field_group);
    }
}
