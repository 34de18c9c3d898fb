//! What every Instance of a Workload looks like (contract: api.md §5).

use super::{instance::InstanceSpec, meta::EmbeddedMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The template of Instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceTemplate {
    /// Only labels and annotations reach Instances.
    #[serde(default, skip_serializing_if = "EmbeddedMeta::is_empty")]
    pub metadata: EmbeddedMeta,
    /// The spec of every Instance.
    pub spec: InstanceSpec,
}
