//! How many Instances a placement has in each of its cities (contract: api.md §6).

use super::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many Instances each city gets, and in which order they come and go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["minReplicas", "instanceManagementPolicy"]))]
pub struct ScaleSettings {
    /// The desired number of Instances in each city.
    pub min_replicas: i32,
    /// Has no effect, because fedgate has no autoscaler: `minReplicas` is what runs. Carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// Have no effect, because fedgate has no autoscaler: `minReplicas` is what runs. Carried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// `OrderedReady` makes and replaces Instances one at a time, `Parallel` all at once.
    #[serde(default)]
    pub instance_management_policy: ManagementPolicy,
}

/// The name of a management policy. Open, because a deployment may carry a name that a newer version knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ManagementPolicy(pub String);

impl ManagementPolicy {
    /// One Instance at a time, in order.
    pub const ORDERED_READY: &'static str = "OrderedReady";
    /// All Instances at once.
    pub const PARALLEL: &'static str = "Parallel";
}

impl Default for ManagementPolicy {
    fn default() -> Self {
        Self(Self::ORDERED_READY.to_owned())
    }
}

/// What an autoscaler would look at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// A resource of the Instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetric>,
}

/// A resource and the amount an autoscaler would aim at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceMetric {
    /// Name of the resource: `cpu`.
    pub name: String,
    /// The amount to aim at.
    pub target: MetricTarget,
}

/// Exactly one amount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricTarget {
    /// Sum over all Instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// Mean over all Instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// Mean over all Instances, in percent of what they requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}
