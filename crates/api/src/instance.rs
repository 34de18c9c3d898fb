//! Instance: what runs at a cell, copied to the hub and projected into the project (contract: api.md §4).

#![allow(
    clippy::duplicated_attributes,
    reason = "columns of one type are no duplicates"
)]

use super::{
    conditions::Condition, meta::LocationReference, network::InstanceNetworkInterface,
    runtime::InstanceRuntime, volume::InstanceVolume,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an Instance is; templates use it too. No field is immutable.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "Instance",
    plural = "instances",
    shortname = "inst",
    category = "compute",
    namespaced,
    status = "InstanceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What runs in one city for a WorkloadDeployment.",
    annotation("discovery.miloapis.com/parent-contexts", "Project"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "City",
        type_ = "string",
        json_path = ".metadata.labels.compute\\.datumapis\\.com/city-code"
    ),
    printcolumn(
        name = "Network IP",
        type_ = "string",
        json_path = ".status.networkInterfaces[0].assignments.networkIP"
    ),
    printcolumn(
        name = "External IP",
        type_ = "string",
        json_path = ".status.networkInterfaces[0].assignments.externalIP"
    ),
    printcolumn(
        name = "Quota",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"QuotaGranted\")].reason",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// What runs.
    pub runtime: InstanceRuntime,
    /// Network interfaces, in order; at least one.
    #[schemars(length(min = 1))]
    pub network_interfaces: Vec<InstanceNetworkInterface>,
    /// Volumes that containers or the virtual machine attach by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<InstanceVolume>,
    /// Where the Instance runs. Set by the controller; empty in templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<LocationReference>,
    /// What the controller keeps with the Instance. Set by the controller; empty in templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<InstanceController>,
}

/// What the controller keeps with an Instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceController {
    /// Hash of the template that the Instance was made from.
    pub template_hash: String,
    /// While one is left, no provider creates anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scheduling_gates: Vec<SchedulingGate>,
}

/// A reason why an Instance may not be started yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulingGate {
    /// `Network`, `Quota` or `ReferencedData`.
    pub name: String,
}

/// What became of an Instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InstanceStatus {
    /// `Programmed`, `Available`, `Ready`, `QuotaGranted`, `ReferencedDataReady`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub conditions: Vec<Condition>,
    /// Addresses, in the order of the spec's interfaces. Written by the provider.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub network_interfaces: Vec<InterfaceStatus>,
    /// What the provider has applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<InstanceControllerStatus>,
    /// Whether the provider stops the process and keeps placement, disks and quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

/// What became of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStatus {
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignments: Option<InterfaceAssignments>,
}

/// Addresses of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceAssignments {
    /// Address inside its Network.
    #[serde(default, rename = "networkIP", skip_serializing_if = "Option::is_none")]
    pub network_ip: Option<String>,
    /// Address outside of it.
    #[serde(default, rename = "externalIP", skip_serializing_if = "Option::is_none")]
    pub external_ip: Option<String>,
}

/// What the provider has applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceControllerStatus {
    /// Hash of the template that runs.
    pub observed_template_hash: String,
}
