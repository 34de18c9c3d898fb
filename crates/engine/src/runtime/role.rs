//! The controllers of a process, and its reaction to changes of its planes.

use super::{
    context::{Context, Shared},
    index::{Index, RoleState},
};
use crate::{
    error::Failure,
    key::{Key, Plane},
    metrics::{Gauges, PlaneKind, Stage},
    plan::Requeue,
    plane::discovery::ProjectEvent,
};
use fedgate_api::names::ProjectKey;
use serde_json::{Map, Value};

/// A command to the role's main loop.
pub type CommandOf<R> = <<<R as Role>::State as RoleState>::Index as Index>::Command;
/// A change of a role's index.
pub type ChangeOf<R> = <<<R as Role>::State as RoleState>::Index as Index>::Change;
/// The index of a role.
pub type IndexOf<R> = <<R as Role>::State as RoleState>::Index;
/// The shared state of a role.
pub type SharedOf<R> = Shared<<R as Role>::State>;

/// The controllers of a process, and its reaction to changes of its planes.
pub trait Role: Send + Sync + Sized + 'static {
    /// State that the controllers share.
    type State: RoleState;

    /// The kind of plane whose writes the Lease protects: a late write there is not corrected by the next leader.
    const LEASE_PLANE: PlaneKind;

    /// The kinds of planes that the role may connect to.
    const PLANES: &'static [PlaneKind];

    /// The names of its controllers.
    const CONTROLLERS: &'static [&'static str];

    /// True if a conflict is no failure: several reconciles, or another client, write this object.
    fn expects_conflict(_: &Failure) -> bool {
        false
    }

    /// The directions between planes whose times it measures.
    const STAGES: &'static [Stage] = &[];

    /// The reasons for which it rejects an identity, for metrics.
    const REJECTIONS: &'static [&'static str] = &[];

    /// Adds the keys that a change concerns; calls the triggers of each controller.
    fn triggers(index: &IndexOf<Self>, change: &ChangeOf<Self>, keys: &mut Vec<Key>);

    /// Name of the controller that reconciles a key, for metrics and logs.
    fn controller(&self, shared: &SharedOf<Self>, key: &Key) -> &'static str;

    /// The project that a key belongs to, for the queue's lanes and for logs; `None` if it belongs to none, or to several.
    fn project(&self, _shared: &SharedOf<Self>, key: &Key) -> Option<ProjectKey> {
        match &key.plane {
            Plane::Project(project) => Some(project.clone()),
            Plane::Hub | Plane::Cell | Plane::Home => None,
        }
    }

    /// Reconciles a key.
    fn reconcile(
        &self,
        cx: &Context<'_, Self::State>,
        key: &Key,
    ) -> impl Future<Output = Result<Requeue, Failure>> + Send;

    /// Called when the replica begins to lead; all keys are enqueued afterwards.
    fn on_leading(&self, _shared: &SharedOf<Self>) {}

    /// Executes a command.
    fn on_command(&self, shared: &SharedOf<Self>, command: CommandOf<Self>);

    /// A project appears, disappears or is rejected.
    fn on_project(&self, shared: &SharedOf<Self>, event: ProjectEvent);

    /// A plane answers again, has another credential, or grants a permission again: retries what waited for it.
    fn on_recovered(&self, shared: &SharedOf<Self>, plane: &Plane);

    /// A plane was restored to an older state, and all its tables are listed again.
    fn on_rewound(&self, _shared: &SharedOf<Self>) {}

    /// Keys that are enqueued at each sweep, because no event may report the change that they wait for.
    fn sweep(&self, _shared: &SharedOf<Self>) -> Vec<Key> {
        Vec::new()
    }

    /// Drops state that is no longer needed; called every few seconds.
    fn prune(&self, shared: &SharedOf<Self>);

    /// An error while the role is not ready.
    fn ready(&self, shared: &SharedOf<Self>) -> Result<(), String>;

    /// Adds the role's own gauges. Many rows are read in slices, between which the index is free for others.
    fn gauges(&self, shared: &SharedOf<Self>, into: &mut Gauges);

    /// The role's own part of `/debug/planes`.
    fn describe(&self, shared: &SharedOf<Self>, index: &IndexOf<Self>) -> Map<String, Value>;
}
