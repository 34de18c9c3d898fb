//! The files of `charts/fedgate` (contract: operations.md §5): templates from the manifests and the rows of the metrics,
//! flags from the command line.

use crate::commands::chart_flags;
use crate::monitoring::{self, MonitoringError};
use fedgate_engine::metrics::Row;
use fedgate_manifests::{File, KindManifests, ManifestError, helm};

/// The chart cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// An object is no YAML, or a definition does not match its type.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An alert or panel has a fault.
    #[error(transparent)]
    Monitoring(#[from] MonitoringError),
}

/// All files of the chart for these kinds; `rows` are the metrics.
pub fn files(kinds: &[KindManifests], rows: &[Row]) -> Result<Vec<File>, ChartError> {
    Ok(helm::files(kinds, monitoring::templates(rows)?, &chart_flags())?)
}
