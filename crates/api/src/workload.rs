//! Workload: what a tenant asks for, at which places (contract: api.md §2, locations.md §2.2).

#![allow(
    clippy::duplicated_attributes,
    reason = "columns of one type are no duplicates"
)]

use super::{
    conditions::Condition, meta::NamedLocation, place::Places, scale::ScaleSettings, selector::LabelSelector,
    template::InstanceTemplate,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// A tenant's request: a template of Instances, and the places that get them.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "Workload",
    plural = "workloads",
    shortname = "cw",
    category = "compute",
    namespaced,
    status = "WorkloadStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A template of Instances, and the places that get them.",
    annotation("discovery.miloapis.com/parent-contexts", "Project"),
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
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredReplicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Up-to-date", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Deployments", type_ = "integer", json_path = ".status.deployments"),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct WorkloadSpec {
    /// What every Instance looks like.
    pub template: InstanceTemplate,
    /// The places that get Instances, in named groups; at least one.
    #[schemars(length(min = 1))]
    pub placements: Vec<Placement>,
}

/// A named group of places with the same scale: of cities, of locations, or of the locations that a selector matches.
/// Exactly one of the three is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Name of the placement, unique in the Workload.
    pub name: String,
    /// City codes, each the `topology.datum.net/city-code` of a Location; at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub city_codes: Vec<String>,
    /// Locations, by name; at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub locations: Vec<NamedLocation>,
    /// Selects locations of the project by their topology; it must not be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location_selector: Option<LabelSelector>,
    /// How many Instances each place gets.
    pub scale_settings: ScaleSettings,
}

impl Placement {
    /// The field that says where; `None` unless exactly one of the three is set, which the definition refuses.
    pub fn places(&self) -> Option<Places<'_>> {
        match (&*self.city_codes, &*self.locations, &self.location_selector) {
            (cities @ [_, ..], [], None) => Some(Places::Cities(cities)),
            ([], locations @ [_, ..], None) => Some(Places::Locations(locations)),
            ([], [], Some(selector)) => Some(Places::Selected(selector)),
            _ => None,
        }
    }
}

/// How many Instances there are, counted five ways. Read leniently, always written in full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReplicaCounts {
    /// Instances that exist.
    pub replicas: i32,
    /// Instances on the latest template that are Programmed=True.
    pub current_replicas: i32,
    /// Instances that are wanted.
    pub desired_replicas: i32,
    /// Instances that are Ready=True.
    pub ready_replicas: i32,
    /// Instances on the latest template, ready or not.
    #[schemars(default)]
    pub updated_replicas: i32,
}

impl AddAssign for ReplicaCounts {
    fn add_assign(&mut self, other: Self) {
        self.replicas = self.replicas.saturating_add(other.replicas);
        self.current_replicas = self.current_replicas.saturating_add(other.current_replicas);
        self.desired_replicas = self.desired_replicas.saturating_add(other.desired_replicas);
        self.ready_replicas = self.ready_replicas.saturating_add(other.ready_replicas);
        self.updated_replicas = self.updated_replicas.saturating_add(other.updated_replicas);
    }
}

/// What became of a Workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkloadStatus {
    /// `Available`, and `AutoscalingReady` where metrics are given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub conditions: Vec<Condition>,
    /// WorkloadDeployments, leaving ones included.
    pub deployments: i32,
    /// Sums over all of them.
    #[serde(flatten)]
    pub counts: ReplicaCounts,
    /// Generation of the Workload that was last acted upon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The placements of the spec, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub placements: Vec<PlacementStatus>,
}

/// What became of a placement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PlacementStatus {
    /// Name of the placement.
    pub name: String,
    /// `Available`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub conditions: Vec<Condition>,
    /// Sums over its deployments.
    #[serde(flatten)]
    pub counts: ReplicaCounts,
    /// The locations that the placement resolves to, by name; none of a placement in cities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub locations: Vec<NamedLocation>,
}
