//! The cell's settings and limits, from flags.

use super::instance_types::InstanceTypes;
use clap::ArgAction::Set;
use fedgate_api::names::ProjectKey;
use fedgate_engine::reconcile::throttle::Rate;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

pub use fedgate_api::crd::MAX_REPLICAS;

/// Settings of a cell.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Name of the cell.
    pub cell: Arc<str>,
    /// Name and city of the configured location, if any.
    pub place: Option<(Arc<str>, Arc<str>)>,
    /// True if networking is enabled.
    pub networking: bool,
    /// True if companions are watched.
    pub data: bool,
    /// True if the cell has a hub.
    pub hub: bool,
    /// True if quota is claimed.
    pub quota: bool,
    /// The only project of a cell without a hub; all namespaces of the cell belong to this project.
    pub project: Option<ProjectKey>,
    /// The cell's own namespace, which holds the release records.
    pub namespace: Arc<str>,
    /// True if the built-in provider runs Pods; otherwise Instances are left to another provider.
    pub provider: bool,
    /// Settings of the Pods, which also apply to Pods that still run while the provider is off.
    pub pods: PodSettings,
    /// Sizes of the instance types.
    pub sizes: InstanceTypes,
    /// Maximum number of Instances of a deployment. The cell enforces it, because other planes may have other definitions.
    pub max_replicas: u32,
    /// True if interfaces may name Networks of other namespaces.
    pub cross_namespace_networks: bool,
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
}

impl Settings {
    /// Limits the writes of an Instance's progress: most steps are over sooner, so that several become one write.
    pub fn progress_rate(&self) -> Rate {
        Rate::single(self.status_interval * 2)
    }

    /// Limits the writes of an Instance's progress to its write-back: each costs the hub, which all cells share, two
    /// writes.
    pub fn write_back_rate(&self) -> Rate {
        Rate::single(self.status_interval * 4)
    }
}

/// Flags for the Pods of a cell.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PodSettings {
    /// Label that nodes need to run Pods, as key=value; may be repeated.
    #[arg(long = "pod-node-selector", env = "FEDGATE_POD_NODE_SELECTOR", value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',')]
    pub node_selector: Vec<(String, String)>,
    /// Node taint that Pods tolerate, as key=value:effect or key:effect; may be repeated.
    #[arg(long = "pod-toleration", env = "FEDGATE_POD_TOLERATION", value_name = "KEY[=VALUE]:EFFECT", value_parser = toleration, value_delimiter = ',')]
    pub tolerations: Vec<Value>,
    /// Runtime class of Pods.
    #[arg(
        long = "pod-runtime-class",
        env = "FEDGATE_POD_RUNTIME_CLASS",
        value_name = "NAME"
    )]
    pub runtime_class: Option<String>,
    /// Annotation of Pods, such as a network attachment, as key=value; may be repeated.
    #[arg(long = "pod-annotation", env = "FEDGATE_POD_ANNOTATION", value_name = "KEY=VALUE", value_parser = pair)]
    pub annotations: Vec<(String, String)>,
    /// Profile of the Pod Security Standards that Pods comply with. A tenant's namespace without an enforced profile
    /// gets its label before the first Pod; an existing label is kept.
    #[arg(long, env = "FEDGATE_POD_SECURITY", value_enum, default_value = "restricted")]
    pub pod_security: Security,
    /// Give each Instance a `NetworkPolicy` that admits only the traffic in networkPolicy.ingress of its template.
    #[arg(long, env = "FEDGATE_NETWORK_POLICIES", value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true", action = Set)]
    pub network_policies: bool,
    /// Annotation with which the runtime publishes a Pod's external address.
    #[arg(
        long = "pod-external-address",
        env = "FEDGATE_POD_EXTERNAL_ADDRESS",
        value_name = "KEY"
    )]
    pub external_address: Option<String>,
    /// Serve an Instance with a single port on port 443, as unikraft-provider does.
    #[arg(long, env = "FEDGATE_SERVICE_SINGLE_PORT_443", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = Set)]
    pub service_single_port_443: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| format!("{text:?} is no pair; write key=value"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses a toleration into core/v1 `Toleration`.
fn toleration(text: &str) -> Result<Value, String> {
    let form = || format!("{text:?} is no toleration; write key=value:effect, or key:effect for any value");
    let (taint, effect) = text.rsplit_once(':').ok_or_else(form)?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(format!(
            "{effect:?} is no effect; NoSchedule, PreferNoSchedule and NoExecute are"
        ));
    }
    match taint.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            Ok(json!({"key": key, "operator": "Equal", "value": value, "effect": effect}))
        }
        None if !taint.is_empty() => Ok(json!({"key": taint, "operator": "Exists", "effect": effect})),
        _ => Err(form()),
    }
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
