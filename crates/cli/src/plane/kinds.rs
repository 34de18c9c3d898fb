//! Kinds of the compute API.

use fedgate_api::{GROUP, VERSION};
use kube::api::ApiResource;

/// A kind of the compute API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Compute {
    /// Workloads.
    Workloads,
    /// The Workload's deployments, one for each placement and city.
    Deployments,
    /// Instances.
    Instances,
}

/// The objects of a kind that are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All of the namespace.
    All,
    /// The one with this name.
    Named(String),
}

impl Compute {
    const fn kind(self) -> &'static str {
        match self {
            Self::Workloads => "Workload",
            Self::Deployments => "WorkloadDeployment",
            Self::Instances => "Instance",
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Workloads => "workloads",
            Self::Deployments => "workloaddeployments",
            Self::Instances => "instances",
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.kind().to_owned(),
            plural: self.plural().to_owned(),
        }
    }

    pub(super) fn kind_name(self) -> String {
        self.kind().to_owned()
    }
}
