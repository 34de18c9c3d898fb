//! Tests of an idle gateway, and of its end: a request that hangs does not delay the end, and the Lease is released
//! only if no late write is possible.

mod carrying;
mod driver;
mod optional_kinds;
mod survey;
mod suspension;
mod teardown;

use super::*;
use crate::{index::fixture, rate_limit::Limits, settings::LocationSource};
use axum::body::{Body, Bytes};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    clock::Clock,
    executor::PlaneAccess,
    metrics::Metrics,
    plan::{Target, WriteResult},
    plane::{
        lease::{Lease, LeaseHandle},
        watch::WatchEvent,
    },
    runtime::{Setup, workers::DRAIN_TIMEOUT},
    store::table::Table,
    testing::lease::Server as LeaseServer,
};
use futures::{FutureExt, StreamExt};
use http::{Method, Request, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

/// A plane that lists these objects by plural, sends no events, and answers writes with an error or never.
#[derive(Clone)]
struct Server {
    objects: Arc<Vec<(&'static str, Value)>>,
    lease: LeaseServer,
    hangs: bool,
    /// True if a write panics.
    broken: bool,
    /// The answer to a write that does not hang.
    refusal: Arc<Value>,
    writes: watch::Sender<usize>,
}

impl Server {
    fn new(hangs: bool, objects: Vec<(&'static str, Value)>) -> Self {
        Self {
            objects: Arc::new(objects),
            lease: LeaseServer::new(),
            hangs,
            broken: false,
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
            assert!(!self.broken, "a defect, as scripted");
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

/// A project with a Workload, to which the gateway adds a finalizer.
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

/// A project with this UID, on the same server.
fn with_uid(mut project: Server, uid: &str) -> Server {
    let objects = Arc::get_mut(&mut project.objects).unwrap();
    objects[0].1["metadata"]["uid"] = json!(uid);
    project
}

fn settings() -> Settings {
    let minute = Duration::from_mins(1);
    Settings {
        city_linger: minute,
        cell_lost_after: Duration::from_mins(5),
        moves_per_city: 8,
        move_timeout: Duration::from_mins(10),
        city_sets_per_project: 64,
        unused_city_set_after: minute,
        hub_namespace_retention: minute,
        projection_retention: minute,
        orphan_after: minute,
        sweep_interval: minute,
        release_after: None,
        require_owner: false,
        manage_interpreters: true,
        max_spec_size: 256 * 1024,
        instance_types: Vec::new(),
        cross_namespace_networks: false,
        status_interval: minute,
        hub_limits: Limits::default(),
        location_source: LocationSource::None,
        networking: false,
    }
}

/// A gateway with this Lease.
fn runtime(hub: Connection, settings: Settings, lease: LeaseHandle) -> Arc<Runtime<Gateway>> {
    let setup = Setup {
        lease,
        identity: "a".to_owned(),
        workers: 4,
        sweep_interval: settings.sweep_interval,
        metrics: Metrics::new().unwrap(),
        clock: Clock::system(),
    };
    let kinds = fedgate_kinds::FederatedKind::builtin().unwrap().into();
    new(hub, kinds, settings, setup)
}

/// A gateway that holds the Lease.
fn gateway(hub: &Server) -> Arc<Runtime<Gateway>> {
    let settings = Settings {
        manage_interpreters: false,
        ..settings()
    };
    runtime(hub.connection(), settings, LeaseHandle::always())
}

fn engaged(name: &str, project: &Server) -> ProjectEvent {
    ProjectEvent::Engaged {
        key: ProjectKey::parse(name).unwrap(),
        connection: project.connection(),
        uid: None,
    }
}

/// A running gateway with a project.
fn running(hub: &Server, project: &Server) -> (Arc<Runtime<Gateway>>, tokio::task::JoinHandle<()>) {
    let gateway = gateway(hub);
    let events = futures::stream::iter([engaged("p1", project)]).chain(futures::stream::pending());
    let work = gateway.clone();
    let task = tokio::spawn(async move { work.run(events, std::future::pending()).await });
    (gateway, task)
}

/// A hub and a project with this many namespaces, each with a copy that needs no write.
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
    let turns = gateway.gauges().queue_added;
    assert!(turns >= 600, "each has had its first: {turns}");
    tokio::time::sleep(60 * settings().sweep_interval).await;
    assert_eq!(gateway.gauges().queue_added, turns);
    assert_eq!((*hub.writes.borrow(), *project.writes.borrow()), (0, 0));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn what_a_server_told_to_wait_is_tried_again_by_each_sweep_and_not_before() {
    let (hub, mut project) = (Server::new(false, Vec::new()), project(false));
    let causes = json!({"causes": [{"reason": "NamespaceTerminating"}]});
    project.refusal = Arc::new(refusal(403, &causes));
    let (_, task) = running(&hub, &project);
    let minute = settings().sweep_interval;
    tokio::time::sleep(minute.mul_f32(0.9)).await;
    assert_eq!(*project.writes.borrow(), 1);
    tokio::time::sleep(3 * minute).await;
    assert_eq!(*project.writes.borrow(), 4);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_defect_in_a_turn_ends_that_turn_alone_and_the_key_is_tried_again() {
    let (hub, mut broken) = (Server::new(false, Vec::new()), project(false));
    broken.broken = true;
    let well = with_uid(project(true), "u2");
    let gateway = gateway(&hub);
    let events = futures::stream::iter([engaged("p1", &broken), engaged("p2", &well)]);
    let work = gateway.clone();
    let events = events.chain(futures::stream::pending());
    let task = tokio::spawn(async move { work.run(events, std::future::pending()).await });
    let minute = Duration::from_mins(1);
    tokio::time::sleep(minute).await;
    let tried = *broken.writes.borrow();
    assert!((3..=12).contains(&tried), "tried {tried} times in a minute");
    assert!(*well.writes.borrow() > 0, "the other project is worked for");
    assert!(gateway.live().is_ok());
    tokio::time::sleep(minute).await;
    assert!(*broken.writes.borrow() > tried, "still");
    assert_eq!(gateway.shared.queue.depth().in_backoff, 1, "the other one hangs");
    task.abort();
}

#[tokio::test]
async fn what_comes_late_of_an_earlier_engagement_is_not_taken_for_the_present_ones() {
    let (hub, project) = (Server::new(false, Vec::new()), project(false));
    let gateway = gateway(&hub);
    let key = ProjectKey::parse("p1").unwrap();
    let plane = Plane::Project(key.clone());
    let planes = &gateway.shared.planes;
    gateway.role.on_project(&gateway.shared, engaged("p1", &project));
    let first = planes.engagement(&plane);
    gateway
        .role
        .on_project(&gateway.shared, ProjectEvent::Removed { key: key.clone() });
    gateway.role.on_project(&gateway.shared, engaged("p1", &project));
    let second = planes.engagement(&plane);
    let late = || serde_json::from_value(fixture::namespace("late", "l1", &json!({}))).unwrap();
    let known = || {
        gateway.shared.index.lock().projects[&key]
            .namespaces
            .get("", "late")
            .is_some()
    };
    let target = Target::cluster(
        plane.clone(),
        &gateway.shared.index.lock().resource(TableId::Namespaces).clone(),
        "late",
    );
    planes.event(
        &plane,
        first,
        TableId::Namespaces,
        WatchEvent::Apply(Box::new(late())),
    );
    planes.object_observed(&target, first, WriteResult::Current(Box::new(late())));
    assert!(!known());
    planes.object_observed(&target, second, WriteResult::Current(Box::new(late())));
    assert!(known());
    let watches = || planes.lock()[&plane].watches.len();
    let before = watches();
    let tables = vec![TableId::CONFIG_MAPS, TableId::SECRETS];
    gateway.role.on_command(
        &gateway.shared,
        Command::WatchReferences(key.clone(), first, tables.clone()),
    );
    assert_eq!(watches(), before);
    gateway.role.on_command(
        &gateway.shared,
        Command::WatchReferences(key.clone(), second, tables.clone()),
    );
    assert_eq!(watches(), before + 2);
    gateway.role.on_command(
        &gateway.shared,
        Command::WatchReferences(key.clone(), second, tables.clone()),
    );
    assert_eq!(watches(), before + 2, "each table is watched once");
}

/// Number of remembered entries, without the hub's rows and the shared strings.
fn kept(gateway: &Runtime<Gateway>) -> Vec<(&'static str, usize)> {
    let depth = gateway.shared.queue.depth();
    let index = gateway.shared.index.lock();
    let bodies = index.hub.write_backs.iter().flat_map(Table::iter);
    vec![
        ("planes", gateway.shared.planes.lock().len()),
        (
            "queue",
            depth.ready + depth.running + depth.delayed + depth.in_backoff,
        ),
        ("quarantine", gateway.shared.quarantine.counts().values().sum()),
        ("executor", gateway.shared.executor.entry_count()),
        ("federator", gateway.role.federator.entry_count()),
        ("projector", gateway.role.projector.entry_count()),
        ("workloads", gateway.role.workloads.entry_count()),
        ("garbage", gateway.role.garbage.suspects().len()),
        ("stranded", gateway.shared.workers.entry_count()),
        ("projects", index.projects.len()),
        ("ties", index.owners.len() + index.claims.len()),
        (
            "sets",
            index.hub.sets.len() + index.intents.deliveries.len() + index.intents.lingering.len(),
        ),
        (
            "refusals",
            index.intents.withdrawing.len() + index.intents.name_taken.len() + index.intents.refused.len(),
        ),
        ("bodies", bodies.filter(|(_, row)| row.body.is_some()).count()),
    ]
}

/// Objects by plural.
type Objects = Vec<(&'static str, Value)>;

/// Objects of a project, and its objects on the hub, each of which needs a write that fails.
fn troubled(n: usize) -> (Objects, Objects) {
    let hub = format!("ns-u-{n}");
    let namespace = |name: &str, uid: &str| ("namespaces", fixture::namespace(name, uid, &json!({})));
    let mut leaving = fixture::leaving("old", "DFW");
    let mut source = fixture::source("web", "DFW");
    for object in [&mut leaving, &mut source] {
        object["metadata"]["annotations"] = json!({keys::FEDERATION_NAMESPACE: hub});
    }
    let mut of_project = project(false).objects.to_vec();
    of_project.retain(|(plural, _)| *plural == "workloads");
    of_project.extend([
        namespace("kube-system", &format!("p-{n}")),
        namespace("default", &format!("u-{n}")),
        ("workloaddeployments", source),
        ("workloaddeployments", leaving),
    ]);
    let labels = json!({keys::UPSTREAM_CLUSTER: format!("cluster-p-{n}"), keys::UPSTREAM_NAMESPACE: "default",
        keys::SKIP_AUTO_PROPAGATION: "true", keys::PROJECT_UID: format!("p-{n}"), keys::CITIES: "lhr"});
    let moved = |mut object: Value| {
        object["metadata"]["namespace"] = json!(hub);
        object
    };
    let forged = moved(fixture::object(&hub, "web-0", &format!("i-{n}")));
    let of_hub = vec![
        ("namespaces", fixture::namespace(&hub, &format!("h-{n}"), &labels)),
        ("instances", forged),
        ("workloaddeployments", moved(fixture::copy("gone", "DFW"))),
        ("workloaddeployments", moved(fixture::copy("old", "DFW"))),
    ];
    (of_project, of_hub)
}

#[tokio::test(start_paused = true)]
async fn projects_that_come_and_go_leave_nothing_behind() {
    const PROJECTS: usize = 30;
    let (projects, hubs): (Vec<_>, Vec<_>) = (0..PROJECTS).map(troubled).unzip();
    let mut hub = Server::new(false, hubs.concat());
    hub.refusal = Arc::new(refusal(422, &json!({"name": "x"})));
    let gateway = gateway(&hub);
    let (tell, mut told) = mpsc::unbounded_channel();
    let events = futures::stream::poll_fn(move |cx| told.poll_recv(cx));
    let work = gateway.clone();
    let task = tokio::spawn(async move { work.run(events, std::future::pending()).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = kept(&gateway);
    let mut most = before.clone();
    for (n, objects) in projects.into_iter().enumerate() {
        let mut project = Server::new(false, objects);
        project.refusal = Arc::new(refusal(
            [403, 422, 500][n % 3],
            &json!({"causes": [{"reason": "ProjectSuspended"}]}),
        ));
        let name = format!("p-{n}");
        tell.send(engaged(&name, &project)).unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        for (most, now) in most.iter_mut().zip(kept(&gateway)) {
            most.1 = most.1.max(now.1);
        }
        let key = ProjectKey::parse(&name).unwrap();
        tell.send(ProjectEvent::Removed { key }).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let grown: Vec<&str> = most
        .iter()
        .zip(&before)
        .filter(|(most, before)| most.1 > before.1)
        .map(|(most, _)| most.0)
        .collect();
    for what in [
        "planes",
        "queue",
        "quarantine",
        "federator",
        "garbage",
        "projects",
        "ties",
        "refusals",
    ] {
        assert!(grown.contains(&what), "nothing was kept of {what}: {grown:?}");
    }
    // All grace periods, the sweep and the pause after a rejection are over.
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(kept(&gateway), before);
    task.abort();
}

/// Runs a gateway until both planes have received a write, and ends it; returns the time until the Lease is released.
async fn end(hub: &Server, project: &Server) -> Duration {
    let lease = Lease::run(&hub.connection(), "fedgate-system", "gate", "a");
    lease.changes().wait_for(|leads| leads).await;
    let gateway = runtime(hub.connection(), settings(), lease.clone());
    let engaged = ProjectEvent::Engaged {
        key: ProjectKey::parse("p1").unwrap(),
        connection: project.connection(),
        uid: None,
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
        (DRAIN_TIMEOUT..Duration::from_secs(2)).contains(&took),
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
