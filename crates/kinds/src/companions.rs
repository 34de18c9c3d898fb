//! The objects that the gateway carries together with an object, as the folder of its kind describes them.

use super::Query;
use kube::core::ApiResource;
use serde::Deserialize;

/// See [`FederatedKind::companions`](super::FederatedKind::companions).
#[derive(Debug, Clone)]
pub struct Companions {
    /// Annotation that lists the expected companions; `None` if the interpreter reads the spec itself.
    pub expected_annotation: Option<String>,
    /// Annotation that reports a terminal source error to the cell.
    pub error_annotation: Option<String>,
    /// The references, in the order in which their errors are reported.
    pub references: Vec<Reference>,
}

/// A path in a project object that names other objects of its namespace.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The kind of the objects that are named, e.g. core/v1 `Secret`.
    pub resource: ApiResource,
    /// Selects the referring objects, e.g. `$.spec.template.spec.volumes[*].secret`, or the names themselves.
    pub path: Query,
    /// Field of the referring object that holds the name, e.g. `secretName`; `None` if the path selects the names.
    pub name_field: Option<String>,
    /// The sources that must exist.
    pub required: Required,
    /// True if the member must have applied the companion before the object, or a new spec of it, is delivered.
    pub before_applied: bool,
    /// True if somebody at the member makes the object the companion's owner, so that it goes with the object.
    pub adopted: bool,
    /// The largest payload of a source, in bytes; [`UNLIMITED`](super::UNLIMITED) in a file of language 1.
    pub max_bytes: u32,
    /// Its line in the kind's file, for messages.
    pub line: u64,
}

/// The sources that must exist for a [`Reference`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Required {
    /// A name must be given, and its source must exist.
    Always,
    /// If a name is given, its source must exist.
    IfNamed,
    /// The source is carried if it exists.
    Optional,
    /// As [`IfNamed`](Self::IfNamed), or as [`Optional`](Self::Optional) where a field `optional: true` stands beside the
    /// name: `mayBeOptional: true`.
    #[serde(skip)]
    BesideTheName,
}

/// The kinds that can be companions of an object at every member of its city.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompanionKind {
    /// A core/v1 `ConfigMap`.
    ConfigMap,
    /// A core/v1 `Secret`.
    Secret,
}

impl CompanionKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Secret];

    /// Name and plural of the kind.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::ConfigMap => ("ConfigMap", "configmaps"),
            Self::Secret => ("Secret", "secrets"),
        }
    }

    /// The kind of this API version and name, if it is one of them.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let named = |companion: &Self| api_version == "v1" && companion.names().0 == kind;
        Self::ALL.into_iter().find(named)
    }
}

impl Reference {
    /// The kind that is named, if it is a `ConfigMap` or a `Secret`.
    pub fn companion_kind(&self) -> Option<CompanionKind> {
        CompanionKind::of(&self.resource.api_version, &self.resource.kind)
    }
}
