//! The operations for which Karmada takes a script.

use serde::Deserialize;

/// One operation of a `ResourceInterpreterCustomization`.
///
/// Source of keys and entry points: karmada-io/karmada `pkg/apis/config/v1alpha1` and
/// `pkg/resourceinterpreter/customized/declarative/luavm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Which objects travel with this one.
    DependencyInterpretation,
    /// Whether the object is healthy at a member.
    HealthInterpretation,
    /// Which components, with which replicas, an object has.
    ComponentResource,
    /// How many replicas, with which needs, an object has.
    ReplicaResource,
    /// The object with another number of replicas.
    ReplicaRevision,
    /// What of a member's object is kept when the template is applied.
    Retention,
    /// The template's status from those of the members.
    StatusAggregation,
    /// What of a member's status goes to the hub.
    StatusReflection,
}

impl Operation {
    /// All operations, in the order of their keys' file names.
    pub const ALL: [Self; 8] = [
        Self::ComponentResource,
        Self::DependencyInterpretation,
        Self::HealthInterpretation,
        Self::ReplicaResource,
        Self::ReplicaRevision,
        Self::Retention,
        Self::StatusAggregation,
        Self::StatusReflection,
    ];

    /// The key under `spec.customizations`, e.g. `statusReflection`.
    pub fn key(self) -> &'static str {
        match self {
            Self::ComponentResource => "componentResource",
            Self::DependencyInterpretation => "dependencyInterpretation",
            Self::HealthInterpretation => "healthInterpretation",
            Self::ReplicaResource => "replicaResource",
            Self::ReplicaRevision => "replicaRevision",
            Self::Retention => "retention",
            Self::StatusAggregation => "statusAggregation",
            Self::StatusReflection => "statusReflection",
        }
    }

    /// The script's file in a kind's folder, e.g. `status-reflection.lua`.
    pub fn file(self) -> &'static str {
        match self {
            Self::ComponentResource => "component-resource.lua",
            Self::DependencyInterpretation => "dependency-interpretation.lua",
            Self::HealthInterpretation => "health-interpretation.lua",
            Self::ReplicaResource => "replica-resource.lua",
            Self::ReplicaRevision => "replica-revision.lua",
            Self::Retention => "retention.lua",
            Self::StatusAggregation => "status-aggregation.lua",
            Self::StatusReflection => "status-reflection.lua",
        }
    }

    /// The function that Karmada calls, e.g. `ReflectStatus`.
    pub fn entry_point(self) -> &'static str {
        match self {
            Self::ComponentResource => "GetComponents",
            Self::DependencyInterpretation => "GetDependencies",
            Self::HealthInterpretation => "InterpretHealth",
            Self::ReplicaResource => "GetReplicas",
            Self::ReplicaRevision => "ReviseReplica",
            Self::Retention => "Retain",
            Self::StatusAggregation => "AggregateStatus",
            Self::StatusReflection => "ReflectStatus",
        }
    }

    /// The operation of a file name, `None` if no operation has it.
    pub fn of_file(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.file() == name)
    }
}
