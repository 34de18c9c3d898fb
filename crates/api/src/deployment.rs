//! `WorkloadDeployment`: one placement of a Workload at one place (contract: api.md §3, locations.md §2.2).

#![allow(
    clippy::duplicated_attributes,
    reason = "columns of one type are no duplicates"
)]

use super::{
    conditions::Condition, meta::LocationReference, place::Place, scale::ScaleSettings,
    template::InstanceTemplate, workload::ReplicaCounts,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One placement of a Workload at one place; the object that travels to the cell. No field is immutable.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "WorkloadDeployment",
    plural = "workloaddeployments",
    shortname = "wd",
    category = "compute",
    namespaced,
    status = "WorkloadDeploymentStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One placement of a Workload in one city. Written by the workload controller.",
    annotation("discovery.miloapis.com/parent-contexts", "Project"),
    printcolumn(name = "City", type_ = "string", json_path = ".spec.cityCode"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].reason"
    ),
    printcolumn(
        name = "Federated",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Federated\")].reason"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredReplicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Up-to-date", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        priority = 1
    ),
    printcolumn(
        name = "Location",
        type_ = "string",
        json_path = ".status.location.name",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Federated\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadDeploymentSpec {
    /// The owning Workload.
    pub workload_ref: WorkloadRef,
    /// Name of the Workload's placement.
    pub placement_name: String,
    /// Target city. It may change while the deployment lives: a move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city_code: Option<String>,
    /// Target location, by name; it decides where `cityCode` is set as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location_ref: Option<LocationReference>,
    /// Has no effect: `scaleSettings.minReplicas` is what a cell runs. Admitted for peers that scale by it, and carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The Workload's template, verbatim.
    pub template: InstanceTemplate,
    /// The placement's scale, verbatim; `minReplicas` is the desired count.
    pub scale_settings: ScaleSettings,
}

impl WorkloadDeploymentSpec {
    /// Where it is to run; `None` if it names neither a city nor a location, which the definition refuses.
    pub fn place(&self) -> Option<Place<&str>> {
        Place::of(
            self.city_code.as_deref(),
            self.location_ref.as_ref().map(|location| location.name.as_str()),
        )
    }
}

/// Names a Workload and the very object that is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRef {
    /// Name of the Workload.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What became of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkloadDeploymentStatus {
    /// Where the cell is. Set by the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<LocationReference>,
    /// `Available`, `ReplicasReady`, `ReferencedDataReady`; in the project `Federated`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub conditions: Vec<Condition>,
    /// Instances of this deployment.
    #[serde(flatten)]
    pub counts: ReplicaCounts,
    /// Generation of the deployment that was last acted upon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the cell holds it suspended; absent equals false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// Label selector of its Instances, as a peer writes it for its scale subresource; not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}
