//! The planes that are engaged: their watches fill the index and wake the queue, and the executor writes through them.

use crate::{
    api::{keys, names::ProjectKey},
    cell::world::{Located, World, role::Role},
    engine::{
        executor::Surroundings,
        key::Plane,
        plan::{Answer, Target},
        queue::{Queue, Urgency},
    },
    metrics::Metrics,
    plane::{
        client::Connection,
        engaged::{Engaged, Planes},
        lease::LeaseHandle,
        watch::{self, Event, Health, Selection, reach::Reach},
    },
};
use futures::future::BoxFuture;
use kube::core::{DynamicObject, ObjectMeta};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// What executor and watches share.
pub(super) struct Links {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) queue: Arc<Queue>,
    pub(super) planes: Planes<Role, ()>,
    pub(super) lease: LeaseHandle,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) metrics: Arc<Metrics>,
}

pub(super) enum Command {
    /// The plane has a new credential.
    Renewed(Plane),
    /// The plane did not answer and does again.
    Revived(Plane),
    /// The plane refused a right and grants it.
    Permitted(Plane),
    /// The cell may be somewhere else.
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
        watches: Vec<(Role, Selection)>,
    ) {
        let mut engaged = Engaged::new(engagement, connection, ());
        let hears = self
            .clone()
            .hear(plane.clone(), engaged.connection.reach().clone());
        engaged.tasks.spawn(hears);
        for (n, watch) in watches.into_iter().enumerate() {
            self.begin(plane, &mut engaged, watch, n == 0);
        }
        self.planes.lock().insert(plane.clone(), engaged);
    }

    /// Whether a plane does not answer, or does not let us look.
    pub(super) fn is_away(&self, plane: &Plane) -> bool {
        let planes = self.planes.lock();
        planes.get(plane).is_some_and(|engaged| {
            let mut watches = engaged.watches.iter();
            engaged.connection.reach().is_away() || watches.any(|(_, health)| health.forbidden())
        })
    }

    /// Watches more on a plane that is engaged.
    pub(super) fn watch_further(self: &Arc<Self>, plane: &Plane, watches: Vec<(Role, Selection)>) {
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
        engaged: &mut Engaged<Role, ()>,
        (role, selection): (Role, Selection),
        speaks: bool,
    ) {
        let health = Arc::new(Health::default());
        engaged.watches.push((role, health.clone()));
        let connection = engaged.connection.clone();
        let task = self
            .clone()
            .watch(plane.clone(), connection, role, selection, health, speaks);
        engaged.tasks.spawn(task);
    }

    /// Tells each time that a plane which did not answer is heard of again.
    async fn hear(self: Arc<Self>, plane: Plane, reach: Arc<Reach>) {
        loop {
            reach.revived().await;
            // Fails only while the process ends.
            let _ = self.commands.send(Command::Revived(plane.clone()));
        }
    }

    /// Watches until aborted, and begins anew with each new credential; one of a plane's watches speaks for all.
    async fn watch(
        self: Arc<Self>,
        plane: Plane,
        connection: Connection,
        role: Role,
        selection: Selection,
        health: Arc<Health>,
        speaks: bool,
    ) {
        let sink = |event| self.event(&plane, role, event);
        let on_renewed = || {
            if speaks {
                // Fails only while the process ends.
                let _ = self.commands.send(Command::Renewed(plane.clone()));
            }
        };
        watch::keep(&plane, &connection, &selection, &health, sink, |_| {}, on_renewed).await;
    }

    /// One event of a watch. Never waits.
    pub(super) fn event(&self, plane: &Plane, role: Role, event: Event) {
        let urgency = match &event {
            Event::Applied(_) | Event::Answered(_) | Event::Deleted(_) => Urgency::Fresh,
            Event::Began
            | Event::Listed(_)
            | Event::Complete
            | Event::Failed
            | Event::Resumed
            | Event::Rewound => Urgency::Backlog,
        };
        let mut world = self.world.lock();
        let mut woken = world.event(plane, role, event);
        if !world.cell_ready() {
            // Nothing is decided yet.
            woken.keys.clear();
        } else if woken.synced {
            match plane {
                Plane::Cell => woken.keys = world.all_keys(),
                Plane::Hub if world.hub_ready() => woken.keys = world.instance_keys(),
                Plane::Hub | Plane::Project(_) => {}
            }
        }
        drop(world);
        self.queue.extend(woken.keys, urgency);
        let commands = [(woken.moved, Command::Moved), (woken.retires, Command::Retires)];
        for (_, command) in commands.into_iter().filter(|(is, _)| *is) {
            // Fails only while the process ends.
            let _ = self.commands.send(command);
        }
    }
}

/// What is watched on a plane in a role.
pub(super) fn selection(world: &World, role: Role) -> Selection {
    let managed = || Some(format!("{}=fedgate", "app.kubernetes.io/managed-by"));
    let labels = match role {
        Role::ConfigMaps | Role::Secrets => Some(format!("{}=true", keys::REFERENCED_DATA)),
        Role::Pods | Role::Services | Role::NetworkPolicies | Role::Releases => managed(),
        Role::HubInstances => Some(format!("{}={}", keys::CELL, world.reading.cell)),
        Role::Claims => Some(format!("{}={}", keys::SOURCE_CLUSTER, world.reading.cell)),
        Role::HubDeployments => match world.located() {
            Located::At { city, .. } => Some(format!("{}={city}", keys::CITY_CODE)),
            Located::Untold | Located::Nowhere | Located::Ambiguous(_) => None,
        },
        _ => None,
    };
    Selection {
        resource: role.resource(),
        namespace: (role == Role::Releases).then(|| world.reading.namespace.to_string()),
        labels,
        fields: None,
        page: match role {
            Role::ConfigMaps | Role::Secrets | Role::Releases => watch::LARGE_OBJECTS,
            _ => watch::HUB_OBJECTS,
        },
        unread: &[],
    }
}

impl Surroundings for Links {
    fn client(&self, plane: &Plane) -> Option<kube::Client> {
        self.planes.client(plane)
    }

    fn may_write(&self) -> bool {
        self.lease.may_write()
    }

    fn writing_ends(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.lease.writing_ends())
    }

    /// Only the cell's own writes are kept apart by the Lease: what reaches another plane late the next leader sees there
    /// and puts right.
    fn unanswered(&self, target: &Target) {
        if target.plane == Plane::Cell {
            self.lease.unanswered();
        }
    }

    fn scout(&self, plane: &Plane) -> Option<Result<(), Duration>> {
        self.planes.scout(plane)
    }

    fn heard(&self, plane: &Plane) {
        self.planes.heard(plane);
    }

    fn permitted(&self, plane: &Plane) {
        // Fails only while the process ends.
        let _ = self.commands.send(Command::Permitted(plane.clone()));
    }

    fn engagement(&self, plane: &Plane) -> u64 {
        self.planes.engagement(plane)
    }

    fn answered(&self, target: &Target, _engagement: u64, answer: Answer) {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let role = self
            .world
            .lock()
            .role_of(&target.plane, &target.kind(), namespace, &target.name);
        let Some(role) = role else { return };
        let event = match answer {
            Answer::Is(object) => {
                if let Some(version) = &object.metadata.resource_version {
                    self.planes.note_written(&target.plane, role, version);
                }
                Event::Answered(object)
            }
            Answer::Gone { uid } => Event::Deleted(Box::new(DynamicObject {
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

    fn fought(&self, target: &Target, field_group: &'static str) {
        self.metrics.write_fight(&target.resource.kind, field_group);
    }
}

/// The plane of a project.
pub(super) fn project(key: &ProjectKey) -> Plane {
    Plane::Project(key.clone())
}
