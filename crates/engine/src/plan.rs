//! Plans: what a decision wants done, in order. Any plan may be cut after any effect and decided again.

use crate::key::{Kind, Plane};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use std::time::Duration;

/// The object that an effect is about.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it lives.
    pub plane: Plane,
    /// Its group, version, kind and plural.
    pub resource: ApiResource,
    /// Its namespace; `None` if it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Target {
    /// An object in a namespace.
    pub fn namespaced(plane: Plane, resource: &ApiResource, namespace: &str, name: &str) -> Self {
        Self {
            plane,
            resource: resource.clone(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// A cluster-scoped object.
    pub fn cluster(plane: Plane, resource: &ApiResource, name: &str) -> Self {
        Self {
            plane,
            resource: resource.clone(),
            namespace: None,
            name: name.to_owned(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.resource)
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.plane == other.plane
            && self.kind() == other.kind()
            && self.namespace == other.namespace
            && self.name == other.name
    }
}

/// Which endpoint of the object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// The object itself.
    Main,
    /// Its `/status`.
    Status,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// POST; fails if the name is held.
    Create {
        /// The whole object.
        body: Value,
    },
    /// Server-side apply of our fields, forced for them and no others.
    Apply {
        /// Our fields; `metadata.uid` in it keeps the apply from creating.
        body: Value,
        /// What has to be exact: what the apply leaves of others' there goes with one merge patch.
        exact: ExactFields,
    },
    /// JSON merge patch; `metadata.uid` and `metadata.resourceVersion` in it are preconditions.
    Merge {
        /// The patch.
        patch: Value,
    },
    /// DELETE with preconditions, in the background.
    Delete {
        /// Only this object.
        uid: String,
        /// Only this version of it, if given.
        resource_version: Option<String>,
    },
}

impl Write {
    /// The UID of the only object that the write may change, if it names one.
    pub(super) fn uid(&self) -> Option<&str> {
        match self {
            Self::Create { .. } => None,
            Self::Apply { body, .. } | Self::Merge { patch: body } => body["metadata"]["uid"].as_str(),
            Self::Delete { uid, .. } => Some(uid),
        }
    }
}

/// Where the result of an apply has to be exactly what was applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExactFields {
    /// Fields at the root.
    pub roots: Vec<String>,
    /// Fields right below a root that the server fills in by itself: with its value they are no difference.
    pub tolerated: &'static [ServerDefault],
    /// Every root field but metadata and status, whoever put it there.
    pub payload: bool,
    /// Annotations that must not be there, whoever put them there.
    pub absent_annotations: Vec<String>,
}

/// A field that a server fills in: its name, and the value as JSON; `None` for any, where it cannot be changed.
pub type ServerDefault = (&'static str, Option<&'static str>);

impl ExactFields {
    /// Whether a field right below a root may stay as it is.
    pub fn tolerates(tolerated: &[ServerDefault], field: &str, value: &Value) -> bool {
        let is = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|default| default == *value);
        tolerated
            .iter()
            .any(|(name, default)| *name == field && default.is_none_or(is))
    }

    /// These roots, nothing tolerated.
    pub fn roots(roots: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            roots: roots.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// The whole payload, and none of these annotations.
    pub fn payload(absent_annotations: Vec<String>) -> Self {
        Self {
            payload: true,
            absent_annotations,
            ..Self::default()
        }
    }
}

/// A write with its address and its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// What is written.
    pub target: Target,
    /// Where.
    pub endpoint: Endpoint,
    /// How.
    pub write: Write,
    /// Why: a word for the metric `fedgate_writes_total` and the log.
    pub reason: &'static str,
}

/// An Event on a project's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The project plane.
    pub plane: Plane,
    /// API version, kind, namespace, name and UID of the object.
    pub about: ObjectRef,
    /// Whether it is a warning.
    pub warning: bool,
    /// One CamelCase word.
    pub reason: String,
    /// What fedgate was doing, one CamelCase word.
    pub action: String,
    /// For people.
    pub message: String,
}

/// The object that a [`Note`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// E.g. `compute.datumapis.com/v1alpha`.
    pub api_version: String,
    /// E.g. `WorkloadDeployment`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Requeue {
    /// When an event says so.
    #[default]
    AwaitChange,
    /// After this time, or earlier if an event says so.
    After(Duration),
}

impl Requeue {
    /// The earlier of two.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self, other) {
            (Self::AwaitChange, x) | (x, Self::AwaitChange) => x,
            (Self::After(a), Self::After(b)) => Self::After(a.min(b)),
        }
    }
}

/// Stage of a plan that nobody has performed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prepared(());
/// Stage of a plan whose every effect has been performed: the versions in which the objects were answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied(Vec<String>);

/// What a decision wants: effects in order, events, and when to look again.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<Stage> {
    /// Writes, in the order in which they must happen.
    pub effects: Vec<Effect>,
    /// Events, published after the writes.
    pub notes: Vec<Event>,
    /// When to look again.
    pub next: Requeue,
    stage: Stage,
}

impl Default for Plan<Prepared> {
    fn default() -> Self {
        Self {
            effects: Vec::new(),
            notes: Vec::new(),
            next: Requeue::AwaitChange,
            stage: Prepared::default(),
        }
    }
}

impl Plan<Prepared> {
    /// A plan that does nothing now.
    pub fn wait(next: Requeue) -> Self {
        Self {
            next,
            ..Self::default()
        }
    }

    /// A plan that does nothing and looks again after `after`.
    pub fn after(after: Duration) -> Self {
        Self::wait(Requeue::After(after))
    }

    /// The same plan, looking again by then at the latest.
    #[must_use]
    pub fn by(mut self, next: Requeue) -> Self {
        self.next = self.next.earlier(next);
        self
    }

    /// A plan with one write.
    pub fn one(effect: Effect) -> Self {
        Self {
            effects: vec![effect],
            ..Self::default()
        }
    }

    /// A plan with one event.
    pub fn with_event(note: Event) -> Self {
        Self {
            notes: vec![note],
            ..Self::default()
        }
    }

    /// Whether there is nothing to do now.
    pub fn is_idle(&self) -> bool {
        self.effects.is_empty() && self.notes.is_empty()
    }

    /// The proof that every effect was performed, with the versions that were answered; the executor alone gives it.
    pub(super) fn applied(self, versions: Vec<String>) -> Plan<Applied> {
        let Self {
            effects,
            notes,
            next,
            stage: Prepared(()),
        } = self;
        Plan {
            effects,
            notes,
            next,
            stage: Applied(versions),
        }
    }
}

impl Plan<Applied> {
    /// Whether an object with this resourceVersion is as the server answered, and not as someone else left it since.
    pub fn produced_version(&self, version: &str) -> bool {
        self.stage.0.iter().any(|answered| answered == version)
    }
}

/// What the executor learned from a write: the object as the server now has it, or that it is gone.
#[derive(Debug)]
pub enum WriteResult {
    /// The object after the write.
    Current(Box<DynamicObject>),
    /// The object with this UID does not exist any more. Another may bear its name by now.
    Deleted {
        /// The UID that the write was about.
        uid: String,
    },
}
