//! Plans: the effects that a decision requests, in order. A plan may stop after any effect; the next reconcile decides
//! again.

use crate::key::{Kind, Plane};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use std::{fmt, time::Duration};

/// The object that an effect writes.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The plane of the object.
    pub plane: Plane,
    /// The object's group, version, kind and plural.
    pub resource: ApiResource,
    /// The object's namespace; `None` if it is cluster-scoped.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
}

impl Target {
    /// A namespaced object.
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

    /// The object's kind.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.resource)
    }
}

/// The endpoint of the object that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// The main resource.
    Main,
    /// The `/status` subresource.
    Status,
}

/// A write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// POST; fails if the name is taken.
    Create {
        /// The whole object.
        body: Value,
        /// True if the server refuses the object because its definition lacks a field; otherwise it leaves the field out.
        strict: bool,
    },
    /// PUT of the whole object, or POST where there is none: for a writer that may not read the object. Its right is `update`,
    /// not `patch`, because an API server that refuses a patch shows fields of the patched object in its answer.
    Replace {
        /// The whole object, without a resourceVersion.
        body: Value,
    },
    /// Server-side apply of fedgate's fields, forced for these and no others.
    Apply {
        /// fedgate's fields; `metadata.uid` in the body prevents the apply from creating the object.
        body: Value,
        /// Fields that must be exact: fields of other managers that the apply leaves there are removed with one merge
        /// patch.
        exact: ExactFields,
    },
    /// JSON patch of an object that fedgate has made by [`Write::Create`]. Its fields belong to that request, so that an apply would
    /// not remove one of them.
    Update {
        /// Root fields, of which each replaces that of the object as a whole. Of the metadata, `uid` and `resourceVersion` are
        /// preconditions, a label or annotation is removed if it is `null`, those of others stay, and owner references are
        /// replaced. Root fields that the body
        /// lacks are removed with one more request, but for metadata and status.
        body: Value,
        /// As of [`Write::Create`].
        strict: bool,
    },
    /// JSON merge patch; its `metadata.uid` and `metadata.resourceVersion` are preconditions.
    Merge {
        /// The patch.
        patch: Value,
    },
    /// DELETE with preconditions and background propagation.
    Delete {
        /// UID precondition.
        uid: String,
        /// Optional resourceVersion precondition.
        resource_version: Option<String>,
    },
    /// DELETE by name alone, with background propagation: for a writer that may not read the object, whose server admits no
    /// other deletion than that of the writer's own objects.
    DeleteNamed,
}

impl Write {
    /// POST of an object; the server leaves out the fields that its definition of the kind lacks.
    pub fn create(body: Value) -> Self {
        let strict = false;
        Self::Create { body, strict }
    }

    /// DELETE of the object with this UID.
    pub fn delete(uid: &str) -> Self {
        Self::Delete {
            uid: uid.to_owned(),
            resource_version: None,
        }
    }

    /// The UID precondition of the write, if it has one.
    pub(super) fn uid(&self) -> Option<&str> {
        match self {
            Self::Create { .. } | Self::Replace { .. } | Self::DeleteNamed => None,
            Self::Apply { body, .. } | Self::Update { body, .. } | Self::Merge { patch: body } => {
                body["metadata"]["uid"].as_str()
            }
            Self::Delete { uid, .. } => Some(uid),
        }
    }

    /// True if the write deletes its object.
    pub fn deletes(&self) -> bool {
        matches!(self, Self::Delete { .. } | Self::DeleteNamed)
    }
}

/// The fields in which the result of an apply must equal the applied body exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExactFields {
    /// Fields at the root.
    pub roots: Vec<String>,
    /// Fields directly below a root that the server defaults: with the server's value they do not count as a
    /// difference.
    pub tolerated: &'static [ServerDefault],
}

/// A field that the server defaults: its name and its value as JSON; `None` for any value, if the field is immutable.
pub type ServerDefault = (&'static str, Option<&'static str>);

impl ExactFields {
    /// True if a field directly below a root may stay as it is.
    pub fn tolerates(tolerated: &[ServerDefault], field: &str, value: &Value) -> bool {
        let is = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|default| default == *value);
        tolerated
            .iter()
            .any(|(name, default)| *name == field && default.is_none_or(is))
    }

    /// Only these roots, without tolerated fields.
    pub fn roots(roots: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            roots: roots.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

/// Why a write is sent: a word of the closed set of its role (see [`labels`](crate::labels)), for the metric
/// `fedgate_writes_total` and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReasonLabel(&'static str);

impl ReasonLabel {
    /// A reason with this label; only [`labels`](crate::labels) and tests call it.
    pub const fn new(label: &'static str) -> Self {
        Self(label)
    }

    /// The label.
    pub const fn label(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ReasonLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A write with its target and reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The object to write.
    pub target: Target,
    /// The endpoint to write to.
    pub endpoint: Endpoint,
    /// The write itself.
    pub write: Write,
    /// The reason.
    pub reason: ReasonLabel,
}

impl Effect {
    /// A write of the object itself.
    pub fn main(target: Target, write: Write, reason: impl Into<ReasonLabel>) -> Self {
        Self {
            target,
            endpoint: Endpoint::Main,
            write,
            reason: reason.into(),
        }
    }
}

/// An Event on a project's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The project's plane.
    pub plane: Plane,
    /// API version, kind, namespace, name and UID of the object.
    pub about: ObjectRef,
    /// True for type `Warning`, false for `Normal`.
    pub warning: bool,
    /// The reason, a CamelCase word.
    pub reason: String,
    /// The action that fedgate was performing, a CamelCase word.
    pub action: String,
    /// The human-readable message.
    pub message: String,
}

/// The object that an [`Event`] refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// E.g. `compute.datumapis.com/v1alpha`.
    pub api_version: String,
    /// E.g. `WorkloadDeployment`.
    pub kind: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's UID.
    pub uid: String,
}

/// Time of the next reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Requeue {
    /// When an event enqueues the key.
    #[default]
    AwaitChange,
    /// After this time, or earlier if an event enqueues the key.
    After(Duration),
}

impl Requeue {
    /// The earlier of two requeue times.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self, other) {
            (Self::AwaitChange, x) | (x, Self::AwaitChange) => x,
            (Self::After(a), Self::After(b)) => Self::After(a.min(b)),
        }
    }
}

/// Stage of a plan that has not been executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prepared(());
/// Stage of a plan whose effects were all executed: the resourceVersions that the servers returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied(Vec<String>);

/// The output of a decision: effects in order, events, and the time of the next reconcile.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan<Stage> {
    /// Writes, in the order of execution unless they are `independent`.
    pub effects: Vec<Effect>,
    /// True if the effects do not depend on each other: several are in flight at a time, and each is written whatever
    /// became of the others.
    pub independent: bool,
    /// A write after all effects, even if one of them failed: the status that reports them.
    pub status: Option<Box<Effect>>,
    /// Events, published after the writes.
    pub notes: Vec<Event>,
    /// Time of the next reconcile.
    pub next: Requeue,
    stage: Stage,
}

impl Plan<Prepared> {
    /// A plan without effects.
    pub fn wait(next: Requeue) -> Self {
        Self {
            next,
            ..Self::default()
        }
    }

    /// A plan without effects that requeues the key after `after`.
    pub fn after(after: Duration) -> Self {
        Self::wait(Requeue::After(after))
    }

    /// The plan, with a requeue no later than `next`.
    #[must_use]
    pub fn by(mut self, next: Requeue) -> Self {
        self.next = self.next.earlier(next);
        self
    }

    /// A plan with a single write.
    pub fn one(effect: Effect) -> Self {
        Self {
            effects: vec![effect],
            ..Self::default()
        }
    }

    /// A plan whose effects do not depend on each other, and a status that is written after them.
    pub fn independent(effects: Vec<Effect>, status: Option<Effect>, next: Requeue) -> Self {
        Self {
            effects,
            independent: true,
            status: status.map(Box::new),
            next,
            ..Self::default()
        }
    }

    /// A plan with a single event.
    pub fn with_event(note: Event) -> Self {
        Self {
            notes: vec![note],
            ..Self::default()
        }
    }

    /// True if the plan has no write and no event.
    pub fn is_idle(&self) -> bool {
        self.effects.is_empty() && self.status.is_none() && self.notes.is_empty()
    }

    /// Marks the plan as applied, with the resourceVersions that the servers returned; only the executor calls it.
    pub(super) fn applied(self, versions: Vec<String>) -> Plan<Applied> {
        let Self {
            effects,
            independent,
            status,
            notes,
            next,
            stage: Prepared(()),
        } = self;
        Plan {
            effects,
            independent,
            status,
            notes,
            next,
            stage: Applied(versions),
        }
    }
}

impl Plan<Applied> {
    /// True if this plan produced the resourceVersion, so that no other client has changed the object since.
    pub fn produced_version(&self, version: &str) -> bool {
        self.stage.0.iter().any(|answered| answered == version)
    }
}

/// The result of a write: the object as the server now stores it, or its deletion.
#[derive(Debug)]
pub enum WriteResult {
    /// The object after the write.
    Current(Box<DynamicObject>),
    /// The object with this UID no longer exists. Another object may have the same name by now.
    Deleted {
        /// The UID that the write referred to.
        uid: String,
    },
}

impl WriteResult {
    /// resourceVersion of the object; `None` if it no longer exists.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Current(object) => object.metadata.resource_version.as_deref(),
            Self::Deleted { .. } => None,
        }
    }
}
