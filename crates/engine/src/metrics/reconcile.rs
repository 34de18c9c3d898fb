//! Measures a controller's reconcile.

use super::{Family, Metrics, ReconcileResult};
use std::{sync::Arc, time::Instant};

/// A running reconcile; dropped without [`ReconcileTimer::end`] it counts as an error.
#[derive(Debug)]
pub struct ReconcileTimer {
    pub(super) metrics: Arc<Metrics>,
    pub(super) controller: &'static str,
    pub(super) number: u64,
    pub(super) began: Instant,
    pub(super) result: ReconcileResult,
}

impl ReconcileTimer {
    /// Ends the reconcile; `wrote` is true if it requested any write.
    pub fn end(mut self, result: ReconcileResult, wrote: bool) {
        self.result = result;
        if !wrote && result != ReconcileResult::Error {
            self.metrics.count(Family::IdleReconciles, &[self.controller]);
        }
    }
}

impl Drop for ReconcileTimer {
    fn drop(&mut self) {
        let m = &self.metrics;
        m.under_way.lock().remove(&self.number);
        let took = self.began.elapsed();
        m.count(Family::Reconciles, &[self.controller, self.result.as_str()]);
        m.observe(Family::ReconcileSeconds, &[self.controller], took);
        m.observe(Family::QueueWork, &[m.queue_name], took);
        if self.result == ReconcileResult::Error {
            m.count(Family::ReconcileErrors, &[self.controller]);
            m.count(Family::QueueRetries, &[m.queue_name]);
        }
    }
}
