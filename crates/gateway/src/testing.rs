//! Context of a controller for tests: an index, and planes with scripted answers.

use super::{
    context::{Context, Shared, State},
    index::{GatewayIndex, fixture::setup},
    rate_limit::RateLimiter,
};
pub(crate) use crate::index::fixture::settings;
use axum::body::Body;
use fedgate_engine::{
    executor::PlaneAccess,
    key::{Key, Plane},
    plan::{ReasonLabel, Requeue, Target, WriteResult},
    plane::{health::PlaneHealth, watch::WatchEvent},
    runtime::shared_for_tests,
};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{Arc, atomic::AtomicBool};

/// The test context; see the module.
pub(crate) struct Rig {
    pub(crate) context: Shared,
    asked: Arc<Mutex<Vec<String>>>,
    wrote: AtomicBool,
}

/// Access to planes that are all the same server.
struct Planes {
    index: Arc<Mutex<GatewayIndex>>,
    client: Client,
}

impl PlaneAccess for Planes {
    fn client(&self, _: &Plane) -> Option<Client> {
        Some(self.client.clone())
    }

    fn health(&self, _: &Plane) -> Option<Arc<PlaneHealth>> {
        None
    }

    fn may_write(&self) -> bool {
        true
    }

    fn permit_expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn write_unresolved(&self, _: &Target) {}

    fn object_observed(&self, target: &Target, _: u64, answer: WriteResult) {
        let mut index = self.index.lock();
        let table = index.table_of_kind(&target.kind()).unwrap();
        if let WriteResult::Current(object) = answer {
            match &target.plane {
                Plane::Hub => index.hub_event(table, WatchEvent::Apply(object)),
                Plane::Project(key) => index.project_event(key, table, WatchEvent::Apply(object)),
                Plane::Cell | Plane::Home => return,
            };
        }
    }

    fn wrote(&self, _: &Target, _: ReasonLabel) {}

    fn fight_detected(&self, _: &Target, _: &'static str) {}
}

/// Code of a lost answer: the request ends with a connection error.
pub(crate) const LOST: u16 = 0;

/// An error response of an API server.
pub(crate) fn refusal(code: u16, reason: &str, details: &Value) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": reason, "details": details});
    (code, status)
}

impl Rig {
    /// A rig whose planes answer by method and last part of the path; [`LOST`] is no answer.
    pub(crate) fn new(
        index: GatewayIndex,
        answer: impl Fn(&Method, &str) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (heard, answer) = (asked.clone(), Arc::new(answer));
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let name = request
                .uri()
                .path()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            heard.lock().push(format!("{} {name}", request.method()));
            let (code, body) = answer(request.method(), &name);
            async move {
                if code == LOST {
                    return Err(std::io::Error::other("the connection broke"));
                }
                let response = Response::builder()
                    .status(code)
                    .body(Body::from(body.to_string()));
                Ok(response.unwrap())
            }
        });
        let index = Arc::new(Mutex::new(index));
        let planes = Planes {
            index: index.clone(),
            client: Client::new(service, "default"),
        };
        Self {
            context: context(index, Arc::new(planes)),
            asked,
            wrote: AtomicBool::new(false),
        }
    }

    /// A reconcile that starts now, of a key that was enqueued just before.
    pub(crate) fn reconcile_once(&self) -> Context<'_> {
        Context::new(&self.context, self.context.now().instant, &self.wrote)
    }

    /// Requests to the planes since the last call: method and last part of the path.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }

    /// The keys that were enqueued since the last call.
    pub(crate) async fn enqueued(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        while self.context.queue.depth().ready > 0 {
            let taken = self.context.queue.next().await.unwrap();
            self.context.queue.done(&taken.key, Ok(Requeue::AwaitChange));
            keys.push(taken.key);
        }
        keys
    }
}

/// Shared state of the controllers, with the test's access to planes.
pub(crate) fn context(index: Arc<Mutex<GatewayIndex>>, access: Arc<dyn PlaneAccess>) -> Shared {
    let state = State {
        settings: settings(),
        rate_limiter: Arc::new(Mutex::new(RateLimiter::new(settings().hub_limits))),
    };
    shared_for_tests(index, state, setup(), access)
}
