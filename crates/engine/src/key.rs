//! Keys: what the queue schedules and the logs name.

use crate::metrics::PlaneKind;
use fedgate_api::names::ProjectKey;
use std::{fmt, sync::Arc};

/// One API server, as seen from the gateway or from a cell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plane {
    /// The Karmada hub.
    Hub,
    /// A tenant's project control plane.
    Project(ProjectKey),
    /// The cell's own API server.
    Cell,
}

impl Plane {
    /// The kind of plane, the only form that may become a metric label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Project(_) => "project",
            Self::Cell => "cell",
        }
    }

    /// The folder of the roles that are to be applied there.
    pub fn roles(&self) -> &'static str {
        match self {
            Self::Hub => "manifests/hub",
            Self::Project(_) => "manifests/project",
            Self::Cell => "manifests/cell",
        }
    }
}

impl From<&Plane> for PlaneKind {
    fn from(plane: &Plane) -> Self {
        match plane {
            Plane::Hub => Self::Hub,
            Plane::Project(_) => Self::Project,
            Plane::Cell => Self::Cell,
        }
    }
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub => f.write_str("hub"),
            Self::Project(key) => write!(f, "project {key}"),
            Self::Cell => f.write_str("cell"),
        }
    }
}

/// A resource of an API group, e.g. `workloaddeployments.compute.datumapis.com`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Arc<str>);

impl Kind {
    /// Names a kind by its plural and group.
    pub fn new(plural: &str, group: &str) -> Self {
        Self(if group.is_empty() {
            plural.into()
        } else {
            format!("{plural}.{group}").into()
        })
    }

    /// The kind that `resource` describes.
    pub fn of(resource: &kube::core::ApiResource) -> Self {
        Self::new(&resource.plural, &resource.group)
    }

    /// `<plural>.<group>`, as kubectl writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a controller works on. A key outlives its object: absence is work, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Where the object lives.
    pub plane: Plane,
    /// What it is.
    pub kind: Kind,
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// Its name; empty where one key stands for all objects of the kind in the namespace.
    pub name: Arc<str>,
}

impl Key {
    /// Puts a key together.
    pub fn new(plane: Plane, kind: Kind, namespace: &str, name: &str) -> Self {
        Self {
            plane,
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The lane in which the key queues: keys of one tenant share one, so that none starves another.
    pub fn lane(&self) -> Lane {
        match &self.plane {
            Plane::Project(key) => Lane(key.as_str().into()),
            Plane::Hub | Plane::Cell if self.namespace.is_empty() => Lane(self.name.clone()),
            Plane::Hub | Plane::Cell => Lane(self.namespace.clone()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}/{}", self.plane, self.kind, self.namespace, self.name)
    }
}

/// See [`Key::lane`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane(pub Arc<str>);
