//! Metrics of the API clients, and the closed sets of label values.

use super::registrar::Registrar;
use prometheus::{HistogramVec, IntCounterVec, Registry};

/// The kind of plane that a metric is about; no metric identifies a plane otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlaneKind {
    /// The Karmada hub.
    Hub,
    /// A tenant's project control plane.
    Project,
    /// A cell's own API server.
    Cell,
}

impl PlaneKind {
    /// The label value: `hub`, `project` or `cell`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Project => "project",
            Self::Cell => "cell",
        }
    }
}

/// The direction that `fedgate_federation_seconds` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From a project's change to its write on the hub.
    ProjectToHub,
    /// From a status on the hub to its write in the project.
    HubStatusToProject,
    /// From a write-back to the write of its projection.
    WritebackToProjection,
}

impl Stage {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ProjectToHub => "project_to_hub",
            Self::HubStatusToProject => "hub_status_to_project",
            Self::WritebackToProjection => "writeback_to_projection",
        }
    }
}

/// Metrics of the API clients.
#[derive(Debug, Clone)]
pub struct ClientMetrics {
    /// `rest_client_requests_total{code,method,host}`; `host` is the kind of plane.
    pub requests: IntCounterVec,
    /// `rest_client_request_duration_seconds{verb,host}`; of a watch: until its headers arrive.
    pub seconds: HistogramVec,
    /// `fedgate_api_requests_total{plane,verb,kind,code}`; `kind` is the resource, as in a role.
    pub api_requests: IntCounterVec,
}

impl ClientMetrics {
    /// Registers the clients' metrics alone, for clients outside of a role.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Self::register(&mut Registrar {
            registry,
            rows: Vec::new(),
        })
    }

    pub(super) fn register(r: &mut Registrar<'_>) -> Result<Self, prometheus::Error> {
        Ok(Self {
            requests: r.counters(
                "rest_client_requests_total",
                &["code", "method", "host"],
                "Requests to API servers; host is the kind of plane.",
            )?,
            seconds: r.seconds(
                "rest_client_request_duration_seconds",
                &["verb", "host"],
                "Time a request took; of a watch, until its headers came.",
            )?,
            api_requests: r.counters(
                "fedgate_api_requests_total",
                &["plane", "verb", "kind", "code"],
                "Requests to API servers by resource.",
            )?,
        })
    }
}
