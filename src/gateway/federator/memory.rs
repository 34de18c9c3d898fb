//! What the federator remembers of a deployment, beside the index. Values only.

use crate::engine::diff::Digest;
use std::time::Duration;
use tokio::time::Instant;

/// How long after the copy was written a missing delivery becomes `Propagating`, a missing report `NoCellReporting`,
/// and a `Federated=True` is written alone.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What the federator remembers of a deployment between passes; losing it costs nothing but patience.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Since when the copy is not delivered.
    pub undelivered: Option<Instant>,
    /// Since when the references are unresolved.
    pub unresolved: Option<Instant>,
    /// When the change that is on its way to the hub came in; for the measurement, not for decisions.
    pub carrying: Option<Instant>,
    /// Since when the hub says that no cell reports.
    pub unreported: Option<Instant>,
    /// Since when only `Federated=True` waits to be written.
    pub good_news: Option<Instant>,
    /// Since when the claim names a wrong policy.
    pub claim_wrong: Option<Instant>,
    /// When the claim was last repaired.
    pub claim_repaired: Option<Instant>,
    /// Since when a deletion waits for cells.
    pub leaving: Option<(Instant, jiff::Timestamp)>,
    /// When the project's status was last written.
    pub status_written: Option<Instant>,
    /// The project's API does not take a returned status as it is: what the hub had, and what the project made of it.
    pub status_settled: Option<(Digest, Digest)>,
    /// The hub keeps a default of its own in the payload: what we wanted, and what it made of it.
    pub settled: Option<(Digest, Digest)>,
}
