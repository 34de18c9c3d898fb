//! Resident memory of the gateway's processes.

use crate::{process, support::gateway::Gateway};
use serde::Serialize;

/// In KiB: of the first process once it leads, the highest of all, and of the last at rest.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Memory {
    pub(crate) first_kib: u64,
    pub(crate) peak_kib: u64,
    pub(crate) last_kib: u64,
}

impl Memory {
    /// Looks at a process that runs.
    pub(crate) async fn look(&mut self, gateway: &Gateway) {
        let pid = gateway.pid().await;
        if let Some((now, highest)) = pid.and_then(|pid| process::memory(&pid)) {
            if self.first_kib == 0 {
                self.first_kib = now;
            }
            self.peak_kib = self.peak_kib.max(highest);
            self.last_kib = now;
        }
    }
}
