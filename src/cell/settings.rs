//! The cell's settings, from flags.

use super::{instance_types::InstanceTypes, provider};
use fedgate_engine::reconcile::throttle::Rate;
use std::time::Duration;

/// Settings of a cell.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How Pods are run; `None` leaves Instances to another provider.
    pub provider: Option<provider::settings::Settings>,
    /// Sizes of the instance types.
    pub sizes: InstanceTypes,
    /// True if quota is claimed.
    pub quota: bool,
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
}

impl Settings {
    /// Limits the writes of an Instance's progress: most steps are over sooner, so that several become one write.
    pub fn progress_rate(&self) -> Rate {
        Rate::single(self.status_interval * 2)
    }

    /// Limits the writes of an Instance's progress to its copy: each costs the hub, which all cells share, two
    /// writes.
    pub fn copy_rate(&self) -> Rate {
        Rate::single(self.status_interval * 4)
    }
}
