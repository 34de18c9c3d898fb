//! How many Instances a placement has in each of its cities (contract: api.md §6).

use super::quantity::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
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
    /// How Instances are replaced if the template changes. Without this field, each Instance is deleted before its replacement is
    /// created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutSettings>,
}

/// How the Instances of a deployment are replaced if its template changes (contract: serving.md §3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSettings {
    /// Instances beyond `minReplicas` during the replacement: a number, or a percentage that is rounded up; absent means 1, and 0
    /// if the template has a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// Instances of `minReplicas` that may be unavailable: a number, or a percentage that is rounded down. Absent means 0.
    /// Without surge at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Seconds that an Instance is ready before it counts as available; absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// Seconds without progress after which `Progressing` is False; absent means 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// True if Instances are not replaced. Instances are still created and deleted to match `minReplicas`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Answer to a rollout that exceeds its progress deadline: `Hold` keeps the rollout as it is, `Undo` runs the last template
    /// whose rollout completed. Absent means `Hold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
}

impl RolloutSettings {
    /// Value of [`RolloutSettings::on_failure`] that keeps a failed rollout as it is; the default.
    pub const HOLD: &'static str = "Hold";
    /// Value of [`RolloutSettings::on_failure`] that runs the last template whose rollout completed.
    pub const UNDO: &'static str = "Undo";
    /// [`RolloutSettings::progress_deadline_seconds`] if it is absent.
    pub const PROGRESS_DEADLINE_SECONDS: i32 = 600;
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
