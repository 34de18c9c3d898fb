//! Cell: a cell of the hub as the role `fedgate provisioner` makes it (contract: provisioning.md §10). It has the name of its Karmada
//! Cluster.

#![allow(
    clippy::duplicated_attributes,
    reason = "columns of one type are no duplicates"
)]

use super::conditions::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The desired state of a cell.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "fedgate.dev",
    version = "v1alpha1",
    kind = "Cell",
    plural = "cells",
    shortname = "fc",
    status = "CellStatus",
    derive = "PartialEq",
    doc = "A cluster that the provisioner registers with Karmada as a cell of a city, drains on request, and takes away when the Cell is deleted.",
    printcolumn(name = "City", type_ = "string", json_path = ".spec.city"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".status.provider"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.status!=\"True\")].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.status!=\"True\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CellSpec {
    /// City code: the value of label topology.datum.net/city-code. It cannot change.
    pub city: String,
    /// Active takes deployments. Cordoned takes no new ones. Drained has none: the gateway moves them to other cells of the city.
    #[serde(default)]
    pub state: CellState,
    /// The registration with Karmada.
    #[serde(default)]
    pub register: Register,
    /// The program `fedgate cell` in the cluster, as Pods.
    #[serde(default)]
    pub agent: Agent,
    /// The origin of the cluster. Its kind cannot change.
    pub provider: Provider,
    /// Settings of the cluster that the provisioner makes of machines. They cannot change, but cniManifest may be added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
}

/// Whether a cell takes deployments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CellState {
    /// The cell takes deployments.
    #[default]
    Active,
    /// The cell keeps its deployments and takes no new ones.
    Cordoned,
    /// The gateway moves the deployments to other cells of the city.
    Drained,
}

/// The registration of a cell with Karmada.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Register {
    /// Push: Karmada writes to the cell. Pull: karmada-agent in the cell reads from the hub. It cannot change.
    #[serde(default)]
    pub mode: Mode,
    /// Rights of Karmada's account at the cell.
    #[serde(default)]
    pub rights: KarmadaRights,
    /// Let Karmada's API server forward users' requests to the cell under their names (clusters/proxy). Needs rights Full and mode Push.
    #[serde(default)]
    pub proxy: bool,
    /// Address of the cell's API server as the hub reaches it. Default: the server of its kubeconfig.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_endpoint: String,
    /// Address of the hub as the cell reaches it. Default: the server of the provisioner's kubeconfig.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hub_endpoint: String,
    /// With mode Pull: the image of karmada-agent, of the hub's version of Karmada.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_image: String,
}

/// The side that opens the connection between hub and cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// The hub.
    #[default]
    Push,
    /// The cell.
    Pull,
}

/// Rights of Karmada's account at a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KarmadaRights {
    /// The rights that Karmada needs for the federated kinds.
    #[default]
    Narrow,
    /// All rights.
    Full,
}

/// The program `fedgate cell` in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Image of fedgate. Without an image the provisioner installs no program, and an operator runs `fedgate cell`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Name of the cell's Location. Default: the cell's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub location: String,
}

/// The origin of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Provider {
    /// A cluster that somebody else has made.
    Existing(Existing),
    /// A cluster of Cluster API.
    #[serde(rename = "clusterAPI")]
    ClusterApi(ClusterApi),
    /// Existing machines, of which the provisioner makes a cluster, with kubeadm over SSH.
    Hosts(Hosts),
}

impl Provider {
    /// The word for its kind.
    pub fn kind(&self) -> ProviderKind {
        match self {
            Self::Existing(_) => ProviderKind::Existing,
            Self::ClusterApi(_) => ProviderKind::ClusterApi,
            Self::Hosts(_) => ProviderKind::Hosts,
        }
    }

    /// Name of its Secret in the provisioner's Namespace of Secrets. Empty with Cluster API, which has the Secret in the Namespace of its
    /// Cluster.
    pub fn secret(&self) -> &str {
        match self {
            Self::Existing(existing) => &existing.kubeconfig_secret,
            Self::ClusterApi(_) => "",
            Self::Hosts(hosts) => &hosts.ssh_key_secret,
        }
    }
}

/// The kind of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// [`Provider::Existing`].
    Existing,
    /// [`Provider::ClusterApi`].
    ClusterApi,
    /// [`Provider::Hosts`].
    Hosts,
}

impl ProviderKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Existing, Self::ClusterApi, Self::Hosts];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Existing => "existing",
            Self::ClusterApi => "clusterAPI",
            Self::Hosts => "hosts",
        }
    }
}

/// A cluster that somebody else has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Existing {
    /// Name of a Secret in the provisioner's Namespace of Secrets. Its key `kubeconfig` is a kubeconfig of an administrator of the
    /// cluster. Its annotation fedgate.dev/cells lists this Cell.
    pub kubeconfig_secret: String,
}

/// A Cluster of Cluster API (cluster.x-k8s.io/v1beta2), in the cluster that has the Secrets of Cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterApi {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of a Cluster of Cluster API that exists. Annotation fedgate.dev/cells of the Cluster lists this Cell. The provisioner neither
    /// changes nor deletes the Cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// spec.topology of the Cluster that the provisioner creates with the name of the Cell. The Cluster is deleted with the Cell. Cluster API
    /// documents the fields. Changes are applied to the Cluster. A field that is removed from the Cell stays in the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub topology: Option<Map<String, Value>>,
    /// spec.clusterNetwork of the Cluster that the provisioner creates: addresses of Pods and Services, and their domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub cluster_network: Option<Map<String, Value>>,
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Machines that become a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hosts {
    /// Name of a Secret in the provisioner's Namespace of Secrets. Its key `ssh-privatekey` is the private key for all machines. Its
    /// annotation fedgate.dev/cells lists this Cell.
    pub ssh_key_secret: String,
    /// 1, 3 or 5 control planes and at least one worker. The first machine is the first control plane. Workers may be added. No machine
    /// can be removed.
    pub machines: Vec<Machine>,
}

/// A machine, with containerd, kubelet and kubeadm of the wanted version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Name of its Node.
    pub name: String,
    /// The part of the machine in the cluster.
    pub role: MachineRole,
    /// IP address or DNS name, as the provisioner reaches it.
    pub address: String,
    /// Port of SSH.
    #[serde(default = "ssh_port")]
    #[schemars(extend("format" = "int32"))]
    pub port: u16,
    /// User of SSH: root, or one who may run everything with `sudo` without a password.
    #[serde(default = "root")]
    pub user: String,
    /// IP address, as other machines reach it. Default: `address`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_address: String,
    /// Public host key of SSH: its type and its base64 text.
    pub host_key: String,
}

const fn ssh_port() -> u16 {
    22
}

fn root() -> String {
    "root".to_owned()
}

/// The part of a machine in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MachineRole {
    /// The machine runs an API server and etcd.
    ControlPlane,
    /// The machine runs Pods.
    Worker,
}

/// Settings of the cluster that the provisioner makes of machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// Version of Kubernetes, such as v1.36.3.
    pub version: String,
    /// Name of a ConfigMap in the provisioner's Namespace of Secrets. Its key `manifest.yaml` has the objects of the network plugin. Its
    /// annotation fedgate.dev/cells lists this Cell. Without it somebody else installs the plugin. Later
    /// changes of the ConfigMap are not applied.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cni_manifest: String,
    /// Addresses of Pods.
    #[serde(default = "pod_cidr", rename = "podCIDR")]
    pub pod_cidr: String,
    /// Addresses of Services.
    #[serde(default = "service_cidr", rename = "serviceCIDR")]
    pub service_cidr: String,
    /// Domain of Services.
    #[serde(default = "dns_domain")]
    pub dns_domain: String,
    /// The address of the API servers.
    #[serde(default)]
    pub endpoint: ControlPlaneEndpoint,
}

fn pod_cidr() -> String {
    "10.244.0.0/16".to_owned()
}

fn service_cidr() -> String {
    "10.96.0.0/12".to_owned()
}

fn dns_domain() -> String {
    "cluster.local".to_owned()
}

/// The address of the API servers of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneEndpoint {
    /// Where it leads.
    #[serde(rename = "type", default)]
    pub type_: EndpointType,
    /// Host and port of a load balancer, with type External.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
}

/// Where the address of the API servers leads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EndpointType {
    /// To the only control plane.
    #[default]
    Leader,
    /// To a load balancer that somebody else runs.
    External,
    /// To HAProxy on the first control plane, which the provisioner sets up. If that machine is down, the address does not answer.
    #[serde(rename = "HAProxy")]
    HaProxy,
}

/// The observed state of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellStatus {
    /// The generation that the conditions are about.
    #[serde(default)]
    pub observed_generation: i64,
    /// A summary of the conditions.
    #[serde(default)]
    pub phase: CellPhase,
    /// The kind of the provider.
    #[serde(default)]
    pub provider: String,
    /// The time at which the provisioner last found every step reached. It is written at most once an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_at: Option<Time>,
    /// The cluster, once it was found. Nothing is written for the cell before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<CellCluster>,
    /// Conditions `Validated`, `Registered`, `AgentReady`, `Ready` and `Drained`: each is the result of one step. Provider hosts adds
    /// `Bootstrapped`, provider clusterAPI `InfrastructureReady`, and both add `ControlPlaneInitialized`, `ControlPlaneJoined` and `WorkersJoined`.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The cluster of a Cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellCluster {
    /// UID of its namespace kube-system.
    pub id: String,
    /// Address of its API server.
    pub endpoint: String,
}

/// A summary of the conditions of a Cell.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum CellPhase {
    /// A condition is not True yet.
    #[default]
    Provisioning,
    /// The cell takes deployments.
    Provisioned,
    /// The cell takes no new deployments.
    Cordoned,
    /// The deployments of the cell move to other cells.
    Draining,
    /// The cell is empty.
    Drained,
    /// The cell is drained and taken away.
    Deleting,
    /// A condition waits for an operator.
    Failed,
}

impl CellPhase {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Provisioning,
        Self::Provisioned,
        Self::Cordoned,
        Self::Draining,
        Self::Drained,
        Self::Deleting,
        Self::Failed,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Cordoned => "Cordoned",
            Self::Draining => "Draining",
            Self::Drained => "Drained",
            Self::Deleting => "Deleting",
            Self::Failed => "Failed",
        }
    }
}
