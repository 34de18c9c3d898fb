//! What is set of Pods at a cell.

use super::{pod, service::SinglePort};

/// How Pods are run at this cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Where and how.
    pub pod: pod::Settings,
    /// Whether Instances get a `NetworkPolicy`.
    pub network_policies: bool,
    /// On which port an Instance with a single one is reached.
    pub single_port: SinglePort,
}
