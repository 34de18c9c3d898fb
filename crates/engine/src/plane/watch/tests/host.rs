//! Many planes behind one address: what the log says of an outage, and how many of their lists are refused.

use super::*;
use crate::{
    metrics::{Families, PlaneKind},
    plane::{
        client::{Clients, Connection, Limits},
        health::host::Host,
    },
};
use std::sync::atomic::AtomicUsize;
use tokio::{
    sync::watch::{Receiver, Sender},
    task::JoinSet,
};

const KINDS: usize = 2;

/// How a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    /// No connection, and open watches break.
    Gone,
    /// Each user is refused, as by a server that has just started.
    Starting,
}

/// A server with many planes, which refuses more than this many lists and starts of watches at a time.
#[derive(Clone)]
struct Server {
    mood: Sender<Mood>,
    /// A plane whose requests alone fail.
    broken: Sender<Option<usize>>,
    most: usize,
    under_way: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    retry_after: Option<u32>,
}

impl Server {
    fn new(most: usize) -> Self {
        Self {
            mood: Sender::new(Mood::Well),
            broken: Sender::new(None),
            most,
            under_way: Arc::default(),
            refused: Arc::default(),
            retry_after: None,
        }
    }

    async fn answer(self, plane: usize, request: Request<kube::client::Body>) -> io::Result<Response<Body>> {
        let mut mood: Receiver<Mood> = self.mood.subscribe();
        let now = *mood.borrow_and_update();
        if now == Mood::Gone {
            return Err(io::Error::other("refused"));
        }
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            let mut response = Response::builder().status(429);
            if let Some(seconds) = self.retry_after {
                response = response.header(http::header::RETRY_AFTER, seconds);
            }
            // The API server's own form of it.
            return Ok(response
                .body(Body::from("Too many requests, please try again later."))
                .unwrap());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        if now == Mood::Starting {
            return Ok(Answer::Refuse(403).response());
        }
        if *self.broken.borrow() == Some(plane) {
            return Ok(Answer::Refuse(500).response());
        }
        if !request.uri().query().is_some_and(|q| q.contains("watch=true")) {
            return Ok(Answer::List(1, Vec::new()).response());
        }
        let breaks = futures::stream::once(async move {
            let _ = mood.wait_for(|mood| *mood == Mood::Gone).await;
            Err::<Bytes, _>(io::Error::other("reset"))
        });
        Ok(Response::new(Body::from_stream(breaks)))
    }
}

/// Planes of one host, each with watches.
struct Planes {
    connections: Vec<Connection>,
    statuses: Vec<Arc<WatchStatus>>,
    tasks: JoinSet<()>,
}

fn planes(server: &Server, count: usize, host: &Arc<Host>) -> Planes {
    let metrics = Families::new(&prometheus::Registry::new()).unwrap();
    let clients = Clients::new(Limits::default(), metrics);
    let mut planes = Planes {
        connections: Vec::new(),
        statuses: Vec::new(),
        tasks: JoinSet::new(),
    };
    for n in 0..count {
        let server = server.clone();
        let service = tower::service_fn(move |request| server.clone().answer(n, request));
        let client = clients.plane_of(PlaneKind::Project, Some(host.clone()), service);
        let connection = Connection::new(client);
        let plane = Plane::Project(ProjectKey::parse(&format!("p{n}")).unwrap());
        for kind in 0..KINDS {
            let mut resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
            resource.kind = format!("Kind{kind}");
            let (plane, connection, status) =
                (plane.clone(), connection.clone(), Arc::<WatchStatus>::default());
            planes.statuses.push(status.clone());
            planes.tasks.spawn(async move {
                let selection = WatchSpec {
                    resource,
                    page: SMALL_OBJECTS,
                    namespace: None,
                    labels: None,
                    fields: None,
                    metadata_only: false,
                    unread: &[],
                    may_be_absent: false,
                };
                let (client, health) = (connection.current(), connection.health());
                run(&plane, client, &selection, &status, health, |_| {}, |_| {}).await;
            });
        }
        planes.connections.push(connection);
    }
    planes
}

impl Planes {
    /// Waits until every watch is open and no error is left.
    async fn are_well(&self) {
        let all = async {
            while self
                .statuses
                .iter()
                .any(|status| !status.synced() || status.is_failing())
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(30), all).await.unwrap();
    }
}

fn messages(lines: &[Value]) -> Vec<String> {
    let text = |line: &Value| line["message"].as_str().unwrap().to_owned();
    lines.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_host_that_goes_and_comes_back_makes_two_lines_and_a_plane_alone_its_own() {
    let log = logs::capture(tracing::Level::INFO);
    let (server, host) = (Server::new(usize::MAX), Host::new("https://milo:6443".to_owned()));
    let planes = planes(&server, 50, &host);
    planes.are_well().await;
    assert_eq!(log.take(), [] as [Value; 0]);

    server.mood.send_replace(Mood::Gone);
    tokio::time::sleep(Duration::from_secs(40)).await;
    let lines = log.take();
    assert_eq!(
        messages(&lines),
        ["the host is unreachable; its planes are tried again"]
    );
    assert_eq!(lines[0]["host"], "https://milo:6443");
    assert_eq!(
        (&lines[0]["planes"], &lines[0]["watches"]),
        (&json!(50), &json!(100))
    );
    let prod = Plane::Project(ProjectKey::parse("p7").unwrap());
    assert!(host.covers(&prod), "it has no line of its own");

    // A server that has just started refuses everybody for a while.
    server.mood.send_replace(Mood::Starting);
    tokio::time::sleep(Duration::from_secs(20)).await;
    server.mood.send_replace(Mood::Well);
    planes.are_well().await;
    let lines = log.take();
    assert_eq!(messages(&lines), ["the host answers again"]);
    assert_eq!(
        (&lines[0]["planes"], &lines[0]["watches"]),
        (&json!(50), &json!(100))
    );
    assert!(!host.covers(&prod));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(log.take(), [] as [Value; 0]);

    // One plane alone, with errors.
    server.broken.send_replace(Some(7));
    tokio::time::sleep(Duration::from_mins(6)).await;
    let failing: Vec<Value> = log.take();
    assert_eq!(failing.len(), KINDS, "{failing:?}");
    assert!(
        failing
            .iter()
            .all(|line| line["plane"] == "project p7" || line["plane"] == prod.to_string())
    );
    server.broken.send_replace(None);
    planes.are_well().await;
    assert_eq!(messages(&log.take()), ["the watch goes on"; KINDS]);
}

#[tokio::test(start_paused = true)]
async fn a_plane_that_stays_away_when_its_host_is_back_has_its_own_line() {
    let log = logs::capture(tracing::Level::INFO);
    let (server, host) = (Server::new(usize::MAX), Host::new("https://milo:6443".to_owned()));
    let planes = planes(&server, 10, &host);
    planes.are_well().await;
    server.mood.send_replace(Mood::Gone);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(log.take().len(), 1);
    server.broken.send_replace(Some(3));
    server.mood.send_replace(Mood::Well);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let lines = log.take();
    let mut said = messages(&lines);
    said.sort();
    let own = "a watch fails and is retried: the API server answers with an error";
    assert_eq!(said, [own, own, "the host answers again"]);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line["plane"].as_str().is_some_and(|plane| plane.ends_with("p3")))
            .count(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_admits_few_lists_is_asked_for_few_at_a_time() {
    let log = logs::capture(tracing::Level::INFO);
    for retry_after in [None, Some(2)] {
        let mut server = Server::new(10);
        server.retry_after = retry_after;
        let host = Host::new("https://milo:6443".to_owned());
        let planes = planes(&server, 100, &host);
        planes.are_well().await;
        let refused = server.refused.load(Ordering::Relaxed);
        assert!(
            (1..=20).contains(&refused),
            "{refused} of 400 requests were refused"
        );
        assert!((1..=12).contains(&host.pace.limit()), "{}", host.pace.limit());
        let lines = log.take();
        let said = messages(&lines);
        let pair = [
            "the host has too many requests: lists and starts of watches are sent more slowly",
            "the host has answered all that it had refused",
        ];
        assert!(
            said.len() <= refused && said.chunks(2).all(|lines| lines == pair),
            "{said:?}"
        );
        assert!(said.len() <= 6, "no line for each watch: {said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_host_and_one_that_refuses_delay_no_other() {
    let (mut refusing, well) = (Server::new(0), Server::new(usize::MAX));
    refusing.retry_after = Some(30);
    let [one, other] = ["https://slow:6443", "https://well:6443"].map(|at| Host::new(at.to_owned()));
    let slow = planes(&refusing, 300, &one);
    let well = planes(&well, 300, &other);
    let began = Instant::now();
    well.are_well().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let refused = refusing.refused.load(Ordering::Relaxed);
    assert!(
        refused <= 16,
        "all wait for the time that was asked for: {refused}"
    );
    assert_eq!(one.pace.limit(), 8);
    assert!(slow.statuses.iter().all(|status| !status.synced()));
}
