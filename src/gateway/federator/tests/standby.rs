//! A standby reads nothing, writes nothing, and remembers nothing as done.

use super::KINDS;
use crate::{
    api::names::ProjectKey,
    engine::{
        clock::Clock,
        error::Category,
        executor::{Executor, tests::Ground},
        key::{Key, Plane},
        queue::Queue,
    },
    gateway::{
        context::{Context, Settings, Turn},
        federator::{Federator, memory::Memory},
        quarantine::Quarantine,
        world::{Role, World, networking::WorkloadChecks},
    },
    metrics::Metrics,
    plane::watch::Event,
};
use axum::body::Body;
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Complete lists of everything, with these objects.
fn world(project: &ProjectKey, objects: &[(Role, Value)]) -> World {
    let mut world = World::new(KINDS.clone(), WorkloadChecks::default());
    let listed = |role: Role| -> Vec<Event> {
        let of_role = objects.iter().filter(move |(r, _)| *r == role);
        let objects = of_role.map(|(_, o)| Event::Applied(serde_json::from_value(o.clone()).unwrap()));
        [Event::Began, Event::Complete]
            .into_iter()
            .chain(objects)
            .collect()
    };
    for role in world.hub_roles() {
        for event in [Event::Began, Event::Complete] {
            world.hub_event(role, event);
        }
    }
    world.engage(project.clone());
    for role in world.project_roles() {
        for event in listed(role) {
            world.project_event(project, role, event);
        }
    }
    world
}

fn context(world: World, executor: Executor) -> Context {
    let second = Duration::from_secs(1);
    Context {
        world: Arc::new(Mutex::new(world)),
        queue: Arc::new(Queue::new(1)),
        executor,
        clock: Clock::system(),
        settings: Settings {
            city_linger: second,
            unused_city_set_after: second,
            hub_namespace_retention: second,
            orphan_after: second,
            sweep_interval: second,
            release_after: None,
            require_owner: false,
            manage_interpreters: false,
            status_interval: second,
            location_checks: false,
            networking: false,
        },
        quarantine: Quarantine::default(),
        metrics: Metrics::new().unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_standby_did_not_write_is_not_remembered_as_written() {
    let project = ProjectKey::parse("p1").unwrap();
    let namespace = |name, uid| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "resourceVersion": "1"}})
    };
    // Its city can be no label: the project is told, and nothing else is done.
    let deployment = json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "d1", "resourceVersion": "1", "generation": 1},
        "spec": {"cityCode": "not a city"},
    });
    let objects = [
        (Role::Namespaces, namespace("kube-system", "p-uid")),
        (Role::Namespaces, namespace("default", "a1")),
        (Role::Federated(0), deployment.clone()),
    ];
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let service = tower::service_fn(move |_: Request<kube::client::Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let answer = deployment.to_string();
        async { Ok::<_, Infallible>(Response::new(Body::from(answer))) }
    });
    for leads in [false, true] {
        let until = Instant::now() + Duration::from_secs(60 * u64::from(leads));
        let ground = Ground::new(kube::Client::new(service.clone(), "default"), until);
        let ctx = context(world(&project, &objects), Executor::new(ground, "test".into()));
        let key = ctx.world.lock().source_key(0, &project, "default", "web");
        assert_eq!(key.plane, Plane::Project(project.clone()));
        let (failure, memory) = turn(&ctx, &key, &project).await;
        assert_eq!(failure, (!leads).then_some(Category::NotLeader));
        assert_eq!(requests.load(Ordering::Relaxed) > 0, leads);
        assert_eq!(memory.status_written.is_some(), leads, "{memory:?}");
    }
}

/// One turn: how it failed, if it did, and what is remembered then.
async fn turn(ctx: &Context, key: &Key, project: &ProjectKey) -> (Option<Category>, Memory) {
    let federator = Federator::default();
    let end = federator
        .reconcile(&Turn::new(ctx, Instant::now()), key, project)
        .await;
    let memory = federator.memory.lock().remove(key).unwrap_or_default();
    (end.err().map(|failure| failure.category), memory)
}
