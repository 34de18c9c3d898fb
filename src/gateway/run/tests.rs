//! A gateway at rest, and at its end: what hangs does not hold it up, and the Lease is given back only if nothing may
//! follow.

use super::*;
use crate::{
    api::{keys, names::ProjectKey},
    gateway::world::fixture,
    plane::lease::{Lease, LeaseHandle, tests::Server as LeaseServer},
};
use axum::body::{Body, Bytes};
use http::{Method, Request, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use tokio::sync::{oneshot, watch};

/// A plane that lists these objects by plural, tells no events, and answers writes with an error or never.
#[derive(Clone)]
struct Server {
    objects: Arc<Vec<(&'static str, Value)>>,
    lease: LeaseServer,
    hangs: bool,
    /// What it says to a write if it does not hang.
    refusal: Arc<Value>,
    writes: watch::Sender<usize>,
}

impl Server {
    fn new(hangs: bool, objects: Vec<(&'static str, Value)>) -> Self {
        Self {
            objects: Arc::new(objects),
            lease: LeaseServer::new(),
            hangs,
            refusal: Arc::new(refusal(500, &json!({}))),
            writes: watch::Sender::new(0),
        }
    }

    fn connection(&self) -> Connection {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Connection::of_client(kube::Client::new(service, "default"))
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        if path.contains("/leases") {
            return self.lease.answer(request).await;
        }
        if request.method() != Method::GET {
            self.writes.send_modify(|n| *n += 1);
            if self.hangs {
                return std::future::pending().await;
            }
            let mut response = Response::new(Body::from(self.refusal.to_string()));
            let code = self.refusal["code"]
                .as_u64()
                .and_then(|code| u16::try_from(code).ok());
            *response.status_mut() = http::StatusCode::from_u16(code.unwrap()).unwrap();
            return response;
        }
        if request.uri().query().is_some_and(|q| q.contains("watch=true")) {
            return Response::new(Body::from_stream(futures::stream::pending::<
                Result<Bytes, Infallible>,
            >()));
        }
        let plural = path.rsplit('/').next().unwrap();
        let of_kind = self.objects.iter().filter(|(p, _)| *p == plural);
        let items: Vec<&Value> = of_kind.map(|(_, object)| object).collect();
        let list =
            json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items});
        Response::new(Body::from(list.to_string()))
    }

    async fn is_written_to(&self) {
        self.writes.subscribe().wait_for(|n| *n > 0).await.unwrap();
    }
}

fn refusal(code: u16, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Script",
        "message": "no", "details": details})
}

/// A project with a Workload, which the gateway answers with a finalizer.
fn project(hangs: bool) -> Server {
    let namespace = |name: &str, uid: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "resourceVersion": "1"}});
        ("namespaces", object)
    };
    let workload = json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload",
        "metadata": {"name": "shop", "namespace": "default", "uid": "w1", "resourceVersion": "1", "generation": 1},
        "spec": {
            "placements": [{"name": "all", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}],
            "template": {"spec": {
                "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"},
                            "sandbox": {"containers": [{"name": "web", "image": "shop/web:1"}]}},
                "networkInterfaces": [{"network": {"name": "default"}}],
            }},
        },
    });
    let objects = vec![
        namespace("kube-system", "p1"),
        namespace("default", "a1"),
        ("workloads", workload),
    ];
    Server::new(hangs, objects)
}

fn settings() -> Settings {
    let minute = Duration::from_mins(1);
    Settings {
        city_linger: minute,
        unused_city_set_after: minute,
        hub_namespace_retention: minute,
        orphan_after: minute,
        sweep_interval: minute,
        release_after: None,
        require_owner: false,
        manage_interpreters: true,
        status_interval: minute,
        location_checks: false,
        networking: false,
    }
}

/// A gateway that may write, between a hub and a project.
fn running(hub: &Server, project: &Server) -> (Arc<Gateway>, tokio::task::JoinHandle<()>) {
    let gateway = Gateway::new(Setup {
        hub: hub.connection(),
        kinds: FederatedKind::builtin().unwrap(),
        settings: Settings {
            manage_interpreters: false,
            ..settings()
        },
        lease: LeaseHandle::always(),
        identity: "a".to_owned(),
        workers: 4,
        metrics: Metrics::new().unwrap(),
        clock: Clock::system(),
    });
    let engaged = ProjectEvent::Engaged {
        key: ProjectKey::parse("p1").unwrap(),
        connection: project.connection(),
    };
    let events = futures::stream::iter([engaged]).chain(futures::stream::pending());
    let work = gateway.clone();
    let task = tokio::spawn(async move { work.run(events, std::future::pending()).await });
    (gateway, task)
}

/// A hub and a project with this many namespaces, each with a copy that nobody needs to touch.
fn at_rest(count: usize) -> (Server, Server) {
    let namespace = |name: &str, uid: &str, labels: Value| {
        let metadata = json!({"name": name, "uid": uid, "resourceVersion": "1", "labels": labels});
        (
            "namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
        )
    };
    let project = std::iter::once(namespace("kube-system", "p1", json!({})))
        .chain((0..count).map(|n| namespace(&format!("n-{n}"), &format!("u-{n}"), json!({}))));
    let hub = (0..count).flat_map(|n| {
        let labels = json!({keys::UPSTREAM_CLUSTER: "cluster-p1", keys::UPSTREAM_NAMESPACE: format!("n-{n}"),
            keys::SKIP_AUTO_PROPAGATION: "true", keys::PROJECT_UID: "p1", keys::CITIES: "dfw"});
        let copy = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
            "metadata": {"name": "web", "namespace": format!("ns-u-{n}"), "uid": format!("c-{n}"), "resourceVersion": "1"}});
        [namespace(&format!("ns-u-{n}"), &format!("h-{n}"), labels), ("workloaddeployments", copy)]
    });
    let set = (
        "clusterpropagationpolicies",
        fixture::city_set("cities-dfw", &["DFW"]),
    );
    let hub = hub.chain([set]);
    (
        Server::new(false, hub.collect()),
        Server::new(false, project.collect()),
    )
}

#[tokio::test(start_paused = true)]
async fn what_is_at_rest_takes_no_turns() {
    let (hub, project) = at_rest(300);
    let (gateway, task) = running(&hub, &project);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let turns = gateway.figures().queue_added;
    assert!(turns >= 600, "each has had its first: {turns}");
    tokio::time::sleep(60 * settings().sweep_interval).await;
    assert_eq!(gateway.figures().queue_added, turns);
    assert_eq!((*hub.writes.borrow(), *project.writes.borrow()), (0, 0));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn what_a_server_told_to_wait_is_tried_again_by_each_sweep_and_not_before() {
    let (hub, mut project) = (Server::new(false, Vec::new()), project(false));
    let causes = json!({"causes": [{"reason": "ProjectSuspended"}]});
    project.refusal = Arc::new(refusal(403, &causes));
    let (_, task) = running(&hub, &project);
    let minute = settings().sweep_interval;
    tokio::time::sleep(minute.mul_f32(0.9)).await;
    assert_eq!(*project.writes.borrow(), 1);
    tokio::time::sleep(3 * minute).await;
    assert_eq!(*project.writes.borrow(), 4);
    task.abort();
}

/// Runs a gateway until both planes have been written to, and ends it; how long that took until the Lease was released.
async fn end(hub: &Server, project: &Server) -> Duration {
    let lease = Lease::run(&hub.connection(), "fedgate-system", "gate", "a");
    lease.changes().wait_for(|leads| *leads).await.unwrap();
    let gateway = Gateway::new(Setup {
        hub: hub.connection(),
        kinds: FederatedKind::builtin().unwrap(),
        settings: settings(),
        lease: lease.clone(),
        identity: "a".to_owned(),
        workers: 4,
        metrics: Metrics::new().unwrap(),
        clock: Clock::system(),
    });
    let engaged = ProjectEvent::Engaged {
        key: ProjectKey::parse("p1").unwrap(),
        connection: project.connection(),
    };
    let (stop, stopped) = oneshot::channel();
    let events = futures::stream::iter([engaged]).chain(futures::stream::pending());
    let running = tokio::spawn(async move { gateway.run(events, stopped.map(drop)).await });
    hub.is_written_to().await;
    project.is_written_to().await;
    stop.send(()).unwrap();
    let asked = Instant::now();
    running.await.unwrap();
    lease.release().await;
    asked.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_dead_project_does_not_hold_up_the_end_nor_the_hand_over() {
    let (hub, project) = (Server::new(false, Vec::new()), project(true));
    let took = end(&hub, &project).await;
    assert!(
        (LAST_TURNS..Duration::from_secs(2)).contains(&took),
        "its write was under way: {took:?}"
    );
    assert_eq!(hub.lease.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_hub_write_that_was_given_up_keeps_the_lease_until_it_ends_by_itself() {
    let (hub, project) = (Server::new(true, Vec::new()), project(false));
    let took = end(&hub, &project).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(hub.lease.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn with_planes_that_answer_the_end_comes_at_once() {
    let (hub, project) = (Server::new(false, Vec::new()), project(false));
    let took = end(&hub, &project).await;
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!(hub.lease.holder(), "");
}
