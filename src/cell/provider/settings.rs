//! Settings of the Pod provider.

use super::{pod, service::SinglePort};

/// Settings for the Pods of this cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Scheduling and runtime settings.
    pub pod: pod::Settings,
    /// True if Instances get a `NetworkPolicy`.
    pub network_policies: bool,
    /// The Service port of an Instance with a single port.
    pub single_port: SinglePort,
}
