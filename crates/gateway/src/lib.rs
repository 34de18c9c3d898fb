//! The gateway: controllers between project planes and the hub, and how they react to changes of the planes.

#![forbid(unsafe_code)]

pub mod companions;
pub mod confirm;
pub mod context;
pub mod effects;
pub mod federator;
pub mod garbage;
mod gauges;
pub mod hub_permit;
pub mod index;
pub mod interpreters;
pub mod moves;
pub mod namespaces;
pub mod platform;
pub mod policies;
pub mod policy_spec;
pub mod projection;
pub mod projector;
pub mod queries;
pub mod rate_limit;
pub mod reason;
pub mod references;
pub mod returns;
pub mod route;
pub mod settings;
pub mod single_member;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod triggers;
pub mod workload;

use companions::Companions;
use context::{Context, Shared, State};
use federator::Federator;
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::{
    error::Failure,
    key::{Key, Plane},
    metrics::{Family, Gauges, PlaneKind, Stage},
    plan::Requeue,
    plane::{client::Connection, discovery::ProjectEvent},
    random::HashSet,
    runtime::{self, Access, Runtime, driver, index::Defect, queue::Priority, role::Role},
};
use fedgate_kinds::{CompanionKind, Kinds};
use garbage::Garbage;
use index::{
    GatewayIndex, NamespaceOwner, OTHER_HUB, TableId, apply::Applied, change::Change,
    derived::known_plane::KnownPlane, derived::ownership::RejectedClaim, derived::project_hub::OtherHub,
    networking::WorkloadChecks, single_member::pin, watches::Command,
};
use interpreters::Interpreters;
use moves::MovePlanner;
use namespaces::Namespaces;
use parking_lot::Mutex;
use platform::Platform;
use policies::Policies;
use projector::Projector;
use queries::lifecycle;
use rate_limit::RateLimiter;
use reason::IdentityRejection;
use returns::Returns;
use settings::Settings;
use std::{sync::Arc, time::Duration};
use workload::Workloads;

/// A project whose lists are incomplete after this time no longer delays readiness.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Name of the brake on projects that the platform does not know.
pub const PLATFORM: &str = "platform";

/// The keys that these changes concern.
fn keys_of(index: &GatewayIndex, changes: &[Change]) -> Vec<Key> {
    let mut keys = Vec::new();
    for change in changes {
        triggers::triggers(index, change, &mut keys);
    }
    keys
}

/// The gateway's controllers.
#[derive(Debug, Default)]
pub struct Gateway {
    federator: Federator,
    projector: Projector,
    returns: Returns,
    platform: Platform,
    workloads: Workloads,
    /// Controller of the interpreters, which counts those that others have changed.
    pub interpreters: Interpreters,
    /// Controller of garbage, which has the objects without origin and the brakes.
    pub garbage: Garbage,
    companions: Companions,
}

/// Creates a gateway for these kinds; no key is reconciled before [`Runtime::run`].
pub fn new(
    hub: Connection,
    kinds: Kinds,
    settings: Settings,
    setup: runtime::Setup,
) -> Arc<Runtime<Gateway>> {
    let (index, state) = parts(kinds, settings, &setup);
    let tables = index.hub_tables();
    let gateway = Runtime::new(Gateway::default(), state, index, setup);
    gateway.shared.planes.engage(&Plane::Hub, 0, hub, &tables);
    gateway
}

/// A gateway without planes, whose caller feeds the events and reconciles the keys of the queue itself.
pub fn over(
    kinds: Kinds,
    settings: Settings,
    setup: runtime::Setup,
    access: Access<'_, GatewayIndex>,
) -> Arc<Runtime<Gateway>> {
    let (index, state) = parts(kinds, settings, &setup);
    Runtime::over(Gateway::default(), state, index, setup, access)
}

fn parts(kinds: Kinds, settings: Settings, setup: &runtime::Setup) -> (GatewayIndex, State) {
    let mut checks = WorkloadChecks {
        locations: settings.location_source,
        networks: settings.networking,
        foreign_networks: settings.cross_namespace_networks,
        ..WorkloadChecks::default()
    };
    let instance_types = settings.instance_types.iter().cloned();
    checks.catalog.instance_types.extend(instance_types);
    let Kinds { federated, platform } = kinds;
    let mut index = GatewayIndex::new(Arc::new(federated.into()), checks).with_platform(platform);
    index.largest_spec = settings.max_spec_size;
    index.clock = setup.clock.clone();
    let state = State {
        rate_limiter: Arc::new(Mutex::new(RateLimiter::new(settings.hub_limits))),
        settings,
    };
    (index, state)
}

impl Gateway {
    fn engage(shared: &Shared, key: &ProjectKey, connection: Connection, uid: Option<Arc<str>>) {
        tracing::info!(project = %key, "project engaged");
        let plane = Plane::Project(key.clone());
        let (engagement, tables, keys) = {
            let mut index = shared.index.lock();
            let engagement = index.engage_identified(key.clone(), uid);
            let changes = index.project_engaged(key);
            (engagement, index.project_tables(), keys_of(&index, &changes))
        };
        shared.planes.engage(&plane, engagement, connection, &tables);
        shared.queue.extend(keys, Priority::Fresh);
    }

    /// The brakes on garbage that hold: of projects by their labels, `hub`, and `platform` while Projects are absent whose
    /// deletion nobody observed.
    pub fn brakes(&self, index: &GatewayIndex) -> Vec<String> {
        let mut brakes = self.garbage.brakes();
        brakes.extend(index.teardown.is_held().then(|| PLATFORM.to_owned()));
        brakes
    }

    /// Changes the index, and enqueues the keys that the changes concern.
    fn enqueue(shared: &Shared, priority: Priority, change: impl FnOnce(&mut GatewayIndex) -> Vec<Change>) {
        let keys = {
            let mut index = shared.index.lock();
            let changes = change(&mut index);
            keys_of(&index, &changes)
        };
        shared.queue.extend(keys, priority);
    }

    fn disengage(&self, shared: &Shared, key: &ProjectKey) {
        tracing::info!(project = %key, "project removed; its objects on the hub are kept");
        shared.disengage(&Plane::Project(key.clone()));
        self.follow(shared, |index| index.disengage(key));
    }

    /// Changes the index, and follows what comes of that.
    fn follow(&self, shared: &Shared, change: impl FnOnce(&mut GatewayIndex) -> Applied) {
        let mut index = shared.index.lock();
        let applied = change(&mut index);
        let keys = keys_of(&index, &applied.changes);
        drop(index);
        for command in applied.commands {
            self.on_command(shared, command);
        }
        shared.queue.extend(keys, Priority::Fresh);
    }
}

impl Role for Gateway {
    type State = State;

    const LEASE_PLANE: PlaneKind = PlaneKind::Hub;
    const PLANES: &'static [PlaneKind] = &[PlaneKind::Hub, PlaneKind::Project];
    const CONTROLLERS: &'static [&'static str] = &[
        "federator",
        "workload",
        "namespaces",
        "policies",
        "interpreters",
        "garbage",
        "projector",
        "companions",
        "returns",
        "platform",
        "moves",
    ];
    const STAGES: &'static [Stage] = &[
        Stage::ProjectToHub,
        Stage::HubStatusToProject,
        Stage::WritebackToProjection,
    ];

    const REJECTIONS: &'static [&'static str] = IdentityRejection::WORDS;

    /// The pins of a hub namespace are one object, and each of its objects writes its own.
    fn expects_conflict(failure: &Failure) -> bool {
        failure.plane == Plane::Hub && pin::is_record(&failure.object)
    }

    fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
        triggers::triggers(index, change, keys);
    }

    fn controller(&self, shared: &Shared, key: &Key) -> &'static str {
        let (table, owned) = {
            let index = shared.index.lock();
            (
                index.table_of_kind(&key.kind),
                index.owners.contains_key(&key.name),
            )
        };
        match (&key.plane, table) {
            (Plane::Project(_), Some(TableId::Federated(_))) => "federator",
            (Plane::Project(_), Some(TableId::Workloads)) => "workload",
            (Plane::Project(_), Some(TableId::Companions(CompanionKind::SECRET))) => "returns",
            (Plane::Hub, Some(TableId::Namespaces)) if owned => "namespaces",
            (Plane::Hub, Some(TableId::CityPolicies)) => "policies",
            (Plane::Hub, Some(TableId::Interpreters)) => "interpreters",
            (Plane::Hub, Some(TableId::Clusters)) => "moves",
            (
                Plane::Hub,
                Some(TableId::Namespaces | TableId::CitySets | TableId::Federated(_) | TableId::Bindings),
            ) => "garbage",
            (Plane::Hub, Some(TableId::WrittenBack(_))) => "projector",
            (Plane::Hub | Plane::Project(_), Some(TableId::Platform(_))) => "platform",
            (Plane::Hub, Some(table)) if table.companion().is_some() => "companions",
            _ => "none",
        }
    }

    fn project(&self, shared: &Shared, key: &Key) -> Option<ProjectKey> {
        if let Plane::Project(project) = &key.plane {
            return Some(project.clone());
        }
        lifecycle::home_of(&shared.index.lock(), key).map(|(project, _)| project)
    }

    async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let (table, owned) = {
            let index = ctx.index.lock();
            (
                index.table_of_kind(&key.kind),
                index.owners.contains_key(&key.name),
            )
        };
        let Some(table) = table else {
            return Ok(Requeue::AwaitChange);
        };
        match (&key.plane, table) {
            (Plane::Project(_), TableId::Federated(_)) => driver::reconcile(&self.federator, ctx, key).await,
            (Plane::Project(_), TableId::Workloads) => driver::reconcile(&self.workloads, ctx, key).await,
            (Plane::Project(_), TableId::Companions(CompanionKind::SECRET)) => {
                driver::reconcile(&self.returns, ctx, key).await
            }
            (Plane::Hub, TableId::Namespaces) if owned => {
                self.garbage.lives(key);
                driver::reconcile(&Namespaces, ctx, key).await
            }
            (Plane::Hub, TableId::CityPolicies) => driver::reconcile(&Policies, ctx, key).await,
            (Plane::Hub, TableId::Interpreters) => driver::reconcile(&self.interpreters, ctx, key).await,
            (Plane::Hub, TableId::Clusters) => driver::reconcile(&MovePlanner, ctx, key).await,
            (Plane::Hub, TableId::Namespaces) => {
                driver::reconcile(&garbage::Namespaces(&self.garbage), ctx, key).await
            }
            (Plane::Hub, TableId::CitySets) => {
                driver::reconcile(&garbage::CitySets(&self.garbage), ctx, key).await
            }
            (Plane::Hub, TableId::Federated(_)) => {
                driver::reconcile(&garbage::Copies(&self.garbage), ctx, key).await
            }
            (Plane::Hub, TableId::Bindings) => {
                driver::reconcile(&garbage::Bindings(&self.garbage), ctx, key).await
            }
            (Plane::Hub, TableId::WrittenBack(_)) => driver::reconcile(&self.projector, ctx, key).await,
            (Plane::Hub, TableId::Platform(_)) => Ok(self.platform.examine(ctx, key)),
            (Plane::Project(_), TableId::Platform(_)) => driver::reconcile(&self.platform, ctx, key).await,
            (Plane::Hub, table) if table.companion().is_some() => {
                driver::reconcile(&self.companions, ctx, key).await
            }
            _ => Ok(Requeue::AwaitChange),
        }
    }

    fn on_leading(&self, shared: &Shared) {
        self.follow(shared, GatewayIndex::lead);
        self.garbage.reset();
    }

    fn on_command(&self, shared: &Shared, command: Command) {
        match command {
            Command::WatchReferences(key, engagement, tables) => {
                let plane = Plane::Project(key);
                // A project that is engaged again meanwhile sends its own command.
                if shared.planes.engagement(&plane) == engagement {
                    shared.planes.watch_more(&plane, &tables);
                }
            }
            Command::ReportRejected(claim) => report_rejected(shared, &claim),
            Command::ReportOtherHub(project, other) => report_other_hub(shared, &project, other.as_ref()),
            Command::ReportKnownPlane(project, known) => report_known_plane(shared, &project, known.as_ref()),
        }
    }

    fn on_project(&self, shared: &Shared, event: ProjectEvent) {
        match event {
            ProjectEvent::Engaged { key, connection, uid } => Self::engage(shared, &key, connection, uid),
            ProjectEvent::Removed { key } => self.disengage(shared, &key),
            ProjectEvent::Suspension { key, suspended } => {
                Self::enqueue(shared, Priority::Backlog, |index| index.suspend(&key, suspended));
            }
            ProjectEvent::Listed { inquiry, begins } => shared.index.lock().platform_listed(inquiry, begins),
            ProjectEvent::Gone { uid } => shared.index.lock().project_gone(&uid),
            ProjectEvent::Answered(answer) => {
                Self::enqueue(shared, Priority::Fresh, |index| index.platform_answered(answer));
            }
            ProjectEvent::Rejected { .. } | ProjectEvent::RejectionCleared { .. } => {}
        }
    }

    /// Retries at once all keys that failed, possibly because of this plane.
    fn on_recovered(&self, shared: &Shared, plane: &Plane) {
        let hubs: HashSet<Arc<str>> = {
            let index = shared.index.lock();
            let ours = |owner: &NamespaceOwner| matches!(plane, Plane::Project(key) if *key == owner.project);
            let owners = index.owners.iter().filter(|(_, owner)| ours(owner));
            owners.map(|(hub, _)| hub.clone()).collect()
        };
        if *plane == Plane::Hub {
            // It may have another credential.
            let former = shared.index.lock().hub.user.take();
            if former.is_some_and(|user| single_member::is_service_account(&user)) {
                let keys = shared.index.lock().ready_keys();
                shared.queue.extend(keys, Priority::Backlog);
            }
        }
        shared
            .queue
            .retry_failed(|key| *plane == Plane::Hub || key.plane == *plane || hubs.contains(&key.namespace));
    }

    fn on_rewound(&self, _: &Shared) {
        self.garbage.reset();
    }

    /// Orphans, which share their project's brake.
    fn sweep(&self, _: &Shared) -> Vec<Key> {
        self.garbage.suspects()
    }

    /// Forgets state of disengaged projects that was recorded too late to be forgotten with them, and lets deployments
    /// that wait tell their tenants.
    fn prune(&self, shared: &Shared) {
        self.federator.delays.admit(shared);
        let mut index = shared.index.lock();
        index.prune_unowned();
        if index.teardown.is_held() {
            let changes = index.confirmed();
            shared.queue.extend(keys_of(&index, &changes), Priority::Fresh);
        }
        index.forget_withheld(shared.settings.projection_retention);
        self.federator.prune(shared, &index);
        self.projector.prune(shared, &index);
        self.returns.prune(shared, &index);
        self.platform.prune(&index);
        self.workloads.prune(&index);
        self.garbage.prune(&index, shared.now());
        let is_engaged = |project: &ProjectKey| index.projects.contains_key(project);
        shared.rate_limiter.lock().prune(is_engaged, shared.now());
        shared.quarantine.retain(|key| match &key.plane {
            Plane::Project(project) => index.projects.contains_key(project),
            Plane::Hub => {
                let cluster_wide = key.namespace.is_empty();
                let hub = if cluster_wide { &key.name } else { &key.namespace };
                HubNamespace::parse(hub).is_none() || index.owners.contains_key(hub)
            }
            Plane::Cell | Plane::Home => false,
        });
    }

    /// An error until the hub's first lists are complete, and while those of a project that answers are not, for at
    /// most `READY_TIMEOUT`.
    fn ready(&self, shared: &Shared) -> Result<(), String> {
        let index = shared.index.lock();
        if !index.hub_ready() {
            return Err("the hub's first lists are not complete".to_owned());
        }
        let planes = shared.planes.lock();
        for (plane, engaged) in planes.iter() {
            let Plane::Project(key) = plane else { continue };
            // A project without Locations or Networks does answer.
            let failing = engaged
                .watches
                .iter()
                .any(|(table, status)| status.restarts() > 0 && !table.is_for_checks());
            let is_held = failing || index.is_of_other_hub(key) || index.has_known_plane(key);
            if !index.project_ready(key) && !is_held && engaged.since.elapsed() < READY_TIMEOUT {
                return Err(format!("the first lists of project {key} are not complete"));
            }
        }
        Ok(())
    }

    fn gauges(&self, shared: &Shared, into: &mut Gauges) {
        gauges::collect(self, shared, into);
    }

    fn describe(&self, _: &Shared, index: &GatewayIndex) -> serde_json::Map<String, serde_json::Value> {
        gauges::describe(self, index)
    }
}

/// Logs and counts a rejected claim on a hub namespace.
fn report_rejected(shared: &Shared, claim: &RejectedClaim) {
    let RejectedClaim {
        claimant,
        hub,
        holder,
    } = claim;
    let label = IdentityRejection::NamespaceClaimed.as_str();
    shared.metrics.count(Family::IdentityRejections, &[label]);
    tracing::warn!(
        project = %claimant.project,
        namespace = &*claimant.namespace,
        hub_namespace = &**hub,
        %holder,
        "a project claims the hub namespace of another project; nothing of that namespace is synced to the hub; disengage the plane if it is a copy of the other, or reassign the hub namespace (docs/security.md)"
    );
}

/// Logs that the gateway has the plane of a project as another one, or that this is over.
fn report_known_plane(shared: &Shared, project: &ProjectKey, known: Option<&KnownPlane>) {
    let plane = Plane::Project(project.clone());
    shared.planes.state_may_have_changed(&plane);
    let Some(known) = known else {
        tracing::info!(%project, "the project's API server is no longer another plane of the gateway; the project is federated");
        return;
    };
    let Defect { text, next, .. } = known.defect();
    tracing::warn!(%project, plane = %known, next, "the project is refused: {text}");
}

/// Logs that deployments of a project name another hub, or that none does.
fn report_other_hub(shared: &Shared, project: &ProjectKey, other: Option<&OtherHub>) {
    let plane = Plane::Project(project.clone());
    shared.planes.state_may_have_changed(&plane);
    let Some(OtherHub { uid, share }) = other else {
        tracing::info!(%project, "no deployment of the project names another hub now; it is federated to this one");
        return;
    };
    let Defect { text, next, .. } = OTHER_HUB;
    let share = share.as_str();
    tracing::warn!(%project, hub = &**uid, share, next, "the project is selected by two gateways: {text}");
}
