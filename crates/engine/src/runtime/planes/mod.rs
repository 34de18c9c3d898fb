//! The engaged planes: their watches fill the index and enqueue keys, and the executor writes through their clients.

#[cfg(test)]
mod tests;

use super::{
    index::{Index, Keys, Phase, Triggers, Update},
    optional_kinds,
    plane_states::PlaneStates,
    queue::{Priority, Queue},
};
use crate::{
    executor::PlaneAccess,
    key::Plane,
    metrics::{Family, Metrics, PlaneKind},
    plan::{ReasonLabel, Target, WriteResult},
    plane::{
        client::Connection,
        health::PlaneHealth,
        kubeconfig::TimeLeft,
        lease::LeaseHandle,
        watch::{self, WatchEvent, WatchStatus},
    },
    random::HashMap,
    watch_channel::{Receiver, Sender},
};
use futures::future::BoxFuture;
use kube::core::{DynamicObject, ObjectMeta};
use parking_lot::{Mutex, MutexGuard};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

/// Maximum time for which the lists of the second phase wait for those of the first.
pub const HEAD_START: Duration = Duration::from_secs(5);

/// A command to the main loop.
#[derive(Debug)]
pub(super) enum Command<C> {
    /// The plane has a new credential.
    CredentialChanged(Plane),
    /// The plane answers again after an outage, or grants a permission that it denied before.
    Recovered(Plane),
    /// The suspension of the plane's project has ended.
    Resumed(Plane),
    /// The plane was restored to an older state in the first engagement; the second one begins.
    Rewound(Plane, u64, u64),
    /// A command of the role.
    Role(C),
}

/// Receiver of the commands to the main loop.
pub(super) type Commands<I> = mpsc::UnboundedReceiver<Command<<I as Index>::Command>>;

/// An engaged plane; `T` identifies its watches.
#[derive(Debug)]
pub struct EngagedPlane<T> {
    /// Number of this engagement: a later engagement of the same plane may be another server.
    pub engagement: u64,
    /// Connection to the plane.
    pub connection: Connection,
    /// Start of the engagement.
    pub since: Instant,
    /// Watches of the plane.
    pub watches: Vec<(T, Arc<WatchStatus>)>,
    /// Handles of the tasks of the watches, in the same order.
    pub handles: Vec<AbortHandle>,
    /// Tasks that watch the plane, for as long as it is engaged.
    pub tasks: JoinSet<()>,
    /// The end of the credential and the time left to it that the log has reported.
    pub reported_expiry: Option<(i64, TimeLeft)>,
    /// True once the lists of the first phase are complete, after which the other lists begin.
    pub first_phase_synced: Sender<bool>,
}

impl<T> EngagedPlane<T> {
    /// A plane that is engaged now and not watched yet.
    pub fn new(engagement: u64, connection: Connection) -> Self {
        Self {
            engagement,
            connection,
            since: Instant::now(),
            watches: Vec::new(),
            handles: Vec::new(),
            tasks: JoinSet::new(),
            reported_expiry: None,
            first_phase_synced: Sender::new(false),
        }
    }
}

/// The engaged planes of a process; see the module.
pub struct EngagedPlanes<I: Index> {
    pub(super) index: Arc<Mutex<I>>,
    pub(super) queue: Arc<Queue>,
    registry: Mutex<HashMap<Plane, EngagedPlane<I::TableId>>>,
    /// The Lease that permits writes.
    pub lease: LeaseHandle,
    lease_plane: PlaneKind,
    pub(super) triggers: Triggers<I>,
    commands: mpsc::UnboundedSender<Command<I::Command>>,
    metrics: Arc<Metrics>,
    /// The states of the planes, for surveys.
    pub(super) states: PlaneStates,
}

impl<I: Index> EngagedPlanes<I> {
    /// No plane is engaged yet. Returns the receiver of the commands too.
    pub(super) fn new(
        index: Arc<Mutex<I>>,
        queue: Arc<Queue>,
        lease: LeaseHandle,
        lease_plane: PlaneKind,
        triggers: Triggers<I>,
        metrics: Arc<Metrics>,
    ) -> (Arc<Self>, Commands<I>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let planes = Self {
            index,
            queue,
            registry: Mutex::default(),
            lease,
            lease_plane,
            triggers,
            commands,
            metrics,
            states: PlaneStates::default(),
        };
        (Arc::new(planes), receiver)
    }

    /// All planes, under a lock: no other task sees them meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<Plane, EngagedPlane<I::TableId>>> {
        self.registry.lock()
    }

    /// Number of the plane's engagement; 0 if the plane is not engaged.
    pub fn engagement(&self, plane: &Plane) -> u64 {
        self.lock().get(plane).map_or(0, |engaged| engaged.engagement)
    }

    /// Sends a command to the role's main loop.
    pub(super) fn send(&self, command: I::Command) {
        self.command(Command::Role(command));
    }

    fn command(&self, command: Command<I::Command>) {
        // Fails only while the process ends.
        let _ = self.commands.send(command);
    }

    /// Engages a plane, and watches these tables. An earlier engagement ends.
    pub fn engage(
        self: &Arc<Self>,
        plane: &Plane,
        engagement: u64,
        connection: Connection,
        tables: &[I::TableId],
    ) {
        let looks = !self.optional_kinds(plane).is_empty();
        let mut planes = self.registry.lock();
        let engaged = planes
            .entry(plane.clone())
            .insert_entry(EngagedPlane::new(engagement, connection))
            .into_mut();
        // Only once the plane is there: the kinds that it serves would be watched of no plane.
        self.attend(plane, engaged, looks);
        drop(planes);
        self.watch_more(plane, tables);
    }

    /// Starts the tasks of an engagement beside its watches: one sends `Recovered` each time the plane answers again,
    /// with `looks` another one looks for its optional kinds.
    fn attend(self: &Arc<Self>, plane: &Plane, engaged: &mut EngagedPlane<I::TableId>, looks: bool) {
        let (planes, plane) = (self.clone(), plane.clone());
        if looks {
            // The set keeps a task that has ended, but not what is in the box.
            engaged.tasks.spawn(Box::pin(optional_kinds::discover(
                planes.clone(),
                plane.clone(),
                engaged.engagement,
                engaged.connection.clone(),
            )));
        }
        let health = engaged.connection.health().clone();
        engaged.tasks.spawn(async move {
            loop {
                health.recovered().await;
                planes.command(Command::Recovered(plane.clone()));
            }
        });
    }

    /// Watches these tables of an engaged plane too, each once.
    pub fn watch_more(self: &Arc<Self>, plane: &Plane, tables: &[I::TableId]) {
        let mut planes = self.registry.lock();
        // The hub's lists are long and paged, and all projects wait for them: the projects' longer lists must not delay
        // them.
        let before: Vec<_> = [plane, &Plane::Hub]
            .into_iter()
            .filter_map(|plane| Some(planes.get(plane)?.first_phase_synced.subscribe()))
            .collect();
        let Some(engaged) = planes.get_mut(plane) else {
            return;
        };
        for table in tables {
            if engaged.watches.iter().any(|(watched, _)| watched == table) {
                continue;
            }
            let watch = Watch {
                planes: self.clone(),
                plane: plane.clone(),
                engagement: engaged.engagement,
                table: *table,
                status: Arc::default(),
                reports_credential: engaged.watches.is_empty(),
            };
            let before = match I::phase(*table) {
                Phase::First => Vec::new(),
                Phase::Second => before.clone(),
            };
            engaged.watches.push((*table, watch.status.clone()));
            let handle = engaged.tasks.spawn(watch.run(engaged.connection.clone(), before));
            engaged.handles.push(handle);
        }
        drop(planes);
        self.states.may_have_changed(plane);
    }

    /// Ends the watches of these tables of a plane.
    pub(super) fn unwatch(&self, plane: &Plane, tables: &[I::TableId]) {
        let mut planes = self.registry.lock();
        let Some(engaged) = planes.get_mut(plane) else {
            return;
        };
        for table in tables {
            let watched = engaged.watches.iter().position(|(watched, _)| watched == table);
            if let Some(at) = watched {
                engaged.watches.remove(at);
                engaged.handles.remove(at).abort();
            }
        }
        drop(planes);
        self.states.may_have_changed(plane);
    }

    /// Ends the watches of a plane.
    pub(super) fn disengage(&self, plane: &Plane) {
        self.registry.lock().remove(plane);
        self.states.may_have_changed(plane);
    }

    /// Lists and watches all tables of a plane again if the engagement is still the current one; the next one begins.
    pub(super) fn watch_again(self: &Arc<Self>, plane: &Plane, engagement: u64, next: u64) {
        let looks = !self.optional_kinds(plane).is_empty();
        let tables: Vec<I::TableId> = {
            let mut planes = self.registry.lock();
            let engaged = planes.get_mut(plane).filter(|e| e.engagement == engagement);
            let Some(engaged) = engaged else { return };
            engaged.engagement = next;
            engaged.first_phase_synced.send(false);
            engaged.tasks.abort_all();
            engaged.handles.clear();
            self.attend(plane, engaged, looks);
            let watches = std::mem::take(&mut engaged.watches);
            watches.into_iter().map(|(table, _)| table).collect()
        };
        self.watch_more(plane, &tables);
    }

    /// Records that the state of a plane may have changed by what another plane told.
    pub fn state_may_have_changed(&self, plane: &Plane) {
        self.states.may_have_changed(plane);
    }

    /// True if a plane does not answer, or forbids a watch.
    pub fn is_down(&self, plane: &Plane) -> bool {
        let planes = self.registry.lock();
        planes.get(plane).is_some_and(|engaged| {
            let mut watches = engaged.watches.iter();
            engaged.connection.health().is_down() || watches.any(|(_, status)| status.forbidden())
        })
    }

    /// Applies an event of a watch, or the response to a request, and enqueues the keys that it concerns. Never blocks.
    pub fn event(&self, plane: &Plane, engagement: u64, table: I::TableId, event: WatchEvent) {
        let (priority, brought) = match &event {
            WatchEvent::Apply(_) => (Priority::Fresh, Some("applied")),
            WatchEvent::Delete(_) => (Priority::Fresh, Some("deleted")),
            WatchEvent::Written(_) => (Priority::Fresh, None),
            WatchEvent::Init
            | WatchEvent::InitApply(_)
            | WatchEvent::InitDone
            | WatchEvent::Failed
            | WatchEvent::Resumed => (Priority::Backlog, None),
            WatchEvent::Rewound => {
                let next = self.index.lock().rewind(plane, engagement);
                self.states.may_have_changed(plane);
                if let Some(next) = next {
                    return self.rewound(plane, engagement, next);
                }
                (Priority::Backlog, None)
            }
        };
        let is_object = matches!(
            event,
            WatchEvent::InitApply(_) | WatchEvent::Apply(_) | WatchEvent::Written(_) | WatchEvent::Delete(_)
        );
        let mut index = self.index.lock();
        if let Some(brought) = brought {
            let kind = index.plural(table);
            self.metrics
                .count(Family::WatchEvents, &[plane.kind(), &kind, brought]);
        }
        let Update {
            changes,
            keys: waited,
            synced,
            first_phase_synced,
            commands,
        } = index.apply(plane, engagement, table, event);
        let mut keys = Vec::new();
        for change in &changes {
            (self.triggers)(&index, change, &mut keys);
        }
        let Keys { keys, fresh } = index.admit(plane, table, synced, keys);
        drop(index);
        if !is_object || I::tells_state(table) {
            self.states.may_have_changed(plane);
        }
        self.queue.extend(fresh, Priority::Fresh);
        self.queue.extend(keys, priority);
        self.queue.extend(waited, priority);
        for command in commands {
            self.send(command);
        }
        if first_phase_synced
            && let Some(engaged) = self.registry.lock().get_mut(plane)
            && engaged.engagement == engagement
        {
            engaged.first_phase_synced.send(true);
        }
    }

    /// The next engagement of a plane begins: late events of the earlier one are dropped.
    fn rewound(&self, plane: &Plane, engagement: u64, next: u64) {
        tracing::warn!(
            %plane,
            "the plane was restored to an older state; all its kinds are listed again"
        );
        self.metrics.count(Family::Rewinds, &[plane.kind()]);
        self.command(Command::Rewound(plane.clone(), engagement, next));
    }
}

/// A watch of a plane's table, in one engagement.
struct Watch<I: Index> {
    planes: Arc<EngagedPlanes<I>>,
    plane: Plane,
    engagement: u64,
    table: I::TableId,
    status: Arc<WatchStatus>,
    /// True if this watch reports new credentials of the plane; the others do not.
    reports_credential: bool,
}

impl<I: Index> Watch<I> {
    /// Watches until aborted, once the lists of the first phase are complete; restarts with each new credential.
    async fn run(self, connection: Connection, before: Vec<Receiver<bool>>) {
        await_first_phase(before).await;
        let Self {
            planes,
            plane,
            engagement,
            table,
            status,
            reports_credential,
        } = self;
        let spec = planes.index.lock().watch_spec(&plane, table);
        let sink = |event| {
            if matches!(event, WatchEvent::Failed) {
                let kind = planes.index.lock().plural(table);
                let labels = [plane.kind(), &kind, status.restart_cause()];
                planes.metrics.count(Family::WatchRestarts, &labels);
            }
            planes.event(&plane, engagement, table, event);
        };
        let on_access = |forbidden| {
            let mut index = planes.index.lock();
            let keys = index.access_changed(&plane, engagement, table, forbidden);
            drop(index);
            planes.states.may_have_changed(&plane);
            planes.queue.extend(keys, Priority::Fresh);
        };
        let on_renewed = || {
            planes.states.may_have_changed(&plane);
            if reports_credential {
                planes.command(Command::CredentialChanged(plane.clone()));
            }
        };
        watch::run_supervised(&plane, &connection, &spec, &status, sink, on_access, on_renewed).await;
    }
}

/// Waits until the first phase of these planes is complete, at most for [`HEAD_START`]: a list that fails or hangs does
/// not block others.
async fn await_first_phase(planes: Vec<Receiver<bool>>) {
    let all = async {
        for mut synced in planes {
            synced.wait_for(|synced| synced).await;
        }
    };
    // The other lists begin in both cases.
    let _ = tokio::time::timeout(HEAD_START, all).await;
}

impl<I: Index> PlaneAccess for EngagedPlanes<I> {
    fn client(&self, plane: &Plane) -> Option<kube::Client> {
        let planes = self.lock();
        planes
            .get(plane)
            .map(|engaged| engaged.connection.current().client())
    }

    fn health(&self, plane: &Plane) -> Option<Arc<PlaneHealth>> {
        let planes = self.lock();
        planes
            .get(plane)
            .map(|engaged| engaged.connection.health().clone())
    }

    fn may_write(&self) -> bool {
        self.lease.may_write()
    }

    fn permit_expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.lease.permit_expired())
    }

    /// The Lease protects the writes to one plane only: another plane that does not answer does not delay a hand-over,
    /// and the next leader observes and corrects a late write there.
    fn write_unresolved(&self, target: &Target) {
        if PlaneKind::from(&target.plane) == self.lease_plane {
            self.lease.unanswered();
        }
    }

    fn permission_granted(&self, plane: &Plane) {
        self.command(Command::Recovered(plane.clone()));
    }

    fn suspension_ended(&self, plane: &Plane) {
        self.command(Command::Resumed(plane.clone()));
    }

    fn engagement(&self, plane: &Plane) -> u64 {
        self.engagement(plane)
    }

    fn object_observed(&self, target: &Target, engagement: u64, answer: WriteResult) {
        let Some(table) = self.index.lock().table_of(target) else {
            return;
        };
        let event = match answer {
            WriteResult::Current(object) => {
                let planes = self.lock();
                let engaged = planes.get(&target.plane).filter(|e| e.engagement == engagement);
                let watches = engaged.into_iter().flat_map(|engaged| &engaged.watches);
                for (_, status) in watches.filter(|(watched, _)| *watched == table) {
                    let version = object.metadata.resource_version.as_ref();
                    status.note_written(version.map_or("", String::as_str));
                }
                drop(planes);
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
        self.event(&target.plane, engagement, table, event);
    }

    fn wrote(&self, target: &Target, reason: ReasonLabel) {
        let labels = [target.plane.kind(), &target.resource.kind, reason.label()];
        self.metrics.count(Family::Writes, &labels);
    }

    fn fight_detected(&self, target: &Target, field_group: &'static str) {
        let labels = [&target.resource.kind, field_group];
        self.metrics.count(Family::WriteFights, &labels);
    }
}
