//! Probes and lifecycle hooks of a container (contract: serving.md §3): the fields of core/v1 of the same names.
//!
//! core/v1's field `host` is left out, because a tenant could make a node send requests to any address with it.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A periodic check of a container; core/v1 `Probe`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Sends a request by HTTP: a code from 200 to 399 is a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// Opens a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// Sends a request of the gRPC health protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAction>,
    /// Runs a command in the container: exit code 0 is a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// Seconds between the start of the container and the first check; absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delay_seconds: Option<i32>,
    /// Seconds between two checks; absent means 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_seconds: Option<i32>,
    /// Seconds until a check without an answer has failed; absent means 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Successes in a row after which the probe succeeds; absent means 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_threshold: Option<i32>,
    /// Failures in a row after which the probe fails; absent means 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i32>,
}

/// A request by HTTP; core/v1 `HTTPGetAction`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// Path of the request; absent means `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Number, or name of a port of the container.
    pub port: IntOrString,
    /// `HTTP` or `HTTPS`; absent means HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Headers of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http_headers: Vec<HttpHeader>,
}

/// A header of a request; core/v1 `HTTPHeader`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HttpHeader {
    /// Name of the header.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A connection; core/v1 `TCPSocketAction`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpSocketAction {
    /// Number, or name of a port of the container.
    pub port: IntOrString,
}

/// A request of the gRPC health protocol; core/v1 `GRPCAction`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrpcAction {
    /// Number of the port.
    pub port: i32,
    /// Service that is checked; absent means the whole server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// A command; core/v1 `ExecAction`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecAction {
    /// Tokens of the command, no shell.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

/// Lifecycle hooks of a container; core/v1 `Lifecycle`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Hook that runs before SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<LifecycleHandler>,
}

/// A hook; core/v1 `LifecycleHandler`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LifecycleHandler {
    /// Delay before SIGTERM, in which clients stop using the Instance.
    pub sleep: SleepAction,
}

/// A delay; core/v1 `SleepAction`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SleepAction {
    /// Its length in seconds.
    pub seconds: i64,
}
