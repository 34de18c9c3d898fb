//! Wire types of the kinds we know, keys, conditions and name newtypes. No I/O.
//!
//! The three kinds are [`Workload`], [`WorkloadDeployment`] and [`Instance`]; [`crd`] turns them into custom resource
//! definitions and [`validate`] says in Rust what the Workload's definition says in schema and CEL.

#![forbid(unsafe_code)]

pub mod cell;
pub mod conditions;
pub mod crd;
pub mod karmada;
pub mod keys;
pub mod meta;
pub mod names;
pub mod quantity;
pub mod validate;
pub mod yaml;

mod check;
mod deployment;
mod instance;
mod network;
mod place;
mod probe;
mod rules;
mod runtime;
mod scale;
mod schema;
mod selector;
mod template;
mod unknown;
mod volume;
mod words;
mod workload;

pub use conditions::{Condition, ConditionStatus, Reason};
pub use deployment::{WorkloadDeployment, WorkloadDeploymentSpec, WorkloadDeploymentStatus, WorkloadRef};
pub use instance::{
    Instance, InstanceController, InstanceControllerStatus, InstanceSpec, InstanceStatus,
    InterfaceAssignments, InterfaceStatus, SchedulingGate,
};
pub use meta::{EmbeddedMeta, LocationReference, NameReference, NamedLocation};
pub use network::{
    IngressPeer, IngressPort, IngressRule, InstanceNetworkInterface, IpBlock, NetworkPolicy, NetworkReference,
};
pub use place::{Place, Places};
pub use probe::{
    ExecAction, GrpcAction, HttpGetAction, HttpHeader, Lifecycle, LifecycleHandler, Probe, SleepAction,
    TcpSocketAction,
};
pub use quantity::{Quantity, ResourceList};
pub use rules::is_left_to_controllers;
pub use runtime::{
    ConfigSourceRef, ContainerResources, EnvFrom, EnvSource, EnvVar, FieldSelector, InstanceRuntime,
    KeySelector, NamedPort, ResourceSelector, RuntimeResources, Sandbox, SandboxContainer, VirtualMachine,
    VolumeAttachment,
};
pub use scale::{ManagementPolicy, Metric, MetricTarget, ResourceMetric, RolloutSettings, ScaleSettings};
pub use selector::{LabelExpression, LabelSelector};
pub use template::InstanceTemplate;
pub use unknown::written_template;
pub use volume::{
    ConfigMapVolume, Disk, DiskFilesystem, DiskPopulator, DiskResources, DiskSpec, DiskTemplate,
    InstanceVolume, KeyToPath, SecretVolume,
};
pub use workload::{Placement, PlacementStatus, ReplicaCounts, Workload, WorkloadSpec, WorkloadStatus};

/// API group of our kinds.
pub const GROUP: &str = "compute.datumapis.com";
/// The one version of our kinds, served and stored.
pub const VERSION: &str = "v1alpha";
/// `apiVersion` of our kinds.
pub const API_VERSION: &str = "compute.datumapis.com/v1alpha";
