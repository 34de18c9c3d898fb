//! The planes that are engaged: their watches fill the index and wake the queue, and the executor writes through them.

use crate::{
    api::names::ProjectKey,
    engine::{
        executor::Surroundings,
        key::{Key, Plane},
        object::Unread,
        plan::{Answer, Target},
        queue::{Queue, Urgency},
        told::{Listener, Told},
    },
    gateway::{
        companions,
        world::{Role, World, events::Woken, ties::Refusal},
    },
    metrics::{Metrics, PlaneKind},
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

/// How long the lists that carrying needs have the planes for themselves, at most.
const HEAD_START: Duration = Duration::from_secs(5);

/// What each cell reports, in a binding: cells may write anything there, and copies bring what is returned.
const STATUS_OF_CELLS: Unread = &["status", "aggregatedStatus", "*", "status"];

/// What is kept of an engaged plane beside the way to it.
pub(super) struct Own {
    references: bool,
    /// Whether the lists are complete after which the others begin.
    others_may_list: Told<bool>,
}

/// What executor and watches share.
pub(super) struct Links {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) queue: Arc<Queue>,
    /// The engagement of the hub, which has one alone, is 0.
    pub(super) planes: Planes<Role, Own>,
    pub(super) lease: LeaseHandle,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) metrics: Arc<Metrics>,
}

pub(super) enum Command {
    /// Something in the project references data, in this engagement of it.
    WatchReferences(ProjectKey, u64),
    /// The plane has a new credential.
    Renewed(Plane),
    /// The plane did not answer and does again.
    Revived(Plane),
    /// The plane refused a right and grants it.
    Permitted(Plane),
    /// The plane was restored to an older state in this engagement of it; the next one begins.
    Rewound(Plane, u64, u64),
}

impl Links {
    pub(super) fn engage(
        self: &Arc<Self>,
        plane: &Plane,
        engagement: u64,
        connection: Connection,
        roles: &[Role],
    ) {
        let own = Own {
            references: false,
            others_may_list: Told::new(false),
        };
        let mut engaged = Engaged::new(engagement, connection, own);
        let hears = self
            .clone()
            .hear(plane.clone(), engaged.connection.reach().clone());
        engaged.tasks.spawn(hears);
        self.planes.lock().insert(plane.clone(), engaged);
        self.watch_more(plane, roles);
    }

    /// Tells each time that a plane which did not answer is heard of again.
    async fn hear(self: Arc<Self>, plane: Plane, reach: Arc<Reach>) {
        loop {
            reach.revived().await;
            // Fails only while the process ends.
            let _ = self.commands.send(Command::Revived(plane.clone()));
        }
    }

    pub(super) fn watch_more(self: &Arc<Self>, plane: &Plane, roles: &[Role]) {
        let mut planes = self.planes.lock();
        // The hub's lists are long and read page by page: all projects wait for them, and the projects' longer lists must
        // not take their time.
        let before: Vec<_> = [plane, &Plane::Hub]
            .into_iter()
            .filter_map(|plane| Some(planes.get(plane)?.own.others_may_list.listen()))
            .collect();
        let Some(engaged) = planes.get_mut(plane) else {
            return;
        };
        for role in roles {
            let health = Arc::new(Health::default());
            engaged.watches.push((*role, health.clone()));
            let (connection, engagement) = (engaged.connection.clone(), engaged.engagement);
            let before = if role.is_for_carrying() {
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

    /// Watches until aborted, after the lists that come before, and begins anew with each new credential.
    async fn watch(
        self: Arc<Self>,
        plane: Plane,
        engagement: u64,
        connection: Connection,
        role: Role,
        health: Arc<Health>,
        before: Vec<Listener<bool>>,
    ) {
        head_start(before).await;
        let selection = Selection {
            resource: self.world.lock().resource(role),
            namespace: None,
            labels: matches!((&plane, role), (Plane::Hub, Role::ConfigMaps | Role::Secrets))
                .then(|| format!("{}=true", crate::api::keys::REFERENCED_DATA)),
            fields: None,
            page: match (&plane, role) {
                (_, Role::ConfigMaps | Role::Secrets) => watch::LARGE_OBJECTS,
                (Plane::Hub, _) => watch::HUB_OBJECTS,
                (Plane::Project(_) | Plane::Cell, _) => watch::SMALL_OBJECTS,
            },
            unread: if role == Role::Bindings {
                STATUS_OF_CELLS
            } else {
                &[]
            },
        };
        let sink = |event| self.event(&plane, engagement, role, event);
        let on_rights = |forbidden| self.rights(&plane, engagement, role, forbidden);
        let on_renewed = || {
            // One of the plane's watches speaks for all. It fails only while the process ends.
            if role == Role::Namespaces {
                let _ = self.commands.send(Command::Renewed(plane.clone()));
            }
        };
        watch::keep(
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

    /// One event of a watch. Never waits.
    pub(super) fn event(&self, plane: &Plane, engagement: u64, role: Role, event: Event) {
        let urgency = match &event {
            Event::Applied(_) | Event::Answered(_) | Event::Deleted(_) => Urgency::Fresh,
            Event::Began | Event::Listed(_) | Event::Complete | Event::Failed | Event::Resumed => {
                Urgency::Backlog
            }
            Event::Rewound => return self.rewound(plane, engagement),
        };
        let may_prove = matches!(event, Event::Complete | Event::Resumed);
        let mut world = self.world.lock();
        let mut woken = match plane {
            Plane::Hub if world.is_engaged_hub(engagement) => world.hub_event(role, event),
            Plane::Project(key) if world.is_engaged(key, engagement) => world.project_event(key, role, event),
            Plane::Hub | Plane::Project(_) | Plane::Cell => return,
        };
        let uncarried = decidable(&world, plane, role, &mut woken);
        if may_prove {
            woken.keys.extend(world.take_unproven(plane));
        }
        let others_may_list = woken.synced && world.others_may_list(plane);
        let references =
            matches!(plane, Plane::Project(key) if world.projects.get(key).is_some_and(|p| p.references));
        drop(world);
        self.refused(&woken.refused);
        self.queue.extend(uncarried, Urgency::Fresh);
        self.queue.extend(woken.keys, urgency);
        if !others_may_list && !references {
            return;
        }
        let mut planes = self.planes.lock();
        let engaged = planes.get_mut(plane).filter(|e| e.engagement == engagement);
        let Some(engaged) = engaged else { return };
        if others_may_list {
            engaged.own.others_may_list.tell(true);
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

    /// A plane was restored to an older state: all that is known of it begins anew, and what comes late of before is not
    /// listened to.
    fn rewound(&self, plane: &Plane, engagement: u64) {
        let Some(anew) = self.world.lock().rewind(plane, engagement) else {
            return;
        };
        tracing::warn!(
            %plane,
            "the plane was restored to an older state: it is read anew, and what follows is decided from what is there"
        );
        self.metrics.rewound(PlaneKind::from(plane));
        // Fails only while the process ends.
        let _ = self
            .commands
            .send(Command::Rewound(plane.clone(), engagement, anew));
    }

    /// Lists and watches all of a plane anew, if it is still in this engagement: the next one begins.
    pub(super) fn begin_anew(self: &Arc<Self>, plane: &Plane, engagement: u64, anew: u64) {
        let roles: Vec<Role> = {
            let mut planes = self.planes.lock();
            let engaged = planes.get_mut(plane).filter(|e| e.engagement == engagement);
            let Some(engaged) = engaged else { return };
            engaged.engagement = anew;
            engaged.own.others_may_list.tell(false);
            engaged.tasks.abort_all();
            let hears = self
                .clone()
                .hear(plane.clone(), engaged.connection.reach().clone());
            engaged.tasks.spawn(hears);
            let watches = std::mem::take(&mut engaged.watches);
            watches.into_iter().map(|(role, _)| role).collect()
        };
        self.watch_more(plane, &roles);
    }

    /// Says which claims on hub namespaces were refused.
    pub(super) fn refused(&self, refused: &[Refusal]) {
        for Refusal {
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
                "a project has a namespace whose hub namespace is another project's: nothing of it goes to the hub; disengage the plane if it is a copy of the other, or give it the hub namespace (docs/security.md)"
            );
        }
    }

    /// A project shows or hides its `ConfigMaps` or Secrets.
    fn rights(&self, plane: &Plane, engagement: u64, role: Role, forbidden: bool) {
        let (Plane::Project(key), Some(kind)) = (plane, companions::kind_of(role)) else {
            return;
        };
        let mut world = self.world.lock();
        let project = world.projects.get_mut(key);
        let Some(project) = project.filter(|p| p.engagement == engagement) else {
            return;
        };
        let changed = if forbidden {
            project.forbidden.insert(kind)
        } else {
            project.forbidden.remove(&kind)
        };
        let keys = if changed {
            world.project_keys(key)
        } else {
            Vec::new()
        };
        drop(world);
        self.queue.extend(keys, Urgency::Fresh);
    }
}

/// Leaves of the keys that an event has woken those that may be decided, and adds what waited for a list that it has
/// completed. Returns the deployments that waited to be carried: an edit made meanwhile may be among them, so that they
/// are not for the backlog.
fn decidable(world: &World, plane: &Plane, role: Role, woken: &mut Woken) -> Vec<Key> {
    let ready = match plane {
        Plane::Hub => world.hub_ready(),
        Plane::Project(key) => world.is_complete(key),
        Plane::Cell => false,
    };
    if !ready {
        woken
            .keys
            .retain(|key| role.is_for_carrying() && world.may_carry(key));
    }
    if !woken.synced {
        return Vec::new();
    }
    match plane {
        Plane::Hub => woken.keys.extend(world.ready_keys()),
        Plane::Project(key) if ready => {
            woken.keys.extend(world.hub_keys_of(key));
            woken.keys.extend(world.project_keys(key));
        }
        Plane::Project(_) | Plane::Cell => {}
    }
    if role.is_for_carrying() {
        world.uncarried_keys(plane)
    } else {
        Vec::new()
    }
}

/// Waits until all of this has been told, or for a while: a list that fails or hangs holds up no other.
async fn head_start(told: Vec<Listener<bool>>) {
    let all = async {
        for mut told in told {
            told.until(|told| told).await;
        }
    };
    // Either way it is time.
    let _ = tokio::time::timeout(HEAD_START, all).await;
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

    /// Only the hub's writes are kept apart by the Lease: a project that does not answer holds up nobody's hand-over, and
    /// what reaches it late the next leader sees and puts right.
    fn unanswered(&self, target: &Target) {
        if target.plane == Plane::Hub {
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

    fn answered(&self, target: &Target, engagement: u64, answer: Answer) {
        let Some(role) = self.world.lock().role_of(&target.kind()) else {
            return;
        };
        let event = match answer {
            Answer::Is(object) => {
                let version = object.metadata.resource_version.as_ref();
                if let Some(version) = version.filter(|_| engagement == self.engagement(&target.plane)) {
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
        self.event(&target.plane, engagement, role, event);
    }

    fn wrote(&self, target: &Target, reason: &'static str) {
        self.metrics
            .wrote(PlaneKind::from(&target.plane), &target.resource.kind, reason);
    }

    fn fought(&self, target: &Target, field_group: &'static str) {
        self.metrics.write_fight(&target.resource.kind, field_group);
    }
}
