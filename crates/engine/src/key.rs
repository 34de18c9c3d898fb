//! Keys: the unit that the queue schedules and that logs identify.

use crate::metrics::PlaneKind;
use fedgate_api::names::ProjectKey;
use std::{fmt, sync::Arc};

/// An API server that the gateway or a cell connects to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plane {
    /// The Karmada hub.
    Hub,
    /// A tenant's project control plane.
    Project(ProjectKey),
    /// The cell's own API server.
    Cell,
    /// The cluster that runs the provisioner, with the credentials of new cells.
    Home,
}

impl Plane {
    /// The kind of plane; metric labels use this value only, never the project key.
    pub fn kind(&self) -> &'static str {
        PlaneKind::from(self).as_str()
    }

    /// The folder with the RBAC roles to apply on this plane.
    pub fn roles(&self) -> &'static str {
        match self {
            Self::Hub => "manifests/hub",
            Self::Project(_) => "manifests/project",
            Self::Cell => "manifests/cell",
            Self::Home => "manifests/provisioner/home",
        }
    }
}

impl From<&Plane> for PlaneKind {
    fn from(plane: &Plane) -> Self {
        match plane {
            Plane::Hub => Self::Hub,
            Plane::Project(_) => Self::Project,
            Plane::Cell => Self::Cell,
            Plane::Home => Self::Home,
        }
    }
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub => f.write_str("hub"),
            Self::Project(key) => write!(f, "project {key}"),
            Self::Cell => f.write_str("cell"),
            Self::Home => f.write_str("home"),
        }
    }
}

/// A resource of an API group, e.g. `workloaddeployments.compute.datumapis.com`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Arc<str>);

impl Kind {
    /// Creates a kind from its plural and group.
    pub fn new(plural: &str, group: &str) -> Self {
        Self(if group.is_empty() {
            plural.into()
        } else {
            format!("{plural}.{group}").into()
        })
    }

    /// The kind of `resource`.
    pub fn of(resource: &kube::core::ApiResource) -> Self {
        Self::new(&resource.plural, &resource.group)
    }

    /// `<plural>.<group>`, the notation of kubectl.
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

/// The unit of reconciliation. A key outlives its object: the controller also reconciles a deleted object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The plane of the object.
    pub plane: Plane,
    /// The object's kind.
    pub kind: Kind,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// The object's name; empty if one key stands for all objects of the kind in the namespace.
    pub name: Arc<str>,
}

impl Key {
    /// Creates a key.
    pub fn new(plane: Plane, kind: Kind, namespace: &str, name: &str) -> Self {
        Self {
            plane,
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The lane in which the key queues while the queue knows no project of its namespace
    /// ([`Queue::assign`](crate::runtime::queue::Queue::assign)): all keys of a tenant share one lane, so that no tenant starves
    /// another.
    pub fn lane(&self) -> Lane {
        match &self.plane {
            Plane::Project(key) => Lane::of(key),
            Plane::Hub | Plane::Cell | Plane::Home if self.namespace.is_empty() => Lane(self.name.clone()),
            Plane::Hub | Plane::Cell | Plane::Home => Lane(self.namespace.clone()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}/{}", self.plane, self.kind, self.namespace, self.name)
    }
}

/// A fairness group of the queue; see [`Key::lane`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane(Arc<str>);

impl Lane {
    /// The lane of a project; no namespace has such a name.
    pub fn of(project: &ProjectKey) -> Self {
        Self(format!("project/{project}").into())
    }
}
