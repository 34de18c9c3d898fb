//! Alerts and the dashboard, for Prometheus and Grafana. Their expressions are checked against the rows of the metrics,
//! so that none asks for a metric or a label that gateway and cell do not have.

pub mod alerts;
pub mod dashboard;
mod files;
mod panel;
mod panels;
mod process;
pub mod promql;
mod templates;

pub use files::files;
pub use templates::templates;

use promql::Fault;

/// An expression asks for something that no metric has.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {fault}; correct the expression, or register the metric in crates/engine/src/metrics")]
pub struct MonitoringError {
    /// The alert or panel.
    pub name: &'static str,
    /// The fault of its expression.
    pub fault: Fault,
}
