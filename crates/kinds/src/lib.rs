//! Federated kinds: each is a folder under `interpreters/`, parsed into a [`FederatedKind`].
//!
//! docs/kinds.md documents the schema of `kind.yaml`.

#![forbid(unsafe_code)]

mod companions;
mod file;
mod folder;
mod load;
pub mod lua;
mod per_kind;
mod query;
mod returns;

pub use companions::{
    CompanionKind, CompanionKinds, CompanionSet, Companions, PerCompanionKind, Reference, Required,
};
pub use load::{Kinds, LoadError};
pub use per_kind::{KindId, KindPlace, PerKind};
pub use query::{Query, QueryError};
pub use returns::{NamePattern, Return, ReturnName};

use kube::core::{ApiResource, Selector};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A kind that the gateway syncs to the hub, with its status synced back; its folder describes it.
#[derive(Debug, Clone)]
pub struct FederatedKind {
    /// Group, version, kind and plural of the project object and of its copy on the hub.
    pub resource: ApiResource,
    /// The path of the city code, and the label that selects a cell by it.
    pub placement: Placement,
    /// Annotations that the gateway copies from the project object to the hub copy; absence is mirrored.
    pub carried_annotations: Vec<String>,
    /// Annotation that suspends the object if its value is `true`; `None` if the kind cannot be suspended.
    pub suspend_annotation: Option<String>,
    /// The effect of a suspension.
    pub suspension: Suspension,
    /// Rules for the status in the project.
    pub status: StatusRules,
    /// Objects that the gateway syncs together with the object.
    pub companions: Option<Companions>,
    /// Guards of a deletion, and the state in which it is over.
    pub deletion: DeletionRules,
    /// Secrets of the member that go back to the project.
    pub returns: Vec<Return>,
    /// The kind that cells write back, if any.
    pub write_back: Option<WriteBack>,
    /// The `ResourceInterpreterCustomization` that Karmada needs for the kind.
    pub interpreter: Interpreter,
    /// Source file of the kind's description.
    pub origin: Origin,
}

/// The source of a kind's description, for error messages.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Path of its `kind.yaml`; below `(built in)` for kinds in the executable.
    pub file: String,
    /// Line of `placement.label`.
    pub label_line: u64,
    /// Line of `placement.policyPrefix`.
    pub prefix_line: u64,
}

/// See [`FederatedKind::placement`].
#[derive(Debug, Clone)]
pub struct Placement {
    /// Selects the city code in the project object.
    pub path: Query,
    /// Label on the copy and on Karmada Clusters, e.g. `topology.datum.net/city-code`.
    pub label: String,
    /// Prefix of the policies' names, e.g. `city-`. Unique among the kinds.
    pub policy_prefix: String,
    /// How many members of the city get the object.
    pub cardinality: Cardinality,
    /// True if the city must not change once the object is delivered.
    pub immutable: bool,
    /// True if a member of the city must serve the kind before anything goes to the hub.
    pub require_member_api: bool,
}

/// How many members of its city get an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cardinality {
    /// Every member.
    #[default]
    All,
    /// One member at a time, which Karmada's scheduler chooses; an object may move to another member.
    One,
    /// One member, for as long as the object lives.
    ExactlyOne,
}

/// The effect of suspending an object or its project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Suspension {
    /// The copy carries the annotation, and the member's controller acts on it.
    Annotation,
    /// Nothing is dispatched to the member.
    Dispatch,
}

/// See [`FederatedKind::status`].
#[derive(Debug, Clone)]
pub struct StatusRules {
    /// Integer fields of the status that are always written, even if zero.
    pub counters: Vec<String>,
    /// Condition types that the gateway owns in the project; the hub's conditions of these types are dropped.
    pub own_conditions: Vec<String>,
    /// The largest status that is written to the project, in bytes.
    pub max_bytes: u32,
    /// Where the gateway's own conditions are.
    pub conditions_in: ConditionsIn,
}

/// Where the gateway's own conditions are in the project's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConditionsIn {
    /// In `status.conditions`.
    #[default]
    Status,
    /// In an annotation, as JSON, for a schema without conditions.
    Annotation,
}

/// See [`FederatedKind::write_back`].
#[derive(Debug, Clone)]
pub struct WriteBack {
    /// The kind that is written back, e.g. `Instance`.
    pub resource: ApiResource,
    /// Label that names the owning object, e.g. `compute.datumapis.com/workload-deployment-name`.
    pub owner_label: String,
    /// Label with the city code of the write-back.
    pub city_label: String,
    /// Labels that are mirrored into the projection, in addition to the two identity labels.
    pub linking_labels: Vec<String>,
    /// Integers in the project object; the largest of them limits the number of its write-backs.
    pub scale_paths: Vec<Query>,
}

/// See [`FederatedKind::interpreter`].
#[derive(Debug, Clone)]
pub struct Interpreter {
    /// Name of the `ResourceInterpreterCustomization`.
    pub name: String,
    /// `(key under spec.customizations, Lua text)`, e.g. `("statusReflection", …)`, sorted by key. Of a kind whose objects live at
    /// one member the text is longer than the file's (contract: clusters.md §3.6).
    pub scripts: Vec<(String, Arc<str>)>,
}

impl FederatedKind {
    /// The annotation by which a copy says that it is suspended; `None` if suspended objects are not dispatched instead, or
    /// cannot be suspended.
    pub fn suspension_mark(&self) -> Option<&str> {
        let mark = self.suspend_annotation.as_deref();
        mark.filter(|_| self.suspension == Suspension::Annotation)
    }

    /// True if each of its objects lives at one member at a time.
    pub fn is_movable(&self) -> bool {
        self.placement.cardinality == Cardinality::One
    }

    /// True if each of its objects lives at one member for good.
    pub fn is_exactly_one(&self) -> bool {
        self.placement.cardinality == Cardinality::ExactlyOne
    }

    /// True if the Clusters of a city matter to its objects one by one, beside their labels.
    pub fn looks_at_members(&self) -> bool {
        self.is_exactly_one() || self.placement.require_member_api
    }

    /// True if its objects may name a location in place of a city (contract: locations.md §2.2): deployments alone do, since
    /// a kind's profile has one path of a place.
    pub fn may_name_a_location(&self) -> bool {
        self.resource.group == fedgate_api::GROUP && self.resource.kind == "WorkloadDeployment"
    }

    /// The `ResourceInterpreterCustomization` of the kind (contract: federation.md §2.4).
    pub fn interpreter_object(&self) -> Value {
        let customizations: Map<String, Value> = self
            .interpreter
            .scripts
            .iter()
            .map(|(key, script)| (key.clone(), json!({"luaScript": script.as_ref()})))
            .collect();
        json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": self.interpreter.name},
            "spec": {
                "target": {"apiVersion": self.resource.api_version, "kind": self.resource.kind},
                "customizations": customizations,
            },
        })
    }
}

/// See [`FederatedKind::deletion`].
#[derive(Debug, Clone, Default)]
pub struct DeletionRules {
    /// When the deletion is over.
    pub finished_when: FinishedWhen,
    /// Meaning of a deletion of the object by its member.
    pub by_member: ByMember,
    /// The guards, in the order of the file.
    pub guards: Vec<Guard>,
    /// True if the annotation `fedgate.dev/abandon` ends the wait for a member.
    pub abandon: bool,
}

/// When the deletion of an object is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FinishedWhen {
    /// When the copy and its binding are gone.
    #[default]
    Released,
    /// When the member's object is gone, too.
    MemberAbsent,
}

/// Meaning of a deletion by the member, of an object that the gateway has delivered there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ByMember {
    /// The object is lost: Karmada makes it again.
    #[default]
    Restored,
    /// The object has ended: it is not made again.
    Ends,
}

/// A value in the object that holds its deletion back.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Selects the value in the project's object.
    pub path: Query,
    /// The text, number or boolean that holds the deletion.
    pub equals: Value,
    /// The message to the tenant.
    pub message: String,
}

impl Guard {
    /// True if it holds the deletion of an object.
    pub fn holds(&self, object: &Value) -> bool {
        self.path.all(object).contains(&&self.equals)
    }
}

/// A cluster-scoped kind that the platform writes on the hub and the gateway projects into the projects.
#[derive(Debug, Clone)]
pub struct PlatformKind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Selects the hub's objects that are projected.
    pub selector: Selector,
    /// Path of its `kind.yaml`; below `(built in)` for kinds in the executable.
    pub origin: String,
}

#[cfg(test)]
mod tests;
