//! Measures a controller's reconcile.

use super::Metrics;
use std::{sync::Arc, time::Instant};

/// Result of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing left to do.
    Success,
    /// Requeued for a later time.
    RequeueAfter,
    /// Failed; retried after a delay.
    Error,
}

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
            self.metrics
                .turns
                .noops
                .with_label_values(&[self.controller])
                .inc();
        }
    }
}

impl Drop for ReconcileTimer {
    fn drop(&mut self) {
        let m = &self.metrics;
        m.under_way.lock().remove(&self.number);
        let seconds = self.began.elapsed().as_secs_f64();
        let result = match self.result {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Error => "error",
        };
        m.turns
            .results
            .with_label_values(&[self.controller, result])
            .inc();
        m.turns
            .seconds
            .with_label_values(&[self.controller])
            .observe(seconds);
        m.queue.worked.with_label_values(&[m.queue_name]).observe(seconds);
        if self.result == ReconcileResult::Error {
            m.turns.errors.with_label_values(&[self.controller]).inc();
            m.queue.retries.with_label_values(&[m.queue_name]).inc();
        }
    }
}
