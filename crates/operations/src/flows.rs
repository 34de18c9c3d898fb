//! `GET /flows`: project → city → cell with Instances, as bands of a picture.

use crate::Worst;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Project of a row that sums the rows beyond `top`.
pub const REST: &str = "*";

/// The flows, the largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// The rows.
    pub items: Vec<FlowRow>,
}

/// Instances of a project in a cell of a city.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowRow {
    /// The project; [`REST`] for the sum of those beyond `top`.
    pub project: String,
    /// Number of projects of a sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<usize>,
    /// The city.
    pub city: String,
    /// The cell; empty if the write-backs name none.
    pub cell: String,
    /// Written-back Instances.
    pub instances: u64,
    /// Number of Instances that are ready.
    pub ready: u64,
    /// The worst state of the project in this city; null if all is well.
    pub worst: Option<Worst>,
}
