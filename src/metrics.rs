//! Metrics: one registry, closed label sets. No label ever holds a name of a tenant or an object.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// What kind of plane a figure is about; the only thing a metric ever says about a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlaneKind {
    /// The Karmada hub.
    Hub,
    /// A tenant's project control plane.
    Project,
}

impl PlaneKind {
    /// The label value: `hub` or `project`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Project => "project",
        }
    }
}

/// Figures of the API clients.
#[derive(Debug, Clone)]
pub struct ClientMetrics {
    /// `rest_client_requests_total{code,method,host}`; `host` is the kind of plane.
    pub requests: IntCounterVec,
    /// `rest_client_request_duration_seconds{verb,host}`; of a watch: until its headers came.
    pub seconds: HistogramVec,
    /// `fedgate_api_requests_total{plane,verb,kind,code}`; `kind` is the resource, as in a role.
    pub api_requests: IntCounterVec,
}

impl ClientMetrics {
    /// Registers the clients' figures.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new(
                "rest_client_requests_total",
                "Requests to API servers, by HTTP code, method and kind of plane.",
            ),
            &["code", "method", "host"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "rest_client_request_duration_seconds",
                "Time a request took, of a watch until its headers came.",
            )
            .buckets(prometheus::exponential_buckets(0.001, 2.0, 16)?),
            &["verb", "host"],
        )?;
        let api_requests = IntCounterVec::new(
            Opts::new(
                "fedgate_api_requests_total",
                "Requests to API servers, by kind of plane, verb, resource and code.",
            ),
            &["plane", "verb", "kind", "code"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(api_requests.clone()))?;
        Ok(Self {
            requests,
            seconds,
            api_requests,
        })
    }
}
