//! A reconcile of which only a part is applied.

use super::key;
use crate::{
    context::Context,
    deployment::Deployments,
    index::tables::TableId,
    testing::{Fixture, deployment, settings},
};
use axum::body::Body;
use fedgate_engine::{
    error::Category,
    key::Plane::Cell,
    reconcile::throttle::{Rate, WriteKind},
    runtime::driver::reconcile,
    testing::access::SinglePlane,
};
use http::{Method, Request, Response};
use kube::Client;
use serde_json::json;
use std::{convert::Infallible, sync::atomic::AtomicBool, time::Duration};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_written_status_takes_its_token_though_no_instance_could_be_created() {
    let server = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let (code, body) = match *request.method() {
            Method::PATCH => (200, deployment("web", 1)),
            _ => (500, json!({"kind": "Status", "status": "Failure", "code": 500})),
        };
        let response = Response::builder()
            .status(code)
            .body(Body::from(body.to_string()));
        Ok::<_, Infallible>(response.unwrap())
    });
    let access = SinglePlane::new(
        Client::new(server, "default"),
        Instant::now() + Duration::from_secs(60),
    );
    let mut fixture = Fixture::with_access(settings(), access);
    let interval = Duration::from_secs(1);
    fixture.set(|settings| settings.status_interval = interval);
    fixture.has(&Cell, TableId::Deployments, deployment("web", 1));
    let (deployments, wrote) = (Deployments::default(), AtomicBool::new(false));
    let now = fixture.context.now().instant;
    let rate = Rate::new(interval);
    for _ in 1..rate.burst {
        deployments.written.take(&key("web"), rate, now);
    }
    let wait = || {
        deployments
            .written
            .wait(&key("web"), rate, WriteKind::Transition, now)
    };
    assert_eq!(wait(), None, "one token is left");
    let context = Context::new(&fixture.context, now, &wrote);
    let failure = reconcile(&deployments, &context, &key("web")).await.unwrap_err();
    assert_eq!(failure.category, Category::Server);
    assert_eq!(wait(), Some(interval), "the status was written");
}
