//! Resident memory of the gateway's processes.

use crate::{process, support::gateway::Gateway};
use serde::Serialize;

/// In KiB: of the first process once it leads, the highest of all, and of the last at rest.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Memory {
    pub(crate) first: u64,
    pub(crate) peak: u64,
    pub(crate) last: u64,
}

impl Memory {
    /// Looks at a process that runs.
    pub(crate) async fn look(&mut self, gateway: &Gateway) {
        let pid = gateway.pid().await;
        if let Some((now, highest)) = pid.and_then(|pid| process::memory(&pid)) {
            if self.first == 0 {
                self.first = now;
            }
            self.peak = self.peak.max(highest);
            self.last = now;
        }
    }
}
