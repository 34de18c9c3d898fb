//! The cell's settings and limits, from flags.

use super::instance_types::InstanceTypes;
use fedgate_engine::reconcile::throttle::Rate;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

pub use fedgate_api::crd::MAX_REPLICAS;

/// Settings of a cell.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How Pods are run; `None` leaves Instances to another provider.
    pub provider: Option<ProviderSettings>,
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

/// Settings for the Pods of this cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderSettings {
    /// Scheduling and runtime settings.
    pub pod: PodSettings,
    /// True if Instances get a `NetworkPolicy`.
    pub network_policies: bool,
    /// True if the Service of an Instance with a single port serves it on port 443, as unikraft-provider does.
    pub single_port_443: bool,
}

/// Scheduling and runtime settings of Pods at this cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSettings {
    /// Node selector.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations; core/v1 `Toleration`.
    pub tolerations: Vec<Value>,
    /// Runtime class; `None` for the default.
    pub runtime_class: Option<String>,
    /// Additional annotations, such as a network attachment.
    pub annotations: BTreeMap<String, String>,
    /// Pod Security profile.
    pub security: Security,
}

/// The profile of the Pod Security Standards that Pods comply with and their namespaces enforce.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Security {
    /// No root user, no privileges.
    #[default]
    Restricted,
    /// No privileges; images may run as root.
    Baseline,
    /// No restrictions: for a runtime that isolates Pods itself.
    Privileged,
}

impl Security {
    /// The value of the namespace label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restricted => "restricted",
            Self::Baseline => "baseline",
            Self::Privileged => "privileged",
        }
    }
}

/// Limits that a cell enforces itself, because other planes may have other definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of Instances of a deployment.
    pub replicas: u32,
    /// The known instance types and their sizes.
    pub sizes: InstanceTypes,
    /// True if interfaces may name Networks of other namespaces.
    pub cross_namespace_networks: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            replicas: 1000,
            sizes: InstanceTypes::default(),
            cross_namespace_networks: false,
        }
    }
}
