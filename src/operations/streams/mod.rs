//! Event streams.
use super::{Refusal, topics::Selection};
use axum::{body::Body, response::Response};
use fedgate_engine::metrics::Metrics;
use fedgate_operations::OperationsSource;
use std::sync::Arc;

pub(super) struct Streams;
impl Streams {
    pub(super) fn new(_process: String, _metrics: Arc<Metrics>) -> Self {
        Self
    }
    pub(super) async fn open(
        &self,
        _s: Arc<dyn OperationsSource>,
        _sel: Selection,
        _last: Option<&str>,
    ) -> Result<Response, Refusal> {
        Err(Refusal::unavailable("event streams are not served yet"))
    }
}
pub(super) fn headers(body: Body) -> Response {
    Response::new(body)
}
