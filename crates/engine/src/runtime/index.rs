//! The parts that the runtime needs of a role's index, and of the state that its controllers share.

use crate::{
    key::{Key, Kind, Plane},
    metrics::PlaneKind,
    plan::{Effect, ReasonLabel, Target},
    plane::watch::{WatchEvent, WatchSpec, WatchStatus},
};
use kube::core::ApiResource;
use std::{fmt::Debug, sync::Arc};

/// The effects of an event.
#[derive(Debug)]
pub struct Update<I: Index> {
    /// The changes of the index; the role's triggers return the keys that they concern.
    pub changes: Vec<I::Change>,
    /// Keys that have waited for this event.
    pub keys: Vec<Key>,
    /// True if the event completed a first list.
    pub synced: bool,
    /// True if the plane's lists of [`Phase::First`] are complete, so that its other lists may begin.
    pub first_phase_synced: bool,
    /// Commands for the role's main loop.
    pub commands: Vec<I::Command>,
}

impl<I: Index> Default for Update<I> {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            keys: Vec::new(),
            synced: false,
            first_phase_synced: false,
            commands: Vec::new(),
        }
    }
}

/// The effects of learning which optional kinds a plane serves.
#[derive(Debug)]
pub struct Discovered<I: Index> {
    /// The changes of the index, as in [`Update`].
    pub changes: Vec<I::Change>,
    /// Tables to watch from now on.
    pub watch: Vec<I::TableId>,
    /// Tables that another one has replaced: their watches end.
    pub unwatch: Vec<I::TableId>,
}

impl<I: Index> Default for Discovered<I> {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            watch: Vec::new(),
            unwatch: Vec::new(),
        }
    }
}

/// Keys to enqueue.
#[derive(Debug, Default)]
pub struct Keys {
    /// Keys to enqueue with the priority of their event: backlog for a list, fresh for every other event.
    pub keys: Vec<Key>,
    /// Keys to enqueue as fresh even if the event belongs to a list: users may wait for them.
    pub fresh: Vec<Key>,
}

/// Adds the keys that a change concerns: those of every object whose decision may depend on it.
pub type Triggers<I> = fn(&I, &<I as Index>::Change, &mut Vec<Key>);

/// When the list of a table begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// At once.
    First,
    /// After the first phase of its plane and of the hub, at the latest after
    /// `HEAD_START` of the engaged planes.
    Second,
}

/// The watches of a plane, by table.
pub type Watches<T> = [(T, Arc<WatchStatus>)];

/// Why a plane that answers cannot be worked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defect {
    /// The reason in a word.
    pub word: &'static str,
    /// The reason.
    pub text: &'static str,
    /// The operator's next step.
    pub next: &'static str,
}

/// The state of the planes, as their watches report it. It is synchronous and sends no request; the runtime locks it.
pub trait Index: Sized + Send + 'static {
    /// One watch of a plane.
    type TableId: Copy + Ord + Debug + Send + Sync + 'static;
    /// A change that decisions may depend on.
    type Change: Send + 'static;
    /// A command to the role's main loop.
    type Command: Send + 'static;

    /// Applies a watch event, or the response to a request, that belongs to this engagement of the plane.
    fn apply(
        &mut self,
        plane: &Plane,
        engagement: u64,
        table: Self::TableId,
        event: WatchEvent,
    ) -> Update<Self>;

    /// Drops the keys that may not be reconciled yet, because a list is incomplete, and adds those that have waited for
    /// the list which an event of this table has just completed if `synced`.
    fn admit(&self, plane: &Plane, table: Self::TableId, synced: bool, keys: Vec<Key>) -> Keys;

    /// A plane was restored to an older state in this engagement. Returns the next engagement, in which all its tables
    /// are listed again; `None` if the engagement has ended, or if each table is listed again on its own.
    fn rewind(&mut self, _plane: &Plane, _engagement: u64) -> Option<u64> {
        None
    }

    /// A plane forbids or allows the watch of a table. Returns the keys to enqueue.
    fn access_changed(
        &mut self,
        _plane: &Plane,
        _engagement: u64,
        _table: Self::TableId,
        _forbidden: bool,
    ) -> Vec<Key> {
        Vec::new()
    }

    /// All keys that may be reconciled now.
    fn all_keys(&self) -> Keys;

    /// All tables that may be watched, by kind of plane.
    fn tables(&self) -> Vec<(PlaneKind, Self::TableId)>;

    /// Selection of the objects of a table.
    fn watch_spec(&self, plane: &Plane, table: Self::TableId) -> WatchSpec;

    /// When the list of a table begins.
    fn phase(_table: Self::TableId) -> Phase {
        Phase::First
    }

    /// Kinds that a plane may serve or not, and that are still looked for: at the start of each engagement, and then at
    /// intervals as long as there are any.
    fn optional_kinds(&self, _plane: &Plane) -> Vec<ApiResource> {
        Vec::new()
    }

    /// Records which of the [`Self::optional_kinds`] a plane serves, in this engagement.
    fn kinds_discovered(
        &mut self,
        _plane: &Plane,
        _engagement: u64,
        _served: &[ApiResource],
    ) -> Discovered<Self> {
        Discovered::default()
    }

    /// True if a plane may forbid the table without harm to the others.
    fn is_optional(_table: Self::TableId) -> bool {
        false
    }

    /// True if the objects of a table, and not its list alone, tell whether a plane has a [`Self::defect`] or
    /// [`Self::is_connected`].
    fn tells_state(_table: Self::TableId) -> bool {
        false
    }

    /// The table that an object belongs to; `None` if it is not watched.
    fn table_of(&self, target: &Target) -> Option<Self::TableId>;

    /// The kind of a table's objects.
    fn kind_of(&self, table: Self::TableId) -> Kind;

    /// The plural name of a table's resource.
    fn plural(&self, table: Self::TableId) -> String;

    /// Value of the metric label `kind` for a kind.
    fn kind_label(&self, kind: &Kind) -> String;

    /// Why a plane that answers cannot be worked with; `None` while that is unknown.
    fn defect(&self, _plane: &Plane) -> Option<Defect> {
        None
    }

    /// True if all lists of a plane are complete.
    fn is_connected(&self, _plane: &Plane, watches: &Watches<Self::TableId>) -> bool {
        watches.iter().all(|(_, status)| status.synced())
    }
}

/// State that the controllers of a role share beside the runtime's own, e.g. their settings.
pub trait RoleState: Send + Sync + 'static {
    /// The index of the role.
    type Index: Index;

    /// Logs an executed write.
    fn log_write(_effect: &Effect) {}

    /// True if a write of this reason only takes finalizers off an object that is being deleted.
    fn releases(_reason: ReasonLabel) -> bool {
        false
    }
}
