//! Kinds that a project may serve or not: they are watched once it does, and what it does not serve is not listed.

use super::*;
use crate::index::locations::LocationKind;
use parking_lot::Mutex;

const MINUTE: Duration = Duration::from_mins(1);
const LOCATIONS: &str = "/apis/locations.miloapis.com/v1alpha1";
const NETWORKING: &str = "/apis/networking.datumapis.com/v1alpha";
const SERVICES: &str = "/apis/services.miloapis.com/v1alpha1";
const AZIMUTH: &str = "/apis/azimuth.stackhpc.com/v1alpha1";

/// A project that serves kinds of these versions of API groups, by their paths: each with the plurals.
#[derive(Clone, Default)]
struct Served {
    versions: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
    /// Paths of the requests about these groups, in their order.
    asked: Arc<Mutex<Vec<String>>>,
    /// True while the API server does not answer about its kinds.
    fails: Arc<Mutex<bool>>,
}

impl Served {
    fn serve(&self, version: &'static str, plural: &'static str) {
        self.versions.lock().push((version, plural));
    }

    /// The paths of the requests since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }

    fn connection(&self, server: &Server) -> Connection {
        let (kinds, others) = (self.clone(), server.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (kinds, others) = (kinds.clone(), others.clone());
            async move { Ok::<_, Infallible>(kinds.answer(&others, request).await) }
        });
        Connection::of_client(kube::Client::new(service, "default"))
    }

    async fn answer(&self, server: &Server, request: Request<kube::client::Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let ours = [LOCATIONS, NETWORKING, SERVICES, AZIMUTH];
        let Some(version) = ours.into_iter().find(|version| path.starts_with(version)) else {
            return server.answer(request).await;
        };
        self.asked.lock().push(path.clone());
        let plurals: Vec<&str> = self.of(version);
        let (code, body) = match path.strip_prefix(version) {
            _ if *self.fails.lock() => (500, refusal(500, &json!({})).to_string()),
            Some("") if plurals.is_empty() => (404, "404 page not found\n".to_owned()),
            Some("") => (200, document(version, &plurals).to_string()),
            Some(plural) if plurals.contains(&&plural[1..]) => return server.answer(request).await,
            _ => (404, refusal(404, &json!({})).to_string()),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        response
    }

    fn of(&self, version: &str) -> Vec<&'static str> {
        let all = self.versions.lock();
        let ours = all.iter().filter(|(of, _)| *of == version);
        ours.map(|(_, plural)| *plural).collect()
    }
}

fn document(version: &str, plurals: &[&str]) -> Value {
    let resources: Vec<Value> = plurals
        .iter()
        .map(|name| json!({"name": name, "kind": "K", "namespaced": false, "singularName": "", "verbs": ["list"]}))
        .collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version.trim_start_matches("/apis/"),
        "resources": resources})
}

/// A project whose Workload has its finalizer, so that the next write follows its checks.
fn checked() -> Server {
    let mut server = project(false);
    let objects = Arc::get_mut(&mut server.objects).unwrap();
    let (_, workload) = objects.last_mut().unwrap();
    workload["metadata"]["finalizers"] = json!([keys::WORKLOAD_FINALIZER]);
    server
}

/// A gateway that reads the locations of its project, which waits for them, and the task that runs it.
fn reading(project: &Server, served: &Served) -> (Arc<Runtime<Gateway>>, tokio::task::JoinHandle<()>) {
    let settings = Settings {
        manage_interpreters: false,
        location_source: LocationSource::Auto,
        ..settings()
    };
    let hub = Server::new(false, Vec::new());
    let gateway = runtime(hub.connection(), settings, LeaseHandle::always());
    let event = ProjectEvent::Engaged {
        key: ProjectKey::parse("p1").unwrap(),
        connection: served.connection(project),
        uid: None,
    };
    let events = futures::stream::iter([event]).chain(futures::stream::pending());
    let work = gateway.clone();
    let task = tokio::spawn(async move { work.run(events, std::future::pending()).await });
    (gateway, task)
}

fn watched(gateway: &Runtime<Gateway>) -> Vec<TableId> {
    let plane = Plane::Project(ProjectKey::parse("p1").unwrap());
    let planes = gateway.shared.planes.lock();
    let tables = planes[&plane].watches.iter().map(|(table, _)| *table);
    tables.filter(|table| table.is_for_checks()).collect()
}

/// Case 25 of locations.md §4.
#[tokio::test(start_paused = true)]
async fn what_a_project_does_not_serve_is_not_listed_and_its_workloads_go_on() {
    let (project, served) = (checked(), Served::default());
    let (gateway, task) = reading(&project, &served);
    project.is_written_to().await;
    assert_eq!(served.asked(), [LOCATIONS, NETWORKING, SERVICES]);
    assert_eq!(watched(&gateway), []);
    // Soon again, since the API server may have just started, and later seldom.
    let rounds = async |minutes: u32| {
        tokio::time::sleep(minutes * MINUTE).await;
        let asked = served.asked();
        let rounds = asked.chunks(3);
        rounds
            .filter(|round| *round == [LOCATIONS, NETWORKING, SERVICES])
            .count()
    };
    let (first, next, rest) = (rounds(1).await, rounds(10).await, rounds(60).await);
    assert!((2..=3).contains(&first), "{first}");
    assert!((3..=6).contains(&next), "{next}");
    assert!((6..=9).contains(&rest), "{rest}");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_later_is_watched_and_asked_for_no_more() {
    let (project, served) = (checked(), Served::default());
    served.serve(NETWORKING, "locations");
    let (gateway, task) = reading(&project, &served);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(
        watched(&gateway),
        [TableId::Locations(LocationKind::NetworkLocation)]
    );
    let asked = served.asked();
    let list = format!("{NETWORKING}/locations");
    assert!(asked.contains(&list), "{asked:?}");
    served.serve(LOCATIONS, "locations");
    served.serve(SERVICES, "serviceavailabilities");
    tokio::time::sleep(10 * MINUTE).await;
    let best = [
        TableId::Locations(LocationKind::Location),
        TableId::Availabilities,
    ];
    assert_eq!(watched(&gateway), best);
    served.asked();
    tokio::time::sleep(60 * MINUTE).await;
    let asked = served.asked();
    let about = |path: &&String| [LOCATIONS, NETWORKING, SERVICES].contains(&path.as_str());
    assert_eq!(asked.iter().filter(about).count(), 0, "{asked:?}");
    let replaced = asked.iter().filter(|path| **path == list).count();
    assert_eq!(replaced, 0, "the watch of the kind before has ended");
    task.abort();
}

/// An API server that does not answer about its kinds says nothing of them.
#[tokio::test(start_paused = true)]
async fn until_a_project_says_which_kinds_it_serves_its_workloads_wait() {
    let (project, served) = (checked(), Served::default());
    *served.fails.lock() = true;
    let (_, task) = reading(&project, &served);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(*project.writes.borrow(), 0);
    let asked = served.asked().len();
    assert!((5..=30).contains(&asked), "asked {asked} times in a minute");
    *served.fails.lock() = false;
    project.is_written_to().await;
    task.abort();
}

/// A definition that comes later is noticed: then the project gets what the hub has.
#[tokio::test(start_paused = true)]
async fn a_kind_of_the_platform_is_projected_once_a_project_serves_it() {
    let settings = Settings {
        manage_interpreters: false,
        ..settings()
    };
    let template =
        json!({"metadata": {"name": "basic", "uid": "t1", "resourceVersion": "1"}, "spec": {"label": "a"}});
    let hub = Server::new(false, vec![("clustertemplates", template)]);
    let namespace = json!({"metadata": {"name": "kube-system", "uid": "p1", "resourceVersion": "1"}});
    let (project, served) = (
        Server::new(false, vec![("namespaces", namespace)]),
        Served::default(),
    );
    let kinds = Kinds::load(&["clustertemplates.azimuth.stackhpc.com".to_owned()], None).unwrap();
    let setup = Setup {
        lease: LeaseHandle::always(),
        identity: "a".to_owned(),
        workers: 4,
        sweep_interval: settings.sweep_interval,
        metrics: Metrics::new().unwrap(),
        clock: Clock::system(),
    };
    let gateway = new(hub.connection(), kinds, settings, setup);
    let event = ProjectEvent::Engaged {
        key: ProjectKey::parse("p1").unwrap(),
        connection: served.connection(&project),
        uid: None,
    };
    let events = futures::stream::iter([event]).chain(futures::stream::pending());
    let task = tokio::spawn(async move { gateway.run(events, std::future::pending()).await });
    tokio::time::sleep(MINUTE).await;
    let asked = served.asked();
    assert!(
        asked.len() > 1 && asked.iter().all(|path| path == AZIMUTH),
        "{asked:?}"
    );
    assert_eq!(*project.writes.borrow(), 0);
    served.serve(AZIMUTH, "clustertemplates");
    let written = tokio::time::timeout(60 * MINUTE, project.is_written_to());
    written.await.unwrap();
    let after = served.asked();
    assert_eq!(after[0], AZIMUTH);
    assert!(
        after[1..].iter().all(|path| path.ends_with("/clustertemplates")),
        "{after:?}"
    );
    task.abort();
}
