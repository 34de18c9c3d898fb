//! The operations of a `ResourceInterpreterCustomization` that have scripts.

use serde::Deserialize;

/// One operation of a `ResourceInterpreterCustomization`. Karmada has two more, `replicaRevision` and `componentResource`: it asks
/// for them when it divides an object among members, and the gateway's policies give each chosen member the whole object.
///
/// Source of keys and entry points: karmada-io/karmada `pkg/apis/config/v1alpha1` and
/// `pkg/resourceinterpreter/customized/declarative/luavm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Lists the objects that Karmada propagates with the object.
    DependencyInterpretation,
    /// Decides if the object is healthy in a member.
    HealthInterpretation,
    /// Counts the replicas, by which Karmada's scheduler knows how much room the object needs.
    ReplicaResource,
    /// Retains fields of the member's object when Karmada applies the template.
    Retention,
    /// Aggregates the status of the template from the status of each member.
    StatusAggregation,
    /// Selects the part of the member's status that Karmada collects to the hub.
    StatusReflection,
}

impl Operation {
    /// All operations, in the order of their file names.
    pub const ALL: [Self; 6] = [
        Self::DependencyInterpretation,
        Self::HealthInterpretation,
        Self::ReplicaResource,
        Self::Retention,
        Self::StatusAggregation,
        Self::StatusReflection,
    ];

    /// The key under `spec.customizations`, e.g. `statusReflection`.
    pub fn key(self) -> &'static str {
        match self {
            Self::DependencyInterpretation => "dependencyInterpretation",
            Self::HealthInterpretation => "healthInterpretation",
            Self::ReplicaResource => "replicaResource",
            Self::Retention => "retention",
            Self::StatusAggregation => "statusAggregation",
            Self::StatusReflection => "statusReflection",
        }
    }

    /// The file name of the script in the folder of a kind, e.g. `status-reflection.lua`.
    pub fn file(self) -> &'static str {
        match self {
            Self::DependencyInterpretation => "dependency-interpretation.lua",
            Self::HealthInterpretation => "health-interpretation.lua",
            Self::ReplicaResource => "replica-resource.lua",
            Self::Retention => "retention.lua",
            Self::StatusAggregation => "status-aggregation.lua",
            Self::StatusReflection => "status-reflection.lua",
        }
    }

    /// The function that Karmada calls, e.g. `ReflectStatus`.
    pub fn entry_point(self) -> &'static str {
        match self {
            Self::DependencyInterpretation => "GetDependencies",
            Self::HealthInterpretation => "InterpretHealth",
            Self::ReplicaResource => "GetReplicas",
            Self::Retention => "Retain",
            Self::StatusAggregation => "AggregateStatus",
            Self::StatusReflection => "ReflectStatus",
        }
    }

    /// The operation with this file name; `None` if no operation has this name.
    pub fn of_file(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.file() == name)
    }
}
