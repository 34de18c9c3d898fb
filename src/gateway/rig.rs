//! A controller's surroundings for tests: an index, and planes that answer as the test says.

use super::{
    context::{Context, Settings, Turn},
    rate_limit::{Limits, RateLimiter},
    world::World,
};
use crate::{
    engine::{
        clock::Clock,
        executor::{Executor, Surroundings},
        key::{Key, Plane},
        plan::{Answer, Target},
        queue::{Outcome, Queue},
    },
    metrics::Metrics,
    plane::watch::Event,
};
use axum::body::Body;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// See the module.
pub(crate) struct Rig {
    pub(crate) context: Context,
    asked: Arc<Mutex<Vec<String>>>,
    wrote: AtomicBool,
}

/// Every plane is the same server.
struct Planes {
    world: Arc<Mutex<World>>,
    client: Client,
}

impl Surroundings for Planes {
    fn client(&self, _: &Plane) -> Option<Client> {
        Some(self.client.clone())
    }

    fn may_write(&self) -> bool {
        true
    }

    fn writing_ends(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn unanswered(&self, _: &Target) {}

    fn answered(&self, target: &Target, _: u64, answer: Answer) {
        let mut world = self.world.lock();
        let role = world.role_of(&target.kind()).unwrap();
        if let Answer::Is(object) = answer {
            match &target.plane {
                Plane::Hub => world.hub_event(role, Event::Applied(object)),
                Plane::Project(key) => world.project_event(key, role, Event::Applied(object)),
                Plane::Cell => return,
            };
        }
    }

    fn wrote(&self, _: &Target, _: &'static str) {}

    fn fought(&self, _: &Target, _: &'static str) {}
}

/// The code of an answer that is lost: the request ends in an error of the connection.
pub(crate) const LOST: u16 = 0;

/// An API's refusal.
pub(crate) fn refusal(code: u16, reason: &str, details: &Value) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": reason, "details": details});
    (code, status)
}

impl Rig {
    /// A rig whose planes give these answers, by method and the last part of the path; [`LOST`] is none.
    pub(crate) fn new(
        world: World,
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
        let world = Arc::new(Mutex::new(world));
        let planes = Planes {
            world: world.clone(),
            client: Client::new(service, "default"),
        };
        let executor = Executor::new(Arc::new(planes), "test".into());
        Self {
            context: context(world, executor),
            asked,
            wrote: AtomicBool::new(false),
        }
    }

    /// A turn that begins now, of a key that was woken just before.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn::new(&self.context, self.context.now().instant, &self.wrote)
    }

    /// What was asked of the planes since the last time: method and the last part of the path.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }

    /// The keys that were woken since the last time.
    pub(crate) async fn woken(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        while self.context.queue.depth().ready > 0 {
            let taken = self.context.queue.next().await.unwrap();
            self.context.queue.done(&taken.key, Outcome::Settled);
            keys.push(taken.key);
        }
        keys
    }
}

/// What controllers work with, over an executor that the test has made.
pub(crate) fn context(world: Arc<Mutex<World>>, executor: Executor) -> Context {
    Context {
        world,
        queue: Arc::new(Queue::new(1_000)),
        executor,
        clock: Clock::system(),
        settings: settings(),
        rate_limiter: Mutex::new(RateLimiter::new(settings().hub_limits)),
        quarantine: Arc::default(),
        metrics: Metrics::new().unwrap(),
    }
}

fn settings() -> Settings {
    Settings {
        city_linger: Duration::from_secs(60),
        city_sets_per_project: 64,
        unused_city_set_after: Duration::from_secs(300),
        hub_namespace_retention: Duration::from_secs(600),
        projection_retention: Duration::from_secs(3_600),
        orphan_after: Duration::from_secs(60),
        sweep_interval: Duration::from_secs(300),
        release_after: None,
        require_owner: false,
        manage_interpreters: true,
        max_spec_size: 256 * 1024,
        status_interval: Duration::from_millis(250),
        hub_limits: Limits::default(),
        location_checks: false,
        networking: false,
    }
}
